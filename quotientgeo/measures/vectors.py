"""Reductions over millions of coordinates that keep their digits, and selections that do not wait for a device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# One float32 sum over 11 M squares is off by 5e-4; over 65536 at a time, added up in float64, by 5e-7.
_CHUNK = 1 << 16
_DEVICE_CHUNK = 1 << 22


def inner_products(x: Tensor, others: Sequence[Tensor]) -> list[Tensor]:
    """x'y for every y in ``others``, float64 scalars on the device of x; all of one shape (d,).

    On a CPU the chunks are summed in the dtype of x, elsewhere, where bandwidth is ample, in float64.
    """
    on_cpu = x.device.type == "cpu"
    chunk = _CHUNK if on_cpu else _DEVICE_CHUNK
    pieces = zip(*(y.split(chunk) for y in (x, *others)), strict=True)
    if on_cpu:
        parts = [torch.stack([torch.dot(a, b) for b in rest]).double() for a, *rest in pieces]
    else:
        parts = [torch.stack([torch.dot(a.double(), b.double()) for b in rest]) for a, *rest in pieces]
    if not parts:
        return [x.new_zeros((), dtype=torch.float64) for _ in others]
    return list(torch.stack(parts).sum(0))


def norm(z: Tensor) -> Tensor:
    """|z|_2 as a float64 scalar, accurate to rounding."""
    return torch.linalg.vector_norm(z, dtype=torch.float64)


def ball_factor(z: Tensor, radius: float) -> Tensor:
    """min(1, radius/|z|), in the dtype of z: times z it is the nearest point of the ball |z| <= radius."""
    return (radius / norm(z).clamp_min(torch.finfo(torch.float64).tiny)).clamp_max(1.0).to(z.dtype)


def is_tame(square: Tensor, dtype: torch.dtype) -> bool:
    """Whether a sum of squares in ``dtype`` neither over- nor underflowed, with room to spare; False for NaN. Asks the device."""
    limit = torch.finfo(dtype).max ** 0.75
    return 1 / limit < float(square) < limit


def tame_(g: Tensor) -> None:
    """Divide g by its largest entry, in place: the squares of what is left do not over- or underflow."""
    largest = torch.linalg.vector_norm(g, ord=math.inf) if g.numel() else g.new_zeros(())
    g.div_(torch.where(largest > 0, largest, torch.ones_like(largest)))


def copy_where_(flag: Tensor, source: Tensor, target: Tensor) -> None:
    """target <- source where the scalar ``flag`` is true. No wait on a device; no pass over memory for nothing on a CPU."""
    if flag.device.type != "cpu":
        torch.where(flag, source, target, out=target)
    elif flag:
        target.copy_(source)
