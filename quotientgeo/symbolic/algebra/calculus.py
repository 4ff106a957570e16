"""Directional differential and substitution of matrix polynomials."""

from __future__ import annotations

from collections.abc import Mapping

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.letters import InverseLetter, Kind, Letter, SymbolLetter
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.rewriting import Terms, add_reduced, add_term


def differential(polynomial: Polynomial, directions: Mapping[str, Polynomial]) -> Polynomial:
    """Derivative of ``polynomial`` when each symbol ``name`` moves with velocity ``directions[name]``.

    Leibniz' rule over the letters, with d(M^-1) = -M^-1 dM M^-1. A direction has its symbol's shape, and is symmetric or
    skew where the symbol is. For an orthogonal symbol the inverse is its transpose, so the direction must be tangent there.
    """
    _check_values(polynomial, directions, "direction")
    cache: dict[Letter, Polynomial | None] = {}
    out: Terms = {}
    for word, coefficient in polynomial.terms.items():
        for i, letter in enumerate(word):
            if letter not in cache:
                cache[letter] = _letter_differential(polynomial, letter, directions)
            derivative = cache[letter]
            if derivative is None:
                continue
            for middle, c in derivative.terms.items():
                joined = word[:i] + middle + word[i + 1 :]
                add_reduced(polynomial.alphabet, out, joined, coefficient * c, (i, i + len(middle)))
    return Polynomial(polynomial.alphabet, out, polynomial.shape)


def _letter_differential(
    polynomial: Polynomial, letter: Letter, directions: Mapping[str, Polynomial]
) -> Polynomial | None:
    alphabet = polynomial.alphabet
    if isinstance(letter, InverseLetter):
        inner = differential(letter.argument, directions)
        here = alphabet.monomial((letter,))
        return None if inner.is_zero else -(here * inner * here)
    assert isinstance(letter, SymbolLetter)
    direction = directions.get(letter.name)
    if direction is None or direction.is_zero:
        return None
    if letter.inverted:
        inverse = alphabet.monomial((alphabet.symbol_letter(letter.name, inverted=True),))
        direction = -(inverse * direction * inverse)
    return direction.T if letter.transposed else direction


def substitute(polynomial: Polynomial, values: Mapping[str, Polynomial]) -> Polynomial:
    """``polynomial`` with every symbol in ``values`` replaced, all at once, and reduced again.

    A value has its symbol's shape and kind: it must be symmetric, skew or orthogonal by normal form where the symbol is.
    """
    _check_values(polynomial, values, "value")
    for name, value in values.items():
        if (
            name in polynomial.alphabet
            and polynomial.alphabet.kind(name) is Kind.ORTHOGONAL
            and value.T * value != polynomial.alphabet.identity(value.shape[0])
        ):
            raise DeclarationError(f"value of the orthogonal symbol {name} is not orthogonal: {value}")
    return _substitute(polynomial, values, {})


def _substitute(
    polynomial: Polynomial, values: Mapping[str, Polynomial], cache: dict[Letter, Polynomial]
) -> Polynomial:
    out: Terms = {}
    for word, coefficient in polynomial.terms.items():
        product = polynomial.alphabet.identity(polynomial.shape[0])
        for letter in word:
            if letter not in cache:
                cache[letter] = _letter_value(polynomial, letter, values, cache)
            product = product * cache[letter]
        for replaced, c in product.terms.items():
            add_term(out, replaced, coefficient * c)
    return Polynomial(polynomial.alphabet, out, polynomial.shape)


def _letter_value(
    polynomial: Polynomial, letter: Letter, values: Mapping[str, Polynomial], cache: dict[Letter, Polynomial]
) -> Polynomial:
    if isinstance(letter, InverseLetter):
        argument = _substitute(letter.argument, values, cache)
        return polynomial.alphabet.monomial((letter,)) if argument == letter.argument else argument.inverse()
    assert isinstance(letter, SymbolLetter)
    value = values.get(letter.name)
    if value is None:
        return polynomial.alphabet.monomial((letter,))
    if letter.inverted:
        value = value.inverse()
    return value.T if letter.transposed else value


def _check_values(polynomial: Polynomial, values: Mapping[str, Polynomial], role: str) -> None:
    """Shapes for all, symmetry for the kinds whose letters have no transpose of their own."""
    for name, value in values.items():
        if name not in polynomial.alphabet:
            raise DeclarationError(f"{role} given for the unknown symbol {name!r}")
        shape, kind = polynomial.alphabet.shape(name), polynomial.alphabet.kind(name)
        if value.shape != shape:
            raise DeclarationError(f"{role} of {name} has shape {value.shape}, expected {shape}: {value}")
        sign = {Kind.SYMMETRIC: 1, Kind.SKEW: -1}.get(kind)
        if sign is not None and value * sign != value.T:
            raise DeclarationError(f"{role} of the {kind.value} symbol {name} is not {kind.value}: {value}")
