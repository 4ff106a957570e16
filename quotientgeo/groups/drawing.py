"""Random matrices that several groups draw, always in float64 on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor


def random_orthogonal(k: int, batch: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform (Haar) on O(k), (*batch, k, k): QR of a Gaussian with the signs of diag(R) moved into Q."""
    q, r = torch.linalg.qr(torch.randn((*batch, k, k), generator=generator, dtype=torch.float64))
    return q * torch.sign(torch.diagonal(r, dim1=-2, dim2=-1)).unsqueeze(-2)


def random_rotation(k: int, batch: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform on SO(k): uniform on O(k), one column flipped where det = -1."""
    q = random_orthogonal(k, batch, generator)
    flip = torch.ones((*batch, k), dtype=torch.float64)
    flip[..., 0] = torch.sign(torch.linalg.det(q))
    return q * flip.unsqueeze(-2)


def random_moduli(k: int, batch: tuple[int, ...], generator: torch.Generator, condition: float) -> Tensor:
    """Positive numbers (*batch, k), log-uniform, with largest / smallest = ``condition``.

    Their exponents to the base ``condition`` fill an interval of length 1 that contains 0 at a uniformly random place: so
    the determinant is no constant, which would not tell a group from its elements of determinant one. For k = 1 there is no
    ratio; the number lies in [c^-1/2, c^-1/4] or [c^1/4, c^1/2], c = ``condition``: away from 1, which verifies nothing.
    """
    draw = torch.rand((*batch, k + 1), generator=generator, dtype=torch.float64)
    exponents, place = draw[..., :k], draw[..., k:]
    if k == 1:
        return condition ** ((1.0 + exponents) * torch.where(place < 0.5, -0.25, 0.25))
    low, high = exponents.amin(-1, keepdim=True), exponents.amax(-1, keepdim=True)
    return condition ** ((exponents - low) / (high - low) - place)


def raised(matrix: Tensor) -> Tensor:
    """At least float32: torch has no inverse and no exponential of half-precision matrices."""
    return matrix.float() if matrix.dtype.itemsize < 4 else matrix
