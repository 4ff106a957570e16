"""General linear group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from quotientgeo.groups.base import SquareGroup
from quotientgeo.groups.drawing import raised, random_rotation


@dataclass(frozen=True)
class GL(SquareGroup):
    """General linear group GL(size, R): all invertible real matrices of shape (size, size).

    Dimension size^2, Lie algebra: all matrices, basis E_ij. A random element is A = U D V with U, V uniform on SO(size), D
    log-spaced, det A = 1 and cond(A) = ``condition``. For size 1 the determinant leaves only A = 1; a positive scale in
    [condition^-1/2, condition^1/2] is drawn instead, since an element that does nothing would verify anything.

    ``size`` is a positive integer, or a symbol's name (``GL("h")``) in a declaration that holds for all sizes.
    """

    name: ClassVar[str] = "GL"
    element_kind: ClassVar[str] = "invertible"
    algebra_kind: ClassVar[str] = "general"

    def _dimension(self, rows: int, columns: int) -> int:
        return rows * columns

    def _basis(self, rows: int, columns: int) -> Tensor:
        return torch.eye(rows * columns, dtype=torch.float64).reshape(-1, rows, columns)

    def _draw(
        self, rows: int, columns: int, generator: torch.Generator, condition: float, batch: tuple[int, ...]
    ) -> Tensor:
        if rows == 1:
            return condition ** (torch.rand((*batch, 1, 1), generator=generator, dtype=torch.float64) - 0.5)
        left, right = (random_rotation(rows, batch, generator) for _ in range(2))
        spectrum = condition ** torch.linspace(0.5, -0.5, rows, dtype=torch.float64)
        return (left * spectrum) @ right

    def _inverse(self, element: Tensor) -> Tensor:
        return torch.linalg.inv(raised(element)).to(element.dtype)

    def _exponential(self, algebra: Tensor) -> Tensor:
        return torch.linalg.matrix_exp(raised(algebra)).to(algebra.dtype)

    def _contains(self, element: Tensor, tolerance: float) -> Tensor:
        values = torch.linalg.svdvals(element)
        return values[..., -1] > tolerance * values[..., 0]

    def _rounding(self, size: int) -> float:
        return 1.0
