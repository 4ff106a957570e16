"""Coupled linear equations: solved by elimination, checked by inserting, refused where a pivot is of Sylvester type."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from sympy import Identity, Rational, Trace

from quotientgeo.errors import NotDerivableError
from quotientgeo.groups import GL, Translation
from quotientgeo.symbolic.algebra import Alphabet, Polynomial, one_over, vanishes
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import derive, elimination
from quotientgeo.symbolic.derivation.elimination import _depth, eliminate
from tests.symbolic.derivation.declarations import gram
from tests.symbolic.implicit.declarations import FOLDED


def letters() -> tuple[Alphabet, Polynomial, Polynomial, Polynomial, Polynomial, Polynomial]:
    alphabet = Alphabet()
    for letter in ("X", "Y", "J", "L"):
        alphabet.declare(letter, ("h", "h"))
    G = alphabet.declare("G", ("n", "h"))
    return alphabet, G.T * G, *(alphabet[letter] for letter in "XYJL")


def test_two_unknowns_in_every_equation() -> None:
    """X P + 2 Y = J and 2 X + Y = L: each value is a formula of what is known, and both equations hold."""
    alphabet, P, X, Y, J, L = letters()
    equations = {"X": X * P + Y * 2 - J, "Y": X * 2 + Y - L}
    found = eliminate(equations)
    assert list(found) == ["X", "Y"]
    assert all(not {"X", "Y"} & set(value.symbols()) for value in found.values())
    assert all(equation.substitute(found).is_zero for equation in equations.values())
    assert found["X"] == (J - L * 2) * (P - alphabet.identity("h") * 4).inverse()


def test_the_simplest_pivot_comes_first() -> None:
    """X (1 + P) + Y P = J needs no inverse when Y = L - X P comes first; starting with X would need two."""
    alphabet, P, X, Y, J, L = letters()
    one = alphabet.identity("h")
    found = eliminate({"X": X * (one + P * P) + Y * P - J, "Y": Y + X * P - L})
    assert found["X"] == J - L * P
    assert found["Y"] == L - J * P + L * P * P


def test_what_elimination_does_not_part_is_refused_by_name() -> None:
    alphabet, P, X, Y, J, L = letters()
    sylvester = {"X": X * P + P * X + Y - J, "Y": X + P * Y + Y * P - L}
    with pytest.raises(NotDerivableError, match=r"couples factors, and elimination does not part X, Y: .*Sylvester"):
        eliminate(sylvester)
    with pytest.raises(NotDerivableError, match=r"^the equation for X is of Sylvester type"):
        eliminate({"X": X * P + P * X - J})
    one = alphabet.identity("h")
    nested = {"X": X * (one + P) + Y * P * P - J, "Y": X * P * P + Y * (one + P * 3) - L}
    with pytest.raises(NotDerivableError, match="the equation for Y is solved by an inverse of inverses only"):
        eliminate(nested)


def folding(p: Any, a: Any, b: Any) -> Any:
    """|motion of o + W b|^2 beside |xi_b|^2 + |W xi_b|^2 + |xi_W|^2: coupled, and curved."""
    moved, other = (x.o + p.W * x.b + x.W * p.b for x in (a, b))
    weight = Identity(p.b.shape[0]) + gram(p.W)
    return Trace(moved.T * other) + Trace(a.b.T * weight * b.b) + Trace(a.W.T * b.W)


def twins(p: Any, a: Any, b: Any) -> Any:
    """Weights P and Q that couple two factors of one shape."""
    cross = Trace(a.U.T * b.V) + Trace(b.U.T * a.V)
    one = Identity(p.U.shape[1])
    return Trace((2 * one + gram(p.V)) * a.U.T * b.U) + Trace(a.V.T * b.V) + Rational(1, 2) * cross


def test_three_unknowns_one_of_them_skew() -> None:
    alphabet, P, X, Y, J, L = letters()
    for letter in "ST":
        alphabet.declare(letter, ("h", "h"), "skew")
    S, T, one = alphabet["S"], alphabet["T"], alphabet.identity("h")
    equations = {"X": X * (one + P) + Y + S * 2 - J, "Y": X + Y - L, "S": S * 3 + T}
    found = eliminate(equations)
    assert all(equation.substitute(found).is_zero for equation in equations.values())
    assert found["S"] == T * Fraction(-1, 3)
    with pytest.raises(NotDerivableError, match="one-sided solution"):  # P is not skew
        eliminate({"S": S - P, "X": X + S - J})


def test_numbers_and_columns_in_one_system() -> None:
    alphabet = Alphabet()
    u, x, y = (alphabet.declare(letter, ("h", 1)) for letter in "uxy")
    c, w = (alphabet.declare(letter, (1, 1)) for letter in "cw")
    equations = {"c": c * 3 + u.T * x - w, "x": x + u * c - y}
    found = eliminate(equations)
    assert all(vanishes(equation.substitute(found)) for equation in equations.values())
    assert found["c"] == (w - u.T * y) * (alphabet.identity(1) * 3 - u.T * u).inverse()


def test_inverses_inside_numbers_count() -> None:
    alphabet, P, *_, J, _ = letters()
    inside = (alphabet.identity("h") + P).inverse().trace()
    assert [_depth(value) for value in (J, J.scaled(inside), J.scaled(one_over(inside)))] == [0, 1, 2]


def test_a_solution_that_grows_is_left_to_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, P, X, Y, J, L = letters()
    equations = {"X": X * P + Y * 2 - J, "Y": X * 2 + Y - L}
    monkeypatch.setattr(elimination, "LONGEST", 3)
    with pytest.raises(NotDerivableError, match="a solution of more than 3 words"):
        eliminate(equations)


ALONE = Symmetry(
    "alone", GL("k"), {"U": ("n", "h"), "V": ("n", "h"), "Z": ("k", "k")}, lambda A, U, V, Z: (U, V, Z * A)
)


def test_coupled_metrics_have_closed_forms_where_they_decouple() -> None:
    geometry = derive(FOLDED, Metric("folding", FOLDED, folding))
    assert geometry.equations is None
    assert {claim.status for claim in geometry.certificate} == {"proven for all sizes"}
    assert str(geometry.gradient["W"].polynomial) == "dW - do b'"
    metric = Metric("twins", ALONE, lambda p, a, b: twins(p, a, b) + Trace((p.Z * p.Z.T).I * a.Z * b.Z.T))
    geometry = derive(ALONE, metric)
    assert geometry.equations is None
    false = [claim.name for claim in geometry.certificate if claim.status == "false"]
    assert not {"gradient", "acceleration", "energy_conserved", "metric_compatible"} & set(false)
    proven = {claim.name for claim in geometry.certificate if claim.status == "proven for all sizes"}
    assert {"gradient", "acceleration", "metric_compatible"} <= proven


def test_the_projector_of_a_product_group_is_eliminated_too() -> None:
    """Both translations move H: each equation of the vertical Gram operator holds both letters."""
    one = Symmetry(
        "shift",
        (Translation("n", "h"), Translation("n", "h")),
        {"G": ("n", "h"), "H": ("n", "h")},
        lambda t, u, G, H: (G + t, H + t + u),
    )
    flat = Metric("flat", one, lambda p, a, b: Trace(a.G.T * b.G) + Trace(a.H.T * b.H))
    geometry = derive(one, flat)
    assert geometry.projector is not None
    assert {claim.status for claim in geometry.certificate} == {"proven for all sizes"}
