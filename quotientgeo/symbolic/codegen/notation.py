"""Formulas as a reader wants them: Gram matrices named, common factors collected, traces rotated into a familiar order.

A ``Sum`` is a list of ``Product``s, a product a coefficient with its pieces. Text (docstrings) and LaTeX (derivations) are
two spellings of the same tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from quotientgeo.symbolic.algebra import (
    Alphabet,
    CyclicWord,
    InverseLetter,
    Monomial,
    Polynomial,
    SymbolLetter,
    TracePolynomial,
    Word,
    word_key,
)
from quotientgeo.symbolic.codegen.chain import tokens
from quotientgeo.symbolic.codegen.factoring import Factoring, Phrase
from quotientgeo.symbolic.codegen.graph import Sizes

_GRAM_NAMES = "PQRSTUVYZ"


def gram_names(factors: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """{factor: name of factor' factor}: P, Q, ... in the order of the factors, skipping names that are taken."""
    used, out = set(taken), {}
    for factor in factors:
        name = next((letter for letter in _GRAM_NAMES if letter not in used), f"gram_{factor}")
        used.add(name)
        out[factor] = name
    return out


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
class Trace:
    """tr(...); of an identity of symbolic size, the size."""

    argument: Sum


@dataclass(frozen=True)
class Product:
    """coefficient * pieces; no pieces: a multiple of the identity (or a number)."""

    coefficient: Fraction
    pieces: tuple[Piece, ...]


Sum: TypeAlias = tuple[Product, ...]
Piece: TypeAlias = "Symbol | Inverse | Trace | Sum"


@dataclass(frozen=True)
class Notation:
    """How the formulas of one alphabet are read: ``grams`` = {factor: name of its Gram matrix}, sizes for the factoring."""

    alphabet: Alphabet
    grams: Mapping[str, str]
    sizes: Sizes

    def matrix(self, polynomial: Polynomial, collect: bool = True) -> Sum:
        """The tree of a matrix; ``collect`` gathers common factors."""
        phrases = {tokens(word, self.sizes): coefficient for word, coefficient in polynomial}
        return self._sum(phrases, Factoring(self.sizes) if collect else None)

    def scalar(self, scalar: TracePolynomial) -> Sum:
        """The tree of a scalar."""
        return tuple(Product(coefficient, self._traces(monomial)) for monomial, coefficient in scalar)

    def _sum(self, terms: Mapping[Phrase, Fraction], factoring: Factoring | None) -> Sum:
        out: list[Product] = []
        rest = dict(terms)
        while rest:
            group = factoring.best(rest) if factoring and len(rest) > 1 else None
            if group is None:
                out.extend(Product(c, self._pieces(_join(phrase))) for phrase, c in rest.items())
                break
            inner = self._sum({group.remainder(p): c for p, c in rest.items() if p in group.members}, factoring)
            coefficient, inner = _take_sign(inner)
            middle: tuple[Piece, ...] = inner[0].pieces if len(inner) == 1 else (inner,)
            common = self._pieces(_join(group.common))
            out.append(Product(coefficient, (*common, *middle) if group.left else (*middle, *common)))
            rest = {phrase: c for phrase, c in rest.items() if phrase not in group.members}
        return tuple(sorted(out, key=lambda product: (product.coefficient < 0, len(product.pieces) > 1)))

    def _pieces(self, word: Word) -> tuple[Piece, ...]:
        out: list[Piece] = []
        i = 0
        while i < len(word):
            letter, gram = word[i], self._gram(word[i : i + 2])
            if gram is not None:
                out.append(Symbol(gram))
                i += 1
            elif isinstance(letter, SymbolLetter):
                out.append(Symbol(letter.name, letter.transposed, letter.inverted))
            else:
                assert isinstance(letter, InverseLetter)
                out.append(self._inverse(letter))
            i += 1
        return tuple(out)

    def _inverse(self, letter: InverseLetter) -> Piece:
        if len(letter.argument) == 1:
            ((word, _),) = letter.argument
            gram = self._gram(word)
            if gram is not None:
                return Symbol(gram, inverted=True)
        return Inverse(self.matrix(letter.argument, collect=False))

    def _gram(self, word: Word) -> str | None:
        """Name of the Gram matrix that a word of two letters is."""
        if len(word) != 2:
            return None
        left, right = word
        if not (isinstance(left, SymbolLetter) and isinstance(right, SymbolLetter)):
            return None
        if (
            left.name == right.name
            and left.transposed
            and not right.transposed
            and not (left.inverted or right.inverted)
        ):
            return self.grams.get(left.name)
        return None

    def _traces(self, monomial: Monomial) -> tuple[Piece, ...]:
        return tuple(Trace((Product(Fraction(1), self._rotated(factor)),)) for factor in monomial)

    def _rotated(self, factor: CyclicWord) -> tuple[Piece, ...]:
        """The rotation, of the word or of its transpose, with fewest pieces that starts with Grams or inverses."""
        if not factor.letters:
            return (Symbol(f"I_{factor.size}"),)
        ranked = []
        for word in (factor.letters, self._transposed(factor.letters)):
            for i in range(len(word)):
                rotated = word[i:] + word[:i]
                pieces = self._pieces(rotated)
                weight = [not isinstance(piece, Symbol) or piece.name in self.grams.values() for piece in pieces]
                order = (len(pieces), [not heavy for heavy in weight], self._order(rotated), word_key(rotated))
                ranked.append((order, pieces))
        return min(ranked, key=lambda pair: pair[0])[1]

    def _transposed(self, word: Word) -> Word:
        pairs = [self.alphabet.transpose(letter) for letter in reversed(word)]
        return tuple(letter for _, letter in pairs) if all(sign == 1 for sign, _ in pairs) else word

    def _order(self, word: Word) -> list[int]:
        names = list(self.alphabet)
        return [names.index(letter.name) for letter in word if isinstance(letter, SymbolLetter)]


def _join(phrase: Phrase) -> Word:
    return tuple(letter for token in phrase for letter in token)


def _take_sign(terms: Sum) -> tuple[Fraction, Sum]:
    """(c, terms / c) with the first coefficient positive and the coefficients coprime integers."""
    coefficients = [product.coefficient for product in terms]
    denominator = lcm(*(c.denominator for c in coefficients))
    factor = Fraction(gcd(*(int(c * denominator) for c in coefficients)), denominator)
    if coefficients[0] < 0:
        factor = -factor
    return factor, tuple(Product(product.coefficient / factor, product.pieces) for product in terms)


# text


def text(terms: Sum) -> str:
    """Plain text: ``xi_G P^-1 (G' xi_G + xi_G' G) - G P^-1 xi_G' xi_G``."""
    out = ""
    for product in terms:
        size = abs(product.coefficient)
        body = " ".join(map(_piece_text, product.pieces))
        body = (body or "1") if size == 1 else f"{size} {body}".rstrip()
        sign = "-" if product.coefficient < 0 else "+"
        out += f" {sign} {body}" if out else (f"-{body}" if sign == "-" else body)
    return out or "0"


def _piece_text(piece: Piece) -> str:
    match piece:
        case Symbol(name, transposed, inverted):
            return name + ("^-T" if inverted and transposed else "^-1" if inverted else "'" if transposed else "")
        case Inverse(argument):
            return f"({text(argument)})^-1"
        case Trace(argument):
            return f"tr({text(argument)})"
    return f"({text(piece)})"


def wrapped(formula: str, width: int, indent: str) -> Sequence[str]:
    """A long formula broken at its outermost plus and minus signs where possible, else at blanks."""
    lines, current = [], ""
    for word in formula.split(" "):
        candidate = f"{current} {word}" if current else word
        if len(candidate) > width and current:
            lines.append(current)
            candidate = indent + word
        current = candidate
    return [*lines, current]
