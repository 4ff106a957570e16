"""Inverse of a polynomial: invertible letters are split off first, the rest becomes one interned letter."""

from __future__ import annotations

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.letters import InverseLetter, Letter, Word, word_key
from quotientgeo.symbolic.algebra.polynomial import Polynomial


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
    lead = max(polynomial.terms, key=word_key)
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
    scale, letter = alphabet.inverse_letter(polynomial)
    return alphabet.monomial((letter,), scale)


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
