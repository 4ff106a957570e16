"""Auto-PGD alone, on functions whose maximum over the ball is known."""

from __future__ import annotations

import math

import pytest
import torch

from quotientgeo.measures.maximiser import auto_pgd, check_points
from quotientgeo.measures.vectors import ball_factor, copy_where_, inner_products, norm, tame_


def quadratic(seed: int, d: int = 12):
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(d, d, generator=generator, dtype=torch.float64)
    A = (A + A.T) / 2
    b = torch.randn(d, generator=generator, dtype=torch.float64)

    def value(z):
        return 0.5 * z @ A @ z + b @ z

    def value_and_gradient(z):
        return value(z), A @ z + b

    return A, b, value, value_and_gradient


def trust_region_maximum(A, b, radius):
    """max b'z + z'Az/2 on |z| = radius by the secular equation |(lambda - A)^-1 b| = radius, lambda > lambda_max(A)."""
    eigenvalues, vectors = torch.linalg.eigh(A)
    c = vectors.T @ b
    low, high = float(eigenvalues[-1]) + 1e-12, float(eigenvalues[-1]) + float(c.norm()) / radius + 1
    for _ in range(200):
        mid = (low + high) / 2
        low, high = (mid, high) if float((c / (mid - eigenvalues)).norm()) > radius else (low, mid)
    z = vectors @ (c / (high - eigenvalues))
    return float(0.5 * z @ A @ z + b @ z)


def test_check_points_are_those_of_the_method():
    # p = .22, .41, .57, .70, .80, .87, .93, .99 of 100 steps, each next period 0.03 shorter and at least 0.06
    assert check_points(100) == frozenset({22, 41, 57, 70, 80, 87, 93, 99})
    assert check_points(20) == frozenset({5, 9, 12, 14, 16, 18, 19, 20})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("radius", [0.1, 1.0, 10.0])
def test_finds_the_trust_region_maximum(seed, radius):
    A, b, value, value_and_gradient = quadratic(seed)
    best = trust_region_maximum(A, b, radius)
    found = auto_pgd(value_and_gradient, value, torch.zeros_like(b), radius=radius, steps=200)
    assert float(found.best_value) <= best * (1 + 1e-9)
    assert float(found.best_value) >= best * (1 - 1e-3)
    assert float(norm(found.best_point)) <= radius * (1 + 1e-12)
    assert bool(found.finite)
    torch.testing.assert_close(found.best_value, value(found.best_point))
    assert found.values[int(found.best_step)] == found.best_value
    assert len(found.values) == 201


