"""Diagonal linear networks f(x) = x'(u * v): sharpness to second order in its radius, and exactly where that is possible.

The loss |X (u * v) - y|^2 is a quadratic function of beta = u * v. With M = X'X and g = X'(X beta_0 - y) at the starting point it
rises by 2 g'delta + delta' M delta when beta moves by delta: a sum over coordinates i and pairs (i, j). Two coordinates with
free symbols therefore stand for any number of them, and what is derived for two is proven for every width d and every X. The mean
over n examples divides all by n. Source of the question: da Silva, Dangel, Oore (ICML 2025), section 5.1 and appendix E.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

import sympy as sp

from quotientgeo.errors import ArgumentError
from quotientgeo.symbolic.examples.rescaling import B, RescalingPair, T

U = sp.symbols("u_i u_j", real=True, nonzero=True)
V = sp.symbols("v_i v_j", real=True, nonzero=True)
ELEMENTS = sp.symbols("a_i a_j", real=True, nonzero=True)
BETA = sp.symbols("beta_i beta_j", real=True, nonzero=True)  # of the starting point: beta_0
GRADIENT = sp.symbols("g_i g_j", real=True)  # half of the loss's gradient in beta at beta_0
GRAM = sp.ImmutableDenseMatrix(2, 2, sp.symbols("M_ii M_ij M_ij M_jj", real=True))  # X'X
ERROR = sp.symbols("e_i e_j", real=True)  # beta_0 - beta_*, which is g where X'X = I


@dataclass(frozen=True)
class SecondOrder:
    """A rise linear'z + z' quadratic z + O(|z|^3) in the coordinates z of a displacement."""

    coordinates: tuple[sp.Symbol, ...]
    linear: sp.ImmutableDenseMatrix
    quadratic: sp.ImmutableDenseMatrix

    @property
    def form(self) -> sp.Expr:
        z = sp.Matrix(self.coordinates)
        return (self.linear.T * z + z.T * self.quadratic * z)[0]

    def orthonormal(self) -> SecondOrder:
        """For X'X = I, where g = beta_0 - beta_* = e."""
        unit = dict(zip((*GRADIENT, GRAM[0, 0], GRAM[0, 1], GRAM[1, 1]), (*ERROR, 1, 0, 1), strict=True))
        return self._map(lambda entry: sp.factor(entry.subs(unit)))

    def on_beta(self) -> SecondOrder:
        """In beta = u * v alone, if it is a function of it."""
        return self._map(
            lambda entry: sp.factor(entry.subs({u: beta / v for u, v, beta in zip(U, V, BETA, strict=True)}))
        )

    def _map(self, change: Callable[[sp.Expr], sp.Expr]) -> SecondOrder:
        return SecondOrder(self.coordinates, self.linear.applyfunc(change), self.quadratic.applyfunc(change))


@dataclass(frozen=True)
class DiagonalMeasure:
    """How one measure moves a diagonal network.

    name: "invariant" or "mixed" (exact geodesics), "invariant step" or "mixed step" (second-order steps), "adaptive" (first
    order, elementwise), "euclidean".
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in MEASURES:
            raise ArgumentError(f"measure {self.name!r} of a diagonal network: choose one of {', '.join(MEASURES)}")

    @property
    def _move(self) -> Move:
        return MEASURES[self.name]()

    @property
    def coordinates(self) -> tuple[sp.Symbol, ...]:
        """Of a displacement: b_i, b_j; for what moves u and v apart p_i, p_j, q_i, q_j."""
        return tuple(sp.symbols(self._move[0], real=True))

    @cached_property
    def moved(self) -> list[tuple[sp.Expr, sp.Expr]]:
        """(u, v) of both coordinates after the displacement."""
        return [self._move[1](U[k], V[k], *self.coordinates[k::2]) for k in range(2)]

    @cached_property
    def squared_norm(self) -> sp.Expr:
        """What the ball bounds by rho^2."""
        return sp.expand(sum(self._move[2](U[k], V[k], *self.coordinates[k::2]) for k in range(2)))

    @cached_property
    def rise(self) -> sp.Expr:
        """loss - loss at the starting point, exactly: 2 g'delta + delta' M delta."""
        delta = sp.Matrix([sp.simplify(u * v - U[k] * V[k]) for k, (u, v) in enumerate(self.moved)])
        return (2 * sp.Matrix(GRADIENT).T * delta + delta.T * GRAM * delta)[0]

    @cached_property
    def change_along_the_orbit(self) -> sp.Expr:
        """The rise from (a u, v / a) minus the rise from (u, v), an a for each coordinate; zero for what has the symmetry."""
        moved = {
            **{u: a * u for a, u in zip(ELEMENTS, U, strict=True)},
            **{v: v / a for a, v in zip(ELEMENTS, V, strict=True)},
        }
        return sp.simplify(self.rise.subs(moved, simultaneous=True) - self.rise)

    @cached_property
    def second_order(self) -> SecondOrder:
        """The Taylor polynomial of the rise in the displacement."""
        zero = dict.fromkeys(self.coordinates, 0)
        linear = [self.rise.diff(z).subs(zero) for z in self.coordinates]
        quadratic = [[self.rise.diff(z, w).subs(zero) / 2 for w in self.coordinates] for z in self.coordinates]
        return SecondOrder(
            self.coordinates,
            sp.ImmutableDenseMatrix(linear).applyfunc(sp.factor),
            sp.ImmutableDenseMatrix(quadratic).applyfunc(sp.factor),
        )


Move = tuple[str, Callable[..., tuple[sp.Expr, sp.Expr]], Callable[..., sp.Expr]]


@cache
def _along(metric: str, step: bool = False) -> Move:
    """Coordinates, move and squared norm of a horizontal displacement, all from the derived geometry of one pair."""
    pair = RescalingPair(metric)
    profile = pair.step if step else pair.profile.subs(T, 1)

    def move(u: sp.Expr, v: sp.Expr, b: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        return u * profile.subs(B, b), v * profile.subs(B, b)

    def norm(u: sp.Expr, v: sp.Expr, b: sp.Expr) -> sp.Expr:
        return pair.squared_norm.subs({B: b, pair.point[0]: u, pair.point[1]: v}, simultaneous=True)

    return "b_i b_j", move, norm


@cache
def _apart(relative: bool) -> Move:
    """u and v move on straight lines, by p + q and p - q: relative to themselves, or as they are."""

    def move(u: sp.Expr, v: sp.Expr, p: sp.Expr, q: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        return (u + (p + q) * u, v + (p - q) * v) if relative else (u + p + q, v + p - q)

    def norm(u: sp.Expr, v: sp.Expr, p: sp.Expr, q: sp.Expr) -> sp.Expr:
        return (p + q) ** 2 + (p - q) ** 2

    return "p_i p_j q_i q_j", move, norm


MEASURES: dict[str, Callable[[], Move]] = {
    "invariant": partial(_along, "invariant"),
    "invariant step": partial(_along, "invariant", step=True),
    "mixed": partial(_along, "mixed"),
    "mixed step": partial(_along, "mixed", step=True),
    "adaptive": partial(_apart, True),
    "euclidean": partial(_apart, False),
}
