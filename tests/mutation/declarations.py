"""Mutants of what is declared (the action, the metric), and of the formulas that are derived from it."""

from __future__ import annotations

import dataclasses
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import cycle, islice
from typing import Any

import sympy as sp

from quotientgeo.errors import QuotientgeoError
from quotientgeo.symbolic.algebra import Polynomial, polynomial_from_sympy
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import (
    Geometry,
    Level,
    MatrixFormula,
    Outcome,
    certify,
    derive_formulas,
)
from quotientgeo.symbolic.derivation.calculus import Reading
from quotientgeo.symbolic.derivation.certify import check_statement
from quotientgeo.symbolic.derivation.levels.autodiff import TorchCalculus
from quotientgeo.symbolic.derivation.levels.points import assign_sizes
from quotientgeo.symbolic.derivation.statements import statements
from tests.mutation.oracle import falsehoods, letters
from tests.mutation.subjects import declared, geometry
from tests.mutation.trees import KINDS, changed
from tests.mutation.verdicts import DECLARED, DERIVED, EQUAL, SAME, TRUE, Verdict
from tests.symbolic.derivation.mutants import DERIVED as CLAIMS_OF_DERIVED

# what a derived formula is held to
CLAIMS = CLAIMS_OF_DERIVED | {
    "lowered": ("gradient",),
    "2": ("acceleration", "energy_conserved", "momentum_conserved", "acceleration_equivariant", "taylor_2"),
    "3": ("taylor_3",),
    "4": ("taylor_4",),
}
ABOUT_DECLARATION = (
    *("action_identity", "action_composition", "action_free", "preserved"),
    *("metric_symmetric", "metric_positive_definite", "metric_bilinear", "invariance"),
)
Put = Callable[[MatrixFormula], Geometry]


def some(found: Sequence[tuple[Any, ...]], most: int, *seed: object) -> list[tuple[Any, ...]]:
    """At most so many of them, the same ones every time; each begins with its kind, and all kinds have their turn."""
    rng = random.Random(" ".join(map(str, seed)))
    by_kind: dict[str, list[tuple[Any, ...]]] = {}
    for one in rng.sample(list(found), len(found)):
        by_kind.setdefault(one[0], []).append(one)
    ranked = [(turn, rng.random(), one) for same in by_kind.values() for turn, one in enumerate(same)]
    ranked.sort(key=lambda ranking: ranking[:2])
    return [one for _, _, one in ranked[:most]]


# formulas


def _formulas(g: Geometry) -> Iterator[tuple[str, MatrixFormula, Put]]:
    """(what it is, formula, how to put another in its place)."""

    def put(field: str, key: str) -> Put:
        return lambda new: dataclasses.replace(g, **{field: {**getattr(g, field), key: new}})

    for field in (
        "vertical",
        "momentum",
        "gradient",
        "acceleration",
        "christoffel",
        "vertical_gram",
        "projector",
        "horizontal",
    ):
        for key, formula in (getattr(g, field) or {}).items():
            yield field, formula, put(field, key)
    for k, blocks in g.derivatives.items():
        for key, formula in blocks.items():
            yield (
                str(k),
                formula,
                lambda new, k=k, key=key: dataclasses.replace(  # type: ignore[misc]
                    g, derivatives={**g.derivatives, k: {**g.derivatives[k], key: new}}
                ),
            )
    if g.equations is not None:
        yield from _equations(g)


def _equations(g: Geometry) -> Iterator[tuple[str, MatrixFormula, Put]]:
    equations = g.equations
    assert equations is not None

    def put(**changes: Any) -> Geometry:
        return dataclasses.replace(g, equations=dataclasses.replace(equations, **changes))

    for key, formula in equations.lowered.items():
        yield "lowered", formula, lambda new, key=key: put(lowered={**equations.lowered, key: new})  # type: ignore[misc]
    for key, formula in equations.christoffel.items():
        yield (
            "christoffel",
            formula,
            lambda new, key=key: put(christoffel={**equations.christoffel, key: new}),  # type: ignore[misc]
        )
    for k, blocks in equations.forces.items():
        for key, formula in blocks.items():
            yield (
                str(k),
                formula,
                lambda new, k=k, key=key: put(  # type: ignore[misc]
                    forces={**equations.forces, k: {**equations.forces[k], key: new}}
                ),
            )


