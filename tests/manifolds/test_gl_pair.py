"""Declarations, shapes, reasons, random points, what is absent; the example of the docstring; devices; imports."""

from __future__ import annotations

import doctest
import math
import subprocess
import sys

import geoopt
import numpy as np
import pytest
import torch

import quotientgeo as qg
from quotientgeo.errors import (
    ArgumentError,
    GeodesicCollapseError,
    LogarithmError,
    NonFiniteError,
    RankDeficientError,
    ShapeError,
)
from quotientgeo.manifolds import gl_pair
from tests.manifolds.cases import METRICS, Case, product, relative


@pytest.fixture(params=METRICS)
def manifold(request) -> qg.GLPair:
    return qg.GLPair(5, 4, metric=request.param)


def point(manifold: qg.GLPair, *batch: int, h: int = 3, dtype=torch.float64, seed: int = 0) -> torch.Tensor:
    return manifold.random(*batch, 9, h, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def test_it_is_a_complete_geoopt_manifold(manifold) -> None:
    assert isinstance(manifold, geoopt.Manifold)
    assert not type(manifold).__abstractmethods__
    assert (manifold.name, manifold.ndim, manifold.reversible) == ("GLPair", 2, False)
    assert manifold.__scaling__ == geoopt.Manifold.__scaling__
    assert manifold.__scaling__ is not geoopt.Manifold.__scaling__
    assert list(manifold.state_dict()) == []
    assert repr(manifold) == f"GLPair(n=5, m=4, metric={manifold.metric!r}, geodesic='exact') manifold"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"n": 0}, ArgumentError, "n must be a whole number"),
        ({"m": 2.0}, ArgumentError, r"m must be .* got 2.0"),
        ({"n": True}, ArgumentError, "n must be"),
        ({"metric": "euclidean"}, ArgumentError, "'euclidean'"),
        ({"metric": None}, ArgumentError, "None"),
        ({"geodesic": 5}, ArgumentError, "5"),
        ({"geodesic": 0}, ArgumentError, "0"),
        ({"geodesic": True}, ArgumentError, "True"),
        ({"geodesic": "2"}, ArgumentError, "'2'"),
    ],
)
def test_a_wrong_declaration_is_refused(arguments, error, says) -> None:
    with pytest.raises(error, match=says):
        qg.GLPair(**({"n": 3, "m": 4} | arguments))


def test_sizes_of_other_integer_types_are_integers() -> None:
    manifold = qg.GLPair(np.int64(4), torch.tensor(3))
    assert (type(manifold.n), type(manifold.m)) == (int, int)
    assert manifold.random(7, 2).shape == (7, 2)


@pytest.mark.parametrize("shape", [(9,), (8, 3), (2, 8, 3), (9, 5), (9, 0), ()])
def test_a_wrong_shape_is_refused_with_its_reason(manifold, shape) -> None:
    x = torch.ones(shape, dtype=torch.float64)
    ok, reason = manifold.check_point(x, explain=True)
    assert not ok
    assert str(tuple(shape)) in reason
    assert not manifold.check_vector(x)
    assert not manifold.check_point_on_manifold(x)
    for operation in (manifold.projx, manifold.unpack_tensor, lambda x: manifold.proju(point(manifold), x)):
        with pytest.raises(ShapeError, match="GLPair"):
            operation(x)
    for make in (manifold.random, manifold.origin):
        with pytest.raises(ShapeError, match=r"GLPair: 'x' must have (1 to 4 columns|shape)"):
            make(shape)
    with pytest.raises(ValueError, match="GLPair"):
        geoopt.ManifoldParameter(x, manifold=manifold)


def test_a_tangent_of_other_columns_is_refused(manifold) -> None:
    with pytest.raises(ShapeError, match=r"'v' of shape \(9, 2\)"):
        manifold.inner(point(manifold), point(manifold), point(manifold, h=2))


def test_packing(manifold) -> None:
    x = point(manifold, 2)
    G, H = manifold.unpack_tensor(x)
    assert (G.shape, H.shape) == ((2, 5, 3), (2, 4, 3))
    assert G.data_ptr() == x.data_ptr()
    assert torch.equal(manifold.pack_point(G, H), x)
    for wrong in ((H, G), (G,), (), (G, H, H)):
        with pytest.raises(ShapeError, match=r"packs G \(..., 5, h\)"):
            manifold.pack_point(*wrong)


