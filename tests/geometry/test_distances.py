"""Bounds of the quotient distance: attained lower bounds, explicit paths walked in small chords, angles near their ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.linalg import logm
from torch import Tensor

from quotientgeo.geometry.distance_paths import Turn, connected_turns, path_length, principal_angles
from quotientgeo.geometry.distances import lower_bound, product_difference, quotient_distance
from quotientgeo.geometry.gauge import canonical_frames
from tests.geometry.cases import METRICS, Case
from tests.geometry.test_logarithm import moved


@pytest.mark.parametrize("metric", METRICS)
def test_lower_bounds_are_attained(metric: str) -> None:
    geometry = Case(6, 5, 3, seed=2).geometry(metric)
    zero, s = geometry.zero(), geometry.frames.s
    if metric == "invariant":  # singular values alone move, along the geodesic c = diag
        z = zero._replace(c=torch.diag(torch.tensor([0.4, 0.1, 0.3], dtype=torch.float64)))
    else:  # W moves straight inside its spaces
        z = zero._replace(c=0.2 * s[-1] * torch.ones(3, 3, dtype=torch.float64) / 3)
    end = canonical_frames(*moved(geometry.exponential(*geometry.displacement(z))))
    d = z.squared_norm().sqrt()
    assert abs(lower_bound(geometry.frames, end, metric) - d) < 1e-12
    assert lower_bound(geometry.frames, end, metric) <= d * (1 + 1e-10)  # moving the end rounds it
    assert lower_bound(geometry.frames, end, metric) * 1.01 > d  # a bound that is too small by 1 % would be seen


def test_angles_are_accurate_at_both_ends() -> None:
    for theta in (1e-12, 1e-5, 0.3, math.pi / 2 - 1e-12):
        F = torch.eye(4, 2, dtype=torch.float64)
        E = F.clone()
        E[0, 0], E[2, 0] = math.cos(theta), math.sin(theta)
        assert abs(principal_angles(F, E)[1] - theta) < 1e-15
        assert principal_angles(F, E)[0] < 1e-15


def test_difference_of_products_needs_no_large_matrix() -> None:
    one, two = Case(7, 6, 3, seed=1), Case(7, 6, 3, seed=2)
    W = [G @ H.mT for G, H in (one.factors(), two.factors())]
    first, second = (canonical_frames(*c.factors()) for c in (one, two))
    assert abs(product_difference(first, second) - torch.linalg.matrix_norm(W[0] - W[1])) < 1e-13
    assert product_difference(first, canonical_frames(*moved(one.factors()))) < 1e-13


SHAPES = [(8, 7, 3), (3, 3, 3), (3, 5, 3), (4, 3, 3)]
FLOWING = [(sizes, "mixed") for sizes in SHAPES]  # integrated: two of them each time


@pytest.mark.parametrize(
    ("sizes", "metric"),
    [(sizes, "invariant") for sizes in SHAPES]
    + FLOWING[:2]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in FLOWING[2:]],
)
def test_random_pairs_have_bounds_in_order_and_paths_of_the_length_that_is_told(metric: str, sizes) -> None:
    first, second = (Case(*sizes, spectrum=5.0, seed=seed, batch=(6,)).geometry(metric).frames for seed in (1, 2))
    if sizes == (3, 3, 3):
        signs = torch.tensor([1.0, -1.0] * 3, dtype=torch.float64)
        second = second._replace(F_G=torch.cat([second.F_G[..., :-1], second.F_G[..., -1:] * signs[:, None, None]], -1))
    found = quotient_distance(first, second, metric, tolerance=1e-9, most=30)
    back = quotient_distance(second, first, metric, tolerance=1e-9, most=30)
    assert (found.lower <= found.upper).all()
    assert torch.allclose(found.upper, back.upper, rtol=1e-9)
    assert (found.upper <= path_length(first, second, metric) * (1 + 1e-15)).all()
    n, m, h = sizes
    apart = torch.zeros(6, dtype=torch.bool)
    if n == m == h:
        dets = [torch.linalg.det(f.F_G * f.s[..., None, :] @ f.F_H.mT).sign() for f in (first, second)]
        apart = dets[0] != dets[1]
        assert apart.any()
        assert not apart.all()
    assert torch.equal(found.upper.isinf(), apart)
    assert torch.equal(found.lower.isinf(), apart)
    assert not (found.converged & apart).any()


@pytest.mark.parametrize("sizes", [(8, 7, 3), (3, 5, 3), (4, 3, 3), (3, 3, 3)])
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_the_explicit_invariant_path_has_its_length_and_ends(sizes: tuple[int, int, int], seed: int) -> None:
    """Walk the path of ``path_length`` in small chords, measured by the metric."""
    first, second = (Case(*sizes, spectrum=5.0, seed=one).geometry("invariant").frames for one in (1, seed))
    turn_G, turn_H, apart = connected_turns(first, second)
    length = float(path_length(first, second, "invariant"))
    if apart:
        assert length == math.inf
        return
    sides = [
        walk(turn_G, first.F_G, second.F_G, first.s, second.s),
        walk(turn_H, first.F_H, second.F_H, first.s, second.s),
    ]
    (G_1, G_2), (H_1, H_2) = [(side[0], side[-1]) for side in sides]
    assert float((G_1 @ H_1.mT - first.F_G * first.s @ first.F_H.mT).abs().max()) < 1e-12
    assert float((G_2 @ H_2.mT - second.F_G * second.s @ second.F_H.mT).abs().max()) < 1e-9
    speeds = 0.0
    for side in sides:
        chords, middles = side[1:] - side[:-1], 0.5 * (side[1:] + side[:-1])
        speeds = speeds + (chords @ torch.linalg.qr(middles).R.inverse()).square().sum((-2, -1))
    assert abs(float(speeds.sqrt().sum()) - length) < 1e-4 * length


def walk(turn: Turn, F: Tensor, F_2: Tensor, s_1: Tensor, s_2: Tensor, points: int = 401) -> Tensor:
    """The factor along the path: the frame turns, moves inside by exp(t log O), and its columns scale."""
    t = torch.linspace(0, 1, points, dtype=torch.float64)[:, None, None]
    for last in (1.0, -1.0):  # joint signs of the last columns of F_2 are free
        signs = torch.tensor([1.0] * (len(s_1) - 1) + [last], dtype=torch.float64)
        normal = (F_2 * signs) @ turn.O @ turn.A - F @ (turn.A * turn.angles.cos())
        if float((F.mT @ normal).abs().max()) < 1e-12:
            break
    normal = normal / torch.linalg.vector_norm(normal, dim=0).clamp_min(1e-12)
    frame = (F @ turn.A * (t * turn.angles).cos() + normal * (t * turn.angles).sin()) @ turn.A.mT
    log = torch.from_numpy(np.real(logm(turn.O.numpy())))
    return frame @ torch.linalg.matrix_exp(-t * log) * (s_1 ** ((1 - t) / 2) * s_2 ** (t / 2))
