"""What must hold on every derived geometry. Each property takes a setting and asserts; ``PROPERTIES`` lists them all."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from tests.geometry.derived_settings import SMALL, Setting, factors, flat, gap, generated, plus, scaled

TIMES = (-0.5, 0.0, 0.3, 1.0)


def worst(value: torch.Tensor, scale: torch.Tensor) -> float:
    return float((value.abs() / scale.clamp_min(SMALL**2)).max())


def joined(*parts: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Points or tangents as one batch."""
    return tuple(torch.stack(same) for same in zip(*parts, strict=True))


def the_metric_is_an_invariant_inner_product(setting: Setting) -> None:
    at, x = setting.geometry, setting.point()
    xi, eta, A = setting.tangent(x, stream=1), setting.tangent(x, stream=2), setting.element()
    value = at.inner(x, xi, eta)
    scale = at.norm(x, xi) * at.norm(x, eta)
    assert value.shape == setting.batch
    assert bool((at.inner(x, xi) > 0).all())
    assert worst(value - at.inner(x, eta, xi), scale) < 1e-12
    assert worst(value - at.inner(A(x), A.tangent(xi), A.tangent(eta)), scale) < 1e-10
    assert gap(A(x), x) > 0.01
    assert gap(A.inverse(A(x)), x) < 1e-12


def the_gradient_is_the_gradient(setting: Setting) -> None:
    at, x = setting.geometry, setting.point()
    egrad, xi = setting.tangent(x, stream=3), setting.tangent(x)
    gradient = at.gradient(x, egrad)
    pairing = (flat(egrad) * flat(xi)).sum(-1)
    assert worst(at.inner(x, gradient, xi) - pairing, at.norm(x, gradient) * at.norm(x, xi)) < 1e-10


def the_projection_is_orthogonal_onto_the_horizontal_space(setting: Setting) -> None:
    at, x = setting.geometry, setting.point()
    xi, eta, A = setting.tangent(x, stream=1), setting.tangent(x, stream=2), setting.element()
    once = at.project(x, xi)
    scale = at.norm(x, xi) * at.norm(x, eta)
    assert gap(at.project(x, once), once) < 1e-10
    assert worst(at.inner(x, once, eta) - at.inner(x, xi, at.project(x, eta)), scale) < 1e-10
    along = at.vertical(x, *A.X)
    assert worst(at.inner(x, once, along), at.norm(x, xi) * at.norm(x, along)) < 1e-10
    assert gap(plus(along, at.project(x, along)), along) < 1e-10
    assert max(float(J.abs().max()) for J in at.momentum(x, once)) < 1e-10 * float(scale.max())
    assert gap(at.project(A(x), A.tangent(xi)), A.tangent(once)) < 1e-9


def momentum_pairs_tangents_with_the_algebra(setting: Setting) -> None:
    at, x = setting.geometry, setting.point()
    xi, A = setting.tangent(x), setting.element()
    along = at.vertical(x, *A.X)
    pairing = sum((J * X).sum((-2, -1)) for J, X in zip(at.momentum(x, xi), A.X, strict=True))
    assert worst(at.inner(x, xi, along) - pairing, at.norm(x, xi) * at.norm(x, along)) < 1e-10


def the_projection_has_the_rank_of_the_quotient(setting: Setting) -> None:
    setting = replace(setting, batch=())
    at, x, N = setting.geometry, setting.point(), setting.total
    basis = factors(torch.eye(N, dtype=torch.float64), setting.shapes)
    matrix = flat(at.project(x, basis))
    s = torch.linalg.svdvals(matrix)
    elements = [setting.element(stream).X for stream in range(20, 20 + 2 * N)]
    orbit = torch.stack([flat(generated(setting.name).vertical(*x, *X)) for X in elements])
    dimension = N - int(torch.linalg.matrix_rank(orbit, rtol=1e-9))
    assert int((s > 1e-6 * s[0]).sum()) == dimension
    assert abs(float(matrix.trace()) - dimension) < 1e-8
    assert 0 <= dimension < N
    if setting.name.startswith("gl_pair"):
        (n, h), (m, _) = setting.shapes
        assert dimension == n * h + m * h - h * h