def broken(manifold: qg.GLPair, how: str) -> torch.Tensor:
    x = point(manifold, 3)
    if how == "factor":
        x[1, 5:, 2] = x[1, 5:, 0] + x[1, 5:, 1]
    elif how == "product":  # both factors have full rank
        x[1, :, 2] *= 1e-9
    elif how == "zero":
        x[1] = 0
    else:
        x[1, 4, 1] = float(how)
    return x


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ("factor", RankDeficientError, "rank lost.*factor H.*block 1"),
        ("product", RankDeficientError, "rank lost.*block 1"),
        ("zero", RankDeficientError, "rank lost.*block 1"),
        ("nan", NonFiniteError, "block 1"),
        ("inf", NonFiniteError, "block 1"),
    ],
)
def test_what_is_no_point_has_a_reason_and_a_named_error(manifold, how, error, says) -> None:
    x, u = broken(manifold, how), point(manifold, 3, seed=1)
    assert manifold.check_point(x)
    ok, reason = manifold.check_point_on_manifold(x, explain=True)
    assert not ok
    for operation in (
        lambda: manifold.assert_check_point_on_manifold(x),
        lambda: manifold.projx(x),
        lambda: manifold.proju(x, u),
        lambda: manifold.egrad2rgrad(x, u),
        lambda: manifold.inner(x, u),
        lambda: manifold.norm(x, u),
        lambda: manifold.retr(x, u),
        lambda: manifold.transp(u, x, u),
    ):
        with pytest.raises((error, ValueError), match=says):
            operation()
    ok, why = manifold.check_vector_on_tangent(x, u, ok_point=True, explain=True)
    assert (ok, why) == (False, reason)


def test_the_rank_is_judged_by_the_dtype(manifold) -> None:
    x = manifold.origin(9, 3, dtype=torch.float64)
    x[2, 2] = x[7, 2] = 3e-4  # s_3 / s_1 = 9e-8
    assert manifold.check_point_on_manifold(x)
    assert not manifold.check_point_on_manifold(x.float())


def test_a_tangent_that_is_none(manifold) -> None:
    x, u = point(manifold), manifold.proju(point(manifold), point(manifold, seed=1))
    u[0, 0] = math.nan
    ok, reason = manifold.check_vector_on_tangent(x, u, explain=True)
    assert (ok, reason) == (False, "the tangent holds NaN or infinity")
    with pytest.raises(NonFiniteError, match="tangent of G"):
        manifold.expmap(x, u)
    assert manifold.check_vector_on_tangent(x, torch.zeros_like(x))


@pytest.mark.parametrize(
    ("length", "tolerances", "allowed"),
    [
        (200.0, {"atol": 0.0, "rtol": 1e-6}, 2e-4),
        (200.0, {"atol": 1e-4, "rtol": 0.0}, 1e-4),
        (200.0, {"atol": 1e-4, "rtol": 1e-6}, 3e-4),
        (200.0, {}, 2e-3 + 1e-5),  # geoopt's own defaults, 1e-5 both
        (1.0, {}, 2e-5),
    ],
)
def test_how_far_from_horizontal_a_tangent_may_be(manifold, length, tolerances, allowed) -> None:
    """The vertical part may have the length atol + rtol |u|, in the metric: a tenth less passes, a tenth more does not."""
    x = point(manifold)
    u, raw = manifold.proju(x, point(manifold, seed=1)), point(manifold, seed=2)
    vertical = raw - manifold.proju(x, raw)
    u, vertical = length * u / manifold.norm(x, u), vertical / manifold.norm(x, vertical)
    for share, expected in ((0.9, True), (1.1, False)):
        ok, reason = manifold.check_vector_on_tangent(x, u + share * allowed * vertical, explain=True, **tolerances)
        assert ok == expected, (share, reason)


def test_a_mixed_geodesic_that_leaves_the_full_ranks_is_a_named_error() -> None:
    manifold = qg.GLPair(5, 4, metric="mixed")
    x = manifold.origin(2, 9, 3, dtype=torch.float64)
    u = torch.zeros_like(x)
    u[1] = -x[1]  # W moves on a straight line through 0
    with pytest.raises(GeodesicCollapseError, match="block 1"):
        manifold.expmap(x, u)


