"""How much outputs changed, entry by entry, on scales that no other entry can blow up.

A change is a number only relative to something. Relative to the largest entry, one logit of -1e9 or one count hides everything
else; relative to the entry itself, a loss of 1e-12 computed as the difference of two logits shows its rounding as a broken
symmetry. So the scale of an entry is the largest of

- its own size;
- the median size in its column (the same last index) of the entries that rounding moves: a constant, such as a mask, is nobody's
  scale, and an entry that is near zero by chance is measured like its neighbours;
- for a tensor of one entry, its rounding where it is a small difference of outputs: ALLOWED rounding errors of a typical entry
  of the smallest of the other tensors;
- its own rounding, seen by changing every weight in its last bits: a change within ALLOWED times that is within the tolerance.

Residuals and controls are divided by the same scales. So whatever the scales, a false symmetry, which changes the outputs about
as much as the motion of one side alone, never seems exact: it is at worst one that the batch cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Outputs = Mapping[str, Tensor]

TOLERANCE = 1e-9  # relative change of the outputs; exact symmetries show 1e-16 to 1e-13, broken ones 1e-4 and more
ALLOWED = (
    100.0  # times the rounding seen is still rounding: a group element of condition 10 rounds more than a last bit
)
LAST_BITS = 8 * torch.finfo(torch.float64).eps  # relative change of the weights that shows the rounding
_ROWS = 64  # entries of a column that a median is taken of


@dataclass(frozen=True)
class Scales:
    """Outputs at one point and the scale of each entry, positive where the entry has any.

    reference: the outputs. sizes: scales without rounding. scales: with it.
    """

    reference: dict[str, Tensor]
    sizes: dict[str, Tensor]
    scales: dict[str, Tensor]

    @classmethod
    def of(cls, reference: Outputs, rounding: Outputs) -> Scales:
        """``rounding``: absolute changes of the outputs (same names and shapes) under changes of the weights' last bits."""
        values = {name: _finite(tensor) for name, tensor in reference.items()}
        noise = {
            name: rounding[name] if _like(rounding, name, tensor) else 0 * tensor for name, tensor in values.items()
        }
        typical = {name: _typical(tensor, noise[name]) for name, tensor in values.items()}
        floors = [float(_median(t)) for name, t in typical.items() if t.numel() > 1]
        difference = (
            min((f for f in floors if f > 0), default=0.0) * ALLOWED * torch.finfo(torch.float64).eps / TOLERANCE
        )
        sizes, scales = {}, {}
        for name, value in values.items():
            own = torch.maximum(value.abs(), typical[name])
            sizes[name] = own.clamp_min(difference) if value.numel() == 1 else own
            rounds = torch.maximum(noise[name], _typical(noise[name], noise[name]))
            scales[name] = torch.maximum(sizes[name], rounds * (ALLOWED / TOLERANCE))
        return cls(dict(reference), sizes, scales)

    def change(self, outputs: Outputs, *, rounding: bool = True) -> float:
        """The largest change of an entry on its scale; infinite where names, shapes or non-finite entries differ.

        ``rounding=False``: on the scales that know of no rounding.
        """
        if outputs.keys() != self.reference.keys():
            return float("inf")
        worst = 0.0
        for name, reference in self.reference.items():
            distance = distances(outputs[name].detach(), reference)
            if distance is None:
                return float("inf")
            scale = (self.scales if rounding else self.sizes)[name]
            relative = torch.where(distance > 0, distance / scale, 0.0)  # a change of what has no scale is infinite
            worst = max(worst, float(relative.max()))
        return worst

    def combination(self, outputs: Outputs, generator: torch.Generator) -> Tensor:
        """A random sum of all finite entries, each divided by its scale, and each tensor by the root of its size: the gradient
        of it is a root mean square over entries, in the units of ``change``."""
        total = torch.zeros((), dtype=torch.float64)
        for name, tensor in outputs.items():
            weights = torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.device)
            scale = self.scales[name]
            used = torch.isfinite(tensor) & (scale > 0)
            if tensor.requires_grad:
                kept = torch.where(used, tensor, 0.0) / torch.where(scale > 0, scale, 1.0)
                total = total.to(tensor.device) + (weights * kept).sum() / tensor.numel() ** 0.5
        return total


def distances(outputs: Tensor, reference: Tensor) -> Tensor | None:
    """|difference| entry by entry, 0 where both are the same infinity; None where shapes or non-finite entries differ."""
    finite = torch.isfinite(reference)
    if outputs.shape != reference.shape or not torch.equal(torch.isfinite(outputs), finite):
        return None
    if not torch.equal(outputs[~finite], reference[~finite]):
        return None
    return torch.where(finite, outputs - reference, 0.0).abs()


def _like(outputs: Outputs, name: str, tensor: Tensor) -> bool:
    return name in outputs and outputs[name].shape == tensor.shape


def _finite(tensor: Tensor) -> Tensor:
    return torch.where(torch.isfinite(tensor), tensor, 0.0).detach()


def _typical(value: Tensor, noise: Tensor) -> Tensor:
    """Median of |value| over the entries that rounding moves, per column; 0 where there is none. Broadcast to the shape."""
    width = value.shape[-1] if value.ndim > 1 else 1
    rows, moving = value.abs().reshape(-1, width), noise.reshape(-1, width) > 0
    step = max(1, len(rows) // _ROWS)
    # by sorting: nanmedian is refused on a GPU where deterministic algorithms are asked for
    ordered = torch.where(moving, rows, torch.inf)[::step].sort(0).values
    middle = (moving[::step].sum(0, keepdim=True) - 1).clamp_min(0) // 2
    found = ordered.gather(0, middle)
    return torch.where(torch.isfinite(found), found, 0.0).expand(rows.shape).reshape(value.shape)


def _median(value: Tensor) -> Tensor:
    some = value.flatten()[:: max(1, value.numel() // _ROWS**2)].sort().values
    return some[(len(some) - 1) // 2]


def change(outputs: Outputs, reference: Outputs) -> float:
    """The largest change of an entry relative to itself or, where that is more, to the median of its column."""
    every = {name: torch.ones_like(tensor) for name, tensor in reference.items()}
    return Scales.of(reference, every).change(outputs, rounding=False)
