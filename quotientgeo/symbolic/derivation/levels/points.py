"""Sizes and exact random matrices at which claims are tested. Seeds are fixed: a certificate is reproducible."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from quotientgeo.symbolic.algebra import (
    Dimension,
    OnesLetter,
    Shape,
    TraceLetter,
)
from quotientgeo.symbolic.algebra.cyclic import SMALL
from quotientgeo.symbolic.algebra.letters import Word, words_inside
from quotientgeo.symbolic.derivation.calculus import Variable
from quotientgeo.symbolic.derivation.certificate import Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.kinds import PARTED, basis

if TYPE_CHECKING:
    from quotientgeo.symbolic.derivation.levels.bounds import Need

Rows = list[list[Fraction]]
Sizes = dict[Dimension, int]
LITERAL = 32
MOST_SIZES = 20_000  # combinations that are looked at for the nearest
NO_INVERSE = "an inverse in the formula does not exist at these sizes"


def assign_sizes(geometry: Geometry, group: int, first: int, step: int = 1, *, narrow: bool = False) -> Sizes:
    """Numbers for the sizes: ``group`` for those of groups, first, first + step, ... for the others in order.

    A declared number stays as it is up to SMALL, or up to LITERAL where it is also a coefficient of what was declared (a mean
    over 10 classes); a larger one (a model's real width) gets a stand-in like a symbol. A size
    whose coordinates come in pairs is 2 ``group``, and the others grow with it: a factor that has at least as many rows as
    columns without pairs keeps them, so that the inverse of its Gram matrix exists (``narrow``: they do not grow). Groups
    that have no one size (translations) set none. Where inverses cannot exist at these numbers, or points of the full ranks
    that proofs assume, or where the order of declared numbers is lost, the nearest ones at which they can are taken, if any.
    """
    key = (group, first, step, narrow)
    if key not in geometry.assigned:
        out = _in_order(geometry, group, first, step, narrow=narrow)
        geometry.assigned[key] = out if narrow else _fitted(geometry, out)
    return dict(geometry.assigned[key])


def _in_order(geometry: Geometry, group: int, first: int, step: int, *, narrow: bool) -> Sizes:
    of_groups, literal = group_sizes(geometry), _literal_sizes(geometry)
    out: Sizes = {}
    following = first if narrow else first + group * any(of_groups.values())
    for size in geometry.sizes:
        if isinstance(size, int) and (size <= SMALL or size in literal):
            continue
        if size in of_groups:
            out[size] = 2 * group if of_groups[size] else group
        else:
            out[size] = following + following % 2 * (size in geometry.alphabet.paired)
            following += step
    return out


def _literal_sizes(geometry: Geometry) -> set[int]:
    """Declared numbers that are coefficients of what was declared, or count in its metric: false or true with a stand-in."""
    declared = [*geometry.action.values(), *geometry.preserved, geometry.inner]
    coefficients = [c for formula in declared for c in formula.polynomial.terms.values()]
    numbers = {number for c in coefficients for number in (abs(c.numerator), c.denominator)}
    numbers |= counted_sizes(geometry)
    return {size for size in geometry.sizes if isinstance(size, int) and size in numbers and size <= LITERAL}


def counted_sizes(geometry: Geometry) -> set[int]:
    """Declared numbers on which the metric depends as numbers: by columns of ones, or tr(I)."""

    def of(word: Word) -> Iterator[Dimension]:
        for letter in word:
            if isinstance(letter, OnesLetter):
                yield from letter.shape
            elif isinstance(letter, TraceLetter) and not letter.letters:
                yield letter.size
            for inner in words_inside(letter):
                yield from of(inner)

    found = (size for word in geometry.inner.polynomial.terms for size in of(word))
    return {size for size in found if isinstance(size, int) and size > SMALL}


def _fitted(geometry: Geometry, start: Sizes) -> Sizes:
    """The nearest numbers at which all can exist that can at any; the given ones where there are none."""
    needs = geometry.needs
    for wanted in dict.fromkeys(((*needs.formulas, *needs.points), needs.formulas, needs.metric)):
        if _fits(geometry, start, wanted):
            return start
        others = _others(geometry, start, wanted)
        possible = tuple(need for need in wanted if any(need.met(_value(sizes)) for sizes in others))
        found = [sizes for sizes in others if _fits(geometry, sizes, possible)]
        if found:
            return min(found, key=lambda sizes: _distance(geometry, start, sizes))
    return start


def _fits(geometry: Geometry, sizes: Sizes, wanted: tuple[Need, ...]) -> bool:
    """Whether needs are met, and numbers that were declared stand in their order."""
    declared = sorted(size for size in geometry.sizes if isinstance(size, int))
    values = [number(size, sizes) for size in declared]
    return values == sorted(values) and all(need.met(_value(sizes)) for need in wanted)


def _value(sizes: Sizes) -> Callable[[Dimension], int]:
    return lambda size: number(size, sizes)


def _others(geometry: Geometry, start: Sizes, wanted: tuple[Need, ...]) -> list[Sizes]:
    """All numbers, up to one more than those that are given or stay as declared, for the sizes that needs or numbers bind.

    Where there are too many, the bound sizes in a few orders only: all equal, and rising or falling along the inequalities.
    """
    bound = {size for need in wanted for size in need.sizes}
    fixed = [size for size in geometry.sizes if isinstance(size, int) and size not in start]
    largest = max((*start.values(), *fixed), default=1)
    free = [size for size in start if size in bound or isinstance(size, int)]
    if (largest + 1) ** len(free) > MOST_SIZES:
        return _ranked(geometry, start, wanted, free)
    choices = [
        [n for n in range(1, largest + 2) if n % 2 == 0 or size not in geometry.alphabet.paired]
        if size in free
        else [start[size]]
        for size in start
    ]
    return [dict(zip(start, values, strict=True)) for values in product(*choices)]


def _ranked(geometry: Geometry, start: Sizes, wanted: tuple[Need, ...], free: list[Dimension]) -> list[Sizes]:
    """Each free size by how many others must be at most as large, one or two apart; and all of them equal."""
    below: dict[Dimension, set[Dimension]] = {size: set() for size in free}
    for _ in free:  # transitively
        for need in wanted:
            if need.size in below:
                for place in {place for places in need.places for place in places} & set(below) - {need.size}:
                    below[place] |= {need.size, *below[need.size]} - {place}
    numbers_declared = [size for size in free if isinstance(size, int)]
    declared: Sizes = {size: sum(other < size for other in numbers_declared) for size in numbers_declared}
    out = []
    for least, step in product((2, 3), (0, 1, 2)):
        values = {size: least + step * max(len(below[size]), declared.get(size, 0)) for size in free}
        paired = {size: n + n % 2 for size, n in values.items() if size in geometry.alphabet.paired}
        out.append(start | values | paired)
    return out


def _distance(geometry: Geometry, start: Sizes, sizes: Sizes) -> tuple[int | list[int], ...]:
    """Groups keep their sizes first, then different sizes stay different, then the numbers are near."""
    moved = [size for size in start if sizes[size] != start[size]]
    of_groups = group_sizes(geometry)
    change = sum(abs(sizes[size] - start[size]) for size in moved)
    different = len({number(size, sizes) for size in geometry.sizes})
    return sum(size in of_groups for size in moved), -different, change, list(sizes.values())


def undefined(geometry: Geometry) -> str:
    """What of the metric exists at no point, for the numbers of rows and columns that are declared; or nothing."""
    sizes = assign_sizes(geometry, 2, 3)
    for need in geometry.needs.metric:
        declared = all(isinstance(size, int) for size in need.sizes)
        if not need.met(int if declared else _value(sizes)):
            return need.text
    return ""


def no_inverse(geometry: Geometry, level: Level, scope: str) -> LevelResult:
    """What a level says of a claim about formulas with an inverse that does not exist where it looked.

    Where the metric is undefined, which its definiteness is refuted by, nothing can be said of other claims.
    """
    missing = undefined(geometry)
    if missing:
        return LevelResult(level, Outcome.NOT_APPLICABLE, scope, f"{missing} does not exist at these sizes")
    return LevelResult(level, Outcome.FALSE, scope, NO_INVERSE)


def group_sizes(geometry: Geometry) -> dict[Dimension, bool]:
    """The sizes of the groups of square matrices, each with whether its coordinates come in pairs."""
    out: dict[Dimension, bool] = {}
    for group in geometry.symmetry.groups:
        size = getattr(group, "size", None)
        if size is not None:
            out[size] = size in geometry.alphabet.paired
    return out


def number(size: Dimension, sizes: Sizes) -> int:
    """A size as a number."""
    return sizes.get(size, size) if isinstance(size, int) else sizes[size]


def numbers(shape: Shape, sizes: Sizes) -> tuple[int, int]:
    """A shape as numbers."""
    return number(shape[0], sizes), number(shape[1], sizes)


def sizes_text(sizes: Sizes) -> str:
    """``(n, m, h) = (3, 4, 2)``; ``->`` where a large declared number has a stand-in."""
    if not sizes:
        return "the declared sizes"
    names, values = ", ".join(map(str, sizes)), ", ".join(map(str, sizes.values()))
    sign = "->" if any(isinstance(size, int) for size in sizes) else "="
    return f"{names} {sign} {values}" if len(sizes) == 1 else f"({names}) {sign} ({values})"


def named_sizes(sizes: Sizes) -> dict[str, int]:
    """Sizes by name, for a witness; the stand-in of a declared number is named after it."""
    return {size if isinstance(size, str) else f"size {size}": value for size, value in sizes.items()}


def generator(*parts: object) -> random.Random:
    """A random generator seeded by text, the same under every hash seed."""
    return random.Random(zlib.crc32(" ".join(map(str, parts)).encode()))


def random_matrix(variable: Variable, sizes: Sizes, rng: random.Random, reach: int = 3) -> Rows:
    """A matrix of the variable's shape and kind made of integers from 1 to reach with random signs (orthogonal: rational)."""
    rows, columns = numbers(variable.shape, sizes)
    if variable.kind == "orthogonal":
        return _random_orthogonal(rows, rng)
    if variable.kind in PARTED:
        parted = _random_parted(variable.kind, rows, columns, rng, reach)
        return [[abs(x) for x in row] for row in parted] if variable.positive else parted
    entries = [[Fraction(rng.randint(1, reach) * rng.choice((-1, 1))) for _ in range(columns)] for _ in range(rows)]
    if variable.kind == "positive":
        return [[abs(x) for x in row] for row in entries]
    if variable.kind == "invertible":  # unit lower times unit upper triangular, so never singular
        lower = [[Fraction(i == j) if i <= j else entries[i][j] for j in range(rows)] for i in range(rows)]
        upper = [[Fraction(2 * (i == j)) if i >= j else entries[i][j] for j in range(rows)] for i in range(rows)]
        return [[sum((row[k] * upper[k][j] for k in range(rows)), Fraction(0)) for j in range(rows)] for row in lower]
    if variable.kind in ("symmetric", "skew"):
        sign = 1 if variable.kind == "symmetric" else -1
        return [[entries[i][j] + sign * entries[j][i] for j in range(columns)] for i in range(rows)]
    return entries


def _random_parted(kind: str, rows: int, columns: int, rng: random.Random, reach: int) -> Rows:
    """A diagonal or complex diagonal matrix with no number of its diagonal equal to zero."""
    out = [[Fraction(0)] * columns for _ in range(rows)]
    for unit in basis(kind, rows, columns):
        value = rng.randint(1, reach) * rng.choice((-1, 1))
        for (i, j), sign in unit.items():
            out[i][j] = Fraction(sign * value)
    return out


def _random_orthogonal(size: int, rng: random.Random) -> Rows:
    """Product of rational plane rotations with a random sign per column."""
    out = [[Fraction(rng.choice((-1, 1)) if i == j else 0) for j in range(size)] for i in range(size)]
    for i in range(size):
        for j in range(i + 1, size):
            t = Fraction(rng.randint(-3, 3), rng.randint(1, 3))
            cosine, sine = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
            out[i], out[j] = (
                [cosine * a - sine * b for a, b in zip(out[i], out[j], strict=True)],
                [sine * a + cosine * b for a, b in zip(out[i], out[j], strict=True)],
            )
    return out


def relation(rows: Rows) -> list[Fraction] | None:
    """Weights, not all zero, with which the rows add up to zero; None where they are independent."""
    work = [list(row) for row in rows]
    weights = [[Fraction(i == j) for j in range(len(rows))] for i in range(len(rows))]
    pivots: list[tuple[int, int]] = []  # (row, column)
    for r, row in enumerate(work):
        for p, c in pivots:
            factor = work[r][c] / work[p][c]
            if factor:
                work[r] = [a - factor * b for a, b in zip(work[r], work[p], strict=True)]
                weights[r] = [a - factor * b for a, b in zip(weights[r], weights[p], strict=True)]
        column = next((c for c in range(len(row)) if work[r][c]), None)
        if column is None:
            return weights[r]
        pivots.append((r, column))
    return None


def has_full_rank(rows: Rows) -> bool:
    """Whether a matrix has as many independent rows or columns as it can."""
    short = rows if len(rows) <= len(rows[0]) else [list(column) for column in zip(*rows, strict=True)]
    return relation(short) is None
