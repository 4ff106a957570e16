"""Every mutant of every formula is rejected, and the table of which level rejected which is complete."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest

from quotientgeo.symbolic.algebra import Polynomial, sympy_symbol
from quotientgeo.symbolic.derivation import Geometry, Level, MatrixFormula, Outcome, certify
from quotientgeo.symbolic.derivation.certify import check_statement
from quotientgeo.symbolic.derivation.levels.component import check_component
from quotientgeo.symbolic.derivation.levels.freeness import check_free
from quotientgeo.symbolic.derivation.levels.positivity import check_positive
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
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
        claim = check_positive(mutant.geometry, list(Level), Ranks(mutant.geometry))
        outcomes = {result.level: result.outcome for result in claim.levels}
        assert outcomes == dict.fromkeys((Level.NORMAL_FORM, Level.RATIONAL, Level.AUTODIFF), Outcome.FALSE)
        assert claim.witness is not None


def _with_vertical(geometry: Geometry, change: Callable[[Polynomial], Polynomial]) -> Geometry:
    vertical = {
        f: MatrixFormula.derived(formula.name, formula.arguments, change(formula.polynomial))
        for f, formula in geometry.vertical.items()
    }
    return dataclasses.replace(geometry, vertical=vertical)


@pytest.mark.parametrize("name", ["invariant", "mixed"])
def test_vertical_spaces_that_are_too_small_are_not_free(name: str) -> None:
    """One formula alone makes the action free, so each mutant changes all: X dropped, or its symmetric part."""
    geometry = formulas(name)
    turned = {"X": geometry.alphabet["X"].T}
    mutants_ = {
        "dropped": _with_vertical(geometry, lambda v: v - v),
        "symmetric part dropped": _with_vertical(geometry, lambda v: v - v.substitute(turned)),
        "skew part dropped": _with_vertical(geometry, lambda v: v + v.substitute(turned)),
    }
    for mutant in mutants_.values():
        claim = check_free(mutant, list(Level), Ranks(mutant))
        outcomes = {result.level: result.outcome for result in claim.levels}
        refuted = (Level.MODULAR, Level.RATIONAL, Level.AUTODIFF)
        assert outcomes == {Level.NORMAL_FORM: Outcome.UNDECIDED, **dict.fromkeys(refuted, Outcome.FALSE)}
        assert claim.witness is not None
    assert check_free(geometry, list(Level), Ranks(geometry)).status == "proven for all sizes"


@pytest.mark.parametrize("name", ["invariant", "mixed"])
def test_a_wrong_vertical_space_of_the_right_dimension_is_noticed_by_automatic_differentiation(name: str) -> None:
    """The rank of V says nothing here: (e) differentiates the declared action, and V must be what that gives."""
    geometry = formulas(name)
    for change in (lambda v: -v, lambda v: 2 * v, lambda v: v.substitute({"X": geometry.alphabet["X"].T})):
        claim = check_free(
            _with_vertical(geometry, change), [Level.MODULAR, Level.RATIONAL, Level.AUTODIFF], Ranks(geometry)
        )
        assert [result.outcome for result in claim.levels] == [Outcome.TESTED, Outcome.TESTED, Outcome.FALSE]
        assert claim.status == "false"
        assert claim.levels[-1].residual.startswith("V_X is not the differential of the declared action")


def test_automatic_differentiation_refutes_an_action_that_is_not_free_whatever_was_derived() -> None:
    """The action forgets A; the vertical formulas are still those of the pair."""
    geometry = formulas("mixed")
    still = {
        f: dataclasses.replace(formula, polynomial=geometry.alphabet[f], expression=sympy_symbol(geometry.alphabet, f))
        for f, formula in geometry.action.items()
    }
    claim = check_free(dataclasses.replace(geometry, action=still), [Level.MODULAR, Level.AUTODIFF], Ranks(geometry))
    assert [result.outcome for result in claim.levels] == [Outcome.TESTED, Outcome.FALSE]
    assert claim.levels[-1].residual == "a singular value of the differential of the declared action is zero"


def test_the_claims_that_are_no_equations_are_mutated_too() -> None:
    """Whatever a certificate claims is in the table of mutants, or in one of the two tests above."""
    claims = {claim.name for claim in certify(formulas("mixed"), "a")}
    assert claims == {name for names in CLAIMS.values() for name in names} | {"metric_positive_definite", "action_free"}


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
