"""Draw figures 1 and 8 of the paper from formulas that SymPy derives: which quantities see only the orbit, and which do not.

    python examples/analytic_figures.py OUT [--metric invariant|mixed] [--formats png svg pdf]

The model is x -> G H x with the loss (y - G H x)^2, here for x = y = 1. Weights (a G, H / a) compute the same for every a: the
orbits are the hyperbolas G H = const. OUT then holds

    gradient.*   loss, Euclidean and Riemannian gradient norm over (G, H)                         (figure 1)
    hessian.*    trace of the Euclidean and of the Riemannian Hessian, and all along one orbit    (figure 8)

No formula is typed from the paper (da Silva, Dangel, Oore, "Hide & Seek", ICML 2025): what is drawn are the expressions of
derivations/analytic_examples.md. Nothing is random: the same files each time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
import numpy as np

from quotientgeo.report.figures import COLOURS, RESOLUTION, STYLE, png, svg
from quotientgeo.symbolic.examples.scalar_toy import ScalarToy, X, Y, euclidean_norm_and_trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INPUT = TARGET = 1.0  # x and y
LOW, HIGH = 0.15, 2.25  # of both weights
POINTS = 301
BANDS = 14
COLOUR_MAP = "Blues"
BAR: dict[str, Any] = {"location": "bottom", "pad": 0.03, "aspect": 24, "shrink": 0.96}
TITLE = 8.8  # points: two long titles stand side by side
WEIGHTS = (0.5, 1.0, 1.5, 2.0)  # ticks
ORBITS = (0.25, 0.5, 1.0, 2.0)  # G H of the orbits drawn; the loss is least at 1
SHOWN = 2.0  # of the one that is looked at more closely
STRETCHES = (0.72, 1.0, 1.3)  # a of the points marked on it, from the one with G = H
FARTHEST = 4.0  # a, at most, in the panel along the orbit
CURVES = {
    "euclidean trace": "Hessian trace, Euclidean",
    "euclidean gradient": "gradient norm, Euclidean",
    "trace": "Hessian trace, Riemannian",
    "gradient": "gradient norm, Riemannian",
}
LINES = ((1.5, "-"), (1.5, "-"), (3.2, "-"), (1.3, (0, (3, 2))))  # width and dashes: the last two lie on each other
FORMATS = ("png", "svg", "pdf")

Function = Callable[[Any, Any], np.ndarray]


class Quantity(NamedTuple):
    """A function of the two weights: label for its axis, title of its panel, value over arrays G, H."""

    name: str
    title: str
    at: Function


def quantities(metric: str) -> dict[str, Quantity]:
    """The five quantities as functions of arrays, from what SymPy derived for this metric."""
    import sympy as sp

    toy = ScalarToy(metric)
    squared, trace = euclidean_norm_and_trace(toy)

    def function(expression: Any) -> Function:
        made = sp.lambdify(toy.point, expression.subs({X: sp.Float(INPUT), Y: sp.Float(TARGET)}), "numpy")
        return lambda G, H: made(np.asarray(G, dtype=float), np.asarray(H, dtype=float)) + np.zeros(np.shape(G))

    found = (
        Quantity("loss", "Loss", function(toy.loss)),
        Quantity("euclidean gradient", "Gradient norm, Euclidean", function(sp.sqrt(squared))),
        Quantity("gradient", "Gradient norm, Riemannian", function(sp.sqrt(toy.squared_gradient_norm))),
        Quantity("euclidean trace", "Hessian trace, Euclidean", function(trace)),
        Quantity("trace", "Hessian trace, Riemannian", function(toy.hessian_trace)),
    )
    return {quantity.name: quantity for quantity in found}


def gradient_figure(found: dict[str, Quantity]) -> Figure:
    """Figure 1: three panels of level sets."""
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.4, 3.35), layout="constrained")
        panels = figure.subplots(1, 3, sharex=True, sharey=True)
        for letter, axes, name in zip("abc", panels, ("loss", "euclidean gradient", "gradient"), strict=True):
            level_sets(figure, axes, found[name], letter)
        panels[0].set_ylabel("H")
        return figure


def hessian_figure(found: dict[str, Quantity]) -> Figure:
    """Figure 8: two panels of level sets, and all quantities along one orbit."""
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.4, 3.35), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        level_sets(figure, left, found["euclidean trace"], "a")
        level_sets(figure, middle, found["trace"], "b")
        left.set_ylabel("H")
        along_the_orbit(right, found)
        figure.colorbar(matplotlib.cm.ScalarMappable(), ax=right, **BAR).ax.set_visible(
            False
        )  # leaves the same room below
        return figure


def level_sets(figure: Figure, axes: Axes, quantity: Quantity, letter: str) -> None:
    """Filled level sets, the orbits over them, and the values at points of one orbit.

    Levels are chosen so that each band covers about the same area; all that counts here is the shape of their borders.
    """
    from matplotlib.colors import BoundaryNorm

    grid = np.linspace(LOW, HIGH, POINTS)
    G, H = np.meshgrid(grid, grid)
    values = quantity.at(G, H)
    levels = round_levels(values)
    norm = BoundaryNorm(levels, 256)
    filled = axes.contourf(G, H, values, levels=levels, cmap=COLOUR_MAP, norm=norm, extend="neither")
    axes.contour(G, H, values, levels=levels[1:-1], colors="white", linewidths=0.6, linestyles="solid")
    ticks = levels[1:-1:3]
    bar = figure.colorbar(filled, ax=axes, ticks=ticks, **BAR)
    bar.ax.set_xticklabels([f"{level:g}" for level in ticks])
    bar.ax.minorticks_off()
    bar.outline.set_linewidth(0.5)
    draw_orbits(axes)
    mark_values(axes, quantity)
    axes.set(xlim=(LOW, HIGH), ylim=(LOW, HIGH), aspect="equal", xlabel="G", xticks=WEIGHTS, yticks=WEIGHTS)
    axes.set_title(f"{letter}  {quantity.title}", fontsize=TITLE)


def round_levels(values: np.ndarray) -> np.ndarray:
    """Borders of bands of about the same area, of two digits each; the outer ones beyond the values."""
    wanted = np.quantile(values, np.linspace(0, 1, BANDS + 1)[1:-1])
    inner = np.unique([float(f"{level:.1e}") for level in wanted])
    return np.array([min(values.min(), inner[0]) - 1e-9, *inner, max(values.max(), inner[-1]) + 1e-9])


def draw_orbits(axes: Axes) -> None:
    along = np.geomspace(LOW / 2, 2 * HIGH, 400)
    for product in ORBITS:
        look: dict[str, Any] = {"color": "#333333", "linewidth": 0.8, "linestyle": (0, (4, 2.5))}
        if product == SHOWN:
            look = {"color": COLOURS[0], "linewidth": 1.8}
        axes.plot(along, product / along, **look)


def mark_values(axes: Axes, quantity: Quantity) -> None:
    """Dots on the orbit that is looked at, each with the value there."""
    start = np.sqrt(SHOWN)
    for a in STRETCHES:
        G, H = a * start, start / a
        axes.plot(
            [G], [H], "o", color=COLOURS[0], markersize=4.5, markeredgecolor="white", markeredgewidth=0.8, zorder=3
        )
        text = f"{float(quantity.at(G, H)):.2f}"
        axes.annotate(text, (G, H), xytext=(5, 4), textcoords="offset points", fontsize=7.5, color="black", zorder=4,
                      bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85})  # fmt: skip


def along_the_orbit(axes: Axes, found: dict[str, Quantity]) -> None:
    """Each quantity at (a G, H / a), relative to the point G = H, both axes logarithmic."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    a = np.geomspace(1 / FARTHEST, FARTHEST, 121)
    start = np.sqrt(SHOWN)
    for index, (name, label) in enumerate(CURVES.items()):
        values = found[name].at(a * start, start / a)
        axes.plot(a, values / found[name].at(start, start), color=COLOURS[index], linewidth=LINES[index][0],
                  linestyle=LINES[index][1], label=label)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="a, at (aG, H/a)", ylabel="relative to a = 1", ylim=(0.7, 45))
    for axis, ticks in ((axes.xaxis, (0.25, 0.5, 1, 2, 4)), (axes.yaxis, (1, 2, 4, 8))):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
        axis.set_minor_locator(NullLocator())
    axes.set_box_aspect(1)
    axes.set_title("c  Along one orbit", fontsize=TITLE)
    axes.legend(frameon=False, fontsize=7.5, loc="upper center", handlelength=2.2, labelspacing=0.35)


def write(figure: Figure, path: Path, formats: Sequence[str]) -> list[Path]:
    """path.png, path.svg, path.pdf: the same bytes each time."""
    written = []
    for kind in formats:
        target = path.with_suffix(f".{kind}")
        if kind == "png":
            target.write_bytes(png(figure))
        elif kind == "svg":
            target.write_text(svg(figure), encoding="utf-8")
        else:
            with matplotlib.rc_context(STYLE):
                figure.savefig(
                    target, dpi=RESOLUTION, metadata={"CreationDate": None, "Creator": None, "Producer": None}
                )
        written.append(target)
    return written


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    parser = argparse.ArgumentParser(
        description="Draw figures 1 and 8 of the paper: which quantities see only the orbit."
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write; files in it are replaced")
    parser.add_argument("--metric", choices=("invariant", "mixed"), default="invariant")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=["png", "svg"])
    options = parser.parse_args(arguments)
    found = quantities(options.metric)
    options.out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in (("gradient", gradient_figure), ("hessian", hessian_figure)):
        written += write(draw(found), options.out / name, options.formats)
    print("\n".join(f"wrote {path}" for path in written))
    return written


if __name__ == "__main__":
    main()
