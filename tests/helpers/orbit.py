"""The orbit table: one function, many parameter points; which measures can tell them apart?"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import quotientgeo as qg

GEODESIC = [
    {"measure": "geodesic", "metric": metric, "geodesic": geodesic}
    for metric in ("invariant", "mixed")
    for geodesic in ("exact", 2)
]
CONTROLS = [{"measure": "adaptive"}, {"measure": "euclidean"}]


@dataclass(frozen=True)
class Row:
    """One measure at one radius: its value at the given weights, and the relative change at each condition."""

    dtype: str
    what: str
    rho: float
    value: float
    loss: float
    changes: dict[float, float]

    def __str__(self) -> str:
        moved = "  ".join(f"{condition:g}: {change:.1e}" for condition, change in self.changes.items())
        return f"{self.dtype:8} {self.what:28} rho {self.rho:<5g} S {self.value:.8e}  {moved}"


def moved_copy(model: nn.Module, seed: int, condition: float) -> nn.Module:
    """The same function elsewhere on its orbit."""
    moved = copy.deepcopy(model)
    moved.load_state_dict(qg.symmetry_graph(model).move(seed=seed, condition=condition))
    return moved


def orbit_table(
    model: nn.Module,
    loss: Any,
    batches: Sequence[Any],
    *,
    dtype: torch.dtype,
    measures: Sequence[dict[str, Any]],
    rhos: Sequence[float],
    conditions: Sequence[float],
    steps: int,
    starts: int = 1,
) -> list[Row]:
    model = copy.deepcopy(model).to(dtype)
    points = {condition: moved_copy(model, seed=7, condition=condition) for condition in conditions}
    rows = []
    for rho in rhos:
        for settings in measures:
            budget = {"rho": rho, "steps": steps, "starts": starts, "seed": 3}
            here = qg.sharpness(model, loss, batches, **settings, **budget)
            assert here.ok, here.detail
            changes = {}
            for condition, point in points.items():
                there = qg.sharpness(point, loss, batches, **settings, **budget)
                assert there.ok, there.detail
                changes[condition] = abs(there.value - here.value) / here.value
            what = " ".join(str(value) for value in settings.values())
            reference = sum(b.loss for b in here.batches) / len(here.batches)
            rows.append(Row(str(dtype).removeprefix("torch."), what, rho, here.value, reference, changes))
            print(rows[-1])
    return rows


def check_float32(rows: list[Row]) -> None:
    """Constant on orbits, up to the rounding of the loss and of weights that moved."""
    for row in rows:
        allowed = 1e-4 * row.value + 8 * torch.finfo(torch.float32).eps * row.loss
        assert row.changes[10] * row.value <= allowed, str(row)
