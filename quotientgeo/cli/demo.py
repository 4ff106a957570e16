"""``quotientgeo demo``: the main job on a shipped checkpoint and real data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotientgeo.cli.options import NOT_OK, Json, Rho, Steps, condition_number

if TYPE_CHECKING:
    from rich.console import Console

    from quotientgeo.demo import DemoResult, Loaded

Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page, the figure and the numbers.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the search and of the first move.")]
Seeds = Annotated[int, typer.Option(min=1, help="Random moves at each condition number of the figure.")]
Condition = Annotated[
    float, typer.Option(callback=condition_number, help="Condition number of the move in the table, >= 1.")
]


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

    Exit code 0: done. 2: an error. 3: a measure has no value or is 0, or geodesic sharpness changed by more than rounding.
    """
    from quotientgeo.cli.display import TaskProgress, output, working
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
    with _one_thread(), TaskProgress() as progress:
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
        if comparison.before.value == 0:
            words = f"{comparison.title} is 0 before the move, so that no change is relative to it: use a larger --rho"
            console.print(words, markup=False, soft_wrap=True)


def rows(result: DemoResult) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Name, and the cells before, after and relative change, of each line of the table."""
    (here, there), (right, still) = result.same.loss, result.same.accuracy
    yield "loss on the digits measured", (f"{here:.6g}", f"{there:.6g}", _changed(result.same.loss_change))
    yield (
        f"accuracy on {result.same.held_out} other digits",
        (f"{right:.1%}", f"{still:.1%}", _changed(result.same.accuracy_change)),
    )
    for c in result.comparisons:
        values = [f"{one.value:.6g}" if one.ok else one.outcome for one in (c.before, c.after)]
        yield c.title, (values[0], values[1], _changed(c.change))


def _changed(change: float) -> str:
    """A relative change, as a number: large ones and rounding in one unit. Nothing where there is none."""
    if math.isnan(change):
        return ""
    return f"{change:+.2g}" if change else "0"


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
