"""Tall factors as combinations of two fixed ones, so that a derived formula runs on h x h matrices alone.

Every geodesic through G with velocity xi stays in the span of the frame F and of N, the part of the tangent that is normal to
it: G and xi, and with them every factor that a derived formula builds, are F u + N q. A formula touches its tall arguments by
products with h x h matrices, sums, and Grams X'Y only, and F'F = I, F'N = 0: the Gram of two combinations needs N'N and
nothing tall. ``Span`` offers just these operations, so the catalogue's generated functions run on it as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Span:
    """F u + N q for coefficients u, q (..., h, h); ``gram`` (..., h, h) is N'N. Combine only spans of the same F and N."""

    u: Tensor
    q: Tensor
    gram: Tensor

    @property
    def shape(self) -> torch.Size:
        """That of the coefficients: the number of rows is not known here, and no formula may depend on it."""
        return self.u.shape

    @property
    def mT(self) -> Transposed:
        return Transposed(self)

    def expand(self, *sizes: int) -> Span:
        return Span(self.u.expand(*sizes), self.q.expand(*sizes), self.gram)

    def __matmul__(self, right: Tensor) -> Span:
        return Span(self.u @ right, self.q @ right, self.gram)

    def __add__(self, other: Span) -> Span:
        return Span(self.u + other.u, self.q + other.q, self.gram)

    def __sub__(self, other: Span) -> Span:
        return Span(self.u - other.u, self.q - other.q, self.gram)

    def __neg__(self) -> Span:
        return Span(-self.u, -self.q, self.gram)

    def __mul__(self, factor: float) -> Span:
        return Span(factor * self.u, factor * self.q, self.gram)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Span:
        return Span(self.u / divisor, self.q / divisor, self.gram)


@dataclass(frozen=True, eq=False)
class Transposed:
    """(F u + N q)', of use in a product with another span only."""

    of: Span

    def __matmul__(self, right: Span) -> Tensor:
        left = self.of
        return left.u.mT @ right.u + left.q.mT @ (left.gram @ right.q)
