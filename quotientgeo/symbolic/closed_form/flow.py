"""Derivatives along geodesics of functions of a block's inner products, and with them the first integrals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from quotientgeo.symbolic.closed_form.reduction import Reduced


@dataclass(frozen=True)
class Polar:
    """A block x with velocity v by its length and two rates: v = rate x + y, y orthogonal to x, |y|^2 = turn |x|^2.

    They replace the inner products of factors whose length the equations hold: <x, v> = rate |x|^2 and
    <v, v> = (rate^2 + turn) |x|^2.
    """

    square: sp.Symbol
    rate: sp.Symbol
    turn: sp.Symbol


class Flow:
    """The vector field of the geodesic equation on the numbers of a block."""

    def __init__(self, reduced: Reduced) -> None:
        self.reduced = reduced
        used = set().union(*(value.free_symbols for pair in reduced.coefficients.values() for value in pair))
        vectors = [f for f in reduced.grams if f not in reduced.numbers]
        self.polar = {
            f: Polar(
                reduced.grams[f].point,
                sp.Symbol(f"rate_{f}", real=True),
                sp.Symbol(f"turn_{f}", real=True, nonnegative=True),
            )
            for f in vectors
            if used & {reduced.grams[f].point, reduced.grams[f].mixed}
        }

    @cached_property
    def number_rates(self) -> dict[str, sp.Symbol]:
        """Symbols for v / (x + shift) of the numbers."""
        return {f: sp.Symbol(f"rate_{f}", real=True) for f in self.reduced.grams if f in self.reduced.numbers}

    @cached_property
    def to_polar(self) -> dict[sp.Symbol, sp.Expr]:
        """<x, v> and <v, v> in length and rates."""
        out: dict[sp.Symbol, sp.Expr] = {}
        for factor, polar in self.polar.items():
            gram = self.reduced.grams[factor]
            out |= {gram.mixed: polar.square * polar.rate, gram.speed: polar.square * (polar.rate**2 + polar.turn)}
        return out

    def coefficients(self, factor: str) -> tuple[sp.Expr, sp.Expr]:
        """(A, B) of x'' = A x + B v in length and rates; of a number (x'', 0)."""
        A, B = self.reduced.coefficients[factor]
        return sp.cancel(A.subs(self.to_polar)), sp.cancel(B.subs(self.to_polar))

    @cached_property
    def rates(self) -> Mapping[sp.Symbol, sp.Expr]:
        """Symbol -> its derivative in time."""
        out: dict[sp.Symbol, sp.Expr] = {}
        for factor, gram in self.reduced.grams.items():
            A, B = self.reduced.coefficients[factor]
            if factor in self.reduced.numbers:
                out |= {gram.point: gram.mixed, gram.mixed: A.subs(self.to_polar)}
                continue
            slopes = {
                gram.point: 2 * gram.mixed,
                gram.mixed: gram.speed + A * gram.point + B * gram.mixed,
                gram.speed: 2 * A * gram.mixed + 2 * B * gram.speed,
            }
            if factor not in self.polar:
                out[gram.speed] = slopes[gram.speed].subs(self.to_polar)
                continue
            polar, rate = self.polar[factor], gram.mixed / gram.point
            read = {polar.square: gram.point, polar.rate: rate, polar.turn: gram.speed / gram.point - rate**2}
            for symbol, value in read.items():
                slope = sum((value.diff(s) * by for s, by in slopes.items()), sp.Integer(0))
                out[symbol] = sp.cancel(slope.subs(self.to_polar))
        return out

    def derivative(self, value: sp.Expr, times: int = 1) -> sp.Expr:
        """d/dt along every geodesic."""
        for _ in range(times):
            value = sp.cancel(sum((value.diff(s) * rate for s, rate in self.rates.items()), sp.Integer(0)))
        return value

    def is_constant(self, value: sp.Expr) -> bool:
        """Whether it is a first integral: its derivative cancels to zero."""
        return bool(self.derivative(value) == 0)
