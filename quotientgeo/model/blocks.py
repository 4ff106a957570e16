"""What a symmetry block is: views of parameters (legs) and the group that acts on them.

A leg sees one parameter as a matrix of shape (rows, h) whose last axis is the one the group acts on. A pair block has two
sides of legs, G and H; an element A acts G -> G A^-1, H -> H A^T, which leaves W = G H' alone. A shift block is a free
translation of a vector, possibly compensated in a bias. Blocks are plain declarations: they hold names and integers, no tensors.
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
from quotientgeo.groups import GL

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Leg:
    """The view of one parameter with the group axis last: shape (rows, h), rows = its other axes flattened in order.

    tensor:  name of the parameter.
    axis:    the axis the group acts on, counted after ``lead`` was selected (0 for the rows of ``nn.Linear.weight``).
    indices: the h positions on that axis (any iterable of integers, in this order); None for all of them.
    lead:    index on the leading axis (an expert, or a head of a stacked parameter), selected first; None for no such axis.
    offset:  the group acts on parameter + offset (1 for gains stored as 1 + w).
    role:    "factor": rows of the block's factor. "carried": moved with the factor by the group but no row of it, because a
             translation removes it (a key bias without effect, a value bias folded into the output bias).
    """

    tensor: str
    axis: int = 0
    indices: Sequence[int] | None = None
    lead: int | None = None
    offset: float = 0.0
    role: Literal["factor", "carried"] = "factor"

    def __post_init__(self) -> None:
        if not isinstance(self.tensor, str):
            raise BlockError(f"a leg needs the name of a parameter, got {self.tensor!r}")
        if self.indices is not None:
            object.__setattr__(self, "indices", _integers(self.indices, f"leg on {self.tensor!r}"))
        if isinstance(self.offset, bool) or not isinstance(self.offset, Real) or not isfinite(self.offset):
            raise BlockError(f"leg on {self.tensor!r}: offset must be a finite number, got {self.offset!r}")
        for name, value in (("axis", self.axis), ("lead", self.lead)):
            if type(value) is not int and not (name == "lead" and value is None):
                raise BlockError(f"leg on {self.tensor!r}: {name} must be an int, got {value!r}")
        if self.role not in ("factor", "carried"):
            raise BlockError(f"leg on {self.tensor!r}: role must be 'factor' or 'carried', got {self.role!r}")

    def bound(self, shapes: Shapes, owner: str) -> BoundLeg:
        """This leg on a tensor of known shape; ``BlockError`` naming ``owner`` (a block) where it does not fit."""
        where = f"block {owner!r}, leg on {self.tensor!r}"
        if self.tensor not in shapes:
            near = get_close_matches(self.tensor, list(shapes), n=3, cutoff=0.5)
            raise BlockError(f"{where}: no such parameter" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        shape = tuple(shapes[self.tensor])
        inner = shape if self.lead is None else shape[1:]
        if self.lead is not None and not (len(shape) >= 2 and 0 <= self.lead < shape[0]):
            raise BlockError(f"{where}: lead {self.lead} is out of range for shape {shape}")
        if not -len(inner) <= self.axis < len(inner):
            raise BlockError(f"{where}: axis {self.axis} is out of range for shape {inner}")
        axis = self.axis % len(inner)
        indices = tuple(range(inner[axis]) if self.indices is None else self.indices)
        wrong = sorted({i for i in indices if not 0 <= i < inner[axis]})
        if wrong:
            raise BlockError(f"{where}: indices {_some(wrong)} are out of range on axis {axis} of shape {inner}")
        if not indices or len(set(indices)) < len(indices):
            raise BlockError(f"{where}: indices must be distinct and at least one, got {_some(indices)}")
        return BoundLeg(self, shape, inner, axis, indices)


@dataclass(frozen=True)
class BoundLeg:
    """A leg whose axis and indices are resolved against the shape of its tensor (``inner``: the shape after ``lead``)."""

    leg: Leg
    shape: tuple[int, ...]
    inner: tuple[int, ...]
    axis: int
    indices: tuple[int, ...]

    @property
    def rows(self) -> int:
        return prod(self.inner[: self.axis] + self.inner[self.axis + 1 :])

    def positions(self) -> Tensor:
        """Flat positions of the view's entries in the contiguous parameter, int64, shape (rows, h)."""
        strides = [prod(self.inner[k + 1 :]) for k in range(len(self.inner))]
        start = 0 if self.leg.lead is None else self.leg.lead * prod(self.inner)
        rows = torch.full((1,), start, dtype=torch.int64)
        for k, (size, stride) in enumerate(zip(self.inner, strides, strict=True)):
            if k != self.axis:
                rows = (rows[:, None] + torch.arange(size) * stride).reshape(-1)
        return rows[:, None] + torch.tensor(self.indices, dtype=torch.int64) * strides[self.axis]


