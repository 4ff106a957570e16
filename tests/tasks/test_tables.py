"""Local files become rows: nothing is guessed, nothing is lost, nothing is left behind."""

from __future__ import annotations

import bz2
import gzip
import json
import tempfile
from pathlib import Path

import pytest

from quotientgeo.errors import DataError
from quotientgeo.tasks.tables import read_table


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_cells_of_a_csv_file_stay_text(tmp_path: Path) -> None:
    text = 'text,label,n\nNA,0,1.0\n007,1,\n"two, lines\nof it",null,nan\n,2,é\n'
    table = read_table(write(tmp_path, "x.csv", text), None)
    assert table.columns == ("text", "label", "n")
    assert [tuple(row.values()) for row in table.rows] == [
        ("NA", "0", "1.0"),
        ("007", "1", ""),
        ("two, lines\nof it", "null", "nan"),
        ("", "2", "é"),
    ]


def test_a_type_that_changes_late_in_a_file_is_no_trouble(tmp_path: Path) -> None:
    """Readers that guess types guess them from a part."""
    rows = "\n".join(f"{i},0" for i in range(12_000)) + "\nlate words,1\n"
    table = read_table(write(tmp_path, "x.csv", f"text,label\n{rows}"), None)
    assert table.total == 12_001
    assert table.rows[-1] == {"text": "late words", "label": "1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.tsv", "text\tlabel\na, b\t1\nc\t0\n"),
        ("x.CSV", 'text,label\n"a, b",1\nc,0\n'),
        ("x.jsonl", '{"text": "a, b", "label": "1"}\n{"text": "c", "label": "0"}\n'),
        ("x.ndjson", '{"text": "a, b", "label": "1"}\n{"text": "c", "label": "0"}\n'),
        ("x.json", '[{"text": "a, b", "label": "1"}, {"text": "c", "label": "0"}]'),
        ("with [brackets] * and ?.csv", 'text,label\n"a, b",1\nc,0\n'),
        ("bom.csv", '\ufefftext,label\n"a, b",1\nc,0\n'),
        ("two.dots.csv", 'text,label\n"a, b",1\nc,0\n'),
    ],
)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str, text: str) -> None:
    table = read_table(write(tmp_path, name, text), None)
    assert table.rows == ({"text": "a, b", "label": "1"}, {"text": "c", "label": "0"})


def test_parquet_and_compressed_files(tmp_path: Path) -> None:
    from datasets import Dataset

    Dataset.from_dict({"text": ["a"], "label": [1]}).to_parquet(str(tmp_path / "x.parquet"))
    assert read_table(tmp_path / "x.parquet", None).rows == ({"text": "a", "label": 1},)
    for name, module in (("x.csv.gz", gzip), ("x.csv.bz2", bz2)):
        (tmp_path / name).write_bytes(module.compress(b"text,label\nNA,1\n"))
        assert read_table(tmp_path / name, None).rows == ({"text": "NA", "label": "1"},)


def test_json_keeps_its_types(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": True}, {"text": "b", "label": None}]
    path = write(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert [row["label"] for row in read_table(path, None).rows] == [True, None]


def test_a_limit_takes_the_first_rows_and_counts_all(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "x.csv", "text\na\nb\nc\n"), 2)
    assert ([row["text"] for row in table.rows], table.numbers, table.total) == (["a", "b"], (1, 2), 3)


def test_blank_lines_of_a_text_file_are_passed_over_but_counted(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "x.txt", "one\n\n   \ntwo\nthree\n"), 2)
    assert ([row["text"] for row in table.rows], table.numbers, table.total) == (["one", "two"], (1, 4), 3)


def test_columns_are_found_by_name_or_by_habit(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "x.csv", "sentence,y\na,1\n"), None)
    assert table.column(None, ("text", "sentence"), "--text-column") == "sentence"
    assert table.column("y", ("text",), "--text-column") == "y"
    for name in (None, "z"):
        with pytest.raises(DataError, match=r"its columns: 'sentence', 'y'\): name one with --label-column"):
            table.column(name, ("label",), "--label-column")
    table = read_table(write(tmp_path, "semi.csv", "text;label\na;1\n"), None)
    with pytest.raises(DataError, match=r"no column 'text' \(its columns: 'text;label'\): is it separated by ;\?"):
        table.column(None, ("text",), "--text-column")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "", "is empty"),
        ("x.csv", "text,label\n", "holds no examples"),
        ("x.txt", "\n \n", "holds no examples"),
        ("x.jsonl", '{"text": ', "cannot be read as json"),
        ("x.csv", 'text,label\n"a,1\n', "cannot be read as csv"),
        ("x.csv", "text,label\na,1,2,3\n", "line 2 has 4 fields for 2 columns; quote texts that contain a comma"),
        ("x.csv", 'text,label\n"a\nb",1\nc, d,0\n', "line 4 has 3 fields for 2 columns"),
        ("x.tsv", "text\tlabel\na\tb\t0\n", "line 2 has 3 fields for 2 columns; quote texts that contain a tab"),
        ("x.csv", "text;label\na, b;1\n", r"is it separated by ;\? save it with commas"),
        ("x.docx", "a", r"ending that is not known: expected \.csv"),
        ("x", "a", "ending that is not known"),
    ],
)
@pytest.mark.filterwarnings("default")  # as in a user's process
def test_what_cannot_be_read_is_a_named_error(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_table(write(tmp_path, name, text), None)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_a_folder_and_another_encoding(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist; nothing is downloaded"):
        read_table(tmp_path / "x.csv", None)
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path, None)
    (tmp_path / "x.csv").write_bytes("text\né\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"not UTF-8 \(line 2\): save it as UTF-8"):
        read_table(tmp_path / "x.csv", None)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress("text\na\né\n".encode("latin-1")))
    with pytest.raises(DataError, match=r"not UTF-8 \(line 3\): save it as UTF-8"):
        read_table(tmp_path / "x.csv.gz", None)


def test_nothing_is_left_behind_and_screen_and_settings_are_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from datasets.utils import logging

    before = (logging.get_verbosity(), logging.is_progress_bar_enabled())
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "data").mkdir()
    path = write(tmp_path / "data", "x.csv", "text\na\n")
    table = read_table(path, None)
    assert table.rows == ({"text": "a"},)
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["x.csv"]
    assert not list((tmp_path / "temporary").iterdir())
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert capfd.readouterr() == ("", "")
