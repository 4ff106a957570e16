"""From the algebra to SymPy expressions."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import sympy as sp

from quotientgeo.symbolic.algebra.letters import (
    SCALARS,
    Dimension,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    Word,
    is_vector,
    split_scalars,
)
from quotientgeo.symbolic.algebra.parts import ComplexPart

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet
    from quotientgeo.symbolic.algebra.polynomial import Polynomial
    from quotientgeo.symbolic.algebra.trace import TracePolynomial


def sympy_dimension(size: Dimension) -> sp.Expr:
    """A size as a positive integer symbol, or as an integer."""
    return sp.Integer(size) if isinstance(size, int) else sp.Symbol(size, integer=True, positive=True)


def sympy_symbol(alphabet: Alphabet, name: str) -> sp.MatrixSymbol | sp.Symbol:
    """The MatrixSymbol of a declared symbol, or the Symbol of a scalar one."""
    if alphabet.kind(name) in SCALARS:
        return sp.Symbol(name, real=True)
    rows, columns = alphabet.shape(name)
    return sp.MatrixSymbol(name, sympy_dimension(rows), sympy_dimension(columns))


class _Output:
    """Expressions of letters, each made once."""

    def __init__(self, alphabet: Alphabet) -> None:
        self._alphabet = alphabet
        self._letters: dict[Letter, sp.Expr] = {}

    def letter(self, letter: Letter) -> sp.Expr:
        if letter not in self._letters:
            self._letters[letter] = self._made(letter)
        return self._letters[letter]

    def _made(self, letter: Letter) -> sp.Expr:
        match letter:
            case InverseLetter(argument=argument):
                return sp.Inverse(self.matrix(argument))
            case OnesLetter():
                return sp.OneMatrix(*map(sympy_dimension, letter.shape))
            case PartLetter(word=word):
                inner = self.word(word, word[0].rows, Fraction(1))
                if letter.family is Kind.DIAGONAL:
                    return sp.DiagMatrix(sp.DiagonalOf(inner))
                assert letter.family is not None
                return ComplexPart(inner, letter.family.value.removeprefix("complex_"))
            case TraceLetter():
                return sp.Trace(self.word(letter.letters, letter.size, Fraction(1)))
            case ScalarSymbol(name=name):
                return sympy_symbol(self._alphabet, name)
            case InverseScalar(argument=argument):
                return 1 / self.scalar(argument)
        assert isinstance(letter, SymbolLetter)
        symbol = sympy_symbol(self._alphabet, letter.name)
        symbol = sp.DiagMatrix(symbol) if letter.kind is Kind.VECTOR else symbol
        symbol = sp.Inverse(symbol) if letter.inverted else symbol
        return sp.Transpose(symbol) if letter.transposed else symbol

    def word(self, word: Word, size: Dimension, coefficient: Fraction) -> sp.MatrixExpr:
        scalars, matrices = split_scalars(word)
        factors = [*map(self.letter, scalars), *self._with_vectors(matrices)]
        if not matrices:
            factors.append(sp.Identity(sympy_dimension(size)))
        if coefficient != 1:
            return sp.MatMul(rational(coefficient), *factors)
        return sp.MatMul(*factors) if len(factors) > 1 else factors[0]

    def _with_vectors(self, matrices: Word) -> list[sp.MatrixExpr]:
        """The letters; a diagonal matrix of a vector beside a column of ones is the vector."""
        out, i = [], 0
        while i < len(matrices):
            here, following = matrices[i], matrices[i + 1] if i + 1 < len(matrices) else None
            if is_vector(here) and isinstance(following, OnesLetter) and not following.transposed:
                out.append(sympy_symbol(self._alphabet, here.name))
                i += 2
            elif isinstance(here, OnesLetter) and here.transposed and is_vector(following):
                out.append(sp.Transpose(sympy_symbol(self._alphabet, following.name)))
                i += 2
            else:
                out.append(self.letter(here))
                i += 1
        return out

    def matrix(self, polynomial: Polynomial) -> sp.MatrixExpr:
        if polynomial.is_zero:
            return sp.ZeroMatrix(*map(sympy_dimension, polynomial.shape))
        terms = [self.word(word, polynomial.shape[0], c) for word, c in polynomial]
        return sp.MatAdd(*terms) if len(terms) > 1 else terms[0]

    def scalar(self, value: TracePolynomial) -> sp.Expr:
        return sp.Add(*[sp.Mul(rational(c), *map(self.letter, monomial)) for monomial, c in value])


def rational(value: Fraction) -> sp.Rational:
    """The same number in SymPy."""
    return sp.Rational(value.numerator, value.denominator)


def polynomial_to_sympy(polynomial: Polynomial) -> sp.MatrixExpr:
    """The polynomial as a MatAdd of MatMuls, in structural order."""
    return _Output(polynomial.alphabet).matrix(polynomial)


def trace_to_sympy(trace: TracePolynomial) -> sp.Expr:
    """The scalar as an Add of rationals times scalars; tr(I_h) stays Trace(Identity(h))."""
    return _Output(trace.alphabet).scalar(trace)
