"""Every SymPy node that is not understood is refused by name, with advice."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sympy as sp

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra import Alphabet, one_over, polynomial_from_sympy, scalar, trace, trace_from_sympy
from tests.symbolic.algebra.expressions import SYMBOL, K, N, alphabet

G, H, A, S = (SYMBOL[name] for name in "GHAS")
c = sp.Symbol("c")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (c * A, "plain scalar symbol c"),
        (sp.Float(0.5) * A, r"floating-point number 0\.5.*Rational"),
        (sp.sqrt(2) * A, "cannot read Pow sqrt"),
        (A ** sp.Rational(1, 2), "only integer powers"),
        (A**c, "only integer powers"),
        (sp.Adjoint(A), r"cannot read Adjoint.*write X\.T"),
        (sp.HadamardProduct(A, S), "HadamardProduct.*elementwise"),
        (sp.ImmutableMatrix([[1, 2], [3, 4]]), "explicit matrices"),
        (sp.BlockMatrix([[A, A]]), "BlockMatrix"),
        (sp.MatrixSymbol("B", K, K), "unknown matrix symbol B"),
        (sp.MatrixSymbol("A", N, N), "declared as"),
        (sp.MatrixSymbol("A", N + 1, N + 1), "neither a symbol nor an integer"),
        (A * sp.MatrixSymbol("B", K, K) * S, "unknown matrix symbol B"),
    ],
    ids=str,
)
def test_refused_matrices(expression: sp.MatrixExpr, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        polynomial_from_sympy(expression, alphabet())


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (c * sp.Trace(A), "plain scalar symbol c"),
        (0.5 * sp.Trace(A), "floating-point number"),
        (sp.Trace(A) + c, "plain scalar symbol c"),
        (sp.exp(sp.Trace(A)), "cannot read exp"),
        (sp.sqrt(sp.Trace(A)), "cannot read Pow"),
        (1 / (sp.Trace(A) - sp.Trace(A.T)), "division by zero"),
        (sp.Determinant(A), "cannot read Determinant.*determinants"),
        (A, "wrap it in Trace"),
        (A[0, 0], "single entries"),
        ((G.T * G)[0, 0], "cannot read Sum.*write a trace"),
        (sp.Trace(c * A), "plain scalar symbol c"),
        (sp.Trace(sp.exp(sp.Trace(S)) * A), "cannot read exp"),
    ],
    ids=str,
)
def test_refused_scalars(expression: sp.Expr, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        trace_from_sympy(expression, alphabet())


def test_sums_and_products_of_traces() -> None:
    letters = alphabet()
    expression = sp.Rational(3, 2) * sp.Trace(A) * sp.Trace(S) - sp.Trace(A) ** 2 + sp.Trace(A + 2 * S) + 5
    a, s = trace(letters["A"]), trace(letters["S"])
    expected = a * s * Fraction(3, 2) - a * a + a + s * 2 + scalar(letters, 5)
    assert trace_from_sympy(expression, letters) == expected


def test_what_sympy_gets_silently_wrong_is_right_here() -> None:
    """SymPy 1.14 differentiates a sum of traces to zero; the algebra must not inherit that."""
    letters = alphabet()
    total = sp.Trace(A * S) + sp.Trace(A.T * A)
    assert trace_from_sympy(total, letters).gradient("A") == letters["S"] + letters["A"] * 2


def test_scalars_as_coefficients() -> None:
    letters = alphabet()
    found = polynomial_from_sympy(sp.Trace(A) * A / (K * sp.Trace(S) ** 2), letters)
    a, s, h = trace(letters["A"]), trace(letters["S"]), trace(letters.identity("h"))
    assert found == letters["A"].scaled(a * one_over(s * s * h))
    assert trace_from_sympy(sp.Trace(A) / sp.Trace(A), letters) == scalar(letters, 1)


def test_numeric_sizes() -> None:
    letters = Alphabet()
    letters.declare("B", (3, 2))
    b = sp.MatrixSymbol("B", 3, 2)
    gram = polynomial_from_sympy(b.T * b, letters)
    assert gram.shape == (2, 2)
    assert polynomial_from_sympy((b.T * b).I, letters) * gram == letters.identity(2)
