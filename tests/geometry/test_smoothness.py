"""Derivatives of the exponential: right, and finite where frames are not unique or tangents vanish; precision and scale."""

import copy
import pickle

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.gradcheck import GradcheckError

from quotientgeo.errors import GeodesicAccuracyError, GeodesicCollapseError
from quotientgeo.geometry import flow, invariant, mixed
from quotientgeo.geometry.coordinates import Horizontal
from quotientgeo.geometry.pair import PairGeometry
from tests.geometry.cases import METRICS, Case, admissible_size, gap, horizontal

GEODESICS = ("exact", 2, 4)


def _function(geometry, seed=0):
    """A smooth scalar of the end point that depends on all its entries, through G H' and not."""
    generator = torch.Generator().manual_seed(seed)
    n, m, h = geometry.frames.sizes
    weights = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((n, m), (n, h), (m, h))]

    def value(c, N_G, N_H):
        G, H = geometry.exp(Horizontal(c, N_G, N_H))
        W, G_part, H_part = (w.to(c.dtype) for w in weights)
        return ((G @ H.mT).sin() * W).sum() + (G * G_part).sum() + (H * H_part).sum()

    return value


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("geodesic", GEODESICS)
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_first_and_second_derivatives(metric, geodesic, fraction):
    """torch's gradcheck and gradgradcheck, at zero tangent too."""
    geometry = Case(4, 3, 2, spectrum=3.0).geometry(metric, geodesic=geodesic, steps=2)
    z = horizontal(geometry, admissible_size(metric, geometry, fraction))
    inputs = tuple(part.clone().requires_grad_() for part in z)
    value = _function(geometry)
    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradgradcheck(value, inputs)


