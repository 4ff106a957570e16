"""Where the group acts on the factors, and the words that lead from one such place to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from quotientgeo.errors import ArgumentError
from quotientgeo.symbolic.algebra import (
    COMMUTING,
    Alphabet,
    Dimension,
    Kind,
    Polynomial,
    TracePolynomial,
    one_over,
    scalar,
    split_scalars,
    trace,
)
from quotientgeo.symbolic.algebra.polynomial import symbols_of
from quotientgeo.symbolic.declaration import Symmetry
from quotientgeo.symbolic.derivation.formula import MatrixFormula
from quotientgeo.symbolic.derivation.levels.shifts import linear_points

MOST = 6_000  # words, and forms: more take minutes


class Place(NamedTuple):
    """A side of a factor: its size, and the group elements that multiply it there."""

    size: Dimension
    elements: tuple[str, ...] = ()


class Sides(NamedTuple):
    """The two sides of a factor, and the scalings (numbers) that move it."""

    left: Place
    right: Place
    scalings: tuple[str, ...]

    @property
    def acted(self) -> tuple[Place, ...]:
        """The sides on which a group acts."""
        return tuple(place for place in (self.left, self.right) if place.elements)


class Gram(NamedTuple):
    """F'F or F F' at a place, or the commuting letter that stands for it; whether it may have an inverse."""

    place: Place
    letter: Polynomial
    invertible: bool


class Step(NamedTuple):
    """A letter that leads from one place to another."""

    start: Place
    end: Place
    value: Polynomial


@dataclass(frozen=True)
class Problem:
    """A symmetry read for a search. ``moved`` and ``pushed`` are the action and its differential along xi."""

    symmetry: Symmetry
    alphabet: Alphabet
    moved: dict[str, Polynomial]
    pushed: dict[str, Polynomial]

    @classmethod
    def of(cls, symmetry: Symmetry) -> Problem:
        """Read the action in a new alphabet."""
        alphabet, names = symmetry.alphabet(), symmetry.names
        moved = {factor: polynomial for factor, (_, polynomial) in symmetry.read_action(alphabet).items()}
        tangents = {factor: alphabet[names.tangent(factor)] for factor in names.factors}
        return cls(symmetry, alphabet, moved, {f: value.differential(tangents) for f, value in moved.items()})

    @cached_property
    def action(self) -> dict[str, MatrixFormula]:
        """The moved factors as formulas."""
        letters = (*self.symmetry.names.elements, *self.factors)
        return {factor: MatrixFormula.derived("action", letters, moved) for factor, moved in self.moved.items()}

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the factors, in order."""
        return self.symmetry.names.factors

    def tangent(self, factor: str) -> Polynomial:
        """xi_F."""
        return self.alphabet[self.symmetry.names.tangent(factor)]

    def second(self, factor: str) -> Polynomial:
        """eta_F."""
        return self.alphabet[self.symmetry.names.second_tangent(factor)]

    @cached_property
    def points(self) -> dict[str, Polynomial]:
        """Each factor plus what makes an affine action linear: 1 + w where w is moved to A (1 + w) - 1."""
        return linear_points(self.alphabet, self.moved, self.symmetry.names.elements)

    @cached_property
    def sides(self) -> dict[str, Sides]:
        """Where group elements stand beside xi_F in the differential of the action."""
        return {factor: self._sides(factor) for factor in self.factors}

    def _sides(self, factor: str) -> Sides:
        names, tangent = self.symmetry.names, self.symmetry.names.tangent(factor)
        beside: tuple[set[str], set[str], set[str]] = (set(), set(), set())  # before, after, numbers
        for word in self.pushed[factor].terms:
            scalars, matrices = split_scalars(word)
            at = next((i for i, letter in enumerate(matrices) if tangent in symbols_of(letter)), None)
            if at is None:
                continue
            after = matrices[at + 1 :]
            if self.alphabet.kind(tangent) is Kind.VECTOR:  # diagonal letters after it commute to the front
                matrices, after = matrices[:at] + after, ()
                at = len(matrices)
            for found, letters in zip(beside, (matrices[:at], after, scalars), strict=True):
                found |= _names(letters) & set(names.elements)
        before, behind, numbers = (tuple(e for e in names.elements if e in found) for found in beside)
        rows, columns = self.symmetry.factors[factor]
        return Sides(Place(rows, before), Place(columns, behind), numbers)

    def is_free(self, factor: str) -> bool:
        """Whether nothing says which side of a factor is the longer one: no group multiplies it, and its sizes are symbols."""
        left, right, _ = self.sides[factor]
        numbers = isinstance(left.size, int) and isinstance(right.size, int)
        return (
            not self.sides[factor].acted
            and not numbers
            and left.size != right.size
            and 1 not in (left.size, right.size)
        )

    def family(self, place: Place) -> Kind | None:
        """The commuting algebra whose group acts there, or None."""
        kinds = {self.alphabet.kind(element) for element in place.elements}
        kind = kinds.pop() if len(kinds) == 1 else None
        return kind if kind in COMMUTING else None

    # letters

    @cached_property
    def grams(self) -> list[Gram]:
        """The Gram of every factor at each side where a group acts, projected where that group is commuting.

        A factor that no group multiplies has one on its right (unless that is a number and a scaling's: see ``numbers``).
        """
        out: list[Gram] = []
        for factor in self.factors:
            point, sides = self.points[factor], self.sides[factor]
            for place, other, gram in (
                (sides.right, sides.left, point.T * point),
                (sides.left, sides.right, point * point.T),
            ):
                free = not sides.acted and place is sides.right and not (place.size == 1 and sides.scalings)
                if place.elements or free:
                    out.append(Gram(place, *self._letter(factor, place, other, gram)))
        return out

    @cached_property
    def steps(self) -> list[Step]:
        """All letters: Grams, their inverses, and factors between two sides on which groups act."""
        out: list[Step] = []
        for place, letter, invertible in self.grams:
            out.append(Step(place, place, letter))
            if invertible:
                out.append(Step(place, place, letter.inverse()))
        for factor, (left, right, _) in self.sides.items():
            if left.elements and right.elements:
                out += [Step(left, right, self.points[factor]), Step(right, left, self.points[factor].T)]
        return out

    def _letter(self, factor: str, place: Place, other: Place, gram: Polynomial) -> tuple[Polynomial, bool]:
        """The letter of a Gram, and whether its size shows that it may have an inverse."""
        family = self.family(place)
        if family is None:
            return gram, self._may_be_full(place, other)
        if self.alphabet.kind(factor) is Kind.VECTOR:
            return self.points[factor].diagonal(), True
        return gram.part(family), True

    @staticmethod
    def _may_be_full(place: Place, other: Place) -> bool:
        """Whether a Gram at ``place`` of a factor whose other side is ``other`` can be invertible, as far as sizes tell."""
        if place.size in (1, other.size):
            return True
        if isinstance(place.size, int) and isinstance(other.size, int):
            return place.size <= other.size
        return other.size != 1 and bool(place.elements) and not other.elements  # a free symbolic size is the larger one

    # words

    def words(self, start: Place, end: Place, most: int, powers: int) -> list[Polynomial]:
        """Words from one place to another with at most ``most`` letters, short ones first, each once.

        At a place of a commuting group these are products of powers of its letters, and words that lead elsewhere and back.
        """
        found: dict[Polynomial, None] = {}
        if start == end and self.family(start) is not None:
            found = dict.fromkeys(self.monomials(start, powers))
            if not self.connected(start):
                return list(found)
        reached: set[tuple[Place, Polynomial]] = set()
        front = [(start, self.alphabet.identity(start.size))]
        for used in range(most + 1):
            found |= {word: None for place, word in front if place == end}
            self.check_count(len(reached) + len(front))
            reached |= set(front)
            longer = {} if used == most else {
                (step.end, word * step.value): None
                for place, word in front
                for step in self.steps
                if step.start == place
            }  # fmt: skip
            front = [state for state in longer if state not in reached]
        return list(found)

    def check_count(self, count: int) -> None:
        """Refuse an ansatz that is too large."""
        if count > MOST:
            raise ArgumentError(
                f"{self.symmetry.name}: the ansatz has more than {MOST} words or forms: choose a smaller length, powers, "
                "two_sided or cross"
            )

    def connected(self, place: Place) -> bool:
        """Whether a factor leads from this place to another."""
        return any(step.start == place and step.end != place for step in self.steps)

    def monomials(self, place: Place, powers: int) -> list[Polynomial]:
        """Products of powers of the commuting letters at a place, exponents from -powers to powers, small ones first."""
        letters = [gram.letter for gram in self.grams if gram.place == place]
        self.check_count((2 * powers + 1) ** len(letters))
        out = []
        for exponents in _exponents(len(letters), powers):
            word = self.alphabet.identity(place.size)
            for letter, exponent in zip(letters, exponents, strict=True):
                word = word * _power(letter, exponent, Polynomial.inverse, self.alphabet.identity(place.size))
            out.append(word)
        return out

    def numbers(self, powers: int) -> list[TracePolynomial]:
        """Products of powers of |F|^2 over the factors that a scaling moves; 1 alone where none does."""
        squares = [trace(self.points[f].T * self.points[f]) for f in self.factors if self.sides[f].scalings]
        self.check_count((2 * powers + 1) ** len(squares))
        one = scalar(self.alphabet, 1)
        out = []
        for exponents in _exponents(len(squares), powers):
            value = one
            for square, exponent in zip(squares, exponents, strict=True):
                value = value * _power(square, exponent, one_over, one)
            out.append(value)
        return out


def _exponents(count: int, powers: int) -> Iterator[tuple[int, ...]]:
    values = product(range(-powers, powers + 1), repeat=count)
    return iter(sorted(values, key=lambda exponents: (sum(map(abs, exponents)), exponents)))


def _power(base: Any, exponent: int, inverse: Callable[[Any], Any], one: Any) -> Any:
    out, factor = one, inverse(base) if exponent < 0 else base
    for _ in range(abs(exponent)):
        out = out * factor
    return out


def _names(letters: Any) -> set[str]:
    return {name for letter in letters for name in symbols_of(letter)}
