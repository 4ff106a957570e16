"""Every geometry of the catalogue as a geoopt manifold: operations, optimisers, orbits; and planted faults."""

from __future__ import annotations

from collections.abc import Callable

import geoopt
import pytest
import torch
from torch import Tensor

import quotientgeo as qg
from quotientgeo.errors import QuotientgeoError
from quotientgeo.manifolds import QuotientManifold, RiemannianSGD
from tests.geometry.derived_settings import (
    CATALOGUE,
    DEAR,
    SMALL,
    GroupElement,
    Setting,
    generated,
    sizes_of,
    with_fault,
)

GEODESICS = ("exact", 1, 2, 3, 4)
STEPS = 4
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": geoopt.optim.RiemannianSGD,
    "adam": geoopt.optim.RiemannianAdam,
    "momentum": lambda points, lr: RiemannianSGD(points, lr=lr, momentum=0.8),
}


class Case:
    """A manifold of the catalogue, a point on it and a group element that acts on packed points."""

    def __init__(self, name: str, geodesic="exact", module=None, dtype=torch.float64) -> None:
        self.setting = Setting(name)
        self.manifold = qg.QuotientManifold(module or generated(name), sizes_of(name), geodesic)
        self.sound = qg.QuotientManifold(generated(name), sizes_of(name), geodesic)
        self.dtype = dtype
        self.x = self.sound.pack_point(*self.setting.point()).to(dtype)
        self.A: GroupElement = self.setting.element()

    def moved(self, x: Tensor) -> Tensor:
        return self.sound.pack_point(*self.A(self.sound.unpack_tensor(x)))

    def moved_tangent(self, u: Tensor) -> Tensor:
        return self.sound.pack_point(*self.A.tangent(self.sound.unpack_tensor(u)))

    def back(self, y: Tensor) -> Tensor:
        return self.sound.pack_point(*self.A.inverse(self.sound.unpack_tensor(y)))

    def tangent(self, length: float = 0.1, stream: int = 1) -> Tensor:
        return self.sound.pack_point(*self.setting.horizontal(self.setting.point(), length, stream)).to(self.dtype)

    def loss(self, x: Tensor) -> Tensor:
        """Any smooth function: the horizontal part of its gradient is what the quotient sees of it."""
        weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        return (weights * (x + 0.1 * x**2)).sum()


