"""examples/analytic_figures.py: what its curves are, not which pixels."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "analytic_figures.py"
# typed here: the quantities at x = y = 1, as functions of G and H
EXPECTED = {
    "Loss": lambda G, H: (1 - G * H) ** 2,
    "Gradient norm, Euclidean": lambda G, H: 2 * np.abs(1 - G * H) * np.hypot(G, H),
    "Gradient norm, Riemannian": lambda G, H: 2 * np.sqrt(2) * np.abs(G * H * (1 - G * H)),
    "Hessian trace, Euclidean": lambda G, H: 2 * (G**2 + H**2),
    "Hessian trace, Riemannian": lambda G, H: 4 * G * H * (2 * G * H - 1),
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("analytic_figures", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def panels(script: ModuleType) -> dict[str, Axes]:
    found = script.quantities("invariant")
    figures = [script.gradient_figure(found), script.hessian_figure(found)]
    return {
        axes.get_title(loc="left")[3:]: axes for figure in figures for axes in figure.axes if axes.get_title(loc="left")
    }


def level_lines(axes: Axes) -> list[tuple[float, np.ndarray]]:
    """(level, vertices (k, 2)) of every border between two bands that is long enough to say anything."""
    (lines,) = [c for c in axes.collections if isinstance(c, QuadContourSet) and not c.filled]
    return [
        (level, piece.vertices)
        for level, path in zip(lines.levels, lines.get_paths(), strict=True)
        for piece in path._iter_connected_components()
        if len(piece.vertices) > 30
    ]


@pytest.mark.parametrize("title", EXPECTED)
def test_level_sets_are_those_of_the_quantity(panels: dict[str, Axes], title: str) -> None:
    found = level_lines(panels[title])
    assert len(found) >= 8
    for level, at in found:
        values = EXPECTED[title](at[:, 0], at[:, 1])
        assert np.abs(values - level).max() < 0.02 * max(1, abs(level))


@pytest.mark.parametrize(("title", "along"), [(title, "Euclidean" not in title) for title in EXPECTED])
def test_level_sets_run_along_orbits_exactly_where_they_should(
    panels: dict[str, Axes], title: str, along: bool
) -> None:
    spread = [np.ptp(np.log(at[:, 0] * at[:, 1])) for _, at in level_lines(panels[title])]
    assert bool(max(spread) < 0.005) is along
    assert along or (max(spread) > 0.5 and min(spread) > 0.02)


@pytest.mark.parametrize("title", EXPECTED)
def test_marked_values_are_those_at_the_dots(panels: dict[str, Axes], title: str) -> None:
    axes = panels[title]
    assert len(axes.texts) == 3
    for text in axes.texts:
        assert float(text.get_text()) == pytest.approx(EXPECTED[title](*text.xy), abs=0.005)
    assert (len({text.get_text() for text in axes.texts}) == 1) is ("Euclidean" not in title)


def test_orbits_are_hyperbolas(panels: dict[str, Axes], script: ModuleType) -> None:
    for title in EXPECTED:
        orbits = [np.prod(line.get_data(), axis=0) for line in panels[title].lines if len(line.get_xdata()) > 100]
        assert [float(np.mean(product)) for product in orbits] == pytest.approx(script.ORBITS)
        assert max(np.ptp(product) for product in orbits) < 1e-12


def test_only_riemannian_quantities_stand_still_along_an_orbit(panels: dict[str, Axes]) -> None:
    lines = {line.get_label(): line.get_ydata() for line in panels["Along one orbit"].lines}
    assert len(lines) == 4
    for label, values in lines.items():
        if "Riemannian" in label:
            assert values == pytest.approx(np.ones(len(values)), abs=1e-13)
        else:
            assert values.max() > 2
            assert all(b < a for a, b in pairwise(values[: len(values) // 2 + 1]))


def test_the_script_writes_the_same_files_each_time(tmp_path: Path) -> None:
    made = []
    for folder, seed in (("one", "1"), ("two", "2")):
        command = [
            sys.executable,
            str(SCRIPT),
            str(tmp_path / folder),
            "--metric",
            "mixed",
            "--formats",
            "png",
            "svg",
            "pdf",
        ]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.count("wrote ") == 6
        made.append({path.name: path.read_bytes() for path in sorted((tmp_path / folder).iterdir())})
    assert made[0] == made[1]
    assert list(made[0]) == [f"{name}.{kind}" for name in ("gradient", "hessian") for kind in ("pdf", "png", "svg")]
    assert made[0]["gradient.png"].startswith(b"\x89PNG")
    assert made[0]["gradient.pdf"].startswith(b"%PDF")
    assert made[0]["hessian.svg"].startswith(b"<svg")


def test_mixed_values_are_constant_on_orbits_too(script: ModuleType) -> None:
    found = script.quantities("mixed")
    a = np.array([0.3, 1.0, 2.0])
    for name in ("gradient", "trace"):
        assert np.ptp(found[name].at(1.2 * a, 0.8 / a)) < 1e-12
    assert found["gradient"].at(1.2, 0.8) == pytest.approx(2 * np.sqrt(2) * (1 - 0.96))
    assert found["trace"].at(1.2, 0.8) == pytest.approx(4 * (2 * 0.96 - 1) / 0.96)
