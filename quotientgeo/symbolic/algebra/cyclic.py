"""Traces of matrices in cyclic-and-transpose normal form."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.letters import (
    Dimension,
    OnesLetter,
    PartLetter,
    Word,
    split_scalars,
    word_key,
)
from quotientgeo.symbolic.algebra.normalisation import arranged, is_vector_part, normalise, runs
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.rewriting import Terms, add_term, reduce_word
from quotientgeo.symbolic.algebra.trace import Monomial, TracePolynomial, add_product, scalar

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet

SMALL = (
    6  # the largest declared number at which exact arithmetic is quick: proofs by numbers give larger ones a stand-in
)


def trace(polynomial: Polynomial) -> TracePolynomial:
    """Trace of a square polynomial, in cyclic-and-transpose normal form; a word equal to minus itself vanishes."""
    if polynomial.shape[0] != polynomial.shape[1]:
        raise DeclarationError(f"trace of {polynomial}: its shape {polynomial.shape} is not square")
    alphabet = polynomial.alphabet
    terms: dict[Monomial, Fraction] = {}
    stack = [(*split_scalars(word), polynomial.shape[0], coefficient) for word, coefficient in polynomial.terms.items()]
    while stack:
        scalars, word, size, coefficient = stack.pop()
        reduced = _cyclic_step(alphabet, word)
        if reduced is not None:
            # a rotated word may shrink to an identity of another size: (G'G)^-1 is h x h, G (G'G)^-1 G' is n x n
            for shorter, c in reduced.terms.items():
                more, matrices = split_scalars(shorter)
                stack.append((scalars + more, matrices, reduced.shape[0], coefficient * c))
            continue
        blocks = _unit_blocks(word)
        if not word:
            factor = _identity(alphabet, size)
        elif len(blocks) > 1:
            factor = scalar(alphabet, 1)
            for block in blocks:
                factor = factor * trace(alphabet.monomial(block))
        else:
            factor = _cyclic(alphabet, blocks[0])
        for monomial, c in factor.terms.items():
            add_product(alphabet, terms, scalars + monomial, coefficient * c)
    return TracePolynomial(alphabet, terms)


def _identity(alphabet: Alphabet, size: Dimension) -> TracePolynomial:
    """tr(I): a number where the size is a small one; a larger one may be proven with a stand-in, so it stays a letter."""
    if isinstance(size, int) and size <= SMALL:
        return scalar(alphabet, size)
    return TracePolynomial(alphabet, {(alphabet.trace_letter((), size),): Fraction(1)})


def _cyclic(alphabet: Alphabet, word: Word) -> TracePolynomial:
    """The trace of a word that no rotation shortens."""
    if all(isinstance(letter, OnesLetter) for letter in word):  # a block of two: 1' 1, the number of ones
        return _identity(alphabet, word[0].rows if word[0].columns == 1 else word[0].columns)
    if alphabet.special:
        word, factor = _with_parts(alphabet, word)
        if factor is not None:
            return factor
    sign, letters = _least_rotation(alphabet, word)
    if not sign:
        return scalar(alphabet, 0)
    return TracePolynomial(alphabet, {(alphabet.trace_letter(letters, letters[0].rows),): sign})


def _starts(word: Word) -> list[int]:
    """Where a rotation may start: not inside a run of commuting letters, unless all of the word is one."""
    if all(letter.family is not None and letter.family is word[0].family for letter in word):
        return [0]
    return [i for i in range(len(word)) if word[i].family is None or word[i - 1].family is not word[i].family]


def _cyclic_step(alphabet: Alphabet, word: Word) -> Polynomial | None:
    """The reduced form of the first rotation that reduces, or None when no rotation does."""
    if alphabet.special:
        for i in _starts(word) if word else ():
            rotated = arranged(word[i:] + word[:i])
            found = normalise(alphabet, rotated, blocks=False)
            if found != [(rotated, 1)]:
                reduced: Terms = {}
                for shorter, c in found:
                    add_term(reduced, shorter, c)
                return Polynomial(alphabet, reduced, (rotated[0].rows, rotated[0].rows))
        return None
    for i in range(1, len(word)):
        rotated = word[i:] + word[:i]
        reduced = reduce_word(alphabet, rotated)
        if reduced != {rotated: 1}:
            return Polynomial(alphabet, reduced, (rotated[0].rows, rotated[0].rows))
    return None


def _unit_blocks(word: Word) -> list[Word]:
    """A cyclic word cut wherever its inner size is 1: the trace is the product of the traces of the pieces."""
    cuts = [i for i, letter in enumerate(word) if letter.rows == 1]
    if len(cuts) < 2:
        return [word[cuts[0] :] + word[: cuts[0]]] if cuts else [word]
    turned = word[cuts[0] :] + word[: cuts[0]]
    places = [cut - cuts[0] for cut in cuts]
    return [turned[i:j] for i, j in zip(places, [*places[1:], len(turned)], strict=True)]


def _with_parts(alphabet: Alphabet, word: Word) -> tuple[Word, TracePolynomial | None]:
    """tr(E(w) D) = tr(w D) for D in a commuting algebra: where all but one stretch is in it, one form of the two is chosen.

    The stretch is wrapped, E(w); where that leaves one projection only, it is unwrapped again.
    """
    families = {letter.family for letter in word} - {None}
    if len(families) != 1:
        return word, None
    (family,) = families
    assert family is not None
    turned = word
    starts = _starts(word)
    if len(starts) > 1:
        first = next(i for i in starts if word[i].family is family)
        turned = word[first:] + word[:first]
    spans = runs(turned)
    if len(spans) == 1 and spans[0][1] < len(turned):
        run, rest = turned[: spans[0][1]], turned[spans[0][1] :]
        ends = [isinstance(letter, OnesLetter) for letter in (rest[0], rest[-1])]
        if any(ends) and not (all(ends) and len(rest) == 2):
            return word, None  # columns are not wrapped: E(x 1') 1 = x
        wrapped = alphabet.monomial(rest).part(family)
        joined = alphabet.monomial(run) * wrapped
        if all(isinstance(letter, PartLetter) or letter.family is family for w in joined.terms for letter in w):
            return word, _unwrapped(alphabet, joined)
    if len(spans) == 1:
        return word, _unwrapped(alphabet, alphabet.monomial(turned))
    return word, None


def _unwrapped(alphabet: Alphabet, joined: Polynomial) -> TracePolynomial:
    """The trace of a polynomial in one commuting algebra."""
    out = scalar(alphabet, 0)
    for word, coefficient in joined.terms.items():
        scalars, letters = split_scalars(word)
        parts = [letter for letter in letters if isinstance(letter, PartLetter)]
        if not letters:
            term = _identity(alphabet, joined.shape[0])
        elif columns := [part for part in parts if is_vector_part(part)]:
            part = max(columns, key=lambda letter: letter.sort_key)
            rest = joined.alphabet.identity(joined.shape[0])
            for letter in (*letters[: letters.index(part)], *letters[letters.index(part) + 1 :]):
                rest = rest * joined.alphabet.monomial((letter,))
            term = trace(joined.alphabet.monomial(part.word) * rest)
        elif len(letters) == 1 and parts:
            term = trace(joined.alphabet.monomial(parts[0].word))
        else:
            if len(parts) == 1:
                i = letters.index(parts[0])
                letters = parts[0].word + letters[i + 1 :] + letters[:i]
            sign, least = _least_rotation(alphabet, arranged(letters))
            term = TracePolynomial(alphabet, {(alphabet.trace_letter(least, least[0].rows),): sign} if sign else {})
        out = out + TracePolynomial(alphabet, {scalars: coefficient}) * term
    return out


def _least_rotation(alphabet: Alphabet, word: Word) -> tuple[Fraction, Word]:
    """(c, least) with tr(word) = c tr(least) over rotations of the word and of its transpose; c = 0 if tr(word) = 0."""
    factor, transposed = alphabet.transpose_word(word)
    transposed = arranged(transposed) if alphabet.special else transposed
    plain, mirrored = (min(_rotations(alphabet, w), key=word_key) for w in (word, transposed))
    if plain == mirrored:
        return (Fraction(1) if factor == 1 else Fraction(0)), plain
    return (Fraction(1), plain) if word_key(plain) < word_key(mirrored) else (factor, mirrored)


def _rotations(alphabet: Alphabet, word: Word) -> list[Word]:
    if alphabet.special:
        return [arranged(word[i:] + word[:i]) for i in _starts(word)]
    return [word[i:] + word[:i] for i in range(len(word))]
