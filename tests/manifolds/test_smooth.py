"""Derivatives in points and tangents, first and second, also where singular values are equal and tangents are zero."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import quotientgeo as qg
from quotientgeo.geometry.moving import MovingPair
from quotientgeo.geometry.pair import PairGeometry
from tests.manifolds.cases import GEODESICS, METRICS, Case, relative

SPECTRA = ("generic", "equal")


def setting(metric: str, geodesic: str | int, spectrum: str) -> tuple[qg.GLPair, torch.Tensor, torch.Tensor]:
    case = Case(metric=metric, geodesic=geodesic, n=3, m=2)
    manifold, x = case.setting()
    if spectrum == "equal":
        x = manifold.origin(5, 2, dtype=torch.float64)
    return manifold, x.requires_grad_(), case.ambient(x.detach()).requires_grad_()


@pytest.mark.parametrize(("metric", "geodesic", "spectrum"), list(itertools.product(METRICS, GEODESICS, SPECTRA)))
def test_geodesics(metric, geodesic, spectrum) -> None:
    manifold, x, u = setting(metric, geodesic, spectrum)
    assert gradcheck(manifold.expmap, (x, u), fast_mode=True)
    assert gradgradcheck(manifold.expmap, (x, u), atol=1e-4, fast_mode=True)
    assert gradcheck(manifold.expmap, (x, torch.zeros_like(x, requires_grad=True)), fast_mode=True)


@pytest.mark.parametrize(("metric", "spectrum"), list(itertools.product(METRICS, SPECTRA)))
def test_what_is_linear_in_tangents(metric, spectrum) -> None:
    manifold, x, u = setting(metric, "exact", spectrum)
    for operation in (manifold.inner, manifold.norm, manifold.proju, manifold.egrad2rgrad):
        assert gradcheck(operation, (x, u)), operation
        assert gradgradcheck(operation, (x, u), atol=1e-4, fast_mode=True), operation
    assert gradcheck(lambda x, u: manifold.transp(x, manifold.retr(x, u), u), (x, u), fast_mode=True)


@pytest.mark.parametrize("metric", METRICS)
def test_the_norm_of_zero_has_the_derivative_zero(metric) -> None:
    manifold, x, u = setting(metric, "exact", "generic")
    zero = torch.zeros_like(u, requires_grad=True)
    for gradient in torch.autograd.grad(manifold.norm(x, zero), (x, zero)):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("metric", METRICS)
def test_the_passes_of_the_projection_make_its_derivatives(metric, monkeypatch) -> None:
    """With one pass the value is right and the derivative is not: gradcheck sees that."""
    manifold, x, u = setting(metric, "exact", "generic")
    wanted = manifold.proju(x, u)
    monkeypatch.setattr("quotientgeo.geometry.moving._PASSES", 1)
    assert relative(manifold.proju(x, u).detach(), wanted.detach()) < 1e-13
    assert not gradcheck(manifold.proju, (x, u), raise_exception=False)


@pytest.mark.parametrize(("metric", "geodesic"), list(itertools.product(METRICS, GEODESICS)))
def test_values_are_those_of_the_geometry_at_fixed_points(metric, geodesic) -> None:
    """PairGeometry goes another way: constant frames, orthonormal coordinates."""
    case = Case(metric=metric, geodesic=geodesic, n=7, m=5, h=3, batch=(2,), gauge=100.0)
    manifold, x = case.setting()
    u = case.ambient(x, size=0.1)
    factors, tangent = manifold.unpack_tensor(x), manifold.unpack_tensor(u)
    fixed, moving = (
        PairGeometry.at(*factors, metric=metric, geodesic=geodesic),
        MovingPair.at(*factors, metric, geodesic),
    )
    for one, other in ((fixed.exponential, moving.exponential), (fixed.project, moving.project)):
        for a, b in zip(one(*tangent), other(*tangent), strict=True):
            assert relative(a, b) < 1e-11
    z = fixed.coordinates(*tangent)
    assert relative(moving.inner(*fixed.displacement(z), *fixed.displacement(z)), z.squared_norm()) < 1e-11
