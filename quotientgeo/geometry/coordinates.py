"""Orthonormal coordinates of horizontal tangents, common to every metric on the pair.

Both shipped metrics become the Frobenius norm after a whitening Z_G = X_G R_G, Z_H = X_H R_H of a tangent at the canonical
frames, and horizontal then means F_G' Z_G = w_G * c and (F_H' Z_H)' = w_H * c for one h x h matrix c, with tables of
weights w_G^2 + w_H^2 = 1 (entry by entry) that name the metric. So z = (c, N_G, N_H) are orthonormal coordinates, their
map into tangents is an isometry, its adjoint reads the coordinates, and adjoint then map is the orthogonal projection.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from quotientgeo.errors import ShapeError
from quotientgeo.geometry.gauge import Frames

_OMEGA_ENTRIES = 1 << 24  # entries of the Gaussian n x m matrices that draw_start holds at a time


class Horizontal(NamedTuple):
    """Coordinates z = (c (..., h, h), N_G (..., n, h), N_H (..., m, h)) of a horizontal tangent.

    With F_G' N_G = 0 and F_H' N_H = 0 the squared metric norm of the tangent is |c|^2 + |N_G|^2 + |N_H|^2.
    """

    c: Tensor
    N_G: Tensor
    N_H: Tensor

    def squared_norm(self) -> Tensor:
        """|z|^2, shape (...)."""
        return self.c.square().sum((-2, -1)) + self.N_G.square().sum((-2, -1)) + self.N_H.square().sum((-2, -1))

    def scale(self, factor: Tensor | float) -> Horizontal:
        """factor * z; a tensor factor has shape (...)."""
        if isinstance(factor, Tensor):
            factor = factor[..., None, None]
        return Horizontal(factor * self.c, factor * self.N_G, factor * self.N_H)


def dimension(n: int, m: int, h: int) -> int:
    """Dimension of the quotient, nh + mh - h^2: what z counts once N_G and N_H are normal."""
    return n * h + m * h - h * h


def split(F: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """(F'X (..., h, h), X - F F'X): the core of X (..., n, h) and its part normal to the orthonormal columns F (..., n, h)."""
    core = F.mT @ X
    return core, X - F @ core


def normal_part(F: Tensor, N: Tensor) -> Tensor:
    """(I - F F') N for orthonormal columns F (..., n, h) and N (..., n, h)."""
    return split(F, N)[1]


def zeros(frames: Frames, dtype: torch.dtype | None = None) -> Horizontal:
    """z = 0 at these frames, in the dtype of F_G unless told."""
    n, m, h = frames.sizes
    batch = frames.F_G.shape[:-2]
    c, N_G, N_H = (frames.F_G.new_zeros((*batch, rows, h), dtype=dtype) for rows in (h, n, m))
    return Horizontal(c, N_G, N_H)


def embed(frames: Frames, z: Horizontal, w_G: Tensor, w_H: Tensor) -> tuple[Tensor, Tensor]:
    """Z_G = F_G (w_G * c) + N_G, Z_H = F_H (w_H * c)' + N_H, the isometry z -> whitened tangent.

    What N_G, N_H hold inside the frames is dropped, so that any z is a horizontal tangent and gradients in z are normal.
    """
    return (
        frames.F_G @ (w_G * z.c) + normal_part(frames.F_G, z.N_G),
        frames.F_H @ (w_H * z.c).mT + normal_part(frames.F_H, z.N_H),
    )


def extract(frames: Frames, Z_G: Tensor, Z_H: Tensor, w_G: Tensor, w_H: Tensor) -> Horizontal:
    """The adjoint of ``embed``: c = w_G * F_G' Z_G + w_H * (F_H' Z_H)', and the normal parts."""
    (core_G, N_G), (core_H, N_H) = split(frames.F_G, Z_G), split(frames.F_H, Z_H)
    return Horizontal(w_G * core_G + w_H * core_H.mT, N_G, N_H)


def random_start(frames: Frames, Omega: Tensor) -> Horizontal:
    """The direction that an n x m Gaussian Omega (..., n, m) names at these frames, in float64 unless frames are smaller.

    c = F_G' Omega F_H, N_G = (I - F_G F_G') Omega F_H, N_H = (I - F_H F_H') Omega' F_G. For Omega with independent standard
    normal entries z is standard normal in orthonormal coordinates (isotropic), and the tangent at the original point
    depends neither on the gauge nor on the signs and rotations that frames leave open.
    """
    n, m, _ = frames.sizes
    if Omega.shape[-2:] != (n, m):
        raise ShapeError(f"random_start: Omega must have shape (..., {n}, {m}), got {tuple(Omega.shape)}")
    Omega = Omega.to(dtype=frames.F_G.dtype, device=frames.F_G.device)
    right, left = Omega @ frames.F_H, Omega.mT @ frames.F_G
    c = frames.F_G.mT @ right
    return Horizontal(c, normal_part(frames.F_G, right), normal_part(frames.F_H, left))


def draw_start(frames: Frames, generator: torch.Generator) -> Horizontal:
    """``random_start`` with Omega drawn from a CPU ``generator`` in float64, a bounded number of blocks at a time."""
    n, m, _ = frames.sizes
    batch = frames.F_G.shape[:-2]
    count = math.prod(batch)
    flat = Frames(*(part.reshape(count, *part.shape[len(batch) :]) for part in frames))
    chunk = max(1, _OMEGA_ENTRIES // (n * m))
    pieces = []
    for first in range(0, count, chunk):
        some = Frames(*(part[first : first + chunk] for part in flat))
        Omega = torch.randn((some.s.shape[0], n, m), generator=generator, dtype=torch.float64)
        pieces.append(random_start(some, Omega))
    if not pieces:
        return zeros(frames)
    return Horizontal(*(torch.cat(parts).reshape(*batch, *parts[0].shape[1:]) for parts in zip(*pieces, strict=True)))
