"""Group laws, membership, Lie algebra and exponential of every simple group; each check is seen to refuse a planted fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from quotientgeo.groups import (
    GL,
    ComplexDiagonal,
    NonzeroDiagonal,
    Orthogonal,
    PositiveDiagonal,
    Scaling,
    SimpleGroup,
    Translation,
)
from tests.groups.cases import CASES, Case, algebra_element, generator, real_form

NAMES = st.sampled_from(sorted(CASES))
TOLERANCE = 1e-10  # elements of condition <= 100, products of three


def size_of(case: Case, steps: int) -> int:
    return case.smallest + case.step * steps


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / (1.0 + b.abs().max()))


def multiply(group: SimpleGroup, a: Tensor, b: Tensor) -> Tensor:
    """The law, from its definition."""
    return torch.einsum("...ij,...jk->...ik", a, b) if group.law == "multiply" else a + b


def broken_laws(group: SimpleGroup, a: Tensor, b: Tensor, c: Tensor) -> set[str]:
    """Which laws fail for these elements."""
    one = group.identity(sizes={"k": a.shape[-2]}, batch=a.shape[:-2])
    inverse = group.inverse(a)
    residuals = {
        "product": relative(group.product(a, b), multiply(group, a, b)),
        "associative": relative(group.product(group.product(a, b), c), group.product(a, group.product(b, c))),
        "identity": max(relative(group.product(one, a), a), relative(group.product(a, one), a)),
        "inverse": max(relative(group.product(a, inverse), one), relative(group.product(inverse, a), one)),
    }
    outside = {
        what
        for what, element in (("closed", group.product(a, b)), ("closed", inverse), ("contains", a))
        if not bool(group.contains(element, tolerance=1e-12).all())
    }
    return {law for law, residual in residuals.items() if not residual < TOLERANCE} | outside


@given(NAMES, st.integers(0, 3), st.integers(0, 10**6), st.floats(1.0, 100.0), st.lists(st.integers(1, 3), max_size=2))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_laws_hold(name: str, steps: int, seed: int, condition: float, batch: list[int]) -> None:
    case = CASES[name]
    k = size_of(case, steps)
    group = case.make(k) if seed % 2 else case.make("k")
    source = generator(seed)
    a, b, c = (group.random_element(source, condition=condition, sizes={"k": k}, batch=tuple(batch)) for _ in range(3))
    assert a.shape == (*batch, *case.shape(k))
    assert not broken_laws(group, a, b, c)


class KeepsInverse(Orthogonal):
    def _inverse(self, element: Tensor) -> Tensor:
        return element


class AddsInstead(GL):
    law = "add"


class ConjugateInverse(ComplexDiagonal):
    def _inverse(self, element: Tensor) -> Tensor:
        return element.mT


class SignInverse(Scaling):
    def _inverse(self, element: Tensor) -> Tensor:
        return -element


class DrawsSigns(PositiveDiagonal):
    _draw = NonzeroDiagonal._draw


class OtherPairing(ComplexDiagonal):
    def _contains(self, element: Tensor, tolerance: float) -> Tensor:
        return ComplexDiagonal(self.size, pairing="interleaved")._contains(element, tolerance)


@pytest.mark.parametrize(
    ("group", "broken"),
    [
        (KeepsInverse("k"), "inverse"),
        (AddsInstead("k"), "inverse"),
        (ConjugateInverse("k"), "inverse"),
        (SignInverse(), "inverse"),
        (SignInverse(), "closed"),
        (DrawsSigns("k"), "contains"),
        (OtherPairing("k"), "closed"),
    ],
)
def test_a_broken_law_is_seen(group: SimpleGroup, broken: str) -> None:
    a, b, c = (group.random_element(generator(seed), sizes={"k": 4}) for seed in range(3))
    assert broken in broken_laws(group, a, b, c)


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("steps", range(3))
def test_contains_refuses_what_is_no_element(name: str, steps: int) -> None:
    case = CASES[name]
    k = size_of(case, steps)
    group, one = case.make(k), case.make(k).identity()
    assert bool(group.contains(one))
    for what, matrix in case.wrong(k).items():
        assert group.contains(torch.stack([one, torch.as_tensor(matrix)])).tolist() == [True, False], what


def test_the_tolerance_of_contains_follows_the_dtype() -> None:
    group, near = Orthogonal(2), (1 + 1e-9) * torch.eye(2, dtype=torch.float64)
    assert bool(group.contains(near.float()))
    assert not bool(group.contains(near))
    assert bool(group.contains(near, tolerance=1e-8))
    assert not bool(group.contains(1.001 * torch.eye(2)))
    assert bool(GL(2).contains(torch.diag(torch.tensor([1.0, 1e-6]))))
    assert not bool(GL(2).contains(torch.diag(torch.tensor([1.0, 1e-6])), tolerance=1e-5))
    assert not bool(GL(2).contains(torch.diag(torch.tensor([1.0, 1e-8]))))


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_elements_of_every_dtype_are_elements(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    group = case.make("k")
    k = size_of(case, 2)
    drawn = group.random_element(generator(5), condition=10.0, sizes={"k": k}, batch=(20,), dtype=dtype)
    assert bool(group.contains(drawn).all())
    assert group.inverse(drawn).dtype == group.exponential(drawn).dtype == group.product(drawn, drawn).dtype == dtype


def tangent_projector(case: Case, k: int) -> np.ndarray:
    """Projector onto the tangent space at the identity: null space of the equations' derivative, by central differences.

    The equations are polynomials of degree at most two, for which central differences are exact.
    """
    group = case.make(k)
    one = group.identity().numpy()
    columns = []
    for place in range(one.size):
        unit = np.zeros(one.size)
        unit[place] = 0.5
        step = unit.reshape(one.shape)
        columns.append(case.equations(one + step) - case.equations(one - step))
    _, values, rows = np.linalg.svd(np.stack(columns, axis=1))
    rank = int((values > 1e-10 * max(1.0, values.max(initial=0.0))).sum())
    return rows[rank:].T @ rows[rank:]


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("steps", range(4))
def test_the_basis_spans_exactly_the_tangent_space_at_the_identity(name: str, steps: int) -> None:
    case = CASES[name]
    k = size_of(case, steps)
    group = case.make("k")
    basis = group.algebra_basis(sizes={"k": k})
    assert basis.shape == (case.dimension(k), *case.shape(k))
    assert group.dimension(sizes={"k": k}) == case.make(k).dimension() == case.dimension(k)

    flat, projector = basis.flatten(1).numpy(), tangent_projector(case, k)
    assert np.linalg.matrix_rank(flat) == len(basis) == round(np.trace(projector)) == case.dimension(k)
    assert np.abs(flat @ projector - flat).max(initial=0.0) < 1e-12


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Orthogonal", NonzeroDiagonal(4)),
        ("PositiveDiagonal", Orthogonal(4)),
        ("ComplexDiagonal half", ComplexDiagonal(4, pairing="interleaved")),
        ("ComplexDiagonal interleaved", ComplexDiagonal(4)),
        ("NonzeroDiagonal", GL(4)),
    ],
)
def test_a_basis_of_another_algebra_is_seen(name: str, wrong: SimpleGroup) -> None:
    flat = wrong.algebra_basis().flatten(1).numpy()
    assert np.abs(flat @ tangent_projector(CASES[name], 4) - flat).max() > 0.1


def exponential_faults(group: SimpleGroup, X: Tensor, exponential: Callable[[Tensor], Tensor]) -> set[str]:
    """What is wrong with an exponential at X: its value, its place, the one-parameter subgroup, its speed at zero."""
    end = exponential(X)
    expected = scipy.linalg.expm(X.numpy()) if group.law == "multiply" else X.numpy()
    parts = group.product(exponential(0.25 * X), exponential(0.75 * X))
    _, speed = torch.func.jvp(lambda t: exponential(t * X), (torch.zeros(()).to(X),), (torch.ones(()).to(X),))
    found = {
        "value": relative(end, torch.as_tensor(expected)),
        "subgroup": relative(end, parts),
        "speed": relative(speed, X),
        "place": 0.0 if bool(group.contains(end, tolerance=1e-11)) else 1.0,
    }
    return {what for what, residual in found.items() if not residual < TOLERANCE}


@given(NAMES, st.integers(0, 3), st.integers(0, 10**6), st.floats(0.0, 2.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_exponential_is_the_matrix_exponential(name: str, steps: int, seed: int, scale: float) -> None:
    group, k = CASES[name].make("k"), size_of(CASES[name], steps)
    X = algebra_element(group, k, seed, scale)
    assert not exponential_faults(group, X, group.exponential)
    batch = torch.stack([X, torch.zeros_like(X)])
    vectorised = torch.func.vmap(group.exponential)(batch)
    assert relative(vectorised, group.exponential(batch)) < TOLERANCE
    assert relative(vectorised[1], group.identity(sizes={"k": k})) < TOLERANCE


def test_a_wrong_exponential_is_seen() -> None:
    for name, seen in (("GL", {"value", "subgroup"}), ("Orthogonal", {"value", "subgroup", "place"})):
        group = CASES[name].make(4)
        X = algebra_element(group, 4, seed=0)
        cayley = lambda x: torch.linalg.solve(torch.eye(4).to(x) - 0.5 * x, torch.eye(4).to(x) + 0.5 * x)  # noqa: E731
        assert exponential_faults(group, X, cayley) == seen - {"place"}
        assert exponential_faults(group, X, lambda x: torch.eye(4).to(x) + x) == seen
    assert "speed" in exponential_faults(group, X, lambda x: group.exponential(2.0 * x))
    z = algebra_element(ComplexDiagonal(4), 4, seed=0)
    assert exponential_faults(ComplexDiagonal(4), z, lambda x: group.exponential(x.mT)) == {"value", "speed"}


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_complex_diagonal_matrices_compute_as_complex_numbers(pairing: str) -> None:
    """Against NumPy's complex numbers, through matrices built from what they do to basis vectors."""
    group = ComplexDiagonal(6, pairing)
    rng = np.random.default_rng(1)
    z, w = (rng.normal(size=3) + 1j * rng.normal(size=3) for _ in range(2))
    a, b = (torch.as_tensor(real_form(np.diag(x), pairing)) for x in (z, w))
    assert bool(group.contains(a))
    for found, numbers in (
        (group.product(a, b), z * w),
        (group.inverse(a), 1 / z),
        (group.exponential(a), np.exp(z)),
        (a.mT, z.conj()),
    ):
        assert relative(found, torch.as_tensor(real_form(np.diag(numbers), pairing))) < 1e-14
        other = "half" if pairing == "interleaved" else "interleaved"
        assert relative(found, torch.as_tensor(real_form(np.diag(numbers), other))) > 0.01


def test_translation_adds() -> None:
    group = Translation(3)
    a = torch.tensor([[1.0], [2.0], [3.0]])
    assert group.element_shape == (3, 1)
    assert torch.equal(group.product(a, a), 2 * a)
    assert torch.equal(group.inverse(a), -a)
    assert torch.equal(group.exponential(a), a)
    assert torch.equal(group.identity(dtype=torch.float32), torch.zeros(3, 1))


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_returned_is_the_callers_own(name: str) -> None:
    group = CASES[name].make(4)
    one = group.identity(batch=(2,))
    one[0] += 1.0
    assert torch.equal(one[1], group.identity())
    X = algebra_element(group, 4, seed=0)
    kept = X.clone()
    group.exponential(X).zero_()
    assert torch.equal(X, kept)
