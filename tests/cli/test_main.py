"""The command line as a whole: version, help, and that each command says what it does."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest
from typer.testing import CliRunner

import quotientgeo
from quotientgeo.cli import main


def test_version() -> None:
    done = CliRunner().invoke(main.app, ["--version"])
    assert done.exit_code == 0
    assert done.stdout == f"quotientgeo {quotientgeo.__version__}\n"


def test_no_arguments_show_the_commands() -> None:
    done = CliRunner().invoke(main.app, [])
    assert "sharpness" in done.output
    assert "Measure checkpoints modulo the symmetries" in done.output


def test_help_names_every_option_and_the_exit_codes() -> None:
    done = CliRunner().invoke(main.app, ["sharpness", "--help"])
    assert done.exit_code == 0
    for word in ("CHECKPOINT...", "--task", "--data", "--rho", "--micro-batch-size", "--json", "--out", "Exit code 0"):
        assert word in done.stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(main.app, ["sharpnes"]).exit_code == 2


def test_the_console_script_is_this_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (script,) = entry_points(group="console_scripts", name="quotientgeo")
    assert script.load() is main.main
    monkeypatch.setattr("sys.argv", ["quotientgeo", "--version"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("quotientgeo ")
