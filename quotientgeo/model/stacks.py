"""Blocks of one shape as one batched tensor: reading, writing and the numeric group action without a loop over heads.

A *slot* is one leg position (side, role, rank) over all blocks of the stack; inside a slot the legs are grouped by parameter.
A group whose legs are evenly spaced runs of one axis is a view (narrow, unflatten, movedim); any other group is a gather
through flat positions. So the number of tensor operations is that of parameters times leg positions, never that of heads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from quotientgeo.errors import BlockError, ShapeError
from quotientgeo.model.blocks import BoundLeg, PairBlock, Shapes

Params = Mapping[str, Tensor]


@dataclass(frozen=True)
class RunView:
    """Evenly spaced runs of ``width`` indices on one axis of a parameter, one run per block."""

    axis: int
    origin: int
    spacing: int
    inner: int
    width: int
    blocks: int
    lead: int | None

    def read(self, tensor: Tensor) -> Tensor:
        x = tensor if self.lead is None else tensor[self.lead]
        x = x.narrow(self.axis, self.origin, self.blocks * self.spacing)
        x = x.unflatten(self.axis, (self.blocks, self.spacing)).narrow(self.axis + 1, self.inner, self.width)
        return x.movedim((self.axis, self.axis + 1), (0, -1)).reshape(self.blocks, -1, self.width)

    def covers(self, shape: torch.Size) -> bool:
        """Whether the runs partition the whole parameter."""
        return self.lead is None and self.spacing == self.width and self.blocks * self.width == shape[self.axis]

    def whole(self, x: Tensor, shape: torch.Size) -> Tensor:
        """The parameter made of ``x`` (blocks, rows, width); only where ``covers``."""
        rest = shape[: self.axis] + shape[self.axis + 1 :]
        x = x.reshape(self.blocks, *rest, self.width)
        return x.movedim((0, -1), (self.axis, self.axis + 1)).flatten(self.axis, self.axis + 1)


@dataclass(frozen=True)
class LeadView:
    """One run of ``width`` indices on one axis, for consecutive indices of the leading axis, one per block."""

    axis: int
    start: int
    width: int
    first: int
    blocks: int

    def read(self, tensor: Tensor) -> Tensor:
        x = tensor.narrow(0, self.first, self.blocks).narrow(self.axis + 1, self.start, self.width)
        return x.movedim(self.axis + 1, -1).reshape(self.blocks, -1, self.width)

    def covers(self, shape: torch.Size) -> bool:
        """Whether the runs partition the whole parameter."""
        return self.blocks == shape[0] and self.width == shape[self.axis + 1]

    def whole(self, x: Tensor, shape: torch.Size) -> Tensor:
        """The parameter made of ``x`` (blocks, rows, width); only where ``covers``."""
        rest = shape[1 : self.axis + 1] + shape[self.axis + 2 :]
        return x.reshape(self.blocks, *rest, self.width).movedim(-1, self.axis + 1)


@dataclass
class LegGroup:
    """The legs of one slot on one parameter, in the order of their blocks' positions (``members``) in the stack."""

    tensor: str
    offset: float
    members: list[int] = field(default_factory=list)
    legs: list[BoundLeg] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._positions: dict[torch.device, Tensor] = {}

    @cached_property
    def view(self) -> RunView | LeadView | None:
        """The group as a view, None where only a gather will do."""
        return _regular_view(self.legs)

    def positions(self, device: torch.device) -> Tensor:
        """Flat positions (blocks, rows, h) in the parameter, made once per device."""
        if device not in self._positions:
            self._positions[device] = torch.stack([leg.positions() for leg in self.legs]).to(device)
        return self._positions[device]

    def entries(self, tensor: Tensor) -> Tensor:
        """The entries (blocks, rows, h) that the legs own, of the parameter or of a gradient in its shape."""
        if tensor.shape != torch.Size(self.legs[0].shape):
            raise ShapeError(f"{self.tensor!r} has shape {tuple(tensor.shape)}, its legs expect {self.legs[0].shape}")
        if self.view is not None:
            return self.view.read(tensor)
        at = self.positions(tensor.device)
        return tensor.reshape(-1).index_select(0, at.reshape(-1)).reshape(at.shape)

    def read(self, tensor: Tensor) -> Tensor:
        """Factor rows (blocks, rows, h): the entries plus their offset."""
        x = self.entries(tensor)
        return x + self.offset if self.offset else x


