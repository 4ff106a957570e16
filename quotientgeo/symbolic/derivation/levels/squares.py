"""The metric as a sum of squares, for all sizes; or a part of it that is minus one and outgrows the rest."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import NamedTuple

from quotientgeo.symbolic.algebra import (
    InverseLetter,
    Letter,
    Polynomial,
    SymbolLetter,
    TracePolynomial,
    Word,
    roots,
    scalar,
    trace,
)
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.ranks import Ranks

Degree = tuple[int, ...]  # one number per factor


class Square(NamedTuple):
    """coefficient |value|^2, the squared Frobenius norm of a product l xi_F r'."""

    coefficient: Fraction
    value: Polynomial


class SumOfSquares(NamedTuple):
    """Squares that add up to <xi, xi>, and the factors whose tangent none of them shows to be zero where they all are."""

    squares: list[Square]
    undecided: list[str]


class Dominated(NamedTuple):
    """A scaling F -> t^k_F F at which <xi, xi>, for xi in one factor alone, is in the end minus a sum of squares."""

    factor: str
    scaling: dict[str, int]
    squares: list[Square]  # what is subtracted


class _Term(NamedTuple):
    """coefficient tr(word) with one tangent twice: tr(xi_F' left xi_F right) as squares, None where that is not recognised."""

    factor: str
    coefficient: Fraction
    word: Word
    sides: tuple[Word, Word] = ((), ())
    squares: list[Square] | None = None


def kinetic(geometry: Geometry) -> TracePolynomial:
    """<xi, xi>."""
    names, alphabet = geometry.names, geometry.alphabet
    return geometry.inner.polynomial.substitute(
        {names.second_tangent(f): alphabet[names.tangent(f)] for f in names.factors}
    )


def sum_of_squares(geometry: Geometry, ranks: Ranks) -> SumOfSquares | None:
    """<xi, xi> as a sum of squares, checked by normal form; ``ranks`` collects what the proof assumes."""
    value, squares = kinetic(geometry), []
    definite: set[str] = set()
    for monomial, coefficient in value:
        term = _term(geometry, monomial[0].letters, coefficient) if len(monomial) == 1 else None
        if term is None or term.squares is None or coefficient < 0:
            return None
        squares += term.squares
        before = dict(ranks.full)
        if all(map(ranks.definite, term.sides)):
            definite.add(term.factor)
        else:
            ranks.undo(before)
    if _total(geometry, squares) != value:
        return None
    return SumOfSquares(squares, [factor for factor in geometry.names.factors if factor not in definite])


def _total(geometry: Geometry, squares: list[Square]) -> TracePolynomial:
    total = scalar(geometry.alphabet, 0)
    for coefficient, value in squares:
        total = total + trace(value.T * value) * coefficient
    return total


def squares_text(squares: list[Square]) -> str:
    """``|xi_G H'|^2 + 2 |xi_H G'|^2``."""
    parts = [("" if c == 1 else f"{c} ") + f"|{value}|^2" for c, value in squares]
    return " + ".join(parts)


def _term(geometry: Geometry, word: Word, coefficient: Fraction) -> _Term | None:
    """A term of <xi, xi>, or None where it holds the tangents of two factors."""
    alphabet = geometry.alphabet
    tangents = {geometry.names.tangent(f): f for f in geometry.names.factors}
    places = [i for i, letter in enumerate(word) if isinstance(letter, SymbolLetter) and letter.name in tangents]
    found = {tangents[letter.name] for letter in word if isinstance(letter, SymbolLetter) and letter.name in tangents}
    if len(found) != 1 or len(places) != 2:
        return None
    term = _Term(found.pop(), coefficient, word)
    first = next((i for i in places if _is_transposed(word[i])), None)
    if first is None:
        return term
    turned = word[first:] + word[:first]
    second = (sum(places) - 2 * first) % len(word)
    if alphabet.transpose(turned[0])[1] is not turned[second]:
        return term
    tangent, sides = alphabet.monomial((turned[second],)), (turned[1:second], turned[second + 1 :])
    left, right = (
        roots(alphabet.monomial(side) if side else alphabet.identity(size))
        for side, size in zip(sides, tangent.shape, strict=True)
    )
    if left is None or right is None:
        return term
    squares = [Square(abs(coefficient) * a * b, x * tangent * y.T) for a, x in left for b, y in right]
    return _Term(term.factor, coefficient, word, sides, squares)


def _is_transposed(letter: Letter) -> bool:
    return isinstance(letter, SymbolLetter) and letter.transposed


# growth


def dominated(geometry: Geometry) -> Dominated | None:
    """A disproof for all sizes: terms that outgrow all others under a scaling of the factors and are minus squares.

    Every term of <xi, xi> whose inverses are of homogeneous sums is homogeneous in each factor. Where all terms of highest
    degree under a scaling are minus sums of squares, <xi, xi> < 0 once the scaling has gone far enough.
    """
    factors = geometry.names.factors
    terms: dict[str, list[tuple[Degree, _Term]]] = {factor: [] for factor in factors}
    for monomial, coefficient in kinetic(geometry):
        if len(monomial) != 1:
            return None
        term = _term(geometry, monomial[0].letters, coefficient)
        if term is None:
            continue  # tangents of two factors: gone where xi is in one factor alone
        degree = _degree(geometry, term.word)
        if degree is None:
            return None
        terms[term.factor].append((degree, term))
    scalings = sorted(product((-1, 0, 1), repeat=len(factors)), key=lambda s: (sum(map(abs, s)), s))
    for factor, found in terms.items():
        for scaling in scalings if found else ():
            growth = [sum(s * d for s, d in zip(scaling, degree, strict=True)) for degree, _ in found]
            top = [term for (_, term), g in zip(found, growth, strict=True) if g == max(growth)]
            if all(term.coefficient < 0 and term.squares is not None for term in top):
                squares = [square for term in top for square in term.squares or []]
                return Dominated(factor, dict(zip(factors, scaling, strict=True)), squares)
    return None


def _degree(geometry: Geometry, word: Word) -> Degree | None:
    """Degree in each factor, or None where an inverse of an inhomogeneous sum occurs."""
    factors = geometry.names.factors
    out = [0] * len(factors)
    for letter in word:
        if isinstance(letter, SymbolLetter):
            if letter.name in factors:
                out[factors.index(letter.name)] += -1 if letter.inverted else 1
        elif isinstance(letter, InverseLetter):
            degrees = {_degree(geometry, inner) for inner, _ in letter.argument}
            inverse = degrees.pop() if len(degrees) == 1 else None
            if inverse is None:
                return None
            out = [a - b for a, b in zip(out, inverse, strict=True)]
    return tuple(out)
