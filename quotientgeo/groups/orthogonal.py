"""Orthogonal group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from quotientgeo.groups.base import SquareGroup
from quotientgeo.groups.drawing import raised, random_orthogonal


@dataclass(frozen=True)
class Orthogonal(SquareGroup):
    """Orthogonal group O(size): real matrices with A'A = I, of both determinants.

    Dimension size (size - 1) / 2, Lie algebra: skew matrices, basis E_ij - E_ji for i > j. A random element is uniform (Haar);
    its condition number is 1 whatever ``condition`` says. For size 1 it is -1, since 1 would verify anything.
    """

    name: ClassVar[str] = "O"
    element_kind: ClassVar[str] = "orthogonal"
    algebra_kind: ClassVar[str] = "skew"

    def _dimension(self, rows: int, columns: int) -> int:
        return rows * (rows - 1) // 2

    def _basis(self, rows: int, columns: int) -> Tensor:
        i, j = torch.tril_indices(rows, rows, offset=-1)
        basis = torch.zeros(len(i), rows, rows, dtype=torch.float64)
        at = torch.arange(len(i))
        basis[at, i, j], basis[at, j, i] = 1.0, -1.0
        return basis

    def _draw(
        self, rows: int, columns: int, generator: torch.Generator, condition: float, batch: tuple[int, ...]
    ) -> Tensor:
        drawn = random_orthogonal(rows, batch, generator)
        return -torch.ones_like(drawn) if rows == 1 else drawn

    def _inverse(self, element: Tensor) -> Tensor:
        return element.mT

    def _exponential(self, algebra: Tensor) -> Tensor:
        return torch.linalg.matrix_exp(raised(algebra)).to(algebra.dtype)

    def _contains(self, element: Tensor, tolerance: float) -> Tensor:
        one = torch.eye(element.shape[-1], dtype=element.dtype, device=element.device)
        return (element.mT @ element - one).abs().amax((-2, -1)) <= tolerance
