"""``quotientgeo demo``: the main job on a shipped checkpoint and real data."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quotientgeo.cli.options import Json
from quotientgeo.cli.sharpness import Rho, Steps

if TYPE_CHECKING:
    from rich.console import Console

    from quotientgeo.demo import DemoResult, Loaded

NOT_OK = 3  # exit code where a measure has no value, or geodesic sharpness changed by more than rounding
SECONDS_BETWEEN_LINES = 15.0

Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page, the figure and the numbers.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the search and of the first move.")]
Seeds = Annotated[int, typer.Option(min=1, help="Random moves at each condition number of the figure.")]


def _condition(condition: float) -> float:
    if not (math.isfinite(condition) and condition >= 1):
        raise typer.BadParameter(f"{condition} is not a finite number >= 1: it is a condition number")
    return condition


Condition = Annotated[float, typer.Option(callback=_condition, help="Condition number of the move in the table, >= 1.")]


def demo(
    out: Out = Path("quotientgeo-demo"),
    steps: Steps = 20,
    rho: Rho = 0.1,
    condition: Condition = 10.0,
    seed: Seed = 0,
    seeds: Seeds = 2,
    json: Json = False,
) -> None:
    """Move a small vision transformer along its orbit and measure it before and after: the same function, other weights.

    Checkpoint and digits come with the package. Writes to DIR a page that explains what was found (index.html), figure.png,
    demo.json, results.jsonl, and both checkpoints with the digits, to try other commands on; files of these names are replaced.

    Exit code 0: done. 2: an error. 3: a measure has no value, or geodesic sharpness changed by more than rounding.
    """
    from quotientgeo.cli.display import output, working
    from quotientgeo.demo import Settings, load_demo, run_demo, writable, write_demo

    settings = Settings(rho=rho, steps=steps, seed=seed, condition=condition, seeds=seeds)
    writable(out)
    with working("loading and verifying the shipped checkpoint"), _one_thread():
        loaded = load_demo()
        verified = loaded.verify()
    console = output()
    if not json:
        held = f"all {len(verified.entries)} symmetries hold on this model"
        show_blocks(console, loaded, f"{held} (outputs change by {verified.residual:.0e} relative, at most)")
    with _one_thread(), _progress() as progress:
        result = run_demo(loaded, verified, settings, progress=progress)
    with working(f"writing {out}"):
        page = write_demo(result, loaded, out)
    if json:
        typer.echo(result.to_json())
    else:
        show_result(console, result)
        console.print(f"\nWhat this means, with figures: {page}", markup=False, soft_wrap=True)
    if not result.ok:
        raise typer.Exit(NOT_OK)


def show_blocks(console: Console, loaded: Loaded, verdict: str) -> None:
    """The checkpoint and its symmetries, in brief."""
    from quotientgeo.cli.inspect import drawn, table_rows

    coverage = loaded.graph.coverage()
    console.print(
        f"digits-vit: {type(loaded.model).__name__}, {coverage.total:,} parameters, {coverage.block:,} of them in "
        "attention heads",
        markup=False,
        soft_wrap=True,
    )
    console.print(drawn(table_rows(loaded.graph)))
    console.print(f"{verdict}\n", markup=False, soft_wrap=True)


def show_result(console: Console, result: DemoResult) -> None:
    """The function and its measures, before and after."""
    from rich.table import Table

    same, settings = result.same, result.settings
    table = Table(
        title=f"the same function after a move of condition {settings['condition']:g}",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("")
    for heading in ("before", "after", "relative change"):
        table.add_column(heading, justify="right")
    for name, cells in rows(result):
        table.add_row(name, *cells, end_section=name.startswith("accuracy"))
    console.print(table)
    words = (
        f"The weights of the heads changed by {same.weight_change:.0%} of their length; the largest change of an output is "
        f"{same.logit_difference:.0e}, of outputs up to {same.logit_size:.1f}."
    )
    console.print(words, markup=False, soft_wrap=True)
    d = result.comparisons[0].before.definitions
    words = (
        f"Sharpness at rho {d['rho']:g}, {d['steps']} steps, {d['batches']} batch(es) of {d['examples_per_batch']} digits, "
        f"{d['dtype']}; units differ between measures: compare along the rows."
    )
    console.print(words, markup=False, soft_wrap=True)
    for comparison in result.comparisons:
        for one in (comparison.before, comparison.after):
            if not one.ok:
                console.print(f"{comparison.title}: {one.outcome}: {one.detail}", markup=False, soft_wrap=True)


def rows(result: DemoResult) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Name, and the cells before, after and relative change, of each line of the table."""
    (here, there), (right, still) = result.same.loss, result.same.accuracy
    yield "loss on the digits measured", (f"{here:.6g}", f"{there:.6g}", f"{(there - here) / here:.1e}")
    yield f"accuracy on {result.same.held_out} other digits", (f"{right:.1%}", f"{still:.1%}", f"{still - right:.0%}")
    for c in result.comparisons:
        values = [f"{one.value:.6g}" if one.ok else one.outcome for one in (c.before, c.after)]
        changed = "" if not c.ok else f"{c.change:+.1%}" if abs(c.change) >= 1e-3 else f"{c.change:.1e}"
        yield c.title, (values[0], values[1], changed)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Tensors this small gain nothing from a second thread, and on a busy machine threads wait for each other for minutes."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _progress() -> Iterator[Any]:
    """A callback for ``run_demo``: a bar on a terminal; elsewhere a line for each thing done, at most one in a while."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines(console)
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


class _Lines:
    """One line when something begins, and one after every while."""

    def __init__(self, console: Console) -> None:
        self._console, self._what, self._last = console, "", 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self._what or time.monotonic() - self._last > SECONDS_BETWEEN_LINES:
            self._console.print(f"{100 * done // max(total, 1):3d} %  {what}", markup=False, soft_wrap=True)
            self._what, self._last = what, time.monotonic()