class Slot:
    """One leg position of a side over the blocks of a stack."""

    def __init__(self, side: str, role: str, groups: list[LegGroup]):
        self.side, self.role, self.groups = side, role, groups
        self.rows = groups[0].legs[0].rows
        order = [i for group in groups for i in group.members]
        self.members = sorted(order)
        place = {member: i for i, member in enumerate(self.members)}
        self._places = [[place[i] for i in group.members] for group in groups]
        self._inverse = None if order == self.members else sorted(range(len(order)), key=order.__getitem__)
        self._index = _IndexCache()

    def read(self, params: Params) -> Tensor:
        """(blocks with this slot, rows, h), in stack order."""
        return self._gathered([group.read(params[group.tensor]) for group in self.groups])

    def read_gradient(self, gradients: Mapping[str, Tensor | None], like: Tensor) -> Tensor:
        """The adjoint of ``split``: (blocks with this slot, rows, h), zero where a parameter has no gradient."""
        parts = []
        for group in self.groups:
            gradient = gradients.get(group.tensor)
            parts.append(group.entries(like.new_zeros(group.legs[0].shape) if gradient is None else gradient))
        return self._gathered(parts)

    def _gathered(self, parts: list[Tensor]) -> Tensor:
        x = _joined(parts, 0)
        return x if self._inverse is None else x.index_select(0, self._index(self._inverse, x.device))

    def split(self, x: Tensor) -> Iterable[tuple[LegGroup, Tensor]]:
        """The inverse of ``read``: each group with its own part of ``x``, offsets taken off again."""
        for group, places in zip(self.groups, self._places, strict=True):
            if places == list(range(places[0], places[0] + len(places))):
                part = x.narrow(0, places[0], len(places))
            else:
                part = x.index_select(0, self._index(places, x.device))
            yield group, part - group.offset if group.offset else part

    def elements(self, elements: Tensor) -> Tensor:
        """Of group elements (B, h, h), those of the blocks that have this slot."""
        if len(self.members) == len(elements):
            return elements
        return elements.index_select(0, self._index(self.members, elements.device))


class _IndexCache:
    """Index tensors made once per device, so that a hot loop copies nothing from the host."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}

    def __call__(self, numbers: Sequence[int], device: torch.device) -> Tensor:
        key = (tuple(numbers), device)
        if key not in self._known:
            self._known[key] = torch.tensor(numbers, device=device)
        return self._known[key]


class PairStack:
    """All blocks of one shape (n, m, h), group and geometry as one batched pair of factors.

    Made by ``build_stacks``. ``blocks`` gives the order of the batch axis B; ``names`` the parameters it touches.
    """

    def __init__(self, blocks: Sequence[PairBlock], shapes: Shapes, aliases: Mapping[str, Sequence[str]] | None = None):
        sizes = {block.sizes(shapes) for block in blocks}
        if len(sizes) != 1:
            raise BlockError(f"a stack needs blocks of one shape (n, m, h), got {sorted(sizes)}")
        self.blocks = tuple(blocks)
        self.n, self.m, self.h = sizes.pop()
        self.group = self.blocks[0].group
        self.geometry = self.blocks[0].geometry
        self._aliases = dict(aliases or {})
        self._slots = _make_slots(self.blocks, shapes)
        self._factor = {side: [s for s in self._slots if s.side == side and s.role == "factor"] for side in ("G", "H")}
        self.names = tuple(dict.fromkeys(g.tensor for s in self._slots if s.role == "factor" for g in s.groups))

    def __len__(self) -> int:
        return len(self.blocks)

    def __repr__(self) -> str:
        return f"PairStack({len(self)} blocks of {self.group}, n={self.n}, m={self.m}, h={self.h})"

    def read(self, params: Params) -> tuple[Tensor, Tensor]:
        """(G (B, n, h), H (B, m, h)) in the dtype and on the device of ``params``; differentiable."""
        return self._read_side("G", params), self._read_side("H", params)

    def read_gradient(self, gradients: Mapping[str, Tensor | None]) -> tuple[Tensor, Tensor] | None:
        """The adjoint of ``write``: gradients (dG (B, n, h), dH (B, m, h)) from those of the parameters.

        A parameter without gradient (None, or no entry) counts as zero; None if that is all of them.
        """
        like = next((g for g in map(gradients.get, self.names) if g is not None), None)
        if like is None:
            return None
        dG, dH = (
            _joined([slot.read_gradient(gradients, like) for slot in self._factor[side]], 1) for side in ("G", "H")
        )
        return dG, dH

    def write(self, params: Params, G: Tensor, H: Tensor) -> dict[str, Tensor]:
        """A copy of the mapping ``params`` in which new tensors hold the factors G (B, n, h) and H (B, m, h).

        Differentiable in G and H; nothing is changed in place. New tensors have the dtype and device of the factors; entries
        that no factor leg of this stack owns keep their values, so do carried legs (zero in the canonical form of the shifts).
        """
        for side, factor, rows in (("G", G, self.n), ("H", H, self.m)):
            if factor.shape != (len(self), rows, self.h):
                raise ShapeError(f"{side} must have shape {(len(self), rows, self.h)}, got {tuple(factor.shape)}")
        parts: list[tuple[LegGroup, Tensor]] = []
        for side, factor in (("G", G), ("H", H)):
            start = 0
            for slot in self._factor[side]:
                parts += slot.split(factor.narrow(1, start, slot.rows))
                start += slot.rows
        return self._put(params, parts)

    def act(self, params: Params, elements: Tensor, sides: str = "GH") -> dict[str, Tensor]:
        """A copy of ``params`` moved by elements A (B, h, h): G -> G A^-1, H -> H A^T, carried legs with their side.

        ``sides="G"`` or ``"H"`` moves one side only, which is no symmetry (the control of a verification). Differentiable.
        """
        parts: list[tuple[LegGroup, Tensor]] = []
        for slot in self._slots:
            if slot.side not in sides:
                continue
            A, x = slot.elements(elements), slot.read(params)
            moved = torch.linalg.solve(A, x, left=False) if slot.side == "G" else x @ A.mT
            parts += slot.split(moved)
        return self._put(params, parts)

    def _read_side(self, side: str, params: Params) -> Tensor:
        return _joined([slot.read(params) for slot in self._factor[side]], 1)

    def _put(self, params: Params, parts: Iterable[tuple[LegGroup, Tensor]]) -> dict[str, Tensor]:
        by_tensor: dict[str, list[tuple[LegGroup, Tensor]]] = defaultdict(list)
        for group, x in parts:
            by_tensor[group.tensor].append((group, x))
        new = dict(params)
        for tensor, pieces in by_tensor.items():
            new[tensor] = _assemble(params[tensor], pieces)
            for alias in self._aliases.get(tensor, ()):
                if alias in new:
                    new[alias] = new[tensor]
        return new


def build_stacks(
    blocks: Iterable[PairBlock], shapes: Shapes, aliases: Mapping[str, Sequence[str]] | None = None
) -> list[PairStack]:
    """Blocks grouped into stacks of equal leg rows, group and geometry, in the order of their first blocks.

    ``aliases`` lists, per parameter, other names of the same storage; ``write`` keeps them equal.
    """
    stacks: dict[Any, list[PairBlock]] = {}
    for block in blocks:
        rows = tuple((side, view.rows) for side, view in block.bound(shapes) if view.leg.role == "factor")
        stacks.setdefault((rows, block.group, block.geometry), []).append(block)
    return [PairStack(members, shapes, aliases) for members in stacks.values()]


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    """torch.cat along ``dim`` 0 or 1 of tensors (blocks, rows, h), transposed in memory: the layout of nn.Linear."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat([part.mT for part in parts], dim=(0, 2)[dim]).mT


