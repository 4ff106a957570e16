"""Generated code of implicit metrics against the metric itself, differentiated by torch."""

from __future__ import annotations

import re
from itertools import pairwise
from types import ModuleType

import pytest
import torch
from torch import Tensor

from quotientgeo.geometry.derived import Derived
from quotientgeo.symbolic.codegen.execution import module_from
from tests.symbolic.implicit.declarations import METRICS, geometry, source
from tests.symbolic.implicit.oracles import (
    EPS,
    INNER,
    Factors,
    along,
    close_to,
    drawn,
    elements,
    euler_lagrange,
    geodesic,
    numbers,
    pairing,
)

NAMES = [*METRICS, "family"]


def code(name: str, iterative: bool = False) -> ModuleType:
    """The generated module; ``iterative``: every operator is taken for too large to be written out."""
    text = source(name)
    if iterative:
        assert "steps <= 256" in text
        text = re.sub(r"steps <= \d+", "steps <= 0", text)
    return module_from(text, name)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_gradient_pairs_like_the_euclidean_gradient(name: str, batch: tuple[int, ...]) -> None:
    module = code(name)
    p, d, eta = drawn(module, name, batch, batch, batch)
    found = INNER[name](p, module.gradient(*p, *d, *numbers(module)), eta)
    wanted = sum(pairing(a, b) for a, b in zip(d, eta, strict=True))
    assert isinstance(wanted, Tensor)
    assert close_to((found,), (wanted,))
    assert not close_to((1.01 * found,), (wanted,))
    assert torch.allclose(module.inner(*p, *d, *eta, *numbers(module)), INNER[name](p, d, eta), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_acceleration_solves_euler_lagrange_and_conserves(name: str, batch: tuple[int, ...]) -> None:
    module = code(name)
    extra, count = numbers(module), len(module.FACTORS)
    p, xi = drawn(module, name, batch, batch)
    acc = module.acceleration(*p, *xi, *extra)
    zeros = tuple(torch.zeros_like(x) for x in p)
    assert close_to(tuple(euler_lagrange(name, p, xi, acc)), zeros)
    assert not close_to(tuple(euler_lagrange(name, p, xi, tuple(1.01 * a for a in acc))), zeros)

    def energy(*state: Tensor) -> Tensor:
        return INNER[name](state[:count], state[count:], state[count:])

    def momentum(*state: Tensor) -> tuple[Tensor, ...]:
        found = module.momentum(*state, *extra)
        return (found,) if isinstance(found, Tensor) else found

    change = along(energy, (*p, *xi), (*xi, *acc))
    assert close_to((change,), (torch.zeros_like(change),))
    rates = along(momentum, (*p, *xi), (*xi, *acc))
    assert close_to(tuple(rates), tuple(torch.zeros_like(x) for x in rates))
    wrong = along(momentum, (*p, *xi), (*xi, *(a + 0.01 * x for a, x in zip(acc, xi, strict=True))))
    assert not close_to(tuple(wrong), tuple(torch.zeros_like(x) for x in wrong), 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_christoffel_form_is_the_levi_civita_connection(name: str) -> None:
    module, extra = code(name), numbers(code(name))
    p, xi, eta, zeta = drawn(module, name, (2,), (2,), (2,), (2,))

    def gamma(a: Factors, b: Factors) -> Factors:
        return tuple(module.christoffel(*p, *a, *b, *extra))

    assert close_to(gamma(xi, eta), gamma(eta, xi))
    assert close_to(gamma(xi, xi), tuple(-a for a in module.acceleration(*p, *xi, *extra)))
    change = along(lambda *q: INNER[name](q, eta, zeta), p, xi)
    found = INNER[name](p, gamma(xi, eta), zeta) + INNER[name](p, eta, gamma(xi, zeta))
    assert close_to((found,), (change,))


@pytest.mark.parametrize("name", NAMES)
def test_taylor_polynomials_have_their_order(name: str) -> None:
    module, extra = code(name), numbers(code(name))
    p, direction = drawn(module, name, (), ())
    size = float(torch.cat([x.flatten() for x in direction]).norm())
    for order in (1, 2, 3, 4):
        errors, lengths = [], (0.2, 0.1, 0.05)
        for length in lengths:
            xi = tuple(length / size * x for x in direction)
            end = getattr(module, f"taylor_{order}")(*p, *xi, *extra)
            exact = geodesic(module, p, xi)
            errors.append(float(torch.cat([(a - b).flatten() for a, b in zip(end, exact, strict=True)]).norm()))
        slopes = [float(torch.log2(torch.tensor(a / b))) for a, b in pairwise(errors)]
        assert slopes[-1] == pytest.approx(order + 1, abs=0.2), (order, errors)


@pytest.mark.parametrize("name", NAMES)
def test_everything_moves_with_the_group(name: str) -> None:
    """Every action here is affine in the factors, so an acceleration moves as a velocity does."""
    module, extra = code(name), numbers(code(name))
    p, xi, d = drawn(module, name, (), (), ())
    A = elements(geometry(name).symmetry.groups, name)

    def act(*q: Tensor) -> Factors:
        return tuple(module.action(*A, *q))

    def push(tangent: Factors) -> Factors:
        return tuple(along(act, p, tangent))

    moved, there = act(*p), push(xi)
    assert close_to(module.acceleration(*moved, *there, *extra), push(module.acceleration(*p, *xi, *extra)), 1e-9)
    assert close_to(module.horizontal(*moved, *there, *extra), push(module.horizontal(*p, *xi, *extra)), 1e-9)
    for order in (2, 4):
        ends = [getattr(module, f"taylor_{order}")(*x, *v, *extra) for x, v in ((p, xi), (moved, there))]
        assert close_to(ends[1], act(*ends[0]), 1e-8)
    inverse = torch.autograd.functional.vjp(act, p, d)[1]  # the pullback of a gradient at the moved point
    assert close_to(module.gradient(*moved, *d, *extra), push(module.gradient(*p, *inverse, *extra)), 1e-9)


SOLVED = [("turned", False), ("folded", False), ("scaled", False), ("pair", False), ("scaled", True)]


@pytest.mark.parametrize(("name", "iterative"), [*SOLVED, pytest.param("folded", True, marks=pytest.mark.slow)])
def test_solves_have_first_and_second_derivatives(name: str, iterative: bool) -> None:
    """Two definite terms, in "turned" and "pair", are diagonalised at any size."""
    module = code(name, iterative)
    values = [x.requires_grad_() for part in drawn(module, name, (), ()) for x in part]
    assert torch.autograd.gradcheck(module.gradient, values)
    assert torch.autograd.gradgradcheck(module.gradient, values, atol=1e-4)
    assert torch.autograd.gradcheck(module.acceleration, values)


@pytest.mark.parametrize("name", ["folded", "scaled"])
def test_conjugate_gradients_find_the_same(name: str) -> None:
    values = [x for part in drawn(code(name), name, (2, 2), (2, 2)) for x in part]
    found, wanted = code(name, True).acceleration(*values), code(name).acceleration(*values)
    assert close_to(found, wanted)


def test_conjugate_gradients_that_do_not_converge_give_nan() -> None:
    text = re.sub(r"steps <= \d+", "steps <= 0", source("folded"))
    module = module_from(text.replace("min(steps, 200)", "1"), "folded")
    values = [x for part in drawn(module, "folded", (), ()) for x in part]
    assert all(x.isnan().all() for x in module.acceleration(*values))


@pytest.mark.parametrize("name", NAMES)
def test_batches_broadcast_and_float32_stays(name: str) -> None:
    module, extra = code(name), numbers(code(name))
    p, d = drawn(module, name, (2, 1), (3,))
    large = [tuple(x.expand(2, 3, *x.shape[-2:]).contiguous() for x in part) for part in (p, d)]
    for function in (module.gradient, module.acceleration, module.taylor_4, module.horizontal, module.taylor_1):
        found, wanted = function(*p, *d, *extra), function(*large[0], *large[1], *extra)
        assert [x.shape for x in found] == [x.shape for x in wanted]
        assert close_to(found, wanted)
    narrow = [x.float() for x in (*large[0], *large[1], *extra)]
    for a, b in zip(module.acceleration(*narrow), module.acceleration(*large[0], *large[1], *extra), strict=True):
        assert a.dtype == torch.float32
        assert torch.allclose(a.double(), b, rtol=1e-3, atol=1e-3)
    if extra:  # parameters are batched as well
        many = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64).reshape(3, 1, 1)
        found = module.acceleration(*large[0], *large[1], many)
        single = module.acceleration(*(x[1, 2] for x in (*large[0], *large[1])), many[2])
        assert close_to(tuple(x[1, 2] for x in found), single)


def test_christoffel_symbols_from_the_metric_alone_agree() -> None:
    """The textbook's formula in explicit coordinates knows nothing of equations or solves."""
    found, module = geometry("folded"), code("folded")
    sizes = {"h": 1, "m": 2}
    symbols = found.christoffel_symbols(**sizes)
    generator = torch.Generator().manual_seed(1)
    shapes = [(1, 1), (2, 1), (2, 1)]
    p, xi, eta = (
        tuple(torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes) for _ in range(3)
    )
    flat = [torch.cat([x.flatten() for x in part]).tolist() for part in (p, xi, eta)]
    values = dict(zip(found.coordinates(**sizes), flat[0], strict=True))
    entries = [float(entry.subs(values)) for entry in symbols.reshape(len(symbols))]
    array = torch.tensor(entries, dtype=torch.float64).reshape(tuple(map(int, symbols.shape)))
    wanted = torch.einsum("kij,i,j->k", array, *(torch.tensor(x, dtype=torch.float64) for x in flat[1:]))
    gamma = torch.cat([x.flatten() for x in module.christoffel(*p, *xi, *eta)])
    assert torch.allclose(gamma, wanted, rtol=1e-10, atol=1e-12)
    assert float(wanted.norm()) > 0.1


@pytest.mark.parametrize("name", METRICS)
def test_the_run_time_geometry_takes_implicit_modules(name: str) -> None:
    derived = Derived(geometry(name), {"eps": EPS} if METRICS[name].parameters else None)
    p, v = drawn(derived.module, name, (2,), (2,))
    xi = tuple(0.2 * x for x in derived.project(p, v))
    moved = derived.transport(p, xi, derived.project(p, v), tolerance=1e-6)
    assert torch.allclose(derived.inner(moved.point, moved.velocity), derived.inner(p, xi), rtol=1e-5)
    length = derived.inner(p, derived.project(p, v))
    assert torch.allclose(derived.inner(moved.point, moved.tangent), length, rtol=1e-5)
    for j in derived.momentum(moved.point, moved.velocity):
        assert float(j.abs().max()) < 1e-6
    assert close_to(derived.exponential(p, xi, tolerance=1e-6), moved.point, 1e-5)
