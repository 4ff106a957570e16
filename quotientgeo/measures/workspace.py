"""The parameters at a moving z and the gradient there, in buffers made once: what an ascent evaluates, thousands of times.

``Atlas.parameters`` is the same map as fresh tensors, differentiable as often as one likes; here it is written in place, and
gradients are pulled back to z by hand. Charts give the parts: each a ``Mover`` for its own stretch of z.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

Parameters = dict[str, Tensor]
Gradients = Mapping[str, Tensor | None]


class Mover(Protocol):
    """One chart in place. ``pull`` belongs to the last ``move``."""

    @property
    def names(self) -> Sequence[str]:
        """The parameters that it moves."""

    def move(self, z: Tensor, parameters: Parameters) -> Parameters:
        """``parameters`` with the moved ones replaced, by views of buffers that the next move overwrites."""

    def pull(self, gradients: Gradients, out: Tensor) -> None:
        """Write dL/dz into ``out`` (d,) from the gradients by parameter; None is a gradient of zero."""


class Workspace:
    """Movers joined over one flat z, as an ``Atlas`` joins charts; ``order`` is that in which they write."""

    def __init__(
        self, movers: Sequence[Mover], dimensions: Sequence[int], base: Parameters, order: Sequence[int]
    ) -> None:
        self._movers, self._dimensions, self._base, self._order = tuple(movers), tuple(dimensions), base, tuple(order)
        self._gradient: Tensor | None = None
        names = [set(self._movers[i].names) for i in self._order]
        self._last = [
            own.difference(*names[k + 1 :]) for k, own in enumerate(names)
        ]  # whose gradients nobody reads later
        self.names = frozenset(name for mover in movers for name in mover.names)

    def move(self, z: Tensor) -> Parameters:
        """Every parameter of the model at z. Two movers may own parts of one tensor: each replaces its own entries."""
        parameters, pieces = dict(self._base), z.split(self._dimensions)
        for i in self._order:
            parameters = self._movers[i].move(pieces[i], parameters)
        return parameters

    def pull(self, gradients: dict[str, Tensor | None]) -> Tensor:
        """dL/dz (d,) at the last z, in a buffer that the next call overwrites.

        ``gradients`` is emptied on the way: no more of them stay in memory than are still wanted.
        """
        if self._gradient is None:
            like = next(tensor for tensor in self._base.values() if tensor.is_floating_point())
            self._gradient = torch.zeros(sum(self._dimensions), dtype=like.dtype, device=like.device)
        pieces = self._gradient.split(self._dimensions)
        for i, last in zip(self._order, self._last, strict=True):
            self._movers[i].pull(gradients, pieces[i])
            for name in last:
                gradients.pop(name, None)
        return self._gradient
