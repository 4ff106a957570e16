"""Results that cannot be written, and files that are not left behind where there is no result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quotientgeo.cli.main import app
from quotientgeo.demo import CHECKPOINT
from tests.cli.test_sharpness import TASK

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    options = ("--symmetries", "none", "--steps", "2", "--task", "task.py", "--data", "d")
    return CliRunner().invoke(app, ["sharpness", *arguments, *options])


def test_out_leaves_no_empty_file_where_there_is_no_result(place: Path) -> None:
    assert run("broken", "--out", "new.jsonl").exit_code == 2
    assert not (place / "new.jsonl").exists()
    (place / "old.jsonl").write_text("kept\n")
    assert run("broken", "--out", "old.jsonl").exit_code == 2
    assert (place / "old.jsonl").read_text() == "kept\n"


@needs_full
@pytest.mark.parametrize("json", [False, True])
def test_a_full_disk_is_one_line_and_the_value_is_still_shown(place: Path, json: bool) -> None:
    done = run("a", "--out", "/dev/full", *(["--json"] if json else []))
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(
        "Error: Invalid value for '--out': cannot append to /dev/full: No space left on device"
    )
    assert ('"value":' if json else "sharpness") in done.stdout


@needs_full
@pytest.mark.parametrize(
    "arguments", [["--version"], ["inspect", str(CHECKPOINT)], ["inspect", str(CHECKPOINT), "--json"]]
)
def test_a_full_stdout_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    command = [sys.executable, "-c", "from quotientgeo.cli.main import main; main()", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == "Error: cannot write to stdout: No space left on device"
    assert "Traceback" not in done.stderr
