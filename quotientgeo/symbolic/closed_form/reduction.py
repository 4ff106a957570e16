"""The geodesic equation read block by block: each block of a factor is a vector x with x'' = A x + B x', A and B numbers.

That is so where the derived acceleration of every factor F is a sum of words d F and d xi_F, with d made of numbers (traces of
products of one factor with itself) or of letters of a commuting algebra: diagonal matrices, whose blocks are rows, columns
or single entries, or complex diagonal matrices, whose blocks are pairs of columns. Each factor has its own blocks, and every
letter must read it by these: the trace tr(F' F) belongs to a factor that is one block, whatever word it stands in. Nothing is
assumed of the sizes: the words are those of the normal form, which holds for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy as sp

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.algebra import Kind, Letter, Polynomial, TraceLetter, TracePolynomial, Word
from quotientgeo.symbolic.algebra.letters import (
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
PREFIXES = ("square", "mixed", "speed", "rate", "turn", "rest", "end", "length", "cosine", "sine", "bend", "unused")
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
        self.twists = {_twist(f) for f in names.factors}
        self.layout |= dict.fromkeys(self.numbers, ROWS)
        spelled = {*RESERVED, *(f"{prefix}_{f}" for prefix in PREFIXES for f in names.factors)}
        taken = [f for f in names.factors if f in spelled]
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
        # one that no letter reads or multiplies moves on a straight line, whatever its blocks are
        layout = {factor: self.layout.get(factor, WHOLE) for factor in self.geometry.factors}
        if set(PAIRS.values()) <= set(layout.values()):
            raise self._cannot("columns are paired in two ways")
        return Reduced(self.geometry.name, self.grams, layout, self.numbers, coefficients)

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
                    self._lies(factor, letter.family, COLUMNS if carried else ROWS)
                else:
                    carried.append(letter)
            total[self._carrier(factor, carried)] += value
        found = tuple(sp.cancel(sp.expand(value)) for value in total)
        if any(value.has(sp.I) or self.twists & value.free_symbols for value in found):
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

    def _lies(self, factor: str, family: Kind | None, layout: str) -> None:
        """A letter reads the factor by these blocks, or scales them; ``family``: of the letter, None for a trace."""
        if family in PAIRS:
            if layout is ROWS:
                raise self._cannot(f"pairs of rows of {factor} turn")
            layout = PAIRS[family]
        found = self.layout.setdefault(factor, layout)
        if found != layout:
            told = " and ".join(f"its {'length' if how == WHOLE else how}" for how in (found, layout))
            raise self._cannot(f"{factor} is taken by {told}")

    def _member(self, letter: Letter) -> sp.Expr:
        """The entry of a letter of a commuting algebra that belongs to one block."""
        if isinstance(letter, InverseLetter):
            return 1 / self._members(letter.argument)
        if isinstance(letter, PartLetter):
            return self._part(letter)
        if isinstance(letter, SymbolLetter) and self.carriers.get(letter.name, ("",))[0] in self.numbers:
            factor, order = self.carriers[letter.name]
            gram = self.grams[factor]
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

    def _part(self, letter: PartLetter) -> sp.Expr:
        """Of Y Z': the inner products of rows; of Y' Z: those of columns, or of pairs of columns with their symplectic form."""
        (factor, left), (_, right), transposed = self._pair(letter.word)
        self._lies(factor, letter.family, COLUMNS if transposed else ROWS)
        if letter.family is Kind.DIAGONAL:
            return self._inner(factor, left, right)
        twist = _twist(factor) * (right - left)  # antisymmetric: 0 of a vector with itself
        return (self._inner(factor, left, right) + sp.I * twist) / 2

    def _scalar(self, letter: Letter) -> sp.Expr:
        if isinstance(letter, InverseScalar):
            return 1 / self._trace(letter.argument)
        if isinstance(letter, TraceLetter):
            (factor, left), (_, right), _ = self._pair(letter.letters)
            self._lies(factor, None, WHOLE)
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
        if found[0][0] in self.numbers:  # whose symbols are no inner products
            raise self._cannot(f"products of {found[0][0]} with itself occur")
        (first, left, transposed), (second, right, _) = found
        return (first, left), (second, right), transposed

    def _inner(self, factor: str, left: int, right: int) -> sp.Symbol:
        gram = self.grams[factor]
        return (gram.point, gram.mixed, gram.speed)[left + right]

    def _cannot(self, why: str) -> NotDerivableError:
        return NotDerivableError(f"{self.geometry.name}: its geodesics do not move in blocks: {why}")


def _twist(factor: str) -> sp.Symbol:
    """The symplectic form of a pair of columns of the point and that of its velocity."""
    return sp.Symbol(f"twist_{factor}", real=True)
