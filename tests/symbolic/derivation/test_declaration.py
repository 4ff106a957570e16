"""What a user may write, and the message for everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy as sp
from sympy import MatrixSymbol, Trace

from quotientgeo.errors import DeclarationError
from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import derive, derive_formulas
from tests.symbolic.derivation.declarations import CHAIN, PAIR, gram, invariant, metric, mixed

H_SIZE = sp.Symbol("h", integer=True, positive=True)


def declare(**changes: Any) -> Symmetry:
    given: dict[str, Any] = {
        "name": "pair",
        "group": GL("h"),
        "factors": {"G": ("n", "h"), "H": ("m", "h")},
        "action": lambda A, G, H: (G * A.inv(), H * A.T),
        "preserves": lambda G, H: G * H.T,
    }
    return Symmetry(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "my pair"}, "symmetry name 'my pair' must be an identifier"),
        ({"name": "lambda"}, "must be an identifier"),
        ({"factors": {}}, "non-empty dict"),
        ({"factors": {"G": ("n",), "H": ("m", "h")}}, r"factor G needs a shape \(rows, columns\)"),
        ({"factors": {"G": ("n", 0), "H": ("m", "h")}}, "neither a name nor a positive integer"),
        ({"factors": {"G": ("n", 2.5), "H": ("m", "h")}}, "neither a name nor a positive integer"),
        ({"factors": {"G": ("n", True), "H": ("m", "h")}}, "neither a name nor a positive integer"),
        ({"factors": {"h": ("n", "h"), "H": ("m", "h")}, "action": lambda A, g, k: (g, k)}, "names both a factor and a size"),
        ({"factors": {"G": ("n", "k"), "H": ("m", "h")}}, "action of pair on G: cannot multiply"),
        ({"action": lambda A, G, H: (A * G, H)}, "action of pair on G: cannot multiply"),
        ({"action": lambda A, G, H: (G.T, H)}, "turns G of shape"),
        ({"action": lambda A, G, H: G * A}, "returns 1 expressions for the 2 factors"),
        ({"action": lambda A, G: (G, G)}, "takes 2 arguments"),
        ({"action": lambda A, H, G: (H, G)}, "declared in the order G, H"),
        ({"action": lambda A, G, H: (G * A.nonsense(), H)}, "cannot be evaluated on matrix symbols: AttributeError"),
        ({"action": lambda A, G, H: (G * MatrixSymbol("B", H_SIZE, H_SIZE), H)}, "unknown matrix symbol B"),
        ({"action": lambda A, G, H: (sp.Symbol("t") * G, H)}, "plain scalar symbol t"),
        ({"preserves": lambda G, H: G * H}, "preserved quantity of pair"),
        ({"preserves": lambda G, H: sp.Identity(H_SIZE)}, "depends on no factor"),
        ({"preserves": lambda G, H: MatrixSymbol("A", H_SIZE, H_SIZE)}, "contains A; it may only depend on G, H"),
        (
            {"factors": {"G": ("n", "h"), "xi_G": ("n", "h")}, "action": lambda A, G, xi_G: (G, xi_G)},
            "letters xi_G would name two things",
        ),
        ({"action": lambda dG, G, H: (G * dG.inv(), H * dG.T)}, "letters dG would name two things"),
    ],
)  # fmt: skip
def test_false_symmetries_are_refused_with_the_reason(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare(**changes)


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (lambda p, a, b: a.G.T * b.G, "wrap it in Trace"),
        (lambda p, a, b: Trace(a.G.T * a.G), "not linear in the first tangent"),
        (lambda p, a, b: Trace(p.G.T * b.G), "not linear in the first tangent"),
        (lambda p, a, b: Trace(a.G.T * b.G) + 1, "not linear in the first tangent"),
        (lambda p, a, b: Trace(gram(a.G).I * a.G.T * b.G), "not linear in the first tangent"),
        (lambda p, a, b: Trace(a.G.T * b.W), "no factor 'W'; the symmetry declares G, H"),
        (lambda p, a, b: Trace(a.G.T * b.H), "cannot multiply"),
        (lambda p, a, b: Trace(a.G * b.G), "cannot multiply|not square"),
        (lambda p, a, b: sp.Symbol("c") * Trace(a.G.T * b.G), "plain scalar symbol c"),
        (lambda p, a, b: 0.5 * Trace(a.G.T * b.G), "floating-point number"),
        (lambda p, a, b: Trace(gram(p.G) ** sp.Rational(1, 2) * a.G.T * b.G), "only integer powers"),
        (lambda p, a, b: sp.Determinant(gram(p.G)) * Trace(a.G.T * b.G), "cannot read Determinant"),
        (lambda p, a, b: Trace(sp.HadamardProduct(a.G, b.G) * p.G.T), "elementwise operations take columns"),
        (lambda p, a, b: Trace(a.G.T * b.G) - Trace(b.G.T * a.G), "is zero"),
        (lambda p, a: Trace(a.G.T * a.G), "cannot be evaluated on matrix symbols: TypeError"),
        (lambda p, a, b: Trace(MatrixSymbol("X", H_SIZE, H_SIZE) * a.G.T * b.G), "contains X; it may only depend on"),
    ],
)
def test_false_metrics_are_refused_with_the_reason(inner: Callable[..., Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        Metric("wrong", PAIR, inner)


def test_names_follow_the_action() -> None:
    assert PAIR.names.elements == ("A",)
    assert PAIR.names.algebra == ("X",)
    assert PAIR.sizes == ("n", "m", "h")
    assert CHAIN.names.elements == ("A", "B")
    assert CHAIN.names.algebra == ("X_1", "X_2")
    low_rank = Symmetry(  # a factor called A, as in adapters
        "low_rank",
        GL("r"),
        {"B": ("n", "r"), "A": ("r", "m")},
        lambda M, B, A: (B * M, M.inv() * A),
        lambda B, A: B * A,
    )
    assert low_rank.names.elements == ("M",)
    assert low_rank.names.tangent("A") == "xi_A"


def test_a_metric_of_another_symmetry_is_refused() -> None:
    with pytest.raises(DeclarationError, match="declared for the symmetry gl_pair, not for chain"):
        derive(CHAIN, metric("mixed"))


def test_unknown_levels_are_refused() -> None:
    with pytest.raises(DeclarationError, match="unknown certificate level"):
        derive(PAIR, metric("mixed"), levels="az")


def _cross(p: Any, a: Any, b: Any) -> sp.Expr:
    """<a_G H', G b_H'>: less than half of the mixed metric's sum of squares, so the sum stays a metric."""
    return Trace(a.G.T * p.G * b.H.T * p.H)


@pytest.mark.parametrize(
    "inner",
    [
        lambda p, a, b: invariant(p, a, b) + Trace(p.G * gram(p.H) * p.G.T * a.G * b.G.T),
        lambda p, a, b: mixed(p, a, b) + (_cross(p, a, b) + _cross(p, b, a)) / 2,
    ],
    ids=["two-sided", "coupled"],
)
def test_what_has_no_closed_form_carries_its_equations(inner: Callable[..., Any]) -> None:
    geometry = derive_formulas(PAIR, Metric("hard", PAIR, inner))
    assert geometry.equations is not None
    assert not geometry.acceleration
    assert set(geometry.staged) == {2, 3, 4}
