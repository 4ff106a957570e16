"""A leg: one parameter seen as a matrix, with the rows and columns that a factor has there.

A leg only holds names and integers. ``bound`` resolves it against the shape of its parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite, prod
from numbers import Real
from operator import index
from typing import Any, Literal

import torch
from torch import Tensor

from quotientgeo.errors import BlockError

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Leg:
    """The view of one parameter as a matrix: one axis gives its columns, its other axes, flattened in order, its rows.

    tensor:  name of the parameter.
    axis:    the axis of the columns, counted after ``lead`` was selected: for ``nn.Linear.weight`` (out, in) axis 1 is the
             weight itself, axis 0 its transpose. In a pair this is the axis that the group acts on. None: a single column of
             all entries, flattened.
    indices: the positions on that axis, as columns in this order (any iterable of integers); None for all of them. With
             axis None the entries of the one column.
    rows:    the rows that take part, in this order, counted over the flattened other axes; None for all of them.
    lead:    index on the leading axis (an expert, a neuron, or a head of a stacked parameter), selected first; None for no
             such axis.
    offset:  the factor is parameter + offset (1 for gains stored as 1 + w).
    role:    "factor": rows of the block's factor. "carried": moved with the factor by the group but no row of it, because a
             translation removes it (a key bias without effect, a value bias folded into the output bias).
    """

    tensor: str
    axis: int | None = 0
    indices: Sequence[int] | None = None
    lead: int | None = None
    offset: float = 0.0
    role: Literal["factor", "carried"] = "factor"
    rows: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.tensor, str):
            raise BlockError(f"a leg needs the name of a parameter, got {self.tensor!r}")
        for what, numbers in (("indices", self.indices), ("rows", self.rows)):
            if numbers is not None:
                object.__setattr__(self, what, _integers(numbers, what, f"leg on {self.tensor!r}"))
        if isinstance(self.offset, bool) or not isinstance(self.offset, Real) or not isfinite(self.offset):
            raise BlockError(f"leg on {self.tensor!r}: offset must be a finite number, got {self.offset!r}")
        for name, value in (("axis", self.axis), ("lead", self.lead)):
            if type(value) is not int and value is not None:
                raise BlockError(f"leg on {self.tensor!r}: {name} must be an int or None, got {value!r}")
        if self.axis is None and self.rows is not None:
            raise BlockError(
                f"leg on {self.tensor!r}: with axis=None all entries are one column: select them by indices, not by rows"
            )
        if self.role not in ("factor", "carried"):
            raise BlockError(f"leg on {self.tensor!r}: role must be 'factor' or 'carried', got {self.role!r}")

    def bound(self, shapes: Shapes, owner: str, *, column: bool = False) -> BoundLeg:
        """This leg on a tensor of known shape; ``BlockError`` naming ``owner`` (a block) where it does not fit.

        column: a vector (or a number) is read as one column of several rows, not as one row.
        """
        where = f"block {owner!r}, leg on {self.tensor!r}"
        if self.tensor not in shapes:
            near = get_close_matches(self.tensor, list(shapes), n=3, cutoff=0.5)
            raise BlockError(f"{where}: no such parameter" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        shape = tuple(shapes[self.tensor])
        inner = shape if self.lead is None else shape[1:]
        if self.lead is not None and not (shape and 0 <= self.lead < shape[0] and (len(shape) > 1 or column)):
            raise BlockError(f"{where}: lead {self.lead} is out of range for shape {shape}")
        if self.axis is None or (column and len(inner) < 2 and self.axis in (0, -1) and self.rows is None):
            return BoundLeg(self, shape, inner, None, _chosen(self.indices, prod(inner), where, f"entries of {inner}"))
        if not -len(inner) <= self.axis < len(inner):
            raise BlockError(f"{where}: axis {self.axis} is out of range for shape {inner}")
        axis = self.axis % len(inner)
        indices = _chosen(self.indices, inner[axis], where, f"axis {axis} of shape {inner}")
        others = prod(inner[:axis] + inner[axis + 1 :])
        kept = None if self.rows is None else _chosen(self.rows, others, where, f"the rows of shape {inner}", "rows")
        return BoundLeg(self, shape, inner, axis, indices, kept)


@dataclass(frozen=True)
class BoundLeg:
    """A leg whose axis and indices are resolved against the shape of its tensor (``inner``: the shape after ``lead``).

    axis None: one column whose entries are ``indices``. kept: the chosen rows, None for all of them.
    """

    leg: Leg
    shape: tuple[int, ...]
    inner: tuple[int, ...]
    axis: int | None
    indices: tuple[int, ...]
    kept: tuple[int, ...] | None = None

    @property
    def rows(self) -> int:
        if self.axis is None:
            return len(self.indices)
        return prod(self.inner[: self.axis] + self.inner[self.axis + 1 :]) if self.kept is None else len(self.kept)

    @property
    def width(self) -> int:
        """Columns."""
        return 1 if self.axis is None else len(self.indices)

    def positions(self) -> Tensor:
        """Flat positions of the view's entries in the contiguous parameter, int64, shape (rows, width)."""
        start = 0 if self.leg.lead is None else self.leg.lead * prod(self.inner)
        chosen = torch.tensor(self.indices, dtype=torch.int64)
        if self.axis is None:
            return start + chosen[:, None]
        strides = [prod(self.inner[k + 1 :]) for k in range(len(self.inner))]
        rows = torch.full((1,), start, dtype=torch.int64)
        for k, (size, stride) in enumerate(zip(self.inner, strides, strict=True)):
            if k != self.axis:
                rows = (rows[:, None] + torch.arange(size) * stride).reshape(-1)
        if self.kept is not None:
            rows = rows[torch.tensor(self.kept, dtype=torch.int64)]
        return rows[:, None] + chosen * strides[self.axis]


def checked_legs(legs: Leg | Iterable[Leg], where: str) -> tuple[Leg, ...]:
    """One leg or several as a tuple; ``BlockError`` where there is none, or something else."""
    legs = (legs,) if isinstance(legs, Leg) or not isinstance(legs, Iterable) else tuple(legs)
    if not legs or not all(isinstance(leg, Leg) for leg in legs):
        raise BlockError(f"{where}: expected at least one Leg, got {legs!r}")
    return legs


def renamed_legs(legs: tuple[Leg, ...], names: Mapping[str, str]) -> tuple[Leg, ...]:
    """Legs with every tensor name looked up in ``names``."""
    return tuple(replace(leg, tensor=names.get(leg.tensor, leg.tensor)) for leg in legs)


def _chosen(numbers: Sequence[int] | None, size: int, where: str, place: str, what: str = "indices") -> tuple[int, ...]:
    """Positions in range(size), all of them for None; ``BlockError`` unless they are distinct, in range and at least one."""
    found = tuple(range(size) if numbers is None else numbers)
    wrong = sorted({i for i in found if not 0 <= i < size})
    if wrong:
        raise BlockError(f"{where}: {what} {_some(wrong)} are out of range on {place}")
    if not found or len(set(found)) < len(found):
        raise BlockError(f"{where}: {what} must be distinct and at least one, got {_some(found)}")
    return found


def _integers(values: Any, what: str, where: str) -> tuple[int, ...]:
    try:
        found = [None if isinstance(value, bool) else index(value) for value in values]
    except TypeError:
        found = [None]
    if isinstance(values, (str, bytes, Mapping)) or None in found:
        raise BlockError(f"{where}: {what} must be integers, such as range(0, 64), got {values!r}")
    return tuple(i for i in found if i is not None)


def _some(numbers: Sequence[int], most: int = 5) -> str:
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")
