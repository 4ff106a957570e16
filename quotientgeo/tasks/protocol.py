"""The three things that a measure has to be told about a checkpoint."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

Batch = Any


class Task(Protocol):
    """A loss and its data. For each checkpoint ``load`` is called first, then ``batches``, each once."""

    def load(self, checkpoint: str) -> nn.Module:
        """The model of this checkpoint, in evaluation mode."""
        ...

    def batches(self, data: str) -> list[Batch]:
        """The fixed sample: the same batches in the same order on every call."""
        ...

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor] | Tensor:
        """``(sum, count)`` over the batch, or a mean scalar; only the first kind can be split into micro-batches."""
        ...
