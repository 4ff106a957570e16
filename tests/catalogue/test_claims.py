"""What is proven of every entry, as written down here; a claim that falls below that is a failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CATALOGUE = Path(__file__).parents[2] / "quotientgeo" / "catalogue"
NAMES = sorted(path.parent.name for path in CATALOGUE.glob("*/declaration.py"))
ALL_SIZES, SOME_SIZES, TESTED = "proven for all sizes", "proven for sizes", "tested"
STRENGTH = [TESTED, SOME_SIZES, ALL_SIZES]

BASIC = [
    "action_identity",
    "action_composition",
    "vertical_from_action",
    "action_free",
    "preserved",
    "vertical_in_kernel",
    "metric_symmetric",
    "metric_bilinear",
    "invariance",
    "horizontal_condition",
    "gradient",
    "acceleration",
    "energy_conserved",
    "momentum_conserved",
    "acceleration_equivariant",
    "christoffel_symmetric",
    "christoffel_quadratic",
    "metric_compatible",
    "vertical_gram",
    "taylor_2",
    "taylor_3",
    "taylor_4",
    "metric_positive_definite",
]
PROJECTOR = ["horizontal_momentum", "horizontal_projects", "horizontal_difference"]

# where the horizontal part is solved for at run time, there is no formula of it to claim anything of
SOLVED = {
    "gl_pair_damped",
    "gl_pair_invariant",
    "grouped_queries_invariant",
    "linear_chain_invariant",
    "lora_invariant",
    "orthogonal_pair_euclidean",
    "orthogonal_pair_stacked",
}
# below "proven for all sizes"
BELOW = {
    "norm_gain_affine_invariant": {"metric_positive_definite": TESTED},
}


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CATALOGUE / name / "certificate.json").read_text(encoding="utf-8"))
    return found


def wanted(name: str) -> dict[str, str]:
    """{claim: the least it must reach}."""
    claims = BASIC if name in SOLVED else BASIC + PROJECTOR
    return dict.fromkeys(claims, ALL_SIZES) | BELOW.get(name, {})


def shortfalls(name: str, statuses: dict[str, str]) -> list[str]:
    """Claims that are missing, or less than what is written above."""
    return [
        f"{claim}: {statuses.get(claim, 'missing')}, not {least}"
        for claim, least in wanted(name).items()
        if strength(statuses.get(claim, "missing")) < strength(least)
    ]


def strength(status: str) -> int:
    return next((i for i, words in enumerate(STRENGTH) if status.startswith(words)), -1)


@pytest.mark.parametrize("name", NAMES)
def test_no_claim_is_below_what_is_written(name: str) -> None:
    found = record(name)
    assert found["holds"]
    statuses = {claim["name"]: claim["status"] for claim in found["claims"]}
    assert not shortfalls(name, statuses)
    for claim, least in wanted(name).items():  # the comparison sees every claim that falls
        assert shortfalls(name, statuses | {claim: "false"}) == [f"{claim}: false, not {least}"]


@pytest.mark.parametrize("name", NAMES)
def test_the_code_is_proven_but_for_what_is_solved_at_run_time(name: str) -> None:
    functions = dict(record(name)["generated"]["functions"])
    assert {"action", "inner", "gradient", "vertical", "momentum", "horizontal", "acceleration"} <= set(functions)
    if name in SOLVED:
        assert functions.pop("horizontal").startswith("tested in float64 at random points")
    for function, status in functions.items():
        rest = status.removeprefix(ALL_SIZES)
        assert rest == "", function
