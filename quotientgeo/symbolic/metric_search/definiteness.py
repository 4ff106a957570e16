"""Is an invariant form positive definite in its tangent? By the certificate's own means, which say how far they go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple

import sympy as sp

from quotientgeo.symbolic.algebra import InverseLetter, InverseScalar, TracePolynomial, trace
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation.certificate import Level, Witness
from quotientgeo.symbolic.derivation.formula import ScalarFormula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.positivity import check_positive
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.shifts import Shifts
from quotientgeo.symbolic.derivation.levels.squares import sum_of_squares
from quotientgeo.symbolic.metric_search.places import Problem
from quotientgeo.symbolic.metric_search.sampling import mostly_definite, negative_witness, samples


class Definiteness(StrEnum):
    """What is known of a form's sign, in the words of a report."""

    PROVEN = "positive definite: proven"
    TESTED = "positive definite: tested"
    SEMIDEFINITE = "positive semi-definite: proven"
    INDEFINITE = "not positive definite"
    COUPLING = "couples factors"

    @property
    def definite(self) -> bool:
        """Whether a metric may be made of it alone."""
        return self in (Definiteness.PROVEN, Definiteness.TESTED)


@dataclass(frozen=True)
class Sign:
    """What is known of a form's sign, with its reason, and the witness where it is not positive definite.

    ``needs``: factors with an affine action of which no entry of 1 + w may be zero; ``excludes``: those where it is not, since
    the form divides by it.
    """

    definiteness: Definiteness
    reason: str
    witness: Witness | None = None
    needs: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Inner:
    """``inner`` of a Metric: an expression in the letters of a symmetry, at the point and the tangents it is called with."""

    symmetry: Symmetry
    expression: sp.Expr

    def __call__(self, p: Any, a: Any, b: Any) -> sp.Expr:
        names = self.symmetry.names
        symbols = {str(s.name): s for s in self.expression.free_symbols if isinstance(s, sp.MatrixSymbol)}
        given: dict[sp.Basic, Any] = {}
        for rename, letters in ((str, p), (names.tangent, a), (names.second_tangent, b)):
            for factor in names.factors:
                if rename(factor) in symbols:
                    given[symbols[rename(factor)]] = letters[factor]
        return self.expression.xreplace({old: new for old, new in given.items() if old != new})


def geometry_of(problem: Problem, value: TracePolynomial, name: str = "form") -> Geometry:
    """A geometry in which only the inner product is filled in: enough for claims about it."""
    names, expression = problem.symmetry.names, value.to_sympy()
    arguments = (*names.factors, *names.tangents, *map(names.second_tangent, names.factors))
    empty: Mapping[Any, Any] = {}
    return Geometry(
        symmetry=problem.symmetry,
        metric=Metric(name, problem.symmetry, Inner(problem.symmetry, expression)),
        alphabet=problem.alphabet,
        side="left",
        action=problem.action,
        preserved=(),
        inner=ScalarFormula("inner", arguments, value, expression),
        vertical=empty,
        momentum=empty,
        gradient=empty,
        acceleration=empty,
        derivatives=empty,
    )


def sign_of(problem: Problem, factors: tuple[str, ...], value: TracePolynomial) -> Sign:
    """The sign of a form in the tangents of ``factors``; of several factors nothing is said."""
    if len(factors) > 1:
        return Sign(Definiteness.COUPLING, f"zero where only one of {', '.join(factors)} moves")
    (factor,) = factors
    found = _by_squares(problem, factor, value)
    alone = geometry_of(problem, value)
    witness = negative_witness(alone, factor) if found is None else None
    if witness is not None:
        return Sign(Definiteness.INDEFINITE, str(witness), witness)
    if found is not None and found.settled and found.sure:
        return Sign(Definiteness.PROVEN, found.text, needs=found.needs, excludes=_divided(problem, value))
    if found is not None:
        definite = mostly_definite(samples(alone, factor))
        if definite and found.settled:
            where = "what that assumes may not be so at some sizes: positive at random points of all of them"
            return Sign(Definiteness.TESTED, f"{found.text}; {where}")
        if not definite:
            return Sign(
                Definiteness.SEMIDEFINITE, f"{found.text}; at some sizes this is zero for an xi other than zero"
            )
    return _searched(problem, factor, value)


class _Squares(NamedTuple):
    """A form as a sum of squares with what that assumes; ``settled``: it is zero for xi = 0 only.

    ``sure``: the declared sizes allow the ranks that are assumed.
    """

    text: str
    settled: bool
    sure: bool
    needs: frozenset[str]


def _by_squares(problem: Problem, factor: str, value: TracePolynomial) -> _Squares | None:
    """The form as a sum of squares; a factor with an affine action is read as what is moved linearly."""
    geometry = geometry_of(problem, value)
    ranks = Ranks(geometry)
    squares = sum_of_squares(geometry, ranks)
    if squares is None:
        return None
    assumed = ranks.assumptions()
    text = f"<xi, xi> = {squares}" + (f", assuming {', '.join(assumed)}" if assumed else "")
    needs = frozenset(f for _, f in ranks.nonzero if f in ranks.shifts.points)
    return _Squares(text, factor not in squares.undecided, not any(map(problem.is_free, ranks.full)), needs)


def _divided(problem: Problem, value: TracePolynomial) -> frozenset[str]:
    """The factors with an affine action by which the form divides."""
    inverses = [letter for s in value.factors() for letter in (s, *getattr(s, "letters", ())) if _is_inverse(letter)]
    return frozenset(
        f
        for f in Shifts(problem.alphabet, problem.points).points
        if any(f in letter.argument.symbols() for letter in inverses)
    )


def _is_inverse(letter: Any) -> bool:
    return isinstance(letter, InverseLetter | InverseScalar)


def _searched(problem: Problem, factor: str, value: TracePolynomial) -> Sign:
    """By the certificate's search for a point and a tangent with <xi, xi> <= 0."""
    geometry = geometry_of(problem, value + _others(problem, factor))
    claim = check_positive(geometry, [Level.RATIONAL], Ranks(geometry))
    reason = "; ".join(f"{result.scope}: {result.residual}" for result in claim.levels)
    if claim.status == "tested":
        return Sign(Definiteness.TESTED, reason)
    return Sign(Definiteness.INDEFINITE, str(claim.witness or reason), claim.witness)


def _others(problem: Problem, factor: str) -> TracePolynomial:
    """The sum of tr(xi_F' eta_F) over the other factors, so that only ``factor`` can make the form degenerate."""
    total = TracePolynomial(problem.alphabet, {})
    for other in problem.factors:
        if other != factor:
            xi, eta = problem.tangent(other), problem.second(other)
            total = total + (trace(xi.T * eta) + trace(eta.T * xi)) * Fraction(1, 2)
    return total