def christoffel_symbols_are_the_connection(setting: Setting) -> None:
    """Bilinear, symmetric, -acceleration on the diagonal; and compatible with the metric, by finite differences."""
    at, x = setting.geometry, setting.point()
    xi, eta, zeta = (setting.tangent(x, stream=stream) for stream in (1, 2, 3))
    symbol = at.christoffel(x, xi, eta)
    assert gap(at.christoffel(x, eta, xi), symbol) < 1e-9
    assert gap(plus(at.christoffel(x, xi, plus(eta, zeta, 2.0)), at.christoffel(x, xi, zeta), -2.0), symbol) < 1e-8
    diagonal = scaled(-1.0, at.christoffel(x, xi, xi))
    scale = float(flat(xi).abs().max()) ** 2
    assert float((flat(diagonal) - flat(at.acceleration(x, xi))).abs().max()) < 1e-10 * scale

    def product(t: float) -> torch.Tensor:
        return at.inner(plus(x, xi, t), eta, zeta)

    d = 1e-3
    slope = (8 * (product(d) - product(-d)) - (product(2 * d) - product(-2 * d))) / (12 * d)
    expected = at.inner(x, symbol, zeta) + at.inner(x, eta, at.christoffel(x, xi, zeta))
    assert worst(slope - expected, at.norm(x, eta) * at.norm(x, zeta)) < 1e-8
    rate = scaled(-1.0, symbol)
    assert float(flat(at.covariant_derivative(x, xi, eta, rate)).abs().max()) < 1e-12


def trajectories_commute_with_the_group(setting: Setting) -> None:
    at, x, A = setting.geometry, setting.point(), setting.element()
    xi = setting.horizontal(x)
    for order, steps in (("exact", None), ("exact", 3), (1, None), (2, None), (3, None), (4, None)):
        curve = at.trajectory(x, xi, TIMES, order, steps=steps)
        moved = at.trajectory(A(x), A.tangent(xi), TIMES, order, steps=steps)
        tolerance = 1e-9 if order == "exact" and steps is None else 1e-10
        for i in range(len(TIMES)):
            assert gap(tuple(t[i] for t in moved), A(tuple(t[i] for t in curve))) < tolerance
        assert gap(tuple(t[1] for t in curve), x) < 1e-14


def energy_momentum_and_horizontality_are_conserved(setting: Setting) -> None:
    at, x = setting.geometry, setting.point()
    for xi, horizontal in ((setting.horizontal(x), True), (setting.tangent(x), False)):
        end, velocity = at.velocity(x, xi)
        assert worst(at.inner(end, velocity) - at.inner(x, xi), at.inner(x, xi)) < 1e-9
        scale = at.norm(x, xi) * at.norm(x, x)
        for before, after in zip(at.momentum(x, xi), at.momentum(end, velocity), strict=True):
            assert worst(after - before, scale[..., None, None]) < 1e-9
            assert not horizontal or worst(after, scale[..., None, None]) < 1e-9
        assert gap(at.exponential(end, scaled(-1.0, velocity)), x) < 1e-8
        assert gap(at.exponential(x, xi), end) < 1e-9


def errors_fall_with_their_order(setting: Setting) -> None:
    """Those of Taylor order k like t^(k+1), those of Runge-Kutta like steps^-4; some geometries have none."""
    at, x = setting.geometry, setting.point()
    xi = setting.horizontal(x, 0.4)
    times = (0.3, 0.15)
    wanted = [at.exponential(x, scaled(t, xi), tolerance=1e-12) for t in times]

    def slope(ends: list, references: list, ratio: float) -> float | None:
        errors = [float(at.norm(b, plus(a, b, -1.0)).max()) for a, b in zip(ends, references, strict=True)]
        return None if errors[0] < 1e-11 else math.log(errors[0] / errors[1]) / math.log(ratio)

    for order in (1, 2, 3, 4):
        found = slope([at.exponential(x, scaled(t, xi), order) for t in times], wanted, 2.0)
        assert found is None or abs(found - (order + 1)) < 0.2, (order, found)
    found = slope([at.exponential(x, scaled(0.3, xi), steps=k) for k in (3, 6)], [wanted[0]] * 2, 2.0)
    assert found is None or abs(found - 4) < 0.35, found
    first = at.exponential(x, scaled(0.3, xi), 1)
    assert gap(first, plus(x, xi, 0.3)) < 1e-14


