"""What the README shows is what happens."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from quotientgeo.cli.main import app
from tests.helpers.trained import TRAINED, trained

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", flags=re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?|-?\d+e-?\d+")
ROUNDING = 1e-12  # two numbers below this are both rounding


def same(shown: str, found: str, tolerance: float = 1e-3) -> bool:
    """Equal text, with decimal numbers equal to a relative tolerance."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", found).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(found), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=ROUNDING) for a, b in pairs)


def test_the_comparison_can_fail() -> None:
    assert same("a 0.1234 4e-15", "a  0.12345\n1e-16")
    assert not same("a 0.1234", "a 0.1334")
    assert not same("a 0.1234", "b 0.1234")
    assert not same("a 0.1 0.2", "a 0.1")


def test_the_python_examples_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    shown = 0
    for code, expected in EXAMPLE.findall(README):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert same(expected, printed.getvalue()), (
            f"the README shows\n{expected}\nbut this is printed:\n{printed.getvalue()}"
        )
        shown += bool(expected)
    assert shown >= 4
    assert (tmp_path / "gl_pair_mixed.py").is_file()


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#][^)]*)\)", README)
    anchors = {
        re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-")
        for line in README.splitlines()
        if line[:1] == "#"
    }
    missing = [t for t in targets if not t.startswith("http") and not (ROOT / t.partition("#")[0]).exists()]
    missing += [a for a in re.findall(r"\]\(#([^)]*)\)", README) if a not in anchors]
    assert targets
    assert not missing


def test_make_targets_and_options_exist() -> None:
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)\b`|^ {4}make ([a-z-]+)$", README, flags=re.MULTILINE))
    assert {a or b for a, b in named} <= rules
    assert named
    commands = set(re.findall(r"^ {4}quotientgeo ([a-z]+)", README, flags=re.MULTILINE)) | {"sharpness"}
    help_text = "".join(CliRunner().invoke(app, [command, "--help"]).stdout for command in sorted(commands))
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) - {"--no-deps"}
    assert {option for option in options if option not in help_text} == set()
    assert options


def command_and_table() -> tuple[list[str], str]:
    """Arguments of the README's first command, and what it shows below it."""
    found = re.search(r'quotientgeo sharpness "\$ALBERT" ([^\n]*)\n\n```text\n(.*?)```', README, flags=re.DOTALL)
    assert found is not None
    assert "/".join(("$PACKAGES", *TRAINED["albert"])) in README
    return found.group(1).split(), found.group(2)


def test_the_first_command_reads_files_that_are_there() -> None:
    arguments, table = command_and_table()
    assert all((ROOT / a).is_file() for a in arguments if not a.startswith("--"))
    assert Path(TRAINED["albert"][1]).name in table


@pytest.mark.real
@pytest.mark.slow
def test_the_first_command_prints_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two minutes; the seconds column and the residual's rounding aside."""
    monkeypatch.chdir(ROOT)
    arguments, shown = command_and_table()
    done = CliRunner().invoke(app, ["sharpness", trained("albert"), *arguments])
    assert done.exit_code == 0, done.output
    shown, found = (re.sub(r"[\d.]+ │\n|by \S+ relative", "…", text) for text in (shown, done.stdout))
    assert same(shown, found, tolerance=1e-3), done.stdout


DEMO = re.compile(
    r"attention heads change by (?P<weights>\d+) %, its outputs by (?P<outputs>\d+e-\d+)\.\n"
    r"Adaptive sharpness rises by (?P<adaptive>\d+) %; geodesic sharpness stays the same to (?P<digits>\d+) digits\. "
    r"Further along the orbit adaptive sharpness grows more than\n(?P<times>two)-thousandfold"
)


def test_the_numbers_of_the_demo_are_found() -> None:
    assert DEMO.search(README) is not None


@pytest.mark.slow
def test_the_demo_finds_what_is_shown(tmp_path: Path) -> None:
    """A default run, one minute."""
    pytest.importorskip("transformers")
    pytest.importorskip("datasets")
    from matplotlib.image import imread

    shown = DEMO.search(README)
    assert shown is not None
    done = CliRunner().invoke(app, ["demo", "--json", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    changes = {measure["key"]: measure["change"] for measure in found["measures"]}
    assert f"{found['same_function']['weight_change']:.0%}" == f"{shown['weights']}%"
    assert f"{changes['adaptive']:.0%}" == f"{shown['adaptive']}%"
    # the size of rounding is the machine's
    assert found["same_function"]["logit_difference"] < 10 * float(shown["outputs"])
    assert max(abs(changes["invariant"]), abs(changes["mixed"])) < 10.0 ** (1 - int(shown["digits"]))
    adaptive = [point for point in found["sweep"] if point["key"] == "adaptive"]
    furthest = max(point["condition"] for point in adaptive)
    ratios = [point["value"] / point["reference"] for point in adaptive if point["condition"] == furthest]
    assert math.floor(min(ratios) / 1000) == {"two": 2}[shown["times"]]
    stored, drawn = (imread(path) for path in (ROOT / "docs" / "demo.png", tmp_path / "figure.png"))
    assert stored.shape == drawn.shape
    assert abs(stored - drawn).mean() < 0.01, "docs/demo.png is not the figure.png of a default run"
