"""End points and pullbacks by hand, on coefficients of the span of F and N, against the tall differentiable formulas."""

from __future__ import annotations

import pytest
import torch

from quotientgeo.geometry.catalogue_code import generated_code
from quotientgeo.geometry.coordinates import Horizontal, draw_start
from quotientgeo.geometry.first_order import FirstOrder, Stored
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.geometry.span import Span

SHAPES = [(9, 7, 3), (5, 5, 5), (4, 8, 1), (6, 3, 3)]
GEODESICS = ["exact", 1, 2, 3, 4]


def geometry_and_tangent(shape, metric, how, rho, dtype=torch.float64, size=0.2):
    n, m, h = shape
    generator = torch.Generator().manual_seed(n + 10 * m + 100 * h)
    G, H = (torch.randn(4, rows, h, generator=generator, dtype=torch.float64) for rows in (n, m))
    geometry = PairGeometry.at(G, H, metric=metric, geodesic=how, rho=rho, steps=3).to(dtype)
    z = draw_start(geometry.frames, generator)
    scale = size * geometry.frames.s[:, -1].clamp_max(1.0) / z.squared_norm().sqrt()
    return geometry, Horizontal(*(part.to(dtype) for part in z.scale(scale))), generator


def stored(z: Horizontal) -> Stored:
    return Stored(z.c.contiguous(), z.N_G.mT.contiguous(), z.N_H.mT.contiguous())


def in_place(geometry, z, d_ends):
    first = FirstOrder(geometry)
    ends = tuple(end.clone() for end in first.move(stored(z)))
    out = Stored(*(torch.full_like(part, float("nan")) for part in stored(z)))
    first.pull(*d_ends, out)
    return ends, (out.c, out.N_G.mT, out.N_H.mT)


@pytest.mark.parametrize("rho", [0.3, None])
@pytest.mark.parametrize("how", GEODESICS)
@pytest.mark.parametrize("metric", ["invariant", "mixed"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_agrees_with_the_tall_formulas(shape, metric, how, rho):
    geometry, z, generator = geometry_and_tangent(shape, metric, how, rho)
    for point in (z, z.scale(0.0)):
        leaves = Horizontal(*(part.clone().requires_grad_() for part in point))
        expected = geometry.exp(leaves)
        d_ends = [torch.randn(end.shape, generator=generator, dtype=end.dtype) for end in expected]
        d_expected = torch.autograd.grad(expected, list(leaves), d_ends)
        ends, d_found = in_place(geometry, point, d_ends)
        for found, right in zip((*ends, *d_found), (*expected, *d_expected), strict=True):
            torch.testing.assert_close(
                found, right.detach(), rtol=1e-10, atol=1e-12 * (1 + float(right.detach().abs().max()))
            )


@pytest.mark.parametrize("metric", ["invariant", "mixed"])
@pytest.mark.parametrize("how", ["exact", 2])
def test_the_pullback_is_the_derivative(metric, how):
    """Against central differences of ``move`` alone, along a normal direction."""
    geometry, z, generator = geometry_and_tangent((6, 5, 2), metric, how, 1.0)
    direction = draw_start(geometry.frames, generator)
    first = FirstOrder(geometry)
    d_ends = [torch.randn(end.shape, generator=generator, dtype=end.dtype) for end in geometry.base()]

    def value(step):
        moved = Horizontal(*(a + step * b for a, b in zip(z, direction, strict=True)))
        return sum(float((end * d).sum()) for end, d in zip(first.move(stored(moved)), d_ends, strict=True))

    _, pulled = in_place(geometry, z, d_ends)
    slope = sum(float((a * b).sum()) for a, b in zip(pulled, direction, strict=True))
    assert slope == pytest.approx((value(1e-5) - value(-1e-5)) / 2e-5, rel=1e-7)


def test_gradients_stay_normal_to_the_frames():
    """The move relies on it: normals are never projected again."""
    geometry, z, generator = geometry_and_tangent((9, 7, 3), "invariant", "exact", 1.0)
    d_ends = [torch.randn(end.shape, generator=generator, dtype=end.dtype) for end in geometry.base()]
    _, (_, dN_G, dN_H) = in_place(geometry, z, d_ends)
    assert float((geometry.frames.F_G.mT @ dN_G).abs().max()) < 1e-13
    assert float((geometry.frames.F_H.mT @ dN_H).abs().max()) < 1e-13
    assert float(dN_G.abs().max()) > 1e-2


@pytest.mark.parametrize("metric", ["invariant", "mixed"])
@pytest.mark.parametrize("how", ["exact", 2])
def test_float32_is_close(metric, how):
    geometry, z, generator = geometry_and_tangent((9, 7, 3), metric, how, 0.3)
    d_ends = [torch.randn(end.shape, generator=generator, dtype=end.dtype) for end in geometry.base()]
    exact = in_place(geometry, z, d_ends)
    single = in_place(geometry.to(torch.float32), Horizontal(*(p.float() for p in z)), [d.float() for d in d_ends])
    for found, right in zip((*single[0], *single[1]), (*exact[0], *exact[1]), strict=True):
        assert found.dtype == torch.float32
        assert float((found.double() - right).norm() / right.norm()) < 1e-5


@pytest.mark.parametrize("name", ["acceleration", "taylor_1", "taylor_2", "taylor_3", "taylor_4"])
@pytest.mark.parametrize("metric", ["invariant", "mixed"])
def test_generated_code_runs_on_spans(metric, name):
    """The derived formulas as they stand, on coefficients: the same factors as on tall matrices."""
    generator = torch.Generator().manual_seed(5)

    def gaussian(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    h, tall, spans = 3, [], {}
    for side, rows in (("G", 8), ("H", 9)):
        F = torch.linalg.qr(gaussian(rows, h)).Q
        N = gaussian(rows, h)
        N = N - F @ (F.mT @ N)
        spans[side] = (F, N, N.mT @ N)
    arguments = []
    for side in ("G", "H", "G", "H"):
        F, N, gram = spans[side]
        u, q = gaussian(h, h), gaussian(h, h)
        arguments.append(Span(u, q, gram))
        tall.append(F @ u + N @ q)
    function = getattr(generated_code(metric), name)
    for side, found, right in zip("GH", function(*arguments), function(*tall), strict=True):
        F, N, _ = spans[side]
        torch.testing.assert_close(F @ found.u + N @ found.q, right, rtol=1e-9, atol=1e-9)


def test_a_pull_needs_its_own_move():
    geometry, z, _ = geometry_and_tangent((6, 5, 2), "invariant", "exact", 1.0)
    first = FirstOrder(geometry)
    ends = first.move(stored(z))
    out = stored(z.scale(0.0))
    first.pull(*ends, out)
    with pytest.raises(RuntimeError, match="needs a move"):
        first.pull(*ends, out)