def gap(a: Tensor, b: Tensor) -> float:
    """Largest difference relative to the largest entry of ``b``, or to SMALL where that is less: a quotient may be a point."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(SMALL))


def points_and_tangents_pass_their_checks(case: Case) -> None:
    manifold, x, u = case.manifold, case.x, case.tangent()
    assert manifold.check_point_on_manifold(x, explain=True) == (True, None)
    assert manifold.check_vector_on_tangent(x, u, explain=True, atol=1e-12, rtol=1e-9) == (True, None)
    at = Setting(case.setting.name).geometry
    vertical = manifold.pack_point(*at.vertical(manifold.unpack_tensor(x), *case.A.X))
    ok, reason = manifold.check_vector_on_tangent(x, u + 0.01 * vertical, explain=True)
    assert not ok
    assert "along the orbit" in reason
    broken = x.clone()
    broken[(0,) * x.ndim] = torch.nan
    ok, reason = manifold.check_point_on_manifold(broken, explain=True)
    assert not ok
    assert "NaN" in reason
    assert torch.equal(manifold.projx(x), x)


def operations_are_those_of_the_geometry(case: Case) -> None:
    manifold, x, at = case.manifold, case.x, case.setting.geometry
    u, v = case.tangent(), case.tangent(0.2, 2)
    (point, xi, eta) = (manifold.unpack_tensor(t) for t in (x, u, v))
    assert torch.equal(manifold.pack_point(*point), x)
    assert torch.equal(manifold.inner(x, u, v), at.inner(point, xi, eta))
    assert torch.equal(manifold.inner(x, u), at.inner(point, xi))
    assert torch.equal(manifold.norm(x, u), at.norm(point, xi))
    ones = (1,) * manifold.ndim
    assert manifold.inner(x, u, keepdim=True).shape == (*case.setting.batch, *ones)
    assert manifold.norm(x, u, keepdim=True).shape == (*case.setting.batch, *ones)
    assert (u / manifold.norm(x, u, keepdim=True)).shape == u.shape
    assert torch.equal(manifold.proju(x, x), manifold.pack_point(*at.project(point, point)))
    gradient = manifold.egrad2rgrad(x, x)
    assert manifold.check_vector_on_tangent(x, gradient, atol=1e-10, rtol=1e-8)
    pairing = (x * u).reshape(*case.setting.batch, -1).sum(-1)
    scale = (manifold.norm(x, gradient) * manifold.norm(x, u)).clamp_min(SMALL)
    assert float(((manifold.inner(x, gradient, u) - pairing) / scale).abs().max()) < 1e-9


def geodesics_and_transports_commute_with_the_group(case: Case) -> None:
    manifold, x, u, v = case.manifold, case.x, case.tangent(0.03), case.tangent(0.03, 2)
    y, there = manifold.retr_transp(x, u, v)
    assert torch.equal(manifold.retr(x, u), manifold.expmap(x, u))
    assert gap(y, manifold.expmap(x, u)) < (1e-9 if manifold.geodesic == "exact" else 1e-15)
    short = u / 16  # a gain near zero bends the curve: 20 % at the full length, 1.3 % here
    assert gap(manifold.expmap(x, short) - x, short) < 0.0126
    assert manifold.check_vector_on_tangent(y, there, atol=1e-10, rtol=1e-8)
    assert torch.equal(manifold.transp_follow_retr(x, u, v), there)
    moved_y, moved_there = manifold.expmap_transp(case.moved(x), case.moved_tangent(u), case.moved_tangent(v))
    assert gap(moved_y, case.moved(y)) < 1e-9
    assert gap(moved_there, case.moved_tangent(there)) < 1e-8
    kept = (manifold.inner(y, there) - manifold.inner(x, v)) / manifold.inner(x, v).clamp_min(SMALL**2)
    assert float(kept.abs().max()) < (1e-9 if manifold.geodesic == "exact" else 0.1)
    projected = manifold.transp(x, y, v)
    assert torch.equal(projected, manifold.proju(y, v))
    assert manifold.geodesic == "exact" or torch.equal(projected, there)


def run(case: Case, make, start: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    point = geoopt.ManifoldParameter(start.clone(), manifold=case.manifold)
    slope = case.sound.egrad2rgrad(case.x, torch.ones_like(case.x))  # of one start, for both
    optimiser = make([point], lr=0.02 / max(float(case.sound.norm(case.x, slope).max()), 1.0))
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss(point).backward()
        optimiser.step()
    return point.detach()


def optimisers_see_the_quotient(case: Case, make=geoopt.optim.RiemannianSGD) -> None:
    """Starts on one orbit, and losses that the group moves along with them, give runs that the group moves."""
    here = run(case, make, case.x, case.loss)
    there = run(case, make, case.moved(case.x), lambda y: case.loss(case.back(y)))
    if gap(case.tangent(), torch.zeros_like(case.x)) > 1e-6:  # not where the quotient is a point
        assert gap(here, case.x) > 1e-4
        assert float(case.loss(here)) < float(case.loss(case.x))
    assert gap(there, case.moved(here)) < 1e-8


PROPERTIES = (
    points_and_tangents_pass_their_checks,
    operations_are_those_of_the_geometry,
    geodesics_and_transports_commute_with_the_group,
    optimisers_see_the_quotient,
)


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("holds", PROPERTIES[:2], ids=lambda p: p.__name__)
def test_the_property_holds(holds, name) -> None:
    holds(Case(name))


@pytest.mark.parametrize("name", DEAR)
@pytest.mark.parametrize("geodesic", GEODESICS)
def test_geodesics_and_transports(geodesic, name) -> None:
    geodesics_and_transports_commute_with_the_group(Case(name, geodesic))


@pytest.mark.parametrize("name", DEAR)
@pytest.mark.parametrize("geodesic", ["exact", 2])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_optimisers(optimiser, geodesic, name) -> None:
    optimisers_see_the_quotient(Case(name, geodesic), OPTIMISERS[optimiser])


@pytest.mark.parametrize("name", CATALOGUE)
def test_float32_is_float64_rounded(name) -> None:
    case = Case(name, dtype=torch.float32)
    manifold, x, u = case.manifold, case.x, case.tangent()
    for operation in (manifold.expmap, manifold.proju, manifold.egrad2rgrad, manifold.inner):
        small, large = operation(x, u), operation(x.double(), u.double())
        assert small.dtype == torch.float32
        assert gap(small, large) < 2 * torch.finfo(torch.float32).eps
    assert manifold.check_vector_on_tangent(x, u)


@pytest.mark.parametrize("name", CATALOGUE)
def test_random_points_and_the_origin(name) -> None:
    case = Case(name)
    shape = case.x.shape
    again = [case.manifold.random(*shape, generator=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*again)
    assert again[0].dtype == torch.get_default_dtype()
    assert case.manifold.check_point_on_manifold(again[0])
    assert case.manifold.origin(*shape, dtype=torch.float64).shape == shape


# --- faults ---

MIXED = generated("gl_pair_mixed")
WHOLE = {
    name: getattr(QuotientManifold, name) for name in ("inner", "expmap_transp", "egrad2rgrad", "expmap", "transp")
}
# what is replaced in the generated module or in the class, by what, the property that must fail
FAULTS = [
    ("horizontal", lambda G, H, a, b: (a, b), points_and_tangents_pass_their_checks),
    ("horizontal", lambda G, H, a, b: (a * G.norm(), b), optimisers_see_the_quotient),
    ("gradient", lambda G, H, a, b: (a, b), optimisers_see_the_quotient),
    ("acceleration", lambda G, H, a, b: (a * a.norm(), b), geodesics_and_transports_commute_with_the_group),
    ("inner", lambda G, H, a, b, c, d: 1.01 * MIXED.inner(G, H, a, b, c, d), operations_are_those_of_the_geometry),
    (QuotientManifold, {"_check_point_on_manifold": lambda self, x, **_: (True, None)}, points_and_tangents_pass_their_checks),
    (QuotientManifold, {"_check_vector_on_tangent": lambda self, x, u, **_: (True, None)}, points_and_tangents_pass_their_checks),
    (QuotientManifold, {"inner": lambda self, x, u, v=None, *, keepdim=False: WHOLE["inner"](self, x, u, v)},
     operations_are_those_of_the_geometry),
    (QuotientManifold, {"egrad2rgrad": lambda self, x, u: self.proju(x, u)}, operations_are_those_of_the_geometry),
    (QuotientManifold, {"expmap_transp": lambda self, x, u, v: (self.expmap(x, u), self.transp(x, x + u, v))},
     geodesics_and_transports_commute_with_the_group),
    (QuotientManifold, {"expmap_transp": lambda self, x, u, v: (self.expmap(x, u), v)},
     geodesics_and_transports_commute_with_the_group),
    (QuotientManifold, {"expmap": lambda self, x, u: WHOLE["expmap"](self, x, u * (1 + u.square().sum()))},
     geodesics_and_transports_commute_with_the_group),
]  # fmt: skip


@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda f: f"{f[0] if isinstance(f[0], str) else next(iter(f[1]))}-{f[2].__name__}"
)
def test_a_fault_is_noticed(fault, monkeypatch) -> None:
    place, wrong, holds = fault
    module = MIXED
    if isinstance(place, str):
        module = with_fault(MIXED, **{place: wrong})
    else:
        ((method, function),) = wrong.items()
        monkeypatch.setattr(place, method, function)
    with pytest.raises((AssertionError, QuotientgeoError, RuntimeError)):
        holds(Case("gl_pair_mixed", module=module))


def test_every_property_has_a_fault() -> None:
    assert {fault[2] for fault in FAULTS} == set(PROPERTIES)
