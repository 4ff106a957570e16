"""Options that more than one command has, and what is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from quotientgeo.tasks import DataOptions

BatchSize = Annotated[int | None, typer.Option(min=1, help="Examples of one batch, m. [default: 16]")]
Limit = Annotated[
    int | None, typer.Option(min=0, help="The first so many examples of the data, 0 for all. [default: 128]")
]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Tokens at which a text is cut. [default: 128]")]
TextColumn = Annotated[
    str | None, typer.Option(help="Column of the texts; of pairs, two with a comma between. [default: text]")
]
LabelColumn = Annotated[str | None, typer.Option(help="Column of the labels: names or numbers. [default: label]")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no table.")]
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
