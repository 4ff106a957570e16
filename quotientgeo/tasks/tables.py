"""Rows of a local csv, tsv, json, jsonl, parquet or text file, read through ``datasets`` leaving nothing behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from warnings import catch_warnings, filterwarnings

from quotientgeo.errors import DataError, first_line
from quotientgeo.tasks.csv_faults import diagnosis, separator_of

# ending -> the reader of ``datasets``, and its options
READERS: dict[str, tuple[str, dict[str, Any]]] = {
    ".csv": ("csv", {"sep": ","}),
    ".tsv": ("csv", {"sep": "\t"}),
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".ndjson": ("json", {}),
    ".parquet": ("parquet", {}),
    ".txt": ("text", {}),
}
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


@dataclass(frozen=True)
class Table:
    """The first rows of a file, in its order. total: how many it has; numbers: of each row, as the file counts them from 1."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    numbers: tuple[int, ...]
    total: int

    def only(self, kept: Sequence[int]) -> Table:
        """The rows at these places."""
        return replace(self, rows=tuple(self.rows[i] for i in kept), numbers=tuple(self.numbers[i] for i in kept))

    def column(self, name: str | None, usual: Sequence[str], option: str) -> str:
        """The column called ``name``, or where that is None the first of the ``usual`` names that there is.

        Raises DataError, listing the columns, where there is none.
        """
        if name is not None and name in self.columns:
            return name
        found = [column for column in usual if column in self.columns] if name is None else []
        if found:
            return found[0]
        wanted = repr(name) if name is not None else " or ".join(map(repr, usual))
        other = separator_of(self.columns[0]) if len(self.columns) == 1 else None
        fix = f"is it separated by {other}? save it with commas" if other else f"name one with {option}"
        raise DataError(
            f"{self.path} has no column {wanted} (its columns: {', '.join(map(repr, self.columns))}): {fix}"
        )


def read_table(path: Path, limit: int | None) -> Table:
    """The first ``limit`` rows of a file. Cells of csv files are text, as they stand; blank lines of text files are passed over.

    Raises DataError for a missing, empty or damaged file, or an ending that is none of READERS (.gz, .bz2, .xz and .zst may
    follow it).
    """
    reader, options = _reader(path)
    with _quiet_datasets(), tempfile.TemporaryDirectory(prefix="quotientgeo-data-") as cache, catch_warnings():
        try:
            filterwarnings("error", message="Length of header")  # cells beyond the header would be dropped
            from datasets import load_dataset

            if reader == "csv":
                options = options | _all_text(path, options["sep"])
            data = load_dataset(
                reader, data_files=_literal(path), split="train", cache_dir=cache, keep_in_memory=True, **options
            )
            columns = tuple(data.column_names)
            total, rows, numbers = _first(data, limit, skip_blank=reader == "text")
        except ImportError as error:
            raise DataError(f"reading {path} needs datasets: pip install 'quotientgeo[hf]'") from error
        except Exception as error:
            if "corresponds to no data" in str(error):  # what datasets says of a file without rows
                raise DataError(f"{path} holds no examples") from error
            words = (diagnosis(path, options["sep"]) if reader == "csv" else None) or _cause(error)
            raise DataError(f"{path} cannot be read as {reader}: {words}") from error
    if not rows:
        raise DataError(f"{path} holds no examples")
    return Table(path, columns, rows, numbers, total)


def _reader(path: Path) -> tuple[str, dict[str, Any]]:
    endings = [suffix.lower() for suffix in path.suffixes]
    if endings and endings[-1] in _COMPRESSED:
        endings.pop()
    known = READERS.get(endings[-1]) if endings else None
    if not path.exists():
        raise DataError(f"data file {path} does not exist; nothing is downloaded")
    if path.is_dir():
        raise DataError(f"{path} is a folder: this task reads one file ({', '.join(READERS)})")
    if known is None:
        raise DataError(
            f"{path} has an ending that is not known: expected {', '.join(READERS)}, or one of them with .gz"
        )
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    return known


def _literal(path: Path) -> str:
    """The path with its wildcards taken literally."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path.resolve()))


def _all_text(path: Path, sep: str) -> dict[str, Any]:
    """Options by which no cell of a csv file is taken for a number or a missing value: "007" and "NA" are texts."""
    import pandas
    from datasets import Features, Value

    names = [str(name) for name in pandas.read_csv(path, sep=sep, nrows=0, dtype=str, index_col=False).columns]
    return {
        "features": Features({name: Value("string") for name in names}),
        "keep_default_na": False,
        "index_col": False,
    }


def _first(data: Any, limit: int | None, skip_blank: bool) -> tuple[int, tuple[dict[str, Any], ...], tuple[int, ...]]:
    """Number of rows, and the first of them with their numbers."""
    numbers = list(range(len(data)))
    if skip_blank:
        numbers = [i for i, text in enumerate(data["text"]) if text.strip()]
    chosen = numbers[:limit]
    return len(numbers), tuple(dict(data[i]) for i in chosen), tuple(i + 1 for i in chosen)


@contextmanager
def _quiet_datasets() -> Iterator[None]:
    """Without bars and log lines, which would mix with the result."""
    try:
        import datasets
    except ImportError:
        yield
        return
    bars, verbosity = datasets.utils.logging.is_progress_bar_enabled(), datasets.utils.logging.get_verbosity()
    datasets.utils.logging.disable_progress_bar()
    datasets.utils.logging.set_verbosity(datasets.utils.logging.CRITICAL)
    try:
        yield
    finally:
        datasets.utils.logging.set_verbosity(verbosity)
        if bars:
            datasets.utils.logging.enable_progress_bar()


def _cause(error: BaseException) -> str:
    """The first line of the error at the root: ``datasets`` wraps it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {first_line(error)}" if str(error).strip() else type(error).__name__
