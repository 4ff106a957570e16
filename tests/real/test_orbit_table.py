"""The orbit table on two trained checkpoints: a 12-layer BERT and an ALBERT with shared layers, on real reactions.

`make test` runs it with few steps on few reactions; the slow variant has the full budget, and its output is the table that
the project reports.
"""

from __future__ import annotations

import pytest
import torch

from tests.helpers.orbit import CONTROLS, GEODESIC, Row, check_float32, orbit_table
from tests.helpers.trained import REACTIONS, reactions_task, trained

pytestmark = pytest.mark.real
KINDS = ("albert", "bert")
# of the model whose layers share their weights; of the other under slow
SMALLER = pytest.mark.parametrize("few", ["albert", pytest.param("bert", marks=pytest.mark.slow)], indirect=True)
INVARIANT_64 = 1e-8  # relative change that rounding may cause in float64
MOVED = 0.05  # what a measure that sees the gauge must change by, at least


def shortest(task, count: int, path) -> str:
    """The file's shortest reactions, written to ``path``."""
    lines = [line for line in REACTIONS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    path.write_text("\n".join(sorted(lines, key=len)[:count]))
    return str(path)


@pytest.fixture(scope="module", params=KINDS)
def few(request, tmp_path_factory):
    """Model, loss and one batch of three short reactions."""
    task = reactions_task(batch_size=3, batches=1)
    model = task.load(trained(request.param))
    return model, task.loss, task.batches(shortest(task, 3, tmp_path_factory.mktemp("data") / "few.smi"))


def check_float64(rows: list[Row]) -> None:
    for row in rows:
        assert max(row.changes.values()) <= INVARIANT_64, str(row)


def check_controls(rows: list[Row]) -> None:
    for row in rows:
        if row.what == "adaptive":
            assert row.changes[10] > MOVED, str(row)
        else:
            assert row.changes[1000] > MOVED, str(row)
            assert row.changes[1] <= INVARIANT_64, str(row)


@pytest.mark.parametrize("rho", [pytest.param(0.05, marks=pytest.mark.slow), 0.3])
def test_geodesic_sharpness_is_constant_on_orbits(few, rho):
    model, loss, batches = few
    check_float64(
        orbit_table(
            model, loss, batches, dtype=torch.float64, measures=GEODESIC, rhos=[rho], conditions=[1000], steps=2
        )
    )


@SMALLER
def test_adaptive_and_euclidean_sharpness_are_not(few):
    model, loss, batches = few
    check_controls(
        orbit_table(
            model, loss, batches, dtype=torch.float64, measures=CONTROLS, rhos=[0.05], conditions=[1, 10, 1000], steps=3
        )
    )


@SMALLER
def test_it_is_constant_in_float32_up_to_rounding(few):
    model, loss, batches = few
    check_float32(
        orbit_table(model, loss, batches, dtype=torch.float32, measures=GEODESIC, rhos=[0.3], conditions=[10], steps=4)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_table(kind):
    """20 steps, 8 reactions, both radii, three conditions: the figures of the closing note."""
    task = reactions_task(batch_size=8, batches=1)
    model = task.load(trained(kind))
    batches = task.batches(str(REACTIONS))
    budget = {"rhos": [0.05, 0.3], "steps": 20}
    double = {"dtype": torch.float64, "conditions": [1, 10, 1000], **budget}
    check_float64(orbit_table(model, task.loss, batches, measures=GEODESIC, **double))
    check_controls(orbit_table(model, task.loss, batches, measures=CONTROLS, **double))
    single = {"dtype": torch.float32, "conditions": [10], **budget}
    check_float32(orbit_table(model, task.loss, batches, measures=GEODESIC, **single))
