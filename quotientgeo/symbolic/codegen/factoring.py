"""Which common factor of a sum to collect next.

A sum x u + x v costs one product less as x (u + v). Words are compared token by token (see chain.tokens), so a common factor
never cuts a Gram matrix in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from quotientgeo.symbolic.algebra import InverseLetter, SymbolLetter, Word, word_key
from quotientgeo.symbolic.codegen.chain import plan
from quotientgeo.symbolic.codegen.graph import Sizes, extent

Phrase: TypeAlias = tuple[Word, ...]  # a word as the sequence of its tokens


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

    def best(self, terms: Mapping[Phrase, Fraction]) -> Group | None:
        """The group that saves most, or None if no common factor saves anything."""
        candidates: dict[tuple[bool, Phrase], list[Phrase]] = {}
        for phrase in terms:
            for i in range(1, len(phrase)):
                candidates.setdefault((True, phrase[:i]), []).append(phrase)
                candidates.setdefault((False, phrase[i:]), []).append(phrase)
        best, best_key = None, None
        for (left, common), members in candidates.items():
            if len(members) < 2:
                continue
            saving = self._saving(common, left, members) * self._preference[left]
            if saving > 0:
                key = (-saving, -len(common), not left, self._key(common))
                if best_key is None or key < best_key:
                    best, best_key = Group(common, left, frozenset(members)), key
        return best

    def _saving(self, common: Phrase, left: bool, members: Iterable[Phrase]) -> int:
        """Cost of the separate words minus the cost of the collected form; an addition costs its entries either way."""
        total, count = 0, len(common)
        for phrase in members:
            total += self._cost(phrase) - self._cost(phrase[count:] if left else phrase[:-count])
            outer = phrase[-1][-1].columns if left else phrase[0][0].rows
        applied = [
            extent(common[0][0].rows, self._sizes),
            *(extent(token[-1].columns, self._sizes) for token in common),
        ]
        applied = [*applied, extent(outer, self._sizes)] if left else [extent(outer, self._sizes), *applied]
        inverse = [_is_inverse(token) for token in common]
        cost, _ = plan(applied, [*inverse, False] if left else [False, *inverse])
        return total - cost

    def _cost(self, phrase: Phrase) -> int:
        cost = self._costs.get(phrase)
        if cost is None:
            lengths = [extent(phrase[0][0].rows, self._sizes)]
            lengths += [extent(token[-1].columns, self._sizes) for token in phrase]
            cost = self._costs[phrase] = plan(lengths, [_is_inverse(token) for token in phrase])[0]
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
    return isinstance(letter, InverseLetter) or (isinstance(letter, SymbolLetter) and letter.inverted)
