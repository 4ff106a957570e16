"""Figures show the numbers they are given, and are the same for the same numbers."""

from __future__ import annotations

import math
import sys

import matplotlib
import numpy as np
import pytest

from quotientgeo.report import Series, orbit_figure, png, render, svg, two_weights_figure
from quotientgeo.report.figures import APART, COLOURS, EPSILON, MARKERS, SIZES, WIDTHS

CONDITIONS = [1.0, 1.0, 10.0, 10.0, 1000.0, 1000.0]
DRIFTS = Series("drifts", CONDITIONS, [1.01, 1.03, 1.2, 1.4, 20.0, 40.0])
STAYS = Series("stays", CONDITIONS, [1.0, 1 + 4e-15, 1.0, 1.0, 1 - 1e-14, 1.0])


def dots(axes, colour: str) -> list[tuple[float, float]]:
    (line,) = [li for li in axes.lines if li.get_color() == colour and li.get_linestyle() == "None"]
    return list(zip(*(map(float, data) for data in line.get_data()), strict=True))


def test_dots_are_the_ratios_and_their_changes() -> None:
    left, right = orbit_figure([DRIFTS, STAYS]).axes
    apart = 10 ** (-APART / 2)
    assert dots(left, COLOURS[0]) == [
        (pytest.approx(x * apart), y) for x, y in zip(CONDITIONS, DRIFTS.ratios, strict=True)
    ]
    assert [y for _, y in dots(left, COLOURS[1])] == STAYS.ratios
    changes = [max(abs(ratio - 1), EPSILON / 2) for ratio in STAYS.ratios]
    assert [y for _, y in dots(right, COLOURS[1])] == changes
    for axes in (left, right):
        assert axes.get_xscale() == axes.get_yscale() == "log"
        assert axes.get_xlabel()
        assert axes.get_ylabel()


def test_every_dot_is_inside_and_the_reference_level_is_marked() -> None:
    for axes in orbit_figure([DRIFTS, STAYS]).axes:
        for line in axes.lines:
            x, y = line.get_data()
            if len(x) and line.get_linestyle() != (0, (4, 3)) and line.get_transform() == axes.transData:
                assert min(axes.get_xlim()) <= min(x) <= max(x) <= max(axes.get_xlim())
                assert min(axes.get_ylim()) <= min(y) <= max(y) <= max(axes.get_ylim())
    left = orbit_figure([DRIFTS, STAYS]).axes[0]
    assert "1" in [label.get_text() for label in left.get_yticklabels()]
    assert [label.get_text() for label in left.get_xticklabels()] == ["1", "10", "100", "1,000"]


def test_lines_join_medians() -> None:
    left, _ = orbit_figure([DRIFTS]).axes
    line = next(li for li in left.lines if len(li.get_xdata()) == 3)
    assert list(line.get_ydata()) == pytest.approx([1.02, 1.3, 30.0])


def test_points_without_a_value_are_left_out() -> None:
    lost = Series("lost", CONDITIONS, [math.nan] * 6)
    some = Series("some", CONDITIONS, [1.0, math.nan, 2.0, 2.0, math.inf, 3.0])
    left, _ = orbit_figure([DRIFTS, lost, some]).axes
    assert dots(left, COLOURS[1]) == []
    assert [y for _, y in dots(left, COLOURS[2])] == [1.0, 2.0, 2.0, 3.0]
    assert svg(orbit_figure([lost]))


def test_series_differ_in_more_than_colour() -> None:
    assert len(set(COLOURS)) == len(set(MARKERS)) == len(COLOURS) == len(MARKERS) == len(SIZES) == len(WIDTHS)


def test_the_same_numbers_give_the_same_files() -> None:
    assert svg(orbit_figure([DRIFTS, STAYS])) == svg(orbit_figure([DRIFTS, STAYS]))
    assert png(orbit_figure([DRIFTS, STAYS])) == png(orbit_figure([DRIFTS, STAYS]))
    assert svg(orbit_figure([DRIFTS])) != svg(orbit_figure([STAYS]))


def test_weights_and_outputs() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.standard_normal((2, 4, 6))
    outputs = rng.standard_normal((5, 3))
    figure = two_weights_figure((before, after), (outputs, outputs + 1), "a head")
    pictures = [axes.images[0] for axes in figure.axes if axes.images and axes.images[0].get_array().shape == (4, 6)]
    assert [np.array_equal(p.get_array(), w) for p, w in zip(pictures, (before, after), strict=True)] == [True, True]
    most = max(abs(before).max(), abs(after).max())
    assert {p.get_clim() for p in pictures} == {(-most, most)}
    (cloud,) = (axes.collections[0] for axes in figure.axes if axes.get_xlabel() == "output before")
    assert np.allclose(cloud.get_offsets(), np.stack([outputs.ravel(), outputs.ravel() + 1], 1))
    assert svg(figure).startswith("<svg")
    assert png(figure).startswith(b"\x89PNG")


def test_no_global_setting_changes_and_no_window_system_is_loaded() -> None:
    before = dict(matplotlib.rcParams)
    svg(orbit_figure([DRIFTS]))
    assert dict(matplotlib.rcParams) == before
    assert "tkinter" not in sys.modules


def test_text_is_escaped_and_a_missing_name_is_an_error(tmp_path) -> None:
    from jinja2 import UndefinedError

    template = tmp_path / "page.html.j2"
    template.write_text('{% extends "base.html.j2" %}{% block content %}{{ text }}{% endblock %}')
    page = render(template, {"text": "<script>", "version": "1"})
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    with pytest.raises(UndefinedError):
        render(template, {"version": "1"})
