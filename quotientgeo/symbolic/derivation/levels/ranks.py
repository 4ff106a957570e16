"""Which products are injective for all sizes, and what that assumes of the ranks of the factors."""

from __future__ import annotations

from collections.abc import Mapping

from quotientgeo.symbolic.algebra import InverseLetter, Kind, Letter, Polynomial, Shape, SymbolLetter, Word, palindrome
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.points import group_sizes


class Ranks:
    """Collects the full ranks that proofs assume, one per factor: a factor is not tall in one place and wide in another."""

    def __init__(self, geometry: Geometry) -> None:
        self.alphabet = geometry.alphabet
        self.shapes: Mapping[str, Shape] = geometry.factors
        self.groups = group_sizes(geometry)
        self.full: dict[str, str] = {}  # factor -> "column" or "row"

    def undo(self, full: Mapping[str, str]) -> None:
        """Back to an earlier ``dict(ranks.full)``, after a proof that came to nothing."""
        self.full = dict(full)

    def injective(self, word: Word) -> bool:
        """Whether a product is injective by its letters: Grams F'F, factors of full rank, and invertible letters."""
        i = 0
        while i < len(word):
            letter = word[i]
            following = word[i + 1] if i + 1 < len(word) else None
            if isinstance(letter, InverseLetter) or self.alphabet.local_inverse(letter) is not None:
                i += 1
            elif not isinstance(letter, SymbolLetter) or letter.name not in self.shapes:
                return False
            elif following is not None and self.alphabet.transpose(following)[1] is letter and self._assume(following):
                i += 2
            elif self._assume(letter):
                i += 1
            else:
                return False
        return True

    def injective_transposed(self, word: Word) -> bool:
        """The same of the transposed product."""
        return self.injective(tuple(self.alphabet.transpose(letter)[1] for letter in reversed(word)))

    def definite(self, word: Word) -> bool:
        """Whether u' u or u' M^-1 u has an injective u; what makes M invertible is assumed where M shows it."""
        form = palindrome(self.alphabet, word)
        if form is None:
            return False
        if form.middle is not None:
            self._definite_sum(form.middle.argument)
        return self.injective(form.half)

    def _definite_sum(self, polynomial: Polynomial) -> None:
        before = dict(self.full)
        if not any(self.definite(word) for word, _ in polynomial):
            self.undo(before)

    def _assume(self, letter: Letter) -> bool:
        """Assume that a factor, as it stands here, is injective, unless it is wide: declared numbers decide, then groups."""
        if not isinstance(letter, SymbolLetter) or self.alphabet.kind(letter.name) is not Kind.GENERAL:
            return False
        rows, columns = letter.shape
        wide = rows in self.groups and columns not in self.groups  # what a group acts on is the short side
        if isinstance(rows, int) and isinstance(columns, int):
            wide = rows < columns
        if wide:
            return False
        rank = "row" if letter.transposed else "column"
        return self.full.setdefault(letter.name, rank) == rank
