"""Random polynomials: the generated function against a direct evaluation, on tensors and on symbols."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from quotientgeo.symbolic.algebra import Polynomial, TracePolynomial
from quotientgeo.symbolic.codegen.functions import Function
from quotientgeo.symbolic.codegen.grams import Gram
from quotientgeo.symbolic.codegen.module import IMPORTS, SourceWriter, assembled
from quotientgeo.symbolic.codegen.proof import check_functions
from tests.symbolic.codegen import direct

BATCHES = [(), (3,), (1,), (2, 1), (1, 3), (2, 3)]
TYPICAL = [{"n": 512, "m": 512, "h": 32}, {"n": 5, "m": 4, "h": 3}, {"n": 10, "m": 200, "h": 100}]


def function_of(outputs: dict[str, Polynomial | TracePolynomial], one: bool = False) -> Function:
    return Function("f", tuple(direct.SHAPES), outputs, "Random.", one=one)


def written(function: Function, a: Any, sizes: dict[str, int]) -> str:
    return assembled(IMPORTS, [SourceWriter(a, sizes, {"G": Gram("P"), "H": Gram("Q")}).function(function)])


def executed(source: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["f"]


def assert_agrees(source: str, function: Function, values: dict[str, torch.Tensor]) -> None:
    found = executed(source)(*(values[name] for name in function.arguments))
    batch = torch.broadcast_shapes(*(value.shape[:-2] for value in values.values()))
    for value, formula in zip((found,) if function.one else found, function.outputs.values(), strict=True):
        if isinstance(formula, Polynomial):
            wanted, axes = direct.evaluate(formula, values), formula.shape
            shape = (*batch, *(direct.SIZES[str(size)] for size in axes))
        else:
            wanted, shape = direct.evaluate_scalar(formula, values), batch
        assert value.shape == shape, source
        assert value.dtype == torch.float64
        scale = max(1.0, float(wanted.abs().max()))
        assert float((value - wanted).abs().max()) <= 1e-9 * scale, f"{formula}\n{source}"


@given(seed=st.integers(0, 1_000_000))
@settings(max_examples=60, deadline=None, derandomize=True, phases=[Phase.generate])
def test_generated_matrices_agree_with_direct_evaluation(seed: int) -> None:
    rng = Random(seed)
    a = direct.alphabet()
    shapes = [
        rng.choice([("h", "h"), ("n", "h"), ("h", "m"), ("n", "m"), ("n", "n")]) for _ in range(rng.randint(1, 2))
    ]
    function = function_of({f"out_{i}": direct.random_polynomial(rng, a, shape) for i, shape in enumerate(shapes)})
    source = written(function, a, rng.choice(TYPICAL))
    check_functions(source, a, [function], "random")
    assert_agrees(source, function, direct.random_values(seed, {name: rng.choice(BATCHES) for name in direct.SHAPES}))


@given(seed=st.integers(0, 1_000_000))
@settings(max_examples=30, deadline=None, derandomize=True, phases=[Phase.generate])
def test_generated_scalars_agree_with_direct_evaluation(seed: int) -> None:
    rng = Random(seed)
    a = direct.alphabet()
    function = function_of({"out": direct.random_scalar(rng, a)}, one=True)
    source = written(function, a, rng.choice(TYPICAL))
    check_functions(source, a, [function], "random")
    assert_agrees(source, function, direct.random_values(seed, {name: rng.choice(BATCHES) for name in direct.SHAPES}))


def test_constants_fill_the_batch() -> None:
    a = direct.alphabet()
    zero, one = a.zero(("n", "h")), a.identity("h")
    function = function_of({"zero": zero, "one": one, "some": one * -2, "same": a["G"], "turned": a["G"].T})
    source = written(function, a, TYPICAL[0])
    check_functions(source, a, [function], "constants")
    for batch in ((), (3,), (2, 3)):
        assert_agrees(source, function, direct.random_values(0, dict.fromkeys(direct.SHAPES, batch)))
    number = function_of({"out": direct.trace(a.identity("h")) * 2}, one=True)
    assert_agrees(written(number, a, TYPICAL[0]), number, direct.random_values(0, dict.fromkeys(direct.SHAPES, (2,))))


@pytest.mark.parametrize(("first", "second"), [("AB", "BA"), ("AB", "SA"), ("SB", "AO"), ("AS", "BB")])
def test_a_transposed_inverse_may_lead_with_another_word(first: str, second: str) -> None:
    """(u + 2 v)^-1 is 1/2 (1/2 u' + v')^-1, transposed, where v' comes first: the factor is no sign."""
    a = direct.alphabet()
    u, v = (a[left] * a[right].T for left, right in (first, second))
    for coefficients in ((1, 2), (2, 1), (1, -3)):
        inverse = (u * coefficients[0] + v * coefficients[1]).inverse()
        function = function_of({"right": a["B"] * inverse, "left": inverse.T * a["B"].T, "alone": inverse.T})
        source = written(function, a, TYPICAL[0])
        check_functions(source, a, [function], "transposes")
        assert_agrees(source, function, direct.random_values(1, dict.fromkeys(direct.SHAPES, (2,))))
