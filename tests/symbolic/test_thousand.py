"""A thousand random expressions: engine and generated code against torch; derivations in threads against one after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import pytest
import sympy as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotientgeo.symbolic.codegen.module import module_source
from quotientgeo.symbolic.derivation import derive
from tests.symbolic.algebra import expressions, special
from tests.symbolic.algebra.expressions import Pair
from tests.symbolic.derivation.declarations import CHAIN, PAIR, chain_inner, metric
from tests.symbolic.derivation.elementwise import TRUE, declared
from tests.symbolic.twins import PLAIN, SPECIAL, World, by_torch, check_code, check_engine

EACH = 500  # of plain letters, and of special ones
SOME = settings(
    max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
MANY = settings(SOME, max_examples=EACH)
PLAIN_CASES = (expressions.squares(), st.sampled_from(sorted({"G", "H", "xi", "A", "S", "Z"})), st.integers(0, 1000))
SPECIAL_CASES = (special.squares(), st.sampled_from(SPECIAL.letters), st.integers(0, 1000))


def check(world: World, pair: Pair, by: str, seed: int) -> None:
    check_engine(world, pair, by, seed % 4)
    check_code(world, pair, by, seed)


@SOME
@given(*PLAIN_CASES)
def test_some_plain_expressions(pair: Pair, by: str, seed: int) -> None:
    check(PLAIN, pair, by, seed)


@SOME
@given(*SPECIAL_CASES)
def test_some_special_expressions(pair: Pair, by: str, seed: int) -> None:
    check(SPECIAL, pair, by, seed)


@pytest.mark.slow
@MANY
@given(*PLAIN_CASES)
def test_five_hundred_plain_expressions(pair: Pair, by: str, seed: int) -> None:
    check(PLAIN, pair, by, seed)


@pytest.mark.slow
@MANY
@given(*SPECIAL_CASES)
def test_five_hundred_special_expressions(pair: Pair, by: str, seed: int) -> None:
    check(SPECIAL, pair, by, seed)


def test_rows_of_ones_stay_rows() -> None:
    """Found by these tests: a transposed column of ones was written as the column."""
    ones = sp.OneMatrix(special.D, special.D)
    one = torch.ones(special.SIZE, special.SIZE, dtype=torch.float64)
    M = special.SYMBOL["M"]
    for pair in (
        Pair(ones, lambda w: one),
        Pair(ones * M, lambda w: one @ w["M"]),
        Pair((sp.Identity(special.D) + ones).I * M, lambda w: torch.linalg.inv(torch.eye(len(one)) + one) @ w["M"]),
    ):
        check(SPECIAL, pair, "M", 0)


def test_the_comparison_can_fail() -> None:
    gram = expressions.LEAVES[0]
    right = Pair(gram.expression, gram.function)
    wrong = Pair(gram.expression, lambda v: v["G"].T @ v["G"] * (1 + 1e-8))
    check(PLAIN, right, "G", 0)
    for checked in (check_engine, check_code):
        with pytest.raises(AssertionError, match="relative error"):
            checked(PLAIN, wrong, "G", 0)
    slope = by_torch(PLAIN, right, PLAIN.values(0), "G")["slope"]
    assert torch.allclose(slope, 2 * PLAIN.values(0)["G"])


DERIVED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mixed": lambda: (PAIR, metric("mixed")),
    "rope": lambda: declared(*TRUE["rope invariant"]),
    "affine": lambda: declared(*TRUE["affine"]),
    "chain": lambda: declared(CHAIN, chain_inner),
}


def texts(name: str) -> tuple[str, str]:
    """Everything that a derivation writes."""
    geometry = derive(*DERIVED[name](), levels="ab")
    return geometry.certificate.to_json(), module_source(geometry, "a test")


alone = cache(texts)


@pytest.mark.xdist_group("derivations in threads")  # of one process: each is derived alone once
@pytest.mark.parametrize(("one", "other"), [("mixed", "rope"), ("affine", "chain"), ("mixed", "mixed")])
def test_two_threads_write_the_same_bytes_as_one(one: str, other: str) -> None:
    names = [one, other]
    wanted = [alone(name) for name in names]
    start = Barrier(2)

    def together(name: str) -> tuple[str, str]:
        start.wait(timeout=60)
        return texts(name)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(together, names)) == wanted
