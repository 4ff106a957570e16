"""Inverse of a polynomial: invertible letters are split off first, the rest becomes one interned letter."""

from __future__ import annotations

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.factoring import factors
from quotientgeo.symbolic.algebra.letters import InverseLetter, Letter, SymbolLetter, Word, split_scalars, word_key
from quotientgeo.symbolic.algebra.normalisation import arranged
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.trace import TracePolynomial, one_over


def inverse(polynomial: Polynomial) -> Polynomial:
    """polynomial^-1 = right (a^-1 polynomial b^-1)^-1 left with invertible letters a, b stripped while that shortens it.

    So (A^-T G'G A^-1)^-1 becomes A (G'G)^-1 A' and (A^-T P Q A' + 1)^-1 becomes A^-T (P Q + 1)^-1 A': moving a Gram along
    an orbit meets the same letter again, which is what makes invariance provable by normal forms.
    """
    rows, columns = polynomial.shape
    if rows != columns:
        raise DeclarationError(f"cannot invert {polynomial}: its shape {polynomial.shape} is not square")
    if polynomial.is_zero:
        raise DeclarationError(f"cannot invert a zero matrix of shape {polynomial.shape}")
    if polynomial.alphabet.special and not any(split_scalars(word)[1] for word in polynomial.terms):
        return polynomial.alphabet.identity(rows).scaled(one_over(_number(polynomial)))
    if _commutes(polynomial):
        return _inverse_of_commuting(polynomial)
    left = right = polynomial.alphabet.identity(rows)
    while True:
        stripped = _strip_once(polynomial)
        if stripped is None:
            break
        first, polynomial, last = stripped  # old = first^-1 new last^-1, so old^-1 = last new^-1 first
        left, right = first * left, right * last
    return right * _inverse_of_core(polynomial) * left


def _length(polynomial: Polynomial) -> int:
    return sum(len(word) for word in polynomial.terms)


def _strip_once(polynomial: Polynomial) -> tuple[Polynomial, Polynomial, Polynomial] | None:
    """(first, first polynomial last, last) for the shortest of the three ways to strip, or None if none is shorter."""
    alphabet = polynomial.alphabet
    lead = max((split_scalars(word)[1] for word in polynomial.terms), key=word_key)
    if not lead:
        return None
    one = alphabet.identity(polynomial.shape[0])
    first = _letter_inverse(alphabet.local_inverse(lead[0]), one)
    last = _letter_inverse(alphabet.local_inverse(lead[-1]), one)
    best, best_length = None, _length(polynomial)
    for before, after in ((first, one), (one, last), (first, last)):
        candidate = before * polynomial * after
        if _length(candidate) < best_length:
            best, best_length = (before, candidate, after), _length(candidate)
    return best


def _letter_inverse(letter: Letter | None, one: Polynomial) -> Polynomial:
    # an invertible letter is square, and a letter at the edge of a square word has that word's size
    return one if letter is None else one.alphabet.monomial((letter,))


def _inverse_of_core(polynomial: Polynomial) -> Polynomial:
    alphabet = polynomial.alphabet
    if len(polynomial) == 1:
        (word, coefficient), *_ = polynomial
        scalars, word = split_scalars(word)
        if scalars:
            factor = one_over(TracePolynomial(alphabet, {scalars: coefficient}))
            rest = alphabet.monomial(word) if word else alphabet.identity(polynomial.shape[0])
            return inverse(rest).scaled(factor)
        if not word:
            return polynomial * (1 / coefficient**2)
        pieces = _square_pieces(word)
        if len(pieces) > 1:
            out = alphabet.identity(polynomial.shape[0])
            for piece in pieces:
                out = inverse(alphabet.monomial(piece)) * out
            return out * (1 / coefficient)
        if isinstance(word[0], InverseLetter):
            return word[0].argument * (1 / coefficient)
    return _interned(polynomial)


def _commutes(polynomial: Polynomial) -> bool:
    """Whether a sum consists of letters of one commuting algebra, without numbers that vary."""
    if len(polynomial) < 2 or not polynomial.alphabet.special:
        return False
    families = {letter.family for word in polynomial.terms for letter in word}
    return len(families) == 1 and None not in families and not any(split_scalars(w)[0] for w in polynomial.terms)


def _inverse_of_commuting(polynomial: Polynomial) -> Polynomial:
    """Inverses of the sum's factors; inverses of symbols in it are cleared first."""
    alphabet, cleared = polynomial.alphabet, polynomial.alphabet.identity(polynomial.shape[0])
    while True:
        inverted = next((x for w in polynomial.terms for x in w if isinstance(x, SymbolLetter) and x.inverted), None)
        if inverted is None:
            break
        partner = alphabet.local_inverse(inverted)
        assert partner is not None
        polynomial, cleared = polynomial * alphabet.monomial((partner,)), cleared * alphabet.monomial((partner,))
    constant, found = factors(polynomial.alphabet, polynomial.terms)
    out = cleared * (1 / constant)
    for terms, power in found:
        factor = Polynomial(alphabet, {arranged(word): c for word, c in terms.items()}, polynomial.shape)
        once = inverse(factor) if len(factor) == 1 else _interned(factor)
        for _ in range(power):
            out = out * once
    return out


def _interned(polynomial: Polynomial) -> Polynomial:
    scale, letter = polynomial.alphabet.inverse_letter(polynomial)
    return scale * polynomial.alphabet.monomial((letter,))


def _number(polynomial: Polynomial) -> TracePolynomial:
    """c for c times the identity."""
    return TracePolynomial(polynomial.alphabet, dict(polynomial.terms))


def _square_pieces(word: Word) -> list[Word]:
    """Shortest square factors of a square word: a product of square matrices is invertible exactly when each is."""
    size = word[0].rows
    pieces: list[Word] = []
    current: Word = ()
    for letter in word:
        current = (*current, letter)
        if letter.columns == size:
            pieces.append(current)
            current = ()
    return pieces
