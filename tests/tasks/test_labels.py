"""From a label in a file to a class of the model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quotientgeo.errors import DataError, TaskError
from quotientgeo.tasks.labels import BOTH, INDICES, NAMES, Labels

SENTIMENT = Labels({"negative": 0, "Positive": 1}, 2)


TURNED = Labels({"1": 0, "2": 1, "0": 2}, 3)  # names that are other classes' indices
STARS = Labels({str(k + 1): k for k in range(5)}, 5)


def read(labels: Labels, *values: Any) -> tuple[list[int], str]:
    return labels.indices(values, [f"row {i + 1}" for i in range(len(values))])


@pytest.mark.parametrize(
    ("labels", "values", "indices", "reading"),
    [
        (SENTIMENT, ("negative", "Positive", " POSITIVE "), [0, 1, 1], NAMES),
        (SENTIMENT, ("1", 1, 1.0, "1.0", "0"), [1, 1, 1, 1, 0], INDICES),
        (SENTIMENT, (True, False), [1, 0], INDICES),
        (Labels({"True": 0, "False": 1}, 2), (True, False), [0, 1], NAMES),
        (Labels({"a": 0, "A": 1}, 2), ("A", "a"), [1, 0], NAMES),
        (Labels({}, 3), ("2", "0"), [2, 0], INDICES),
        (Labels({"0": 0, "1": 1}, 2), ("1", 0), [1, 0], BOTH),
        (STARS, ("0", "1", "2", "3", "4"), [0, 1, 2, 3, 4], INDICES),  # 0 is no name: so 1 is none either
        (STARS, ("5", "1", 2.0), [4, 0, 1], NAMES),  # 5 is no index
    ],
)
def test_the_labels_of_a_file_have_one_reading(
    labels: Labels, values: tuple[Any, ...], indices: list[int], reading: str
) -> None:
    assert read(labels, *values) == (indices, reading)


@pytest.mark.parametrize(
    ("labels", "values", "message"),
    [
        (
            SENTIMENT,
            ("negative", "neutral"),
            "row 2 has the label 'neutral'.*: negative, Positive, or a number from 0 to 1",
        ),
        (SENTIMENT, (2,), "has the label '2'"),
        (SENTIMENT, (-1,), "has the label '-1'"),
        (SENTIMENT, (0.5,), "has the label '0.5'"),
        (SENTIMENT, ("nan",), "has the label 'nan'"),
        (SENTIMENT, ("1", ""), "row 2 has no label"),
        (SENTIMENT, (None,), "row 1 has no label"),
        (
            SENTIMENT,
            ("1", "negative"),
            "row 2 has the label 'negative', a class name, but row 1 has '1', which is an index",
        ),
        (STARS, ("0", "5"), "row 2 has the label '5', a class name, but row 1 has '0', which is an index only"),
        (TURNED, ("1",), "'1', which is the name of class 0 and the index of class 1, .*: rename the classes"),
        (STARS, ("1", "2"), "row 1 has the label '1', which is the name of class 0"),
        (STARS, (1.0, 2.0), "row 1 has the label '1.0', which is the name of class 0"),  # a column of numbers
        (Labels({"ab": 0, "AB": 1}, 2), ("Ab",), "has the label 'Ab'"),  # two classes answer to it
        (Labels({"LABEL_0": 0, "LABEL_1": 1}, 2), ("good",), "LABEL_0, LABEL_1, .*; set id2label in config.json"),
        (Labels({f"c{i}": i for i in range(40)}, 40), ("x",), "c9 and 30 more, or a number from 0 to 39$"),
    ],
)
def test_what_has_no_reading_is_refused_with_its_place(labels: Labels, values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(labels, *values)


def test_a_reading_is_worth_a_note_where_names_are_other_numbers() -> None:
    assert STARS.could_mislead(INDICES)
    assert STARS.could_mislead(NAMES)
    assert not SENTIMENT.could_mislead(INDICES)
    assert not Labels({"0": 0, "1": 1}, 2).could_mislead(BOTH)


def test_what_a_config_says() -> None:
    config = SimpleNamespace(num_labels=2, label2id={"x": 0, "y": "1"}, problem_type=None)
    assert Labels.of(config, "t") == Labels({"x": 0, "y": 1}, 2)
    for changes in ({"num_labels": 1}, {"problem_type": "regression"}, {"problem_type": "multi_label_classification"}):
        with pytest.raises(TaskError, match="one of several classes"):
            Labels.of(SimpleNamespace(**(vars(config) | changes)), "t")
    with pytest.raises(TaskError, match="maps the label 'y' to 5"):
        Labels.of(SimpleNamespace(num_labels=2, label2id={"x": 0, "y": 5}), "t")
