"""Which block owns which entries of the parameters, so that no entry is owned twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from quotientgeo.errors import BlockError
from quotientgeo.model.blocks import Block, BoundLeg, Leg, Shapes, ShiftBlock

# what an entry may be, and what it may not be at the same time; one bias may take up the shifts of many heads
EXCLUDES = {
    "factor": ("factor", "carried", "shift", "follower", "compensator"),
    "carried": ("factor", "carried", "compensator"),
    "shift": ("factor", "shift", "follower", "compensator"),
    "follower": ("factor", "shift", "follower", "compensator"),
    "compensator": ("factor", "carried", "shift", "follower"),
}


class Claims:
    """Owners of entries by what the entry is to its owner: a factor row, carried along, a shift's
    first leg (frozen) or a follower of it, or a bias that compensates."""

    def __init__(self, shapes: Shapes):
        self._shapes = shapes
        self._names: list[str] = []
        self._owners: dict[tuple[str, str], Tensor] = {}

    def add(self, block: Block) -> None:
        """Claim all entries of a block, or none: ``BlockError`` naming the tensor and the other owner."""
        views = list(_views(block, self._shapes))
        for what, view in views:
            for other in EXCLUDES[what]:
                self._refuse_clash(block.name, view, other)
        _refuse_own_overlap(block.name, views)
        self._names.append(block.name)
        for what, view in views:
            self._flat(what, view.leg.tensor)[view.positions().reshape(-1)] = len(self._names) - 1

    def mask(self, what: str, tensor: str) -> Tensor:
        """Entries of a parameter that are this to some owner; bool, the parameter's shape, on the CPU."""
        shape = tuple(self._shapes[tensor])
        owners = self._owners.get((what, tensor))
        return torch.zeros(shape, dtype=torch.bool) if owners is None else (owners >= 0).reshape(shape)

    def owners(self, what: str, view: BoundLeg) -> list[str]:
        """Names of the owners of the entries in a view, without repetition; "" where an entry has none."""
        owners = self._owners.get((what, view.leg.tensor))
        if owners is None:
            return [""]
        found = torch.unique(owners[view.positions().reshape(-1)]).tolist()
        return ["" if k < 0 else self._names[k] for k in found]

    def _flat(self, what: str, tensor: str) -> Tensor:
        size = torch.Size(self._shapes[tensor]).numel()
        return self._owners.setdefault((what, tensor), torch.full((size,), -1, dtype=torch.int32))

    def _refuse_clash(self, block: str, view: BoundLeg, what: str) -> None:
        owners = [owner for owner in self.owners(what, view) if owner]
        if owners:
            raise BlockError(
                f"block {block!r}: entries of {view.leg.tensor!r} already belong to {' and '.join(map(repr, owners[:3]))}; "
                "an entry can be moved by one block only"
            )


def _views(block: Block, shapes: Shapes) -> Iterable[tuple[str, BoundLeg]]:
    if not isinstance(block, ShiftBlock):
        for _, view in block.bound(shapes):
            yield view.leg.role, view
        return
    legs, weights = block.bound(shapes)
    for k, view in enumerate(legs):
        yield "follower" if k else "shift", view
    for bias in dict.fromkeys(bias for _, bias in weights):
        yield "compensator", Leg(bias).bound(shapes, block.name)


def _refuse_own_overlap(block: str, views: Sequence[tuple[str, BoundLeg]]) -> None:
    for tensor in dict.fromkeys(view.leg.tensor for _, view in views):
        at = torch.cat([view.positions().reshape(-1) for _, view in views if view.leg.tensor == tensor])
        if len(torch.unique(at)) < len(at):
            raise BlockError(f"block {block!r}: two of its legs share entries of {tensor!r}")
