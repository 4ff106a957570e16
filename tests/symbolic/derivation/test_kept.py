"""Which assumptions the action keeps by its form: ranks, entries, columns, lengths and inverses."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import DiagMatrix, DiagonalOf, Trace

from quotientgeo.groups import GL, ComplexDiagonal, NonzeroDiagonal, Orthogonal, Scaling, Translation
from quotientgeo.symbolic.algebra.parts import ComplexPart
from quotientgeo.symbolic.declaration import Group, Metric, Symmetry
from quotientgeo.symbolic.derivation import derive_formulas
from quotientgeo.symbolic.derivation.levels.kept import keeps_assumptions
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.squares import sum_of_squares


def length(p: Any) -> Any:
    return Trace(p.F.T * p.F)


def gram(p: Any) -> Any:
    return p.F.T * p.F


def columns(p: Any) -> Any:
    return DiagMatrix(DiagonalOf(p.F.T * p.F))


def pairs(p: Any) -> Any:
    return ComplexPart(p.F.T * p.F, "half")


@pytest.mark.parametrize(
    ("group", "action", "weight", "assumed", "kept"),
    [
        (Scaling(), lambda c, F: c * F, length, "F is not zero", True),
        (Translation("n", "d"), lambda t, F: F + t, length, "F is not zero", False),
        (GL("d"), lambda A, F: F * A.inv(), gram, "full column rank of F", True),
        (Translation("n", "d"), lambda t, F: F + t, gram, "full column rank of F", False),
        (NonzeroDiagonal("d"), lambda A, F: F * A, columns, "no column of F is zero", True),
        (Orthogonal("n"), lambda Q, F: Q * F, columns, "no column of F is zero", True),
        (GL("d"), lambda A, F: F * A.inv(), columns, "no column of F is zero", False),
        (ComplexDiagonal("d"), lambda z, F: F * z, pairs, "no pair of columns of F is zero", True),
        (NonzeroDiagonal("d"), lambda A, F: F * A, pairs, "no pair of columns of F is zero", True),
        (GL("d"), lambda A, F: F * A.inv(), pairs, "no pair of columns of F is zero", False),
    ],
)
def test_factors(group: Group, action: Any, weight: Any, assumed: str, kept: bool) -> None:
    symmetry = Symmetry("own", group, {"F": ("n", "d")}, action)

    def inner(p: Any, a: Any, b: Any) -> Any:
        found = weight(p)
        return found * Trace(a.F.T * b.F) if found.is_Matrix is not True else Trace(found * a.F.T * b.F)

    check(symmetry, inner, assumed, kept)


@pytest.mark.parametrize(
    ("group", "action", "assumed", "kept"),
    [
        (NonzeroDiagonal("d"), lambda A, w: A * w, "no entry of w is zero", True),
        (GL("d"), lambda A, w: A * w, "no entry of w is zero", False),
        (Translation("d"), lambda t, w: w + t, "no entry of w is zero", False),
    ],
)
def test_entries(group: Group, action: Any, assumed: str, kept: bool) -> None:
    symmetry = Symmetry("own", group, {"w": ("d", 1)}, action)
    check(symmetry, lambda p, a, b: Trace(DiagMatrix(p.w) ** 2 * a.w * b.w.T), assumed, kept)


def test_pairs_of_entries() -> None:
    """Of a row, which a complex diagonal matrix multiplies from the right."""
    symmetry = Symmetry("own", ComplexDiagonal("d"), {"F": (1, "d")}, lambda z, F: F * z)
    check(symmetry, lambda p, a, b: Trace(pairs(p) * a.F.T * b.F), "no pair of entries of F is zero", True)


def check(symmetry: Symmetry, inner: Any, assumed: str, kept: bool) -> None:
    geometry = derive_formulas(symmetry, Metric("own", symmetry, inner))
    ranks = Ranks(geometry)
    assert sum_of_squares(geometry, ranks) is not None
    assert ranks.assumptions() == [assumed]
    assert keeps_assumptions(geometry, ranks) is kept


def test_inverses_are_looked_at_where_nothing_else_is_assumed() -> None:
    """(F'F)^-1 may be lost by a translation; by a change of basis it is not."""

    def inner(p: Any, a: Any, b: Any) -> Any:
        return Trace(gram(p).I * a.F.T * b.F)

    for group, action, kept in (
        (GL("d"), lambda A, F: F * A.inv(), True),
        (Translation("n", "d"), lambda t, F: F + t, False),
    ):
        symmetry = Symmetry("own", group, {"F": ("n", "d")}, action)
        geometry = derive_formulas(symmetry, Metric("own", symmetry, inner))
        assert keeps_assumptions(geometry, Ranks(geometry)) is kept
