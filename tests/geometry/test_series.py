"""The closed form's power series, for tangents of bounded length, against its matrix exponential."""

from __future__ import annotations

import math

import pytest
import torch

from quotientgeo.geometry.catalogue_code import generated_code
from quotientgeo.geometry.certify import certify_exponential, random_draws
from quotientgeo.geometry.coordinates import draw_start
from quotientgeo.geometry.invariant import LARGEST_SERIES, series_degree
from quotientgeo.geometry.pair import PairGeometry

SHAPES = {"G": (7, 3), "H": (6, 3)}
RADII = (1e-4, 0.05, 0.3, 1.0, LARGEST_SERIES)


def factors(seed: int = 0, h: int = 3):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(5, rows, h, generator=generator, dtype=torch.float64) for rows in (7, 6))


def tangent(geometry: PairGeometry, length: float, kind: str):
    """All of the length in the cores, in the normal parts, or spread: the bound has its worst case in between."""
    z = draw_start(geometry.frames, torch.Generator().manual_seed(1))
    parts = {"core": (1, 0, 0), "normal": (0, 1, 1), "spread": (1, 1, 1), "one side": (1, 1, 0)}[kind]
    z = type(z)(*(weight * part for weight, part in zip(parts, z, strict=True)))
    return z.scale(length / z.squared_norm().sqrt())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rho", RADII)
@pytest.mark.parametrize("kind", ["core", "normal", "spread", "one side"])
def test_is_the_matrix_exponential_to_rounding(rho, dtype, kind):
    reference = PairGeometry.at(*factors())
    bounded = PairGeometry.at(*factors(), rho=rho).to(dtype)
    z = tangent(reference, rho, kind)
    base, exact = reference.base(), reference.exp(z)
    found = bounded.exp(type(z)(*(part.to(dtype) for part in z)))
    for start, end, got in zip(base, exact, found, strict=True):
        error = (got.double() - end).flatten(1).norm(dim=1) / start.flatten(1).norm(dim=1)
        assert float(error.max()) < 10 * torch.finfo(dtype).eps


def test_the_degree_is_no_larger_than_needed():
    degrees = [series_degree(rho, torch.float64) for rho in (0.01, 0.05, 0.3, 1.0)]
    assert degrees == sorted(degrees)
    assert degrees[1] < 12
    assert degrees[2] < 18
    assert series_degree(0.05, torch.float32) <= 6
    assert series_degree(10.0, torch.float64) is None


def test_fewer_terms_would_show(monkeypatch):
    """The control: a degree of half the size is far from rounding."""
    z = tangent(PairGeometry.at(*factors()), 0.3, "spread")
    exact = PairGeometry.at(*factors()).exp(z)[0]
    monkeypatch.setattr(
        "quotientgeo.geometry.invariant.series_degree", lambda rho, dtype: series_degree(rho, dtype) // 2
    )
    short = PairGeometry.at(*factors(), rho=0.3).exp(z)[0]
    assert float((short - exact).abs().max()) > 1e-12


def test_passes_against_the_generated_acceleration():
    def exponential(G, H, xi_G, xi_H):
        geometry = PairGeometry.at(G, H, rho=1.0)
        Y_G, Y_H = geometry._end(geometry.frames, *geometry.to_canonical(xi_G, xi_H), rho=geometry.rho)
        return geometry._from_whitened(Y_G, Y_H)

    draws = random_draws(list(SHAPES.values()), count=2, size=0.1)
    certify_exponential(exponential, generated_code("invariant").acceleration, draws)


def test_first_and_second_derivatives():
    geometry = PairGeometry.at(*(factor[:1] for factor in factors(h=2)), rho=0.5)
    z = tangent(geometry, 0.3, "spread")
    for point in (z, geometry.zero()):
        leaves = [part.clone().requires_grad_() for part in point]
        assert torch.autograd.gradcheck(lambda *parts: geometry.exp(type(z)(*parts)), leaves)
        assert torch.autograd.gradgradcheck(lambda *parts: geometry.exp(type(z)(*parts)), leaves)


def test_a_tangent_in_the_original_gauge_may_have_any_length():
    """Only ``exp`` may use the promise: ``exponential`` takes tangents of every length."""
    bounded, free = PairGeometry.at(*factors(), rho=0.05), PairGeometry.at(*factors())
    xi = free.displacement(tangent(free, 2.0, "spread"))
    for got, expected in zip(bounded.exponential(*xi), free.exponential(*xi), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.05, 0.3, 1.0, 1.5])
def test_the_degree_is_the_first_that_leaves_out_less_than_rounding(rho, dtype):
    """2 lambda^m / (m + 1)! of a displacement of size lambda = sqrt(2) rho, against a quarter of a rounding error."""
    degree, growth, allowed = series_degree(rho, dtype), math.sqrt(2) * rho, torch.finfo(dtype).eps / 4

    def left_out(m):
        return 2 * growth**m / math.factorial(m + 1)

    assert left_out(degree) <= allowed * (1 + 1e-9)
    assert degree == 1 or left_out(degree - 1) > allowed * (1 - 1e-9)
