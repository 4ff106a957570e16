"""Positive semi-definite matrices by the form of their words, as sums of squares: what Cholesky and square roots need.

``derivation.levels.forms`` recognises more, for proofs: there commuting letters stand in any order.

A word that reads u' u, or u' M^-1 u with M of the same kind, is positive semi-definite; a sum of such with positive
coefficients is too, and is positive definite where it is invertible. Everything here is a proof for all sizes when it says
yes, and says nothing when it says no.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from quotientgeo.symbolic.algebra.alphabet import Alphabet
from quotientgeo.symbolic.algebra.letters import InverseLetter, ScalarLetter, Word
from quotientgeo.symbolic.algebra.polynomial import Polynomial

Roots = list[tuple[Fraction, Polynomial]]  # (c, r) with c > 0, standing for the sum of c r' r


class Palindrome(NamedTuple):
    """A word that equals ``sign`` u' u, or ``sign`` u' middle u."""

    sign: Fraction
    half: Word
    middle: InverseLetter | None


def palindrome(alphabet: Alphabet, word: Word) -> Palindrome | None:
    """The word read from both ends, or None where it does not read the same; the middle letter must be an inverse."""
    if any(isinstance(letter, ScalarLetter) for letter in word):
        return None
    half = len(word) // 2
    sign = Fraction(1)
    for left, right in zip(word[:half], reversed(word[len(word) - half :]), strict=True):
        factor, transposed = alphabet.transpose(right)
        if transposed is not left:
            return None
        sign *= factor
    if len(word) % 2 == 0:
        return Palindrome(sign, word[half:], None)
    middle = word[half]
    return Palindrome(sign, word[half + 1 :], middle) if isinstance(middle, InverseLetter) else None


def is_positive_definite(polynomial: Polynomial) -> bool:
    """Whether an *invertible* matrix is symmetric positive definite for every value of its symbols, by its form."""
    if polynomial.shape[0] != polynomial.shape[1] or polynomial.is_zero:
        return False
    return all(_is_semidefinite(polynomial.alphabet, word, coefficient) for word, coefficient in polynomial)


def _is_semidefinite(alphabet: Alphabet, word: Word, coefficient: Fraction) -> bool:
    form = palindrome(alphabet, word)
    if form is None or coefficient * form.sign <= 0:
        return False
    return form.middle is None or is_positive_definite(form.middle.argument)


def roots(polynomial: Polynomial) -> Roots | None:
    """[(c, r), ...] with c > 0 and polynomial = sum of c r' r, or None where the form does not show it.

    M^-1 = sum of c (r M^-1)' (r M^-1) for M = sum of c r' r, so inverses need no square roots.
    """
    if not is_positive_definite(polynomial):
        return None
    alphabet, out = polynomial.alphabet, []
    for word, coefficient in polynomial:
        form = palindrome(alphabet, word)
        assert form is not None
        half = alphabet.monomial(form.half) if form.half else alphabet.identity(polynomial.shape[1])
        if form.middle is None:
            out.append((coefficient * form.sign, half))
            continue
        inner = roots(form.middle.argument)
        assert inner is not None
        right = alphabet.monomial((form.middle,)) * half
        out += [(coefficient * form.sign * c, r * right) for c, r in inner]
    return out
