"""The ``quotientgeo`` command. Each command is one file; nothing heavy is imported before a command runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from quotientgeo.cli.sharpness import sharpness
from quotientgeo.errors import QuotientgeoError

NAMED_ERROR = 2  # exit code of every error that quotientgeo raises on purpose, as of a wrong option


class Commands(TyperGroup):
    """A named error ends a command with one line on stderr: its text says what to do, a traceback would not."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except QuotientgeoError as error:
            typer.echo(f"{type(error).__name__}: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(NAMED_ERROR) from error


app = typer.Typer(
    name="quotientgeo",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(sharpness)


def _print_version(wanted: bool) -> None:
    if wanted:
        from quotientgeo import __version__

        typer.echo(f"quotientgeo {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Measure checkpoints modulo the symmetries of their architecture."""


def main() -> None:
    """Entry point of the console script."""
    app()
