"""Is the metric positive definite?

(a) proves it for all sizes where <xi, xi> is a sum of squares |l xi_F r'|^2 and every factor F has one with l and r injective
(factors of full rank, invertible letters, and products of such); it refutes it where some terms are minus squares and outgrow
the others as the factors are scaled. Otherwise it is tested, exactly (pivots of a rational Gram matrix) and in floating point
(eigenvalues), at one point and then wherever a search over scales and shapes finds the metric closest to failing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import count, takewhile

import torch

from quotientgeo.symbolic.derivation.calculus import Reading
from quotientgeo.symbolic.derivation.certificate import Claim, Level, LevelResult, Outcome, Witness
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.autodiff import POINTS, TorchCalculus
from quotientgeo.symbolic.derivation.levels.points import (
    LITERAL,
    NO_INVERSE,
    Rows,
    Sizes,
    assign_sizes,
    counted_sizes,
    generator,
    has_full_rank,
    named_sizes,
    numbers,
    sizes_text,
    undefined,
)
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.rational import Dual, Entries, RationalCalculus
from quotientgeo.symbolic.derivation.levels.search import decades, gram_matrices, suspects
from quotientgeo.symbolic.derivation.levels.squares import Dominated, dominated, sum_of_squares

NAME = "metric_positive_definite"
_SMALLEST = 1e-9  # smallest eigenvalue allowed, relative to the largest, in floating point
_FARTHEST = 2048  # decades to which a scaling is followed for the witness of what is false for all sizes
_SEARCHED = (Level.RATIONAL, Level.AUTODIFF)  # the levels that a search at further points can refute

Units = list[tuple[str, int, int]]  # the entries (factor, row, column) of a tangent


def check_positive(geometry: Geometry, levels: list[Level], ranks: Ranks) -> Claim:
    """The claim by the given levels; ``ranks`` collects the full ranks that its proof assumes."""
    text = "<xi, xi> > 0 for every xi other than zero"
    missing = undefined(geometry)
    if missing:
        why = f"the metric is undefined: {missing} does not exist at these sizes"
        looking = [level for level in levels if level in (Level.NORMAL_FORM, *_SEARCHED)]
        refuted = tuple(LevelResult(level, Outcome.FALSE, "the declared sizes", why) for level in looking)
        return Claim(NAME, text, str(geometry.inner), refuted)
    results: list[LevelResult] = []
    witness = None
    for level in levels:
        if level is Level.NORMAL_FORM:
            result, witness = _by_squares(geometry, ranks)
        elif level is Level.RATIONAL:
            result, found = _by_pivots(geometry)
            witness = found or witness
        elif level is Level.AUTODIFF:
            result = _by_eigenvalues(geometry)
        else:
            continue
        results.append(result)
    settled = witness is not None or any(result.outcome is Outcome.PROVEN for result in results)
    if not settled and any(result.level in _SEARCHED for result in results):
        results, witness = _searched(geometry, results)
    return Claim(NAME, text, str(geometry.inner), tuple(_at_declared(geometry, results)), witness)


def _at_declared(geometry: Geometry, results: list[LevelResult]) -> list[LevelResult]:
    """Nothing is tested by a stand-in for a declared number that counts in the metric."""
    large = sorted(size for size in counted_sizes(geometry) if size > LITERAL)
    if not large:
        return results
    why = f"the metric depends on the number {large[0]}, for which a smaller one stood in: give that size a name"
    return [replace(r, outcome=Outcome.UNDECIDED, residual=why) if r.outcome is Outcome.TESTED else r for r in results]


# for all sizes


def _by_squares(geometry: Geometry, ranks: Ranks) -> tuple[LevelResult, Witness | None]:
    before = ranks.state()
    found = sum_of_squares(geometry, ranks)
    if found is not None and not found.undecided:
        why = "all terms are zero only for xi = 0"
        if not found.weighted and not found.coupled:
            why = "every xi_F stands between injective products at least once"
        text = f"<xi, xi> = {found}, where {why}"
        return LevelResult(Level.NORMAL_FORM, Outcome.PROVEN, "all sizes", text), None
    ranks.back(before)
    if found is not None:
        missing = f"squares, but none that is zero only for xi_F = 0, for F = {', '.join(found.undecided)}"
        return LevelResult(Level.NORMAL_FORM, Outcome.UNDECIDED, residual=missing), None
    grown = dominated(geometry)
    if grown is None:
        return LevelResult(Level.NORMAL_FORM, Outcome.UNDECIDED, residual="no sum of squares by its form"), None
    scaling = ", ".join(f"{f} -> {'t' if k > 0 else '1/t'} {f}" for f, k in grown.scaling.items() if k)
    under = f" as t grows in {scaling}" if scaling else ""
    text = f"for xi in {grown.factor} alone <xi, xi> is led by -({grown.subtracted}){under}"
    return LevelResult(Level.NORMAL_FORM, Outcome.FALSE, "all sizes", text), _far_witness(geometry, grown)


def _far_witness(geometry: Geometry, grown: Dominated) -> Witness | None:
    """Follow the scaling from a random point until the metric is negative there."""
    for sizes in (assign_sizes(geometry, 1, 1, 0), assign_sizes(geometry, 2, 2, 0)):
        start = _random_point(geometry, sizes, "scaling")
        for exponent in takewhile(lambda e: e <= _FARTHEST, (0, *(2**i for i in range(12)))):
            scale = {f: Fraction(10) ** (exponent * k) for f, k in grown.scaling.items()}
            point = {f: [[scale.get(f, 1) * x for x in row] for row in rows] for f, rows in start.items()}
            _, witness = _looked_at(geometry, sizes, point)
            if witness is not None:
                return witness
    return None


# exactly, at given points


def _random_point(geometry: Geometry, sizes: Sizes, *seed: object) -> dict[str, Rows]:
    """Small integers; factors of full rank, since at others a metric may well be degenerate."""
    for attempt in count():
        calculus = RationalCalculus(sizes, generator("positivity", geometry.name, *seed, attempt))
        values, parameters = Reading(calculus, geometry).bind(["p", "parameters"])
        point = {f: [[x.real for x in row] for row in value] for f, value in (values | parameters).items()}
        if all(map(has_full_rank, point.values())):
            return point
    raise AssertionError


def _by_pivots(geometry: Geometry) -> tuple[LevelResult, Witness | None]:
    """Exact L D L' of the Gram matrix at a random rational point; a pivot <= 0 gives a vector that refutes the claim."""
    sizes = assign_sizes(geometry, 2, 3)
    for attempt in range(20):
        point = _random_point(geometry, sizes, attempt)
        defined, witness = _looked_at(geometry, sizes, point)
        if not defined:
            continue
        if witness is None:
            return LevelResult(Level.RATIONAL, Outcome.TESTED, sizes_text(sizes), "all pivots positive"), None
        return LevelResult(Level.RATIONAL, Outcome.FALSE, sizes_text(sizes), "a pivot is not positive"), witness
    return LevelResult(Level.RATIONAL, Outcome.FALSE, sizes_text(sizes), NO_INVERSE), None


