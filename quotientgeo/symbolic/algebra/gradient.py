"""Gradients of scalars."""

from __future__ import annotations

from fractions import Fraction

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.algebra.alphabet import Alphabet
from quotientgeo.symbolic.algebra.cyclic import trace
from quotientgeo.symbolic.algebra.letters import (
    COMMUTING,
    Dimension,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    ScalarSymbol,
    Shape,
    SymbolLetter,
    TraceLetter,
    Word,
    split_scalars,
)
from quotientgeo.symbolic.algebra.polynomial import Polynomial, symbols_of
from quotientgeo.symbolic.algebra.trace import TracePolynomial


def gradient(value: TracePolynomial, name: str) -> Polynomial:
    """The matrix D of the symbol's shape and kind with d(value) = tr(D' d name)."""
    alphabet = value.alphabet
    kind = alphabet.kind(name)
    if kind is Kind.ORTHOGONAL:
        raise NotDerivableError(f"gradient with respect to the orthogonal symbol {name}: differentiate along Q K")
    out = alphabet.zero(_shape(alphabet, name))
    for monomial, coefficient in value.terms.items():
        for i, factor in enumerate(monomial):
            if name in symbols_of(factor):
                rest = TracePolynomial(alphabet, {monomial[:i] + monomial[i + 1 :]: coefficient})
                out = out + _of_scalar(alphabet, factor, name).scaled(rest)
    if kind is Kind.SYMMETRIC:
        return (out + out.T) * Fraction(1, 2)
    if kind is Kind.SKEW:
        return (out - out.T) * Fraction(1, 2)
    if kind is Kind.VECTOR:
        return out.part(Kind.DIAGONAL) * alphabet.ones(alphabet.shape(name)[0])
    return out.part(kind) if kind in COMMUTING else out


def _shape(alphabet: Alphabet, name: str) -> Shape:
    """Shape of the symbol's letter: a vector stands for its diagonal matrix."""
    rows, columns = alphabet.shape(name)
    return (rows, rows) if alphabet.kind(name) is Kind.VECTOR else (rows, columns)


def _of_scalar(alphabet: Alphabet, letter: Letter, name: str) -> Polynomial:
    """Gradient of one scalar letter."""
    out = alphabet.zero(_shape(alphabet, name))
    match letter:
        case ScalarSymbol():
            return alphabet.identity(1) if letter.name == name else out
        case InverseScalar(argument=argument):
            here = TracePolynomial(alphabet, {(letter,): Fraction(1)})
            for monomial, coefficient in argument.terms.items():
                for i, factor in enumerate(monomial):
                    if name in symbols_of(factor):
                        rest = TracePolynomial(alphabet, {monomial[:i] + monomial[i + 1 :]: -coefficient})
                        out = out + _of_scalar(alphabet, factor, name).scaled(rest * here * here)
        case TraceLetter(letters=word):
            for i, inner in enumerate(word):
                if name in symbols_of(inner):
                    around = _product(alphabet, word[i + 1 :] + word[:i], inner.columns)
                    out = out + _pull_back(alphabet, inner, around, name)
    return out


def _pull_back(alphabet: Alphabet, letter: Letter, context: Polynomial, name: str) -> Polynomial:
    """Gradient of tr(letter context) with respect to ``name``, the context held fixed."""
    zero = alphabet.zero(_shape(alphabet, name))
    if isinstance(letter, OnesLetter) or name not in symbols_of(letter):
        return zero
    if isinstance(letter, InverseLetter):
        here = alphabet.monomial((letter,))
        context = -(here * context * here)  # tr(d(p^-1) C) = tr(dp (-p^-1 C p^-1))
        return _pull_back_sum(letter.argument, context, name)
    if isinstance(letter, PartLetter):
        assert letter.family is not None
        return _pull_back_sum(alphabet.monomial(letter.word), context.part(letter.family), name)
    assert isinstance(letter, SymbolLetter)
    if letter.inverted:
        here = alphabet.monomial((letter,))
        context = -(here * context * here)
    return context if letter.transposed else context.T


def _pull_back_sum(polynomial: Polynomial, context: Polynomial, name: str) -> Polynomial:
    """Gradient of tr(polynomial context), the context held fixed."""
    alphabet = polynomial.alphabet
    out = alphabet.zero(_shape(alphabet, name))
    for word, coefficient in polynomial.terms.items():
        scalars, matrices = split_scalars(word)
        outside = TracePolynomial(alphabet, {scalars: coefficient})
        for j, inner in enumerate(matrices):
            if name in symbols_of(inner):
                before = _product(alphabet, matrices[:j], polynomial.shape[0])
                after = _product(alphabet, matrices[j + 1 :], inner.columns)
                out = out + _pull_back(alphabet, inner, after * context * before, name).scaled(outside)
        if any(name in symbols_of(letter) for letter in scalars):
            inside = trace(_product(alphabet, matrices, polynomial.shape[0]) * context)
            out = out + _of_product(alphabet, scalars, name).scaled(inside * coefficient)
    return out


def _product(alphabet: Alphabet, letters: Word, size: Dimension) -> Polynomial:
    """The product of matrices, the identity of ``size`` where there are none."""
    if letters and not alphabet.special:
        return alphabet.monomial(letters)
    out = alphabet.identity(letters[0].rows if letters else size)
    for letter in letters:
        out = out * alphabet.monomial((letter,))
    return out


def _of_product(alphabet: Alphabet, scalars: Word, name: str) -> Polynomial:
    """Gradient of a product of scalars, before it is brought to the symbol's kind."""
    out = alphabet.zero(_shape(alphabet, name))
    for i, factor in enumerate(scalars):
        if name in symbols_of(factor):
            rest = TracePolynomial(alphabet, {scalars[:i] + scalars[i + 1 :]: Fraction(1)})
            out = out + _of_scalar(alphabet, factor, name).scaled(rest)
    return out