def quotient_transport_is_parallel(setting: Setting) -> None:
    """Linear, horizontal, preserves inner products, takes the velocity along, commutes with the group."""
    at, x, A, steps = setting.geometry, setting.point(), setting.element(), 24
    xi = setting.horizontal(x, 0.05)
    eta, zeta = setting.horizontal(x, 0.05, 2), setting.horizontal(x, 0.05, 3)
    both = plus(eta, zeta, 2.0)
    points, ways = joined(*[x] * 4, A(x)), joined(*[xi] * 4, A.tangent(xi))  # one integration for all
    moved = at.transport(points, ways, joined(eta, zeta, both, xi, A.tangent(eta)), steps=steps)
    end, velocity = (tuple(t[0] for t in part) for part in moved[:2])
    carried, other, together, along, there = (tuple(t[i] for t in moved.tangent) for i in range(5))
    norm = at.norm(x, eta) * at.norm(x, zeta)
    assert worst(at.inner(end, carried, other) - at.inner(x, eta, zeta), norm) < 1e-9
    assert worst(at.inner(end, carried) - at.inner(x, eta), at.inner(x, eta)) < 1e-9
    for J in at.momentum(end, carried):
        assert worst(J, (at.norm(x, eta) * at.norm(x, x))[..., None, None]) < 1e-9
    assert gap(together, plus(carried, other, 2.0)) < 1e-9
    assert gap(along, velocity) < 1e-9
    assert gap(there, A.tangent(carried)) < 1e-9
    half = at.transport(x, scaled(0.5, xi), eta, steps=steps // 2)
    again = at.transport(half.point, half.velocity, half.tangent, steps=steps // 2).tangent
    assert gap(again, carried) < 1e-9


def the_covariant_derivative_of_what_is_transported_is_vertical(setting: Setting) -> None:
    """O'Neill: this, not the vanishing of the whole derivative, is parallel in the quotient; by finite differences."""
    at, x, sound = setting.geometry, setting.point(), replace(setting, module=None).geometry
    xi, eta = setting.horizontal(x, 0.3, 1), setting.horizontal(x, 0.3, 2)
    rates = {}
    for space in ("quotient", "total"):

        def carried(t: float, space: str = space) -> tuple[torch.Tensor, ...]:
            return at.transport(x, scaled(t, xi), eta, space=space, steps=1).tangent

        d = 1e-2
        near, far = plus(carried(d), carried(-d), -1.0), plus(carried(2 * d), carried(-2 * d), -1.0)
        rates[space] = scaled(1 / (12 * d), plus(scaled(8.0, near), far, -1.0))
    scale = at.norm(x, xi) * at.norm(x, eta) / at.norm(x, x)
    derivative = sound.covariant_derivative(x, xi, eta, rates["quotient"])
    assert worst(at.norm(x, sound.project(x, derivative)), scale) < 1e-6
    whole = sound.covariant_derivative(x, xi, eta, rates["total"])
    assert worst(at.norm(x, whole), scale) < 1e-6


def total_transport_preserves_inner_products(setting: Setting) -> None:
    at, x = setting.geometry, setting.point()
    xi, eta, zeta = (setting.tangent(x, stream=stream) for stream in (1, 2, 3))
    end, _, carried = at.transport(x, xi, eta, space="total")
    other = at.transport(x, xi, zeta, space="total").tangent
    scale = at.norm(x, eta) * at.norm(x, zeta)
    assert worst(at.inner(end, carried, other) - at.inner(x, eta, zeta), scale) < 1e-9


def a_batch_is_its_members(setting: Setting) -> None:
    at, x = setting.geometry, setting.point()
    xi, eta = setting.tangent(x, stream=1), setting.tangent(x, stream=2)
    operations = (
        lambda x, xi, eta: at.project(x, xi),
        lambda x, xi, eta: at.gradient(x, xi),
        at.christoffel,
        lambda x, xi, eta: at.exponential(x, xi, steps=4),
        lambda x, xi, eta: at.exponential(x, xi, 4),
        lambda x, xi, eta: (at.inner(x, xi, eta)[..., None, None],),
    )
    for operation in operations:
        together = operation(x, xi, eta)
        for i in range(setting.batch[0]):
            apart = operation(*(tuple(t[i] for t in part) for part in (x, xi, eta)))
            assert gap(tuple(t[i] for t in together), apart) < 1e-11
        mixed = operation(tuple(t[0] for t in x), xi, eta)
        assert gap(tuple(t[0] for t in mixed), tuple(t[0] for t in together)) < 1e-11


PROPERTIES = (
    the_metric_is_an_invariant_inner_product,
    the_gradient_is_the_gradient,
    the_projection_is_orthogonal_onto_the_horizontal_space,
    momentum_pairs_tangents_with_the_algebra,
    the_projection_has_the_rank_of_the_quotient,
    christoffel_symbols_are_the_connection,
    trajectories_commute_with_the_group,
    energy_momentum_and_horizontality_are_conserved,
    errors_fall_with_their_order,
    quotient_transport_is_parallel,
    the_covariant_derivative_of_what_is_transported_is_vertical,
    total_transport_preserves_inner_products,
    a_batch_is_its_members,
)