def _assemble(old: Tensor, pieces: Sequence[tuple[LegGroup, Tensor]]) -> Tensor:
    group, x = pieces[0]
    if len(pieces) == 1 and group.view is not None and group.view.covers(old.shape):
        return group.view.whole(x, old.shape)
    at = torch.cat([group.positions(x.device).reshape(-1) for group, x in pieces])
    values = torch.cat([x.reshape(-1) for _, x in pieces])
    return old.to(values).reshape(-1).index_copy(0, at, values).reshape(old.shape)


def _make_slots(blocks: Sequence[PairBlock], shapes: Shapes) -> list[Slot]:
    grouped: dict[tuple[str, str, int, int], dict[tuple[str, float], LegGroup]] = {}
    for i, block in enumerate(blocks):
        rank: dict[tuple[str, str], int] = defaultdict(int)
        for side, view in block.bound(shapes):
            leg = view.leg
            groups = grouped.setdefault((side, leg.role, rank[side, leg.role], view.rows), {})
            group = groups.setdefault((leg.tensor, leg.offset), LegGroup(leg.tensor, leg.offset))
            group.members.append(i)
            group.legs.append(view)
            rank[side, leg.role] += 1
    slots = [Slot(side, role, list(groups.values())) for (side, role, _, _), groups in grouped.items()]
    if any(slot.role == "factor" and len(slot.members) < len(blocks) for slot in slots):
        raise BlockError("a stack needs blocks whose factor legs have equal rows, position by position")
    return slots


def _regular_view(legs: Sequence[BoundLeg]) -> RunView | LeadView | None:
    """The view of legs that are evenly spaced runs of one axis (or of consecutive leads), None where they are not."""
    first, width = legs[0], len(legs[0].indices)
    starts = [leg.indices[0] for leg in legs]
    if any(
        leg.axis != first.axis or leg.indices != tuple(range(s, s + width)) for leg, s in zip(legs, starts, strict=True)
    ):
        return None
    leads = [leg.leg.lead for leg in legs]
    if first.leg.lead is not None and len(set(leads)) > 1:
        consecutive = leads == list(range(first.leg.lead, first.leg.lead + len(legs)))
        if len(set(starts)) > 1 or not consecutive:
            return None
        return LeadView(first.axis, starts[0], width, first.leg.lead, len(legs))
    if len(set(leads)) > 1:
        return None
    spacing = starts[1] - starts[0] if len(legs) > 1 else width
    if spacing < width or starts != [starts[0] + k * spacing for k in range(len(legs))]:
        return None
    # the last run may end before a full spacing is over: then let the runs sit at the end of their spacings instead
    origin = min(starts[0], first.inner[first.axis] - len(legs) * spacing)
    inner = starts[0] - origin
    if origin < 0 or inner + width > spacing:
        return None
    return RunView(first.axis, origin, spacing, inner, width, len(legs), leads[0])
