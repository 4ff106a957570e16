"""Direct products of simple groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError, DeclarationError, ShapeError
from quotientgeo.groups.arguments import as_sizes, check_draw, shown
from quotientgeo.groups.base import SimpleGroup

Elements = tuple[Tensor, ...]


@dataclass(frozen=True)
class Product:
    """Direct product ``A * B * ...`` of simple groups, in their order; products inside are flattened.

    An element is a tuple, one matrix for each simple group: every method that returns elements returns such a tuple. Sizes are
    given as for a simple group; the same name is the same number in all groups.
    """

    groups: tuple[SimpleGroup, ...]
    name: ClassVar[str] = "product"

    def __post_init__(self) -> None:
        given = self.groups if isinstance(self.groups, Iterable) else (self.groups,)
        flat = [group for part in given for group in (part.groups if isinstance(part, Product) else (part,))]
        for group in flat:
            if not isinstance(group, SimpleGroup):
                raise DeclarationError(f'Product(groups): each must be a group such as GL("h"), got {shown(group)}')
        if not flat:
            raise DeclarationError("Product(groups): at least one group is needed, got none")
        object.__setattr__(self, "groups", tuple(flat))

    def __str__(self) -> str:
        return " x ".join(map(str, self.groups))

    def __mul__(self, other: object) -> Product:
        """Direct product."""
        return product_of(self, other)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the sizes that are not numbers."""
        return tuple(dict.fromkeys(symbol for group in self.groups for symbol in group.symbols))

    def dimension(self, size: int | None = None, *, sizes: Mapping[str, int] | None = None) -> int:
        """Dimension of the group as a manifold, the sum of those of its groups."""
        numbers = self._numbers(size, sizes)
        return sum(group.dimension(sizes=numbers) for group in self.groups)

    def algebra_basis(
        self,
        size: int | None = None,
        dtype: torch.dtype = torch.float64,
        *,
        sizes: Mapping[str, int] | None = None,
    ) -> Elements:
        """One basis for each group, (dimension of that group, rows, columns); the Lie algebra is their direct sum."""
        numbers = self._numbers(size, sizes)
        return tuple(group.algebra_basis(dtype=dtype, sizes=numbers) for group in self.groups)

    def identity(
        self,
        size: int | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        batch: tuple[int, ...] = (),
        dtype: torch.dtype = torch.float64,
    ) -> Elements:
        """Neutral elements, each (*batch, rows, columns)."""
        numbers = self._numbers(size, sizes)
        return tuple(group.identity(sizes=numbers, batch=batch, dtype=dtype) for group in self.groups)

    def random_element(
        self,
        generator: torch.Generator,
        *,
        condition: float = 10.0,
        size: int | None = None,
        sizes: Mapping[str, int] | None = None,
        batch: tuple[int, ...] = (),
        dtype: torch.dtype = torch.float64,
    ) -> Elements:
        """One random element of each group, drawn in their order, each (*batch, rows, columns) and of that condition.

        Raises:
            ArgumentError: a missing size, or a condition outside [1, LARGEST_CONDITION].
        """
        check_draw(generator, condition, batch, dtype)
        numbers = self._numbers(size, sizes)
        return tuple(
            group.random_element(generator, condition=condition, sizes=numbers, batch=batch, dtype=dtype)
            for group in self.groups
        )

    def product(self, a: Elements, b: Elements) -> Elements:
        """The products in each group; for arguments and errors see the simple groups."""
        return self._each(SimpleGroup.product, a, b)

    def inverse(self, a: Elements) -> Elements:
        """The inverses in each group."""
        return self._each(SimpleGroup.inverse, a)

    def exponential(self, X: Elements) -> Elements:
        """The exponentials in each group."""
        return self._each(SimpleGroup.exponential, X)

    def contains(self, a: Elements, tolerance: float | None = None) -> Tensor:
        """Whether each part is an element of its group, as booleans of shape (...)."""
        inside = self._each(lambda group, part: group.contains(part, tolerance), a)
        return torch.stack(torch.broadcast_tensors(*inside)).all(0)

    def _numbers(self, size: int | None, sizes: Mapping[str, int] | None) -> dict[str, int]:
        if size is not None and not self.symbols:
            raise ArgumentError(f"{self} has its sizes in numbers: leave size={size!r} out")
        return as_sizes(str(self), self.symbols, size, sizes)

    def _each(self, method: Callable[..., Tensor], *arguments: Elements) -> Elements:
        """``method`` of each group on its part of every argument."""
        for parts in arguments:
            if not isinstance(parts, tuple | list) or len(parts) != len(self.groups):
                given = f"{len(parts)} of them" if isinstance(parts, tuple | list) else f"a {type(parts).__name__}"
                raise ShapeError(f"{self}: an element is a tuple of {len(self.groups)} tensors, got {given}")
        return tuple(method(group, *parts) for group, *parts in zip(self.groups, *arguments, strict=True))


def product_of(left: object, right: object) -> Product:
    """``left * right`` for groups; anything else is refused."""
    flat: list[SimpleGroup] = []
    for side in (left, right):
        if not isinstance(side, SimpleGroup | Product):
            raise DeclarationError(f'a group can only be multiplied with a group such as GL("h"), got {shown(side)}')
        flat += side.groups if isinstance(side, Product) else (side,)
    return Product(tuple(flat))
