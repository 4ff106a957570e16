"""Every entry of the catalogue against automatic differentiation of a metric and an action typed in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, jvp

from tests.catalogue.entries import ENTRIES, Entry, Factors, dot

CATALOGUE = Path(__file__).parents[2] / "quotientgeo" / "catalogue"
BATCHES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 2))
TIGHT, WIDE = 1e-11, 1e-9  # relative; the wider for what passes through an element of condition 10, or is solved for
BETWEEN = 1e-5  # a fault is far larger than rounding


@dataclass(frozen=True)
class Case:
    """An entry with a batch of points."""

    name: str
    batch: tuple[int, ...]

    @property
    def entry(self) -> Entry:
        return ENTRIES[self.name]

    @property
    def module(self) -> ModuleType:
        return import_module(f"quotientgeo.catalogue.{self.name}.generated")

    def call(self, function: str, *arguments: Tensor) -> Factors:
        """A generated function at the parameters of the entry, as a tuple."""
        parameters = [torch.full((1, 1), value, dtype=torch.float64) for value in self.entry.parameters.values()]
        found = getattr(self.module, function)(*arguments, *parameters[: None if function in METRIC else 0])
        return found if isinstance(found, tuple) else (found,)

    def rng(self, stream: int) -> torch.Generator:
        return torch.Generator().manual_seed(100 * sorted(ENTRIES).index(self.name) + stream)

    def point(self) -> Factors:
        """Factors of condition near 2; columns without entries near zero."""
        return tuple(_matrix(self.batch, shape, self.rng(i)) for i, shape in enumerate(self.entry.shapes))

    def tangent(self, stream: int) -> Factors:
        rng = self.rng(stream)
        return tuple(torch.randn(*self.batch, *s, generator=rng, dtype=torch.float64) for s in self.entry.shapes)

    def elements(self) -> Factors:
        rng = self.rng(9)
        return tuple(g.random_element(rng, condition=10.0, batch=self.batch) for g in self.entry.groups)

    def algebra(self) -> list[Factors]:
        """A basis of the Lie algebra of the product, each element a matrix per group."""
        bases = [g.algebra_basis() for g in self.entry.groups]
        return [
            tuple(unit if i == j else torch.zeros_like(basis[0]) for j, basis in enumerate(bases))
            for i, units in enumerate(bases)
            for unit in units
        ]

    def act(self, elements: Factors, x: Factors) -> Factors:
        return tuple(self.entry.action(*elements, *x))

    def push(self, x: Factors, xi: Factors) -> Factors:
        """The differential of the action: where an element takes a tangent."""
        return tuple(jvp(lambda *y: self.act(self.elements(), y), x, xi)[1])

    def vertical(self, x: Factors, X: Factors) -> Factors:
        """The differential of the action in the element, at the identity."""
        ones = tuple(g.identity() for g in self.entry.groups)
        return tuple(jvp(lambda *e: self.act(e, x), ones, X)[1])


METRIC = {"inner", "gradient", "momentum", "horizontal", "acceleration", "christoffel"}
METRIC |= {f"taylor_{order}" for order in (1, 2, 3, 4)}
CASES = [Case(name, batch) for name, batch in product(sorted(ENTRIES), BATCHES)]
cases = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.name}-{len(c.batch)}")
last = pytest.mark.parametrize("case", CASES[2::3], ids=lambda c: c.name)


def _matrix(batch: tuple[int, ...], shape: tuple[int, int], rng: torch.Generator) -> Tensor:
    value = torch.randn(*batch, *shape, generator=rng, dtype=torch.float64)
    if shape[1] == 1:
        return value.sign() * (value.abs() + 1.1)  # and none near -1
    wide = shape[1] > shape[0]
    frame = torch.linalg.qr(value.mT if wide else value)[0]
    frame = frame * torch.linspace(1.0, 2.0, min(shape), dtype=torch.float64)
    return (frame.mT if wide else frame) + 0.2 * value


def off(found: Factors, wanted: Factors) -> float:
    """Largest difference, relative to the largest entry wanted (or to 1, where that is zero)."""
    for left, right in zip(found, wanted, strict=True):
        assert left.shape == right.shape
        assert left.dtype == right.dtype
    scale = max(float(part.abs().max()) for part in wanted) or 1.0
    return max(float((left - right).abs().max()) for left, right in zip(found, wanted, strict=True)) / scale


def disturbed(parts: Factors) -> Factors:
    """The same with the largest entry of the first factor off by one per cent of the largest of all."""
    first = parts[0].clone(memory_format=torch.contiguous_format)
    first.view(-1)[int(first.abs().argmax())] += 0.01 * max(float(part.abs().max()) for part in parts) or 0.01
    return first, *parts[1:]


def test_every_folder_is_typed_here() -> None:
    assert sorted(ENTRIES) == sorted(path.parent.name for path in CATALOGUE.glob("*/declaration.py"))


@cases
def test_metric_and_action_are_those_typed_here(case: Case) -> None:
    x, a, b = case.point(), case.tangent(5), case.tangent(6)
    found, wanted = case.call("inner", *x, *a, *b), (case.entry.inner(x, a, b),)
    assert off(found, wanted) <= TIGHT
    assert off(disturbed(found), wanted) > BETWEEN
    assert found[0].shape == case.batch
    elements = case.elements()
    assert off(case.call("action", *elements, *x), case.act(elements, x)) <= TIGHT


@cases
def test_gradient_represents_the_differential(case: Case) -> None:
    x, euclidean, b = case.point(), case.tangent(5), case.tangent(6)
    wanted = sum(dot(d, y) for d, y in zip(euclidean, b, strict=True))
    found = case.call("gradient", *x, *euclidean)
    assert off((case.entry.inner(x, found, b),), (wanted,)) <= TIGHT  # type: ignore[arg-type]
    assert off((case.entry.inner(x, disturbed(found), b),), (wanted,)) > BETWEEN  # type: ignore[arg-type]


def _residual(case: Case, x: Factors, v: Factors, acceleration: Factors) -> float:
    """max |d/dt dL/dv - dL/dx| of L = <v, v> / 2 along a curve with this acceleration, relative to d/dt dL/dv."""

    def lagrangian(*state: Tensor) -> Tensor:
        half = len(state) // 2
        return case.entry.inner(state[:half], state[half:], state[half:]).sum() / 2

    count = len(x)
    places = tuple(range(2 * count))
    force = grad(lagrangian, places[:count])(*x, *v)
    momentum, rate = jvp(grad(lagrangian, places[count:]), (*x, *v), (*v, *acceleration))
    scale = max(float(part.abs().max()) for part in (*force, *momentum))
    return max(float((r - f).abs().max()) for r, f in zip(rate, force, strict=True)) / scale


@cases
def test_acceleration_solves_euler_lagrange(case: Case) -> None:
    x, v = case.point(), case.tangent(5)
    found = case.call("acceleration", *x, *v)
    assert _residual(case, x, v, found) <= TIGHT
    assert _residual(case, x, v, disturbed(found)) > BETWEEN


@cases
def test_vertical_vectors_and_momentum(case: Case) -> None:
    """V is the differential of the action, <xi, V> = tr(J' X), and J does not change along geodesics."""
    x, v = case.point(), case.tangent(5)
    momentum = case.call("momentum", *x, *v)
    for X in case.algebra():
        V = case.vertical(x, X)
        assert off(case.call("vertical", *x, *X), V) <= TIGHT
        paired = sum(dot(J, unit) for J, unit in zip(momentum, X, strict=True))
        scale = max(float(J.abs().max()) for J in momentum)
        assert float((case.entry.inner(x, v, V) - paired).abs().max()) <= TIGHT * scale
    acceleration = case.call("acceleration", *x, *v)

    def along(acc: Factors) -> float:
        # forward mode through torch.cholesky_solve and lu_solve is wrong in some batches, so twice backward
        rates = torch.autograd.functional.jvp(lambda *s: case.call("momentum", *s), (*x, *v), (*v, *acc))[1]
        return max(float(rate.abs().max()) for rate in rates) / max(float(J.abs().max()) for J in momentum)

    assert along(acceleration) <= WIDE
    assert along(tuple(part + 0.01 * w for part, w in zip(acceleration, case.tangent(6), strict=True))) > BETWEEN


def _least_squares(case: Case, x: Factors, xi: Factors) -> Factors:
    """xi minus its projection on the vertical vectors, in the metric, by the Gram matrix of a basis."""
    basis = [case.vertical(x, X) for X in case.algebra()]
    gram = torch.stack([torch.stack([case.entry.inner(x, a, b) for b in basis], -1) for a in basis], -2)
    weights = torch.linalg.solve(gram, torch.stack([case.entry.inner(x, a, xi) for a in basis], -1)[..., None])
    return tuple(part - sum(weights[..., k, :, None] * V[i] for k, V in enumerate(basis)) for i, part in enumerate(xi))


@cases
def test_horizontal_part_is_the_least_squares_projection(case: Case) -> None:
    x, xi = case.point(), case.tangent(5)
    found, wanted = case.call("horizontal", *x, *xi), _least_squares(case, x, xi)
    assert off(found, wanted) <= WIDE
    assert off(disturbed(found), wanted) > BETWEEN
    assert off(xi, wanted) > BETWEEN


@last
def test_christoffel_form_is_the_polarised_acceleration(case: Case) -> None:
    x, v, w = case.point(), case.tangent(5), case.tangent(6)
    plus = case.call("acceleration", *x, *(a + b for a, b in zip(v, w, strict=True)))
    minus = case.call("acceleration", *x, *(a - b for a, b in zip(v, w, strict=True)))
    wanted = tuple((m - p) / 4 for p, m in zip(plus, minus, strict=True))
    found = case.call("christoffel", *x, *v, *w)
    assert off(found, wanted) <= WIDE
    assert off(disturbed(found), wanted) > BETWEEN


@last
def test_taylor_end_points_equal_nested_differentiation(case: Case) -> None:
    x, v = case.point(), case.tangent(5)
    count = len(x)

    def flow(*state: Tensor) -> Factors:
        return case.call("acceleration", *state)

    terms: list[Callable[..., Any]] = [lambda *s: s[:count], lambda *s: s[count:], flow]
    for _ in range(2):
        before = terms[-1]
        terms.append(lambda *s, before=before: jvp(before, s, (*s[count:], *flow(*s)))[1])  # type: ignore[misc]
    end, factor = tuple(torch.zeros_like(part) for part in x), 1.0
    for order, term in enumerate(terms):
        factor *= max(order, 1)
        end = tuple(total + part / factor for total, part in zip(end, term(*x, *v), strict=True))
        if order:
            found = case.call(f"taylor_{order}", *x, *v)
            assert off(found, end) <= WIDE, order
            assert off(disturbed(found), end) > BETWEEN, order


@last
def test_a_group_element_moves_everything_with_it(case: Case) -> None:
    x, v, w = case.point(), case.tangent(5), case.tangent(6)
    moved = case.act(case.elements(), x)
    pushed, other = case.push(x, v), case.push(x, w)
    assert off(case.call("inner", *moved, *pushed, *other), case.call("inner", *x, *v, *w)) <= WIDE
    found, wanted = case.call("horizontal", *moved, *pushed), case.push(x, case.call("horizontal", *x, *v))
    assert off(found, wanted) <= WIDE
    for order in (2, 4):
        end = case.call(f"taylor_{order}", *x, *v)
        assert off(case.call(f"taylor_{order}", *moved, *pushed), case.act(case.elements(), end)) <= 1e-8
        assert off(end, case.act(case.elements(), end)) > BETWEEN  # the element moves something
