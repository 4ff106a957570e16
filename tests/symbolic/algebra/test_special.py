"""Vectors, diagonal and complex diagonal letters, scalars: random expressions against torch, and identities by normal form."""

from __future__ import annotations

import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quotientgeo.symbolic.algebra import (
    ComplexPart,
    Polynomial,
    polynomial_from_sympy,
    trace,
    trace_from_sympy,
    vanishes,
)
from tests.symbolic.algebra.expressions import Pair
from tests.symbolic.algebra.special import (
    SCALAR,
    SIZE,
    SYMBOL,
    D,
    alphabet,
    complex_part,
    diagonal,
    evaluate,
    evaluate_trace,
    squares,
    values,
)
from tests.symbolic.algebra.test_fuzz import close

# five hundred of these expressions: tests/symbolic/test_thousand.py, under slow
MANY = settings(max_examples=100, deadline=None, derandomize=True)
M, x, u, v, B, C = (SYMBOL[name] for name in "MxuvBC")


@MANY
@given(squares(), st.integers(0, 3))
def test_value_transpose_and_round_trip(pair: Pair, seed: int) -> None:
    letters, w = alphabet(), values(seed)
    polynomial = polynomial_from_sympy(pair.expression, letters)
    expected = pair.function(w)
    close(evaluate(polynomial, w), expected, pair)
    close(evaluate(polynomial.T, w), expected.T, pair)
    assert polynomial_from_sympy(polynomial.to_sympy(), letters) == polynomial
    scalar = trace(polynomial)
    close(evaluate_trace(scalar, w), torch.trace(expected), pair)
    assert trace_from_sympy(scalar.to_sympy(), letters) == scalar


@MANY
@given(squares(), st.sampled_from([*SYMBOL, "c"]), st.integers(0, 3))
def test_gradient_of_a_trace(pair: Pair, name: str, seed: int) -> None:
    letters, w = alphabet(), values(seed)
    scalar = trace(polynomial_from_sympy(pair.expression, letters))
    w[name].requires_grad_()
    value = torch.trace(pair.function(w))
    expected = torch.autograd.grad(value, w[name], allow_unused=True)[0] if value.requires_grad else None
    w[name] = w[name].detach()
    expected = torch.zeros_like(w[name]) if expected is None else expected
    expected = {"B": diagonal, "C": complex_part}.get(name, lambda found: found)(expected)
    close(evaluate(scalar.gradient(name), w), expected, f"{pair} by {name}")


@MANY
@given(squares(), st.integers(0, 3))
def test_differential_and_substitution(pair: Pair, seed: int) -> None:
    letters, w = alphabet(), values(seed)
    polynomial = polynomial_from_sympy(pair.expression, letters)
    directions = {
        "M": letters["M"] * letters["M"],
        "u": letters["x"],
        "B": letters["B"] * letters["B"],
        "c": letters["c"],
    }
    velocity = {"M": w["M"] @ w["M"], "u": w["x"], "B": w["B"] @ w["B"], "c": w["c"]}
    directions["C"], velocity["C"] = letters["C"] * letters["C"], w["C"] @ w["C"]
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    along = pair.function({**w, **{name: w[name] + t * velocity[name] for name in velocity}})
    entries = [torch.autograd.grad(entry, t, retain_graph=True)[0] for entry in along.flatten() if entry.requires_grad]
    expected = torch.stack(entries).reshape(SIZE, SIZE) if entries else torch.zeros(SIZE, SIZE, dtype=torch.float64)
    close(evaluate(polynomial.differential(directions), w), expected, pair)
    moved = {"u": letters["B"] * letters["u"], "C": letters["C"].T, "c": letters["c"] * 2, "v": letters["u"] * 3}
    there = {"u": w["B"] @ w["u"], "C": w["C"].T, "c": w["c"] * 2, "v": w["u"] * 3}
    close(evaluate(polynomial.substitute(moved), w), pair.function({**w, **there}), pair)


