"""``quotientgeo sharpness``: what goes in, what comes out where, and how it ends."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner, Result

import quotientgeo
from quotientgeo.cli import sharpness as command
from quotientgeo.cli.display import Progress
from quotientgeo.cli.main import app
from quotientgeo.errors import ModeError, SymmetryError
from quotientgeo.measures.call import GEODESICS, MEASURES, METRICS, SYMMETRIES, UNVERIFIED
from quotientgeo.measures.evaluate import sharpness as real_sharpness
from quotientgeo.measures.result import BatchResult, SharpnessResult
from tests.helpers.trained import EXAMPLES, REACTIONS, trained

TASK = """
import torch

def load(checkpoint):
    if checkpoint == "broken":
        raise OSError("no such checkpoint")
    torch.manual_seed(len(checkpoint))
    return torch.nn.Linear(3, 1).eval()

def batches(data):
    rows = torch.arange(12.0).reshape(4, 3) / 10
    return [rows[:2], rows[2:]]

def loss(model, batch):
    return model(batch).square().sum(), torch.tensor(len(batch))
"""

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command with the task above, in an empty folder."""
    (tmp_path / "task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, task: str = "task.py") -> Result:
        return CliRunner().invoke(app, ["sharpness", *arguments, "--task", task, "--data", "d"])

    return invoke


def fake(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]) -> None:
    monkeypatch.setitem(quotientgeo.__dict__, "sharpness", function)


def a_result(outcome: str = "ok", detail: str = "", **more: Any) -> SharpnessResult:
    ok = outcome == "ok"
    known = {"measure": "geodesic", "metric": "mixed", "geodesic": 2, "rho": 0.25, "steps": 7, "starts": 3, "seed": 1}
    known |= {"symmetries": "attention", "batches": 1, "examples_per_batch": 4, "dtype": "float64"}
    batch = BatchResult(0.125, 2.0, 2.125, 0.25, 0, 7, [[2.0, 2.125]], 1e-12)
    return SharpnessResult(
        value=0.125 if ok else math.nan,
        outcome=outcome,
        detail=detail,
        batches=[batch] if ok else [],
        per_block={},
        definitions=known,
        seconds=1.5,
        **more,
    )


# --- the whole way, with the real measure on a small model ---


def test_each_checkpoint_is_a_row_and_progress_goes_to_stderr(run: Run) -> None:
    done = run("short", "longer", "--measure", "euclidean", "--steps", "3")
    assert done.exit_code == 0, done.output
    torch.manual_seed(5)
    model = torch.nn.Linear(3, 1).eval()
    rows = torch.arange(12.0).reshape(4, 3) / 10
    value = real_sharpness(
        model, lambda m, b: (m(b).square().sum(), torch.tensor(2)), [rows[:2], rows[2:]], measure="euclidean", steps=3
    ).value
    (row,) = [line for line in done.stdout.splitlines() if "short" in line]
    assert f"{value:.6g}" in row
    assert "longer" in done.stdout
    words = "euclidean sharpness; symmetries none; rho 0.05; 3 steps from 1 start(s), seed 0; 2 batch(es) of 2 examples; float32"
    assert words in done.stdout.splitlines()
    assert done.stderr.splitlines() == [
        f"{name}: {text}"
        for name in ("short", "longer")
        for text in ("loading and verifying", "batch 1/2, start 1/1, step 3/3", "batch 2/2, start 1/1, step 3/3")
    ]
    assert "\x1b" not in done.output


def test_json_lines_are_all_of_stdout_and_can_be_read_back(run: Run) -> None:
    done = run("a", "bc", "--measure", "adaptive", "--steps", "2", "--json", "--dtype", "float64")
    assert done.exit_code == 0, done.output
    results = [SharpnessResult.from_json(line) for line in done.stdout.splitlines()]
    assert [r.definitions["checkpoint"] for r in results] == ["a", "bc"]
    for result in results:
        assert result.ok
        assert result.value > 0
        assert result.definitions["dtype"] == "float64"
        assert (result.definitions["task"], result.definitions["data"]) == ("task.py", "d")
        assert result.definitions["task_digest"] == hashlib.sha256(TASK.encode()).hexdigest()


