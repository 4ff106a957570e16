"""derivations/analytic_examples.md is what the derivation gives, byte for byte, and is valid Markdown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from quotientgeo.symbolic.examples.__main__ import main
from quotientgeo.symbolic.examples.page import PAGE, analytic_page

pytestmark = pytest.mark.xdist_group("analytic page")  # of one process: the page is made once
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def page() -> str:
    return analytic_page()


def test_the_page_is_fresh(page: str) -> None:
    assert (ROOT / PAGE).read_bytes() == page.encode(), "stale: run `make derive`"


@pytest.mark.slow  # the seed of each run of the test above is another one, too
def test_it_does_not_depend_on_the_hash_seed(page: str) -> None:
    command = "from quotientgeo.symbolic.examples.page import analytic_page; print(analytic_page(), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": "5"}
    made = subprocess.run([sys.executable, "-c", command], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert made.stdout.decode() == page


def test_rows_of_a_table_have_as_many_cells_as_its_head(page: str) -> None:
    for table in re.findall(r"(?:^\|.*\|\n)+", page, flags=re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1, table


def test_formulas_are_closed(page: str) -> None:
    outside = re.sub(r"```math\n.*?```", "", page, flags=re.DOTALL)
    for paragraph in re.split(r"\n\n|\n(?=\|)", outside):
        assert paragraph.count("$") % 2 == 0, paragraph
        assert "$$" not in paragraph


def test_every_statement_is_decided(page: str) -> None:
    assert page.count("| proven |") >= 25
    assert page.count("| **false**: moving by $a$ changes it by ") == 3


def test_command_line(tmp_path: Path, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--root", str(tmp_path)])
    target = tmp_path / PAGE
    target.parent.mkdir()
    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert "stale" in capsys.readouterr().err
    assert not target.exists()
    assert main(["--root", str(tmp_path)]) == 0
    assert target.read_bytes() == page.encode()
    target.write_text(page.replace("2 b^{2}", "b^{2}", 1))
    assert main(["--check", "--root", str(tmp_path)]) == 1
