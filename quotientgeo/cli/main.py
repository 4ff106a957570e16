"""The ``quotientgeo`` command. Each command is one file; nothing heavy is imported before a command runs."""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from quotientgeo.cli.demo import demo
from quotientgeo.cli.derive import derive
from quotientgeo.cli.inspect import inspect
from quotientgeo.cli.orbit import orbit
from quotientgeo.cli.sharpness import sharpness
from quotientgeo.errors import QuotientgeoError, UnknownArchitectureError

NAMED_ERROR = 2  # exit code of every error that quotientgeo raises on purpose, as of a wrong option
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


_UsageError: type[Exception] = typer.BadParameter.__base__  # type: ignore[assignment]  # typer does not name it


class Commands(TyperGroup):
    """A named error ends a command with one line on stderr: its text says what to do, a traceback would not."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except QuotientgeoError as error:
            here = " (here: --symmetries none)" if isinstance(error, UnknownArchitectureError) else ""
            typer.echo(f"{type(error).__name__}: {_one_line(str(error))}{here}", err=True)
            raise typer.Exit(NAMED_ERROR) from error
        except _UsageError as error:
            where = getattr(error, "ctx", None) or ctx
            words = _one_line(error.format_message())  # type: ignore[attr-defined]
            typer.echo(f"Error: {words} (options: {where.command_path} --help)", err=True)
            raise typer.Exit(NAMED_ERROR) from error


def _one_line(message: str) -> str:
    """A message without the code that some give as an example: it means nothing without its line breaks."""
    words = re.sub(r":\n\n(?:    .*\n|\n)+", ", ", message)
    return " ".join(words.split())


app = typer.Typer(
    name="quotientgeo",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(demo)
app.command()(inspect)
app.command()(orbit)
app.command()(sharpness)
app.command()(derive)


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
    """Entry point of the console script. Nothing that a command uses may go looking for files on the network."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    try:
        app()
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:  # a file of a command's own is named in its error
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's exit would fail on what is left
        typer.echo(f"Error: cannot write to stdout: {error.strerror}", err=True)
        sys.exit(NAMED_ERROR)
