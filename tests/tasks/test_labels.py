"""From a label in a file to a class of the model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quotientgeo.errors import DataError, TaskError
from quotientgeo.tasks.labels import Labels

SENTIMENT = Labels({"negative": 0, "Positive": 1}, 2)


@pytest.mark.parametrize(
    ("labels", "value", "index"),
    [
        (SENTIMENT, "negative", 0),
        (SENTIMENT, "Positive", 1),
        (SENTIMENT, " POSITIVE ", 1),
        (SENTIMENT, "1", 1),
        (SENTIMENT, 1, 1),
        (SENTIMENT, 1.0, 1),
        (SENTIMENT, "1.0", 1),
        (SENTIMENT, True, 1),
        (SENTIMENT, False, 0),
        (Labels({"True": 0, "False": 1}, 2), True, 0),
        (Labels({"1": 0, "0": 1}, 2), 1, 0),  # a class may be called by a number that is not its index
        (Labels({"a": 0, "A": 1}, 2), "A", 1),
        (Labels({}, 3), "2", 2),
    ],
)
def test_names_come_before_numbers(labels: Labels, value: Any, index: int) -> None:
    assert labels.index(value, "x.csv, example 1") == index


@pytest.mark.parametrize(
    ("labels", "value", "message"),
    [
        (SENTIMENT, "neutral", "row 3 has the label 'neutral'.*: negative, Positive, or a number from 0 to 1"),
        (SENTIMENT, 2, "has the label '2'"),
        (SENTIMENT, -1, "has the label '-1'"),
        (SENTIMENT, 0.5, "has the label '0.5'"),
        (SENTIMENT, "nan", "has the label 'nan'"),
        (SENTIMENT, "", "row 3 has no label"),
        (SENTIMENT, None, "row 3 has no label"),
        (Labels({"ab": 0, "AB": 1}, 2), "Ab", "has the label 'Ab'"),  # two classes answer to it
        (Labels({f"c{i}": i for i in range(40)}, 40), "x", "c9 and 30 more, or a number from 0 to 39"),
    ],
)
def test_what_is_no_class_is_refused_with_its_place(labels: Labels, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        labels.index(value, "row 3")


def test_what_a_config_says() -> None:
    config = SimpleNamespace(num_labels=2, label2id={"x": 0, "y": "1"}, problem_type=None)
    assert Labels.of(config, "t") == Labels({"x": 0, "y": 1}, 2)
    for changes in ({"num_labels": 1}, {"problem_type": "regression"}, {"problem_type": "multi_label_classification"}):
        with pytest.raises(TaskError, match="one of several classes"):
            Labels.of(SimpleNamespace(**(vars(config) | changes)), "t")
    with pytest.raises(TaskError, match="maps the label 'y' to 5"):
        Labels.of(SimpleNamespace(num_labels=2, label2id={"x": 0, "y": 5}), "t")
