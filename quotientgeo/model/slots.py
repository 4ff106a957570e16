"""One leg position over the blocks of a stack: read and split without a loop over blocks where legs lie regularly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from quotientgeo.errors import BlockError, ShapeError
from quotientgeo.model.blocks import BoundLeg, GroupBlock, Shapes
from quotientgeo.model.views import LeadView, RunView, regular_view

Params = Mapping[str, Tensor]


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
        return regular_view(self.legs)

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
        x = joined(parts, 0)
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


def joined(parts: list[Tensor], dim: int) -> Tensor:
    """torch.cat along ``dim`` 0 or 1 of tensors (blocks, rows, h), transposed in memory: the layout of nn.Linear."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat([part.mT for part in parts], dim=(0, 2)[dim]).mT


def assemble(old: Tensor, pieces: Sequence[tuple[LegGroup, Tensor]]) -> Tensor:
    group, x = pieces[0]
    if len(pieces) == 1 and group.view is not None and group.view.covers(old.shape):
        return group.view.whole(x, old.shape)
    at = torch.cat([group.positions(x.device).reshape(-1) for group, x in pieces])
    values = torch.cat([x.reshape(-1) for _, x in pieces])
    return old.to(values).reshape(-1).index_copy(0, at, values).reshape(old.shape)


def make_slots(blocks: Sequence[GroupBlock], shapes: Shapes) -> list[Slot]:
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