def _rejecting(entry: str, g: Geometry, claims: tuple[str, ...], levels: str) -> list[str]:
    """Levels that refute one of the claims, or no longer prove what holds for all sizes (a)."""
    out = []
    about = [statement for statement in statements(g) if statement.name in claims]
    for level in map(Level, levels):
        for statement in about:
            outcome = check_statement(g, statement, level).outcome
            lost = level is Level.NORMAL_FORM and outcome is not Outcome.PROVEN and _was_proven(entry, statement.name)
            if outcome is Outcome.FALSE or lost:
                out.append(level.value)
                break
    return out


@cache
def _was_proven(entry: str, claim: str) -> bool:
    g = geometry(entry)
    (statement,) = (s for s in statements(g) if s.name == claim)
    return check_statement(g, statement, Level.NORMAL_FORM).outcome is Outcome.PROVEN


def formula_mutants(entry: str, most: int, levels: str, longest: int) -> Iterator[Verdict]:
    """``most`` mutants of derived formulas of at most ``longest`` terms: of one formula after the other, in random order."""
    g = geometry(entry)
    short = [found for found in _formulas(g) if len(found[1].polynomial) <= longest]
    rng = random.Random(f"{entry} formulas")
    rng.shuffle(short)
    for about, formula, put in islice(cycle(short), most):
        symbols = [letters(g.alphabet, formula.arguments)]
        found = [(kind, new) for kind in KINDS for new in changed(formula.expression, kind, symbols)]
        if found:
            kind, expression = rng.choice(some(found, len(KINDS), entry, formula.name))
            yield _formula_verdict(entry, about, formula, put, kind, expression, levels)


def _formula_verdict(
    entry: str, about: str, formula: MatrixFormula, put: Put, kind: str, expression: sp.Basic, levels: str
) -> Verdict:
    verdict = Verdict(entry, "formula", kind, f"{formula.name} = {shortened(expression)}")
    try:
        polynomial: Polynomial = polynomial_from_sympy(expression, geometry(entry).alphabet)
        new = MatrixFormula(formula.name, formula.arguments, polynomial, expression)
    except QuotientgeoError:  # an inverse of what has none, a shape that does not fit
        return dataclasses.replace(verdict, killed_by=(DECLARED,))
    if polynomial == formula.polynomial:
        return dataclasses.replace(verdict, harmless=SAME)
    try:
        killed = tuple(_rejecting(entry, put(new), CLAIMS[about], levels))
    except QuotientgeoError:  # a Lie algebra element that is no longer one, say
        killed = (DERIVED,)
    if not set(killed) - {"a"} and about.isdigit() and _same_along_geodesics(geometry(entry), put(new), int(about)):
        return dataclasses.replace(verdict, harmless=EQUAL)
    return dataclasses.replace(verdict, killed_by=killed)


def _same_along_geodesics(g: Geometry, other: Geometry, order: int) -> bool:
    """Whether a time derivative is that of the geodesics all the same: a term of what is zero along them may have any factor."""
    for seed, sizes in enumerate((assign_sizes(g, 2, 3), assign_sizes(g, 3, 5))):
        calculus = TorchCalculus(sizes, seed)
        readings = [Reading(calculus, which) for which in (g, other)]
        p, xi = readings[0].bind(["p", "xi"])
        found, wanted = (reading.order(order, p, xi) for reading in readings)
        if any((found[f] - wanted[f]).abs().max() > 1e-9 * (1 + wanted[f].abs().max()) for f in wanted):
            return False
    return True


# declarations


