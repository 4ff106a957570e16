"""No symmetry enters a measure unless it held on this model, on this data."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from quotientgeo.geometry.gauge import canonical_frames, rank_resolution
from quotientgeo.measures.batches import Batch, examples, spread
from quotientgeo.measures.call import Call
from quotientgeo.measures.objective import Loss
from quotientgeo.measures.problem import raised, working_dtype
from quotientgeo.model.graph import SymmetryGraph
from quotientgeo.model.stacks import PairStack
from quotientgeo.model.verify import MOST_LISTED, confirmed

# a test in float64 costs more than a step of the ascent: so few examples of so few batches, from everywhere in the sample
EXAMPLES = 8
BATCHES = 3


@dataclass(frozen=True)
class Verified:
    """Names of blocks that failed, each with its reason; and a summary for the result."""

    excluded: dict[str, str] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)


def verify_before_use(graph: SymmetryGraph, loss: Loss | None, sample: Sequence[Batch], call: Call) -> Verified:
    """Run ``graph.verify`` on examples of the first batch, in float64, comparing everything the model returns to the loss; what
    held, or could not be told there, is tested again on examples of further batches.

    A failing symmetry raises SymmetryError, or with ``unverified="exclude"`` is warned of and named, with its residual. Blocks
    that could not be told because they have lost rank raise RankDeficientError.
    """
    forward = None if loss is None else _outputs(loss)
    first, *others = (examples(sample[i], EXAMPLES) for i in spread(len(sample), BATCHES))
    report = graph.verify(first, forward, allow_training_mode=call.allow_training_mode)
    for batch in others:
        report = confirmed(report, graph, batch, forward, allow_training_mode=call.allow_training_mode)
    if call.unverified == "refuse":
        if not report.with_status("failed"):
            _require_rank(graph, {entry.name for entry in report.with_status("inconclusive")})
        report.require()
    excluded = report.failures()
    if excluded:
        listed = [f"{name}: {reason}" for name, reason in list(excluded.items())[:MOST_LISTED]]
        listed += (
            [f"and {len(excluded) - MOST_LISTED} more (all are in the result)"] if len(excluded) > MOST_LISTED else []
        )
        warnings.warn(
            "declared symmetries that do not hold on this model, or that this batch cannot test, are left out: "
            + "; ".join([*listed, *report.hints]),
            stacklevel=4,
        )
    return Verified(excluded, report.summary())


def _require_rank(graph: SymmetryGraph, names: Collection[str]) -> None:
    """``RankDeficientError`` naming those of the blocks that have lost rank: no batch could tell anything about a dead head."""
    dtype = working_dtype(graph.model)[0]
    for stack in graph.stacks():
        if not isinstance(stack, PairStack):
            continue  # the metric of a declared geometry says so itself
        at = [i for i, block in enumerate(stack.blocks) if block.name in names]
        if at:
            G, H = (factor[at] for factor in stack.read(raised(dict(graph.parameters), torch.float64)))
            tolerance = rank_resolution(stack.n, stack.m, torch.finfo(dtype).eps)  # as the measure will judge it
            canonical_frames(G, H, rank_tolerance=tolerance, names=[stack.blocks[i].name for i in at])


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
