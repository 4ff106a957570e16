"""Closed forms whose own inner products the normal form does not relate are proven through the equations that they solve."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from importlib import import_module

import pytest

from quotientgeo.symbolic.algebra import Kind
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula, Outcome, derive_formulas
from quotientgeo.symbolic.derivation.levels.normal_form import check_normal_form
from quotientgeo.symbolic.derivation.levels.solved import as_solution
from quotientgeo.symbolic.derivation.statements import statements

CLAIMS = ("acceleration", "energy_conserved", "momentum_conserved", "metric_compatible", "acceleration_equivariant")


def damped() -> Geometry:
    declared = import_module("quotientgeo.catalogue.gl_pair_damped.declaration")
    return derive_formulas(declared.symmetry, declared.metric)


@pytest.fixture(scope="module")
def geometry() -> Geometry:
    return damped()


def outcomes(geometry: Geometry) -> dict[str, Outcome]:
    return {s.name: check_normal_form(geometry, s).outcome for s in statements(geometry) if s.name in CLAIMS}


def changed(geometry: Geometry, part: str, factor: Fraction) -> Geometry:
    """One formula of ``part`` with its first term multiplied."""
    formulas = dict(getattr(geometry, part))
    (name, formula), *_ = formulas.items()
    (word, coefficient), *_ = formula.polynomial
    first = dataclasses.replace(formula).polynomial
    extra = type(first)(first.alphabet, {word: coefficient * (factor - 1)}, first.shape)
    formulas[name] = MatrixFormula.derived(formula.name, formula.arguments, first + extra)
    return dataclasses.replace(geometry, **{part: formulas})


def test_claims_about_the_damped_metric_are_proven_for_all_sizes(geometry: Geometry) -> None:
    assert set(outcomes(geometry).values()) == {Outcome.PROVEN}
    how = {s.name: check_normal_form(geometry, s).residual for s in statements(geometry) if s.name in CLAIMS}
    assert "the formula is the gradient's at that right side" in how["acceleration"]


@pytest.mark.parametrize("factor", [Fraction(2), Fraction(-1), Fraction(101, 100)])
@pytest.mark.parametrize("part", ["acceleration", "christoffel", "gradient"])
def test_a_formula_that_does_not_solve_them_is_not_proven_so(geometry: Geometry, part: str, factor: Fraction) -> None:
    wrong = changed(geometry, part, factor)
    assert as_solution(wrong) is None
    claim = "metric_compatible" if part == "christoffel" else "acceleration"
    if part != "gradient":
        assert outcomes(wrong)[claim] is Outcome.UNDECIDED


def test_a_momentum_outside_the_algebra_is_not_proven_by_pairings() -> None:
    """What a diagonal X does not see of V' xi_V changes along geodesics, though tr(J' X) does not."""
    declared = import_module("quotientgeo.catalogue.norm_gain_affine_invariant.declaration")
    geometry = derive_formulas(declared.symmetry, declared.metric)
    (statement,) = (s for s in statements(geometry) if s.name == "momentum_conserved")
    assert check_normal_form(geometry, statement).outcome is Outcome.PROVEN
    letters = geometry.alphabet
    V, xi = letters["V"], letters["xi_V"]
    off = V.T * xi - (V.T * xi).part(Kind.DIAGONAL)
    ((name, formula),) = geometry.momentum.items()
    wider = MatrixFormula.derived(formula.name, formula.arguments, formula.polynomial + off)
    wrong = dataclasses.replace(geometry, momentum={name: wider})
    assert check_normal_form(wrong, statement).outcome is Outcome.UNDECIDED


def test_a_metric_that_moves_with_time_breaks_what_is_said_of_the_force(
    geometry: Geometry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link holds for any force; the claim about the force itself is checked as well."""
    from quotientgeo.symbolic.derivation import implicit
    from quotientgeo.symbolic.derivation.levels import solved

    true = implicit.force

    def wrong(*arguments: object) -> object:
        return {f: value * 2 for f, value in true(*arguments).items()}  # type: ignore[arg-type]

    monkeypatch.setattr(solved.implicit, "force", wrong)
    double = {f: v.polynomial * 2 for f, v in geometry.acceleration.items()}
    formulas = {f: MatrixFormula.derived(v.name, v.arguments, double[f]) for f, v in geometry.acceleration.items()}
    halves = {f: MatrixFormula.derived(v.name, v.arguments, v.polynomial * 2) for f, v in geometry.christoffel.items()}
    twice = dataclasses.replace(geometry, acceleration=formulas, christoffel=halves)
    assert as_solution(twice) is not None
    assert outcomes(twice)["acceleration"] is Outcome.UNDECIDED
    assert outcomes(twice)["energy_conserved"] is Outcome.UNDECIDED
