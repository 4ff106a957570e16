"""Formulas as a reader wants them: Gram matrices named, common factors collected, traces rotated into a familiar order.

A ``Sum`` is a list of ``Product``s, a product a coefficient with its pieces. Text (docstrings) and LaTeX (derivations) are
two spellings of the same tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from quotientgeo.symbolic.algebra import (
    Alphabet,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    Monomial,
    OnesLetter,
    PartLetter,
    Polynomial,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    TracePolynomial,
    Word,
    is_vector,
    word_key,
)
from quotientgeo.symbolic.algebra.polynomial import symbols_of as occurring
from quotientgeo.symbolic.codegen.chain import tokens
from quotientgeo.symbolic.codegen.factoring import Factoring, Phrase, join
from quotientgeo.symbolic.codegen.grams import Gram
from quotientgeo.symbolic.codegen.graph import Sizes


@dataclass(frozen=True)
class Symbol:
    """A letter, or a Gram matrix under its name."""

    name: str
    transposed: bool = False
    inverted: bool = False


@dataclass(frozen=True)
class Inverse:
    """The inverse of a sum."""

    argument: Sum


@dataclass(frozen=True)
class Diagonal:
    """A power of the diagonal matrix of a column, or of the diagonal part of a matrix."""

    argument: Sum
    power: int = 1


@dataclass(frozen=True)
class ComplexDiagonal:
    """The complex diagonal part of a matrix."""

    argument: Sum
    pairing: str


@dataclass(frozen=True)
class Ones:
    """A column of ones, or its transpose."""

    transposed: bool = False


@dataclass(frozen=True)
class Size:
    """A symbolic size as a number, the trace of an identity."""

    name: str


@dataclass(frozen=True)
class Trace:
    """tr(...)."""

    argument: Sum


@dataclass(frozen=True)
class Norm:
    """|x|, the length of a column."""

    column: Symbol
    power: int = 2


@dataclass(frozen=True)
class Product:
    """coefficient * pieces; in a scalar, no pieces: a number."""

    coefficient: Fraction
    pieces: tuple[Piece, ...]


Sum: TypeAlias = tuple[Product, ...]
Piece: TypeAlias = "Symbol | Inverse | Diagonal | ComplexDiagonal | Ones | Size | Trace | Norm | Sum"


@dataclass(frozen=True)
class Velocity:
    """Names for what a tall factor F and its velocity xi make: F' xi, xi' xi, and the rate F' xi + xi' F of the Gram matrix."""

    tangent: str
    product: str
    square: str
    rate: str


@dataclass(frozen=True)
class Notation:
    """How the formulas of one alphabet are read.

    Args:
        alphabet: of the formulas.
        grams: {factor: its Gram matrix}.
        sizes: representative sizes, for the collecting of common factors.
        velocities: {factor: names}; without them nothing but Gram matrices is abbreviated.
        short: whether the products of ``velocities`` are named, or only the rates.
    """

    alphabet: Alphabet
    grams: Mapping[str, Gram]
    sizes: Sizes
    velocities: Mapping[str, Velocity] = field(default_factory=dict)
    short: bool = False

    def matrix(self, polynomial: Polynomial, collect: bool = True) -> Sum:
        """The tree of a matrix; ``collect`` gathers common factors."""
        parts = polynomial.by_scalars()
        if list(parts) not in ([], [()]):
            return tuple(product for scalars, part in parts.items() for product in self._scaled(scalars, part, collect))
        phrases = {tokens(word, self.sizes): coefficient for word, coefficient in polynomial}
        return self._sum(phrases, Factoring(self.sizes) if collect else None)

    def _scaled(self, scalars: Word, part: Polynomial, collect: bool) -> Sum:
        """Numbers times a matrix."""
        numbers = tuple(self._number(letter) for letter in scalars)
        tree = self.matrix(part, collect)
        if not numbers or part.shape == (1, 1):
            return tuple(Product(product.coefficient, numbers or product.pieces) for product in tree)
        if len(tree) == 1:
            return (Product(tree[0].coefficient, (*numbers, *tree[0].pieces)),)
        sign, inner = _take_sign(tree)
        return (Product(sign, (*numbers, inner)),)

    def _number(self, letter: Letter, last: Sequence[str] = ()) -> Piece:
        match letter:
            case TraceLetter():
                if not letter.letters:
                    return Size(str(letter.size))
                return self._trace(self.rotated(letter, last))
            case ScalarSymbol(name=name):
                return Symbol(name)
        assert isinstance(letter, InverseScalar)
        argument = self.scalar(letter.argument)
        if len(argument) == 1 and argument[0].coefficient == 1 and len(argument[0].pieces) == 1:
            (piece,) = argument[0].pieces
            if isinstance(piece, Norm):
                return Norm(piece.column, -piece.power)
        return Inverse(argument)

    def _trace(self, word: Word) -> Piece:
        """tr(word); |x|^2 for tr(x' x), and x' y for tr(x' y), where these are columns."""
        pieces = self._pieces(word)
        if self.alphabet.monomial(word).shape != (1, 1):
            return Trace((Product(Fraction(1), pieces),))
        match pieces:
            case (Symbol(name, True, False), Symbol(other, False, False)) if name == other:
                return Norm(Symbol(name))
        return (Product(Fraction(1), pieces),)

    def scalar(self, scalar: TracePolynomial, last: Sequence[str] = ()) -> Sum:
        """The tree of a scalar; a letter of ``last`` ends its trace."""
        terms = [(self._letter_order(monomial), monomial, coefficient) for monomial, coefficient in scalar]
        terms.sort(key=lambda term: term[0])
        return tuple(Product(coefficient, _opened(self._traces(monomial, last))) for _, monomial, coefficient in terms)

    def _letter_order(self, monomial: Monomial) -> list[int]:
        """Terms with the tangents of earlier factors come first."""
        names = list(self.alphabet)
        return sorted((names.index(name) for factor in monomial for name in occurring(factor)), reverse=True)

    def _sum(self, terms: Mapping[Phrase, Fraction], factoring: Factoring | None) -> Sum:
        out: list[Product] = []
        rest = dict(terms)
        for group in factoring.groups(rest) if factoring else ():
            inner = self._sum({group.remainder(p): c for p, c in rest.items() if p in group.members}, factoring)
            coefficient, inner = _take_sign(inner)
            middle: tuple[Piece, ...] = inner[0].pieces if len(inner) == 1 else (inner,)
            common = self._pieces(join(group.common))
            out.append(Product(coefficient, (*common, *middle) if group.left else (*middle, *common)))
            rest = {phrase: c for phrase, c in rest.items() if phrase not in group.members}
        out.extend(Product(c, self._pieces(join(phrase))) for phrase, c in rest.items())
        out = self._with_rates(out)
        return tuple(sorted(out, key=lambda product: (product.coefficient < 0, len(product.pieces) > 1)))

    def _with_rates(self, terms: list[Product]) -> list[Product]:
        """c F' xi + c xi' F as c times the rate of F' F."""
        for factor, names in self.velocities.items():
            product, transposed = Symbol(names.product), Symbol(names.product, transposed=True)
            halves: tuple[tuple[Piece, ...], tuple[Piece, ...]] = ((product,), (transposed,))
            if not self.short:
                left, right = not self.grams[factor].wide, self.grams[factor].wide
                here, velocity = (factor, names.tangent)
                halves = (
                    (Symbol(here, left), Symbol(velocity, right)),
                    (Symbol(velocity, left), Symbol(here, right)),
                )
            found = [term for term in terms if term.pieces in halves]
            if len(found) == 2 and found[0].coefficient == found[1].coefficient:
                rate = Product(found[0].coefficient, (Symbol(names.rate),))
                terms = [rate if term is found[0] else term for term in terms if term is not found[1]]
        return terms

    def _pieces(self, word: Word) -> tuple[Piece, ...]:
        if not word:
            return (Symbol("I"),)
        out: list[Piece] = []
        for piece in map(self._piece, self.words(word)):
            before = out[-1] if out else None
            if isinstance(piece, Diagonal) and isinstance(before, Diagonal) and piece.argument == before.argument:
                out[-1] = Diagonal(piece.argument, piece.power + before.power)
            else:
                out.append(piece)
        return tuple(out)

    def _piece(self, word: Word) -> Piece:
        named = self._named(word)
        if named is not None:
            return named
        (letter,) = word
        match letter:
            case SymbolLetter(kind=Kind.VECTOR):
                column: Sum = (Product(Fraction(1), (Symbol(letter.name),)),)
                return Diagonal(column, -1 if letter.inverted else 1)
            case SymbolLetter():
                return Symbol(letter.name, letter.transposed, letter.inverted)
            case OnesLetter():
                return Ones(letter.transposed)
            case PartLetter():
                inner: Sum = (Product(Fraction(1), self._pieces(letter.word)),)
                if letter.family is Kind.DIAGONAL:
                    return Diagonal(inner)
                return ComplexDiagonal(inner, str(letter.family).removeprefix("complex_"))
        assert isinstance(letter, InverseLetter)
        return self._inverse(letter)

    def words(self, word: Word) -> list[Word]:
        """The word cut into its pieces: Gram matrices, inverses and single letters."""
        word = _vectors_last(word)
        out, i = [], 0
        while i < len(word):
            length = 2 if self._named(word[i : i + 2]) is not None else 1
            out.append(word[i : i + length])
            i += length
        return out

    def _inverse(self, letter: InverseLetter) -> Piece:
        if len(letter.argument) == 1:
            ((word, _),) = letter.argument
            named = self._named(word)
            if named is not None:
                return Symbol(named.name, named.transposed, inverted=True)
        return Inverse(self.matrix(letter.argument, collect=False))

    def _named(self, word: Word) -> Symbol | None:
        """The name of a word of two letters, if it has one."""
        if len(word) != 2:
            return None
        left, right = word
        if is_vector(left) and isinstance(right, OnesLetter) and not right.transposed:
            return Symbol(left.name)
        if is_vector(right) and isinstance(left, OnesLetter) and left.transposed:
            return Symbol(right.name, transposed=True)
        if not (isinstance(left, SymbolLetter) and isinstance(right, SymbolLetter)):
            return None
        if left.name == right.name and left.name in self.grams and self.grams[left.name].joins(left, right):
            return Symbol(self.grams[left.name].name)
        for factor, names in self.velocities.items() if self.short else ():
            if not self.grams[factor].joins(left, right):
                continue
            pair = {
                (factor, names.tangent): Symbol(names.product),
                (names.tangent, names.tangent): Symbol(names.square),
            }
            pair[names.tangent, factor] = Symbol(names.product, transposed=True)
            if (left.name, right.name) in pair:
                return pair[left.name, right.name]
        return None

    def _traces(self, monomial: Monomial, last: Sequence[str]) -> tuple[Piece, ...]:
        return tuple(self._number(factor, last) for factor in monomial)

    def rotated(self, factor: TraceLetter, last: Sequence[str] = ()) -> Word:
        """The rotation, of the word or of its transpose, that reads best: few pieces, Grams and inverses first."""
        ends = [Symbol(name) for name in last]
        heavy = {gram.name for gram in self.grams.values()}
        ranked = []
        for word in (factor.letters, self._transposed(factor.letters)):
            for i in range(len(word)):
                rotated = word[i:] + word[:i]
                pieces = self._pieces(rotated)
                light = [isinstance(piece, Symbol) and piece.name not in heavy for piece in pieces]
                matrix = self.alphabet.monomial(rotated).shape != (1, 1)  # a number needs no trace
                order = (pieces[-1] not in ends, matrix, len(pieces), light, self._order(rotated), word_key(rotated))
                ranked.append((order, rotated))
        return min(ranked, key=lambda pair: pair[0])[1]

    def _transposed(self, word: Word) -> Word:
        pairs = [self.alphabet.transpose(letter) for letter in reversed(word)]
        return tuple(letter for _, letter in pairs) if all(sign == 1 for sign, _ in pairs) else word

    def _order(self, word: Word) -> list[int]:
        names = list(self.alphabet)
        return [names.index(letter.name) for letter in word if isinstance(letter, SymbolLetter)]


def _opened(numbers: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """A product of columns that is the only number needs no brackets."""
    match numbers:
        case ((Product(coefficient, pieces),),) if coefficient == 1:
            return pieces
    return numbers


def _vectors_last(word: Word) -> Word:
    """In a product of diagonal matrices before a column of ones, the matrix of a vector last: the two are the vector."""
    letters = list(word)
    for i, letter in enumerate(word):
        if not (isinstance(letter, OnesLetter) and not letter.transposed):
            continue
        start = i
        while start and letters[start - 1].family is Kind.DIAGONAL:
            start -= 1
        place = next((k for k in range(i - 1, start - 1, -1) if is_vector(letters[k])), None)
        if place is not None:
            letters.insert(i - 1, letters.pop(place))
    return tuple(letters)


def _take_sign(terms: Sum) -> tuple[Fraction, Sum]:
    """(c, terms / c) with the first coefficient positive and the coefficients coprime integers."""
    coefficients = [product.coefficient for product in terms]
    denominator = lcm(*(c.denominator for c in coefficients))
    factor = Fraction(gcd(*(int(c * denominator) for c in coefficients)), denominator)
    if coefficients[0] < 0:
        factor = -factor
    return factor, tuple(Product(product.coefficient / factor, product.pieces) for product in terms)


def wrapped(chunks: Iterable[str], separator: str, width: int) -> list[str]:
    """The chunks joined by the separator, in lines of at most ``width`` characters; no chunk is broken."""
    lines, current = [], ""
    for chunk in chunks:
        candidate = f"{current}{separator}{chunk}" if current else chunk
        if len(candidate) > width and current:
            lines.append(f"{current}{separator}".rstrip())
            candidate = chunk
        current = candidate
    return [*lines, current]
