"""Which common factor of a sum to collect next.

A sum x u + x v costs one product less as x (u + v). Words are compared token by token (see chain.tokens), so a common factor
never cuts a Gram matrix in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from quotientgeo.symbolic.algebra import InverseLetter, Kind, SymbolLetter, Word, word_key
from quotientgeo.symbolic.codegen.chain import chain_cost
from quotientgeo.symbolic.codegen.graph import Sizes, extent

Phrase: TypeAlias = tuple[Word, ...]  # a word as the sequence of its tokens


def join(phrase: Phrase) -> Word:
    """The word of a sequence of tokens."""
    return tuple(letter for token in phrase for letter in token)


@dataclass(frozen=True)
class Group:
    """The terms ``members`` of a sum share the factor ``common`` on the left or on the right."""

    common: Phrase
    left: bool
    members: frozenset[Phrase]

    def remainder(self, phrase: Phrase) -> Phrase:
        """A member without the common factor."""
        return phrase[len(self.common) :] if self.left else phrase[: -len(self.common)]


class Factoring:
    """Greedy choice of the common factor that saves most multiplications at the representative sizes.

    ``preference`` scales the savings of left against right factors: the several settings that the generator tries differ
    only in it.
    """

    def __init__(self, sizes: Sizes, preference: tuple[int, int] = (1, 1)) -> None:
        self._sizes = sizes
        self._preference = {True: preference[0], False: preference[1]}
        self._costs: dict[Phrase, int] = {}
        self._order: dict[Phrase, Any] = {}

    def groups(self, phrases: Iterable[Phrase]) -> Iterator[Group]:
        """Disjoint groups, each the one that saves most among the terms that are left; ends when nothing saves."""
        members: dict[tuple[bool, Phrase], dict[Phrase, int]] = {}
        for phrase in phrases:
            for i in range(1, len(phrase)):
                cost, head, tail = self._cost(phrase), phrase[:i], phrase[i:]
                members.setdefault((True, head), {})[phrase] = cost - self._cost(tail)
                members.setdefault((False, tail), {})[phrase] = cost - self._cost(head)
        gains = {candidate: sum(found.values()) for candidate, found in members.items()}
        while True:
            best, best_key = None, None
            for candidate, found in members.items():
                if len(found) > 1:
                    left, common = candidate
                    saving = (gains[candidate] - self._applied(common, left, next(iter(found)))) * self._preference[
                        left
                    ]
                    if saving > 0 and (best_key is None or saving >= -best_key[0]):
                        key = (-saving, -len(common), not left, self._key(common))
                        if best_key is None or key < best_key:
                            best, best_key = candidate, key
            if best is None:
                return
            chosen = Group(best[1], best[0], frozenset(members[best]))
            for phrase in chosen.members:
                for i in range(1, len(phrase)):
                    for candidate in ((True, phrase[:i]), (False, phrase[i:])):
                        gains[candidate] -= members[candidate].pop(phrase)
            yield chosen

    def _applied(self, common: Phrase, left: bool, member: Phrase) -> int:
        """Cost of multiplying the common factor onto the collected sum."""
        inner = [extent(common[0][0].rows, self._sizes), *(extent(token[-1].columns, self._sizes) for token in common)]
        inverse = list(map(_is_inverse, common))
        if left:
            return chain_cost((*inner, extent(member[-1][-1].columns, self._sizes)), (*inverse, False))
        return chain_cost((extent(member[0][0].rows, self._sizes), *inner), (False, *inverse))

    def _cost(self, phrase: Phrase) -> int:
        cost = self._costs.get(phrase)
        if cost is None:
            lengths = [extent(phrase[0][0].rows, self._sizes)]
            lengths += [extent(token[-1].columns, self._sizes) for token in phrase]
            cost = self._costs[phrase] = chain_cost(tuple(lengths), tuple(map(_is_inverse, phrase)))
        return cost

    def _key(self, phrase: Phrase) -> Any:
        key = self._order.get(phrase)
        if key is None:
            key = self._order[phrase] = tuple(word_key(token) for token in phrase)
        return key


def _is_inverse(token: Word) -> bool:
    if len(token) != 1:
        return False
    (letter,) = token
    if letter.family is Kind.DIAGONAL:
        return False
    return isinstance(letter, InverseLetter) or (isinstance(letter, SymbolLetter) and letter.inverted)