def test_gradcheck_sees_a_wrong_derivative():
    """What a careless detach would do: half of a product's derivative is cut off."""
    geometry = Case(4, 3, 2, spectrum=3.0).geometry("invariant")
    inputs = tuple(part.clone().requires_grad_() for part in horizontal(geometry, 0.5))

    def careless(c, N_G, N_H):
        return _function(geometry)(c, N_G, N_H) + (c.detach() * c).sum()

    with pytest.raises(GradcheckError):
        torch.autograd.gradcheck(careless, inputs)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("geodesic", ["exact", 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("where", ["zero", "zero normal part", "generic"])
@pytest.mark.parametrize("spectrum", [1.0, 10.0])
@pytest.mark.parametrize("shape", [(5, 4, 3), (3, 3, 3), (4, 3, 1)])
def test_derivatives_are_finite_at_zero_and_at_equal_singular_values(metric, geodesic, dtype, where, spectrum, shape):
    geometry = Case(*shape, spectrum=spectrum).geometry(metric, geodesic=geodesic, steps=3).to(dtype)
    z = horizontal(geometry, admissible_size(metric, geometry))
    z = {"zero": z.scale(0.0), "zero normal part": Horizontal(z.c, 0 * z.N_G, 0 * z.N_H), "generic": z}[where]
    inputs = [part.to(dtype).requires_grad_() for part in z]
    value = _function(geometry)(*inputs)
    first = torch.autograd.grad(value, inputs, create_graph=True)
    direction = [torch.ones_like(part) for part in inputs]
    slope = sum((g * d).sum() for g, d in zip(first, direction, strict=True))
    second = torch.autograd.grad(slope, inputs) if slope.requires_grad and geodesic != 1 else ()
    assert value.dtype == dtype
    for part in (value, *first, *second):
        assert bool(part.isfinite().all())
    assert any(float(g.detach().abs().max()) > 1e-3 for g in first)


@pytest.mark.parametrize("metric", METRICS)
def test_gradients_are_normal_to_the_frames(metric):
    """So that gradient steps in z stay in the coordinates of horizontal tangents."""
    geometry = Case(5, 4, 2).geometry(metric, steps=2)
    inputs = [part.requires_grad_() for part in horizontal(geometry, admissible_size(metric, geometry))]
    _, d_G, d_H = torch.autograd.grad(_function(geometry)(*inputs), inputs)
    assert float((geometry.frames.F_G.mT @ d_G).abs().max()) < 1e-13 < float(d_G.abs().max())
    assert float((geometry.frames.F_H.mT @ d_H).abs().max()) < 1e-13 < float(d_H.abs().max())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("geodesic", GEODESICS)
@pytest.mark.parametrize("gauge", [1.0, 1e4, 1e6])
def test_float32_loses_nothing_to_the_gauge(metric, geodesic, gauge):
    """Whitened error of a float32 exponential, against float64, in any gauge: a few float32 roundings."""
    geometry = Case(64, 48, 16, spectrum=10.0, gauge=gauge, batch=(2,)).geometry(metric, geodesic=geodesic, steps=4)
    z = horizontal(geometry, admissible_size(metric, geometry))
    single = Horizontal(*(part.float() for part in z))
    root = geometry.frames.s.sqrt()[..., None, :]
    for working in (geometry.to(torch.float32), geometry):  # the second casts its frames on the way
        ends = [Y.double() / root for Y in working.exp(single)]
        assert gap(tuple(ends), tuple(Y / root for Y in geometry.exp(z))) < 2e-6
    assert geometry.to(torch.float32).exp(single)[0].dtype == torch.float32
    assert geometry.to(torch.float32).base()[0].dtype == torch.float32
    assert gap(geometry.to(torch.float32).to(torch.float64).base(), geometry.base()) == 0.0  # nothing was lost


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("geodesic", GEODESICS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scales", [(1e19, 1e19), (1e-17, 1e-17), (1e19, 1e-19)])
def test_extreme_scales_give_the_scaled_geodesic(metric, geodesic, dtype, scales):
    """Weights times 1e+-19: the invariant metric does not notice, the mixed one scales its tangents with G H'."""
    G, H = (factor.to(dtype) for factor in Case(6, 5, 3, spectrum=4.0).factors())
    options = {"metric": metric, "geodesic": geodesic, "steps": 4}
    here = PairGeometry.at(G, H, **options).to(dtype)
    there = PairGeometry.at(scales[0] * G, scales[1] * H, **options).to(dtype)
    size = scales[0] * scales[1] if metric == "mixed" else 1.0
    z = horizontal(here, admissible_size(metric, here))
    wide = there.coordinates(*(scale * part for scale, part in zip(scales, here.displacement(z), strict=True)))
    torch.testing.assert_close(wide.squared_norm().sqrt(), size * z.squared_norm().sqrt(), rtol=1e-6, atol=0)
    balanced = (scales[0] * scales[1]) ** 0.5
    ends = there.exp(Horizontal(*(part.to(dtype) for part in wide)))
    reference = here.exp(Horizontal(*(part.to(dtype) for part in z)))
    W, W_reference = (
        (Y[0].double() / scale) @ (Y[1].double() / scale).mT for Y, scale in ((ends, balanced), (reference, 1.0))
    )
    tolerance = 2e-6 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(W, W_reference, rtol=0, atol=tolerance)


def test_a_tangent_far_beyond_tiny_weights_is_a_named_error():
    """rho = 0.05 in the mixed metric, whose unit is that of G H' = 1e-38."""
    G, H = (1e-19 * factor.float() for factor in Case(6, 5, 3, batch=(2,)).factors())
    geometry = PairGeometry.at(G, H, metric="mixed", rho=0.05)
    assert geometry.steps == flow.MOST_ASCENT_STEPS
    z = horizontal(geometry, 0.05)
    geometry.to(torch.float32).exp(Horizontal(*(part.float() for part in z)))  # does not raise in the loop
    with pytest.raises((GeodesicCollapseError, GeodesicAccuracyError), match=r"block 0: .*block 1: "):
        geometry.settled_steps(z)


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_waits_for_the_device(metric):
    """Fake tensors hold no data: a host synchronisation in lift or exponential would raise here."""
    frames = Case(6, 5, 3, batch=(2,)).geometry(metric).frames.to(torch.float32)
    functions = {"invariant": invariant, "mixed": mixed}[metric]
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = type(frames)(*(mode.from_tensor(part) for part in frames))
        z = Horizontal(*(torch.zeros(2, rows, 3, requires_grad=True) for rows in (3, 6, 5)))
        ends = functions.exponential(fake, *functions.lift(fake, z), 2)
        torch.autograd.grad(ends[0].sum() + ends[1].sum(), list(z))
        with pytest.raises(Exception, match="_local_scalar_dense"):
            flow.choose_steps(fake, float(ends[0].sum()))


def test_copies_and_pickles():
    geometry = Case(6, 5, 3).geometry("mixed", steps=5).to(torch.float32)
    z = Horizontal(*(part.float() for part in horizontal(geometry, 0.01)))
    for twin in (copy.deepcopy(geometry), pickle.loads(pickle.dumps(geometry))):
        assert (twin.metric, twin.steps, twin.dtype) == ("mixed", 5, torch.float32)
        assert gap(twin.exp(z), geometry.exp(z)) == 0.0
