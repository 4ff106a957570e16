"""The orthogonal projection E of matrices on a commuting algebra: diagonal matrices, or complex diagonal ones.

E(A M B) = A E(M) B for A, B in the algebra, E(M') = E(M)', tr(E(M) A) = tr(M A); on diagonal matrices E(1 1') = I.
"""

from __future__ import annotations

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.letters import Kind, OnesLetter, Word, split_scalars
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.rewriting import Terms, add_reduced


def part(polynomial: Polynomial, family: Kind) -> Polynomial:
    """E of a square polynomial, letters of the algebra taken out at both ends of every word."""
    rows, columns = polynomial.shape
    if rows != columns:
        raise DeclarationError(f"{family.value} part of {polynomial}: its shape {polynomial.shape} is not square")
    out: Terms = {}
    alphabet = polynomial.alphabet
    for word, coefficient in polynomial.terms.items():
        scalars, matrices = split_scalars(word)
        before, core, after = stripped(matrices, family)
        if not core or _is_ones(core, family):
            add_reduced(alphabet, out, (*scalars, *before, *after), coefficient)
            continue
        found = alphabet.part_letter(core, family)
        if found is not None:
            factor, letter = found
            add_reduced(alphabet, out, (*scalars, *before, letter, *after), coefficient * factor)
    return Polynomial(alphabet, out, polynomial.shape)


def stripped(word: Word, family: Kind) -> tuple[Word, Word, Word]:
    """The word cut into letters of the algebra, the rest, and letters of the algebra."""
    start, end = 0, len(word)
    while start < end and word[start].family is family:
        start += 1
    while end > start and word[end - 1].family is family:
        end -= 1
    return word[:start], word[start:end], word[end:]


def _is_ones(core: Word, family: Kind) -> bool:
    return family is Kind.DIAGONAL and len(core) == 2 and all(isinstance(letter, OnesLetter) for letter in core)
