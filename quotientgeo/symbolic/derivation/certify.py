"""Run the certificate levels over every statement about a geometry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import replace

import torch

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.derivation.certificate import Certificate, Claim, Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels import freeness, positivity
from quotientgeo.symbolic.derivation.levels.assumed import assumed
from quotientgeo.symbolic.derivation.levels.autodiff import check_autodiff
from quotientgeo.symbolic.derivation.levels.bounds import size_conditions
from quotientgeo.symbolic.derivation.levels.component import check_component
from quotientgeo.symbolic.derivation.levels.modular import check_modular
from quotientgeo.symbolic.derivation.levels.native import check_native
from quotientgeo.symbolic.derivation.levels.normal_form import COUNTED, check_normal_form
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.rational import check_rational, find_witness
from quotientgeo.symbolic.derivation.statements import Statement, statements

DEFAULT_LEVELS = "abcde"  # (f) is left to those who ask for it: it takes seconds per claim

ROUNDING = 1e-4  # relative difference in float64 that cancelling terms may leave; wrong formulas differ by 1e-2 or more
_BEFORE_FREE = "vertical_from_action"  # the claim about the action that comes before its freeness

_CHECKS: dict[Level, Callable[[Geometry, Statement], LevelResult]] = {
    Level.NORMAL_FORM: check_normal_form,
    Level.MODULAR: check_modular,
    Level.COMPONENT: check_component,
    Level.RATIONAL: check_rational,
    Level.AUTODIFF: check_autodiff,
    Level.SYMPY: check_native,
}


def certify(
    geometry: Geometry, levels: Iterable[Level | str] = DEFAULT_LEVELS, claims: Iterable[str] | None = None
) -> Certificate:
    """The certificate of a geometry by the given levels, for all claims or for the named ones."""
    try:
        wanted = set(map(Level, levels))
    except ValueError as error:
        raise DeclarationError(f"unknown certificate level: {error}; levels are {', '.join(Level)}") from error
    chosen = [level for level in Level if level in wanted]
    selected = None if claims is None else set(claims)
    done: list[Claim] = []
    by_proofs = Level.NORMAL_FORM in chosen  # of the two claims that can only be proven at points of full rank
    ranks = assumed(geometry) if by_proofs else Ranks(geometry)

    def extra(name: str, check: Callable[[Geometry, list[Level], Ranks], Claim]) -> list[Claim]:
        if selected is None or name in selected:
            return [check(geometry, chosen, ranks)]
        return []

    with torch.enable_grad():
        positive = extra(positivity.NAME, positivity.check_positive)
        free = extra(freeness.NAME, freeness.check_free)
        for statement in statements(geometry):
            if selected is None or statement.name in selected:
                done.append(_check(geometry, statement, chosen))
            if statement.name == _BEFORE_FREE:
                done += free
    told = tuple(_in_words(geometry, claim) for claim in (*done, *positive))
    return Certificate(geometry.name, _assumptions(geometry, ranks), told)


def check_statement(geometry: Geometry, statement: Statement, level: Level) -> LevelResult:
    """What one level says of one statement."""
    with torch.enable_grad():
        return _CHECKS[level](geometry, statement)


def _check(geometry: Geometry, statement: Statement, levels: list[Level]) -> Claim:
    results = [_CHECKS[level](geometry, statement) for level in levels]
    results = _without_stand_ins([result for result in results if result.outcome is not Outcome.NOT_APPLICABLE])
    results = _without_rounding(results)
    refuted = any(result.outcome is Outcome.FALSE for result in results)
    witness = find_witness(geometry, statement) if refuted else None
    return Claim(statement.name, statement.text, statement.formula(geometry), tuple(results), witness)


def _in_words(geometry: Geometry, claim: Claim) -> Claim:
    """The claim with vertical vectors called by a name that no letter of the geometry has."""
    say, witness = geometry.in_words, claim.witness
    levels = tuple(replace(result, residual=say(result.residual)) for result in claim.levels)
    if witness is not None:
        left, right = (say(side) if isinstance(side, str) else side for side in (witness.left, witness.right))
        witness = replace(witness, left=left, right=right)
    return replace(claim, statement=say(claim.statement), levels=levels, witness=witness)


def _without_stand_ins(results: list[LevelResult]) -> list[LevelResult]:
    """What is proven because a number of the declaration is a declared size is not refuted where another stands in for it."""
    if not any(r.outcome is Outcome.PROVEN and r.residual.endswith(COUNTED) for r in results):
        return results
    return [r for r in results if not (r.outcome is Outcome.FALSE and "->" in r.scope)]


def _without_rounding(results: list[LevelResult]) -> list[LevelResult]:
    """What is proven for all sizes is not refuted by a small difference in floating point, where large terms may cancel."""
    proven = any(r.outcome is Outcome.PROVEN and r.level is Level.NORMAL_FORM for r in results)
    exact = not any(r.outcome is Outcome.FALSE and r.level is not Level.AUTODIFF for r in results)
    return [
        dataclasses.replace(r, outcome=Outcome.UNDECIDED, residual="rounding: the terms are large and cancel")
        if r.outcome is Outcome.FALSE and r.measured is not None and r.measured < ROUNDING and proven and exact
        else r
        for r in results
    ]


def _assumptions(geometry: Geometry, ranks: Ranks) -> tuple[str, ...]:
    sizes = size_conditions(geometry)
    inverses = "every inverse that occurs in a formula exists at the point"
    return f"{inverses}; sizes with {', '.join(sizes)}" if sizes else inverses, *ranks.assumptions()
