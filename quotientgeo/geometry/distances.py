"""The distance of two pairs in the quotient, between a lower and an upper bound that are always given together.

Upper bounds are lengths of paths: the geodesic that ``logarithm`` finds, or an explicit path. A geodesic ends a small gap away
from the second pair, and the length of what closes it is added to first order only: such a bound is proven up to terms of
second order in ``gap`` (1e-22 where that is 1e-11). Lower bounds come from maps to spaces of known distance that no path can
outrun.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from quotientgeo.geometry.coordinates import split
from quotientgeo.geometry.distance_paths import path_length, principal_angles
from quotientgeo.geometry.distance_rank_one import rank_one_distance
from quotientgeo.geometry.gauge import Frames
from quotientgeo.geometry.logarithm import MOST_ITERATIONS, TOLERANCE, logarithm
from quotientgeo.geometry.pair import MetricName, require_declared

_ROUNDING = 4.0
_SAME = 1e-9  # of two lengths; a geodesic that is the explicit path counts as a geodesic


class Distance(NamedTuple):
    """Bounds of the quotient distance, block by block; every tensor has the batch shape (...), float64 unless told.

    lower <= d <= upper. converged (bool): whether the upper bound is the length of a connecting geodesic (or d itself, where a
    closed form is known); where it is false, the upper bound is the length of an explicit path, or infinite where there is no
    path at all (see ``path_length``). gap: the part of the upper bound that leads from the geodesic's end to the second pair; its
    length is known to first order only. It is 0 where the bound is that of an explicit path or a closed form.
    """

    lower: Tensor
    upper: Tensor
    converged: Tensor
    gap: Tensor


@torch.no_grad()
def quotient_distance(
    first: Frames,
    second: Frames,
    metric: MetricName,
    *,
    tolerance: float = TOLERANCE,
    most: int = MOST_ITERATIONS,
) -> Distance:
    """Bounds of the distance of two batches of pairs of one shape, given by their canonical frames.

    For h = 1 both bounds are the closed form (``rank_one_distance``), to rounding. Else geodesics are shot both ways, and the
    upper bound is the shortest of what connects: a geodesic that was found, with its gap added to first order, or the explicit
    path. So bounds are symmetric to rounding. A converged geodesic that is longer than the explicit path is not the shortest:
    such a block counts as not converged.
    """
    require_declared(metric, "exact")
    if first.s.shape[-1] == 1:
        d = rank_one_distance(first, second, metric)
        return Distance(_less_rounding(d, first, second, metric), d, d.isfinite(), torch.zeros_like(d))
    path = path_length(first, second, metric)
    found = [logarithm(a, b, metric, tolerance=tolerance, most=most) for a, b in ((first, second), (second, first))]
    lengths = torch.stack([torch.where(one.converged, one.length + one.gap, math.inf) for one in found])
    shortest, way = lengths.min(0)
    gap = torch.where(way == 0, found[0].gap, found[1].gap)
    unit = 1.0 if metric == "invariant" else torch.linalg.vector_norm(second.s, dim=-1)
    converged = shortest.isfinite() & (shortest <= path * (1.0 + _SAME) + _SAME * unit)
    lower = lower_bound(first, second, metric)
    lower = torch.where(path.isinf(), math.inf, lower)
    return Distance(lower, torch.minimum(shortest, path), converged, torch.where(converged, gap, 0.0))


def lower_bound(first: Frames, second: Frames, metric: MetricName) -> Tensor:
    """A number (...) that the distance is not below.

    Invariant: d^2 >= 1/2 |log s_1 - log s_2|^2 + |theta_G|^2 + |theta_H|^2, with sorted singular values of G H' and the
    principal angles of the column spaces of G and of H. For along a path with whitened velocities F a + N of each factor the
    column spaces move on their Grassmannians at speeds |N_G| and |N_H|, and d log s_i = (a_G)_ii + (a_H)_ii, so |d log s|^2
    / 2 <= |a_G|^2 + |a_H|^2: the image of the path in R^h x Gr x Gr is not longer than the path, nor shorter than the
    distance of its ends.

    Mixed: d >= |W_1 - W_2|_F / sqrt(2), since the squared speed |dW|^2 - 1/2 |F_G' dW F_H|^2 is at least |dW|^2 / 2. An
    equality where W moves straight inside its own column and row spaces.

    Less the rounding of either formula, 4 eps h s_1/s_h (invariant) or 4 eps h s_1 (mixed).
    """
    if metric == "invariant":
        squares = 0.5 * (first.s.log() - second.s.log()).square().sum(-1)
        for F_1, F_2 in ((first.F_G, second.F_G), (first.F_H, second.F_H)):
            squares = squares + principal_angles(F_1, F_2).square().sum(-1)
        bound = squares.sqrt()
    else:
        bound = product_difference(first, second) / math.sqrt(2.0)
    return _less_rounding(bound, first, second, metric)


def _less_rounding(bound: Tensor, first: Frames, second: Frames, metric: MetricName) -> Tensor:
    """A lower bound less the rounding error of its formula, 4 eps h s_1/s_h (invariant) or 4 eps h s_1 (mixed)."""
    eps, h = torch.finfo(torch.float64).eps, first.s.shape[-1]
    relative = metric == "invariant"
    noise = torch.maximum(*(f.s[..., 0] / (f.s[..., -1] if relative else 1.0) for f in (first, second)))
    return (bound - _ROUNDING * eps * h * noise).clamp_min(0.0)


def product_difference(first: Frames, second: Frames) -> Tensor:
    """|W_1 - W_2|_F, (...), without forming n x m matrices and without loss where the two are close.

    With F_2 = F_1 C + N for both sides, W_2 - W_1 = F_1 (C_G S_2 C_H' - S_1) F_1' + F_1 C_G S_2 N_H' + N_G S_2 C_H' F_1' +
    N_G S_2 N_H', four orthogonal terms.
    """
    (C_G, N_G), (C_H, N_H) = split(first.F_G, second.F_G), split(first.F_H, second.F_H)
    s = second.s[..., None, :]
    R_G, R_H = (torch.linalg.qr(N, mode="r").R for N in (N_G, N_H))
    core = (C_G * s) @ C_H.mT - torch.diag_embed(first.s)
    terms = [core, (C_G * s) @ R_H.mT, (R_G * s) @ C_H.mT, (R_G * s) @ R_H.mT]
    return torch.stack([torch.linalg.matrix_norm(term).square() for term in terms]).sum(0).sqrt()