@dataclass(frozen=True)
class PairBlock:
    """A pair of factors on which ``group`` acts by G -> G A^-1, H -> H A^T; the function uses only W = G H'.

    G (n, h) and H (m, h) are the "factor" legs of each side stacked in order. ``kind``, ``layer`` and ``head`` only label
    the block; ``geometry`` is for a declared geometry other than the default one of the pair, which is not there yet.
    """

    name: str
    group: GL
    G: tuple[Leg, ...]
    H: tuple[Leg, ...]
    kind: str = ""
    layer: int | None = None
    head: int | None = None
    geometry: Any = None

    def __post_init__(self) -> None:
        _require_name("block", self.name)
        for side in ("G", "H"):
            legs = _legs(getattr(self, side), f"block {self.name!r}, side {side}")
            object.__setattr__(self, side, legs)
            if not any(leg.role == "factor" for leg in legs):
                raise BlockError(f"block {self.name!r}: side {side} has no leg with role 'factor'")
        if not isinstance(self.group, GL) or not isinstance(self.group.size, int):
            given = str(self.group) if isinstance(self.group, GL) else repr(self.group)
            raise BlockError(
                f"block {self.name!r}: the group must be a GL with a size in numbers, such as GL(64), got {given}"
            )
        if self.geometry is not None:
            raise BlockError(
                f"block {self.name!r}: a geometry of its own ({self.geometry!r}) is not there yet; leave it at None and choose "
                "metric= in sharpness"
            )

    @property
    def h(self) -> int:
        return int(self.group.size)

    @property
    def legs(self) -> tuple[tuple[str, Leg], ...]:
        """All legs as (side, leg), the G side first."""
        return tuple(("G", leg) for leg in self.G) + tuple(("H", leg) for leg in self.H)

    def bound(self, shapes: Shapes) -> list[tuple[str, BoundLeg]]:
        """All legs resolved against parameter shapes; ``BlockError`` where one does not fit or sees another width than h."""
        bound = [(side, leg.bound(shapes, self.name)) for side, leg in self.legs]
        for side, view in bound:
            if len(view.indices) != self.h:
                raise BlockError(
                    f"block {self.name!r}, side {side}, leg on {view.leg.tensor!r}: the leg sees {len(view.indices)} indices "
                    f"on axis {view.axis} but {self.group} acts on {self.h}"
                )
        return bound

    def sizes(self, shapes: Shapes) -> tuple[int, int, int]:
        """(n, m, h): rows of G, rows of H and their common width."""
        rows = {"G": 0, "H": 0}
        for side, view in self.bound(shapes):
            rows[side] += view.rows if view.leg.role == "factor" else 0
        return rows["G"], rows["H"], self.h

    def renamed(self, names: Mapping[str, str]) -> PairBlock:
        """The same block with every tensor name looked up in ``names`` (tied parameters under their one name)."""
        return replace(self, G=_renamed(self.G, names), H=_renamed(self.H, names))


