"""The groups as plain objects, shared by symbols (symbolic/) and numbers (geometry/, model/).

A group knows its size, its dimension, its Lie algebra and how to draw a random element; how an element acts on the factors
of a model is declared elsewhere (symbolic/declaration.py for formulas, model/blocks.py for tensors).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError, DeclarationError

LARGEST_CONDITION = 1.0 / torch.finfo(torch.float64).eps  # cond(A) at which an inverse in float64 has no digit left


@dataclass(frozen=True)
class GL:
    """General linear group GL(size, R): all invertible real matrices of shape (size, size).

    ``size`` is a positive integer, or a symbol's name (``GL("h")``) in a declaration that holds for all sizes.
    """

    size: int | str
    name: ClassVar[str] = "GL"
    element_kind: ClassVar[str] = "invertible"  # what the symbolic engine may assume of a group element
    algebra_kind: ClassVar[str] = "general"  # and of a Lie-algebra element

    def __post_init__(self) -> None:
        size = self.size
        if not isinstance(size, (str, bool)) and hasattr(size, "__index__"):  # also of numpy
            object.__setattr__(self, "size", operator.index(size))
        named = isinstance(size, str) and size.isidentifier()
        if not named and (type(self.size) is not int or self.size < 1):
            raise DeclarationError(f"GL(size): size must be a positive integer or a symbol's name, got {size!r}")

    def __str__(self) -> str:
        return f"{self.name}({self.size})"

    def _numeric_size(self, size: int | None) -> int:
        if size is None:
            size = self.size if isinstance(self.size, int) else None
        if size is None:
            raise ArgumentError(f"{self} has a symbolic size: pass size=<int> to work with numbers")
        return size

    def dimension(self, size: int | None = None) -> int:
        """Dimension of the group as a manifold, size^2."""
        return self._numeric_size(size) ** 2

    def algebra_basis(self, size: int | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Basis E_ij of the Lie algebra gl(size), shape (size^2, size, size)."""
        k = self._numeric_size(size)
        return torch.eye(k * k, dtype=dtype).reshape(k * k, k, k)

    def random_element(
        self,
        generator: torch.Generator,
        *,
        condition: float = 10.0,
        size: int | None = None,
        batch: tuple[int, ...] = (),
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """A = U D V with U, V uniform on SO(size), D log-spaced, det A = 1 and cond(A) = ``condition``.

        Shape (*batch, size, size). Drawn in float64 on the CPU from ``generator``, so that every dtype and device sees
        the same element. For size 1 the determinant leaves only A = 1; a positive scale in
        [condition^-1/2, condition^1/2] is drawn instead, since an element that does nothing would verify anything.
        """
        if not (isinstance(condition, Real) and 1.0 <= condition < float("inf")):
            raise ArgumentError(f"random_element: condition must be a finite number >= 1, got {condition!r}")
        if condition > LARGEST_CONDITION:
            raise ArgumentError(
                f"random_element: condition must be at most {LARGEST_CONDITION:.1e}, got {condition!r}: beyond that float64 "
                "keeps no digit of the inverse; use a smaller condition"
            )
        k = self._numeric_size(size)
        if k == 1:
            exponent = torch.rand((*batch, 1, 1), generator=generator, dtype=torch.float64) - 0.5
            return (condition**exponent).to(dtype)
        left, right = (_random_rotation(k, batch, generator) for _ in range(2))
        spectrum = condition ** torch.linspace(0.5, -0.5, k, dtype=torch.float64)
        return ((left * spectrum) @ right).to(dtype)


def _random_rotation(k: int, batch: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform on SO(k): QR of a Gaussian with the signs of diag(R) moved into Q, one column flipped where det = -1."""
    q, r = torch.linalg.qr(torch.randn((*batch, k, k), generator=generator, dtype=torch.float64))
    q = q * torch.sign(torch.diagonal(r, dim1=-2, dim2=-1)).unsqueeze(-2)
    flip = torch.ones((*batch, k), dtype=torch.float64)
    flip[..., 0] = torch.sign(torch.linalg.det(q))
    return q * flip.unsqueeze(-2)
