"""MiniLM, a BERT of 22.7 million parameters: the orbit table in float32, and the command on its example task.

`make test` takes few steps on few reviews; the slow variant has the full budget, and its output is the table that the project
reports.
"""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from quotientgeo.cli.main import app
from quotientgeo.tasks import FileTask, load_task
from tests.helpers.orbit import CONTROLS, GEODESIC, check_float32, orbit_table
from tests.helpers.trained import EXAMPLES, REVIEWS, trained

pytestmark = pytest.mark.real
TASK = EXAMPLES / "minilm_reviews.py"
MOVED = 0.02  # what the adaptive and the Euclidean measure change by at condition 10, at least
EXACT = [settings for settings in GEODESIC if settings["geodesic"] == "exact"]


def task_of(batch_size: int) -> FileTask:
    task = load_task(TASK)
    assert isinstance(task, FileTask)
    task.module.BATCH_SIZE, task.module.MAX_BATCHES = batch_size, 1
    return task


@pytest.fixture(scope="module")
def few():
    """Model, loss, and one batch of four reviews."""
    task = task_of(4)
    model = task.load(trained("minilm"))
    return model, task.loss, task.batches(str(REVIEWS))


@pytest.mark.parametrize("settings", EXACT, ids=lambda settings: settings["metric"])
def test_geodesic_sharpness_is_constant_on_orbits_in_float32(few, settings):
    rows = orbit_table(*few, dtype=torch.float32, measures=[settings], rhos=[0.3], conditions=[10], steps=2)
    assert all(
        row.value > 1e3 * torch.finfo(torch.float32).eps * row.loss for row in rows
    )  # the bound is not all noise
    check_float32(rows)


def test_adaptive_sharpness_is_not(few):
    (row,) = orbit_table(*few, dtype=torch.float32, measures=CONTROLS[:1], rhos=[0.3], conditions=[10], steps=2)
    assert row.changes[10] > MOVED, str(row)
    with pytest.raises(AssertionError):  # and the check of the test above would have noticed
        check_float32([row])


def test_the_command_measures_it_by_the_example_task(tmp_path):
    head, *rows = REVIEWS.read_text().splitlines()
    data = tmp_path / "reviews.csv"
    data.write_text("\n".join([head, *sorted(rows, key=len)[:4]]))
    command = ["sharpness", trained("minilm"), "--task", str(TASK), "--data", str(data), "--steps", "2", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["value"] > 0
    assert result["outcome"] == "ok"
    assert result["definitions"]["examples_per_batch"] == 4


@pytest.mark.slow
def test_the_whole_table():
    """20 steps, 16 reviews, both radii: the figures of the closing note."""
    task = task_of(16)
    model = task.load(trained("minilm"))
    batches = task.batches(str(REVIEWS))
    budget = {"dtype": torch.float32, "conditions": [10], "rhos": [0.05, 0.3], "steps": 20}
    check_float32(orbit_table(model, task.loss, batches, measures=GEODESIC, **budget))
    for row in orbit_table(model, task.loss, batches, measures=CONTROLS, **budget):
        assert row.changes[10] > MOVED, str(row)
