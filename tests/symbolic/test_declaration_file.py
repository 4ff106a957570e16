"""What a file declares is read by the command and by ``make derive`` in the same way, with the same words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from quotientgeo.errors import DeclarationError
from quotientgeo.groups import GL
from quotientgeo.symbolic import regenerate
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.declaration_file import DEFINES, read_declaration

ONE = Symmetry("one", GL("h"), {"U": ("d", "h")}, lambda A, U: (U * A.inv(),))
HEAD = """
from sympy import Trace
import quotientgeo as qg

symmetry = qg.Symmetry("one", qg.GL("h"), {"U": ("d", "h")}, lambda A, U: (U * A.inv(),))
first, second = (
    qg.Metric(name, symmetry, lambda p, a, b: Trace((p.U.T * p.U).I * a.U.T * b.U)) for name in ("first", "second")
)
"""


def metric(name: str) -> Metric:
    from sympy import Trace

    return Metric(name, ONE, lambda p, a, b: Trace((p.U.T * p.U).I * a.U.T * b.U))


def read(**names: Any) -> tuple[Symmetry, list[Metric]]:
    module = ModuleType("own")
    module.__dict__.update(names)
    return read_declaration(Path("own.py"), module)


def test_one_metric_or_a_list_of_them() -> None:
    first, second = metric("first"), metric("second")
    assert read(symmetry=ONE, metric=first) == (ONE, [first])
    assert read(symmetry=ONE, metrics=(first, second)) == (ONE, [first, second])
    assert read(symmetry=ONE, metric=first, metrics=[second]) == (ONE, [second])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "defines no `symmetry`: it must define symmetry "),
        ({"pair": ONE, "mixed": metric("own")}, r"defines no `symmetry` \(found: pair, mixed\): it must define"),
        ({"symmetry": ONE, "own": metric("own")}, r"defines no `metric` and no `metrics` \(found: symmetry, own\): "),
        ({"symmetry": GL("h"), "metric": metric("own")}, "its symmetry is of type GL"),
        ({"symmetry": ONE, "metric": None}, "found a metric of type NoneType"),
        ({"symmetry": ONE, "metrics": []}, r"its metrics are \[\]"),
        ({"symmetry": ONE, "metrics": metric("own")}, r"its metrics are Metric\("),
        ({"symmetry": ONE, "metrics": [metric("own"), 3]}, "found a metric of type int"),
        ({"symmetry": ONE, "metrics": [metric("own"), metric("own")]}, "more than one metric of the name 'own'"),
        ({"symmetry": ONE, "metrics": [metric("a"), metric("A")]}, "metrics 'a' and 'A': each becomes a folder"),
    ],
)
def test_what_is_no_declaration_is_refused(names: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=rf"own\.py .*{message}"):
        read(**names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metrics = [first, second]\n", "declares 2 metrics: in the catalogue each has a folder of its own"),
        ("metrics = [first, first]\n", "more than one metric of the name 'first'"),
        ("metric = 3\n", "found a metric of type int"),
        ("metrics = [second]\n", "call its folder one_second, not one_first"),
    ],
)
def test_a_folder_of_the_catalogue_holds_one_geometry(tmp_path: Path, text: str, message: str) -> None:
    folder = tmp_path / regenerate.CATALOGUE / "one_first"
    folder.mkdir(parents=True)
    (folder / "declaration.py").write_text(HEAD + text)
    with pytest.raises(DeclarationError, match=message):
        regenerate.regenerate(tmp_path)


def test_what_the_command_says_of_a_file_needs_no_sympy() -> None:
    code = "import sys, quotientgeo.symbolic.declaration_file as f; print(f.DEFINES); assert 'sympy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == DEFINES
