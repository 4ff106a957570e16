"""The oracle's maximum over the ball: scipy's trust-constr from 20 starts, each result polished on the sphere.

maximise(case, metric, rho) -> Search         everything that was tried; .best is the maximum
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import BFGS, NonlinearConstraint, minimize

from tests.oracle.landscape import Landscape
from tests.oracle.models import Case

STARTS = 20
ITERATIONS = 150
START_RADIUS = 0.9
EXPECTED_WARNINGS = ("delta_grad == 0.0", "Singular Jacobian matrix")  # trust-constr's own, at flat spots
Vector = np.ndarray
Objective = Callable[[Vector], tuple[float, Vector]]


@dataclass(frozen=True)
class Attempt:
    """One start: where it began, what trust-constr reached, and what is left after the polish."""

    kind: str
    trust_constr: float
    value: float
    y: Vector
    evaluations: int
    stationarity: float  # |g - (g.y) y| / |g| at y: zero at a maximum on the sphere
    multiplier: float  # g.y: positive where the maximum presses against the ball


@dataclass(frozen=True)
class Search:
    """All attempts of one maximisation."""

    landscape: Landscape
    attempts: tuple[Attempt, ...]

    @property
    def best(self) -> Attempt:
        return max(self.attempts, key=lambda attempt: attempt.value)

    def reaching(self, fraction: float) -> int:
        """How many starts reach this fraction of the best value."""
        return sum(attempt.value >= fraction * self.best.value for attempt in self.attempts)


def starts(landscape: Landscape, count: int, seed: int) -> list[tuple[str, Vector]]:
    """Along the gradient at the centre, against it, then random directions, all at |y| = 0.9."""
    gradient = landscape.value_and_gradient(np.zeros(landscape.dimension))[1]
    generator = np.random.default_rng(seed)
    directions = [("gradient", gradient), ("minus gradient", -gradient)]
    directions += [("random", generator.standard_normal(landscape.dimension)) for _ in range(count - 2)]
    return [(kind, START_RADIUS * y / np.linalg.norm(y)) for kind, y in directions[:count]]


def trust_constr(landscape: Landscape, start: Vector) -> Vector:
    """scipy's trust-constr on |y|^2 <= 1; returns a point of the ball."""
    scale = max(abs(landscape.value_and_gradient(start)[0]), 1e-12)

    def objective(y: Vector) -> tuple[float, Vector]:
        value, gradient = landscape.value_and_gradient(y)
        return -value / scale, -gradient / scale

    ball = NonlinearConstraint(
        lambda y: y @ y, -np.inf, 1.0, jac=lambda y: 2 * y[None], hess=lambda y, v: 2 * v[0] * np.eye(len(y))
    )
    options = {"maxiter": ITERATIONS, "gtol": 1e-6, "xtol": 1e-8}
    with warnings.catch_warnings():
        for message in EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        found = minimize(
            objective, start, jac=True, method="trust-constr", hess=BFGS(), constraints=[ball], options=options
        ).x
    return found / max(1.0, float(np.linalg.norm(found)))


def polish(landscape: Landscape, y: Vector) -> Vector:
    """L-BFGS over y = u / |u|: maxima of a trained model's sharpness lie on the sphere."""

    def objective(u: Vector) -> tuple[float, Vector]:
        length = np.linalg.norm(u)
        value, gradient = landscape.value_and_gradient(u / length)
        return -value, -(gradient - u * (u @ gradient) / length**2) / length

    options = {"maxiter": 300, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(objective, y / np.linalg.norm(y), jac=True, method="L-BFGS-B", options=options).x
    return found / np.linalg.norm(found)


def maximise(case: Case, metric: str, rho: float, count: int = STARTS, seed: int = 0) -> Search:
    """The maximum of L(Exp(xi)) - L over |xi| <= rho, from `count` starts."""
    landscape = Landscape(case, metric, rho)
    attempts = []
    for kind, start in starts(landscape, count, seed):
        before = landscape.evaluations
        y = trust_constr(landscape, start)
        reached, candidates = landscape.value_and_gradient(y)[0], [y, polish(landscape, y)]
        value, index = max((landscape.value_and_gradient(point)[0], i) for i, point in enumerate(candidates))
        y = candidates[index]
        gradient = landscape.value_and_gradient(y)[1]
        tangential = np.linalg.norm(gradient - y * (y @ gradient)) / np.linalg.norm(gradient)
        evaluations = landscape.evaluations - before
        attempts.append(Attempt(kind, reached, value, y, evaluations, float(tangential), float(y @ gradient)))
    return Search(landscape, tuple(attempts))
