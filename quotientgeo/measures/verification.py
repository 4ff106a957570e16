"""No symmetry enters a measure unless it held on this model, on this data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from quotientgeo.measures.batches import Batch, examples
from quotientgeo.measures.call import Call
from quotientgeo.measures.objective import Loss
from quotientgeo.model.graph import SymmetryGraph

EXAMPLES = 8  # what a symmetry does not change on these it does not change on more


@dataclass(frozen=True)
class Verified:
    """Names of blocks that failed, each with its reason; and a summary for the result."""

    excluded: dict[str, str] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)


def verify_before_use(graph: SymmetryGraph, loss: Loss | None, batch: Batch, call: Call) -> Verified:
    """Run ``graph.verify`` on the first examples of a batch, in float64, comparing everything the model returns to the loss.

    A failing symmetry raises SymmetryError, or with ``unverified="exclude"`` is warned of and named, with its residual.
    """
    forward = None if loss is None else _outputs(loss)
    report = graph.verify(examples(batch, EXAMPLES), forward, allow_training_mode=call.allow_training_mode)
    if call.unverified == "refuse":
        report.require()
    excluded = report.failures()
    if excluded:
        listed = "; ".join(f"{name}: {reason}" for name, reason in excluded.items())
        warnings.warn(
            f"declared symmetries that do not hold on this model, or that this batch cannot test, are left out: {listed}",
            stacklevel=4,
        )
    return Verified(excluded, report.summary())


def _outputs(loss: Loss) -> Any:
    """A forward for ``verify``: all that the model returned while the loss was computed, and the loss."""

    def forward(model: nn.Module, batch: Batch) -> Iterable[Any]:
        captured: list[Any] = []
        handle = model.register_forward_hook(lambda _, __, output: captured.append(output))
        try:
            value = loss(model, batch)
        finally:
            handle.remove()
        return [*captured, value]

    return forward
