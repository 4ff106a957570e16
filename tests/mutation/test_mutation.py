"""Mutants of the whole catalogue are rejected: by the certificate, by code generation's checks, or at the declaration."""

from __future__ import annotations

import pytest
import sympy as sp
import torch

from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry
from tests.mutation import declarations, table
from tests.mutation.oracle import falsehoods
from tests.mutation.source import sites
from tests.mutation.subjects import entries, source
from tests.mutation.table import FILE, FULL, SAMPLE, Amount, verdicts
from tests.mutation.trees import KINDS, changed
from tests.mutation.verdicts import SYMBOLS, Verdict

LEAST = 200


def report(found: list[Verdict]) -> str:
    return "\n".join([table.table(found), *(str(v) for v in found if v.survived or v.false_alarm)])


def check(entry: str, amount: Amount) -> list[Verdict]:
    found = verdicts(entry, amount)
    assert not [v for v in found if v.survived], report(found)
    assert not [v for v in found if v.false_alarm], report(found)
    return found


@pytest.mark.parametrize("entry", entries())
def test_a_sample_of_mutants_is_rejected(entry: str) -> None:
    found = check(entry, SAMPLE)
    assert {v.part for v in found if v.killed_by} >= {"formula", "action", "source"}, report(found)


@pytest.mark.slow
def test_all_mutants_are_rejected_and_the_table_is_up_to_date() -> None:
    found = {entry: check(entry, FULL) for entry in entries()}
    assert sum(bool(v.killed_by) for some in found.values() for v in some) >= LEAST
    assert FILE.read_text(encoding="utf-8") == table.page(found), "run `python -m tests.mutation.table`"


def test_the_table_lists_every_entry_and_no_survivor() -> None:
    text = FILE.read_text(encoding="utf-8")
    listed = [
        line.split(" | ")[0].removeprefix("| ") for line in text.split("## Entries")[1].splitlines() if "|" in line
    ]
    assert sorted(set(listed[2:])) == entries(), "run `python -m tests.mutation.table`"
    assert text.split("## Survivors")[1].split("##")[0].strip() == "None."
    (total,) = (line for line in text.splitlines() if line.startswith("| all |"))
    assert int(total.split("|")[3]) >= LEAST


# what decides is seen to decide


def test_a_mutant_that_no_check_looks_at_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "gl_pair_mixed"
    assert all(v.killed_by for v in declarations.formula_mutants(entry, 4, "abe", 40))
    monkeypatch.setattr(declarations, "CLAIMS", dict.fromkeys(declarations.CLAIMS, ()))
    assert all(v.survived for v in declarations.formula_mutants(entry, 4, "abe", 40))


@pytest.mark.parametrize(
    ("action", "inner", "wrong"),
    [
        ((1, 1), "whole", []),
        ((2, 1), "whole", ["composition", "preserved", "invariance"]),
        ((1, 1), "plain", ["invariance"]),
        ((1, 1), "skewed", ["symmetric", "invariance"]),
        ((1, 1), "less", ["positive definite"]),
    ],
)
def test_the_second_opinion_tells_true_from_false(action: tuple[int, int], inner: str, wrong: list[str]) -> None:
    k, m = action
    symmetry = Symmetry(
        "own",
        GL("h"),
        {"G": ("n", "h"), "H": ("m", "h")},
        lambda A, G, H: (G * A**-k, H * (A**m).T),
        lambda G, H: G * H.T,
    )
    forms = {
        "whole": lambda p, a, b: sp.Trace((p.G.T * p.G).I * a.G.T * b.G) + sp.Trace(p.G.T * p.G * a.H.T * b.H),
        "plain": lambda p, a, b: sp.Trace(a.G.T * b.G) + sp.Trace(p.G.T * p.G * a.H.T * b.H),
        "skewed": lambda p, a, b: (
            sp.Trace(a.G.T * b.G * (p.H.T * p.H + p.H.T * p.H * p.G.T * p.G)) + sp.Trace(p.G.T * p.G * a.H.T * b.H)
        ),
        "less": lambda p, a, b: sp.Trace((p.G.T * p.G).I * a.G.T * b.G) - sp.Trace(p.G.T * p.G * a.H.T * b.H),
    }
    assert set(falsehoods(symmetry, Metric("own", symmetry, forms[inner]))) >= set(wrong)
    if not wrong:
        assert falsehoods(symmetry, Metric("own", symmetry, forms[inner])) == []


def test_every_kind_of_change_is_made_somewhere() -> None:
    A, B = (sp.MatrixSymbol(name, sp.Symbol("h"), sp.Symbol("h")) for name in "AB")
    expression = 2 * A.T * B * (A * B).I - B**-2
    kinds = {kind for kind in KINDS for _ in changed(expression, kind, [[A, B]])}
    assert kinds >= {*KINDS} - {"wrong Gram matrix", "wrong part"}
    text = source("gl_pair_mixed")
    assert {kind for kind, _, _ in sites(text)} >= {"dropped line", "dropped transpose", "wrong operator", "wrong name"}


def test_numbers_and_symbols_agree_on_the_source_of_the_pair() -> None:
    """Where values differ the run on symbols refuses; the reverse may be a guard against singular matrices."""
    found = [v for v in verdicts("gl_pair_invariant", Amount(0, 0, 0, 25, "b", 1)) if v.killed_by]
    assert all(SYMBOLS in v.killed_by for v in found)
    assert torch.tensor([len(v.killed_by) == 2 for v in found]).float().mean() > 0.8
