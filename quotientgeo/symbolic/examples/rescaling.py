"""Two numbers (u, v) of which only u v is seen, under (u, v) -> (a u, v / a): the geometry of both examples of the paper.

The scalar toy is one such pair, a diagonal network of width d is d of them. Source: da Silva, Dangel, Oore (ICML 2025), metrics
of equations (9) and (10) at n = m = h = 1. Nothing below is a formula of the paper: all follows from the action and the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy as sp

from quotientgeo.errors import ArgumentError, CertificateError
from quotientgeo.symbolic.examples.claims import Claim, prove
from quotientgeo.symbolic.examples.coordinates import Coordinates
from quotientgeo.symbolic.examples.spelling import spelled

T = sp.Symbol("t", real=True)  # time along a geodesic, which a displacement reaches at 1
B = sp.Symbol("b", real=True)  # relative velocity of a horizontal vector: xi_u / u = xi_v / v = b
RHO = sp.Symbol("rho", positive=True)
ELEMENT = sp.Symbol("a", real=True, nonzero=True)

WEIGHTS: dict[str, Callable[[sp.Symbol, sp.Symbol], tuple[sp.Expr, sp.Expr]]] = {
    "invariant": lambda u, v: (u**-2, v**-2),  # P^-1 and Q^-1 for P = u^2, Q = v^2
    "mixed": lambda u, v: (v**2, u**2),  # Q and P
}


@dataclass(frozen=True)
class RescalingPair:
    """One pair of numbers and a metric on it.

    metric: "invariant" or "mixed". names: what the two numbers are called.
    """

    metric: str
    names: tuple[str, str] = ("u", "v")

    def __post_init__(self) -> None:
        if self.metric not in WEIGHTS:
            raise ArgumentError(f"metric {self.metric!r} of a rescaling pair: choose one of {', '.join(WEIGHTS)}")

    @cached_property
    def point(self) -> tuple[sp.Symbol, sp.Symbol]:
        u, v = sp.symbols(self.names, real=True, nonzero=True)
        return u, v

    @cached_property
    def coordinates(self) -> Coordinates:
        return Coordinates(self.point, sp.ImmutableDenseMatrix(sp.diag(*WEIGHTS[self.metric](*self.point))))

    @property
    def moved(self) -> tuple[sp.Expr, sp.Expr]:
        """The point after the action of a."""
        u, v = self.point
        return ELEMENT * u, v / ELEMENT

    @cached_property
    def vertical(self) -> list[sp.Expr]:
        """Velocity along the orbit: the action's derivative at the identity."""
        return [entry.diff(ELEMENT).subs(ELEMENT, 1) for entry in self.moved]

    @cached_property
    def horizontal(self) -> list[sp.Expr]:
        """The vectors orthogonal to the orbit, with their relative velocity b as parameter: solved for, not assumed."""
        xi = sp.symbols([f"xi_{name}" for name in self.names], real=True)
        (second,) = sp.solve(self.coordinates.inner(xi, self.vertical), xi[1])
        return [sp.simplify(entry.subs(xi[0], B * self.point[0])) for entry in (xi[0], second)]

    @cached_property
    def squared_norm(self) -> sp.Expr:
        """|xi|^2 of the horizontal vector with relative velocity b."""
        return sp.factor(self.coordinates.inner(self.horizontal, self.horizontal))

    @cached_property
    def profile(self) -> sp.Expr:
        """phi(t; b) with phi(0) = 1, phi'(0) = b, such that (u phi, v phi) is the horizontal geodesic; by SymPy's dsolve.

        Raises:
            CertificateError: the two geodesic equations disagree on phi, or dsolve finds no solution of these initial values.
        """
        phi = sp.Function("phi")(T)
        first, second = self.coordinates.geodesic_equation([entry * phi for entry in self.point], T)
        u, v = self.point
        prove("one equation", "both coordinates ask for the same profile", first / u - second / v)
        return _solve(sp.simplify(first / u), phi, sp.Integer(1), B)

    @cached_property
    def geodesic(self) -> list[sp.Expr]:
        """The horizontal geodesic as a function of t and b."""
        return [entry * self.profile for entry in self.point]

    @cached_property
    def step(self) -> sp.Expr:
        """The profile of the second-order step w + xi - 1/2 Gamma(xi, xi), at t = 1."""
        gamma = self.coordinates.christoffel(self.horizontal, self.horizontal)
        return sp.expand(sp.simplify((self.point[0] + self.horizontal[0] - gamma[0] / 2) / self.point[0]))

    @cached_property
    def largest_b(self) -> sp.Expr:
        """The largest |b| of a horizontal vector with |xi| <= rho."""
        return sp.simplify(sp.sqrt(RHO**2 / (self.squared_norm / B**2)))

    @cached_property
    def radius(self) -> sp.Expr:
        """The least rho at which a horizontal geodesic from here fails to reach t = 1; infinite for a complete metric.

        A geodesic ends where its profile, and with it u v, reaches zero.
        """
        shortest = self.profile.subs({T: 1, B: -self.largest_b})
        found = sp.solve(shortest, RHO)
        return found[0] if found else sp.oo

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Every step, each with residuals that SymPy simplified to zero."""
        return tuple(self._claims())

    def _claims(self) -> Iterator[Claim]:
        u, v = self.point
        x, y = self.names
        weights = WEIGHTS[self.metric](*self.point)
        stretched = [entry.diff(q) for entry, q in zip(self.moved, self.point, strict=True)]  # the action on vectors
        pulled = [self._at(self.moved, w) * a**2 for w, a in zip(weights, stretched, strict=True)]
        yield prove(
            "invariance",
            r"The metric is invariant: moving point and vectors by $a$ changes no inner product, for every $a \ne 0$.",
            *(moved - w for moved, w in zip(pulled, weights, strict=True)),
        )
        yield prove(
            "horizontal",
            rf"A vector is horizontal exactly when $\xi_{x} / {x} = \xi_{y} / {y}$; this common value is called $b$.",
            self.horizontal[0] / u - B,
            self.horizontal[1] / v - B,
            self.coordinates.inner(self.horizontal, self.vertical),
        )
        velocity = [entry.diff(T) for entry in self.geodesic]
        yield prove(
            "geodesic",
            rf"$({x} \varphi, {y} \varphi)$ with $\varphi = {spelled(self.profile)}$ solves the geodesic equation and starts "
            rf"at the point with the velocity $(b {x}, b {y})$.",
            *self.coordinates.geodesic_equation(self.geodesic, T),
            *(entry.subs(T, 0) - start for entry, start in zip(self.geodesic, self.point, strict=True)),
            *(entry.subs(T, 0) - start for entry, start in zip(velocity, self.horizontal, strict=True)),
        )
        along = Coordinates(self.point, self._at(self.geodesic, self.coordinates.metric))
        yield prove(
            "constant speed",
            rf"It keeps its speed, $|\xi|^2 = {spelled(self.squared_norm)}$, and stays horizontal.",
            along.inner(velocity, velocity) - self.squared_norm,
            along.inner(velocity, [self._at(self.geodesic, entry) for entry in self.vertical]),
        )
        yield prove(
            "second-order step",
            rf"The step $w + \xi - \tfrac12 \Gamma(\xi, \xi)$ multiplies both numbers by ${spelled(self.step)}$, the Taylor "
            r"polynomial of $\varphi$ at $t = 1$ to second order.",
            self.step - sp.series(self.profile.subs(T, 1), B, 0, 3).removeO(),
        )

    def _at(self, point: Sequence[sp.Expr], expression: Any) -> Any:
        """An expression in the coordinates, evaluated at another point."""
        return expression.subs(dict(zip(self.point, point, strict=True)), simultaneous=True)


def general_invariant_geodesic() -> tuple[sp.Expr, sp.Expr, Claim]:
    """The geodesic of the invariant metric from x with any velocity, horizontal or not; each number moves by itself.

    Returns:
        the equation that was solved (its left-hand side, zero on solutions), its solution, and the claim that it is one.
    """
    x, eta = sp.Symbol("x", real=True, nonzero=True), sp.Symbol("eta", real=True)
    curve = sp.Function("x")(T)
    (equation,) = Coordinates((x,), sp.ImmutableDenseMatrix([[x**-2]])).geodesic_equation([curve], T)
    solution = _solve(equation, curve, x, eta)
    claim = prove(
        "every geodesic of the invariant metric",
        rf"${spelled(solution)}$ solves $x'' = x'^2 / x$ with $x(0) = x$, $x'(0) = \eta$.",
        sp.simplify(equation.subs(curve, solution).doit()),
        solution.subs(T, 0) - x,
        solution.diff(T).subs(T, 0) - eta,
    )
    return equation, solution, claim


def _solve(equation: sp.Expr, function: sp.Expr, start: sp.Expr, velocity: sp.Expr) -> sp.Expr:
    """The solution of a second-order equation with given initial values, checked by insertion."""
    time = sp.Symbol("time")  # dsolve's Liouville method wants a symbol without assumptions
    plain = sp.Function("profile")(time)
    found = sp.dsolve(equation.subs(function, plain.subs(time, T)).subs(T, time).doit(), plain, hint="Liouville")
    for candidate in found if isinstance(found, list) else [found]:
        constants = sorted(candidate.rhs.free_symbols - {time} - equation.free_symbols, key=str)
        values = [candidate.rhs.subs(time, 0) - start, candidate.rhs.diff(time).subs(time, 0) - velocity]
        for solved in sp.solve(values, constants, dict=True):
            solution = sp.simplify(candidate.rhs.subs(solved)).subs(time, T)
            if sp.simplify(equation.subs(function, solution).doit()) == 0:
                return solution
    raise CertificateError(f"SymPy found no solution of {equation} = 0 with the initial values {start} and {velocity}")