def _searched(geometry: Geometry, results: list[LevelResult]) -> tuple[list[LevelResult], Witness | None]:
    """The results after the search; ``tested`` says how far it went."""
    for sizes, point in suspects(geometry):
        if not all(map(has_full_rank, point.values())):
            continue  # rounding may have made it so
        _, witness = _looked_at(geometry, sizes, point)
        if witness is not None:
            why = "a pivot is not positive at a point that a search over scales and shapes found"
            return [_replaced(result, sizes_text(sizes), why, Outcome.FALSE) for result in results], witness
    further = f"no exception found over factors scaled by 10^-{decades(geometry):.0f} to 10^{decades(geometry):.0f}"
    tested = [r.outcome is Outcome.TESTED for r in results]
    return [
        _replaced(r, r.scope, f"{r.residual}; {further}", r.outcome) if searched else r
        for r, searched in zip(results, tested, strict=True)
    ], None


def _replaced(result: LevelResult, scope: str, residual: str, outcome: Outcome) -> LevelResult:
    if result.level not in _SEARCHED:
        return result
    return LevelResult(result.level, outcome, scope, residual, result.measured)


def _looked_at(geometry: Geometry, sizes: Sizes, point: Mapping[str, Rows]) -> tuple[bool, Witness | None]:
    """Whether the metric is defined at the point, and a tangent with <xi, xi> <= 0 there, if there is one."""
    try:
        return True, _witness_at(geometry, sizes, point)
    except ZeroDivisionError:
        return False, None


