"""Sharpness of trained diagonal networks, maximised to convergence in numpy: what the package's own maximiser has to reach.

Shares no code with the package. The loss |X (u * v) - y|^2 / n rises by 2 g'delta + |X delta|^2 / n when beta = u * v moves by
delta, g = X'(X beta - y) / n. A measure is a map z -> delta on a ball |z| <= radius, written so that nothing cancels.

tests/data/diagonal_reference.json: reference values of 2 x 50 networks at three radii, with their conventions;
tests/data/diagonal_reference_weights.npz: their weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).parents[1] / "data"
SETS = ("gauss", "a0")
RADII = ("0.01", "0.1", "1.0")
MAX_STEPS = 5000
SETTLED = 1e-12  # change of a step, relative to the radius
DIRECTIONS = 3  # leading directions of the quadratic part, each tried with both signs
RANDOM_STARTS = 2


@dataclass(frozen=True)
class Networks:
    """X (n, d), y (n,); u, v (networks, d); truth (d,): the regression vector behind y."""

    X: np.ndarray
    y: np.ndarray
    u: np.ndarray
    v: np.ndarray
    truth: np.ndarray

    @property
    def beta(self) -> np.ndarray:
        return self.u * self.v

    @property
    def gram(self) -> np.ndarray:
        """X'X / n."""
        return self.X.T @ self.X / len(self.y)

    @property
    def slope(self) -> np.ndarray:
        """g (networks, d), half of the loss's gradient in beta."""
        return (self.beta @ self.X.T - self.y) @ self.X / len(self.y)

    @property
    def loss(self) -> np.ndarray:
        return ((self.beta @ self.X.T - self.y) ** 2).mean(1)

    def rise(self, delta: np.ndarray) -> np.ndarray:
        """loss(beta + delta) - loss(beta), (networks,)."""
        return 2 * (self.slope * delta).sum(1) + ((delta @ self.X.T) ** 2).mean(1)

    def rise_gradient(self, delta: np.ndarray) -> np.ndarray:
        return 2 * self.slope + 2 * (delta @ self.X.T) @ self.X / len(self.y)


@cache
def reference() -> dict[str, Any]:
    return json.loads((DATA / "diagonal_reference.json").read_text())


@cache
def networks(name: str) -> Networks:
    """The data as the reference's conventions make it, and the stored weights."""
    settings = reference()["sets"][name]["settings"]
    rng = np.random.default_rng(settings["seed"])
    X = rng.standard_normal((200, settings["d"]))[: settings["n"]]
    truth, chosen = np.zeros(settings["d"]), rng.permutation(settings["d"])[: settings["k"]]
    truth[chosen] = rng.standard_normal(settings["k"])
    weights = np.load(DATA / "diagonal_reference_weights.npz")
    return Networks(X, X @ truth, weights[f"{name}_u"], weights[f"{name}_v"], truth)


class Measure(NamedTuple):
    """How z moves the product, and how a gradient in delta is pulled back to z.

    halves: z has this many times d entries. square: |xi|^2 = square |z|^2. delta, pull: of (u, v, z) and (u, v, z, gradient).
    """

    halves: int
    square: float
    delta: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    pull: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _invariant() -> Measure:
    """(u e^z, v e^z)."""
    return Measure(1, 2.0, lambda u, v, z: u * v * np.expm1(2 * z), lambda u, v, z, a: 2 * u * v * np.exp(2 * z) * a)


def _invariant_step() -> Measure:
    """(u s, v s) with s = 1 + z + z^2 / 2: w + xi - Gamma(xi, xi) / 2."""

    def delta(u: np.ndarray, v: np.ndarray, z: np.ndarray) -> np.ndarray:
        t = z + z**2 / 2
        return u * v * t * (2 + t)

    return Measure(1, 2.0, delta, lambda u, v, z, a: 2 * u * v * (1 + z + z**2 / 2) * (1 + z) * a)


def _adaptive() -> Measure:
    """(u (1 + p), v (1 + q)), z = (p, q)."""

    def delta(u: np.ndarray, v: np.ndarray, z: np.ndarray) -> np.ndarray:
        p, q = np.split(z, 2, 1)
        return u * v * (p + q + p * q)

    def pull(u: np.ndarray, v: np.ndarray, z: np.ndarray, a: np.ndarray) -> np.ndarray:
        p, q = np.split(z, 2, 1)
        return np.concatenate([u * v * (1 + q) * a, u * v * (1 + p) * a], 1)

    return Measure(2, 1.0, delta, pull)


def _euclid() -> Measure:
    """(u + p, v + q), z = (p, q)."""

    def delta(u: np.ndarray, v: np.ndarray, z: np.ndarray) -> np.ndarray:
        p, q = np.split(z, 2, 1)
        return u * q + v * p + p * q

    def pull(u: np.ndarray, v: np.ndarray, z: np.ndarray, a: np.ndarray) -> np.ndarray:
        p, q = np.split(z, 2, 1)
        return np.concatenate([(v + q) * a, (u + p) * a], 1)

    return Measure(2, 1.0, delta, pull)


MEASURES = {"inv": _invariant(), "inv2": _invariant_step(), "adaptive": _adaptive(), "euclid": _euclid()}


class Maxima(NamedTuple):
    """value (networks,); z (networks, entries) where it is reached; residual (networks,): |gradient/|gradient| - z/radius|."""

    value: np.ndarray
    z: np.ndarray
    residual: np.ndarray


