"""Every mutant of every formula is rejected, and the table of which level rejected which is complete."""

from __future__ import annotations

from collections import Counter

import pytest

from quotientgeo.symbolic.derivation import Geometry, Level, Outcome
from quotientgeo.symbolic.derivation.certify import check_statement
from quotientgeo.symbolic.derivation.levels.component import check_component
from quotientgeo.symbolic.derivation.levels.positivity import check_positive
from quotientgeo.symbolic.derivation.statements import Statement, statements
from tests.symbolic.derivation.declarations import formulas
from tests.symbolic.derivation.mutants import CLAIMS, KINDS, Mutant, mutants

LEVELS = (Level.NORMAL_FORM, Level.MODULAR, Level.COMPONENT, Level.RATIONAL, Level.AUTODIFF)
ALWAYS = {Level.NORMAL_FORM, Level.MODULAR, Level.RATIONAL, Level.AUTODIFF}  # (c) may run out of its budget
KILLED, SURVIVED = "x", "."


def _rejects(geometry: Geometry, statement: Statement, level: Level) -> bool:
    """The level refutes the claim or, being the normal form, does not prove it."""
    if level is Level.COMPONENT:
        return check_component(geometry, statement, budget=150_000).outcome is Outcome.FALSE
    outcome = check_statement(geometry, statement, level).outcome
    return outcome is Outcome.FALSE or (level is Level.NORMAL_FORM and outcome is Outcome.UNDECIDED)


def _about(mutant: Mutant) -> list[Statement]:
    return [statement for statement in statements(mutant.geometry) if statement.name in CLAIMS[mutant.about]]


def _verdict(mutant: Mutant, level: Level) -> str:
    return KILLED if any(_rejects(mutant.geometry, statement, level) for statement in _about(mutant)) else SURVIVED


@pytest.mark.parametrize("name", ["invariant", "mixed"])
def test_every_mutant_is_rejected(name: str) -> None:
    table: dict[tuple[str, str], dict[Level, str]] = {}
    equivalent: list[tuple[str, str]] = []
    for mutant in mutants(formulas(name)):
        key = (mutant.name, mutant.kind)
        if mutant.equivalent:
            equivalent.append(key)
        else:
            table[key] = {level: _verdict(mutant, level) for level in LEVELS}
    print(f"\nkill table, {len(table)} mutants; x: the level rejects it; {len(equivalent)} equivalent by normal form")
    print(f"{'formula':44} {'mutation':16} {' '.join(level.value for level in LEVELS)}")
    for (formula, kind), row in table.items():
        print(f"{formula:44} {kind:16} {' '.join(row[level] for level in LEVELS)}")
    for formula, kind in equivalent:
        print(f"{formula:44} {kind:16} equivalent")

    assert len(table) >= 30
    assert {kind for _, kind in table} == set(KINDS)
    assert all(set(row) == set(LEVELS) for row in table.values())
    survivors = {key: level for key, row in table.items() for level in ALWAYS if row[level] == SURVIVED}
    assert not survivors
    kills = Counter(level for row in table.values() for level in LEVELS if row[level] == KILLED)
    assert kills[Level.COMPONENT] >= 0.9 * len(table)
    assert all("derivative_" in formula for (formula, _), row in table.items() if row[Level.COMPONENT] == SURVIVED)


def test_every_claim_rejects_some_mutant() -> None:
    """No claim is idle: each is seen to fail on a wrong formula."""
    kills: Counter[str] = Counter()
    for mutant in mutants(formulas("mixed")):
        kills.update(s.name for s in _about(mutant) if _rejects(mutant.geometry, s, Level.MODULAR))
    print("\n" + "\n".join(f"{name:28} rejects {count} mutants" for name, count in kills.items()))
    assert set(kills) == {statement.name for statement in statements(formulas("mixed"))}


@pytest.mark.parametrize("name", ["invariant", "mixed"])
def test_a_metric_of_the_wrong_sign_is_not_positive(name: str) -> None:
    flipped = [m for m in mutants(formulas(name)) if m.about == "inner" and m.kind == "sign"]
    assert flipped
    for mutant in flipped:
        claim, _ = check_positive(mutant.geometry, list(Level))
        outcomes = {result.level: result.outcome for result in claim.levels}
        assert outcomes == {
            Level.NORMAL_FORM: Outcome.UNDECIDED,
            Level.RATIONAL: Outcome.FALSE,
            Level.AUTODIFF: Outcome.FALSE,
        }
        assert claim.witness is not None


@pytest.mark.parametrize("name", ["invariant", "mixed"])
def test_the_unchanged_formulas_survive_every_level(name: str) -> None:
    geometry = formulas(name)
    unchanged = [Mutant(geometry.name, "none", about, geometry, equivalent=True) for about in CLAIMS]
    assert {_verdict(mutant, level) for mutant in unchanged for level in LEVELS} == {SURVIVED}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["invariant", "mixed"])
def test_sympy_rejects_what_it_can_judge(name: str) -> None:
    judged = [
        m for m in mutants(formulas(name)) if m.about in ("gradient", "momentum", "acceleration") and not m.equivalent
    ]
    assert len(judged) >= 15
    assert [m for m in judged if _verdict(m, Level.SYMPY) != KILLED] == []
