"""Is the action free to first order: is X -> V_X injective?

(a) proves it for all sizes where the vertical formulas say so one after another: G X = 0 gives X = 0 because G has full column
rank. Otherwise it is tested by the rank of the map at random points: (b) modulo a prime and (d) in exact numbers that of the
derived V, (e) in floating point that of the differential of the declared action, with which V must agree. An action that is
not free comes with a point and an X that does not move it: exp(t X) is in the point's stabiliser.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from quotientgeo.symbolic.algebra import (
    COMMUTING,
    SCALARS,
    Alphabet,
    Kind,
    Letter,
    Polynomial,
    Word,
    one_over,
    split_scalars,
)
from quotientgeo.symbolic.algebra.polynomial import symbols_of
from quotientgeo.symbolic.derivation.calculus import Blocks, Reading, variables_of
from quotientgeo.symbolic.derivation.certificate import Claim, Level, LevelResult, Outcome, Witness
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.autodiff import TOLERANCE, TorchCalculus
from quotientgeo.symbolic.derivation.levels.kinds import basis, integers
from quotientgeo.symbolic.derivation.levels.least import Attempt, least
from quotientgeo.symbolic.derivation.levels.modular import PRIME, Jet, ModularCalculus, SingularError
from quotientgeo.symbolic.derivation.levels.normal_form import SymbolicCalculus
from quotientgeo.symbolic.derivation.levels.points import (
    NO_INVERSE,
    Sizes,
    assign_sizes,
    generator,
    named_sizes,
    numbers,
    relation,
    sizes_text,
)
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.rational import Dual, RationalCalculus

NAME = "action_free"
TEXT = "V_X = 0 for X = 0 only: every orbit has the dimension of the group, and stabilisers are discrete"
_SMALLEST = 1e-9  # smallest singular value allowed, relative to the largest
_FULL = "X -> V_X has the rank of the group's dimension"

Element = dict[str, list[list[int]]]  # Lie algebra letter -> matrix
V = TypeVar("V")


def check_free(geometry: Geometry, levels: list[Level], ranks: Ranks) -> Claim:
    """The claim by the given levels; ``ranks`` collects the full ranks that its proof assumes."""
    results: list[LevelResult] = []
    witness = None
    for level in levels:
        if level is Level.NORMAL_FORM:
            results.append(_by_formulas(geometry, ranks))
        elif level is Level.MODULAR:
            results.append(_modulo_prime(geometry))
        elif level is Level.RATIONAL:
            result, witness = _exactly(geometry)
            results.append(result)
        elif level is Level.AUTODIFF:
            results.append(_in_float64(geometry))
    if witness is None and any(result.outcome is Outcome.FALSE for result in results):
        witness = _exactly(geometry)[1]
    return Claim(NAME, TEXT, "; ".join(map(str, geometry.vertical.values())), tuple(results), witness)


# for all sizes


class Step(NamedTuple):
    """``formula`` = ``value``, where the formula is l x r, and l and r' are injective, so that it fixes the letter x."""

    formula: Polynomial
    letter: str
    value: Polynomial


def vertical_steps(geometry: Geometry, ranks: Ranks) -> list[Step] | None:
    """The vertical formulas that give X = 0 one after another where they all vanish, or None."""
    alphabet = geometry.alphabet
    zeros = {x: alphabet.zero(alphabet.shape(x)) for x in geometry.names.algebra}
    formulas = {f: v.polynomial for f, v in geometry.vertical.items()}
    return _steps(formulas, {f: alphabet.zero(v.shape) for f, v in formulas.items()}, zeros, ranks)


def fixing_steps(geometry: Geometry, ranks: Ranks) -> list[Step] | None:
    """The moved factors that give A = 1 one after another where no factor moves, or None."""
    alphabet = geometry.alphabet
    reading = Reading(SymbolicCalculus(alphabet), geometry)
    ones = {e: value for e, value in reading.identity().items() if isinstance(value, Polynomial)}
    points = {f: ranks.shifts.point(f) for f in geometry.action}
    moved = {f: a.polynomial + points[f] - alphabet[f] for f, a in geometry.action.items()}
    return _steps(moved, points, ones, ranks)


def _steps(
    formulas: Mapping[str, Polynomial],
    sides: Mapping[str, Polynomial],
    values: Mapping[str, Polynomial],
    ranks: Ranks,
) -> list[Step] | None:
    """Of the formulas, each with what it equals, those that fix the letters one after another at ``values``."""
    before, shifts = ranks.state(), ranks.shifts
    shifted = {factor: shifts.shifted(formula) for factor, formula in formulas.items()}

    def attempts(settled: Mapping[str, Step]) -> Iterator[Attempt[Step]]:
        known, unknown = {x: values[x] for x in settled}, [x for x in values if x not in settled]
        left = {factor: formula.substitute(known) for factor, formula in shifted.items()} if known else shifted
        for factor, formula in left.items():
            for x in unknown:
                step = Step(shifts.restored(formula), x, sides[factor])
                yield x, step, lambda formula=formula, x=x: _isolates(formula, x, unknown, ranks)  # type: ignore[misc]

    found = least(ranks, attempts)
    if len(found) < len(values):
        ranks.back(before)
        return None
    return list(found.values())


