"""Complex diagonal group on pairs of columns, as real matrices: what commutes with rotary positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError, DeclarationError, ShapeError
from quotientgeo.groups.arguments import shown
from quotientgeo.groups.base import SquareGroup
from quotientgeo.groups.drawing import random_moduli

PAIRINGS = ("half", "interleaved")


@dataclass(frozen=True)
class ComplexDiagonal(SquareGroup):
    """Complex numbers z_j = a_j + i b_j other than zero, one for each pair of columns, as real (size, size) matrices.

    On the columns of pair j the matrix is the block [[a_j, -b_j], [b_j, a_j]], elsewhere zero. With size = 2 k, pair j is the
    columns (j, j + k) for pairing "half", (2 j, 2 j + 1) for "interleaved". The product is that of the numbers, the transpose
    their conjugates.

    Dimension size, Lie algebra: the same matrices with any z_j, basis z_j = 1 for each pair and then z_j = i. A random element
    has |z_j| as the entries of PositiveDiagonal(k), so that its condition number is ``condition`` where k > 1, and uniform
    phases.

    ``size`` is an even positive integer or a symbol's name.
    """

    pairing: str = "half"
    name: ClassVar[str] = "ComplexDiagonal"

    def __post_init__(self) -> None:
        super().__post_init__()
        signature = "ComplexDiagonal(size, pairing)"
        if isinstance(self.size, int) and self.size % 2:
            raise DeclarationError(f"{signature}: size must be even, since columns are taken in pairs, got {self.size}")
        if not isinstance(self.pairing, str) or self.pairing not in PAIRINGS:
            raise DeclarationError(f"{signature}: pairing must be {' or '.join(PAIRINGS)}, got {shown(self.pairing)}")

    def __str__(self) -> str:
        return f"{self.name}({self.size}, {self.pairing})"

    @property
    def element_kind(self) -> str:
        """Kind of letter: complex_half or complex_interleaved."""
        return f"complex_{self.pairing}"

    @property
    def algebra_kind(self) -> str:
        """The same as of the elements: both are complex diagonal matrices."""
        return self.element_kind

    def numeric_shape(self, size: int | None = None, *, sizes: Mapping[str, int] | None = None) -> tuple[int, int]:
        """(size, size) in numbers.

        Raises:
            ArgumentError: the size has no number, or an odd one.
        """
        rows, columns = super().numeric_shape(size, sizes=sizes)
        if rows % 2:
            raise ArgumentError(f"{self}: {self.size} must be even, since columns are taken in pairs, got {rows}")
        return rows, columns

    def _dimension(self, rows: int, columns: int) -> int:
        return rows

    def _basis(self, rows: int, columns: int) -> Tensor:
        real, imaginary = torch.eye(rows, dtype=torch.float64).chunk(2, dim=-1)
        return self._matrix(real, imaginary)

    def _draw(
        self, rows: int, columns: int, generator: torch.Generator, condition: float, batch: tuple[int, ...]
    ) -> Tensor:
        moduli = random_moduli(rows // 2, batch, generator, condition)
        phases = 2.0 * torch.pi * torch.rand((*batch, rows // 2), generator=generator, dtype=torch.float64)
        return self._matrix(moduli * torch.cos(phases), moduli * torch.sin(phases))

    def _inverse(self, element: Tensor) -> Tensor:
        real, imaginary = self._numbers(element)
        modulus = torch.hypot(real, imaginary)
        return self._matrix(real / modulus / modulus, -imaginary / modulus / modulus)

    def _exponential(self, algebra: Tensor) -> Tensor:
        real, imaginary = self._numbers(algebra)
        return self._matrix(torch.exp(real) * torch.cos(imaginary), torch.exp(real) * torch.sin(imaginary))

    def _contains(self, element: Tensor, tolerance: float) -> Tensor:
        real, imaginary = self._numbers(element)
        rest = (element - self._matrix(real, imaginary)).abs().amax((-2, -1))
        return (rest <= tolerance * element.abs().amax((-2, -1))) & (torch.hypot(real, imaginary) > 0).all(-1)

    def _checked(self, what: str, matrix: Tensor) -> Tensor:
        matrix = super()._checked(what, matrix)
        if matrix.shape[-1] % 2:
            raise ShapeError(f"{self}: {what} must have an even number of columns, got shape {tuple(matrix.shape)}")
        return matrix

    def _columns(self, size: int, device: torch.device) -> Tensor:
        """Columns of the pairs, (2, size / 2)."""
        columns = torch.arange(size, device=device)
        return columns.reshape(2, -1) if self.pairing == "half" else columns.reshape(-1, 2).T

    def _numbers(self, matrix: Tensor) -> tuple[Tensor, Tensor]:
        """Real and imaginary parts (..., size / 2), read off the first column of each pair."""
        first, second = self._columns(matrix.shape[-1], matrix.device)
        return matrix[..., first, first], matrix[..., second, first]

    def _matrix(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """The real matrix of complex numbers given by their parts (..., size / 2)."""
        a, b = torch.diag_embed(real), torch.diag_embed(imaginary)
        half = torch.cat([torch.cat([a, -b], -1), torch.cat([b, a], -1)], -2)
        if self.pairing == "half":
            return half
        place = torch.argsort(self._columns(half.shape[-1], half.device).reshape(-1))
        return half[..., place[:, None], place]
