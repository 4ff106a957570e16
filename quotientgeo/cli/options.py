"""Options that more than one command has, and what is made of them."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from quotientgeo.tasks import DataOptions

NOT_OK = 3  # exit code where a command did its work, but what it found is not what one would want


def _positive(rho: float) -> float:
    if not (math.isfinite(rho) and rho > 0):
        raise typer.BadParameter(f"{rho} is not a finite number > 0: it is the radius of the ball that is searched")
    return rho


def condition_number(condition: float) -> float:
    """The callback of every option that is one."""
    if not (math.isfinite(condition) and condition >= 1):
        raise typer.BadParameter(f"{condition} is not a finite number >= 1: it is a condition number")
    if condition * sys.float_info.epsilon > 1:  # groups.LARGEST_CONDITION, without importing torch for it
        raise typer.BadParameter(
            f"{condition:g} is too large: float64 keeps no digit of such a move; use a smaller condition"
        )
    return condition


Rho = Annotated[float, typer.Option(callback=_positive, help="Radius of the ball, in the norm of the measure.")]
Steps = Annotated[int, typer.Option(min=1, help="Auto-PGD steps of each start.")]
Symmetries = Annotated[
    Literal["attention", "paper", "none"],
    typer.Option(help="Which symmetries are declared. paper: key and value biases as rows of the factors."),
]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Examples of one batch, m. [default: 16]")]
Limit = Annotated[
    int | None, typer.Option(min=0, help="The first so many examples of the data, 0 for all. [default: 128]")
]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Tokens at which a text is cut. [default: 128]")]
TextColumn = Annotated[
    str | None, typer.Option(help="Column of the texts; of pairs, two with a comma between. [default: text]")
]
LabelColumn = Annotated[str | None, typer.Option(help="Column of the labels: names or numbers. [default: label]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one line for each result, and no table.")]
Checkpoint = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A local Hugging Face folder.")]


def data_options(
    batch_size: int | None,
    limit: int | None,
    max_length: int | None,
    text_column: str | None,
    label_column: str | None,
    seed: int,
    task: str,
) -> DataOptions | None:
    """The data options that were given; None where none was and the task is a file, which reads its data in its own way."""
    from quotientgeo.tasks import BUILT_IN, DataOptions

    given: dict[str, Any] = {"batch_size": batch_size, "max_length": max_length}
    given |= {"text_column": text_column, "label_column": label_column}
    given = {name: value for name, value in given.items() if value is not None}
    if limit is not None:
        given["limit"] = limit or None
    return DataOptions(**given, seed=seed) if given or task in BUILT_IN else None
