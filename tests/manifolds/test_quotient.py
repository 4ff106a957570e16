"""QuotientManifold: arguments, packed points of any shape, copies, and pairs against the hand-made GLPair."""

from __future__ import annotations

import copy
import doctest
import io
import pickle
import subprocess
import sys
from types import ModuleType

import geoopt
import pytest
import torch
from sympy import Trace

import quotientgeo as qg
from quotientgeo.errors import AbsentOperationError, ArgumentError, CertificateError, NonFiniteError, ShapeError
from quotientgeo.geometry.derived import Derived
from quotientgeo.groups import GL
from quotientgeo.manifolds import RiemannianSGD, quotient
from quotientgeo.symbolic.codegen.module import module_source
from tests.geometry.derived_settings import generated

METRICS = ("invariant", "mixed")
PAIR = {"n": 6, "m": 5}
FLAT = """
NAME = "three"
FACTORS = {"G": ("n", "h"), "W": ("h", "k"), "b": ("k", 1)}
def inner(G, W, b, xG, xW, xb, yG, yW, yb): return sum((s * t).sum((-2, -1)) for s, t in ((xG, yG), (xW, yW), (xb, yb)))
def gradient(G, W, b, dG, dW, db): return dG, dW, db
def vertical(G, W, b, X): return 0 * G, 0 * W, X + 0 * b
def momentum(G, W, b, xG, xW, xb): return xb
def acceleration(G, W, b, xG, xW, xb): return 0 * xG, 0 * xW, 0 * xb
def horizontal(G, W, b, xG, xW, xb): return xG, xW, 0 * xb
def christoffel(G, W, b, xG, xW, xb, yG, yW, yb): return 0 * xG, 0 * xW, 0 * xb
def taylor_1(G, W, b, xG, xW, xb): return G + xG, W + xW, b + xb
"""


def three() -> ModuleType:
    """Factors of three shapes, a free translation of the last one."""
    module = ModuleType("three_factors")
    exec(FLAT, module.__dict__)
    module.__source__ = FLAT
    return module


def pair(metric: str = "invariant", geodesic="exact", **sizes) -> qg.QuotientManifold:
    return qg.QuotientManifold(generated(f"gl_pair_{metric}"), {**PAIR, **sizes}, geodesic)