@settings(MANY, max_examples=40)
@given(squares(), st.integers(0, 3))
def test_inverse(pair: Pair, seed: int) -> None:
    letters, w = alphabet(), values(seed)
    polynomial = polynomial_from_sympy(pair.expression, letters)
    shifted = letters.identity("d") + polynomial * polynomial.T
    inverse = shifted.inverse()
    close(evaluate(inverse, w), torch.linalg.inv(evaluate(shifted, w)), pair)
    families = {letter.family for word in polynomial.terms for letter in word} - {None}
    if len(families) < 2:  # two algebras that do not commute: rules for inverses of sums are not confluent
        assert vanishes(shifted * inverse - letters.identity("d"))
    assert not vanishes(shifted * inverse)


def equal(left: sp.Expr, right: sp.Expr) -> bool:
    letters = alphabet()
    if isinstance(left, sp.MatrixExpr):
        return bool(polynomial_from_sympy(left, letters) == polynomial_from_sympy(right, letters))
    return bool(trace_from_sympy(left, letters) == trace_from_sympy(right, letters))


def test_identities_by_normal_form() -> None:
    assert equal(sp.DiagMatrix(u) * v, sp.HadamardProduct(v, u))
    assert equal(sp.DiagMatrix(u) * B * sp.DiagMatrix(v), sp.DiagMatrix(v) * sp.DiagMatrix(u) * B)
    assert equal(sp.HadamardProduct(B * u, B.inv() * v), sp.HadamardProduct(u, v))
    assert equal(C * C.T, C.T * C)
    assert equal(sp.Trace(sp.DiagMatrix(sp.DiagonalOf(M)) * B), sp.Trace(M * B))
    assert equal(sp.Trace(ComplexPart(M, "half") * C), sp.Trace(M * C))
    assert equal(ComplexPart(C * M * C.T, "half"), C * ComplexPart(M, "half") * C.T)
    assert equal(sp.DiagonalOf(u * u.T), sp.HadamardPower(u, 2))
    assert equal(sp.Trace(x.T * M * x * u.T * v), sp.Trace(x.T * M.T * x) * sp.Trace(v * u.T))
    assert equal((SCALAR * M).inv() * SCALAR**2 * M, SCALAR * sp.Identity(D))
    one = sp.OneMatrix(D, 1)
    assert equal(sp.DiagMatrix(one + u).inv() * (one + u), one)
    assert equal(sp.Trace(one.T * u), sp.Trace(sp.DiagMatrix(u)))


def test_what_differs_is_told_apart() -> None:
    assert not equal(C, C.T)
    assert not equal(B * M, M * B)
    assert not equal(B * C, C * B)  # two algebras do not commute with each other
    assert not equal(sp.DiagMatrix(sp.DiagonalOf(M * M)), sp.DiagMatrix(sp.DiagonalOf(M)) ** 2)
    assert not equal(ComplexPart(M, "half"), ComplexPart(M, "interleaved"))
    assert not equal(ComplexPart(M, "half"), ComplexPart(M.T, "half"))


def test_scalars_divide() -> None:
    letters = alphabet()
    value = trace_from_sympy((1 + sp.Trace(x.T * x)) / (1 + sp.Trace(x * x.T)), letters)
    assert value == trace_from_sympy(sp.Integer(1), letters)
    w = values()
    moved: Polynomial = letters["x"]
    quotient = trace_from_sympy(sp.Trace(x.T * M * x) / sp.Trace(x.T * x), letters)
    assert quotient.substitute({"x": moved.scaled(letters["c"].scalar())}) == quotient
    close(evaluate_trace(quotient, w), (w["x"].T @ w["M"] @ w["x"] / (w["x"].T @ w["x"])).sum(), "Rayleigh quotient")


def test_two_algebras_side_by_side_do_not_commute() -> None:
    letters = alphabet()
    b, c, m = letters["B"], letters["C"], letters["M"]
    assert not vanishes(b * c - c * b)
    assert not vanishes(m * b * c - m * c * b)
    assert not vanishes(b * c * m - c * b * m)
    assert vanishes(b * c - b * c)


def test_a_number_times_a_letter_that_cancels() -> None:
    assert equal((SCALAR * B).inv() * B, sp.Identity(D) / SCALAR)
    assert equal(sp.DiagMatrix(SCALAR * u).inv() * u, sp.OneMatrix(D, 1) / SCALAR)
