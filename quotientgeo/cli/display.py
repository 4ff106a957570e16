"""What the commands show: progress on stderr while they work, tables on stdout at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import rich.progress
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from quotientgeo import SharpnessResult

SECONDS_BETWEEN_LINES = 30.0
WIDTH_ELSEWHERE = 140
MOST_NAMED = 5  # tensors and blocks named one by one under the table


class _Bar:
    """What is being done, on stderr: a bar on a terminal; elsewhere lines, at the ends of things and after 30 s without one."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = Console(stderr=True, highlight=False) if console is None else console
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}", markup=False),
                rich.progress.BarColumn(),
                rich.progress.MofNCompleteColumn(),
                rich.progress.TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _show(self, what: str, done: int, total: int | None, line: str, at_an_end: bool) -> None:
        """``what`` on the bar; where there is none, ``line`` if it is time for one."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=what, completed=done, total=total)
        elif at_an_end or time.monotonic() - self._last > SECONDS_BETWEEN_LINES:
            self._console.print(line, markup=False, soft_wrap=True)
            self._last = time.monotonic()


class Progress(_Bar):
    """The callback of ``sharpness``; without a terminal, a line per finished start."""

    def __init__(self, checkpoint: str, console: Console | None = None) -> None:
        super().__init__(console)
        self._name = Path(checkpoint).name or checkpoint

    def __enter__(self) -> Self:
        super().__enter__()
        what = f"{self._name}: loading and verifying"
        self._show(what, 0, None, what, True)
        return self

    def __call__(self, event: Mapping[str, Any]) -> None:
        batch, start, step, steps = event["batch"], event["start"], event["step"], event["steps"]
        what = f"{self._name}: batch {batch + 1}/{event['batches']}, start {start + 1}/{event['starts']}"
        done = (batch * event["starts"] + start) * steps + step
        total = event["batches"] * event["starts"] * steps
        self._show(what, done, total, f"{what}, step {step}/{steps}", step == steps)


class TaskProgress(_Bar):
    """The callback of ``run_demo``; without a terminal, a line when something else begins."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        self._show(what, done, total, f"{100 * done // max(total, 1):3d} %  {what}", what != self._what)
        self._what = what


def print_table(results: Sequence[tuple[str, SharpnessResult]]) -> None:
    """One row per checkpoint; below it what the numbers are, and what a reader must know about single ones."""
    console = Console(highlight=False)
    short = [Path(checkpoint).name for checkpoint, _ in results]
    names = short if len(set(short)) == len(short) else [checkpoint for checkpoint, _ in results]
    table = Table()
    for heading, side in (("checkpoint", "left"), ("sharpness", "right"), ("loss", "right"), ("seconds", "right")):
        table.add_column(heading, justify=side, overflow="fold")  # type: ignore[arg-type]
    for name, (_, result) in zip(names, results, strict=True):
        losses = [batch.loss for batch in result.batches]
        loss = f"{sum(losses) / len(losses):.6g}" if result.ok and losses else ""
        table.add_row(name, f"{result.value:.6g}" if result.ok else result.outcome, loss, f"{result.seconds:.1f}")
    console.print(table)
    console.print(describe(results[-1][1].definitions), markup=False, soft_wrap=True)
    for name, (_, result) in zip(names, results, strict=True):
        for remark in remarks(result):
            console.print(f"{name}: {remark}", markup=False, soft_wrap=True)


def remarks(result: SharpnessResult) -> Iterator[str]:
    """What a reader must know about one value."""
    if not result.ok:
        yield f"{result.outcome}: {result.detail}"
    tested = result.verification
    if tested:
        held = f"{tested['passed']} of {tested['symmetries']} declared symmetries hold on this model"
        yield f"{held} (outputs change by {tested['residual']:.1e} relative, at most)"
    for name, reason in list(result.left_out.items())[:MOST_NAMED]:
        yield f"left out: {name}: {reason}"
    if len(result.left_out) > MOST_NAMED:
        yield f"left out: {len(result.left_out) - MOST_NAMED} more (all are in the JSON)"
    yield from result.notes


def describe(definitions: Mapping[str, Any]) -> str:
    """The settings on which every number of a table depends, in words."""
    d = definitions
    first = f"{d['measure']} sharpness"
    if "metric" in d:
        first += f", {d['metric']} metric, " + (
            "exact geodesics" if d["geodesic"] == "exact" else f"order {d['geodesic']}"
        )
    budget = f"{d['steps']} steps from {d['starts']} start(s), seed {d['seed']}"
    sample = f"{d['batches']} batch(es) of {d['examples_per_batch']} examples"
    parts = [first, f"symmetries {d['symmetries']}", f"rho {d['rho']:g}", budget, sample, str(d["dtype"])]
    return "; ".join(parts)


@contextmanager
def working(what: str, console: Console | None = None) -> Iterator[None]:
    """Say on stderr what is being done: a spinner on a terminal, a line elsewhere."""
    console = Console(stderr=True, highlight=False) if console is None else console
    if not console.is_terminal:
        console.print(what, markup=False, soft_wrap=True)
        yield
        return
    with console.status(escape(what)):
        yield


def output() -> Console:
    """stdout, for results only; wide enough for a table where there is no terminal to fit it to."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_ELSEWHERE)
