"""What is wrong with a csv file that could not be read, in the words of one who has to mend it."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

_OTHERS = {";": ";", "\t": "tabs", "|": "|"}  # separator -> what it is called
_OPENERS: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def diagnosis(path: Path, sep: str) -> str | None:
    """Another encoding, another separator, or the first line with too many fields; None where it is none of these."""
    opener = _OPENERS.get(path.suffix.lower(), open)
    try:
        with opener(path, "rb") as file:
            data = file.read()
    except (OSError, EOFError, lzma.LZMAError):
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return f"not UTF-8 (line {data[: error.start].count(10) + 1}): save it as UTF-8"
    rows = csv.reader(text.splitlines(keepends=True), delimiter=sep)
    try:
        header = next(rows)
        other = separator_of(header[0]) if len(header) == 1 else None
        if other:
            return f"is it separated by {other}? save it with {_called(sep)}"
        return next((_too_many(rows.line_num, row, header, sep) for row in rows if len(row) > len(header)), None)
    except (csv.Error, StopIteration, IndexError):
        return None


def separator_of(header: str) -> str | None:
    """What seems to separate the names in a header that was read as one."""
    return next((called for sep, called in _OTHERS.items() if sep in header), None)


def _called(sep: str) -> str:
    return {",": "commas", "\t": "tabs"}.get(sep, sep)


def _too_many(line: int, row: list[str], header: list[str], sep: str) -> str:
    what = {",": "a comma", "\t": "a tab"}.get(sep, repr(sep))
    return f"line {line} has {len(row)} fields for {len(header)} columns; quote texts that contain {what}"
