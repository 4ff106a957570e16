"""What the demo found, as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from quotientgeo.measures.result import SharpnessResult, plain

SCHEMA = 1
ROUNDING = 1e-6  # a relative change below this is called rounding


def relative_change(before: float, after: float) -> float:
    """(after - before) / before; NaN where there was nothing to compare with, before = 0."""
    return (after - before) / before if before else math.nan


@dataclass(frozen=True)
class SameFunction:
    """Two sets of weights, compared as functions on the held-out digits and on those measured.

    logit_difference: largest change of an output; logit_size: largest output. loss: mean cross-entropy on the measured digits;
    accuracy: share of held-out digits read right; each (before, after). weight_change: |w' - w| / |w| over all weights in blocks.
    """

    logit_difference: float
    logit_size: float
    loss: tuple[float, float]
    accuracy: tuple[float, float]
    held_out: int
    weight_change: float

    @property
    def loss_change(self) -> float:
        """Relative change of the loss; NaN where it is 0."""
        return relative_change(*self.loss)

    @property
    def accuracy_change(self) -> float:
        """Relative change of the accuracy; NaN where it is 0."""
        return relative_change(*self.accuracy)


@dataclass(frozen=True)
class Comparison:
    """One measure at the stored weights and at the moved ones."""

    key: str
    name: str
    before: SharpnessResult
    after: SharpnessResult

    @property
    def title(self) -> str:
        return titled(self.name)

    @property
    def change(self) -> float:
        """Relative change of the value; NaN where one of them is a named outcome, or the first is 0."""
        return relative_change(self.before.value, self.after.value) if self.ok else math.nan

    @property
    def ok(self) -> bool:
        return self.before.ok and self.after.ok


def titled(name: str) -> str:
    """A measure's name as it stands in a sentence: "geodesic sharpness, mixed metric"."""
    kind, comma, metric = name.partition(",")
    return f"{kind} sharpness{comma}{metric}"


@dataclass(frozen=True)
class SweepPoint:
    """A measure on the first batch after a move: value, and the value at the stored weights; NaN for a named outcome."""

    key: str
    condition: float
    seed: int
    value: float
    reference: float

    @property
    def ratio(self) -> float:
        """Value after the move / value before it."""
        return 1 + relative_change(self.reference, self.value)


@dataclass(frozen=True)
class Pictured:
    """What the first figure shows: one head's query weights (h, d) and the outputs (images, classes), before and after."""

    head: str
    weights: tuple[np.ndarray, np.ndarray]
    logits: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class DemoResult:
    """All of it. settings: of the run; model: counts of its parameters and blocks; verification: as in a SharpnessResult."""

    settings: dict[str, Any]
    model: dict[str, Any]
    verification: dict[str, Any]
    same: SameFunction
    comparisons: tuple[Comparison, ...]
    sweep: tuple[SweepPoint, ...]
    pictured: Pictured
    moved_state: Mapping[str, Any]
    seconds: float

    @property
    def ok(self) -> bool:
        """Every measure, and the loss, has a value that can be compared, and geodesic sharpness changed by rounding only."""
        known = all(math.isfinite(change) for change in (self.same.loss_change, *(c.change for c in self.comparisons)))
        return known and all(abs(c.change) <= ROUNDING for c in self.comparisons if c.key != "adaptive")

    def to_dict(self) -> dict[str, Any]:
        """The numbers, without traces and pictures; a number that is not finite becomes None."""
        measures = [
            {"key": c.key, "name": c.name, "before": c.before.value, "after": c.after.value, "change": c.change}
            | {"outcomes": [c.before.outcome, c.after.outcome], "definitions": c.before.definitions}
            for c in self.comparisons
        ]
        found = {"schema": SCHEMA, "settings": self.settings, "model": self.model, "verification": self.verification}
        found |= {"same_function": asdict(self.same), "measures": measures, "seconds": self.seconds, "ok": self.ok}
        return plain(found | {"sweep": [asdict(point) for point in self.sweep]})

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True, allow_nan=False)
