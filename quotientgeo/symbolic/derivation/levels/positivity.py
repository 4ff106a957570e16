"""Is the metric positive definite?

Proven for all sizes when <xi, xi> is a sum, with positive coefficients, of tr(xi_F' L xi_F R) where L = l'l and R = r'r are
palindromic words, and every factor F has such a term with l and r injective: then the term is |l xi_F r'|^2. Injective
are factors of full column rank, transposes of factors of full row rank, invertible letters, and products of such.
Otherwise tested: exactly (pivots of a rational Gram matrix) and in floating point (eigenvalues).
"""

from __future__ import annotations

from fractions import Fraction

import torch

from quotientgeo.symbolic.algebra import Alphabet, InverseLetter, Kind, Letter, Polynomial, SymbolLetter, Word
from quotientgeo.symbolic.derivation.calculus import Reading
from quotientgeo.symbolic.derivation.certificate import Claim, Level, LevelResult, Outcome, Witness
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.autodiff import TorchCalculus
from quotientgeo.symbolic.derivation.levels.points import (
    Sizes,
    assign_sizes,
    generator,
    named_sizes,
    numbers,
    sizes_text,
)
from quotientgeo.symbolic.derivation.levels.rational import Dual, Entries, RationalCalculus

NAME = "metric_positive_definite"
LEVELS = (Level.NORMAL_FORM, Level.RATIONAL, Level.AUTODIFF)
Ranks = dict[str, str]  # factor -> which of its ranks is full, "column" or "row"
_SMALLEST = 1e-9  # smallest eigenvalue allowed, relative to the largest, in floating point


def check_positive(geometry: Geometry, levels: list[Level]) -> tuple[Claim, Ranks]:
    """The claim, and the factors whose full rank its proof assumes."""
    needed: Ranks = {}
    results: list[LevelResult] = []
    witness = None
    for level in levels:
        if level is Level.NORMAL_FORM:
            result, needed = _by_palindromes(geometry)
        elif level is Level.RATIONAL:
            result, witness = _by_pivots(geometry)
        elif level is Level.AUTODIFF:
            result = _by_eigenvalues(geometry)
        else:
            continue
        results.append(result)
    text = "<xi, xi> > 0 for every xi other than zero"
    return Claim(NAME, text, str(geometry.inner), tuple(results), witness), needed


# by palindromic words, for all sizes


def _by_palindromes(geometry: Geometry) -> tuple[LevelResult, Ranks]:
    proof = _Palindromes(geometry)
    names = geometry.names
    value = geometry.inner.polynomial.substitute(
        {names.second_tangent(f): geometry.alphabet[names.tangent(f)] for f in names.factors}
    )
    definite: set[str] = set()
    for monomial, coefficient in value:
        term = proof.term(monomial[0].letters) if len(monomial) == 1 and coefficient > 0 else None
        if term is None:
            return LevelResult(Level.NORMAL_FORM, Outcome.UNDECIDED, residual="a term is no palindromic word"), {}
        factor, is_definite = term
        definite |= {factor} if is_definite else set()
    missing = [factor for factor in names.factors if factor not in definite]
    if missing:
        text = f"no definite term for {', '.join(missing)}"
        return LevelResult(Level.NORMAL_FORM, Outcome.UNDECIDED, residual=text), {}
    result = LevelResult(
        Level.NORMAL_FORM, Outcome.PROVEN, "all sizes", "a sum of squares |l xi_F r'|^2 with l, r injective"
    )
    return result, proof.full_rank


class _Palindromes:
    """Recognises positive words; collects the factors that must have full column rank."""

    def __init__(self, geometry: Geometry) -> None:
        self.alphabet: Alphabet = geometry.alphabet
        self.factors = geometry.names.factors
        self.tangents = {geometry.names.tangent(f): f for f in self.factors}
        self.full_rank: Ranks = {}

    def term(self, word: Word) -> tuple[str, bool] | None:
        """(factor, definite) for a cyclic word tr(xi' L xi R) with L and R positive, else None."""
        places = [
            i for i, letter in enumerate(word) if isinstance(letter, SymbolLetter) and letter.name in self.tangents
        ]
        if len(places) != 2:
            return None
        first = next((i for i in places if _is_transposed(word[i])), None)
        if first is None:
            return None
        turned = word[first:] + word[:first]
        second = (places[0] + places[1] - 2 * first) % len(word)
        one, other = turned[0], turned[second]
        if _is_transposed(other) or self.alphabet.transpose(one)[1] is not other:
            return None
        left, right = self.positive(turned[1:second]), self.positive(turned[second + 1 :])
        if left is None or right is None:
            return None
        assert isinstance(other, SymbolLetter)
        return self.tangents[other.name], left and right

    def positive(self, word: Word) -> bool | None:
        """True for u'u (or u' S u) with u injective, False when only semi-definite, None when not recognised."""
        half = len(word) // 2
        mirrored = tuple(self.alphabet.transpose(letter) for letter in reversed(word))
        if any(sign != 1 for sign, _ in mirrored) or tuple(letter for _, letter in mirrored) != word:
            return None
        if len(word) % 2:
            middle = word[half]
            if not (isinstance(middle, InverseLetter) and self.positive_sum(middle.argument)):
                return None
        return self.injective(word[len(word) - half :])

    def positive_sum(self, polynomial: Polynomial) -> bool:
        """Positive coefficients, every word positive, one of them definite."""
        kinds = [self.positive(word) if coefficient > 0 else None for word, coefficient in polynomial]
        return None not in kinds and True in kinds

    def injective(self, word: Word) -> bool:
        """Whether a product is injective by its letters: Grams F'F, factors of full rank, and invertible letters."""
        i = 0
        while i < len(word):
            letter = word[i]
            following = word[i + 1] if i + 1 < len(word) else None
            if isinstance(letter, InverseLetter) or self.alphabet.local_inverse(letter) is not None:
                i += 1
            elif not isinstance(letter, SymbolLetter) or letter.name not in self.factors:
                return False
            elif following is not None and self.alphabet.transpose(following)[1] is letter and self._assume(following):
                i += 2
            elif self._assume(letter):
                i += 1
            else:
                return False
        return True

    def _assume(self, letter: Letter) -> bool:
        """Assume that a factor, as it stands here, is injective; a factor cannot be tall in one place and wide in another."""
        if not isinstance(letter, SymbolLetter) or self.alphabet.kind(letter.name) is not Kind.GENERAL:
            return False
        rank = "row" if letter.transposed else "column"
        return self.full_rank.setdefault(letter.name, rank) == rank


