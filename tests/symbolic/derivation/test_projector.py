"""The horizontal part as a formula: where there is one, what it claims, what is refused; degrees of freedom."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import sympy as sp
from sympy import Trace

from quotientgeo.errors import ArgumentError
from quotientgeo.groups import GL
from quotientgeo.symbolic.algebra import Alphabet, polynomial_from_sympy
from quotientgeo.symbolic.declaration import Metric, Names, Symmetry
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula, certify, derive_formulas, steps
from tests.symbolic.derivation.declarations import CHAIN, PAIR, ROTATED, chain_inner, euclidean, formulas, gram

HORIZONTAL = ("horizontal_momentum", "horizontal_projects", "horizontal_difference")


def test_the_mixed_metric_has_a_closed_projector() -> None:
    """2 P X Q = P xi_H' H - G' xi_G Q, typed here."""
    geometry = formulas("mixed")
    assert geometry.projector is not None
    assert geometry.horizontal is not None
    n, m, h = sp.symbols("n m h", integer=True, positive=True)
    G, xi_G = sp.MatrixSymbol("G", n, h), sp.MatrixSymbol("xi_G", n, h)
    H, xi_H = sp.MatrixSymbol("H", m, h), sp.MatrixSymbol("xi_H", m, h)
    X = (xi_H.T * H * gram(H).I - gram(G).I * G.T * xi_G) / 2
    read = [polynomial_from_sympy(e, geometry.alphabet) for e in (X, xi_G + G * X, xi_H - H * X.T)]
    assert geometry.projector["X"].polynomial == read[0]
    assert geometry.horizontal["G"].polynomial == read[1]
    assert geometry.horizontal["H"].polynomial == read[2]
    assert all(claim.status == "proven for all sizes" for claim in certify(geometry, "abcde", HORIZONTAL))


def test_the_invariant_metric_has_none_and_says_so_by_none() -> None:
    geometry = formulas("invariant")
    assert geometry.projector is None
    assert geometry.horizontal is None
    assert str(geometry.vertical_gram["X"].polynomial) == "G' G X (G' G)^-1 + (H' H)^-1 X H' H"
    assert not {claim.name for claim in certify(geometry, "b")} & set(HORIZONTAL)


def _put(geometry: Geometry, **fields: dict[str, Any]) -> Geometry:
    changed = {
        field: {
            key: MatrixFormula.derived(formula.name, formula.arguments, values.get(key, formula.polynomial))
            for key, formula in getattr(geometry, field).items()
        }
        for field, values in fields.items()
    }
    return dataclasses.replace(geometry, **changed)


def test_wrong_projectors_are_refused() -> None:
    geometry = formulas("mixed")
    assert geometry.projector is not None
    letters = geometry.alphabet
    xi = {f: letters[geometry.names.tangent(f)] for f in geometry.names.factors}
    nothing = _put(geometry, horizontal=xi)  # leaves every tangent alone: a projection, on everything
    assert certify(nothing, "ab", ("horizontal_projects",)).holds
    assert not certify(nothing, "b", ("horizontal_momentum",)).holds
    everything = _put(geometry, horizontal={f: x - x for f, x in xi.items()})  # takes all: a projection, on nothing
    assert certify(everything, "ab", ("horizontal_projects", "horizontal_momentum")).holds
    assert not certify(everything, "b", ("horizontal_difference",)).holds
    half = {f: x * 2 - v.polynomial for (f, x), v in zip(xi.items(), (geometry.horizontal or {}).values(), strict=True)}
    assert not certify(_put(geometry, horizontal=half), "b", ("horizontal_momentum",)).holds
    doubled = {"X": geometry.projector["X"].polynomial * 2}
    assert not certify(_put(geometry, projector=doubled), "bde", ("horizontal_difference",)).holds
    operator = {"X": geometry.vertical_gram["X"].polynomial.T}
    assert not certify(_put(geometry, vertical_gram=operator), "bde", ("vertical_gram",)).holds


def test_a_product_group_is_solved_letter_by_letter_where_it_decouples() -> None:
    two = Symmetry(
        "two",
        (GL("h"), GL("k")),
        {"G": ("n", "h"), "H": ("m", "h"), "U": ("n", "k"), "V": ("m", "k")},
        lambda A, B, G, H, U, V: (G * A.inv(), H * A.T, U * B.inv(), V * B.T),
    )

    def inner(p: Any, a: Any, b: Any) -> sp.Expr:
        first = Trace(gram(p.H) * a.G.T * b.G) + Trace(gram(p.G) * a.H.T * b.H)
        return first + Trace(gram(p.V) * a.U.T * b.U) + Trace(gram(p.U) * a.V.T * b.V)

    geometry = derive_formulas(two, Metric("mixed", two, inner))
    assert geometry.projector is not None
    assert list(geometry.projector) == ["X_1", "X_2"]
    assert all(claim.status == "proven for all sizes" for claim in certify(geometry, "abde", HORIZONTAL))


def test_letters_that_wait_for_one_another_are_solved_in_turn() -> None:
    """B Y + X = J holds two unknowns, and so does what is left after it; of Sylvester type, they give nothing."""
    alphabet = Alphabet()
    names = Names(("G",), ("A", "C"), ("X", "Y"))
    for letter in ("X", "Y", "J", "L"):
        alphabet.declare(letter, ("h", "h"))
    alphabet.declare("B", ("h", "h"), "invertible")
    G = alphabet.declare("G", ("n", "h"))
    P = G.T * G
    X, Y, J, L, B = (alphabet[letter] for letter in "XYJLB")
    found = steps.projector(names, {"X": J, "Y": L}, {"X": B * Y + X, "Y": P * X})
    assert found is not None
    assert found["X"] == P.inverse() * L
    assert found["Y"] == B.inverse() * (J - P.inverse() * L)
    assert steps.projector(names, {"X": J, "Y": L}, {"X": X * P + P * X + Y, "Y": X + P * Y + Y * P}) is None
    assert steps.projector(names, {"X": J, "Y": L}, {"X": X, "Y": B * X}) is None  # nothing says what Y is


def test_an_inverse_that_exists_in_the_algebra_only_is_no_projector() -> None:
    """K = X G G' with G of shape 4 x 2: the inverse of G G' can be written, and does not exist."""
    left = Symmetry("left", GL(4), {"G": (4, 2)}, lambda A, G: (A * G,))
    flat = Metric("flat", left, lambda p, a, b: Trace(a.G.T * b.G))
    geometry = derive_formulas(left, flat)
    assert str(geometry.vertical_gram["X"].polynomial) == "X G G'"
    assert geometry.projector is None
    wide = Symmetry("left", GL(2), {"G": (2, 4)}, lambda A, G: (A * G,))
    assert derive_formulas(wide, Metric("flat", wide, lambda p, a, b: Trace(a.G.T * b.G))).projector is not None


def test_degrees_of_freedom() -> None:
    n, m, h = sp.symbols("n m h")
    for name in ("invariant", "mixed"):
        total, orbit, quotient = formulas(name).dimension()
        assert [sp.expand(x) for x in (total, orbit, quotient)] == [n * h + m * h, h**2, n * h + m * h - h**2]
        assert formulas(name).dimension({"n": 768, "m": 768, "h": 64}) == (98304, 4096, 94208)
    chain = derive_formulas(CHAIN, Metric("own", CHAIN, chain_inner))
    assert chain.dimension({"n": 5, "m": 4, "h": 3, "k": 2}) == (15 + 6 + 8, 9 + 4, 29 - 13)
    rotated = derive_formulas(ROTATED, Metric("own", ROTATED, euclidean))
    assert rotated.dimension({"n": 5, "m": 4, "h": 3}) == (27, 3, 24)
    assert rotated.dimension({"n": 5, "m": 4, "h": 1}).orbit == 0


def test_orbits_where_the_group_is_not_free_are_measured() -> None:
    """At h > n the pair keeps 4 numbers: a general 2 x 2 matrix G H'."""
    assert formulas("mixed").dimension({"n": 2, "m": 2, "h": 3}) == (12, 8, 4)
    both = Symmetry("both", GL("h"), {"V": ("h", "h")}, lambda A, V: (A * V * A.inv(),))
    conjugated = derive_formulas(both, Metric("flat", both, lambda p, a, b: Trace(a.V.T * b.V)))
    assert conjugated.dimension({"h": 4}) == (16, 12, 4)  # the eigenvalues are left
    with pytest.raises(
        ArgumentError, match="no formula shows that orbits have the dimension of the group: give the sizes"
    ):
        conjugated.dimension()
    with pytest.raises(ArgumentError, match="choose smaller sizes"):
        conjugated.dimension({"h": 64})
    with pytest.raises(ArgumentError, match="positive integer for each of n, m, h"):
        formulas("mixed").dimension({"n": 2})
    assert PAIR.groups[0].size == "h"
