"""Figures by matplotlib, imported where it is used; nothing is opened on a screen and no global setting is changed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart; each comes with a marker of its own
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "D", "^")
SIZES = (5.0, 6.5, 4.0, 5.0)
WIDTHS = (1.3, 2.2, 1.0, 1.3)
APART = 0.09  # powers of ten between the series, so that those that lie on each other are all seen
GREY = "#555555"
EPSILON = float(np.finfo(np.float64).eps)
RESOLUTION = 200  # dots an inch, of PNG files and of what is no line in an SVG
STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": GREY,
    "axes.labelcolor": "#222222",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "svg.hashsalt": "quotientgeo",
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Series:
    """One measure along an orbit: values after a move, relative to the value before it, by the condition of the move."""

    label: str
    conditions: Sequence[float]
    ratios: Sequence[float]

    def finite(self) -> tuple[np.ndarray, np.ndarray]:
        """Points with a value."""
        x, y = np.asarray(self.conditions, dtype=float), np.asarray(self.ratios, dtype=float)
        return x[np.isfinite(y)], y[np.isfinite(y)]


def orbit_figure(series: Sequence[Series]) -> Figure:
    """Left: value after the move / value before it. Right: size of the relative change, down to rounding. All axes logarithmic.

    A dot is one random move; lines join the medians. A change of exactly zero is drawn at the rounding of a float64.
    """
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.4, 3.3), layout="constrained")
        left, right = figure.subplots(1, 2)
        for index, one in enumerate(series):
            x, ratios = one.finite()
            apart = 10 ** (APART * (index - (len(series) - 1) / 2))
            _draw(left, x, ratios, one.label, index, apart)
            _draw(right, x, np.maximum(np.abs(ratios - 1), EPSILON / 2), one.label, index, apart)
        left.set_title("a   The value")
        left.set_ylabel("sharpness after / before")
        _round_ticks(left, "y", reach=(0.5, 2.0))
        right.set_title("b   Its relative change")
        right.set_ylabel("| after / before − 1 |")
        _powers_and_rounding(right)
        for axes in (left, right):
            axes.set_xlabel("condition number of the move")
            _round_ticks(axes, "x", reach=(1.0, 1.0))
            axes.grid(axis="y", color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(series), frameon=False, handlelength=2.2)
        return figure


def two_weights_figure(weights: Sequence[np.ndarray], outputs: Sequence[np.ndarray], unit: str) -> Figure:
    """Weights (h, d) before and after a move on one colour scale, and every output (images, classes) after against before."""
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.4, 2.9), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1.75, 1.0))
        most = max(float(np.abs(w).max()) for w in weights)
        pictures = [figure.add_subplot(grid[row, 0]) for row in range(2)]
        image: Any = None
        for axes, w, when in zip(pictures, weights, ("before", "after"), strict=True):
            image = axes.imshow(w, cmap="PuOr_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_ylabel(when)
        pictures[0].set_title(f"a   Different weights: {unit}")
        figure.colorbar(image, ax=pictures, shrink=0.9, pad=0.02, aspect=30, label="weight")
        plot = figure.add_subplot(grid[:, 1])
        low, high = (float(pick([pick(o) for o in outputs])) for pick in (np.min, np.max))
        pad = 0.05 * (high - low)
        span = [low - pad, high + pad]
        plot.plot(span, span, color=GREY, linewidth=0.8, zorder=1)
        plot.scatter(outputs[0].ravel(), outputs[1].ravel(), s=7, color=COLOURS[1], alpha=0.5, linewidths=0,
                     zorder=2, rasterized=True)  # fmt: skip
        plot.set(xlim=span, ylim=span, aspect="equal", anchor="N", xlabel="output before", ylabel="output after")
        plot.set_title("b   The same outputs")
        return figure


def svg(figure: Figure) -> str:
    """An SVG document that refers to nothing outside it, without dates and names of tools."""
    with _style():
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=nothing, dpi=RESOLUTION)
    text = file.getvalue()
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)


def png(figure: Figure) -> bytes:
    """The same as a file, for places that take no SVG."""
    with _style():
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=RESOLUTION, metadata={"Software": None})
    return file.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def _draw(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, index: int, apart: float) -> None:
    """Dots, and a line through the median of those at one condition; both axes logarithmic."""
    axes.set(xscale="log", yscale="log")
    at = np.unique(x)
    medians = [float(np.median(y[x == one])) for one in at]
    look: dict[str, Any] = {"color": COLOURS[index], "marker": MARKERS[index], "markersize": SIZES[index]}
    look |= {"markerfacecolor": "white"} if index == 1 else {}
    axes.plot(at * apart, medians, color=COLOURS[index], linewidth=WIDTHS[index], zorder=2 + index)
    axes.plot(x * apart, y, linestyle="none", **look, markeredgewidth=1.1, zorder=3 + index)
    axes.plot([], [], linewidth=WIDTHS[index], label=label, **look)


def _round_ticks(axes: Axes, which: str, reach: tuple[float, float]) -> None:
    """Mark a logarithmic axis 0.5, 1, 2, 5, 10, ..., or at powers of ten alone where those are many."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted(axis.get_view_interval())
    low, high = min(low, reach[0]), max(high, reach[1])
    ticks = [(m, m * 10.0**e) for e in range(-9, 10) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    chosen = [tick for m, tick in ticks if m == 1 or len(ticks) <= 6]
    axes.set(**{f"{which}lim": (low, high)})
    axis.set_major_locator(FixedLocator(chosen))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _powers_and_rounding(axes: Axes) -> None:
    """A vertical axis over many powers of ten, with the rounding of a float64 as a line near its lower end."""
    from matplotlib.ticker import LogLocator, NullLocator

    bottom, top = EPSILON / 1000, max(10.0, axes.get_ylim()[1])
    axes.set_ylim(bottom, top)
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.axhline(EPSILON, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.annotate("rounding of a float64", (0.02, bottom), xytext=(0, 2), textcoords="offset points", color=GREY,
                  xycoords=("axes fraction", "data"), ha="left", va="bottom", fontsize=7.5)  # fmt: skip
