"""Normal form of a word: cancellation of neighbouring inverses.

Rules, each of which makes a word smaller in the order by length and then letters (so rewriting ends):
    A A^-1 -> 1;   for L = (w + rest)^-1 with leading word w:   L w -> 1 - L rest,   w L -> 1 - rest L.
A normal form that is zero is a proof for all sizes; one that is not zero is no disproof, since the rules need not be
confluent for inverses of sums.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from quotientgeo.symbolic.algebra.letters import InverseLetter, Word

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet

Terms = dict[Word, Fraction]


def add_term(terms: Terms, word: Word, coefficient: Fraction) -> None:
    """Add in place, dropping a term whose coefficient becomes zero."""
    total = terms.get(word, 0) + coefficient
    if total:
        terms[word] = total
    else:
        terms.pop(word, None)


def reduce_word(alphabet: Alphabet, word: Word) -> Terms:
    """Normal form of one word as {word: coefficient}."""
    out: Terms = {}
    stack: list[tuple[Word, Fraction]] = [(word, Fraction(1))]
    while stack:
        current, coefficient = stack.pop()
        step = _rewrite(alphabet, current)
        if step is None:
            add_term(out, current, coefficient)
        else:
            stack.extend((rewritten, coefficient * c) for rewritten, c in step)
    return out


def _rewrite(alphabet: Alphabet, word: Word) -> list[tuple[Word, Fraction]] | None:
    """Result of the first rule that applies, or None for a word in normal form."""
    for i, letter in enumerate(word):
        if i + 1 < len(word) and alphabet.local_inverse(letter) is word[i + 1]:
            return [(word[:i] + word[i + 2 :], Fraction(1))]
        if isinstance(letter, InverseLetter):
            lead, rest = alphabet.leading(letter)
            k = len(lead)
            if word[i + 1 : i + 1 + k] == lead:
                before, after = word[:i], word[i + 1 + k :]
                return [(before + after, Fraction(1))] + [((*before, letter, *r, *after), -c) for r, c in rest.items()]
            if i >= k and word[i - k : i] == lead:
                before, after = word[: i - k], word[i + 1 :]
                return [(before + after, Fraction(1))] + [((*before, *r, letter, *after), -c) for r, c in rest.items()]
    return None
