"""Which matrices are symmetric positive definite by the form of their words, so that Cholesky may factor them."""

from __future__ import annotations

from fractions import Fraction

from quotientgeo.symbolic.algebra import Alphabet, InverseLetter, Polynomial, Word


def is_positive_definite(polynomial: Polynomial) -> bool:
    """Whether an *invertible* matrix is symmetric positive definite for every value of its symbols.

    A sum of terms c u' u and c u' M^-1 u with c > 0 and M positive definite is positive semi-definite, and so positive
    definite where it is invertible. True is a proof; False only says that the form does not show it.
    """
    if polynomial.shape[0] != polynomial.shape[1] or polynomial.is_zero:
        return False
    return all(_is_semidefinite(polynomial.alphabet, word, coefficient) for word, coefficient in polynomial)


def _is_semidefinite(alphabet: Alphabet, word: Word, coefficient: Fraction) -> bool:
    """Whether coefficient * word reads c u' u or c u' M^-1 u."""
    half = len(word) // 2
    for left, right in zip(word[:half], reversed(word[len(word) - half :]), strict=True):
        sign, transposed = alphabet.transpose(right)
        if transposed is not left:
            return False
        coefficient *= sign
    if len(word) % 2:
        middle = word[half]
        if not isinstance(middle, InverseLetter) or not is_positive_definite(middle.argument):
            return False
    return coefficient > 0
