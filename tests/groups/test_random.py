"""Random elements: condition, distribution, and that they do not depend on dtype; each statistic is seen to refuse a fault."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from quotientgeo.groups import (
    GL,
    LARGEST_CONDITION,
    ComplexDiagonal,
    NonzeroDiagonal,
    Orthogonal,
    PositiveDiagonal,
    Scaling,
    Translation,
)
from tests.groups.cases import CASES, generator

MANY = 4000
CONDITIONED = ["GL", "NonzeroDiagonal", "PositiveDiagonal", "ComplexDiagonal half", "ComplexDiagonal interleaved"]


def diagonal(a: Tensor) -> Tensor:
    return torch.diagonal(a, dim1=-2, dim2=-1)


@given(st.sampled_from(CONDITIONED), st.integers(1, 4), st.integers(0, 10**6), st.floats(1.0, 1e8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_condition_is_reached(name: str, steps: int, seed: int, condition: float) -> None:
    case = CASES[name]
    k = case.smallest + case.step * steps
    drawn = case.make("k").random_element(generator(seed), condition=condition, size=k)
    assert np.linalg.cond(drawn.numpy()) == pytest.approx(condition, rel=1e-7)


@pytest.mark.parametrize("condition", [1.0, 10.0, 1e6, LARGEST_CONDITION])
def test_rotations_and_shifts_take_any_condition(condition: float) -> None:
    drawn = Orthogonal(5).random_element(generator(1), condition=condition, batch=(10,))
    assert np.linalg.cond(drawn.numpy()) == pytest.approx(np.ones(10), rel=1e-12)
    shifts = Translation(3, 2).random_element(generator(1), condition=condition, batch=(MANY,))
    assert float(shifts.std()) == pytest.approx(condition, rel=0.02)
    assert abs(float(shifts.mean())) < 0.05 * condition


@pytest.mark.parametrize(
    "group", [Scaling(), PositiveDiagonal(1), NonzeroDiagonal(1), ComplexDiagonal(2), ComplexDiagonal(2, "interleaved")]
)
@pytest.mark.parametrize("condition", [1.5, 10.0, 1e6])
def test_a_single_number_stays_away_from_one_on_both_sides(group: Scaling, condition: float) -> None:
    drawn = group.random_element(generator(2), condition=condition, batch=(500,))
    exponents = torch.log(torch.linalg.matrix_norm(drawn, ord=2)) / np.log(condition)
    assert bool(((exponents.abs() >= 0.25 - 1e-12) & (exponents.abs() <= 0.5 + 1e-12)).all())
    assert 0.4 < float((exponents > 0).double().mean()) < 0.6
    assert float(exponents.std()) > 0.35


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_random_element_does_something_at_the_smallest_size(name: str) -> None:
    case = CASES[name]
    group = case.make(case.smallest)
    moved = (group.random_element(generator(3), batch=(200,)) - group.identity()).abs().amax((-2, -1))
    if name == "GL":  # uniform in the exponent, so that one in many is near one
        assert float((moved > 0.1).double().mean()) > 0.85
    else:
        assert float(moved.min()) > 0.1 or name == "Translation"
        assert float(moved.min()) > 0.0


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_dtype_sees_the_same_element(name: str, dtype: torch.dtype) -> None:
    group = CASES[name].make("k")
    one, other = generator(7), generator(7)
    drawn = group.random_element(one, size=None, sizes={"k": 4}, batch=(3,), dtype=dtype)
    exact = group.random_element(other, sizes={"k": 4}, batch=(3,))
    assert drawn.dtype == dtype
    assert torch.equal(drawn, exact.to(dtype))
    assert torch.equal(one.get_state(), other.get_state())


@pytest.mark.parametrize("name", sorted(CASES))
def test_draws_are_reproducible_and_differ_from_each_other(name: str) -> None:
    group = CASES[name].make("k")
    sizes = {"k": 4}
    first = group.random_element(generator(8), sizes=sizes, batch=(2, 3))
    assert torch.equal(first, group.random_element(generator(8), sizes=sizes, batch=(2, 3)))
    assert not torch.equal(first, group.random_element(generator(9), sizes=sizes, batch=(2, 3)))
    flat = first.flatten(0, 1)
    assert len({tuple(a.flatten().tolist()) for a in flat}) == 6
    assert group.random_element(generator(8), sizes=sizes, batch=(0,)).shape[0] == 0


def haar_faults(drawn: Tensor) -> set[str]:
    """Moments of Haar measure on O(k), k >= 2: E tr A = 0, E (tr A)^2 = 1, the same after a fixed rotation, both determinants."""
    k = drawn.shape[-1]
    turned = (
        drawn @ torch.linalg.matrix_exp(torch.triu(torch.ones(k, k), 1) - torch.tril(torch.ones(k, k), -1)).double()
    )
    found = set()
    for traces in (diagonal(drawn).sum(-1), diagonal(turned).sum(-1)):
        found |= {"mean"} if abs(float(traces.mean())) > 0.08 else set()
        found |= {"square"} if abs(float((traces**2).mean()) - 1.0) > 0.12 else set()
    positive = float((torch.linalg.det(drawn) > 0).double().mean())
    return found | ({"determinant"} if abs(positive - 0.5) > 0.04 else set())


@pytest.mark.parametrize("k", [2, 3, 5])
def test_orthogonal_matrices_are_uniform_on_both_components(k: int) -> None:
    assert not haar_faults(Orthogonal(k).random_element(generator(k), batch=(MANY,)))


def test_what_is_not_uniform_is_seen() -> None:
    gaussian = torch.randn(MANY, 3, 3, generator=generator(0), dtype=torch.float64)
    assert haar_faults(torch.linalg.qr(gaussian)[0])
    assert haar_faults(torch.linalg.matrix_exp(0.5 * (gaussian - gaussian.mT))) >= {"mean", "square", "determinant"}
    rotations = Orthogonal(3).random_element(generator(0), batch=(MANY,))
    rotations = rotations * torch.sign(torch.linalg.det(rotations))[..., None, None]
    assert "determinant" in haar_faults(rotations)


def test_moduli_lie_around_one_and_have_no_fixed_determinant() -> None:
    """Elements of determinant one alone would not tell the group from a smaller one."""
    for group in (PositiveDiagonal(2), PositiveDiagonal(5), NonzeroDiagonal(2), NonzeroDiagonal(5)):
        moduli = diagonal(group.random_element(generator(4), condition=100.0, batch=(MANY,))).abs()
        exponents = torch.log(moduli) / np.log(100.0)
        low, high = exponents.amin(-1), exponents.amax(-1)
        assert torch.allclose(high - low, torch.ones(MANY, dtype=torch.float64), atol=1e-12)
        assert bool(((low <= 0) & (high >= 0)).all())
        assert float(low.mean()) == pytest.approx(-0.5, abs=0.02)
        assert float(exponents.sum(-1).std()) > 0.25
        assert float(exponents.mean(0).max() - exponents.mean(0).min()) < 0.05  # no place is larger than another


@pytest.mark.parametrize("k", [1, 2, 3])
def test_signs_are_random_and_never_all_positive(k: int) -> None:
    negative = diagonal(NonzeroDiagonal(k).random_element(generator(5), batch=(MANY,))) < 0
    assert bool(negative.any(-1).all())
    patterns = {tuple(row) for row in negative.tolist()}
    assert len(patterns) == 2**k - 1
    assert bool((diagonal(PositiveDiagonal(k).random_element(generator(5), batch=(MANY,))) > 0).all())


def test_phases_are_uniform() -> None:
    drawn = ComplexDiagonal(6).random_element(generator(6), batch=(MANY,))
    phases = torch.atan2(drawn[..., 3:, :3].diagonal(dim1=-2, dim2=-1), drawn[..., :3, :3].diagonal(dim1=-2, dim2=-1))
    for harmonic in (1, 2, 3):
        assert float(torch.exp(1j * harmonic * phases).mean(0).abs().max()) < 0.06
    assert float(torch.exp(1j * (phases[:, 0] - phases[:, 1])).mean().abs()) < 0.06


def test_condition_one_leaves_only_what_has_no_condition() -> None:
    for group in (PositiveDiagonal(3), Scaling()):
        assert torch.equal(group.random_element(generator(0), condition=1), group.identity())
    signs = NonzeroDiagonal(3).random_element(generator(0), condition=1.0)
    assert torch.equal(signs @ signs, torch.eye(3, dtype=torch.float64))
    assert bool(Orthogonal(4).contains(ComplexDiagonal(4).random_element(generator(0), condition=1.0)))
    assert bool(Orthogonal(4).contains(GL(4).random_element(generator(0), condition=1.0)))
