"""Normal form of a word: cancellation of neighbouring inverses.

Rules, each of which makes a word smaller in the order by length and then letters (so rewriting ends):
    A A^-1 -> 1;   for L = (w + rest)^-1 with leading word w:   L w -> 1 - L rest,   w L -> 1 - rest L.
A normal form that is zero is a proof for all sizes; one that is not zero is no disproof, since the rules need not be
confluent for inverses of sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from quotientgeo.symbolic.algebra.letters import InverseLetter, Word
from quotientgeo.symbolic.algebra.normalisation import normalise

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet

Terms = dict[Word, Fraction]


def add_term(terms: Terms, word: Word, coefficient: Fraction) -> None:
    """Add in place, dropping a term whose coefficient becomes zero."""
    known = terms.get(word)
    if known is None:
        terms[word] = coefficient
        return
    total = known + coefficient
    if total:
        terms[word] = total
    else:
        del terms[word]


def add_reduced(
    alphabet: Alphabet, terms: Terms, word: Word, coefficient: Fraction, junctions: tuple[int, ...] | None = None
) -> None:
    """Add ``coefficient * word`` in normal form, in place.

    ``junctions`` are the positions at which words in normal form were joined: only rules that span one can apply at first.
    """
    if alphabet.special:
        for normal, c in normalise(alphabet, word):
            add_term(terms, normal, coefficient * c)
        return
    step = _rewrite(alphabet, word, _places(alphabet, word, junctions))
    if step is None:
        add_term(terms, word, coefficient)
        return
    stack = [(shorter, coefficient * c) for shorter, c in step]
    while stack:
        current, factor = stack.pop()
        step = _rewrite(alphabet, current, range(len(current)))
        if step is None:
            add_term(terms, current, factor)
        else:
            stack.extend((shorter, factor * c) for shorter, c in step)


def reduce_word(alphabet: Alphabet, word: Word) -> Terms:
    """Normal form of one word as {word: coefficient}."""
    out: Terms = {}
    add_reduced(alphabet, out, word, Fraction(1))
    return out


def _places(alphabet: Alphabet, word: Word, junctions: tuple[int, ...] | None) -> Iterable[int]:
    """Positions of letters whose rules can span a junction; all of them where none is given."""
    if junctions is None:
        return range(len(word))
    reach = max(alphabet.longest_lead, 1)
    if len(junctions) == 1:
        return range(max(0, junctions[0] - reach), min(len(word), junctions[0] + reach))
    return sorted({i for j in junctions for i in range(max(0, j - reach), min(len(word), j + reach))})


def _rewrite(alphabet: Alphabet, word: Word, places: Iterable[int]) -> list[tuple[Word, Fraction]] | None:
    """Result of the first rule that applies at one of the places, or None."""
    for i in places:
        letter = word[i]
        if isinstance(letter, InverseLetter):
            lead, rest = alphabet.leading(letter)
            k = len(lead)
            if word[i + 1 : i + 1 + k] == lead:
                before, after = word[:i], word[i + 1 + k :]
                return [(before + after, Fraction(1))] + [((*before, letter, *r, *after), -c) for r, c in rest.items()]
            if i >= k and word[i - k : i] == lead:
                before, after = word[: i - k], word[i + 1 :]
                return [(before + after, Fraction(1))] + [((*before, *r, letter, *after), -c) for r, c in rest.items()]
        elif i + 1 < len(word):
            partner = alphabet.local_inverse(letter)
            if partner is not None and partner is word[i + 1]:
                return [(word[:i] + word[i + 2 :], Fraction(1))]
    return None
