"""``quotientgeo sharpness``: measure checkpoints under a task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quotientgeo.cli.options import (
    NOT_OK,
    BatchSize,
    Json,
    LabelColumn,
    Limit,
    MaxLength,
    Rho,
    Steps,
    Symmetries,
    TextColumn,
    data_options,
)

if TYPE_CHECKING:
    from quotientgeo import SharpnessResult
    from quotientgeo.tasks import Task


def _appendable(out: Path | None) -> Path | None:
    """Refuse a file that cannot be written before hours of work, not after."""
    if out is not None:
        new = not out.exists()
        try:
            out.open("a").close()
            if new:  # no empty file where it ends with an error
                out.unlink()
        except OSError as error:
            raise typer.BadParameter(f"cannot append to {out}: {error.strerror}") from error
    return out


def _append(out: Path, line: str) -> None:
    try:
        with out.open("a") as file:
            file.write(line + "\n")
    except OSError as error:
        raise typer.BadParameter(f"cannot append to {out}: {error.strerror}", param_hint="'--out'") from error


Checkpoints = Annotated[
    list[str], typer.Argument(metavar="CHECKPOINT...", help="Local Hugging Face folders, or what a FILE.py loads.")
]
TaskName = Annotated[
    str,
    typer.Option(
        "--task",
        metavar="TASK",
        help="text-classification, image-classification, masked-lm, or a FILE.py that defines load(checkpoint), "
        "batches(data), loss(model, batch).",
    ),
]
Data = Annotated[
    str,
    typer.Option(
        metavar="DATA",
        help="A csv, tsv, json, jsonl, parquet or txt file; for images, a folder with a folder for each class; for a FILE.py, "
        "what its batches() reads.",
    ),
]
Measure = Annotated[
    Literal["geodesic", "adaptive", "euclidean"], typer.Option(help="Which displacements are searched, and their norm.")
]
Metric = Annotated[Literal["invariant", "mixed"], typer.Option(help="Metric on the attention pairs (geodesic only).")]
Geodesic = Annotated[
    Literal["exact", "1", "2", "3", "4"],
    typer.Option(help="Exact, or the order of the Taylor polynomial (geodesic only)."),
]
Starts = Annotated[
    int,
    typer.Option(min=1, help="The first follows the gradient, the second may begin opposite to it, others at random."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random starts, and of the masks of masked-lm.")]
Unverified = Annotated[
    Literal["refuse", "exclude"], typer.Option(help="What to do with a symmetry that does not hold on this model.")
]
MicroBatchSize = Annotated[
    int | None, typer.Option(min=1, help="Examples of one forward pass: less memory, same value.")
]
Dtype = Annotated[
    Literal["float32", "float64"] | None,
    typer.Option(help="Convert weights and batches first. [default: as the task makes them]"),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", callback=_appendable, help="Append each result as one line of JSON."),
]


def sharpness(
    checkpoints: Checkpoints,
    task: TaskName,
    data: Data,
    measure: Measure = "geodesic",
    metric: Metric = "invariant",
    geodesic: Geodesic = "exact",
    rho: Rho = 0.05,
    steps: Steps = 20,
    starts: Starts = 1,
    seed: Seed = 0,
    symmetries: Symmetries = "attention",
    unverified: Unverified = "refuse",
    micro_batch_size: MicroBatchSize = None,
    dtype: Dtype = None,
    batch_size: BatchSize = None,
    limit: Limit = None,
    max_length: MaxLength = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Measure how far the loss can rise near each CHECKPOINT.

    Exit code 0: every checkpoint has a value. 2: an error; the results before it are in --out. 3: a checkpoint has a named
    outcome instead of a value.
    """
    settings: dict[str, Any] = {
        "measure": measure,
        "metric": metric,
        "geodesic": geodesic if geodesic == "exact" else int(geodesic),
    }
    settings |= {"rho": rho, "steps": steps, "starts": starts, "seed": seed, "symmetries": symmetries}
    settings |= {"unverified": unverified, "micro_batch_size": micro_batch_size}
    from quotientgeo.tasks import load_task

    chosen = load_task(task, data_options(batch_size, limit, max_length, text_column, label_column, seed, task))
    _measure_all(chosen, checkpoints, data, dtype, settings, out, json)


def _measure_all(
    task: Task,
    checkpoints: list[str],
    data: str,
    dtype: str | None,
    settings: dict[str, Any],
    out: Path | None,
    json: bool,
) -> None:
    """One result after another; each is written as soon as it is there."""
    from quotientgeo.cli.display import Progress, print_table
    from quotientgeo.tasks import CheckpointTask

    if isinstance(task, CheckpointTask):  # what a task file loads, only the file knows
        task.require(checkpoints)
    results: list[tuple[str, SharpnessResult]] = []
    try:
        for checkpoint in checkpoints:
            with Progress(checkpoint) as progress:
                result = _measure(task, checkpoint, data, dtype, settings | {"progress": progress})
            results.append((checkpoint, result))
            line = result.to_json()
            try:
                if out is not None:
                    _append(out, line)
            finally:  # what was measured is not lost with a full disk
                if json:
                    typer.echo(line)
    finally:
        if results and not json:
            print_table(results)
    if not all(result.ok for _, result in results):
        raise typer.Exit(NOT_OK)


def _measure(task: Task, checkpoint: str, data: str, dtype: str | None, settings: dict[str, Any]) -> SharpnessResult:
    """One result, with the names that the command was given among its definitions."""
    import torch

    import quotientgeo
    from quotientgeo.tasks import converted

    model = task.load(checkpoint)
    batches = task.batches(data)
    named: dict[str, Any] = {"checkpoint": checkpoint, "data": data} | task.definitions
    if dtype is not None:
        model, batches, before = converted(model, batches, getattr(torch, dtype))
        named |= before
    result = quotientgeo.sharpness(model, task.loss, batches, **settings)
    return replace(result, definitions=result.definitions | named, notes=[*task.notes, *result.notes])
