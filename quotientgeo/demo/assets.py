"""The checkpoint and the digits that come with the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from quotientgeo.model.graph import SymmetryGraph, symmetry_graph
from quotientgeo.model.verify import VerificationReport
from quotientgeo.tasks import CheckpointTask, DataOptions, converted, load_task

SHIPPED = Path(__file__).parent / "shipped"
CHECKPOINT = SHIPPED / "digits-vit"
DIGITS = SHIPPED / "digits"  # trained on: sharpness is measured on these
HELD_OUT = SHIPPED / "held-out"
BATCH_SIZE = 50  # five of each digit


@dataclass(frozen=True)
class Loaded:
    """The model and its data in float64. definitions: what results have to say about them, digests as stored included."""

    model: nn.Module
    graph: SymmetryGraph
    task: CheckpointTask
    batches: list[Any]
    held_out: list[Any]
    definitions: dict[str, Any]

    def verify(self) -> VerificationReport:
        """Every declared symmetry, on the first batch. Raises SymmetryError where one does not hold."""
        report = self.graph.verify({"pixel_values": self.batches[0]["pixel_values"]})
        report.require()
        return report


def load_demo() -> Loaded:
    """Load the shipped checkpoint as every other is loaded: strictly, by the image-classification task.

    Raises CheckpointError or DataError where transformers, datasets or pillow is missing, with the command that installs it.
    """
    task = load_task("image-classification", DataOptions(batch_size=BATCH_SIZE, limit=None))
    assert isinstance(task, CheckpointTask)
    model = task.load(str(CHECKPOINT))
    held_out = task.batches(str(HELD_OUT))
    batches = task.batches(str(DIGITS))
    about = task.definitions
    model, batches, before = converted(model, batches, torch.float64)
    held_out = [{**batch, "pixel_values": batch["pixel_values"].double()} for batch in held_out]
    return Loaded(model, symmetry_graph(model), task, batches, held_out, about | before)
