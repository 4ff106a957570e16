"""Directional differential and substitution of matrix polynomials, and of the scalars in them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.cyclic import trace
from quotientgeo.symbolic.algebra.letters import (
    COMMUTING,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    ScalarLetter,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    split_scalars,
)
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.rewriting import Terms, add_reduced, add_term
from quotientgeo.symbolic.algebra.trace import TracePolynomial, one_over, scalar

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet

_ONE = Fraction(1)


def differential(polynomial: Polynomial, directions: Mapping[str, Polynomial]) -> Polynomial:
    """Derivative of ``polynomial`` when each symbol ``name`` moves with velocity ``directions[name]``.

    Leibniz' rule over the letters, with d(M^-1) = -M^-1 dM M^-1. A direction has its symbol's shape, and is symmetric or
    skew where the symbol is. For an orthogonal symbol the inverse is its transpose, so the direction must be tangent there.
    """
    _check_values(polynomial.alphabet, directions, "direction")
    return _differential(polynomial, directions)


def _differential(polynomial: Polynomial, directions: Mapping[str, Polynomial]) -> Polynomial:
    cache: dict[Letter, Polynomial | None] = {}
    out: Terms = {}
    for word, coefficient in polynomial.terms.items():
        for i, letter in enumerate(word):
            if isinstance(letter, ScalarLetter):
                rest = (*word[:i], *word[i + 1 :])
                for monomial, c in scalar_differential(polynomial.alphabet, letter, directions).terms.items():
                    add_reduced(polynomial.alphabet, out, (*monomial, *rest), coefficient * c)
                continue
            if letter not in cache:
                cache[letter] = _letter_differential(polynomial, letter, directions)
            derivative = cache[letter]
            if derivative is None:
                continue
            for middle, c in derivative.terms.items():
                joined = word[:i] + middle + word[i + 1 :]
                add_reduced(polynomial.alphabet, out, joined, coefficient * c, (i, i + len(middle)))
    return Polynomial(polynomial.alphabet, out, polynomial.shape)


def scalar_differential(alphabet: Alphabet, letter: Letter, directions: Mapping[str, Polynomial]) -> TracePolynomial:
    """Derivative of a scalar letter along the directions."""
    match letter:
        case TraceLetter(letters=letters) if letters:
            return trace(_differential(alphabet.monomial(letters), directions))
        case InverseScalar(argument=argument):
            here = TracePolynomial(alphabet, {(letter,): _ONE})
            return -(here * here * argument.differential(directions))
        case ScalarSymbol(name=name) if name in directions:
            return directions[name].scalar()
    return scalar(alphabet, 0)


def _letter_differential(
    polynomial: Polynomial, letter: Letter, directions: Mapping[str, Polynomial]
) -> Polynomial | None:
    alphabet = polynomial.alphabet
    if isinstance(letter, OnesLetter):
        return None
    if isinstance(letter, InverseLetter):
        inner = _differential(letter.argument, directions)
        here = alphabet.monomial((letter,))
        return None if inner.is_zero else -(here * inner * here)
    if isinstance(letter, PartLetter):
        assert letter.family is not None
        return _differential(alphabet.monomial(letter.word), directions).part(letter.family)
    assert isinstance(letter, SymbolLetter)
    direction = directions.get(letter.name)
    if direction is None or direction.is_zero:
        return None
    if letter.kind is Kind.VECTOR:
        direction = direction.diagonal()
    if letter.inverted:
        inverse = alphabet.monomial((alphabet.symbol_letter(letter.name, inverted=True),))
        direction = -(inverse * direction * inverse)
    return direction.T if letter.transposed else direction


def substitute(polynomial: Polynomial, values: Mapping[str, Polynomial]) -> Polynomial:
    """``polynomial`` with every symbol in ``values`` replaced, all at once, and reduced again.

    A value has its symbol's shape and kind: it must be symmetric, skew or orthogonal by normal form where the symbol is.
    """
    _check_values(polynomial.alphabet, values, "value")
    for name, value in values.items():
        if (
            name in polynomial.alphabet
            and polynomial.alphabet.kind(name) is Kind.ORTHOGONAL
            and value.T * value != polynomial.alphabet.identity(value.shape[0])
        ):
            raise DeclarationError(f"value of the orthogonal symbol {name} is not orthogonal: {value}")
    return _substitute(polynomial, values, {})


Cache = dict[Letter, "Polynomial | TracePolynomial"]


def _substitute(polynomial: Polynomial, values: Mapping[str, Polynomial], cache: Cache) -> Polynomial:
    out: Terms = {}
    for word, coefficient in polynomial.terms.items():
        product = polynomial.alphabet.identity(polynomial.shape[0])
        scalars, matrices = split_scalars(word)
        for letter in matrices:
            factor = _letter_value(polynomial.alphabet, letter, values, cache)
            assert isinstance(factor, Polynomial)
            product = product * factor
        for letter in scalars:
            number = _letter_value(polynomial.alphabet, letter, values, cache)
            assert isinstance(number, TracePolynomial)
            product = product.scaled(number)
        for replaced, c in product.terms.items():
            add_term(out, replaced, coefficient * c)
    return Polynomial(polynomial.alphabet, out, polynomial.shape)


def scalar_value(alphabet: Alphabet, letter: Letter, values: Mapping[str, Polynomial]) -> TracePolynomial:
    """A scalar letter with symbols replaced."""
    value = _letter_value(alphabet, letter, values, {})
    assert isinstance(value, TracePolynomial)
    return value


def _letter_value(
    alphabet: Alphabet, letter: Letter, values: Mapping[str, Polynomial], cache: Cache
) -> Polynomial | TracePolynomial:
    if letter not in cache:
        cache[letter] = (
            _number_value(alphabet, letter, values, cache)
            if isinstance(letter, ScalarLetter)
            else _matrix_value(alphabet, letter, values, cache)
        )
    return cache[letter]


def _matrix_value(alphabet: Alphabet, letter: Letter, values: Mapping[str, Polynomial], cache: Cache) -> Polynomial:
    here = alphabet.monomial((letter,))
    if isinstance(letter, OnesLetter):
        return here
    if isinstance(letter, InverseLetter):
        argument = _substitute(letter.argument, values, cache)
        return here if argument == letter.argument else argument.inverse()
    if isinstance(letter, PartLetter):
        assert letter.family is not None
        return _substitute(alphabet.monomial(letter.word), values, cache).part(letter.family)
    assert isinstance(letter, SymbolLetter)
    value = values.get(letter.name)
    if value is None:
        return here
    if letter.kind is Kind.VECTOR:
        value = value.diagonal()
    if letter.inverted:
        value = value.inverse()
    return value.T if letter.transposed else value


def _number_value(
    alphabet: Alphabet, letter: ScalarLetter, values: Mapping[str, Polynomial], cache: Cache
) -> TracePolynomial:
    match letter:
        case TraceLetter(letters=letters) if letters:
            return trace(_substitute(alphabet.monomial(letters), values, cache))
        case InverseScalar(argument=argument):
            return one_over(argument.substitute(values))
        case ScalarSymbol(name=name) if name in values:
            return values[name].scalar()
    return TracePolynomial(alphabet, {(letter,): _ONE})


def _check_values(alphabet: Alphabet, values: Mapping[str, Polynomial], role: str) -> None:
    """Shapes for all, and membership for the kinds whose letters have a normal form of their own."""
    for name, value in values.items():
        if name not in alphabet:
            raise DeclarationError(f"{role} given for the unknown symbol {name!r}")
        shape, kind = alphabet.shape(name), alphabet.kind(name)
        if value.shape != shape:
            raise DeclarationError(f"{role} of {name} has shape {value.shape}, expected {shape}: {value}")
        sign = {Kind.SYMMETRIC: 1, Kind.SKEW: -1}.get(kind)
        outside = sign is not None and value * sign != value.T
        outside = outside or (kind in COMMUTING and value.part(kind) != value)
        if outside:
            raise DeclarationError(f"{role} of the {kind.value} symbol {name} is not {kind.value}: {value}")
