"""Translations of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from quotientgeo.groups.arguments import Dimension, Shape, as_dimension
from quotientgeo.groups.base import SimpleGroup


@dataclass(frozen=True)
class Translation(SimpleGroup):
    """All real matrices of shape (rows, columns) under addition.

    Dimension rows * columns, Lie algebra: the same matrices, basis E_ij, row by row; the exponential of X is X. A translation
    has no condition number; a random element has Gaussian entries of standard deviation ``condition``, because moving a
    number of order 1 there and back loses as many digits as the inverse of a matrix of that condition number.

    ``rows`` and ``columns`` are positive integers or symbols' names.
    """

    rows: Dimension
    columns: Dimension = 1
    name: ClassVar[str] = "Translation"
    law: ClassVar[str] = "add"
    element_kind: ClassVar[str] = "general"
    algebra_kind: ClassVar[str] = "general"

    def __post_init__(self) -> None:
        for argument in ("rows", "columns"):
            value = as_dimension("Translation(rows, columns)", argument, getattr(self, argument))
            object.__setattr__(self, argument, value)

    def __str__(self) -> str:
        return f"{self.name}({self.rows}, {self.columns})"

    @property
    def element_shape(self) -> Shape:
        """(rows, columns)."""
        return self.rows, self.columns

    def _dimension(self, rows: int, columns: int) -> int:
        return rows * columns

    def _basis(self, rows: int, columns: int) -> Tensor:
        return torch.eye(rows * columns, dtype=torch.float64).reshape(-1, rows, columns)

    def _draw(
        self, rows: int, columns: int, generator: torch.Generator, condition: float, batch: tuple[int, ...]
    ) -> Tensor:
        return condition * torch.randn((*batch, rows, columns), generator=generator, dtype=torch.float64)

    def _inverse(self, element: Tensor) -> Tensor:
        return -element

    def _exponential(self, algebra: Tensor) -> Tensor:
        return algebra.clone()

    def _contains(self, element: Tensor, tolerance: float) -> Tensor:
        return torch.ones(element.shape[:-2], dtype=torch.bool, device=element.device)
