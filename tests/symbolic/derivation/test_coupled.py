"""Metrics whose blocks are coupled: proven by completing squares, and not where the sum of squares is degenerate."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from sympy import DiagMatrix, Trace

from quotientgeo.groups import Translation
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Claim, certify
from quotientgeo.symbolic.derivation.levels.coupled import _diagonalised, left_alone
from quotientgeo.symbolic.derivation.pipeline import _declared
from tests.symbolic.derivation.declarations import PAIR, mixed
from tests.symbolic.derivation.elementwise import DIAGONAL, Inner, elementwise

CLAIM = "metric_positive_definite"
FOLDED = Symmetry(
    "folded",
    Translation("h"),
    {"b": ("h", 1), "o": ("m", 1), "W": ("m", "h")},
    lambda t, b, o, W: (b + t, o - W * t, W),
    lambda b, o, W: o + W * b,
)


def dressed(p: Any, a: Any, b: Any, rest: int = 1) -> Any:
    """The motion of o + W b, beside that of the parts."""
    moved, other = (x.o + p.W * x.b + x.W * p.b for x in (a, b))
    return Trace(moved.T * other) + rest * (Trace(a.b.T * b.b) + Trace(a.W.T * b.W))


def crossed(factor: Fraction) -> Inner:
    """The mixed metric and a product of the two tangents; |factor| < 1 leaves it a metric."""

    def inner(p: Any, a: Any, b: Any) -> Any:
        products = Trace(a.G.T * p.G * b.H.T * p.H) + Trace(b.G.T * p.G * a.H.T * p.H)
        return mixed(p, a, b) + products * factor.numerator / factor.denominator

    return inner


def entries(factor: Fraction) -> Inner:
    def inner(p: Any, a: Any, b: Any) -> Any:
        weight = DiagMatrix(p.u).I * DiagMatrix(p.v).I
        products = Trace(weight * a.u * b.v.T) + Trace(weight * b.u * a.v.T)
        return elementwise(p, a, b) + products * factor.numerator / factor.denominator

    return inner


def claim(symmetry: Symmetry, inner: Inner, levels: str = "ade") -> Claim:
    return certify(_declared(symmetry, Metric("own", symmetry, inner)), levels, [CLAIM])[CLAIM]


@pytest.mark.parametrize(
    ("symmetry", "inner", "squares"),
    [
        (FOLDED, dressed, "|xi_W|^2 + |xi_b|^2 + |xi_o + W xi_b + xi_W b|^2"),
        (PAIR, crossed(Fraction(1, 2)), "|1/2 H xi_G' + xi_H G'|^2 + 3/4 |H xi_G'|^2"),
        (
            DIAGONAL,
            entries(Fraction(-1, 3)),
            "|diag(u)^-1 diag(xi_u) - 1/3 diag(v)^-1 diag(xi_v)|^2 + 8/9 |diag(v)^-1 diag(xi_v)|^2",
        ),
    ],
    ids=["folded", "pair", "diagonal"],
)
def test_coupled_metrics_are_proven(symmetry: Symmetry, inner: Inner, squares: str) -> None:
    found = claim(symmetry, inner)
    assert found.status == "proven for all sizes"
    assert found.levels[0].residual == f"<xi, xi> = {squares}, where all terms are zero only for xi = 0"


@pytest.mark.parametrize(
    ("symmetry", "inner"),
    [
        (FOLDED, lambda p, a, b: dressed(p, a, b, 0)),
        (PAIR, crossed(Fraction(1))),
        (PAIR, crossed(Fraction(3, 2))),
        (DIAGONAL, entries(Fraction(1))),
        (DIAGONAL, entries(Fraction(-2))),
    ],
    ids=["folded", "pair, degenerate", "pair, indefinite", "diagonal, degenerate", "diagonal, indefinite"],
)
def test_degenerate_and_indefinite_ones_are_refuted(symmetry: Symmetry, inner: Inner) -> None:
    found = claim(symmetry, inner)
    assert found.status == "false"
    assert found.witness is not None
    assert found.levels[0].outcome == "undecided"


def test_completing_squares() -> None:
    """L D L' of rational matrices; one that is not semi-definite has none."""
    half, one = Fraction(1, 2), Fraction(1)
    combinations = _diagonalised([[one, half, 0], [half, one, one], [0, one, 2 * one]])  # type: ignore[list-item]
    assert combinations is not None
    total = [[Fraction(0)] * 3 for _ in range(3)]
    for c, weights in combinations:
        for i, a in weights.items():
            for j, b in weights.items():
                total[i][j] += c * a * b
    assert total == [[one, half, 0], [half, one, one], [0, one, 2 * one]]
    assert _diagonalised([[one, 2 * one], [2 * one, one]]) is None
    assert _diagonalised([[Fraction(0), one], [one, one]]) is None
    assert _diagonalised([[one, one], [one, one]]) == [(1, {0: 1, 1: 1})]


def test_what_the_squares_leave_alone() -> None:
    """x + y = 0 and y = 0 leave y alone, and then x; x + y = 0 by itself leaves nothing."""
    both = [(Fraction(1), {0: Fraction(1), 1: Fraction(1)}), (Fraction(1), {1: Fraction(1)})]
    assert left_alone(both, ["x", "y"], ()) == [1]
    assert left_alone(both, ["x", "y"], ["y"]) == [0]
    assert left_alone(both[:1], ["x", "y"], ()) == []
    assert left_alone(both[:1], ["x", "x"], ()) == []
