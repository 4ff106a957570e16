"""Random expressions: the algebra against torch values, gradients, differentials and inverses."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from quotientgeo.symbolic.algebra import polynomial_from_sympy, trace, trace_from_sympy
from tests.symbolic.algebra.expressions import SYMBOL, Pair, alphabet, evaluate, evaluate_trace, squares, values

# five hundred of these expressions: tests/symbolic/test_thousand.py, under slow
MANY = settings(max_examples=100, deadline=None, derandomize=True)
SOME = settings(MANY, max_examples=80)
TOLERANCE = 1e-9  # relative; random words of a few factors with inverses lose a few digits


def close(actual: Tensor, expected: Tensor, what: object) -> None:
    error = ((actual - expected).abs().max() / (1 + expected.abs().max())).item()
    assert error < TOLERANCE, f"{what}: relative error {error:.1e}\n{actual}\n{expected}"


@MANY
@given(squares(), st.integers(0, 3))
def test_value_transpose_and_round_trip(pair: Pair, seed: int) -> None:
    letters, v = alphabet(), values(seed)
    polynomial = polynomial_from_sympy(pair.expression, letters)
    expected = pair.function(v)
    close(evaluate(polynomial, v), expected, pair)
    close(evaluate(polynomial.T, v), expected.T, pair)
    assert polynomial == polynomial.T.T
    assert polynomial_from_sympy(polynomial.to_sympy(), letters) == polynomial
    scalar = trace(polynomial)
    close(evaluate_trace(scalar, v), torch.trace(expected), pair)
    assert trace_from_sympy(scalar.to_sympy(), letters) == scalar


@MANY
@given(squares(), st.sampled_from(["G", "H", "A", "S", "Z"]), st.integers(0, 3))
def test_gradient_of_a_trace(pair: Pair, name: str, seed: int) -> None:
    letters, v = alphabet(), values(seed)
    scalar = trace(polynomial_from_sympy(pair.expression, letters))
    v[name].requires_grad_()
    value = torch.trace(pair.function(v))
    expected = torch.autograd.grad(value, v[name], allow_unused=True)[0] if value.requires_grad else None
    expected = torch.zeros_like(v[name]) if expected is None else expected
    if name in "SZ":  # the gradient is taken inside the symmetric or skew matrices
        expected = (expected + expected.T) / 2 if name == "S" else (expected - expected.T) / 2
    v[name] = v[name].detach()
    close(evaluate(scalar.gradient(name), v), expected, f"{pair} by {name}")


@SOME
@given(squares(), st.integers(0, 3))
def test_differential_and_substitution(pair: Pair, seed: int) -> None:
    letters, v = alphabet(), values(seed)
    polynomial = polynomial_from_sympy(pair.expression, letters)
    moved = polynomial.differential({"G": letters["xi"], "A": letters["S"]})
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    along = pair.function({**v, "G": v["G"] + t * v["xi"], "A": v["A"] + t * v["S"]})
    entries = [torch.autograd.grad(entry, t, retain_graph=True)[0] for entry in along.flatten() if entry.requires_grad]
    expected = torch.stack(entries).reshape(3, 3) if entries else torch.zeros(3, 3, dtype=torch.float64)
    close(evaluate(moved, v), expected, pair)

    replaced = polynomial.substitute({"G": letters["G"] * letters["A"], "A": letters["A"].T, "Q": letters["Q"].T})
    close(
        evaluate(replaced, v),
        pair.function({**v, "G": v["G"] @ v["A"], "A": v["A"].T, "Q": v["Q"].T}),
        pair,
    )


@SOME
@given(squares(), st.integers(0, 3))
def test_inverse(pair: Pair, seed: int) -> None:
    letters, v = alphabet(), values(seed)
    x = polynomial_from_sympy(pair.expression, letters)
    polynomial = letters.identity("h") + x * x.T
    inverse = polynomial.inverse()
    close(evaluate(inverse, v), torch.linalg.inv(evaluate(polynomial, v)), pair)
    assert (inverse * polynomial) == letters.identity("h")
    assert (polynomial * inverse) == letters.identity("h")


def test_the_comparison_can_fail() -> None:
    letters, v = alphabet(), values()
    wrong = polynomial_from_sympy(SYMBOL["A"].T * SYMBOL["S"], letters)
    error = (evaluate(wrong, v) - v["A"] @ v["S"]).abs().max()
    assert error > 0.1