def _isolates(formula: Polynomial, name: str, unknown: Sequence[str], ranks: Ranks) -> bool:
    """Whether the formula is one product that holds one unknown letter, once, between what leaves no other than zero."""
    if len(formula) != 1:
        return False
    ((word, _),) = formula
    places = [i for i, letter in enumerate(word) if set(symbols_of(letter)) & set(unknown)]
    if len(places) != 1 or word[places[0]] not in _variants(formula.alphabet, name):
        return False
    before = ranks.state()
    if _leaves_none(word, places[0], ranks):
        return True
    ranks.back(before)
    return False


def _leaves_none(word: Word, place: int, ranks: Ranks) -> bool:
    """Whether the product is zero only where its letter at ``place`` is."""
    scalars, matrices = split_scalars(word)
    if place < len(scalars):
        others = scalars[:place] + scalars[place + 1 :]
        return ranks.nonzero_scalars(others) and ranks.nonzero_product(matrices)
    if not ranks.nonzero_scalars(scalars):
        return False
    place -= len(scalars)
    return ranks.leaves_none(matrices, place, place + 1)


def _variants(alphabet: Alphabet, name: str) -> set[Letter]:
    kind = alphabet.kind(name)
    if alphabet.shape(name) == (1, 1):
        number = alphabet[name].scalar()
        return {*number.factors(), *one_over(number).factors()}
    inverted = (False, True) if kind in (Kind.INVERTIBLE, Kind.ORTHOGONAL, *COMMUTING) else (False,)
    return {alphabet.symbol_letter(name, t, i) for t in (False, True) for i in inverted}


def _by_formulas(geometry: Geometry, ranks: Ranks) -> LevelResult:
    steps = vertical_steps(geometry, ranks)
    if steps is None:
        text = "the vertical formulas by themselves do not give X = 0"
        return LevelResult(Level.NORMAL_FORM, Outcome.UNDECIDED, residual=text)
    text = ", ".join(f"{step.formula} = 0 gives {step.letter} = 0" for step in steps)
    fixing = fixing_steps(geometry, ranks) or []

    def one(element: str) -> str:
        return "1" if geometry.kind(element) in SCALARS else "I"

    text += "".join(f", {step.formula} = {step.value} gives {step.letter} = {one(step.letter)}" for step in fixing)
    return LevelResult(Level.NORMAL_FORM, Outcome.PROVEN, "all sizes", text)


# at random points


def algebra_basis(geometry: Geometry, sizes: Sizes) -> list[Element]:
    """A basis of the Lie algebra: for each group that of its kind, with zero for the others."""
    variables = variables_of(geometry, "X")
    shapes = {x: numbers(variable.shape, sizes) for x, variable in variables.items()}
    zero = {x: integers({}, *shape) for x, shape in shapes.items()}
    return [
        {**zero, x: integers(unit, *shapes[x])}
        for x, variable in variables.items()
        for unit in basis(variable.kind, *shapes[x])
    ]


def _columns(reading: Reading[V], point: Blocks[V], basis: Sequence[Blocks[V]], entries: Any) -> list[list[Any]]:
    """The vertical vectors of the basis, each as the list of its entries."""
    return [
        [x for value in reading.vertical(point, element).values() for row in entries(value) for x in row]
        for element in basis
    ]


def _modulo_prime(geometry: Geometry) -> LevelResult:
    scopes: list[str] = []
    for sizes in (assign_sizes(geometry, 2, 3), assign_sizes(geometry, 3, 4)):
        scopes.append(sizes_text(sizes))
        reading = Reading(ModularCalculus(sizes, generator("free", geometry.name, scopes[-1])), geometry)
        (point,) = reading.bind(["p"])
        basis = algebra_basis(geometry, sizes)
        jets = [{x: Jet({0: rows}) for x, rows in element.items()} for element in basis]
        try:
            columns = _columns(reading, point, jets, lambda jet: jet.parts[0])
        except SingularError:
            return LevelResult(Level.MODULAR, Outcome.FALSE, scopes[-1], NO_INVERSE)
        rank = _rank_modulo(columns)
        if rank < len(basis):
            text = f"rank {rank} of X -> V_X, dimension {len(basis)} of the group"
            return LevelResult(Level.MODULAR, Outcome.FALSE, scopes[-1], text)
    return LevelResult(Level.MODULAR, Outcome.TESTED, " and ".join(dict.fromkeys(scopes)), _FULL)


