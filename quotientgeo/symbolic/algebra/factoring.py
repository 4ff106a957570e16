"""Factors of sums of commuting letters (by SymPy, over the rationals), so that 1 / (1 + 2 w + w^2) is (1 + w)^-1 twice."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import sympy as sp

from quotientgeo.symbolic.algebra.letters import Letter, Word

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet

Terms = dict[Word, Fraction]


def factors(alphabet: Alphabet, terms: Mapping[Word, Fraction]) -> tuple[Fraction, list[tuple[Terms, int]]]:
    """(c, [(terms, power), ...]): the sum is c times the product of the powers; words are products of commuting letters.

    The alphabet remembers them: code generation asks for the same few again and again.
    """
    key = frozenset(terms.items())
    if key not in alphabet.factored:
        alphabet.factored[key] = _factors(terms)
    constant, found = alphabet.factored[key]
    return constant, [(dict(factor), power) for factor, power in found]


def _factors(terms: Mapping[Word, Fraction]) -> tuple[Fraction, list[tuple[Terms, int]]]:
    letters = sorted({letter for word in terms for letter in word}, key=lambda letter: letter.sort_key)
    symbols = {letter: sp.Symbol(f"x{i:04}") for i, letter in enumerate(letters)}
    if not letters:
        return sum(terms.values(), Fraction(0)), []
    total = sp.Add(
        *(sp.Rational(c.numerator, c.denominator) * sp.Mul(*(symbols[x] for x in word)) for word, c in terms.items())
    )
    generators = [symbols[letter] for letter in letters]
    constant, found = sp.factor_list(total, *generators)
    out = [(_terms(sp.Poly(factor, *generators), letters), int(power)) for factor, power in found]
    out.sort(key=lambda pair: sorted((len(word), tuple(x.sort_key for x in word), c) for word, c in pair[0].items()))
    return Fraction(int(constant.p), int(constant.q)), out


def _terms(polynomial: sp.Poly, letters: list[Letter]) -> Terms:
    out: Terms = {}
    for exponents, c in polynomial.terms():
        word = tuple(letter for letter, exponent in zip(letters, exponents, strict=True) for _ in range(exponent))
        out[word] = Fraction(int(c.p), int(c.q))
    return out
