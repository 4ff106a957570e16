"""Which products are injective for all sizes, and what that assumes of the factors: ranks, and entries other than zero."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from quotientgeo.symbolic.algebra import (
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    Polynomial,
    ScalarSymbol,
    Shape,
    SymbolLetter,
    TraceLetter,
    TracePolynomial,
    Word,
    is_vector,
    split_scalars,
)
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.forms import (
    is_nonnegative,
    is_semidefinite,
    run_length,
    semidefinite_form,
    semidefinite_rotations,
)
from quotientgeo.symbolic.derivation.levels.points import group_sizes
from quotientgeo.symbolic.derivation.levels.shifts import Shifts, linear_points

WHOLE = "factor"

State = tuple[Mapping[str, str], tuple[tuple[str, str], ...]]


class Ranks:
    """Collects what proofs assume of the factors; proofs read them ``shifted``, so 1 + w where that is moved linearly.

    ``full``: full ranks, one per factor: a factor is not tall in one place and wide in another. ``nonzero``: (what, factor)
    where no such thing of the factor is zero: "entry", "column", "row", or "pair of entries" and so on; or ``WHOLE``, where
    the factor itself is not, which all the others say too.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.alphabet = geometry.alphabet
        self.shapes: Mapping[str, Shape] = geometry.factors
        self.groups = group_sizes(geometry)
        moved = {factor: formula.polynomial for factor, formula in geometry.action.items()}
        self.shifts = Shifts(self.alphabet, linear_points(self.alphabet, moved, geometry.names.elements))
        self.full: dict[str, str] = {}  # factor -> "column" or "row"
        self.nonzero: dict[tuple[str, str], None] = {}

    def state(self) -> State:
        """What is assumed so far, to come ``back`` to."""
        return dict(self.full), tuple(self.nonzero)

    def back(self, state: State) -> None:
        """To an earlier state, after a proof that came to nothing."""
        self.full, self.nonzero = dict(state[0]), dict.fromkeys(state[1])

    def weakest(self, attempts: Iterable[Callable[[], bool]]) -> bool:
        """Whether one of the attempts succeeds; of those that do, what the one assumes that assumes least."""
        before, found = self.state(), []
        for attempt in attempts:
            found += [self.state()] if attempt() else []
            self.back(before)
        if found:
            self.back(min(found, key=self.strength))
        return bool(found)

    def strength(self, state: State) -> tuple[object, ...]:
        """What is assumed, strongest first, so that the least can be chosen; names decide between equals."""
        full, nonzero = state
        doubtful = sum(self._may_not_exist(factor, rank) for factor, rank in full.items())
        parts = sum(what != WHOLE for what, _ in nonzero)
        return (
            len(full),
            doubtful,
            parts,
            len(nonzero) - parts,
            sorted(full.items()),
            sorted((f, what) for what, f in nonzero),
        )

    def implied(self, weak: State, strong: State) -> bool:
        """Whether all of one state follows from another."""
        full, nonzero = strong
        return weak[0].items() <= full.items() and all(
            _follows(what, factor, full, nonzero) for what, factor in weak[1]
        )

    def _may_not_exist(self, factor: str, rank: str) -> bool:
        """Whether the kind of its sizes leaves open that a factor has no such rank at all."""
        rows, columns = self.shapes[factor] if rank == "column" else self.shapes[factor][::-1]
        numbers = isinstance(rows, int) and isinstance(columns, int)
        return not (rows == columns or numbers or (columns in self.groups and rows not in self.groups))

    def _add(self, what: str, factor: str) -> None:
        """Assume that no such thing of the factor is zero; what others say already is left out."""
        self.nonzero[what, factor] = None
        self._without_implied()

    def _without_implied(self) -> None:
        for what, factor in list(self.nonzero):
            others = [pair for pair in self.nonzero if pair != (what, factor)]
            if _follows(what, factor, self.full, others):
                del self.nonzero[what, factor]

    def assumptions(self) -> list[str]:
        """What is assumed, in words."""
        factors = list(self.shapes)
        out = []
        for rank in ("column", "row"):
            names = [self.shifts.text(factor) for factor in factors if self.full.get(factor) == rank]
            out += [f"full {rank} rank of {', '.join(names)}"] if names else []
        parts = sorted((pair for pair in self.nonzero if pair[0] != WHOLE), key=lambda pair: factors.index(pair[1]))
        for what in dict.fromkeys(what for what, _ in parts):
            names = [self.shifts.text(factor) for factor in factors if (what, factor) in self.nonzero]
            out.append(f"no {what} of {', '.join(names)} is zero")
        return out + [f"{self.shifts.text(factor)} is not zero" for factor in factors if self._only_whole(factor)]

    def _only_whole(self, factor: str) -> bool:
        return factor not in self.full and {what for what, f in self.nonzero if f == factor} == {WHOLE}

    def injective(self, word: Word) -> bool:
        """Whether a product is injective by its letters: Grams F'F, factors of full rank, and invertible letters."""
        i = 0
        while i < len(word):
            letter = word[i]
            following = word[i + 1] if i + 1 < len(word) else None
            if self._invertible(letter) or (isinstance(letter, OnesLetter) and not letter.transposed):
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
        return self.injective(self.alphabet.transpose_word(word)[1])

    def faithful(self, word: Word, family: Kind) -> bool:
        """Whether word D = 0 gives D = 0 for D in a commuting algebra: injective, or no column (pair of columns) is zero."""
        return not word or self.weakest((lambda: self._no_column(word, family), lambda: self.injective(word)))

    def _no_column(self, word: Word, family: Kind) -> bool:
        """An injective product times what has no column (pair of columns) that is zero."""
        last = word[-1]
        if not (isinstance(last, OnesLetter) or self._is_factor(last)) or not self.injective(word[:-1]):
            return False
        if isinstance(last, SymbolLetter):
            what = "entry" if last.shape[0] == 1 else "row" if last.transposed else "column"
            pair = f"pair of {what}s".replace("entrys", "entries")
            self._add(what if family is Kind.DIAGONAL else pair, last.name)
        return True

    def none_between(self, left: Word, family: Kind, right: Word) -> bool:
        """Whether left D right = 0 gives D = 0 for D in a commuting algebra: one side injective, the other faithful."""
        mirrored = self.alphabet.transpose_word(right)[1]
        return self.weakest(
            (
                lambda: self.faithful(left, family) and self.injective(mirrored),
                lambda: self.faithful(mirrored, family) and self.injective(left),
            )
        )

    def leaves_none(self, word: Word, start: int, end: int) -> bool:
        """Whether a product is zero only where its part from ``start`` to ``end`` is (one letter, or of no commuting algebra)."""
        family, first, last = word[start].family, start, end
        if family is None:
            return self.injective(word[:start]) and self.injective_transposed(word[end:])
        while first and word[first - 1].family is family:
            first -= 1
        last = first + run_length(word[first:])
        if not self.injective(word[first:start] + word[end:last]):
            return False
        return self.none_between(word[:first], family, word[last:])

    def nonzero_product(self, word: Word) -> bool:
        """Whether a product of matrices is not zero: one factor is not, and the others leave none; by the fewest assumptions."""
        return self.weakest(self._nonzero_attempts(word))

    def _nonzero_attempts(self, word: Word) -> Iterator[Callable[[], bool]]:
        yield lambda: self.injective(word)
        yield lambda: self.injective_transposed(word)
        for start, letter in enumerate(word):
            gram = (
                start + 1 < len(word) and self.alphabet.transpose(word[start + 1])[1] is letter
            )  # F'F = 0 for F = 0 only
            for end in (start + 1, start + 2)[: 1 + (gram and letter.family is None)]:
                yield lambda i=start, j=end: self._assume_nonzero(word[i]) and self.leaves_none(word, i, j)  # type: ignore[misc]

    def _assume_nonzero(self, letter: Letter) -> bool:
        """Assume that a letter is not zero: that of a factor, or a part E(M), which has the trace of M."""
        if isinstance(letter, PartLetter):
            return self._nonzero_form(letter.word)
        if not isinstance(letter, SymbolLetter) or letter.name not in self.shapes:
            return False
        self._assume_whole(letter.name)
        return True

    def _assume_whole(self, factor: str) -> None:
        self._add(WHOLE, factor)

    def _nonzero_form(self, word: Word) -> bool:
        """Whether a word that is positive semi-definite by its form is not zero."""
        form = semidefinite_form(self.alphabet, word)
        if form is None:
            return False
        self._definite_sums(form.definite)
        return self.injective(form.definite) and self.nonzero_product((*form.halves, *form.half))

    def definite(self, word: Word) -> bool:
        """Whether a word is positive definite; what makes a matrix M in it invertible is assumed where M shows it."""
        form = semidefinite_form(self.alphabet, word)
        if form is None:
            return False
        self._definite_sums(form.definite)
        return self.injective((*form.definite, *form.halves, *form.half))

    def is_definite(self, weight: Polynomial) -> bool:
        """Whether a sum is positive definite by its form under what is assumed already."""
        known, weight = self.state(), self.shifts.shifted(weight)
        for word, _ in weight if is_semidefinite(weight) else ():
            scalars, matrices = split_scalars(word)
            if self.positive(scalars) and self.definite(matrices) and self.state() == known:
                return True
            self.back(known)
        return False

    def is_positive(self, number: TracePolynomial) -> bool:
        """Whether a number is positive by its form under what is assumed already."""
        known, number = self.state(), self.shifts.shifted(number)
        for monomial, _ in number if all(c > 0 and is_nonnegative(self.alphabet, m) for m, c in number) else ():
            if self.positive(monomial) and self.state() == known:
                return True
            self.back(known)
        return False

    def faithful_square(self, word: Word, family: Kind) -> bool:
        """Whether tr(D word D') = 0 gives D = 0 for D in a commuting algebra, for a word that is semi-definite."""
        form = semidefinite_form(self.alphabet, word)
        if form is None:
            return False
        return self.injective((*form.definite, *form.halves)) and self.faithful(form.half, family)

    def positive(self, scalars: Word) -> bool:
        """Whether a product of scalars is positive."""
        return is_nonnegative(self.alphabet, scalars) and self.nonzero_scalars(scalars)

    def nonzero_scalars(self, scalars: Word) -> bool:
        """Whether no scalar is zero."""
        return all(map(self._nonzero, scalars))

    def _nonzero(self, letter: Letter) -> bool:
        if isinstance(letter, InverseScalar):
            return True
        if isinstance(letter, ScalarSymbol):
            if letter.name in self.shapes:
                self._assume_whole(letter.name)
            return letter.name in self.shapes or self.alphabet.kind(letter.name) is Kind.POSITIVE
        if not isinstance(letter, TraceLetter):
            return False
        words = semidefinite_rotations(self.alphabet, letter)
        return self.weakest([lambda word=word: self._nonzero_form(word) for word in words])  # type: ignore[misc]

    def _definite_sums(self, letters: Word) -> None:
        for letter in letters:
            if isinstance(letter, InverseLetter):
                self._definite_sum(letter.argument)

    def _definite_sum(self, polynomial: Polynomial) -> None:
        """What the inverse of a polynomial needs to exist: of one product that it is definite, of a sum no single term."""
        words = [split_scalars(word) for word, _ in polynomial]
        for _, matrices in words:
            self._definite_sums(matrices)
        state = self.state()
        if (
            len(words) == 1
            and not words[0][0]
            and not any(map(_is_part, words[0][1]))
            and not self.definite(words[0][1])
        ):
            self.back(state)

    def _invertible(self, letter: Letter) -> bool:
        """By its kind, by the assumption that inverses in formulas exist, or (a diagonal of a factor) without zeros."""
        if isinstance(letter, InverseLetter):
            return True
        if isinstance(letter, PartLetter):
            assert letter.family is not None  # E(M) > 0 where tr(D M D') = tr(E(M) D' D) > 0 for D other than zero
            return self.faithful_square(letter.word, letter.family)
        if is_vector(letter):
            known = letter.name in self.shapes
            if known:
                self._add("entry", letter.name)
            return known
        return self.alphabet.local_inverse(letter) is not None

    def _is_factor(self, letter: Letter) -> bool:
        return (
            isinstance(letter, SymbolLetter)
            and letter.name in self.shapes
            and self.alphabet.kind(letter.name) is Kind.GENERAL
        )

    def _assume(self, letter: Letter) -> bool:
        """Assume that a factor, as it stands here, is injective, unless it is wide: numbers decide, then groups."""
        if not isinstance(letter, SymbolLetter) or self.alphabet.kind(letter.name) is not Kind.GENERAL:
            return False
        rows, columns = letter.shape
        wide = rows in self.groups and columns not in self.groups  # what a group acts on is the short side
        if isinstance(rows, int) and isinstance(columns, int):
            wide = rows < columns
        elif 1 in (rows, columns):
            wide = rows == 1
        if wide:
            return False
        if 1 in self.shapes[letter.name]:
            self._add(WHOLE, letter.name)
            return True
        rank = "row" if letter.transposed else "column"
        if self.full.setdefault(letter.name, rank) != rank:
            return False
        self._without_implied()
        return True


def _follows(what: str, factor: str, full: Mapping[str, str], nonzero: Collection[tuple[str, str]]) -> bool:
    """Whether other assumptions say that no such thing of a factor is zero."""
    known = {other for other, f in nonzero if f == factor}
    if what in known or (what == WHOLE and (known or factor in full)):
        return True
    single = what.removeprefix("pair of ").replace("entries", "entrys").removesuffix("s")
    return single in known or single == full.get(factor)


def _is_part(letter: Letter) -> bool:
    return isinstance(letter, PartLetter)