@dataclass(frozen=True)
class ShiftBlock:
    """A free translation: every leg += t (t of width h), and bias -= view(weight) t for each compensator (weight, bias).

    Without compensators the shifted vector has no effect at all (a key bias under softmax). The canonical form is the one
    in which the first leg, a single row, is zero: t = -leg. ``reason`` says, for a reader, why the vector is then frozen.
    """

    name: str
    legs: tuple[Leg, ...]
    compensators: tuple[tuple[Leg, str], ...] = ()
    kind: str = ""
    layer: int | None = None
    head: int | None = None
    reason: str = "a free translation"

    def __post_init__(self) -> None:
        _require_name("shift", self.name)
        object.__setattr__(self, "legs", _legs(self.legs, f"shift {self.name!r}"))
        pairs = self.compensators if isinstance(self.compensators, (tuple, list)) else (self.compensators,)
        for pair in pairs:
            if not (isinstance(pair, (tuple, list)) and [type(item) for item in pair] == [Leg, str]):
                raise BlockError(
                    f"shift {self.name!r}: compensators must be pairs (Leg on a weight, name of a bias), got {pair!r}"
                )
        object.__setattr__(self, "compensators", tuple((leg, bias) for leg, bias in pairs))

    def bound(self, shapes: Shapes) -> tuple[list[BoundLeg], list[tuple[BoundLeg, str]]]:
        """Legs and compensators resolved against parameter shapes; ``BlockError`` where one does not fit."""
        legs = [leg.bound(shapes, self.name) for leg in self.legs]
        weights = [(leg.bound(shapes, self.name), bias) for leg, bias in self.compensators]
        if legs[0].rows != 1:
            raise BlockError(
                f"shift {self.name!r}: its first leg must be one row (a vector), it has {legs[0].rows} rows"
            )
        width = len(legs[0].indices)
        for view in [*legs, *(weight for weight, _ in weights)]:
            if len(view.indices) != width:
                raise BlockError(
                    f"shift {self.name!r}: the leg on {view.leg.tensor!r} sees {len(view.indices)} indices, the first leg {width}"
                )
        for weight, bias in weights:
            found = tuple(Leg(bias).bound(shapes, self.name).shape)
            if found != (weight.rows,):
                raise BlockError(
                    f"shift {self.name!r}: bias {bias!r} has shape {found}, "
                    f"but the view of {weight.leg.tensor!r} has {weight.rows} rows"
                )
        return legs, weights

    def renamed(self, names: Mapping[str, str]) -> ShiftBlock:
        """The same block with every tensor name looked up in ``names`` (tied parameters under their one name)."""
        weights = tuple((_renamed((leg,), names)[0], names.get(bias, bias)) for leg, bias in self.compensators)
        return replace(self, legs=_renamed(self.legs, names), compensators=weights)


Block = PairBlock | ShiftBlock


def _legs(legs: Leg | Iterable[Leg], where: str) -> tuple[Leg, ...]:
    legs = (legs,) if isinstance(legs, Leg) or not isinstance(legs, Iterable) else tuple(legs)
    if not legs or not all(isinstance(leg, Leg) for leg in legs):
        raise BlockError(f"{where}: expected at least one Leg, got {legs!r}")
    return legs


def _integers(values: Any, where: str) -> tuple[int, ...]:
    try:
        found = [None if isinstance(value, bool) else index(value) for value in values]
    except TypeError:
        found = [None]
    if isinstance(values, (str, bytes, Mapping)) or None in found:
        raise BlockError(f"{where}: indices must be integers, such as range(0, 64), got {values!r}")
    return tuple(i for i in found if i is not None)


def _require_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise BlockError(f"a {what} needs a name, got {name!r}")


def _renamed(legs: tuple[Leg, ...], names: Mapping[str, str]) -> tuple[Leg, ...]:
    return tuple(replace(leg, tensor=names.get(leg.tensor, leg.tensor)) for leg in legs)


def _some(numbers: Sequence[int], most: int = 5) -> str:
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")
