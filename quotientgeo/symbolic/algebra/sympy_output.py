"""From the algebra to SymPy expressions."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import sympy as sp

from quotientgeo.symbolic.algebra.letters import Dimension, InverseLetter, Letter, SymbolLetter, Word

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet
    from quotientgeo.symbolic.algebra.polynomial import Polynomial
    from quotientgeo.symbolic.algebra.trace import CyclicWord, TracePolynomial


def sympy_dimension(size: Dimension) -> sp.Expr:
    """A size as a positive integer symbol, or as an integer."""
    return sp.Integer(size) if isinstance(size, int) else sp.Symbol(size, integer=True, positive=True)


def sympy_symbol(alphabet: Alphabet, name: str) -> sp.MatrixSymbol:
    """The MatrixSymbol of a declared symbol."""
    rows, columns = alphabet.shape(name)
    return sp.MatrixSymbol(name, sympy_dimension(rows), sympy_dimension(columns))


Cache = dict[Letter, sp.MatrixExpr]


def _letter(alphabet: Alphabet, letter: Letter, cache: Cache) -> sp.MatrixExpr:
    if letter not in cache:
        if isinstance(letter, InverseLetter):
            cache[letter] = sp.Inverse(_sum(letter.argument, cache))
        else:
            assert isinstance(letter, SymbolLetter)
            symbol = sympy_symbol(alphabet, letter.name)
            symbol = sp.Inverse(symbol) if letter.inverted else symbol
            cache[letter] = sp.Transpose(symbol) if letter.transposed else symbol
    return cache[letter]


def _rational(value: Fraction) -> sp.Rational:
    return sp.Rational(value.numerator, value.denominator)


def _word(alphabet: Alphabet, word: Word, size: Dimension, coefficient: Fraction, cache: Cache) -> sp.MatrixExpr:
    factors = [_letter(alphabet, letter, cache) for letter in word] or [sp.Identity(sympy_dimension(size))]
    if coefficient != 1:
        return sp.MatMul(_rational(coefficient), *factors)
    return sp.MatMul(*factors) if len(factors) > 1 else factors[0]


def _sum(polynomial: Polynomial, cache: Cache) -> sp.MatrixExpr:
    if polynomial.is_zero:
        return sp.ZeroMatrix(*map(sympy_dimension, polynomial.shape))
    terms = [_word(polynomial.alphabet, word, polynomial.shape[0], c, cache) for word, c in polynomial]
    return sp.MatAdd(*terms) if len(terms) > 1 else terms[0]


def polynomial_to_sympy(polynomial: Polynomial) -> sp.MatrixExpr:
    """The polynomial as a MatAdd of MatMuls, in structural order."""
    return _sum(polynomial, {})


def trace_to_sympy(trace: TracePolynomial) -> sp.Expr:
    """The scalar as an Add of rationals times Traces; tr(I_h) stays Trace(Identity(h))."""
    cache: Cache = {}

    def factor(word: CyclicWord) -> sp.Expr:
        return sp.Trace(_word(trace.alphabet, word.letters, word.size, Fraction(1), cache))

    return sp.Add(*[sp.Mul(_rational(c), *map(factor, monomial)) for monomial, c in trace])
