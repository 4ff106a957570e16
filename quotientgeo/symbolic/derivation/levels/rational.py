"""Level (d): exact rational arithmetic with dual numbers, entry by entry, on the SymPy expressions.

Also the source of witnesses: where a claim is false, the two sides at a point of small integers, as exact fractions.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import torch

from quotientgeo.symbolic.algebra import Dimension
from quotientgeo.symbolic.algebra.parts import coordinate_pairs
from quotientgeo.symbolic.derivation.calculus import Calculus, Reading, Values, Variable
from quotientgeo.symbolic.derivation.certificate import Level, LevelResult, Outcome, Witness
from quotientgeo.symbolic.derivation.formula import Formula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.points import (
    Sizes,
    assign_sizes,
    generator,
    named_sizes,
    no_inverse,
    number,
    random_matrix,
    sizes_text,
)
from quotientgeo.symbolic.derivation.levels.reading import Evaluation
from quotientgeo.symbolic.derivation.statements import Statement

_DRAWS = 20  # of a witness whose group elements shall belong to the group
_REACH = 12  # largest entry at a test point: small ones are symmetric, or alike, too often by chance


class Dual:
    """a + sum of e_S a_S with e_i^2 = 0, S a non-empty set of directions (a bit mask)."""

    __slots__ = ("parts",)

    def __init__(self, parts: dict[int, Fraction]) -> None:
        self.parts = parts

    @property
    def real(self) -> Fraction:
        return self.parts.get(0, Fraction(0))

    def __add__(self, other: Dual) -> Dual:
        parts = dict(self.parts)
        for mask, b in other.parts.items():
            parts[mask] = parts[mask] + b if mask in parts else b
        return Dual(parts)

    def __mul__(self, other: Dual) -> Dual:
        parts: dict[int, Fraction] = {}
        for i, a in self.parts.items():
            if not a:
                continue
            for j, b in other.parts.items():
                if b and not i & j:
                    mask = i | j
                    parts[mask] = parts[mask] + a * b if mask in parts else a * b
        return Dual(parts)

    def times(self, factor: Fraction) -> Dual:
        return Dual({mask: a * factor for mask, a in self.parts.items()})

    def reciprocal(self) -> Dual:
        """1 / (a + n) = (1 - n/a + n^2/a^2 - ...) / a with nilpotent n."""
        inverse = 1 / self.real
        rest = Dual({mask: -a * inverse for mask, a in self.parts.items() if mask and a})
        term = out = Dual({0: inverse})
        while (term := term * rest).parts:
            out = out + term
        return out


Entries = list[list[Dual]]
ZERO, ONE = Dual({}), Dual({0: Fraction(1)})


class RationalArithmetic:
    """Matrices of dual numbers."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes

    def number(self, value: Fraction) -> Entries:
        return [[Dual({0: value})]]

    def identity(self, size: Dimension) -> Entries:
        k = number(size, self.sizes)
        return [[ONE if i == j else ZERO for j in range(k)] for i in range(k)]

    def zero(self, rows: Dimension, columns: Dimension) -> Entries:
        return [[ZERO] * number(columns, self.sizes) for _ in range(number(rows, self.sizes))]

    def add(self, left: Entries, right: Entries) -> Entries:
        return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(left, right, strict=True)]

    def scale(self, value: Entries, factor: Fraction) -> Entries:
        return [[a.times(factor) for a in row] for row in value]

    def product(self, left: Entries, right: Entries) -> Entries:
        columns = list(zip(*right, strict=True))
        return [[_dot(row, column) for column in columns] for row in left]

    def transpose(self, value: Entries) -> Entries:
        return [list(column) for column in zip(*value, strict=True)]

    def trace(self, value: Entries) -> Entries:
        total = ZERO
        for i, row in enumerate(value):
            total = total + row[i]
        return [[total]]

    def multiply(self, scalar: Entries, value: Entries) -> Entries:
        ((factor,),) = scalar
        return [[factor * a for a in row] for row in value]

    def ones(self, rows: Dimension, columns: Dimension) -> Entries:
        return [[ONE] * number(columns, self.sizes) for _ in range(number(rows, self.sizes))]

    def diagonal(self, column: Entries) -> Entries:
        return [[a if i == j else ZERO for j in range(len(column))] for i, (a,) in enumerate(column)]

    def diagonal_of(self, value: Entries) -> Entries:
        return [[row[i]] for i, row in enumerate(value)]

    def complex_part(self, value: Entries, pairing: str) -> Entries:
        out = [[ZERO] * len(value) for _ in value]
        half = Fraction(1, 2)
        for p, q in coordinate_pairs(len(value), pairing):
            out[p][p] = out[q][q] = (value[p][p] + value[q][q]).times(half)
            out[q][p] = (value[q][p] + value[p][q].times(Fraction(-1))).times(half)
            out[p][q] = out[q][p].times(Fraction(-1))
        return out

    def inverse(self, value: Entries) -> Entries:
        """Gauss-Jordan elimination; ZeroDivisionError for a singular matrix."""
        k = len(value)
        work = [[*row, *unit] for row, unit in zip(value, _unit(k), strict=True)]
        for c in range(k):
            pivot = next((r for r in range(c, k) if work[r][c].real), None)
            if pivot is None:
                raise ZeroDivisionError("singular matrix")
            work[c], work[pivot] = work[pivot], work[c]
            scale = work[c][c].reciprocal()
            work[c] = [a * scale for a in work[c]]
            for r in range(k):
                if r != c and work[r][c].parts:
                    factor = work[r][c].times(Fraction(-1))
                    work[r] = [a + factor * b for a, b in zip(work[r], work[c], strict=True)]
        return [row[k:] for row in work]