def _rank_modulo(rows: list[list[int]]) -> int:
    work, rank = [[x % PRIME for x in row] for row in rows], 0
    for c in range(len(work[0]) if work else 0):
        pivot = next((r for r in range(rank, len(work)) if work[r][c]), None)
        if pivot is None:
            continue
        work[rank], work[pivot] = work[pivot], work[rank]
        inverse = pow(work[rank][c], -1, PRIME)
        for r in range(rank + 1, len(work)):
            factor = work[r][c] * inverse % PRIME
            if factor:
                work[r] = [(x - factor * y) % PRIME for x, y in zip(work[r], work[rank], strict=True)]
        rank += 1
    return rank


def _exactly(geometry: Geometry) -> tuple[LevelResult, Witness | None]:
    """Full rank at one of a few points is full rank at almost all; otherwise a combination that moves nothing."""
    sizes, witness = assign_sizes(geometry, 2, 3), None
    scope = sizes_text(sizes)
    for attempt in range(3):
        calculus = RationalCalculus(sizes, generator("free", geometry.name, attempt), reach=12)
        reading = Reading(calculus, geometry)
        (point,) = reading.bind(["p"])
        basis = algebra_basis(geometry, sizes)
        duals = [
            {x: [[Dual({0: Fraction(a)}) for a in row] for row in rows] for x, rows in element.items()}
            for element in basis
        ]
        try:
            kernel = relation(_columns(reading, point, duals, lambda rows: [[a.real for a in row] for row in rows]))
        except ZeroDivisionError:
            return LevelResult(Level.RATIONAL, Outcome.FALSE, scope, NO_INVERSE), None
        if kernel is None:
            return LevelResult(Level.RATIONAL, Outcome.TESTED, scope, _FULL), None
        values = {f: [[str(a.real) for a in row] for row in rows] for f, rows in point.items()}
        values |= {x: [[str(a) for a in row] for row in _combined(basis, kernel, x)] for x in basis[0]}
        witness = witness or Witness(
            named_sizes(sizes), values, "V_X = 0, so exp(t X) leaves the point where it is", "V_X = 0 for X = 0 only"
        )
    return LevelResult(Level.RATIONAL, Outcome.FALSE, scope, "an X other than zero has V_X = 0"), witness


def _combined(basis: Sequence[Element], weights: Sequence[Fraction], x: str) -> list[list[Fraction]]:
    rows = [[Fraction(0)] * len(row) for row in basis[0][x]]
    for element, weight in zip(basis, weights, strict=True):
        rows = [[a + weight * b for a, b in zip(p, q, strict=True)] for p, q in zip(rows, element[x], strict=True)]
    return rows


def _in_float64(geometry: Geometry) -> LevelResult:
    """Rank of the differential of the declared action at the identity; the derived V must be that differential."""
    sizes = assign_sizes(geometry, 3, 5)
    scope = sizes_text(sizes)
    reading = Reading(TorchCalculus(sizes, generator("free", geometry.name).getrandbits(32)), geometry)
    (point,) = reading.bind(["p"])
    basis = algebra_basis(geometry, sizes)
    tensors = [{x: torch.tensor(rows, dtype=torch.float64) for x, rows in e.items()} for e in basis]
    try:
        moved = _matrix([reading.along_orbit(point, x) for x in tensors])
        derived = _matrix([reading.vertical(point, x) for x in tensors])
    except torch.linalg.LinAlgError:
        return LevelResult(Level.AUTODIFF, Outcome.FALSE, scope, NO_INVERSE)
    ratio = _smallest_ratio(moved)
    if not ratio > _SMALLEST:
        text = "a singular value of the differential of the declared action is zero"
        return LevelResult(Level.AUTODIFF, Outcome.FALSE, scope, text, ratio)
    difference = (moved - derived).abs().sum().item() / moved.abs().sum().clamp_min(1.0).item()
    if not difference < TOLERANCE:  # also for NaN
        text = f"V_X is not the differential of the declared action, relative difference above {TOLERANCE:g}"
        return LevelResult(Level.AUTODIFF, Outcome.FALSE, scope, text, difference)
    text = f"all singular values of the differential of the declared action positive, V_X within {TOLERANCE:g} of it"
    return LevelResult(Level.AUTODIFF, Outcome.TESTED, scope, text, ratio)


def _matrix(tangents: Sequence[Blocks[Tensor]]) -> Tensor:
    """One row per tangent: its entries."""
    rows = [torch.cat([value.detach().flatten() for value in blocks.values()]) for blocks in tangents]
    return torch.stack(rows) if rows else torch.zeros(0, 0, dtype=torch.float64)


def _smallest_ratio(rows: Tensor) -> float:
    """Smallest singular value of the map, relative to the largest; one value per row, also where rows are short."""
    count = len(rows)
    if not count:
        return 1.0  # a group of dimension 0
    padded = torch.cat([rows, rows.new_zeros(count, count)], 1)
    values = torch.linalg.svdvals(padded)
    return (values[-1] / values[0]).item()
