"""Anderson's mixing of a fixed-point iteration, for a batch of independent problems without a loop over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

MEMORY = 8
_RELATIVE_CUTOFF = 1e-12  # directions of the history that are smaller than this, relatively, say nothing
_GROWTH = 4.0  # a step that multiplies the best gap by more than this is taken back
_PATIENCE = 40  # evaluations without a smaller gap after which a problem is given up


class Solution(NamedTuple):
    """z (B, D): the point of the smallest gap (B,) that was seen; converged (B,); iterations (B,): evaluations until then."""

    z: Tensor
    gap: Tensor
    converged: Tensor
    iterations: Tensor


def solve(evaluate: Callable[[Tensor], tuple[Tensor, Tensor]], start: Tensor, tolerance: Tensor, most: int) -> Solution:
    """Find z (B, D) at which the step f of every problem vanishes: ``evaluate(z)`` gives f (B, D) and a gap (B,) >= 0 to
    judge by.

    z + f is mixed with the last ``MEMORY`` steps so that the linear model of f that they make is as small as it can be
    (Anderson's scheme of type II). Where the gap is not finite or grows to more than ``_GROWTH`` times its smallest, the
    problem returns to its best point, forgets its history and takes half the step from there. Each problem stops at its own
    tolerance (B,), or where ``_PATIENCE`` evaluations brought nothing; all of them after ``most``.
    """
    count, size = start.shape
    z, best = start.clone(), start.clone()
    best_step = torch.zeros_like(start)
    gap = start.new_full((count,), torch.inf)
    damping = start.new_ones(count)
    iterations, idle = (torch.zeros(count, dtype=torch.int64, device=start.device) for _ in range(2))
    points, steps = (start.new_zeros(MEMORY, count, size) for _ in range(2))
    known = torch.zeros(MEMORY, count, dtype=torch.bool, device=start.device)
    for k in range(most):
        f, here = evaluate(z)
        active = ~(gap <= tolerance) & (idle < _PATIENCE)
        iterations += active
        better = active & (here < gap)
        worse = active & ~(here <= _GROWTH * gap)
        worse |= active & ~here.isfinite()
        best = torch.where(better[:, None], z, best)
        best_step = torch.where(better[:, None], f, best_step)
        gap = torch.where(better, here, gap)
        idle = torch.where(better, 0, idle + 1)
        if ((gap <= tolerance) | (idle >= _PATIENCE)).all():
            break
        damping = torch.where(worse, damping / 2, (2 * damping).clamp_max(1.0))
        known = known & ~worse
        slot = k % MEMORY
        points[slot], steps[slot], known[slot] = z, f, ~worse
        mixed = _mixed(z, f, points, steps, known, slot)
        back = best + damping[:, None] * best_step
        # where nothing finite was ever seen there is no step to take: the start itself is halved
        lost = gap.isinf()
        back = torch.where(lost[:, None], z / 2, back)
        z = torch.where(worse[:, None], back, mixed)
    return Solution(best, gap, gap <= tolerance, iterations)


def _mixed(z: Tensor, f: Tensor, points: Tensor, steps: Tensor, known: Tensor, slot: int) -> Tensor:
    """z + f - (dZ + dF) g, with g the least-squares solution of dF g = f over differences to the history."""
    others = [k for k in range(points.shape[0]) if k != slot]
    mask = known[others][..., None]
    dF = torch.where(mask, f - steps[others], 0.0).permute(1, 2, 0)
    dZ = torch.where(mask, z - points[others], 0.0).permute(1, 2, 0)
    scale = torch.linalg.vector_norm(dF, dim=1, keepdim=True)
    scale = torch.where(scale > 0, scale, 1.0)
    Q, R = torch.linalg.qr(dF / scale)
    inverse = torch.linalg.pinv(R, rtol=_RELATIVE_CUTOFF)
    g = inverse @ (Q.mT @ f[..., None])
    return z + f - ((dZ + dF) / scale @ g)[..., 0]