def _is_transposed(letter: Letter) -> bool:
    return isinstance(letter, SymbolLetter) and letter.transposed


# by the Gram matrix of the entries, at one point


def _units(geometry: Geometry, sizes: Sizes) -> list[tuple[str, int, int]]:
    """The entries (factor, row, column) of a tangent vector."""
    out = []
    for factor, shape in geometry.factors.items():
        rows, columns = numbers(shape, sizes)
        out += [(factor, i, j) for i in range(rows) for j in range(columns)]
    return out


def _by_pivots(geometry: Geometry) -> tuple[LevelResult, Witness | None]:
    """Exact L D L' of the Gram matrix at a random rational point; a pivot <= 0 gives a vector that refutes the claim."""
    sizes = assign_sizes(geometry, 2, 3)
    for attempt in range(20):
        calculus = RationalCalculus(sizes, generator("positivity", geometry.name, attempt))
        reading = Reading(calculus, geometry)
        (point,) = reading.bind(["p"])
        units = _units(geometry, sizes)
        try:
            gram = _gram(reading, point, units, sizes)
        except ZeroDivisionError:
            continue
        vector = _non_positive_vector(gram)
        if vector is None:
            return LevelResult(Level.RATIONAL, Outcome.TESTED, sizes_text(sizes), "all pivots positive"), None
        values = {name: [[str(x.real) for x in row] for row in value] for name, value in calculus.variables.items()}
        for factor, shape in geometry.factors.items():
            rows, columns = numbers(shape, sizes)
            entries = [["0"] * columns for _ in range(rows)]
            for (name, i, j), value in zip(units, vector, strict=True):
                if name == factor:
                    entries[i][j] = str(value)
            values[geometry.names.tangent(factor)] = entries
        square = sum(
            (a * gram[i][j] * b for i, a in enumerate(vector) for j, b in enumerate(vector)), start=Fraction(0)
        )
        result = LevelResult(Level.RATIONAL, Outcome.FALSE, sizes_text(sizes), "a pivot is not positive")
        return result, Witness(named_sizes(sizes), values, f"<xi, xi> = {square}", "> 0")
    why = "an inverse in the formula does not exist at these sizes"
    return LevelResult(Level.RATIONAL, Outcome.FALSE, sizes_text(sizes), why), None


def _gram(
    reading: Reading[Entries], point: dict[str, Entries], units: list[tuple[str, int, int]], sizes: Sizes
) -> list[list[Fraction]]:
    zero = {f: reading.calculus.zero(*shape) for f, shape in reading.geometry.factors.items()}  # type: ignore[attr-defined]

    def unit(factor: str, i: int, j: int) -> dict[str, Entries]:
        entries = [list(row) for row in zero[factor]]
        entries[i][j] = Dual({0: Fraction(1)})
        return {**zero, factor: entries}

    vectors = [unit(*place) for place in units]
    return [[reading.inner(point, x, y)[0][0].real for y in vectors] for x in vectors]


def _non_positive_vector(gram: list[list[Fraction]]) -> list[Fraction] | None:
    """A vector v with v' gram v <= 0, or None when the symmetric part is positive definite."""
    size = len(gram)
    work = [[(gram[i][j] + gram[j][i]) / 2 for j in range(size)] for i in range(size)]
    rows = [[Fraction(i == j) for j in range(size)] for i in range(size)]  # rows of L^-1: work = L^-1 gram L^-T
    for k in range(size):
        if work[k][k] <= 0:
            return rows[k]
        for r in range(k + 1, size):
            factor = work[r][k] / work[k][k]
            if factor:
                work[r] = [a - factor * b for a, b in zip(work[r], work[k], strict=True)]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[k], strict=True)]
    return None


def _by_eigenvalues(geometry: Geometry) -> LevelResult:
    sizes = assign_sizes(geometry, 3, 5)
    calculus = TorchCalculus(sizes, generator("positivity", geometry.name).getrandbits(32))
    reading = Reading(calculus, geometry)
    (point,) = reading.bind(["p"])
    units = _units(geometry, sizes)
    zero = {f: calculus.zero(*shape) for f, shape in geometry.factors.items()}
    vectors = []
    for factor, i, j in units:
        entries = zero[factor].clone()
        entries[i, j] = 1.0
        vectors.append({**zero, factor: entries})
    gram = torch.stack([torch.stack([reading.inner(point, x, y).reshape(()) for y in vectors]) for x in vectors])
    values = torch.linalg.eigvalsh((gram + gram.mT) / 2)
    ratio = (values[0] / values.abs().max()).item()
    scope = sizes_text(sizes)
    if not ratio > _SMALLEST:
        return LevelResult(
            Level.AUTODIFF, Outcome.FALSE, scope, "an eigenvalue of the Gram matrix is not positive", ratio
        )
    return LevelResult(Level.AUTODIFF, Outcome.TESTED, scope, "all eigenvalues of the Gram matrix positive", ratio)
