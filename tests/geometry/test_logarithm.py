"""Logarithm and distance of the quotient: against geodesics from known tangents, closed forms, minimised path lengths, bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from quotientgeo.errors import ArgumentError, ShapeError
from quotientgeo.geometry import logarithm as log_module
from quotientgeo.geometry.coordinates import Horizontal
from quotientgeo.geometry.distance_rank_one import rank_one_distance
from quotientgeo.geometry.distances import quotient_distance
from quotientgeo.geometry.gauge import Frames, canonical_frames
from quotientgeo.geometry.logarithm import logarithm
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.groups import GL
from tests.geometry import oracles
from tests.geometry.cases import METRICS, Case, horizontal

Pair = tuple[Tensor, Tensor]


def scale(metric: str, geometry: PairGeometry) -> Tensor:
    """1, or |W|_F where lengths scale with W."""
    s = geometry.frames.s
    return torch.ones_like(s[..., 0]) if metric == "invariant" else torch.linalg.vector_norm(s, dim=-1)


def moved(pair: Pair, condition: float = 10.0, seed: int = 0) -> Pair:
    """The same orbit, elsewhere."""
    G, H = pair
    A = GL(G.shape[-1]).random_element(torch.Generator().manual_seed(seed), condition=condition, batch=G.shape[:-2])
    return torch.linalg.solve(A, G, left=False), H @ A.mT


def shot(metric: str, case: Case, size: float, steps: int = 256) -> tuple[PairGeometry, Horizontal, Frames]:
    """(geometry at a point, a tangent of ``size`` in units of ``scale``, frames of the end of its geodesic, in another gauge)."""
    geometry = case.geometry(metric).with_steps(steps)
    z = horizontal(geometry, size * scale(metric, geometry), seed=case.seed)
    return geometry, z, canonical_frames(*moved(geometry.exponential(*geometry.displacement(z)), seed=case.seed))


def error(found: Horizontal, wanted: Horizontal) -> Tensor:
    return Horizontal(*(a - b for a, b in zip(found, wanted, strict=True))).squared_norm().sqrt()


# size: most iterations; a projection at the start alone needs up to 54 at 1.5 for the invariant metric
BUDGET = {"invariant": {0.1: 8, 0.6: 14, 1.5: 26, 2.5: 55}, "mixed": {0.1: 12, 0.6: 30}}


@pytest.mark.parametrize(("metric", "size"), [(metric, size) for metric in METRICS for size in BUDGET[metric]])
def test_the_logarithm_of_the_exponential_is_the_tangent(metric: str, size: float) -> None:
    geometry, z, end = shot(metric, Case(20, 18, 4, spectrum=3.0, seed=1, batch=(8,)), size)
    found, unit = logarithm(geometry.frames, end, metric), scale(metric, geometry)
    assert found.converged.all()
    assert float((error(found.z, z) / unit).max()) < 1e-10
    assert float(((found.length - z.squared_norm().sqrt()).abs() / unit).max()) < 5e-11
    assert int(found.iterations.max()) <= BUDGET[metric][size]
    both = quotient_distance(geometry.frames, end, metric)
    assert (both.lower <= z.squared_norm().sqrt()).all()
    assert float(((both.upper - z.squared_norm().sqrt()).abs() / unit).max()) < 5e-11


@pytest.mark.parametrize("metric", METRICS)
def test_the_logarithm_agrees_with_an_integrator_of_component_wise_symbols(metric: str) -> None:
    case = Case(3, 3, 2, spectrum=2.0, gauge=2.0, seed=3)
    geometry = case.geometry(metric)
    z = horizontal(geometry, 0.3 * scale(metric, geometry))
    end = oracles.geodesic_dop853(metric, *case.factors(), *geometry.displacement(z))
    found = logarithm(geometry.frames, canonical_frames(*end), metric)
    assert found.converged
    assert float(error(found.z, z)) < 1e-9
    xi = geometry.displacement(found.z)
    assert abs(oracles.inner(metric, *case.factors(), xi, xi) ** 0.5 - float(found.length)) < 1e-11


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("lift_product", lambda m, F, K, s, dW: Horizontal(*(-x for x in _lift(m, F, K, s, dW)))),
        ("product_weights", lambda m, s: (_weights(m, s)[0], 2.0 * _weights(m, s)[1])),
        ("product_weights", lambda m, s: (_weights(m, s)[0].square(), _weights(m, s)[1])),
        ("_travelled", lambda X: _travelled(X).mT),
    ],
)  # fmt: skip
def test_a_wrong_step_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, mutant: object) -> None:
    """Wrong steps lose convergence, or the iterations that the right one needs: never the number without saying so."""
    geometry, z, end = shot("invariant", Case(9, 8, 3, spectrum=3.0, seed=1, batch=(4,)), 0.6)
    right = logarithm(geometry.frames, end, "invariant")
    monkeypatch.setattr(log_module, name, mutant)
    wrong = logarithm(geometry.frames, end, "invariant")
    slower = int(wrong.iterations.max()) > int(right.iterations.max())
    assert slower or not wrong.converged.all() or float(error(wrong.z, z).max()) > 1e-6


_lift, _weights, _travelled = log_module.lift_product, log_module.product_weights, log_module._travelled


@pytest.mark.parametrize("metric", METRICS)
def test_the_lift_of_a_tangent_moves_the_product_along_it(metric: str) -> None:
    """lift(P_T dW) is horizontal, moves W by P_T dW, and every horizontal tangent is the lift of what it does to W."""
    geometry = Case(7, 6, 3, seed=4).geometry(metric)
    z, frames = horizontal(geometry, 0.7), geometry.frames
    G, H = Case(7, 6, 3, seed=4).factors()
    xi_G, xi_H = geometry.displacement(z)
    dW = xi_G @ H.mT + G @ xi_H.mT
    assert float(error(_lift(metric, frames.F_G, frames.F_H, frames.s, dW), z)) < 1e-13
    off = torch.linalg.qr(
        torch.cat([frames.F_G, torch.randn(7, 1, generator=torch.Generator().manual_seed(0)).double()], 1)
    ).Q[:, 3:]
    other = torch.linalg.qr(torch.cat([frames.F_H, torch.ones(6, 1, dtype=torch.float64)], 1)).Q[:, 3:]
    assert float(error(_lift(metric, frames.F_G, frames.F_H, frames.s, dW + off @ other.mT), z)) < 1e-13
    assert log_module.lifted_length(metric, frames.F_G, frames.F_H, frames.s, off @ other.mT) > 0.1


CASES = {
    "sizes": st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 3)),
    "size": st.floats(0.0, 0.9),
    "spectrum": st.sampled_from([1.0, 2.0, 50.0]),
    "metric": st.sampled_from(METRICS),
    "seed": st.integers(0, 99),
}


@settings(max_examples=12, deadline=None, derandomize=True)
@given(**CASES)
def test_some_shapes_spectra_and_gauges(
    sizes: tuple[int, int, int], size: float, spectrum: float, metric: str, seed: int
) -> None:
    the_distance_is_that_of_the_tangent(sizes, size, spectrum, metric, seed)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True)
@given(**CASES)
def test_any_shape_spectrum_and_gauge(
    sizes: tuple[int, int, int], size: float, spectrum: float, metric: str, seed: int
) -> None:
    the_distance_is_that_of_the_tangent(sizes, size, spectrum, metric, seed)


def the_distance_is_that_of_the_tangent(
    sizes: tuple[int, int, int], size: float, spectrum: float, metric: str, seed: int
) -> None:
    extra_n, extra_m, h = sizes
    case = Case(h + extra_n, h + extra_m, h, spectrum=spectrum if h > 1 else 1.0, gauge=100.0, seed=seed, batch=(2,))
    if metric == "mixed":  # inside the radius in which geodesics surely exist
        size *= 0.5 * float(
            case.geometry(metric).frames.s[..., -1].min() / case.geometry(metric).frames.s.norm(dim=-1).max()
        )
    geometry, z, end = shot(metric, case, size)
    unit = scale(metric, geometry)
    found = quotient_distance(geometry.frames, end, metric)
    d = z.squared_norm().sqrt()
    assert (found.lower <= d + 1e-13 * unit * spectrum).all()  # moving the end along its orbit rounds it
    assert (found.lower <= found.upper).all()
    assert found.converged.all()
    assert float(((found.upper - d).abs() / unit).max()) < 5e-11 * max(1.0, spectrum / 10)
    back = quotient_distance(end, geometry.frames, metric)
    assert float(((found.upper - back.upper).abs() / unit).max()) < 5e-11 * max(1.0, spectrum / 10)


def rank_one_by_hand(metric: str, one: Pair, two: Pair) -> float:
    W, V = one[0] @ one[1].mT, two[0] @ two[1].mT
    (u, s, v), (x, t, y) = (torch.linalg.svd(M, full_matrices=False) for M in (W, V))
    best = math.inf
    for sign in (1, -1):
        angles = [math.acos(max(-1.0, min(1.0, sign * float(c)))) for c in (u[:, 0] @ x[:, 0], v[0] @ y[0])]
        theta, a, b = math.hypot(*angles), float(s[0]), float(t[0])
        if metric == "invariant":
            best = min(best, math.sqrt(0.5 * math.log(a / b) ** 2 + theta**2))
        else:
            best = min(best, math.sqrt(0.5 * (a * a + b * b) - a * b * math.cos(min(math.sqrt(2) * theta, math.pi))))
    return best


@pytest.mark.parametrize("metric", METRICS)
def test_rank_one_is_a_closed_form_and_its_tangent_gets_there(metric: str) -> None:
    generator = torch.Generator().manual_seed(0)
    G1, G2, H1, H2 = (torch.randn(60, rows, 1, generator=generator, dtype=torch.float64) for rows in (4, 4, 3, 3))
    G2[:20], H2[:20] = G1[:20] + 0.2 * G2[:20], H1[:20] + 0.2 * H2[:20]
    first, second = canonical_frames(G1, H1), canonical_frames(*moved((G2, H2)))
    d = quotient_distance(first, second, metric)
    assert float((d.upper - d.lower).max()) < 1e-13
    assert (d.lower <= d.upper).all()
    by_hand = torch.tensor(
        [rank_one_by_hand(metric, (G1[i], H1[i]), (G2[i], H2[i])) for i in range(60)], dtype=torch.float64
    )
    assert float((d.upper - by_hand).abs().max()) < 1e-12
    geometry = PairGeometry(first, metric, steps=512)
    found = logarithm(first, second, metric)
    assert metric == "mixed" or found.converged.all()
    assert int(found.converged.sum()) > 20
    near = found.converged & (found.length < (1.0 if metric == "invariant" else 0.6) * scale(metric, geometry))
    assert int(near.sum()) >= 5
    end_G, end_H = geometry.exponential(*geometry.displacement(found.z))
    gap = (end_G @ end_H.mT - G2 @ H2.mT).abs().amax((-2, -1))
    assert float(gap[near].max()) < 1e-8
    assert float((found.length - d.upper)[found.converged].abs().max()) < 1e-12
    assert not bool(found.converged[found.gap.isinf()].any())


def test_rank_one_edges() -> None:
    def frames(*numbers: float) -> Frames:
        return canonical_frames(torch.tensor([[x] for x in numbers], dtype=torch.float64), torch.ones(1, 1).double())

    assert rank_one_distance(frames(2.0), frames(-2.0), "invariant") == math.inf  # numbers of opposite signs
    assert rank_one_distance(frames(2.0), frames(-2.0), "mixed") == math.inf
    assert abs(rank_one_distance(frames(2.0), frames(5.0), "invariant") - math.log(2.5) / math.sqrt(2)) < 1e-15
    opposite = quotient_distance(frames(1.0, 0.0), frames(-1.0, 0.0), "invariant")  # u turns by pi, in any direction
    assert abs(opposite.upper - math.pi) < 1e-15
    found = logarithm(frames(1.0, 0.0), frames(-1.0, 0.0), "invariant")
    assert found.converged
    assert abs(found.length - math.pi) < 1e-15
    past_zero = quotient_distance(
        frames(1.0, 0.0), frames(-3.0, 0.0), "mixed"
    )  # sqrt(2) pi > pi: past W = 0, an infimum
    assert abs(past_zero.upper - 4.0 / math.sqrt(2.0)) < 1e-14
    assert not logarithm(frames(1.0, 0.0), frames(-3.0, 0.0), "mixed").converged


def discretised(metric: str, one: Pair, two: Pair, points: int) -> float:
    """Length of the shortest polygon of pairs from ``one`` to the orbit of ``two``: minimised over inner points and the group.

    sqrt(points x sum of squared chords), the metric at midpoints; independent of frames, lifts and geodesics.
    """
    (n, h), m = one[0].shape, one[1].shape[0]

    def stage(x: Tensor) -> Tensor:
        A = torch.eye(h, dtype=torch.float64) + x[: h * h].view(h, h)
        inner = x[h * h :].view(points - 1, n + m, h)
        ends = [
            torch.cat(one)[None],
            inner,
            torch.cat([torch.linalg.solve(A, two[0], left=False), two[1] @ A.mT])[None],
        ]
        path = torch.cat(ends)
        chord, middle = path[1:] - path[:-1], 0.5 * (path[1:] + path[:-1])
        P, Q = (part.mT @ part for part in (middle[:, :n], middle[:, n:]))
        P, Q = (P.inverse(), Q.inverse()) if metric == "invariant" else (Q, P)
        energy = torch.einsum("kni,kij,knj->", chord[:, :n], P, chord[:, :n])
        return points * (energy + torch.einsum("kni,kij,knj->", chord[:, n:], Q, chord[:, n:]))

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        t = torch.tensor(x, requires_grad=True)
        (gradient,) = torch.autograd.grad(energy := stage(t), t)
        return float(energy.detach()), gradient.numpy()

    ramp = torch.linspace(0, 1, points + 1, dtype=torch.float64)[1:-1, None, None]
    straight = (1 - ramp) * torch.cat(one) + ramp * torch.cat(two)
    start = np.concatenate([np.zeros(h * h), straight.flatten().numpy()])
    return math.sqrt(minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 4000, "ftol": 1e-14}).fun)


@pytest.mark.parametrize("metric", METRICS)
def test_the_distance_is_the_minimum_over_polygons_and_the_group(metric: str) -> None:
    case = Case(4, 3, 2, spectrum=1.5, gauge=1.0, seed=5)
    one, two = case.factors(), tuple(
        x + 0.25 * torch.randn(x.shape, generator=torch.Generator().manual_seed(i), dtype=x.dtype)
        for i, x in enumerate(case.factors())
    )  # fmt: skip
    found = quotient_distance(canonical_frames(*one), canonical_frames(*moved(two, condition=1.5)), metric)
    coarse, fine = (discretised(metric, one, two, points) for points in (8, 16))
    limit = fine + (fine - coarse) / 3  # error of second order
    assert found.converged
    assert abs(limit - float(found.upper)) < 3e-5 * limit
    assert float(found.lower) < limit
    lifted = sum(float((a - b).square().sum()) for a, b in zip(one, two, strict=True)) ** 0.5
    assert abs(lifted - limit) > 0.02 * limit  # the Euclidean length is another number


@pytest.mark.parametrize("metric", METRICS)
def test_triangle_inequality(metric: str) -> None:
    case = Case(7, 6, 2, spectrum=1.5, seed=3, batch=(5,))
    generator = torch.Generator().manual_seed(1)
    corners = [
        canonical_frames(*(x + 0.06 * torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in case.factors()))
        for _ in range(3)
    ]
    a, b, c = (quotient_distance(corners[i], corners[j], metric) for i, j in ((0, 1), (1, 2), (0, 2)))
    assert a.converged.all()
    assert b.converged.all()
    assert c.converged.all()
    for one, two, three in ((a, b, c), (b, c, a), (c, a, b)):
        assert (one.upper <= two.upper + three.upper).all()
    assert (a.upper > 0.02).all()


def test_blocks_of_a_batch_do_not_know_each_other() -> None:
    """Easy, hard and impossible blocks together: each one's outcome is its own."""
    first, second = (Case(8, 7, 3, spectrum=5.0, seed=seed, batch=(6,)).geometry("invariant").frames for seed in (1, 2))
    mixed_up = Frames(
        *(
            torch.where(torch.arange(6).view(-1, *[1] * (b.ndim - 1)) % 2 == 0, a, b)
            for a, b in zip(first, second, strict=True)
        )
    )
    together = logarithm(first, mixed_up, "invariant", most=40)
    assert together.converged[::2].all()
    assert float(together.length[::2].max()) < 1e-12
    assert not together.converged[1::2].all()
    for i in range(6):
        alone = logarithm(*(Frames(*(p[i] for p in f)) for f in (first, mixed_up)), "invariant", most=40)
        assert alone.converged == together.converged[i]
        if alone.converged:
            assert abs(alone.length - together.length[i]) < 1e-9