def test_runs_the_same_in_rotated_coordinates():
    """Nothing in it depends on the axes: this is what makes the value independent of signs and bases of the frames."""
    A, b, value, value_and_gradient = quadratic(7)
    Q, _ = torch.linalg.qr(torch.randn(12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    plain = auto_pgd(value_and_gradient, value, torch.zeros_like(b), radius=1.0, steps=30)
    turned = auto_pgd(
        lambda z: (value(Q @ z), Q.T @ (A @ (Q @ z) + b)),
        lambda z: value(Q @ z),
        torch.zeros_like(b),
        radius=1.0,
        steps=30,
    )
    torch.testing.assert_close(plain.values, turned.values, rtol=1e-12, atol=1e-12)


def test_costs_one_gradient_a_step():
    _, b, value, value_and_gradient = quadratic(3)
    calls = {"value": 0, "gradient": 0}

    def counted_value(z):
        calls["value"] += 1
        return value(z)

    def counted_gradient(z):
        calls["gradient"] += 1
        return value_and_gradient(z)

    known = value_and_gradient(torch.zeros_like(b))
    auto_pgd(counted_gradient, counted_value, torch.zeros_like(b), radius=1.0, steps=20, known=known)
    assert calls == {"gradient": 19, "value": 1}


def test_a_stationary_start_stays_and_stays_finite():
    found = auto_pgd(
        lambda z: (z.sum() * 0, torch.zeros_like(z)),
        lambda z: z.sum() * 0,
        torch.zeros(4, dtype=torch.float64),
        radius=1.0,
        steps=5,
    )
    assert bool(found.finite)
    assert torch.equal(found.best_point, torch.zeros(4, dtype=torch.float64))


def test_a_bad_value_is_flagged_with_its_point():
    def value(z):
        return torch.where(z.norm() > 0.5, torch.tensor(math.nan, dtype=z.dtype), z.sum())

    found = auto_pgd(
        lambda z: (value(z), torch.ones_like(z)), value, torch.zeros(3, dtype=torch.float64), radius=1.0, steps=10
    )
    assert not bool(found.finite)
    assert float(found.first_bad_point.norm()) > 0.5
    assert torch.isfinite(found.first_bad_point).all()
    assert torch.isfinite(found.best_value)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_extreme_gradients_point_the_same_way(scale):
    """|g|^2 of the largest and smallest is no float64."""
    _, b, value, _ = quadratic(1)

    def run(factor):
        evaluate = lambda z: (value(z), factor * b)  # noqa: E731
        return auto_pgd(evaluate, value, torch.zeros_like(b), radius=1.0, steps=3).best_point

    torch.testing.assert_close(run(scale), run(1.0), rtol=1e-12, atol=0)


def test_taming_keeps_the_direction_and_zero():
    for scale in (1e-30, 1e-19, 1.0, 1e19, 1e30):
        g = scale * torch.tensor([3.0, -4.0])
        tame_(g)
        torch.testing.assert_close(g / g.abs().sum(), torch.tensor([3.0, -4.0]) / 7)
        assert torch.isfinite(g.square().sum())
        assert g.square().sum() > 0
    zero = torch.zeros(3)
    tame_(zero)
    assert torch.equal(zero, torch.zeros(3))


def test_inner_products_keep_float32_digits():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(3_000_001, generator=generator), torch.rand(3_000_001, generator=generator)
    exact = [float(x.double() @ x.double()), float(x.double() @ y.double())]
    for found, right in zip(inner_products(x, [x, y]), exact, strict=True):
        assert found.dtype == torch.float64
        assert abs(float(found) / right - 1) < 2e-6
    assert [float(v) for v in inner_products(torch.zeros(0), [torch.zeros(0)])] == [0.0]


def test_copies_only_where_the_flag_is_true():
    target = torch.zeros(3)
    copy_where_(torch.tensor(False), torch.ones(3), target)
    assert torch.equal(target, torch.zeros(3))
    copy_where_(torch.tensor(True), torch.ones(3), target)
    assert torch.equal(target, torch.ones(3))


def reference_auto_pgd(value_and_gradient, start, radius, steps):
    """The method word by word, with a fresh vector for every operation; the values visited."""

    def project(z):
        return z * min(1.0, radius / max(float(z.norm()), 1e-300))

    z = previous = best = start
    value, g = value_and_gradient(z)
    best_value, best_g, step, marks, since = value, g, 2 * radius, check_points(steps), 0
    values, successes, at_mark, halved = [value], 0, value, False
    for k in range(1, steps + 1):
        candidate = project(z + step * g / g.norm())
        if k > 1:
            candidate = project(z + 0.75 * (candidate - z) + 0.25 * (z - previous))
        previous, z = z, candidate
        value, g = value_and_gradient(z)
        if value > best_value:
            best, best_value, best_g, successes = z, value, g, successes + 1
        values.append(value)
        if k in marks and k < steps:
            halve = successes < 0.75 * (k - since) or (not halved and best_value == at_mark)
            if halve:
                step, z, g, previous = step / 2, best, best_g, best
            halved, at_mark, successes, since = halve, best_value, 0, k
    return torch.stack(values)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("from_zero", [True, False])
def test_takes_the_steps_of_the_method(seed, from_zero):
    """Coefficients from inner products and buffers in place, against the recipe written out."""
    _, b, value, value_and_gradient = quadratic(seed)
    start = torch.zeros_like(b) if from_zero else b.flip(0) * ball_factor(b.flip(0), 1.0)
    found = auto_pgd(value_and_gradient, value, start.clone(), radius=1.0, steps=25)
    expected = reference_auto_pgd(value_and_gradient, start.clone(), 1.0, 25)
    torch.testing.assert_close(found.values, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_takes_the_steps_of_the_method_on_rough_ground(seed):
    """Where steps overshoot, and restarts go back to a point, and a gradient, that are not the last ones."""
    generator = torch.Generator().manual_seed(seed)
    A, b = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((9, 5), (5,)))

    def value_and_gradient(z):
        leaf = z.detach().clone().requires_grad_()
        value = (3 * A @ leaf).sin().sum() + b @ leaf
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    start = 0.1 * b / b.norm()
    found = auto_pgd(value_and_gradient, lambda z: value_and_gradient(z)[0], start.clone(), radius=1.0, steps=40)
    expected = reference_auto_pgd(value_and_gradient, start, 1.0, 40)
    torch.testing.assert_close(found.values, expected, rtol=1e-7, atol=1e-7)


def test_gradients_and_points_may_be_overwritten_by_the_next_step():
    """The caller may write every gradient into one buffer, and what was found does not change when buffers do."""
    _, b, value, value_and_gradient = quadratic(2)
    buffer = torch.empty_like(b)

    def evaluate(z):
        loss, gradient = value_and_gradient(z)
        buffer.copy_(gradient)
        return loss, buffer

    expected = auto_pgd(value_and_gradient, value, torch.zeros_like(b), radius=1.0, steps=25)
    found = auto_pgd(evaluate, value, torch.zeros_like(b), radius=1.0, steps=25)
    torch.testing.assert_close(found.values, expected.values, rtol=0, atol=0)


def test_projection_keeps_float32_inside_the_ball():
    z = torch.full((3_000_000,), 0.1)
    assert float(norm(z * ball_factor(z, 0.05))) <= 0.05 * (1 + 1e-6)
    inside = torch.full((10,), 1e-3)
    assert ball_factor(inside, 1.0) == 1


def test_a_bad_start_is_its_own_witness():
    def value(z):
        return torch.where(z[0] == 0.25, torch.tensor(math.nan, dtype=z.dtype), z.sum())

    start = torch.tensor([0.25, 0.5, 0.0], dtype=torch.float64)
    found = auto_pgd(lambda z: (value(z), torch.ones_like(z)), value, start.clone(), radius=1.0, steps=4)
    assert not bool(found.finite)
    assert torch.equal(found.first_bad_point, start)
