"""Generated code against formulas typed here, against automatic differentiation, over batches and dtypes."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import Tensor

from quotientgeo.catalogue.gl_pair_invariant import generated as invariant
from quotientgeo.catalogue.gl_pair_mixed import generated as mixed
from quotientgeo.groups import GL
from tests.catalogue import reference

MODULES = {"invariant": invariant, "mixed": mixed}
FLOAT32_TOLERANCE = 2e-4  # Gram matrices of condition up to 30, in units of 1e-7, and a product of five
metrics = pytest.mark.parametrize("name", MODULES)


def draw(
    *batches: tuple[int, ...], n: int = 6, m: int = 5, h: int = 3, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """(G, H, further pairs ...) of moderate condition, one batch shape per tensor."""
    generator = torch.Generator().manual_seed(7)
    out = []
    for i, batch in enumerate(batches):
        rows = (n, m)[i % 2]
        value = torch.randn(*batch, rows, h, generator=generator, dtype=torch.float64)
        if i < 2:
            value = torch.linalg.qr(value)[0] * torch.linspace(1.0, 2.0, h, dtype=torch.float64) + 0.2 * value
        out.append(value.to(dtype))
    return out


def close(found: Tensor, wanted: Tensor, tolerance: float = 1e-12) -> bool:
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    assert found.dtype == wanted.dtype
    return float((found - wanted).abs().max()) <= tolerance * max(1.0, float(wanted.abs().max()))


@metrics
def test_constants(name: str) -> None:
    module = MODULES[name]
    assert f"gl_pair_{name}" == module.NAME
    assert module.FACTORS == {"G": ("n", "h"), "H": ("m", "h")}


@metrics
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("sizes", [(6, 5, 3), (3, 3, 3), (5, 4, 1), (4, 9, 2)])
def test_every_function_equals_the_typed_formula(
    name: str, batch: tuple[int, ...], sizes: tuple[int, int, int]
) -> None:
    module = MODULES[name]
    G, H, a, b, c, d = draw(*[batch] * 6, n=sizes[0], m=sizes[1], h=sizes[2])
    x = (G, H)
    assert close(module.inner(G, H, a, b, c, d), getattr(reference, f"inner_{name}")(x, (a, b), (c, d)))
    pairs = [
        (module.gradient(G, H, c, d), getattr(reference, f"gradient_{name}")(x, (c, d))),
        (module.acceleration(G, H, a, b), getattr(reference, f"acceleration_{name}")(x, (a, b))),
    ]
    X = torch.randn(*batch, sizes[2], sizes[2], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pairs.append((module.vertical(G, H, X), (-(G @ X), H @ X.mT)))
    for found, wanted in pairs:
        assert all(close(*parts, tolerance=1e-11) for parts in zip(found, wanted, strict=True))
    assert close(module.momentum(G, H, a, b), getattr(reference, f"momentum_{name}")(x, (a, b)), 1e-11)


@metrics
def test_the_action_is_that_of_the_group(name: str) -> None:
    G, H = draw((2,), (2,))
    A = GL(3).random_element(torch.Generator().manual_seed(3), condition=10.0, batch=(2,))
    for found, wanted in zip(MODULES[name].action(A, G, H), (G @ torch.linalg.inv(A), H @ A.mT), strict=True):
        assert close(found, wanted, 1e-11)


@metrics
def test_the_christoffel_form_is_half_the_second_derivative_of_the_acceleration(name: str) -> None:
    G, H, a, b, c, d = draw(*[(2,)] * 6)
    found = MODULES[name].christoffel(G, H, a, b, c, d)
    wanted = reference.christoffel(getattr(reference, f"acceleration_{name}"), (G, H), (a, b), (c, d))
    assert all(close(*parts, tolerance=1e-11) for parts in zip(found, wanted, strict=True))
    assert not any(close(part, -other, tolerance=1e-3) for part, other in zip(found, wanted, strict=True))


@metrics
@pytest.mark.parametrize("sizes", [(6, 5, 3), (3, 3, 3), (5, 4, 1)])
def test_the_horizontal_part_is_the_least_squares_projection(name: str, sizes: tuple[int, int, int]) -> None:
    G, H, a, b = draw(*[()] * 4, n=sizes[0], m=sizes[1], h=sizes[2])
    found = MODULES[name].horizontal(G, H, a, b)
    wanted = reference.horizontal(getattr(reference, f"inner_{name}"), (G, H), (a, b))
    assert all(close(*parts, tolerance=1e-11) for parts in zip(found, wanted, strict=True))
    assert not close(found[0], a, 1e-3)


@metrics
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_taylor_end_points_equal_nested_differentiation(name: str, order: int) -> None:
    G, H, a, b = draw(*[(2,)] * 4)
    found = getattr(MODULES[name], f"taylor_{order}")(G, H, a, b)
    wanted = reference.taylor_end(getattr(reference, f"acceleration_{name}"), (G, H), (a, b), order)
    assert all(close(*parts, tolerance=1e-11) for parts in zip(found, wanted, strict=True))


@metrics
def test_acceleration_solves_euler_lagrange(name: str) -> None:
    G, H, a, b = draw(*[()] * 4)
    inner, found = getattr(reference, f"inner_{name}"), MODULES[name].acceleration(G, H, a, b)
    assert reference.euler_lagrange_residual(inner, (G, H), (a, b), found) <= 1e-12
    wrong = (found[0] * 1.01, found[1])
    assert reference.euler_lagrange_residual(inner, (G, H), (a, b), wrong) >= 1e-4


@metrics
def test_vertical_vectors_pair_with_the_momentum_and_do_not_move_the_product(name: str) -> None:
    module = MODULES[name]
    G, H, a, b = draw(*[(3,)] * 4)
    X = torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    V_G, V_H = module.vertical(G, H, X)
    assert close(module.inner(G, H, a, b, V_G, V_H), reference.trace(module.momentum(G, H, a, b).mT @ X), 1e-11)
    assert float((V_G @ H.mT + G @ V_H.mT).abs().max()) <= 1e-13


@metrics
def test_everything_is_equivariant_under_a_random_element(name: str) -> None:
    module = MODULES[name]
    G, H, a, b, c, d = draw(*[(2,)] * 6)
    A = GL(3).random_element(torch.Generator().manual_seed(3), condition=10.0, batch=(2,))

    def push(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        return left @ torch.linalg.inv(A), right @ A.mT

    point, first, second = push(G, H), push(a, b), push(c, d)
    assert close(module.inner(*point, *first, *second), module.inner(G, H, a, b, c, d), 1e-10)
    names = ["acceleration", "horizontal", "taylor_1", "taylor_2", "taylor_3", "taylor_4"]
    for function in (getattr(module, name) for name in names):
        found, wanted = function(*point, *first), push(*function(G, H, a, b))
        assert all(close(*parts, tolerance=1e-8) for parts in zip(found, wanted, strict=True))


@metrics
def test_float32_agrees_with_float64_and_stays_float32(name: str) -> None:
    module = MODULES[name]
    wide = draw(*[(2,)] * 4)
    narrow = [value.to(torch.float32) for value in wide]
    for function in ("gradient", "horizontal", "acceleration", "taylor_2", "taylor_4"):
        for found, wanted in zip(getattr(module, function)(*narrow), getattr(module, function)(*wide), strict=True):
            assert found.dtype == torch.float32
            assert close(found.double(), wanted, FLOAT32_TOLERANCE)


@metrics
def test_leading_dimensions_broadcast_to_all_results(name: str) -> None:
    module = MODULES[name]
    G, H, a, b, c, d = draw((), (3,), (2, 1), (1,), (3,), ())
    X = torch.randn(2, 1, 3, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    full = [value.expand(2, 3, *value.shape[-2:]) for value in (G, H, a, b, c, d)]
    calls: list[tuple[str, list[Tensor], list[Tensor]]] = [
        ("inner", [G, H, a, b, c, d], full),
        ("vertical", [G, H, X], [*full[:2], X.expand(2, 3, 3, 3)]),
        ("christoffel", [G, H, a, b, c, d], full),
    ]
    calls += [(k, [G, H, a, b], full[:4]) for k in ("gradient", "momentum", "horizontal", "acceleration", "taylor_1")]
    calls += [("taylor_4", [G, H, a, b], full[:4])]
    for function, small, large in calls:
        found, wanted = getattr(module, function)(*small), getattr(module, function)(*large)
        for parts in zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]:
            assert parts[0].shape[:2] == (2, 3)
            assert close(*parts)


@metrics
def test_differentiable_twice(name: str) -> None:
    module: ModuleType = MODULES[name]
    inputs = tuple(value.requires_grad_() for value in draw(*[()] * 4, n=3, m=4, h=2))
    assert torch.autograd.gradgradcheck(lambda *z: module.taylor_2(*z)[0] @ module.taylor_2(*z)[1].mT, inputs)
