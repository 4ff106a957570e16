"""Diagonal groups of real numbers, and positive scaling."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from quotientgeo.groups.arguments import Shape
from quotientgeo.groups.base import SimpleGroup, SquareGroup
from quotientgeo.groups.drawing import random_moduli


class _RealDiagonal(SquareGroup):
    """Diagonal matrices of nonzero numbers; which of them, says ``_admits``."""

    @abstractmethod
    def _admits(self, diagonal: Tensor) -> Tensor:
        """Which entries of a diagonal are allowed."""

    def _dimension(self, rows: int, columns: int) -> int:
        return rows

    def _basis(self, rows: int, columns: int) -> Tensor:
        return torch.diag_embed(torch.eye(rows, dtype=torch.float64))

    def _draw(
        self, rows: int, columns: int, generator: torch.Generator, condition: float, batch: tuple[int, ...]
    ) -> Tensor:
        return torch.diag_embed(random_moduli(rows, batch, generator, condition))

    def _inverse(self, element: Tensor) -> Tensor:
        return torch.diag_embed(1.0 / _diagonal(element))

    def _exponential(self, algebra: Tensor) -> Tensor:
        return torch.diag_embed(torch.exp(_diagonal(algebra)))

    def _contains(self, element: Tensor, tolerance: float) -> Tensor:
        diagonal = _diagonal(element)
        rest = (element - torch.diag_embed(diagonal)).abs().amax((-2, -1))
        return (rest <= tolerance * element.abs().amax((-2, -1))) & self._admits(diagonal).all(-1)


@dataclass(frozen=True)
class PositiveDiagonal(_RealDiagonal):
    """Diagonal matrices of shape (size, size) with positive entries.

    Dimension size, Lie algebra: diagonal matrices, basis E_ii. The entries of a random element are log-uniform in an interval
    around 1, largest / smallest = ``condition``; for size 1 the entry lies in [condition^-1/2, condition^1/2], away from 1.
    """

    name: ClassVar[str] = "PositiveDiagonal"
    positive: ClassVar[bool] = True
    element_kind: ClassVar[str] = "diagonal"
    algebra_kind: ClassVar[str] = "diagonal"

    def _admits(self, diagonal: Tensor) -> Tensor:
        return diagonal > 0


@dataclass(frozen=True)
class NonzeroDiagonal(_RealDiagonal):
    """Diagonal matrices of shape (size, size) with entries other than zero, of either sign.

    Dimension size, Lie algebra: diagonal matrices, basis E_ii. The moduli of a random element are those of PositiveDiagonal,
    the signs random, at least one of them negative: without one it would not tell this group from the positive one.
    """

    name: ClassVar[str] = "NonzeroDiagonal"
    element_kind: ClassVar[str] = "diagonal"
    algebra_kind: ClassVar[str] = "diagonal"

    def _draw(
        self, rows: int, columns: int, generator: torch.Generator, condition: float, batch: tuple[int, ...]
    ) -> Tensor:
        moduli = random_moduli(rows, batch, generator, condition)
        draw = torch.rand((*batch, rows), generator=generator, dtype=torch.float64)
        negative = (draw < 0.5) | (draw == draw.amin(-1, keepdim=True))
        return torch.diag_embed(torch.where(negative, -moduli, moduli))

    def _admits(self, diagonal: Tensor) -> Tensor:
        return diagonal != 0


@dataclass(frozen=True)
class Scaling(SimpleGroup):
    """Positive numbers, as matrices of shape (1, 1).

    Dimension 1, Lie algebra: all numbers. A random element lies in [c^-1/2, c^-1/4] or [c^1/4, c^1/2], c = ``condition``:
    away from 1, which would verify anything.
    """

    size: ClassVar[int] = 1
    name: ClassVar[str] = "Scaling"
    element_kind: ClassVar[str] = "positive"
    algebra_kind: ClassVar[str] = "scalar"

    def __str__(self) -> str:
        return "Scaling()"

    @property
    def element_shape(self) -> Shape:
        """(1, 1)."""
        return 1, 1

    def _dimension(self, rows: int, columns: int) -> int:
        return 1

    def _basis(self, rows: int, columns: int) -> Tensor:
        return torch.ones(1, 1, 1, dtype=torch.float64)

    def _draw(
        self, rows: int, columns: int, generator: torch.Generator, condition: float, batch: tuple[int, ...]
    ) -> Tensor:
        return random_moduli(1, batch, generator, condition)[..., None]

    def _inverse(self, element: Tensor) -> Tensor:
        return 1.0 / element

    def _exponential(self, algebra: Tensor) -> Tensor:
        return torch.exp(algebra)

    def _contains(self, element: Tensor, tolerance: float) -> Tensor:
        return element[..., 0, 0] > 0


def _diagonal(matrix: Tensor) -> Tensor:
    return torch.diagonal(matrix, dim1=-2, dim2=-1)
