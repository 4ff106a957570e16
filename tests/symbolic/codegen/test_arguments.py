"""Where code can be written and what can be declared: said in one line before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sympy import Trace

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, DeclarationError


def symmetry(**changes: Any) -> qg.Symmetry:
    given: dict[str, Any] = {
        "name": "pair", "group": qg.GL("h"), "factors": {"G": ("n", "h"), "H": ("m", "h")},
        "action": lambda A, G, H: (G * A.inv(), H * A.T), "preserves": lambda G, H: G * H.T,
    }  # fmt: skip
    return qg.Symmetry(**(given | changes))


@pytest.fixture(scope="module")
def metric() -> qg.Metric:
    return qg.Metric(
        "mixed", symmetry(), lambda p, a, b: Trace(p.H.T * p.H * a.G.T * b.G) + Trace(p.G.T * p.G * a.H.T * b.H)
    )


@pytest.fixture(scope="module")
def geometry(metric: qg.Metric) -> Any:
    return qg.derive(metric.symmetry, metric, levels="a")


@pytest.mark.parametrize("group", ["GL", None, 3, qg.GL, (qg.GL("h"), "GL")])
def test_groups(group: Any) -> None:
    with pytest.raises(
        DeclarationError, match=r'pair: group must be a group such as GL\("h"\), or a product of groups, got '
    ):
        symmetry(group=group)


@pytest.mark.parametrize("role", ["action", "preserves"])
def test_functions(role: str) -> None:
    with pytest.raises(DeclarationError, match=f"pair: {role} must be a function of matrix symbols, got 3"):
        symmetry(**{role: 3})
    assert symmetry(preserves=None).preserves is None


def test_metrics_and_derivations(metric: qg.Metric) -> None:
    with pytest.raises(DeclarationError, match="metric m: symmetry must be a Symmetry, got a NoneType"):
        qg.Metric("m", None, metric.inner)  # type: ignore[arg-type]
    for given in (("s", metric), (metric.symmetry, None), (metric, metric.symmetry)):
        with pytest.raises(DeclarationError, match="derive takes a Symmetry and a Metric, got a "):
            qg.derive(*given)  # type: ignore[arg-type]


def test_places_that_cannot_be_written(geometry: Any, tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "file").write_text("kept")
    for path, message in (
        (tmp_path / "missing" / "a.py", "missing is no folder"),
        (tmp_path / "folder.py", "is a folder: name a .py file in it"),
        (tmp_path / "file", "cannot be made a folder: there is a file"),
        (tmp_path / "file" / "more", "cannot be made a folder: there is a file"),
        (tmp_path / "file" / "a.py", "file is no folder"),
        (None, "path must be a .py file or a folder to write, got None"),
        (3, "path must be a .py file or a folder to write, got 3"),
    ):
        with pytest.raises(ArgumentError, match=message):
            qg.generate(geometry, path)  # type: ignore[arg-type]
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder.py"]
    assert qg.generate(geometry, tmp_path / "new" / "folder").is_dir()


def test_a_disk_that_refuses(geometry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    for name in ("a.py", "folder"):
        with pytest.raises(ArgumentError, match=rf"{name} cannot be written: No space left on device"):
            qg.generate(geometry, tmp_path / name)


@pytest.mark.parametrize("sizes", [3, {"n": "a"}, {"z": 3}, {"n": -1}, {"n": True}, {"n": 2.5}])
def test_sizes(geometry: Any, sizes: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="sizes must be positive integers of h, m, n, got "):
        qg.generate(geometry, tmp_path / "a.py", sizes=sizes)


def test_what_is_no_geometry(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="generate takes what derive gave, got a str"):
        qg.generate("geometry", tmp_path / "a.py")  # type: ignore[arg-type]