def _unit(k: int) -> Entries:
    return [[ONE if i == j else ZERO for j in range(k)] for i in range(k)]


def _dot(row: list[Dual], column: tuple[Dual, ...]) -> Dual:
    total = ZERO
    for a, b in zip(row, column, strict=True):
        if a.parts and b.parts:
            total = total + a * b
    return total


class RationalCalculus(RationalArithmetic, Calculus[Entries]):
    """Values at random points of small integers (rational where a letter is orthogonal)."""

    def __init__(self, sizes: Sizes, rng: random.Random, reach: int = 3) -> None:
        super().__init__(sizes)
        self.rng = rng
        self.reach = reach
        self.variables: dict[str, Entries] = {}
        self.depth = 0

    def variable(self, variable: Variable) -> Entries:
        if variable.name not in self.variables:
            rows = random_matrix(variable, self.sizes, self.rng, self.reach)
            self.variables[variable.name] = [[Dual({0: a}) for a in row] for row in rows]
        return self.variables[variable.name]

    def apply(self, formula: Formula, values: Mapping[str, Entries]) -> Entries:
        return Evaluation(self, values)(formula.expression)

    def pair(self, left: Entries, right: Entries) -> Entries:
        total = ZERO
        for x, y in zip(left, right, strict=True):
            total = total + _dot(x, tuple(y))
        return [[total]]

    def inverse_of(self, operator: Callable[[Values[Entries]], Values[Entries]], like: Values[Entries]) -> Entries:
        images = [operator(unit) for unit in _units(like)]
        return self.inverse(self.transpose([_listed(image) for image in images]))

    def apply_inverse(self, inverse: Entries, given: Values[Entries]) -> Values[Entries]:
        flat = tuple(_listed(given))
        return _parted([_dot(row, flat) for row in inverse], given)

    def derivative(
        self, function: Callable[[Values[Entries]], Values[Entries]], at: Values[Entries], direction: Values[Entries]
    ) -> Values[Entries]:
        bit = 1 << self.depth
        self.depth += 1
        step = Dual({bit: Fraction(1)})
        moved = {
            name: self.add(value, [[step * a for a in row] for row in direction[name]]) if name in direction else value
            for name, value in at.items()
        }
        result = function(moved)
        self.depth -= 1
        return {
            key: [[Dual({m ^ bit: a for m, a in entry.parts.items() if m & bit}) for entry in row] for row in value]
            for key, value in result.items()
        }


def _listed(values: Values[Entries]) -> list[Dual]:
    return [entry for value in values.values() for row in value for entry in row]


def _parted(entries: list[Dual], like: Values[Entries]) -> Values[Entries]:
    rest = iter(entries)
    return {key: [[next(rest) for _ in row] for row in value] for key, value in like.items()}


def _units(like: Values[Entries]) -> Iterator[Values[Entries]]:
    """Every value that has one entry 1 and no other."""
    count = len(_listed(like))
    for i in range(count):
        yield _parted([ONE if i == j else ZERO for j in range(count)], like)