def _witness_at(geometry: Geometry, sizes: Sizes, point: Mapping[str, Rows]) -> Witness | None:
    """A tangent at the point with <xi, xi> <= 0, if there is one: exact."""
    units = _units(geometry, sizes)
    gram = _gram(geometry, sizes, point, units)
    vector = _non_positive_vector(gram)
    if vector is None:
        return None
    values = {name: [[str(x) for x in row] for row in rows] for name, rows in point.items()}
    for factor, shape in geometry.factors.items():
        rows, columns = numbers(shape, sizes)
        entries = [["0"] * columns for _ in range(rows)]
        for (name, i, j), value in zip(units, vector, strict=True):
            if name == factor:
                entries[i][j] = str(value)
        values[geometry.names.tangent(factor)] = entries
    square = sum((a * gram[i][j] * b for i, a in enumerate(vector) for j, b in enumerate(vector)), start=Fraction(0))
    return Witness(named_sizes(sizes), values, f"<xi, xi> = {square}", "> 0")


def _units(geometry: Geometry, sizes: Sizes) -> Units:
    out = []
    for factor, shape in geometry.factors.items():
        rows, columns = numbers(shape, sizes)
        out += [(factor, i, j) for i in range(rows) for j in range(columns)]
    return out


def _gram(geometry: Geometry, sizes: Sizes, point: Mapping[str, Rows], units: Units) -> list[list[Fraction]]:
    """Symmetric part of the Gram matrix of the entries, in one evaluation: entry i of xi is e_i, entry j of eta is e'_j."""
    names, size = geometry.names, len(units)
    values: dict[str, Entries] = {f: [[Dual({0: x}) for x in row] for row in rows] for f, rows in point.items()}
    for rename, offset in ((names.tangent, 0), (names.second_tangent, size)):
        place = count(offset)
        for factor, shape in geometry.factors.items():
            rows, columns = numbers(shape, sizes)
            values[rename(factor)] = [
                [Dual({1 << next(place): Fraction(1)}) for _ in range(columns)] for _ in range(rows)
            ]
    calculus = RationalCalculus(sizes, generator())
    ((found,),) = calculus.apply(geometry.inner, values)
    entry = [[found.parts.get(1 << i | 1 << (size + j), Fraction(0)) for j in range(size)] for i in range(size)]
    return [[(entry[i][j] + entry[j][i]) / 2 for j in range(size)] for i in range(size)]


def _non_positive_vector(gram: list[list[Fraction]]) -> list[Fraction] | None:
    """A vector v with v' gram v <= 0, or None when the symmetric matrix is positive definite."""
    size = len(gram)
    work = [list(row) for row in gram]
    rows = [[Fraction(i == j) for j in range(size)] for i in range(size)]  # rows of L^-1: work = L^-1 gram L^-T
    for k in range(size):
        if work[k][k] <= 0:
            return rows[k]
        for r in range(k + 1, size):
            factor = work[r][k] / work[k][k]
            if factor:
                work[r] = [a - factor * b for a, b in zip(work[r], work[k], strict=True)]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[k], strict=True)]
    return None


# in floating point


def _by_eigenvalues(geometry: Geometry) -> LevelResult:
    result = _eigenvalues_at(geometry, 0)
    for attempt in range(1, POINTS):  # a point may be badly conditioned by chance
        if result.outcome is not Outcome.FALSE:
            break
        result = _eigenvalues_at(geometry, attempt)
    return result


def _eigenvalues_at(geometry: Geometry, attempt: int) -> LevelResult:
    sizes = assign_sizes(geometry, 3, 5)
    seed = generator("positivity", geometry.name, *([attempt] if attempt else [])).getrandbits(32)
    calculus = TorchCalculus(sizes, seed)
    factors, parameters = Reading(calculus, geometry).bind(["p", "parameters"])
    point = factors | parameters
    scope = sizes_text(sizes)
    try:
        (gram,) = gram_matrices(geometry, calculus, {f: value[None] for f, value in point.items()})
    except torch.linalg.LinAlgError:
        return LevelResult(Level.AUTODIFF, Outcome.FALSE, scope, NO_INVERSE)
    values = torch.linalg.eigvalsh(gram)
    ratio = (values[0] / values.abs().max()).item()
    if not ratio > _SMALLEST:
        return LevelResult(
            Level.AUTODIFF, Outcome.FALSE, scope, "an eigenvalue of the Gram matrix is not positive", ratio
        )
    return LevelResult(Level.AUTODIFF, Outcome.TESTED, scope, "all eigenvalues of the Gram matrix positive", ratio)
