"""Legs that lie regularly in one parameter, as views: narrow, unflatten and movedim instead of a gather."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quotientgeo.model.legs import BoundLeg


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


def regular_view(legs: Sequence[BoundLeg]) -> RunView | LeadView | None:
    """The view of legs that are evenly spaced runs of one axis (or of consecutive leads), None where they are not."""
    first, width = legs[0], len(legs[0].indices)
    starts = [leg.indices[0] for leg in legs]
    if first.axis is None or any(leg.kept is not None for leg in legs):
        return None
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