def test_out_appends_one_line_for_each_checkpoint(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    for checkpoints in (["a"], ["a", "b"]):
        assert run(*checkpoints, "--measure", "euclidean", "--steps", "1", "--out", str(out)).exit_code == 0
    lines = out.read_text().splitlines()
    assert [json.loads(line)["definitions"]["checkpoint"] for line in lines] == ["a", "a", "b"]
    first, again, _ = (SharpnessResult.from_json(line) for line in lines)
    assert first.value == again.value


def test_micro_batches_leave_the_value_alone(run: Run) -> None:
    whole, split = (
        SharpnessResult.from_json(run("a", "--measure", "euclidean", "--json", "--dtype", "float64", *more).stdout)
        for more in ((), ("--micro-batch-size", "1"))
    )
    assert split.value == pytest.approx(whole.value, rel=1e-12)
    assert split.definitions["micro_batch_size"] == 1


# --- options ---


def test_the_defaults_are_those_of_the_python_function() -> None:
    theirs = inspect.signature(real_sharpness).parameters
    for name, parameter in inspect.signature(command.sharpness).parameters.items():
        if name in theirs:
            assert parameter.default == theirs[name].default, name
    absent = set(theirs) - set(inspect.signature(command.sharpness).parameters)
    added = {"checkpoints", "task", "data", "dtype", "out", "json"}
    added |= {"batch_size", "limit", "max_length", "text_column", "label_column"}
    assert set(inspect.signature(command.sharpness).parameters) - set(theirs) == added
    assert absent == {"model", "loss", "batches", "graph", "progress", "allow_training_mode"}


def test_the_choices_are_those_of_the_python_function() -> None:
    hints = get_type_hints(command.sharpness)
    offered = {name: get_args(hints[name]) for name in ("measure", "metric", "geodesic", "symmetries", "unverified")}
    assert offered == {
        "measure": MEASURES,
        "metric": METRICS,
        "geodesic": tuple(map(str, GEODESICS)),
        "symmetries": SYMMETRIES,
        "unverified": UNVERIFIED,
    }


def test_every_option_reaches_the_measure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def spy(model: Any, loss: Any, batches: Any, **settings: Any) -> SharpnessResult:
        seen.update(settings, weight=model.weight.dtype, batches=batches)
        return a_result()

    fake(monkeypatch, spy)
    options = ["--measure", "adaptive", "--metric", "mixed", "--geodesic", "2", "--rho", "0.25", "--steps", "7"]
    options += ["--starts", "3", "--seed", "1", "--symmetries", "none", "--unverified", "exclude"]
    options += ["--micro-batch-size", "5", "--dtype", "float64"]
    assert run("a", *options).exit_code == 0
    assert callable(seen.pop("progress"))
    assert len(seen.pop("batches")) == 2
    assert seen == {
        "measure": "adaptive", "metric": "mixed", "geodesic": 2, "rho": 0.25, "steps": 7, "starts": 3, "seed": 1,
        "symmetries": "none", "unverified": "exclude", "micro_batch_size": 5, "weight": torch.float64,
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        ("--rho", "0"),
        ("--rho", "-1"),
        ("--rho", "nan"),
        ("--rho", "inf"),
        ("--steps", "0"),
        ("--starts", "0"),
        ("--seed", "-1"),
        ("--micro-batch-size", "0"),
        ("--measure", "geodesics"),
        ("--geodesic", "5"),
        ("--dtype", "float16"),
        ("--out", "no/such/folder/x.jsonl"),
        ("--out", "."),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_loaded(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, str]
) -> None:
    monkeypatch.setattr(command, "_measure", lambda *_: pytest.fail("went on"))
    done = run("a", *options)
    assert done.exit_code == 2
    assert f"Invalid value for '{options[0]}'" in done.stderr
    assert not done.stdout


# --- how it ends ---


@pytest.mark.parametrize(
    ("checkpoint", "task", "message"),
    [
        ("a", "nowhere.py", "TaskError: task file nowhere.py does not exist"),
        (
            "broken",
            "task.py",
            "TaskError: task.py: load('broken') failed: OSError: no such checkpoint (line 6 of task.py)",
        ),
    ],
)
def test_a_named_error_is_one_line_and_exit_code_2(run: Run, checkpoint: str, task: str, message: str) -> None:
    done = run(checkpoint, task=task)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(message)
    assert "Traceback" not in done.output
    assert not done.stdout


def test_an_error_of_many_lines_becomes_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> SharpnessResult:
        raise SymmetryError("layer 0:\n  residual 0.3\n  too large")

    fake(monkeypatch, refuse)
    done = run("a")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == "SymmetryError: layer 0: residual 0.3 too large"


def test_results_before_an_error_are_kept(run: Run, tmp_path: Path) -> None:
    done = run("a", "broken", "b", "--measure", "euclidean", "--steps", "1", "--out", "kept.jsonl")
    assert done.exit_code == 2
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 1
    assert "│ a " in done.stdout
    assert done.stderr.splitlines()[-1].startswith("TaskError")


def test_training_mode_is_an_error_with_its_remedy(run: Run, tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text(TASK.replace(".eval()", ""))
    done = run("a", "--measure", "euclidean", task="training.py")
    assert done.exit_code == 2
    assert ModeError.__name__ in done.stderr
    assert "model.eval()" in done.stderr


@pytest.mark.parametrize("json_lines", [False, True])
def test_an_outcome_without_a_value_is_printed_as_such_and_exit_code_3(
    run: Run, monkeypatch: pytest.MonkeyPatch, json_lines: bool
) -> None:
    found = iter([a_result("rank_deficient", "layer 3 head 1: [s_h/s_1 = 1e-18]"), a_result(notes=["near rounding"])])
    fake(monkeypatch, lambda *_, **__: next(found))
    done = run("x/bad", "x/good", *(["--json"] if json_lines else []))
    assert done.exit_code == 3
    if json_lines:
        bad, good = map(json.loads, done.stdout.splitlines())
        assert (bad["value"], bad["outcome"], good["value"]) == (None, "rank_deficient", 0.125)
        return
    rows = [line.split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row[1:-1]] for row in rows] == [
        ["bad", "rank_deficient", "", "1.5"],
        ["good", "0.125", "2", "1.5"],
    ]
    assert "bad: rank_deficient: layer 3 head 1: [s_h/s_1 = 1e-18]" in done.stdout
    assert "good: near rounding" in done.stdout
    assert "geodesic sharpness, mixed metric, order 2; symmetries attention; rho 0.25" in done.stdout


def test_what_was_verified_and_what_was_left_out_is_said_under_the_table(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    verification = {"symmetries": 9, "passed": 8, "residual": 2.25e-14}
    left_out = {f"tensor{i}": f"reason {i}" for i in range(7)}
    fake(monkeypatch, lambda *_, **__: a_result(verification=verification, left_out=left_out))
    lines = run("a").stdout.splitlines()
    assert "a: 8 of 9 declared symmetries hold on this model (outputs change by 2.2e-14 relative, at most)" in lines
    assert [line for line in lines if "left out" in line] == [
        *(f"a: left out: tensor{i}: reason {i}" for i in range(5)),
        "a: left out: 2 more (all are in the JSON)",
    ]


def test_a_non_finite_loss_is_an_outcome_of_the_real_measure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nan.py").write_text(TASK.replace("model(batch).square()", "(model(batch) * float('nan'))"))
    done = run("a", "--measure", "euclidean", task="nan.py")
    assert done.exit_code == 3
    assert "non_finite_loss" in done.stdout


def test_checkpoints_of_one_name_are_shown_with_their_folders(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, lambda *_, **__: a_result())
    assert "seed-1/model" in run("seed-1/model", "seed-2/model").stdout


def test_an_error_of_the_users_loss_is_one_line_with_its_place(run: Run, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(TASK.replace("model(batch).square()", "model(batch[:, :2]).square()"))
    done = run("a", "--measure", "euclidean", task="wrong.py")
    assert done.exit_code == 2
    words = "TaskError: wrong.py: loss(model, batch) failed: RuntimeError: mat1 and mat2 shapes cannot be multiplied"
    assert done.stderr.splitlines()[-1].startswith(words)
    assert done.stderr.splitlines()[-1].endswith("(line 15 of wrong.py)")


def test_the_digest_of_a_task_file_is_of_what_ran(run: Run, tmp_path: Path) -> None:
    """The file is edited while it is measured: the result names the text that was run."""
    (tmp_path / "task.py").write_text(TASK + "\nfrom pathlib import Path\nPath(__file__).write_text('edited')\n")
    text = (tmp_path / "task.py").read_bytes()
    done = run("a", "--measure", "euclidean", "--steps", "1", "--json")
    assert json.loads(done.stdout)["definitions"]["task_digest"] == hashlib.sha256(text).hexdigest()
    assert (tmp_path / "task.py").read_text() == "edited"


def test_a_conversion_keeps_the_digests_of_what_was_loaded(run: Run) -> None:
    plain, wide = (
        SharpnessResult.from_json(
            run("a", "--measure", "euclidean", "--steps", "1", "--json", *more).stdout
        ).definitions
        for more in ((), ("--dtype", "float64"))
    )
    assert (plain["dtype"], wide["dtype"]) == ("float32", "float64")
    for name in ("model_digest", "data_digest", "stored_dtypes"):
        assert plain[name] == wide[name], name
    assert wide["converted_to"] == "float64"
    assert "converted_to" not in plain


def test_an_interrupt_stops_at_once(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: Any, **__: Any) -> SharpnessResult:
        raise KeyboardInterrupt

    fake(monkeypatch, interrupted)
    done = run("a", "b", "--out", "out.jsonl")
    assert done.exit_code not in (0, 2, 3)
    assert not (tmp_path / "out.jsonl").exists()


# --- a trained model ---


@pytest.mark.real
def test_a_trained_albert_from_the_command_line(tmp_path: Path) -> None:
    """The README's command with 4 reactions and 2 steps: every symmetry holds, and the value lies above the loss's rounding."""
    text = (EXAMPLES / "masked_reactions.py").read_text()
    text = re.sub(r"^BATCH_SIZE = \d+", "BATCH_SIZE = 4", text, flags=re.MULTILINE)
    text = re.sub(r"^(MAX_BATCHES.*) = \d+", r"\1 = 1", text, flags=re.MULTILINE)
    task = tmp_path / "small.py"
    task.write_text(text)
    arguments = [trained("albert"), "--task", str(task), "--data", str(REACTIONS), "--steps", "2", "--json"]
    done = CliRunner().invoke(app, ["sharpness", *arguments])
    assert done.exit_code == 0, done.output
    result = SharpnessResult.from_json(done.stdout)
    assert (result.definitions["examples_per_batch"], result.definitions["batches"]) == (4, 1)
    assert result.verification["passed"] == result.verification["symmetries"] == 32
    assert result.batches[0].achieved_norm == pytest.approx(0.05, rel=1e-5)
    assert result.value > 1000 * result.batches[0].resolution
    shares = sum(share["norm_share"] for name, share in result.per_block.items() if name.endswith((".qk", ".vo")))
    assert 0.1 < shares < 1.0


# --- progress ---


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    screen = io.StringIO()
    with Progress("x/model", Console(file=screen, force_terminal=True, width=100)) as progress:
        for step in (1, 2):
            progress({"batch": 1, "batches": 2, "start": 0, "starts": 3, "step": step, "steps": 2})
        progress._bar.refresh()  # type: ignore[union-attr]
    shown = screen.getvalue()
    assert "model: batch 2/2, start 1/3" in shown
    assert "8/12" in shown
    assert shown.endswith("\x1b[2K")  # the line is erased at the end


def test_slow_starts_are_heard_of_before_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 10.0, 31.0, 31.0, 40.0, 62.0, 62.0])
    monkeypatch.setattr("quotientgeo.cli.display.time.monotonic", lambda: next(clock))
    screen = io.StringIO()
    with Progress("model", Console(file=screen)) as progress:
        for step in (1, 2, 3, 4):
            progress({"batch": 0, "batches": 1, "start": 0, "starts": 1, "step": step, "steps": 9})
    assert [line.split(", ")[-1] for line in screen.getvalue().splitlines()[1:]] == ["step 2/9", "step 4/9"]
