"""Normal form of words with scalars, commuting letters and columns of ones; words without them need only rewriting.py.

Scalars are gathered in front and sorted, a product of shape (1, 1) inside a word becomes a scalar, neighbouring letters of
one commuting algebra are sorted; then inverses cancel: L w -> 1 - L rest for L = (w + rest)^-1, where in a commuting run (and
among scalars) the letters of w may stand anywhere.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from quotientgeo.symbolic.algebra.letters import (
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    ScalarLetter,
    SymbolLetter,
    Word,
    split_scalars,
)

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet

Step = list[tuple[Word, Fraction]]


def arranged(word: Word) -> Word:
    """Scalars in front, sorted; runs of one commuting algebra sorted."""
    scalars = [letter for letter in word if isinstance(letter, ScalarLetter)]
    matrices: list[Letter] = [letter for letter in word if not isinstance(letter, ScalarLetter)] if scalars else [*word]
    scalars.sort(key=lambda letter: letter.sort_key)
    for start, end in runs(tuple(matrices)):
        matrices[start:end] = sorted(matrices[start:end], key=lambda letter: letter.sort_key)
    return (*scalars, *matrices)


def runs(word: Word) -> list[tuple[int, int]]:
    """(start, end) of the maximal stretches of letters of one commuting algebra."""
    out: list[tuple[int, int]] = []
    start = 0
    while start < len(word):
        family, end = word[start].family, start + 1
        if family is not None:
            while end < len(word) and word[end].family is family:
                end += 1
            out.append((start, end))
        start = end
    return out


def normalise(alphabet: Alphabet, word: Word, blocks: bool = True) -> list[tuple[Word, Fraction]]:
    """The normal form as (word, coefficient) pairs, words perhaps repeated; without ``blocks``, (1, 1) products stay."""
    out: list[tuple[Word, Fraction]] = []
    stack = [(word, Fraction(1))]
    while stack:
        current, factor = stack.pop()
        current = arranged(current)
        step = _rewrite(alphabet, current, blocks)
        if step is None:
            out.append((current, factor))
        else:
            stack.extend((shorter, factor * c) for shorter, c in step)
    return out


def _rewrite(alphabet: Alphabet, word: Word, blocks: bool) -> Step | None:
    scalars, matrices = split_scalars(word)
    found = reduce_scalars(alphabet, scalars)
    if found is not None:
        return [((*s, *matrices), c) for s, c in found]
    found = _unit_block(alphabet, matrices) if blocks else None
    if found is None:
        found = _in_runs(alphabet, matrices)
    if found is None:
        found = _between(alphabet, matrices)
    if found is None:
        found = _with_ones(alphabet, matrices)
    return None if found is None else [((*scalars, *w), c) for w, c in found]


def reduce_scalars(alphabet: Alphabet, scalars: Word) -> Step | None:
    """The first rule 1/(lead + rest) lead -> 1 - 1/(lead + rest) rest that applies, or None."""
    for i, letter in enumerate(scalars):
        if isinstance(letter, InverseScalar):
            lead, rest = alphabet.leading_scalar(letter)
            left = _without((*scalars[:i], *scalars[i + 1 :]), lead)
            if left is not None:
                return [(left, Fraction(1)), *(((*left, letter, *r), -c) for r, c in rest.items())]
    return None


def _without(letters: Word, taken: Word) -> Word | None:
    """``letters`` without those of ``taken``, each once; None where one is missing."""
    left = list(letters)
    for letter in taken:
        if letter not in left:
            return None
        left.remove(letter)
    return tuple(left)


def _unit_block(alphabet: Alphabet, matrices: Word) -> Step | None:
    """The first product of shape (1, 1) as the scalar that it is."""
    from quotientgeo.symbolic.algebra.cyclic import trace

    start = None
    for i in range(len(matrices) + 1):
        size = matrices[0].rows if i == 0 and matrices else matrices[i - 1].columns if i else ""
        if size == 1 and start is None:
            start = i
        elif size == 1 and start is not None:
            block = trace(alphabet.monomial(matrices[start:i]))
            outside = matrices[:start] + matrices[i:]
            return [((*monomial, *outside), c) for monomial, c in block.terms.items()]
    return None


def _in_runs(alphabet: Alphabet, matrices: Word) -> Step | None:
    """Cancellation inside a commuting run, where order does not matter."""
    for start, end in runs(matrices):
        run, before, after = matrices[start:end], matrices[:start], matrices[end:]
        for i, letter in enumerate(run):
            others = run[:i] + run[i + 1 :]
            if isinstance(letter, InverseLetter):
                lead, rest = alphabet.leading(letter)
                left = _without(others, lead)
                if left is not None:
                    tail = [(_joined(before, (letter, *left), r, after), -c) for r, c in rest.items()]
                    return [((*before, *left, *after), Fraction(1)), *tail]
            elif isinstance(letter, SymbolLetter) and letter.inverted:
                partner = alphabet.local_inverse(letter)
                if partner in others:
                    left = _without(others, (partner,))
                    assert left is not None
                    return [((*before, *left, *after), Fraction(1))]
    return None


def is_vector_part(letter: Letter) -> bool:
    """Whether a letter is the diagonal matrix of a column x, E(x 1')."""
    return isinstance(letter, PartLetter) and letter.family is Kind.DIAGONAL and isinstance(letter.word[-1], OnesLetter)


def _with_ones(alphabet: Alphabet, matrices: Word) -> Step | None:
    """E(x 1') 1 -> x and 1' E(x 1') -> x', in a run whose other letters stay; the greatest x where there are several."""
    for start, end in runs(matrices):
        run, before, after = matrices[start:end], matrices[:start], matrices[end:]
        found = [letter for letter in run if is_vector_part(letter)]
        if not found:
            continue
        part = max(found, key=lambda letter: letter.sort_key)
        assert isinstance(part, PartLetter)
        others = _without(run, (part,))
        assert others is not None
        if after and isinstance(after[0], OnesLetter) and not after[0].transposed:
            return [((*before, *others, *part.word[:-1], *after[1:]), Fraction(1))]
        if before and isinstance(before[-1], OnesLetter) and before[-1].transposed:
            row = alphabet.monomial(part.word[:-1]).T
            return [(_joined(before[:-1], (), word, (*others, *after)), c) for word, c in row.terms.items()]
    return None


def _between(alphabet: Alphabet, matrices: Word) -> Step | None:
    """Cancellation of neighbours that do not commute."""
    for i, letter in enumerate(matrices):
        if letter.family is not None:
            continue
        if isinstance(letter, InverseLetter):
            lead, rest = alphabet.leading(letter)
            k = len(lead)
            if matrices[i + 1 : i + 1 + k] == lead:
                before, after = matrices[:i], matrices[i + 1 + k :]
                tail = [(_joined(before, (letter,), r, after), -c) for r, c in rest.items()]
                return [(before + after, Fraction(1)), *tail]
            if i >= k and matrices[i - k : i] == lead:
                before, after = matrices[: i - k], matrices[i + 1 :]
                tail = [(_joined(before, (), r, (letter, *after)), -c) for r, c in rest.items()]
                return [(before + after, Fraction(1)), *tail]
        elif i + 1 < len(matrices):
            partner = alphabet.local_inverse(letter)
            if partner is not None and partner is matrices[i + 1]:
                return [(matrices[:i] + matrices[i + 2 :], Fraction(1))]
    return None


def _joined(before: Word, left: Word, middle: Word, after: Word) -> Word:
    """before left middle after, with the scalars of ``middle`` in front."""
    scalars, matrices = split_scalars(middle)
    return (*scalars, *before, *left, *matrices, *after)
