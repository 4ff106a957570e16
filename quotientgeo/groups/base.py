"""What every simple group has: numbers for its sizes, its law, its Lie algebra, its exponential, random elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError, ShapeError
from quotientgeo.groups.arguments import (
    Dimension,
    Shape,
    as_dimension,
    as_integer,
    as_sizes,
    check_batch,
    check_draw,
    check_dtype,
    check_matrix,
)

if TYPE_CHECKING:
    from quotientgeo.groups.product import Product


class SimpleGroup(ABC):
    """A Lie group of real matrices of shape ``element_shape``, whose law is the matrix product or the sum.

    A size is a number or the name of a symbol. Where it is a name, methods that need numbers take them in one of two ways:
    ``sizes={"h": 4, ...}`` (the sizes of a whole problem; names that the group does not have are left alone), or
    ``size=4`` for a group with one symbolic size. All methods are batched over leading dimensions.
    """

    name: ClassVar[str]
    law: ClassVar[str] = "multiply"  # or "add"

    @property
    @abstractmethod
    def element_shape(self) -> Shape:
        """(rows, columns) of an element, as declared: names or numbers."""

    @property
    @abstractmethod
    def element_kind(self) -> str:
        """What the symbolic engine may assume of an element: the name of one of its kinds of letters."""

    @property
    @abstractmethod
    def algebra_kind(self) -> str:
        """And of an element of the Lie algebra."""

    @abstractmethod
    def _basis(self, rows: int, columns: int) -> Tensor:
        """Basis of the Lie algebra in float64, (dimension, rows, columns)."""

    @abstractmethod
    def _draw(
        self, rows: int, columns: int, generator: torch.Generator, condition: float, batch: tuple[int, ...]
    ) -> Tensor:
        """A random element in float64, (*batch, rows, columns)."""

    @abstractmethod
    def _inverse(self, element: Tensor) -> Tensor: ...

    @abstractmethod
    def _exponential(self, algebra: Tensor) -> Tensor: ...

    @abstractmethod
    def _contains(self, element: Tensor, tolerance: float) -> Tensor: ...

    @abstractmethod
    def _dimension(self, rows: int, columns: int) -> int: ...

    def __str__(self) -> str:
        return f"{self.name}({self.element_shape[0]})"

    def __mul__(self, other: object) -> Product:
        """Direct product."""
        from quotientgeo.groups.product import product_of

        return product_of(self, other)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the sizes that are not numbers."""
        return tuple(dict.fromkeys(size for size in self.element_shape if isinstance(size, str)))

    def numeric_shape(self, size: int | None = None, *, sizes: Mapping[str, int] | None = None) -> tuple[int, int]:
        """(rows, columns) of an element in numbers.

        Raises:
            ArgumentError: a symbolic size has no number, or ``size`` contradicts the declared number.
        """
        numbers = as_sizes(str(self), self.symbols, size, sizes)
        rows, columns = (n if isinstance(n, int) else numbers[n] for n in self.element_shape)
        if size is not None and not self.symbols and any(as_integer(size) != n for n in (rows, columns)):
            raise ArgumentError(
                f"{self} has elements of shape ({rows}, {columns}): size={size!r} contradicts it, leave it out"
            )
        return rows, columns

    def dimension(self, size: int | None = None, *, sizes: Mapping[str, int] | None = None) -> int:
        """Dimension of the group as a manifold."""
        return self._dimension(*self.numeric_shape(size, sizes=sizes))

    def algebra_basis(
        self,
        size: int | None = None,
        dtype: torch.dtype = torch.float64,
        *,
        sizes: Mapping[str, int] | None = None,
    ) -> Tensor:
        """Basis of the Lie algebra, shape (dimension, rows, columns)."""
        check_dtype("algebra_basis", dtype)
        return self._basis(*self.numeric_shape(size, sizes=sizes)).to(dtype)

    def identity(
        self,
        size: int | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        batch: tuple[int, ...] = (),
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Neutral element, shape (*batch, rows, columns): I, or 0 where the law is "add"."""
        check_batch("identity", batch)
        check_dtype("identity", dtype)
        rows, columns = self.numeric_shape(size, sizes=sizes)
        one = torch.eye(rows, dtype=dtype) if self.law == "multiply" else torch.zeros(rows, columns, dtype=dtype)
        return one.expand(*batch, rows, columns).clone()

    def random_element(
        self,
        generator: torch.Generator,
        *,
        condition: float = 10.0,
        size: int | None = None,
        sizes: Mapping[str, int] | None = None,
        batch: tuple[int, ...] = (),
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """A random element, shape (*batch, rows, columns); the class says of which distribution.

        Drawn in float64 on the CPU from ``generator``, so that every dtype and device sees the same element.

        Raises:
            ArgumentError: a missing size, or a condition outside [1, LARGEST_CONDITION].
        """
        check_draw(generator, condition, batch, dtype)
        shape = self.numeric_shape(size, sizes=sizes)
        return self._draw(*shape, generator, float(condition), tuple(batch)).to(dtype)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """The element a b, or a + b where the law is "add"; leading dimensions broadcast.

        Raises:
            ShapeError: no tensors of one dtype, device and shape (..., rows, columns).
        """
        a, b = self._checked("first element", a), self._checked("second element", b)
        if a.shape[-2:] != b.shape[-2:] or a.dtype != b.dtype or a.device != b.device:
            given = " and ".join(f"{tuple(t.shape)} {t.dtype} on {t.device}" for t in (a, b))
            raise ShapeError(f"{self}: elements of one product need one shape, dtype and device, got {given}")
        return a @ b if self.law == "multiply" else a + b

    def inverse(self, a: Tensor) -> Tensor:
        """The inverse of a, or -a where the law is "add", (..., rows, columns).

        a is taken to be an element (see ``contains``): only its shape is checked.

        Raises:
            ShapeError: no tensor of that shape.
        """
        return self._inverse(self._checked("element", a))

    def exponential(self, X: Tensor) -> Tensor:
        """exp(X) for X in the Lie algebra, (..., rows, columns): the matrix exponential, or X where the law is "add".

        X is taken to be in the algebra: only its shape is checked, so that this can be differentiated and vectorised.

        Raises:
            ShapeError: no tensor of that shape.
        """
        return self._exponential(self._checked("algebra element", X))

    def contains(self, a: Tensor, tolerance: float | None = None) -> Tensor:
        """Whether a is an element, as booleans of shape (...).

        Entries that must be zero (or equal) are, up to ``tolerance`` times the largest entry; an element of GL has its
        smallest singular value above ``tolerance`` times the largest. By default ``tolerance`` is the machine epsilon of the
        dtype of ``a`` for GL, and 8 max(rows, columns) times that otherwise. Nothing that is not finite is an element.

        Raises:
            ShapeError: no tensor of shape (..., rows, columns).
        """
        a = self._checked("element", a)
        if tolerance is None:
            tolerance = self._rounding(max(a.shape[-2:])) * torch.finfo(a.dtype).eps
        finite = torch.isfinite(a).all(-1).all(-1)
        values = torch.where(finite[..., None, None], a, torch.zeros_like(a)).double()
        return finite & self._contains(values, tolerance)

    def _rounding(self, size: int) -> float:
        """How many machine epsilons the equations of an element may be off, after a few products."""
        return 8.0 * size

    def _checked(self, what: str, matrix: Tensor) -> Tensor:
        return check_matrix(str(self), self.element_shape, what, matrix)


@dataclass(frozen=True)
class SquareGroup(SimpleGroup):
    """A group of (size, size) matrices; ``size`` is a positive integer or a symbol's name."""

    size: Dimension

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", as_dimension(f"{type(self).__name__}(size)", "size", self.size))

    @property
    def element_shape(self) -> Shape:
        """(size, size)."""
        return self.size, self.size
