"""The geodesic equation read block by block: each block of a factor is a vector x with x'' = A x + B x', A and B numbers.

That is so where the derived acceleration of every factor F is a sum of words d F and d xi_F, with d made of numbers (traces of
products of one factor with itself) or of letters of one commuting algebra: diagonal matrices, whose blocks are rows, columns
or single entries, or complex diagonal matrices, whose blocks are pairs of columns. Nothing is assumed of the sizes: the words are
those of the normal form, which holds for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy as sp

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.algebra import Kind, Letter, Polynomial, TraceLetter, TracePolynomial, Word
from quotientgeo.symbolic.algebra.letters import (
    COMMUTING,
    InverseLetter,
    InverseScalar,
    OnesLetter,
    PartLetter,
    SymbolLetter,
    split_scalars,
)
from quotientgeo.symbolic.derivation.geometry import Geometry

WHOLE = "whole"  # a factor is one block
ROWS, COLUMNS = "rows", "columns"
LONGEST = 60  # terms of an acceleration that is read
RESERVED = ("t", "growth", "turning", "scale", "time", "lowest", "batch", "torch", "Tensor")
PAIRS = {Kind.COMPLEX_HALF: "half", Kind.COMPLEX_INTERLEAVED: "interleaved"}


@dataclass(frozen=True)
class Gram:
    """Symbols of the inner products of a block x of a factor with its velocity v; for a number, x and v themselves."""

    point: sp.Symbol  # <x, x>; a number: x
    mixed: sp.Symbol  # <x, v>; a number: v
    speed: sp.Symbol  # <v, v>; a number: not used


@dataclass(frozen=True)
class Reduced:
    """x'' = A x + B x' for a block of each factor; for a factor of numbers (a column under a diagonal group), x'' itself.

    layout: factor -> "whole", "rows", "columns", "half" or "interleaved": what its blocks are.
    """

    name: str
    grams: Mapping[str, Gram]
    layout: Mapping[str, str]
    numbers: frozenset[str]
    coefficients: Mapping[str, tuple[sp.Expr, sp.Expr]]  # (A, B); of a number (x'', 0)


def reduced(geometry: Geometry) -> Reduced:
    """Read the derived acceleration.

    Raises:
        NotDerivableError: a word is not of the form above, or the geometry has no formula for its acceleration.
    """
    if not geometry.acceleration or geometry.metric.parameters:
        raise NotDerivableError(f"{geometry.name}: there is no formula of the acceleration without parameters")
    if sum(len(formula.polynomial) for formula in geometry.acceleration.values()) > LONGEST:
        raise NotDerivableError(f"{geometry.name}: its acceleration has more than {LONGEST} terms")
    return _Reading(geometry).all()


@dataclass
class _Reading:
    geometry: Geometry
    layout: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = self.geometry.names
        self.carriers = {f: (f, 0) for f in names.factors} | {names.tangent(f): (f, 1) for f in names.factors}
        self.numbers = frozenset(f for f in names.factors if self.geometry.alphabet.kind(f) is Kind.VECTOR)
        self.grams = {f: self._gram(f) for f in names.factors}
        self.family: Kind | None = None
        taken = [f for f in names.factors if f in RESERVED]
        if taken:
            raise self._cannot(f"the name {taken[0]} is that of a quantity in the solution: rename the factor")

    def _gram(self, factor: str) -> Gram:
        if factor in self.numbers:
            names = (factor, self.geometry.names.tangent(factor), f"unused_{factor}")
            return Gram(*sp.symbols(names, real=True))
        square = sp.Symbol(f"square_{factor}", positive=True)
        return Gram(square, *sp.symbols((f"mixed_{factor}", f"speed_{factor}"), real=True))

    def all(self) -> Reduced:
        coefficients = {f: self._coefficients(f, a.polynomial) for f, a in self.geometry.acceleration.items()}
        for factor, (rows, columns) in self.geometry.factors.items():
            if self.family is None:
                self.layout[factor] = WHOLE
            elif self.family is not Kind.DIAGONAL:
                self.layout[factor] = PAIRS[self.family]
            elif factor not in self.layout:  # it moves on a straight line, whatever its blocks are
                sizes = self.geometry.symmetry.group_sizes
                self.layout[factor] = ROWS if rows in sizes or columns not in sizes else COLUMNS
        return Reduced(self.geometry.name, self.grams, self.layout, self.numbers, coefficients)

    def _coefficients(self, factor: str, acceleration: Polynomial) -> tuple[sp.Expr, sp.Expr]:
        total = [sp.Integer(0), sp.Integer(0)]
        for word, coefficient in acceleration:
            scalars, matrices = split_scalars(word)
            value = sp.Rational(coefficient.numerator, coefficient.denominator)
            carried: list[Letter] = []
            for letter in scalars:
                value *= self._scalar(letter)
            for letter in matrices:
                if letter.family is not None:
                    value *= self._member(letter)
                    if factor not in self.numbers:
                        self._lies(factor, COLUMNS if carried else ROWS)
                else:
                    carried.append(letter)
            total[self._carrier(factor, carried)] += value
        found = tuple(sp.cancel(sp.expand(value)) for value in total)
        if any(value.has(sp.I) for value in found):
            raise self._cannot(f"blocks of {factor} turn with their acceleration")
        return found[0], found[1]

    def _carrier(self, factor: str, letters: list[Letter]) -> int:
        """0 where a word ends in the factor (or, for numbers, in a column of ones), 1 where it ends in its velocity."""
        if len(letters) == 1:
            (letter,) = letters
            if factor in self.numbers and isinstance(letter, OnesLetter):
                return 0
            if isinstance(letter, SymbolLetter) and not letter.transposed and not letter.inverted:
                found, order = self.carriers.get(letter.name, ("", 0))
                if found == factor and factor not in self.numbers:
                    return order
        raise self._cannot(f"the acceleration of {factor} holds {' '.join(map(repr, letters)) or 'no factor'}")

    def _lies(self, factor: str, layout: str) -> None:
        if self.layout.setdefault(factor, layout) != layout:
            raise self._cannot(f"both rows and columns of {factor} are scaled")
        if self.family is not Kind.DIAGONAL and layout is ROWS:
            raise self._cannot(f"pairs of rows of {factor} turn")

    def _member(self, letter: Letter) -> sp.Expr:
        """The entry of a letter of the commuting algebra that belongs to one block."""
        if letter.family not in COMMUTING or self.family not in (None, letter.family):
            raise self._cannot("letters of two commuting algebras occur")
        self.family = letter.family
        if isinstance(letter, InverseLetter):
            return 1 / self._members(letter.argument)
        if isinstance(letter, PartLetter):
            return self._part(letter.word)
        if isinstance(letter, SymbolLetter) and letter.name in self.carriers:
            factor, order = self.carriers[letter.name]
            gram = self.grams[factor]
            self.layout[factor] = ROWS
            value: sp.Expr = (gram.point, gram.mixed)[order]
            return 1 / value if letter.inverted else value
        raise self._cannot(f"{letter!r} occurs")

    def _members(self, polynomial: Polynomial) -> sp.Expr:
        total = sp.Integer(0)
        for word, coefficient in polynomial:
            scalars, matrices = split_scalars(word)
            if scalars or any(letter.family is None for letter in matrices):
                raise self._cannot(f"the inverse of {polynomial!r} occurs")
            factors = [self._member(letter) for letter in matrices]
            total += sp.Rational(coefficient.numerator, coefficient.denominator) * sp.Mul(*factors)
        return total

    def _part(self, word: Word) -> sp.Expr:
        """Of Y Z': the inner products of rows; of Y' Z: those of columns, or of pairs of columns with their symplectic form."""
        (factor, left), (_, right), transposed = self._pair(word)
        if self.family is Kind.DIAGONAL:
            self._lies(factor, COLUMNS if transposed else ROWS)
            return self._inner(factor, left, right)
        if not transposed:
            raise self._cannot("complex parts of products of rows occur")
        twist = sp.Symbol(f"twist_{factor}", real=True) * (right - left)  # antisymmetric: 0 of a vector with itself
        return (self._inner(factor, left, right) + sp.I * twist) / 2

    def _scalar(self, letter: Letter) -> sp.Expr:
        if isinstance(letter, InverseScalar):
            return 1 / self._trace(letter.argument)
        if isinstance(letter, TraceLetter) and self.family is None:
            (factor, left), (_, right), _ = self._pair(letter.letters)
            return self._inner(factor, left, right)
        raise self._cannot(f"the number {letter!r} occurs")

    def _trace(self, polynomial: TracePolynomial) -> sp.Expr:
        total = sp.Integer(0)
        for monomial, coefficient in polynomial:
            factors = [self._scalar(letter) for letter in monomial]
            total += sp.Rational(coefficient.numerator, coefficient.denominator) * sp.Mul(*factors)
        return total

    def _pair(self, word: Word) -> tuple[tuple[str, int], tuple[str, int], bool]:
        """(factor, 0 or 1 for its velocity) of both letters of a product of a factor with itself, and whether it is Y' Z."""
        found = [
            (*self.carriers[letter.name], letter.transposed)
            for letter in word
            if isinstance(letter, SymbolLetter) and not letter.inverted and letter.name in self.carriers
        ]
        if len(word) != 2 or len(found) != 2 or found[0][0] != found[1][0] or found[0][2] == found[1][2]:
            raise self._cannot(f"{' '.join(map(repr, word))} is no product of a factor with itself")
        (first, left, transposed), (second, right, _) = found
        return (first, left), (second, right), transposed

    def _inner(self, factor: str, left: int, right: int) -> sp.Symbol:
        gram = self.grams[factor]
        return (gram.point, gram.mixed, gram.speed)[left + right]

    def _cannot(self, why: str) -> NotDerivableError:
        return NotDerivableError(f"{self.geometry.name}: its geodesics do not move in blocks: {why}")
