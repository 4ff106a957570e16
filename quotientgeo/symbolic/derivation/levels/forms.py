"""Positive semi-definite words and scalars that are not negative, by their form; commuting letters stand in any order.

u' M u with M of the same form is positive semi-definite; so are (complex) diagonal parts and inverses of such matrices,
products of such matrices that commute, and sums. The trace of such a matrix is not negative, and its inverse is positive.
Everything here is a proof for all sizes when it says yes, and says nothing when it says no.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from quotientgeo.symbolic.algebra import (
    Alphabet,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    PartLetter,
    Polynomial,
    ScalarSymbol,
    TraceLetter,
    Word,
    split_scalars,
)


class Form(NamedTuple):
    """A word of matrices that equals sign half' middle half; ``middle`` is a product of commuting letters.

    middle = s' s m with s the product of ``halves`` and m that of ``definite``, letters that are semi-definite themselves.
    """

    half: Word
    halves: Word
    definite: Word
    sign: Fraction = Fraction(1)


def semidefinite_form(alphabet: Alphabet, word: Word) -> Form | None:
    """The word as a positive semi-definite matrix, or None where its form does not show that it is one."""
    form = signed_form(alphabet, word)
    return form if form is not None and form.sign > 0 else None


def signed_form(alphabet: Alphabet, word: Word) -> Form | None:
    """The word as plus or minus a positive semi-definite matrix, or None where its form does not show that it is one."""
    half: Word = ()
    halves: Word = ()
    rest: Word = ()
    sign = Fraction(1)
    while word:
        first, last = run_length(word), run_length(word[::-1])
        if first == len(word):
            break
        factor, mirrored = alphabet.transpose_word(word[len(word) - last :])
        if Counter(word[:first]) != Counter(mirrored):
            return None
        sign, half = sign * factor, word[len(word) - last :] + half
        word = word[first : len(word) - last]
    if len(word) == 1 and word[0].family is None:
        rest = word
    else:
        factor, halves, rest = paired(alphabet, word)
        sign *= factor
    for letter in rest:
        known = _sign_of(alphabet, letter)
        if not known:
            return None
        sign *= known
    return Form(half, halves, rest, sign)


def run_length(word: Word) -> int:
    """Number of letters of one commuting algebra with which a word starts; 1 where its first letter is in none."""
    count = 1
    while word[0].family is not None and count < len(word) and word[count].family is word[0].family:
        count += 1
    return count


def paired(alphabet: Alphabet, run: Word) -> tuple[Fraction, Word, Word]:
    """(sign, s, rest) with run = sign s' s rest, for letters that commute."""
    sign, left = Fraction(1), Counter(run)
    halves: list[Letter] = []
    for letter in sorted(left, key=lambda letter: letter.sort_key):
        factor, partner = alphabet.transpose(letter)
        count = left[letter] // 2 if partner is letter else min(left[letter], left[partner])
        left[letter] -= count
        left[partner] -= count
        halves += [letter] * count
        sign *= factor**count
    return sign, tuple(halves), tuple(left.elements())


def _sign_of(alphabet: Alphabet, letter: Letter) -> Fraction | int:
    """1 or -1 where the letter is plus or minus a semi-definite matrix by its form, else 0."""
    if isinstance(letter, PartLetter):
        form = signed_form(alphabet, letter.word)
        return 0 if form is None else form.sign
    if isinstance(letter, InverseLetter):
        return 1 if is_semidefinite(letter.argument) else -1 if is_semidefinite(-letter.argument) else 0
    return 0


def is_semidefinite(polynomial: Polynomial) -> bool:
    """Whether a matrix is symmetric positive semi-definite for every value of its symbols, by its form."""
    if polynomial.shape[0] != polynomial.shape[1]:
        return False
    alphabet = polynomial.alphabet
    for word, coefficient in polynomial:
        scalars, matrices = split_scalars(word)
        form = signed_form(alphabet, matrices)
        if form is None or coefficient * form.sign < 0 or not is_nonnegative(alphabet, scalars):
            return False
    return True


def is_nonnegative(alphabet: Alphabet, scalars: Word) -> bool:
    """Whether a product of scalars is >= 0 for every value of its symbols, by its form."""
    return all(count % 2 == 0 or _is_nonnegative(alphabet, letter) for letter, count in Counter(scalars).items())


def _is_nonnegative(alphabet: Alphabet, letter: Letter) -> bool:
    if isinstance(letter, InverseScalar):
        return all(c > 0 and is_nonnegative(alphabet, monomial) for monomial, c in letter.argument)
    if isinstance(letter, ScalarSymbol):
        return alphabet.kind(letter.name) is Kind.POSITIVE
    return isinstance(letter, TraceLetter) and any(True for _ in semidefinite_rotations(alphabet, letter))


def semidefinite_rotations(alphabet: Alphabet, letter: TraceLetter) -> Iterable[Word]:
    """The rotations of a trace's word that are positive semi-definite; the empty word stands for an identity."""
    word = letter.letters
    for i in range(max(1, len(word))):
        rotated = word[i:] + word[:i]
        if semidefinite_form(alphabet, rotated) is not None:
            yield rotated