def _real(value: Entries) -> list[list[Fraction]]:
    return [[entry.real for entry in row] for row in value]


def evaluate_sides(
    geometry: Geometry, statement: Statement, sizes: Sizes, seed: object, reach: int = 3
) -> tuple[RationalCalculus, list[tuple[Any, Any]]]:
    """Both sides of every equation at one random exact point; a point where an inverse does not exist is drawn again."""
    for attempt in range(20):
        rng = generator("rational", geometry.name, statement.name, sizes, seed, attempt)
        calculus = RationalCalculus(sizes, rng, reach)
        reading = Reading(calculus, geometry)
        try:
            pairs = statement.sides(reading, *reading.bind(statement.roles))
        except ZeroDivisionError:
            continue
        return calculus, [(_real(left), _real(right)) for left, right in pairs]
    raise ZeroDivisionError


def check_rational(geometry: Geometry, statement: Statement) -> LevelResult:
    """Tested at one random point of small integers; false when the sides differ, exactly."""
    sizes = assign_sizes(geometry, 2, 3)
    scope = sizes_text(sizes)
    try:
        _, pairs = evaluate_sides(geometry, statement, sizes, "check", _REACH)
    except ZeroDivisionError:
        return no_inverse(geometry, Level.RATIONAL, scope)
    if any(left != right for left, right in pairs):
        return LevelResult(Level.RATIONAL, Outcome.FALSE, scope, "the sides differ")
    return LevelResult(Level.RATIONAL, Outcome.TESTED, scope, "difference 0")


def find_witness(geometry: Geometry, statement: Statement) -> Witness | None:
    """The smallest sizes and entries at which the sides of a false claim differ, in exact numbers."""
    choices = [(1, 1, 1), (1, 1, 3), (1, 2, 3), (2, 2, 2), (2, 3, 3), (2, 3, 3), (3, 4, 5)]
    for trial, (group, first, reach) in enumerate(choices):
        sizes = assign_sizes(geometry, group, first)
        for again in range(_DRAWS):
            seed = ("witness", trial, again) if again else ("witness", trial)
            try:
                calculus, pairs = evaluate_sides(geometry, statement, sizes, seed, reach)
            except ZeroDivisionError:
                break
            if not _elements_belong(geometry, calculus):  # a negative number in a positive diagonal: drawn again
                continue
            for i, (left, right) in enumerate(pairs):
                if left != right:
                    values = {name: _text(_real(value)) for name, value in calculus.variables.items()}
                    place = _place(geometry, statement, i, len(pairs))
                    return Witness(named_sizes(sizes), values, _scalar_text(left), _scalar_text(right), place)
            break
    return None


def _elements_belong(geometry: Geometry, calculus: RationalCalculus) -> bool:
    """Whether the group elements that were drawn are elements of the numeric groups; their kinds say less."""
    for element, group in zip(geometry.names.elements, geometry.symmetry.groups, strict=True):
        for name in (element, geometry.names.other_element(element)):
            if name in calculus.variables and hasattr(group, "contains"):
                rows = [[float(a) for a in row] for row in _real(calculus.variables[name])]
                if not bool(
                    _of_shape(group, len(rows), len(rows[0])).contains(torch.tensor(rows, dtype=torch.float64))
                ):
                    return False
    return True


def _of_shape(group: Any, rows: int, columns: int) -> Any:
    """The same group of matrices of another size: a large declared number has a stand-in."""
    values = {"size": rows, "rows": rows, "columns": columns}
    changed = {x.name: values[x.name] for x in dataclasses.fields(group) if x.name in values}
    return dataclasses.replace(group, **changed)


def _place(geometry: Geometry, statement: Statement, i: int, count: int) -> str:
    """Which equation of a claim that has several: that of a factor, or of something that is preserved."""
    if statement.name in ("preserved", "vertical_in_kernel"):
        return geometry.preserved[i].name if len(geometry.preserved) > 1 else ""
    return list(geometry.factors)[i] if count == len(geometry.factors) > 1 else ""


def _text(value: list[list[Fraction]]) -> list[list[str]]:
    return [[str(a) for a in row] for row in value]


def _scalar_text(value: list[list[Fraction]]) -> Any:
    return str(value[0][0]) if len(value) == 1 and len(value[0]) == 1 else _text(value)
