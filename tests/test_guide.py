"""What the guide in derivations/README.md shows is what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_readme import EXAMPLE, ROOT, same

GUIDE = (ROOT / "derivations" / "README.md").read_text(encoding="utf-8")


def test_the_guide_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = re.search(r"## Declare your own symmetry\n(.*?)\n## ", GUIDE, flags=re.DOTALL)
    assert section is not None
    names: dict[str, Any] = {}
    shown = 0
    for code, expected in EXAMPLE.findall(section.group(1)):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "derivations/README.md", "exec"), names)
        assert same(expected, printed.getvalue()), (
            f"the guide shows\n{expected}\nbut this is printed:\n{printed.getvalue()}"
        )
        shown += bool(expected)
    assert shown == 3
    assert names["geometry"].certificate.holds