def maximise(nets: Networks, measure: Measure, rho: float) -> Maxima:
    """The best of many starts, each iterated by z <- radius * gradient / |gradient| until it stands still.

    That step climbs wherever the rise is convex in z, and stands still exactly at points where the gradient is outward normal to
    the sphere (first-order conditions of a maximum over the ball).
    """
    radius = rho / np.sqrt(measure.square)
    best: Maxima | None = None
    for start in _starts(nets, measure):
        found = _climb(nets, measure, radius * start, radius)
        if best is None:
            best = found
            continue
        better = found.value > best.value
        best = Maxima(
            *(np.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(found, best, strict=True))
        )
    assert best is not None
    return best


def _climb(nets: Networks, measure: Measure, z: np.ndarray, radius: float) -> Maxima:
    for _ in range(MAX_STEPS):
        towards = radius * _direction(nets, measure, z)
        change, z = np.abs(towards - z).max(), towards
        if change < SETTLED * radius:
            break
    residual = np.linalg.norm(_direction(nets, measure, z) - z / radius, axis=1)
    return Maxima(nets.rise(measure.delta(nets.u, nets.v, z)), z, residual)


def _direction(nets: Networks, measure: Measure, z: np.ndarray) -> np.ndarray:
    gradient = measure.pull(nets.u, nets.v, z, nets.rise_gradient(measure.delta(nets.u, nets.v, z)))
    return gradient / np.linalg.norm(gradient, axis=1, keepdims=True)


def _starts(nets: Networks, measure: Measure) -> list[np.ndarray]:
    """Unit vectors (networks, entries): leading directions of the quadratic part with both signs, and random ones."""
    count, d = nets.u.shape
    zero = np.zeros((count, measure.halves * d))
    scale = measure.pull(nets.u, nets.v, zero, np.ones((count, d))).reshape(count, measure.halves, 1, d)
    jacobian = np.concatenate([nets.X * scale[:, half] for half in range(measure.halves)], 2)  # (networks, n, entries)
    leading = np.linalg.svd(jacobian, full_matrices=False)[2][:, :DIRECTIONS]
    rng = np.random.default_rng(0)
    random = rng.standard_normal((RANDOM_STARTS, *zero.shape))
    random /= np.linalg.norm(random, axis=2, keepdims=True)
    return [sign * leading[:, k] for k in range(DIRECTIONS) for sign in (1.0, -1.0)] + list(random)


class TrustRegion(NamedTuple):
    """max 2 g'delta + delta' M delta over |delta| <= radius: value, the maximiser, and its multiplier (at least max eig M)."""

    value: float
    delta: np.ndarray
    multiplier: float


def trust_region(M: np.ndarray, g: np.ndarray, radius: float) -> TrustRegion:
    """By the secular equation |(lambda - M)^-1 g| = radius, lambda >= max(eig M, 0): a certificate of the global maximum.

    M (d, d) symmetric, g (d,). Where g has no part along the top eigenvectors (the hard case) one of them fills the radius.
    """
    values, vectors = np.linalg.eigh(M)
    parts = vectors.T @ g
    top = max(values[-1], 0.0)
    size = np.linalg.norm(g)

    def length(shift: float) -> float:
        """|delta| at lambda = top + shift."""
        with np.errstate(divide="ignore"):
            return float(np.linalg.norm(parts / (top - values + shift)))

    low, high = 0.0, size / radius + 1e-300
    floor = 1e-15 * max(top, size / radius)
    if length(floor) < radius:  # hard case, or an interior maximum at M <= 0
        shift = floor
    else:
        for _ in range(200):
            middle = np.sqrt(max(low, floor) * high)
            low, high = (middle, high) if length(middle) > radius else (low, middle)
        shift = (low + high) / 2
    coefficients = parts / (top - values + shift)
    missing = radius**2 - coefficients @ coefficients
    if values[-1] >= 0 and missing > 0:
        coefficients[-1] += np.copysign(
            np.sqrt(coefficients[-1] ** 2 + missing) - abs(coefficients[-1]), coefficients[-1]
        )
    delta = vectors @ coefficients
    return TrustRegion(float(2 * g @ delta + delta @ M @ delta), delta, top + shift)


def straight_in_the_domain(nets: Networks, rho: float) -> np.ndarray:
    """mixbox, an ablation: 2 g'delta + delta' M delta over |delta| <= sqrt(2) rho and delta / beta >= -1, (networks,).

    Frank and Wolfe with full steps: the rise is convex in delta, so that going to the maximiser of its linearisation climbs.
    """
    radius = np.sqrt(2) * rho
    best = np.full(len(nets.u), -np.inf)
    for direction in np.linalg.svd(nets.X, full_matrices=False)[2][:2]:
        for sign in (1.0, -1.0):
            delta = _farthest(nets, np.broadcast_to(sign * direction, nets.u.shape), radius)
            value = nets.rise(delta)
            for _ in range(MAX_STEPS):
                delta = _farthest(nets, nets.rise_gradient(delta), radius)
                before, value = value, nets.rise(delta)
                if np.abs(value - before).max() < 1e-6 * value.min():
                    break
            best = np.maximum(best, value)
    return best


def _farthest(nets: Networks, direction: np.ndarray, radius: float) -> np.ndarray:
    """The point of the ball within the domain that is farthest along a direction: its multiple, cut at beta + delta = 0."""

    def cut(multiple: np.ndarray) -> np.ndarray:
        delta = multiple[:, None] * direction
        beyond = delta * np.sign(nets.beta) < -np.abs(nets.beta)
        return np.where(beyond, -nets.beta, delta)

    low = np.zeros(len(direction))
    high = np.full(len(direction), 1e6 * radius) / np.linalg.norm(direction, axis=1)
    for _ in range(60):
        middle = (low + high) / 2
        inside = np.linalg.norm(cut(middle), axis=1) <= radius
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return cut(low)