def test_logarithm_and_distance_undo_the_exponential_map(manifold) -> None:
    manifold = qg.GLPair(manifold.n, manifold.m, metric=manifold.metric)  # logmap is of exact geodesics
    x, noise = point(manifold, 4), point(manifold, 4, seed=1)
    u = manifold.proju(x, noise)
    u = 0.3 * u / manifold.norm(x, u, keepdim=True)
    A = qg.GL(x.shape[-1]).random_element(torch.Generator().manual_seed(2), condition=10.0, batch=(4,))
    G, H = manifold.unpack_tensor(manifold.expmap(x, u))
    y = manifold.pack_point(torch.linalg.solve(A, G, left=False), H @ A.mT)
    assert relative(manifold.logmap(x, y), u) < 1e-9
    assert relative(manifold.dist(x, y), torch.full((4,), 0.3, dtype=torch.float64)) < 1e-10
    assert float(manifold.dist(x, x).max()) < 1e-13
    if manifold.metric == "mixed":  # shot in many steps: the rest is the same code
        return
    assert relative(manifold.dist2(x, y, keepdim=True), torch.full((4, 1, 1), 0.09, dtype=torch.float64)) < 1e-10
    assert relative(manifold.dist(y, x), manifold.dist(x, y)) < 1e-10
    assert manifold.dist(x[0], y).shape == (4,)
    assert relative(geoopt.Scaled(manifold, 2.0).dist(x, y), torch.full((4,), 0.6, dtype=torch.float64)) < 1e-10
    assert relative(manifold.norm(x, manifold.logmap(x, 1.3 * x)), manifold.dist(x, 1.3 * x)) < 1e-9


def test_a_logarithm_that_is_not_found_is_a_named_error() -> None:
    manifold = qg.GLPair(3, 3)
    x = manifold.origin(6, 3, dtype=torch.float64)
    y = x.clone()
    y[0, 0] = -1.0  # det(G H') changes its sign: another component
    with pytest.raises(LogarithmError, match="no geodesic from x"):
        manifold.logmap(x, y)
    assert manifold.dist(x, y) == float("inf")
    with pytest.raises(ShapeError, match="one number of columns"):
        manifold.dist(x, y[:, :2])


def test_leading_dimensions_broadcast(manifold) -> None:
    x, many = point(manifold), point(manifold, 4, seed=1)
    for operation in (manifold.proju, manifold.egrad2rgrad, manifold.inner, manifold.expmap):
        together = operation(x, 0.1 * many)
        assert relative(together, torch.stack([operation(x, 0.1 * one) for one in many])) < 1e-12
        apart = torch.stack([operation(one, 0.1 * x) for one in many])
        assert relative(operation(many, 0.1 * x), apart) < 1e-9  # pairs of one batch share the number of steps
    square = qg.GLPair(3, 3, metric=manifold.metric)  # three points of 3 x 3 factors, one tangent
    points = square.random(3, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert relative(square.proju(points, points[0]), torch.stack([square.proju(p, points[0]) for p in points])) < 1e-12


def test_random_points(manifold) -> None:
    x = point(manifold, 50)
    assert torch.equal(x, point(manifold, 50))
    assert not torch.equal(x, point(manifold, 50, seed=1))
    s = torch.linalg.svdvals(product(x, 5))[..., :3]
    assert 0.5 <= float(s.min()) < 0.55
    assert 1.9 < float(s.max()) <= 2.0 + 1e-12
    G, H = manifold.unpack_tensor(x)
    assert relative(G.mT @ G, H.mT @ H) < 1e-12
    assert manifold.random((2, 9, 1)).dtype == torch.get_default_dtype()
    large = qg.GLPair(64, 64)
    assert large.check_point_on_manifold(large.random(20, 128, 64, dtype=torch.float32))


def test_the_origin(manifold) -> None:
    x = manifold.origin(2, 9, 3, dtype=torch.float32)
    assert torch.equal(x, manifold.origin((2, 9, 3), dtype=torch.float32, seed=7))
    assert torch.equal(product(x, 5)[0], torch.eye(5, 4) * torch.tensor([1, 1, 1, 0.0]))
    assert manifold.check_point_on_manifold(x)
    x[0] = 2  # no shared storage between the members of a batch
    assert float(x[1].max()) == 1


def test_any_scale_of_weights() -> None:
    for metric in METRICS:
        manifold, x = Case(metric=metric).setting()
        u = Case().horizontal(manifold, x)
        for scale in (1e-19, 1e19):
            assert relative(manifold.expmap(scale * x, scale * u), scale * manifold.expmap(x, u)) < 1e-11
            assert relative(manifold.proju(scale * x, u), u) < 1e-11


def test_the_example_of_the_docstring() -> None:
    runner = doctest.DocTestRunner()
    (example,) = doctest.DocTestFinder(recurse=False).find(gl_pair.GLPair, "GLPair", globs={})
    assert len(example.examples) > 5
    assert runner.run(example).failed == 0


def test_importing_warns_of_nothing_and_the_namespace_is_lazy() -> None:
    code = (
        "import sys, quotientgeo as qg; assert 'geoopt' not in sys.modules and 'torch' not in sys.modules;"
        "qg.GLPair(3, 4); assert 'geoopt' in sys.modules and 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
