"""Which rational combinations of forms a symbolic group element leaves unchanged: a linear problem in normal forms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from quotientgeo.symbolic.algebra import (
    InverseLetter,
    InverseScalar,
    Letter,
    Monomial,
    PartLetter,
    Polynomial,
    TraceLetter,
    TracePolynomial,
    scalar,
    vanishes,
)
from quotientgeo.symbolic.metric_search.candidates import Candidate
from quotientgeo.symbolic.metric_search.places import Problem

Vector = dict[Monomial, Fraction]
Weights = dict[int, Fraction]  # index of a candidate -> its weight


@dataclass(frozen=True)
class Invariants:
    """Candidates that are invariant by themselves, and combinations of others that are; all of it proven for all sizes."""

    alone: list[int]
    combined: list[Weights]
    changed: dict[int, TracePolynomial]  # of every other candidate: the form after the group element, less the form


def invariants(problem: Problem, candidates: Sequence[Candidate]) -> Invariants:
    """The space of invariant combinations, as far as normal forms show it."""
    values = pushed_forward(problem)
    alone: list[int] = []
    changed: dict[int, TracePolynomial] = {}
    for i, candidate in enumerate(candidates):
        difference = candidate.value.substitute(values) - candidate.value
        if difference.is_zero or (_divides(difference) and vanishes(difference)):
            alone.append(i)
        else:
            changed[i] = difference
    return Invariants(alone, relations({i: dict(d.terms) for i, d in changed.items()}), changed)


def pushed_forward(problem: Problem) -> dict[str, Polynomial]:
    """What the point and the tangents xi, eta become under a group element."""
    names = problem.symmetry.names
    second = {names.tangent(f): problem.second(f) for f in problem.factors}
    values = dict(problem.moved)
    for factor, pushed in problem.pushed.items():
        values[names.tangent(factor)] = pushed
        values[names.second_tangent(factor)] = pushed.substitute(second)
    return values


def combination(candidates: Sequence[Candidate], weights: Weights) -> TracePolynomial:
    """The weighted sum of forms."""
    total = scalar(candidates[0].value.alphabet, 0)
    for i, weight in weights.items():
        total = total + candidates[i].value * weight
    return total


def relations(columns: Mapping[int, Vector]) -> list[Weights]:
    """A basis of the weights with which the columns add up to zero: elimination over the rational numbers.

    Each basis vector has coprime integers, the first of them positive.
    """
    pivots: dict[Monomial, tuple[Vector, Weights]] = {}
    out: list[Weights] = []
    for i, column in columns.items():
        vector, weights = dict(column), {i: Fraction(1)}
        while vector:
            known = next((monomial for monomial in vector if monomial in pivots), None)
            if known is None:
                pivots[next(iter(vector))] = (vector, weights)
                break
            other, its_weights = pivots[known]
            factor = -vector[known] / other[known]
            _add(vector, other, factor)
            _add(weights, its_weights, factor)
        else:
            out.append(_integers(weights))
    return out


def _add(target: dict[Any, Fraction], other: Mapping[Any, Fraction], factor: Fraction) -> None:
    for key, value in other.items():
        total = target.get(key, Fraction(0)) + factor * value
        if total:
            target[key] = total
        else:
            target.pop(key, None)


def _integers(weights: Weights) -> Weights:
    ordered = dict(sorted(weights.items()))
    scale = Fraction(math.lcm(*(w.denominator for w in ordered.values())))
    scale /= math.gcd(*(int(w * scale) for w in ordered.values()))
    scale *= 1 if next(iter(ordered.values())) > 0 else -1
    return {i: w * scale for i, w in ordered.items()}


def _divides(value: TracePolynomial) -> bool:
    """Whether an inverse of a sum occurs: only then may a normal form that is not zero be one of zero."""
    return any(_has_sum(factor) for factor in value.factors())


def _has_sum(letter: Letter) -> bool:
    match letter:
        case InverseLetter() | InverseScalar():
            terms = letter.argument.terms
            return len(terms) > 1 or any(_has_sum(inner) for word in terms for inner in word)
        case TraceLetter():
            return any(map(_has_sum, letter.letters))
        case PartLetter():
            return any(map(_has_sum, letter.word))
    return False