def test_what_is_not_reached_is_not_called_a_logarithm() -> None:
    geometry, _, end = shot("invariant", Case(8, 7, 3, spectrum=3.0, seed=1, batch=(3,)), 1.0)
    few = logarithm(geometry.frames, end, "invariant", most=3)
    assert not few.converged.any()
    assert (few.gap > 1e-6).all()
    bounded = quotient_distance(geometry.frames, end, "invariant", most=3)
    assert not bounded.converged.any()
    assert (bounded.upper >= 1.0).all()
    assert bounded.upper.isfinite().all()


def test_large_and_small_weights() -> None:
    for metric in METRICS:
        for factor in (1e-12, 1e12):
            G, H = Case(6, 5, 2, seed=1).factors()
            first, second = canonical_frames(factor * G, H), canonical_frames(factor * G + 0.01 * factor, H)
            found, plain = (
                quotient_distance(first, second, metric),
                quotient_distance(canonical_frames(G, H), canonical_frames(G + 0.01, H), metric),
            )
            unit = 1.0 if metric == "invariant" else factor
            assert found.converged
            assert abs(found.upper / unit - plain.upper) < 1e-10 * plain.upper


def test_bad_arguments() -> None:
    first, second = (Case(6, 5, h, seed=1).geometry("invariant").frames for h in (2, 3))
    with pytest.raises(ShapeError, match="one shape"):
        logarithm(first, second, "invariant")
    with pytest.raises(ArgumentError, match="metric must be one of"):
        quotient_distance(first, first, "euclid")