def _other_action(symmetry: Symmetry, factor: str, expression: sp.Basic) -> Symmetry:
    moved = {f: e for f, (e, _) in symmetry.read_action(symmetry.alphabet()).items()} | {factor: expression}

    def action(*arguments: Any) -> tuple[Any, ...]:
        return tuple(moved.values())

    action.__signature__ = inspect.signature(symmetry.action)  # type: ignore[attr-defined]
    return Symmetry(symmetry.name, symmetry.group, symmetry.factors, action, symmetry.preserves, symmetry.inputs)


def _action_changes(entry: str) -> Iterator[tuple[str, str, sp.Basic]]:
    symmetry, _ = declared(entry)
    names = symmetry.names
    symbols = [letters(symmetry.alphabet(), (*names.elements, *names.factors))]
    for factor, (expression, _) in symmetry.read_action(symmetry.alphabet()).items():
        for kind in KINDS:
            for new in changed(expression, kind, symbols):
                yield kind, factor, new


def action_mutants(entry: str, most: int, levels: str) -> Iterator[Verdict]:
    """Mutants of the declared action; ``most`` of them."""
    symmetry, metric = declared(entry)
    found = list(_action_changes(entry))
    for kind, factor, expression in some(found, most, entry, "action"):

        def build(factor: str = factor, expression: sp.Basic = expression) -> tuple[Symmetry, Metric]:
            other = _other_action(symmetry, factor, expression)
            return other, Metric(metric.name, other, metric.inner, metric.parameters)

        yield _declared_verdict(entry, "action", kind, f"{factor} -> {shortened(expression)}", build, levels)


def metric_mutants(entry: str, most: int, levels: str) -> Iterator[Verdict]:
    """Mutants of the declared metric; ``most`` of them."""
    symmetry, metric = declared(entry)
    names = symmetry.names
    roles = (names.factors, names.tangents, tuple(map(names.second_tangent, names.factors)))
    symbols = [letters(symmetry.alphabet(), role) for role in roles]
    inner, _ = metric.read_inner(symmetry.alphabet())
    found = [(kind, new) for kind in KINDS for new in changed(inner, kind, symbols)]
    for kind, expression in some(found, most, entry, "metric"):

        def build(expression: sp.Basic = expression) -> tuple[Symmetry, Metric]:
            return symmetry, Metric(metric.name, symmetry, lambda *given: expression, metric.parameters)

        yield _declared_verdict(entry, "metric", kind, shortened(expression), build, levels)


def _declared_verdict(
    entry: str, part: str, kind: str, text: str, build: Callable[[], tuple[Symmetry, Metric]], levels: str
) -> Verdict:
    verdict = Verdict(entry, part, kind, text)
    try:
        symmetry, metric = build()
    except QuotientgeoError:
        return dataclasses.replace(verdict, killed_by=(DECLARED,))
    if _same(entry, symmetry, metric):
        return dataclasses.replace(verdict, harmless=SAME)
    killed: tuple[str, ...]
    try:
        certificate = certify(derive_formulas(symmetry, metric), levels, claims=ABOUT_DECLARATION)
    except QuotientgeoError:
        killed = (DERIVED,)
    else:
        refuting = {r.level.value for claim in certificate for r in claim.levels if r.outcome is Outcome.FALSE}
        killed = tuple(level for level in levels if level in refuting)
    false = falsehoods(symmetry, metric)
    if killed:
        return dataclasses.replace(verdict, killed_by=killed, false_alarm=not false)
    return dataclasses.replace(verdict, harmless="" if false else TRUE)


def _same(entry: str, symmetry: Symmetry, metric: Metric) -> bool:
    """Whether a declaration has the normal forms of the entry's own."""
    return _normal_forms(symmetry, metric) == _normal_forms(*declared(entry))


def _normal_forms(symmetry: Symmetry, metric: Metric) -> tuple[str, ...]:
    moved = [repr(polynomial) for _, polynomial in symmetry.read_action(symmetry.alphabet()).values()]
    return (*moved, repr(metric.read_inner(symmetry.alphabet())[1]))


def shortened(expression: sp.Basic) -> str:
    """An expression on one line of a table."""
    text = str(expression)
    return text if len(text) <= 160 else f"{text[:150]} ... ({len(text)} characters)"
