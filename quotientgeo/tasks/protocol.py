"""The three things that a measure has to be told about a checkpoint."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

Batch = Any


class Task(Protocol):
    """A loss and its data. For each checkpoint ``load`` is called first, then ``batches``, each once."""

    @property
    def definitions(self) -> dict[str, Any]:
        """What a result has to say about the task: its name or file with its digest, and how the data is read."""
        ...

    @property
    def notes(self) -> list[str]:
        """What of the data was not used as it stands, after ``batches``."""
        ...

    def load(self, checkpoint: str) -> nn.Module:
        """The model of this checkpoint, in evaluation mode."""
        ...

    def batches(self, data: str) -> list[Batch]:
        """The fixed sample: the same batches in the same order on every call."""
        ...

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor] | Tensor:
        """``(sum, count)`` over the batch, or a mean scalar; only the first kind can be split into micro-batches."""
        ...
