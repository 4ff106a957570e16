"""The run: what it finds, how it is told, and that a wrong move would not pass."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import quotientgeo as qg
from quotientgeo.cli.main import app
from quotientgeo.demo import DemoResult, Loaded, Settings, write_demo
from quotientgeo.demo.experiment import MEASURES, compare, moved_model
from quotientgeo.demo.files import render_page
from quotientgeo.demo.outcome import relative_change
from quotientgeo.errors import ArgumentError, SymmetryError
from quotientgeo.measures.result import SharpnessResult
from tests.demo.conftest import QUICK


def test_the_function_is_the_same_and_the_weights_are_not(loaded: Loaded, result: DemoResult) -> None:
    same = result.same
    assert 0 < same.logit_difference < 1e-12 * same.logit_size
    assert same.loss[1] == pytest.approx(same.loss[0], rel=1e-10)
    assert same.accuracy[0] == same.accuracy[1] > 0.95
    assert same.weight_change > 0.5
    unmoved, _ = compare(loaded, loaded.model)
    assert unmoved.weight_change == unmoved.logit_difference == 0


def test_adaptive_changes_and_geodesic_does_not(result: DemoResult) -> None:
    changes = {c.key: c.change for c in result.comparisons}
    assert abs(changes["adaptive"]) > 0.05
    assert abs(changes["invariant"]) < 1e-8
    assert abs(changes["mixed"]) < 1e-8
    assert result.ok


def test_the_values_are_those_of_the_public_function(loaded: Loaded, result: DemoResult) -> None:
    for (_, _, arguments), comparison in zip(MEASURES, result.comparisons, strict=True):
        again = qg.sharpness(loaded.model, loaded.task.loss, loaded.batches, **arguments, rho=0.1, steps=1)
        assert again.value == comparison.before.value


def test_the_sweep_holds_every_move_once_and_takes_the_shown_one_from_the_table(result: DemoResult) -> None:
    assert len(result.sweep) == len({(p.key, p.condition, p.seed) for p in result.sweep}) == 3 * 3
    for point in result.sweep:
        known = next(c for c in result.comparisons if c.key == point.key)
        assert point.reference == known.before.per_batch[0]
        if (point.condition, point.seed) == QUICK.shown:
            assert point.value == known.after.per_batch[0]
        if point.key == "adaptive":
            assert abs(point.ratio - 1) > 1e-3
        else:
            assert abs(point.ratio - 1) < 1e-8
    drift = [p.ratio for p in result.sweep if p.key == "adaptive"]
    assert drift[-1] > 10 * drift[0]


def test_progress_counts_every_step_once(result: DemoResult, events: list[tuple[str, int, int]]) -> None:
    done = [event[1] for event in events]
    assert done == sorted(done)
    assert {event[2] for event in events} == {done[-1]} == {3 * (2 * 4 + 2)}


def test_results_say_what_was_loaded_not_what_it_was_converted_to(loaded: Loaded, result: DemoResult) -> None:
    stored = qg.load_checkpoint(Path(__file__).parents[2] / "quotientgeo" / "demo" / "shipped" / "digits-vit")
    from quotientgeo.model.checkpoint import model_digest

    d = result.comparisons[1].before.definitions
    assert d["model_digest"] == model_digest(stored) != model_digest(loaded.model)
    assert d["converted_to"] == "float64"
    after = result.comparisons[1].after.definitions
    assert after["model_digest"] != d["model_digest"]
    assert (after["stored_dtypes"], d["stored_dtypes"]) == (["float64"], ["float32"])


def test_a_move_that_changes_the_function_is_refused(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    real = loaded.graph.move

    def wrong(**options: object) -> dict[str, object]:
        state = real(**options)
        state["classifier.weight"] = 1.001 * state["classifier.weight"]
        return state

    moved_model(loaded, 10.0, 0)
    monkeypatch.setattr(loaded.graph, "move", wrong)
    with pytest.raises(SymmetryError, match="condition 10 and seed 0 changes the outputs"):
        moved_model(loaded, 10.0, 0)


@pytest.mark.parametrize(
    "wrong",
    [{"rho": 0.0}, {"rho": math.nan}, {"steps": 0}, {"seeds": 0}, {"seed": -1}, {"condition": 0.5}, {"conditions": (math.inf,)}],
)  # fmt: skip
def test_wrong_settings_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=r"rho|steps|seed|condition"):
        Settings(**wrong)  # type: ignore[arg-type]


def with_outcome(result: DemoResult) -> DemoResult:
    """The result as it would be where the mixed measure has no value after the move."""
    mixed = result.comparisons[2]
    lost = replace(mixed.after, value=math.nan, outcome="geodesic_collapsed", detail="somewhere", batches=[])
    points = tuple(replace(p, value=math.nan) if p.key == "mixed" else p for p in result.sweep)
    return replace(result, comparisons=(*result.comparisons[:2], replace(mixed, after=lost)), sweep=points)


def test_an_outcome_without_a_value_is_no_success(result: DemoResult) -> None:
    lost = with_outcome(result)
    assert not lost.ok
    assert math.isnan(lost.comparisons[2].change)
    assert json.loads(lost.to_json())["measures"][2]["after"] is None


def test_a_geodesic_change_beyond_rounding_is_no_success(result: DemoResult) -> None:
    one = result.comparisons[1]
    grown = replace(one, after=replace(one.after, value=1.001 * one.after.value))
    assert not replace(result, comparisons=(result.comparisons[0], grown, result.comparisons[2])).ok


def test_a_change_is_relative_to_something() -> None:
    assert relative_change(2.0, 3.0) == 0.5
    assert relative_change(-2.0, -3.0) == 0.5
    assert math.isnan(relative_change(0.0, 0.0))
    assert math.isnan(relative_change(0.0, 1.0))


def with_zero(result: DemoResult) -> DemoResult:
    """The result as it would be at a radius so small that no loss changes by it."""
    none = [
        replace(c, before=replace(c.before, value=0.0), after=replace(c.after, value=0.0)) for c in result.comparisons
    ]
    return replace(
        result, comparisons=tuple(none), sweep=tuple(replace(p, value=0.0, reference=0.0) for p in result.sweep)
    )


def test_values_and_losses_of_zero_are_no_success(result: DemoResult) -> None:
    zero = with_zero(result)
    only_adaptive = replace(result, comparisons=(zero.comparisons[0], *result.comparisons[1:]))
    no_loss = replace(result, same=replace(result.same, loss=(0.0, 0.0)))
    for poor in (zero, only_adaptive, no_loss):
        assert not poor.ok
        assert "no value or is 0" in render_page(poor, "<svg/>")
    assert all(math.isnan(point.ratio) for point in zero.sweep)
    assert json.loads(zero.to_json())["measures"][0]["change"] is None


class TestCommand:
    @pytest.fixture
    def quick(self, result: DemoResult, loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
        """The command without its half minute of work; the settings that it asked for."""
        asked: list[Settings] = []

        def run(loaded: object, verified: object, settings: Settings, progress: object) -> DemoResult:
            asked.append(settings)
            assert torch.get_num_threads() == 1
            progress("measuring", 1, 2)  # type: ignore[operator]
            return result

        monkeypatch.setattr("quotientgeo.demo.run_demo", run)
        monkeypatch.setattr("quotientgeo.demo.load_demo", lambda: loaded)
        return asked

    def test_it_prints_a_table_and_writes_a_folder(self, quick, result, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        done = CliRunner().invoke(app, ["demo"])
        assert done.exit_code == 0, done.output
        assert quick == [Settings()]
        for words in (
            "attention_qk",
            "all 64 symmetries hold",
            "adaptive sharpness",
            "geodesic sharpness, mixed metric",
        ):
            assert words in done.stdout
        for comparison in result.comparisons:
            assert f"{comparison.before.value:.6g}" in done.stdout
        assert [line for line in done.stdout.splitlines() if f" {result.comparisons[0].change:+.2g} " in line]
        assert "%" not in done.stdout.split("geodesic sharpness, invariant metric")[1].splitlines()[0]
        assert " 50 %  measuring" in done.stderr
        files = {"index.html", "figure.png", "demo.json", "results.jsonl", "README.md"}
        folders = {"digits-vit", "digits-vit-moved", "digits", "held-out"}
        assert {p.name for p in (tmp_path / "quotientgeo-demo").iterdir()} == files | folders

    def test_it_works_on_one_thread_and_puts_the_number_back(self, quick, tmp_path) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(before + 1)
        try:
            assert CliRunner().invoke(app, ["demo", "--out", str(tmp_path)]).exit_code == 0
            assert torch.get_num_threads() == before + 1
        finally:
            torch.set_num_threads(before)

    def test_json_is_one_line_and_again_into_the_same_folder(self, quick, result, tmp_path) -> None:
        options = ["--rho", "0.2", "--steps", "3", "--seed", "4", "--seeds", "5", "--condition", "7"]
        for _ in range(2):
            done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--json", *options])
            assert done.exit_code == 0, done.output
            found = json.loads(done.stdout)
        assert quick[1] == Settings(rho=0.2, steps=3, seed=4, seeds=5, condition=7.0)
        assert found == json.loads((tmp_path / "demo.json").read_text()) == result.to_dict()

    def test_exit_code_3_where_a_measure_has_no_value(self, quick, result, tmp_path, monkeypatch) -> None:
        monkeypatch.setattr("quotientgeo.demo.run_demo", lambda *a, **k: with_outcome(result))
        done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
        assert done.exit_code == 3
        assert "geodesic_collapsed: somewhere" in done.stdout

    def test_exit_code_3_where_a_value_is_zero(self, quick, result, tmp_path, monkeypatch) -> None:
        monkeypatch.setattr("quotientgeo.demo.run_demo", lambda *a, **k: with_zero(result))
        done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
        assert done.exit_code == 3, done.output
        assert "adaptive sharpness is 0 before the move" in done.stdout
        assert "nan" not in done.stdout
        assert (tmp_path / "figure.png").is_file()

    @pytest.mark.parametrize(
        "wrong", [["--rho", "0"], ["--rho", "nan"], ["--condition", "0.5"], ["--condition", "inf"], ["--seeds", "0"]]
    )
    def test_wrong_options_are_one_line(self, wrong, tmp_path) -> None:
        done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), *wrong])
        assert done.exit_code == 2
        assert done.stderr.count("\n") == 1

    def test_a_folder_that_cannot_be_written_is_told_before_the_work(self, tmp_path) -> None:
        (tmp_path / "file").write_text("")
        done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file" / "inside")])
        assert done.exit_code == 2
        assert "cannot be written" in done.stderr
        assert done.stderr.count("\n") == 1


def test_the_written_checkpoints_and_results_can_be_used(loaded: Loaded, result: DemoResult, tmp_path: Path) -> None:
    from quotientgeo.tasks import difference

    write_demo(result, loaded, tmp_path)
    moved = qg.load_checkpoint(tmp_path / "digits-vit-moved")
    first = {"pixel_values": loaded.batches[0]["pixel_values"]}
    assert 0 < difference(loaded.model, moved, first) < 1e-11  # in float64, as it was measured
    assert all(torch.equal(tensor, result.moved_state[name]) for name, tensor in moved.state_dict().items())
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    again = [SharpnessResult.from_json(line) for line in lines]
    assert [r.value for r in again] == [one.value for c in result.comparisons for one in (c.before, c.after)]
    assert [r.definitions["checkpoint"] for r in again] == ["digits-vit", "digits-vit-moved"] * 3
