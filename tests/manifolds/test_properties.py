"""Every property on every case of the table, and on pairs that hypothesis makes up."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manifolds import properties
from tests.manifolds.cases import GEODESICS, METRICS, TABLE, Case


@pytest.mark.parametrize("case", TABLE, ids=str)
@pytest.mark.parametrize("holds", properties.PROPERTIES, ids=lambda p: p.__name__)
def test_the_table(holds, case) -> None:
    holds(case)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    h = draw(st.integers(1, 4))
    return Case(
        metric=draw(st.sampled_from(METRICS)),
        geodesic=draw(st.sampled_from(GEODESICS)),
        n=h + draw(st.integers(0, 4)),
        m=h + draw(st.integers(0, 4)),
        h=h,
        batch=tuple(draw(st.lists(st.integers(1, 3), max_size=2))),
        dtype=draw(st.sampled_from([torch.float64, torch.float32])),
        trip=draw(st.sampled_from(["", "pickle", "deepcopy"])),
        gauge=draw(st.floats(1, 10)),
        seed=draw(st.integers(0, 10**6)),
    )


@settings(deadline=None, max_examples=60, derandomize=True)
@given(case=cases(), holds=st.sampled_from(properties.PROPERTIES))
def test_made_up_pairs(case, holds) -> None:
    holds(case)
