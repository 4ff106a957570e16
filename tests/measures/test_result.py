"""SharpnessResult survives JSON, and what is not a number stays visible as such."""

from __future__ import annotations

import json
import math

import pytest

from quotientgeo.errors import ArgumentError
from quotientgeo.measures.result import BatchResult, SharpnessResult


@pytest.fixture
def result():
    batch = BatchResult(0.25, 1.0, 1.25, 0.05, 1, 7, [[1.0, 1.1], [0.9, math.nan]], 2e-16)
    return SharpnessResult(
        value=0.25,
        outcome="ok",
        detail="",
        batches=[batch, batch],
        per_block={"layer 0": {"norm_share": 0.5, "gain_share": 0.7}},
        definitions={"measure": "geodesic", "rho": 0.05, "examples_per_batch": 8},
        frozen={"key.bias": "no effect"},
        notes=["a note"],
    )


def test_round_trip(result):
    again = SharpnessResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert again.per_batch == [0.25, 0.25]
    assert math.isnan(again.batches[0].trace[1][1])
    assert again.definitions == result.definitions


def test_json_is_strict_and_no_value_is_null(result):
    failed = SharpnessResult(math.nan, "non_finite_loss", "batch 0: NaN", [], {}, {"measure": "geodesic", "rho": 0.1})
    read = json.loads(failed.to_json(), parse_constant=lambda c: pytest.fail(f"not JSON: {c}"))
    assert read["value"] is None
    assert math.isnan(SharpnessResult.from_json(failed.to_json()).value)
    assert "non_finite_loss" in str(failed)
    assert not failed.ok


@pytest.mark.parametrize("change", [{"schema": 99}, {"schema": None}, {"surprise": 1}])
def test_what_this_version_cannot_read_is_refused(result, change):
    text = json.dumps(json.loads(result.to_json()) | change)
    with pytest.raises(ArgumentError, match="this result has"):
        SharpnessResult.from_json(text)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1}', "null"])
def test_what_is_no_result_is_refused(text):
    with pytest.raises(ArgumentError, match=r"this is not the JSON of a result|lacks the fields"):
        SharpnessResult.from_json(text)