# --- against the hand-made manifold ---


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("geodesic", ["exact", 1, 2, 3, 4])
def test_a_pair_is_a_gl_pair(metric, geodesic) -> None:
    derived, by_hand = pair(metric, geodesic), qg.GLPair(6, 5, metric=metric, geodesic=geodesic)
    x = by_hand.random(3, 11, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u = by_hand.proju(x, 0.1 * torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    assert derived.ndim == by_hand.ndim == 2
    for operation in ("expmap", "retr", "proju", "egrad2rgrad", "inner", "norm"):
        one, other = (getattr(manifold, operation)(x, u) for manifold in (derived, by_hand))
        assert float((one - other).abs().max()) < 1e-9, operation
    for one, other in zip(derived.unpack_tensor(x), by_hand.unpack_tensor(x), strict=True):
        assert torch.equal(one, other)


def test_training_from_two_points_of_one_orbit_gives_one_product() -> None:
    for optimiser in (geoopt.optim.RiemannianSGD, geoopt.optim.RiemannianAdam):
        products = []
        for condition in (1.0, 8.0):
            manifold = pair("mixed")
            start = manifold.random(11, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
            G, H = manifold.unpack_tensor(start)
            A = GL(2).random_element(torch.Generator().manual_seed(3), condition=condition)
            start = manifold.pack_point(torch.linalg.solve(A, G, left=False), H @ A.mT)
            point = geoopt.ManifoldParameter(start, manifold=manifold)
            steps, losses = optimiser([point], lr=0.02), []
            for _ in range(6):
                steps.zero_grad()
                G, H = manifold.unpack_tensor(point)
                loss = (G @ H.mT - 1).square().mean()
                loss.backward()
                steps.step()
                losses.append(loss.item())
            assert losses[-1] < losses[0]
            G, H = manifold.unpack_tensor(point.detach())
            products.append(G @ H.mT)
        assert float((products[0] - products[1]).abs().max()) < 1e-9


def test_a_closed_form_is_attached_to_the_manifold() -> None:
    manifold = pair("invariant", h=2)

    def closed(G, H, a, b):
        one = qg.GLPair(G.shape[-2], H.shape[-2])
        return one.unpack_tensor(one.expmap(torch.cat([G, H], -2), torch.cat([a, b], -2)))

    attached = manifold.attach("pair", closed)
    assert attached.sizes == {"n": 6, "m": 5, "h": 2}
    assert "attached='pair'" in repr(manifold)
    with pytest.raises(CertificateError, match="straight"):
        manifold.attach("straight", lambda G, H, a, b: (G + a, H + b))
    x = manifold.random(11, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u = 0.1 * manifold.proju(x, torch.ones_like(x))
    assert torch.equal(manifold.expmap(x, u), qg.GLPair(6, 5).expmap(x, u))
    y, there = manifold.expmap_transp(x, u, u)
    assert torch.equal(y, manifold.expmap(x, u))
    assert manifold.check_vector_on_tangent(y, there, rtol=1e-9, atol=0)


def test_the_geodesic_is_integrated_once_for_end_point_and_transport(monkeypatch) -> None:
    manifold = pair("mixed")
    x = manifold.random(11, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u = 0.1 * manifold.proju(x, torch.ones_like(x))
    wanted = manifold.expmap(x, u)
    monkeypatch.setattr(Derived, "exponential", None)
    y, there = manifold.expmap_transp(x, u, u)
    assert float((y - wanted).abs().max()) < 1e-10
    assert manifold.check_vector_on_tangent(y, there, rtol=1e-9, atol=0)


# --- what derive gives ---


def test_a_declaration_becomes_a_manifold() -> None:
    """A pair whose factors have unlike columns in one size, derived here; its generated source is what runs."""
    symmetry = qg.Symmetry(
        "chain",
        group=qg.GL("h"),
        factors={"G": ("n", "h"), "R": ("h", "k")},
        action=lambda A, G, R: (G * A.inv(), A * R),
        preserves=lambda G, R: G * R,
    )
    metric = qg.Metric(
        "mixed", symmetry, lambda p, a, b: Trace(p.R * p.R.T * a.G.T * b.G) + Trace(p.G.T * p.G * a.R * b.R.T)
    )
    module = ModuleType("chain_mixed")
    exec(module_source(qg.derive(symmetry, metric, levels="ab"), "a test"), module.__dict__)
    manifold = qg.QuotientManifold(module, {"n": 4, "h": 2, "k": 3})
    assert manifold.ndim == 1
    x = manifold.random(5, 14, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert manifold.check_point_on_manifold(x, explain=True) == (True, None)
    G, R = manifold.unpack_tensor(x)
    assert G.shape == (5, 4, 2)
    assert R.shape == (5, 2, 3)
    pairs = qg.GLPair(4, 3, metric="mixed")  # the same geometry, with R transposed
    u = manifold.proju(x, 0.1 * torch.ones_like(x))
    a, b = manifold.unpack_tensor(u)
    y = manifold.expmap(x, u)
    other = pairs.expmap(torch.cat([G, R.mT], -2), torch.cat([a, b.mT], -2))
    G1, R1 = manifold.unpack_tensor(y)
    assert float((torch.cat([G1, R1.mT], -2) - other).abs().max()) < 1e-9
    assert manifold.norm(x, u, keepdim=True).shape == (5, 1)


# --- packed points ---


def test_factors_of_unlike_columns_are_flattened() -> None:
    manifold = qg.QuotientManifold(three(), {"n": 3, "h": 2, "k": 4})
    assert manifold.ndim == 1
    x = manifold.random(7, 18, dtype=torch.float64)
    G, W, b = manifold.unpack_tensor(x)
    assert (G.shape, W.shape, b.shape) == ((7, 3, 2), (7, 2, 4), (7, 4, 1))
    assert torch.equal(manifold.pack_point(G, W, b), x)
    assert torch.equal(x[..., :6], G.flatten(-2))
    assert manifold.check_point_on_manifold(x)
    u = manifold.proju(x, torch.ones_like(x))
    assert torch.equal(u, torch.cat([torch.ones(7, 14), torch.zeros(7, 4)], -1).double())
    assert manifold.inner(x, u, keepdim=True).shape == (7, 1)
    assert torch.allclose(manifold.expmap(x, u), x + u)
    assert torch.equal(manifold.origin(18)[6:14], torch.eye(2, 4).flatten())
    assert torch.equal(manifold.origin(18)[14:], torch.ones(4))
    for wrong in ((7, 17), ()):
        with pytest.raises(ShapeError, match="flattened factors G, W, b"):
            manifold.random(wrong)
    with pytest.raises(ShapeError, match="packs factors of its sizes"):
        manifold.pack_point(torch.ones(5, 2), torch.ones(2, 4), torch.ones(4, 1))
    with pytest.raises(ShapeError, match="equal leading dimensions"):
        manifold.pack_point(torch.ones(2, 3, 2), torch.ones(2, 4), torch.ones(4, 1))
    point = geoopt.ManifoldParameter(x, manifold=manifold)
    optimiser = geoopt.optim.RiemannianAdam([point], lr=0.1)
    point.square().sum().backward()
    optimiser.step()
    assert torch.equal(point.detach()[..., 14:], b.flatten(-2))  # the translation's direction is not the quotient's


def test_columns_may_be_left_open_where_no_factor_has_them_as_rows() -> None:
    manifold = pair()
    for h in (1, 2, 5):
        assert manifold.check_point_on_manifold(manifold.random(11, h, dtype=torch.float64))
    fixed = pair(h=2)
    assert fixed.random(11, 2).shape == (11, 2)
    with pytest.raises(ShapeError, match=r"shape \(..., 11, 2\), got \(11, 3\)"):
        fixed.random(11, 3)
    with pytest.raises(ShapeError, match="stacked factors G, H"):
        manifold.random(10, 2)
    with pytest.raises(ArgumentError, match="needs a value of h"):
        qg.QuotientManifold(three(), {"n": 3, "k": 4})
    with pytest.raises(ValueError, match="stacked factors"):
        geoopt.ManifoldParameter(torch.ones(10, 2), manifold=manifold)


def test_points_may_have_fewer_leading_dimensions_than_tangents() -> None:
    manifold = pair()
    x = manifold.random(11, 2, dtype=torch.float64)
    u = 0.1 * manifold.proju(x, torch.randn(4, 11, 2, dtype=torch.float64))
    assert u.shape == manifold.expmap(x, u).shape == manifold.expmap_transp(x, u, u)[1].shape == (4, 11, 2)
    assert manifold.norm(x, u).shape == (4,)


# --- arguments and errors ---


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"n": 3}, 'needs a value of m: pass sizes={"m": ...}'),
        (None, "needs a value of n, m"),
        ({"n": 3, "m": 4, "q": 2}, "no size 'q'; its sizes are n, h, m"),
        ({"n": 0, "m": 4}, "n must be a whole number"),
        ({"n": 3, "m": True}, "m must be a whole number"),
        ({"n": 3, "m": "4"}, "m must be a whole number"),
    ],
)
def test_sizes_are_checked(sizes, words) -> None:
    with pytest.raises(ArgumentError) as caught:
        qg.QuotientManifold(generated("gl_pair_invariant"), sizes)
    assert words in str(caught.value)


def test_arguments_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ArgumentError, match="geodesic must be one of"):
        pair(geodesic=5)
    with pytest.raises(AbsentOperationError, match="taylor_2"):
        qg.QuotientManifold(three(), {"n": 3, "h": 2, "k": 4}, geodesic=2)
    with pytest.raises(ArgumentError, match="neither a derived geometry"):
        qg.QuotientManifold("gl_pair")
    manifold = pair()
    x = manifold.random(11, 2)
    for absent in (manifold.logmap, manifold.dist, manifold.dist2):
        with pytest.raises(AbsentOperationError, match="norm"):
            absent(x, x)
    with pytest.raises(ShapeError, match="a tangent of shape"):
        manifold.proju(x, torch.ones(11, 3))


@pytest.mark.parametrize("metric", METRICS)
def test_singular_points_are_refused_with_a_reason(metric) -> None:
    manifold = pair(metric)
    x = manifold.random(3, 11, 2, dtype=torch.float64)
    x[1, :6, 0] = 0.0
    ok, reason = manifold.check_point_on_manifold(x, explain=True)
    assert not ok
    assert "singular" in reason
    with pytest.raises(NonFiniteError, match="singular"):
        manifold.projx(x)
    assert manifold.check_point_on_manifold(x[0])


# --- copies ---


@pytest.mark.parametrize("again", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
@pytest.mark.parametrize("make", [pair, lambda: qg.QuotientManifold(three(), {"n": 3, "h": 2, "k": 4})])
def test_copies_of_a_parameter_are_on_the_manifold(again, make) -> None:
    manifold = make()
    shape = (11, 2) if manifold.ndim == 2 else (18,)
    point = geoopt.ManifoldParameter(manifold.random(shape, dtype=torch.float64), manifold=manifold)
    other = again(point)
    assert repr(other.manifold) == repr(manifold)
    assert torch.equal(other.manifold.proju(other, other), manifold.proju(point, point))


def test_a_parameter_survives_saving() -> None:
    module, file = torch.nn.Module(), io.BytesIO()
    module.x = geoopt.ManifoldParameter(pair().random(11, 2), manifold=pair())
    torch.save(module.state_dict(), file)
    file.seek(0)
    stored = torch.load(file, weights_only=False)
    module.load_state_dict(stored)
    assert torch.equal(stored["x"], module.x)


def test_scaled_manifolds_and_momentum_from_zero() -> None:
    manifold = geoopt.Scaled(pair(), 2.0)
    x = manifold.random(11, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u = manifold.proju(x, 0.1 * torch.ones_like(x))
    by_hand = geoopt.Scaled(qg.GLPair(6, 5), 2.0)
    assert torch.allclose(manifold.norm(x, u), by_hand.norm(x, u))
    assert torch.allclose(manifold.expmap(x, u), by_hand.expmap(x, u))
    point = geoopt.ManifoldParameter(x, manifold=manifold)
    optimiser = RiemannianSGD([point], lr=0.01, momentum=0.5)
    point.square().sum().backward()
    gradient = manifold.egrad2rgrad(point.detach(), point.grad.clone())
    start = point.detach().clone()
    optimiser.step()
    assert torch.allclose(point.detach(), manifold.retr(start, -0.01 * gradient), atol=1e-12)


def test_a_given_geometry_is_used_as_it_is() -> None:
    geometry = Derived(generated("gl_pair_mixed"))
    assert qg.QuotientManifold(geometry, PAIR).geometry is geometry
    assert "QuotientManifold(gl_pair_mixed, sizes={'n': 6, 'm': 5}, geodesic='exact')" in repr(pair("mixed"))


def test_the_example_of_the_docstring() -> None:
    runner = doctest.DocTestRunner()
    (example,) = doctest.DocTestFinder(recurse=False).find(quotient.QuotientManifold, "QuotientManifold", globs={})
    assert len(example.examples) > 5
    assert runner.run(example).failed == 0


def test_importing_warns_of_nothing_and_loads_no_sympy() -> None:
    code = (
        "import sys, quotientgeo as qg; from quotientgeo.catalogue.gl_pair_mixed import generated;"
        "qg.QuotientManifold(generated, {'n': 3, 'm': 4}); assert 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_sizes_at_which_the_metric_has_no_value_are_refused() -> None:
    with pytest.raises(ArgumentError, match="its metric has no value"):
        qg.QuotientManifold(generated("gl_pair_invariant"), sizes={"n": 2, "m": 5, "h": 3})
    manifold = qg.QuotientManifold(generated("gl_pair_invariant"), sizes={"n": 5, "m": 4})
    with pytest.raises(ShapeError, match="at which the metric has no value"):
        manifold.random(9, 5)
    assert manifold.random(9, 4).shape == (9, 4)
