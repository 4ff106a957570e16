"""The functions of time that closed forms are made of, analytic in their parameters: no square root of a parameter is left.

SymPy knows their derivatives in time; ``functions_hold`` compares these with the definitions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy as sp
from sympy.core.function import ArgumentIndexError

from quotientgeo.errors import CertificateError


class Cosine(sp.Function):
    """Cosine(k, t) = cos(sqrt(k) t), which is cosh(sqrt(-k) t) for negative k; entire in k."""

    nargs = 2

    @classmethod
    def eval(cls, k: sp.Expr, t: sp.Expr) -> sp.Expr | None:
        return sp.Integer(1) if k.is_zero or t.is_zero else None

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        _require_time(self, argindex, 2)
        k, t = self.args
        return -k * Sine(k, t)


class Sine(sp.Function):
    """Sine(k, t) = sin(sqrt(k) t) / sqrt(k), which is t for k = 0 and sinh(sqrt(-k) t) / sqrt(-k) for negative k; entire in k."""

    nargs = 2

    @classmethod
    def eval(cls, k: sp.Expr, t: sp.Expr) -> sp.Expr | None:
        return t if k.is_zero or t.is_zero else None

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        _require_time(self, argindex, 2)
        return Cosine(*self.args)


class Scale(sp.Function):
    """Scale(k, b, t) = (1 + b t)^2 + k t^2: the squared distance from the origin of a point that moves on a straight line."""

    nargs = 3

    @classmethod
    def eval(cls, k: sp.Expr, b: sp.Expr, t: sp.Expr) -> sp.Expr | None:
        return sp.Integer(1) if t.is_zero else None

    def fdiff(self, argindex: int = 3) -> sp.Expr:
        _require_time(self, argindex, 3)
        k, b, t = self.args
        return 2 * b * (1 + b * t) + 2 * k * t


class Turn(sp.Function):
    """Turn(k, b, t) = atan2(sqrt(k) t, 1 + b t) / sqrt(k), which is t / (1 + b t) for k = 0: the time in which a geodesic of a
    cone runs along its base. Analytic in k where 1 + b t > 0."""

    nargs = 3

    @classmethod
    def eval(cls, k: sp.Expr, b: sp.Expr, t: sp.Expr) -> sp.Expr | None:
        return sp.Integer(0) if t.is_zero else None

    def fdiff(self, argindex: int = 3) -> sp.Expr:
        _require_time(self, argindex, 3)
        return 1 / Scale(*self.args)


def definition(node: sp.Expr) -> sp.Expr:
    """One of the four functions in elementary ones, for positive k."""
    if isinstance(node, Scale | Turn):
        k, b, t = node.args
        return (
            (1 + b * t) ** 2 + k * t**2 if isinstance(node, Scale) else sp.atan2(sp.sqrt(k) * t, 1 + b * t) / sp.sqrt(k)
        )
    k, t = node.args
    return sp.cos(sp.sqrt(k) * t) if isinstance(node, Cosine) else sp.sin(sp.sqrt(k) * t) / sp.sqrt(k)


@cache
def functions_hold() -> None:
    """The derivatives in time are those of the definitions, cos^2 + sin^2 = 1, and the values at t = 0 are right.

    Shown for k > 0; both sides are analytic in k.

    Raises:
        CertificateError: one is not.
    """
    w, t = sp.symbols("w t", positive=True)
    b = sp.Symbol("b", real=True)
    for node in (Cosine(w**2, t), Sine(w**2, t), Scale(w**2, b, t), Turn(w**2, b, t)):
        spelled, slope = definition(node), node.diff(t).replace(is_own, definition)
        if sp.simplify(spelled.diff(t) - slope) != 0 or sp.simplify(spelled.subs(t, 0) - node.subs(t, 0)) != 0:
            raise CertificateError(f"the derivative of {node} in time is not {slope}, or its value at 0 is wrong")
    circle = Cosine(w**2, t) ** 2 + w**2 * Sine(w**2, t) ** 2
    if sp.simplify(circle.replace(is_own, definition) - 1) != 0:
        raise CertificateError("Cosine^2 + k Sine^2 is not 1")


def is_own(node: Any) -> bool:
    """Whether it is one of the four functions."""
    return isinstance(node, Cosine | Sine | Scale | Turn)


def _require_time(node: sp.Function, argindex: int, time: int) -> None:
    if argindex != time:
        raise ArgumentIndexError(node, argindex)
