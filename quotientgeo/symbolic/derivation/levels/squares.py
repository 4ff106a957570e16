"""The metric as a sum of squares, for all sizes; or a part of it that is minus one and outgrows the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from quotientgeo.symbolic.algebra import (
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    Monomial,
    PartLetter,
    Polynomial,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    TracePolynomial,
    Word,
    roots,
    scalar,
    trace,
)
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.coupled import Combination, completed, left_alone
from quotientgeo.symbolic.derivation.levels.forms import is_nonnegative, paired, run_length, semidefinite_form
from quotientgeo.symbolic.derivation.levels.least import Attempt, least
from quotientgeo.symbolic.derivation.levels.ranks import Ranks

Degree = tuple[int, ...]  # one number per factor


class Square(NamedTuple):
    """coefficient |value|^2, the squared Frobenius norm of a product l xi_F r'."""

    coefficient: Fraction
    value: Polynomial


class SumOfSquares(NamedTuple):
    """Squares that add up to <xi, xi>, and the factors whose tangent none of them shows to be zero where they all are.

    ``weighted``: terms that are not negative by their form without being written as |value|^2, such as
    tr(xi' L xi R) with L, R semi-definite, or a square times a positive scalar.
    """

    squares: list[Square]
    undecided: list[str]
    weighted: tuple[TracePolynomial, ...] = ()
    coupled: bool = False  # some squares are of sums of the tangents of several factors

    def __str__(self) -> str:
        return " + ".join([squares_text(self.squares)] * bool(self.squares) + [str(term) for term in self.weighted])


class Dominated(NamedTuple):
    """A scaling F -> t^k_F F at which <xi, xi>, for xi in one factor alone, is in the end minus a sum of squares."""

    factor: str
    scaling: dict[str, int]
    subtracted: SumOfSquares


class _Term(NamedTuple):
    """coefficient weight tr(word) with one tangent twice.

    ``squares``: tr(xi_F' left xi_F right) as squares, None where that is not recognised. ``nonnegative``: it is by its form.
    """

    factor: str
    coefficient: Fraction
    monomial: Monomial
    weight: Monomial = ()
    sides: tuple[Word, Word] | None = None
    squares: list[Square] | None = None
    nonnegative: bool = False
    family: Kind | None = None  # of the tangent's letters, where its factor is a vector


def kinetic(geometry: Geometry) -> TracePolynomial:
    """<xi, xi>."""
    names, alphabet = geometry.names, geometry.alphabet
    return geometry.inner.polynomial.substitute(
        {names.second_tangent(f): alphabet[names.tangent(f)] for f in names.factors}
    )


def sum_of_squares(geometry: Geometry, ranks: Ranks) -> SumOfSquares | None:
    """<xi, xi> as a sum of squares, checked by normal form; ``ranks`` collects what the proof assumes."""
    value, shifts = kinetic(geometry), ranks.shifts
    found = _sum_of_squares(geometry, ranks, shifts.shifted(value))
    if found is None:
        return None
    squares = [Square(c, shifts.restored(square)) for c, square in found.squares]
    weighted = tuple(map(shifts.restored, found.weighted))
    if _total(geometry, squares, weighted) != value:
        return None
    return found._replace(squares=squares, weighted=weighted)


def _sum_of_squares(geometry: Geometry, ranks: Ranks, value: TracePolynomial) -> SumOfSquares | None:
    """The same, unchecked, for a value in letters that are moved linearly."""
    terms: list[_Term] = []
    cross: dict[Monomial, Fraction] = {}
    for monomial, coefficient in value:
        term = _term(geometry, monomial, coefficient)
        if term is None or not term.nonnegative:
            cross[monomial] = coefficient
        elif coefficient < 0:
            return None
        else:
            terms.append(term)
    weighted = [term for term in terms if term.squares is None]
    owners = [(square, term) for term in terms for square in term.squares or ()]
    squares = [square for square, _ in owners]
    if cross:
        found = _completed(TracePolynomial(geometry.alphabet, cross), squares)
        if found is None:
            return None
        squares, combinations = found
        known = _settled_apart(ranks, combinations, [term for _, term in owners], weighted)
    else:
        known = least(ranks, lambda settled: _attempts(ranks, terms, settled), fixed=True)
    undecided = [factor for factor in geometry.names.factors if factor not in known]
    out = tuple(TracePolynomial(geometry.alphabet, {term.monomial: term.coefficient}) for term in weighted)
    return SumOfSquares(squares, undecided, out, bool(cross))


def _attempts(ranks: Ranks, terms: Iterable[_Term], settled: Mapping[str, None]) -> Iterator[Attempt[None]]:
    """Each term may show that its tangent is zero where the term is."""
    for term in terms:
        if term.factor not in settled:
            yield term.factor, None, lambda term=term: _is_definite(term, ranks)  # type: ignore[misc]


def _settled_apart(
    ranks: Ranks, combinations: list[Combination], owners: list[_Term], weighted: list[_Term]
) -> Mapping[str, None]:
    """The factors whose tangent is zero where all combinations of squares are, and all weighted terms.

    No product of two tangents diminishes a weighted term; a term of several squares has no value that is zero only with xi.
    """
    factors = [term.factor for term in owners]

    def attempts(settled: Mapping[str, None]) -> Iterator[Attempt[None]]:
        single = [owners[i] for i in left_alone(combinations, factors, settled) if len(owners[i].squares or ()) == 1]
        return _attempts(ranks, [*weighted, *single], settled)

    return least(ranks, attempts)


def _completed(cross: TracePolynomial, squares: list[Square]) -> tuple[list[Square], list[Combination]] | None:
    """Squares of sums that add up to the squares and the products of two factors' tangents; the sums."""
    coefficients = [c for c, _ in squares]
    values: list[Polynomial] = []
    for _, value in squares:  # |A| = |A'|: one of the two for all that can be added
        shapes = [known.shape for known in values]
        values.append(value.T if value.shape not in shapes and value.shape[::-1] in shapes else value)
    combinations = completed(coefficients, values, cross)
    if combinations is None:
        return None
    out = []
    for coefficient, weights in combinations:
        first, *others = (values[i] * weight for i, weight in weights.items())
        out.append(Square(coefficient, sum(others, start=first)))
    return out, combinations


def _is_definite(term: _Term, ranks: Ranks) -> bool:
    """Whether the term is zero only where its tangent is; ``ranks`` collects what that assumes."""
    if not ranks.positive(term.weight):
        return False
    if term.sides is None:  # the square of a number: of the tangent itself where that is one
        return ranks.shapes[term.factor] == (1, 1) and _is_number(term)
    left, right = term.sides
    family = term.family
    if family is None:
        return ranks.definite(left) and ranks.definite(right)
    return ranks.weakest(
        (
            lambda: ranks.definite(left) and ranks.faithful_square(right, family),
            lambda: ranks.definite(right) and ranks.faithful_square(left, family),
        )
    )


def _is_number(term: _Term) -> bool:
    """Whether the two scalars that move are the tangent's only entry."""
    (letter,) = {letter for letter in term.monomial if letter not in term.weight}
    return isinstance(letter, ScalarSymbol) or (isinstance(letter, TraceLetter) and len(letter.letters) == 1)


def _total(geometry: Geometry, squares: list[Square], weighted: Iterable[TracePolynomial]) -> TracePolynomial:
    total = scalar(geometry.alphabet, 0)
    for coefficient, value in squares:
        total = total + trace(value.T * value) * coefficient
    for term in weighted:
        total = total + term
    return total


def squares_text(squares: list[Square]) -> str:
    """``|xi_G H'|^2 + 2 |xi_H G'|^2``."""
    parts = [("" if c == 1 else f"{c} ") + f"|{value}|^2" for c, value in squares]
    return " + ".join(parts)


def _term(geometry: Geometry, monomial: Monomial, coefficient: Fraction) -> _Term | None:
    """A term of <xi, xi>, or None where it holds the tangents of two factors, or one inside something else."""
    names, alphabet = geometry.names, geometry.alphabet
    tangents = {names.tangent(f): f for f in names.factors}
    moving = [letter for letter in monomial if _names(geometry, letter) & set(tangents)]
    weight = tuple(letter for letter in monomial if letter not in moving)
    found = {tangents[name] for letter in moving for name in _names(geometry, letter) if name in tangents}
    if len(found) != 1:
        return None
    term = _Term(found.pop(), coefficient, monomial, weight)
    nonnegative = is_nonnegative(alphabet, weight)
    if len(moving) == 2 and moving[0] is moving[1]:  # the square of a linear form
        return term._replace(nonnegative=nonnegative)
    if len(moving) != 1 or not isinstance(moving[0], TraceLetter):
        return None
    word, tangent = _unwrapped(geometry, moving[0].letters, names.tangent(term.factor)), names.tangent(term.factor)
    places = [i for i, letter in enumerate(word) if isinstance(letter, SymbolLetter) and letter.name == tangent]
    if len(places) != 2:
        return None
    found_sides = _sides(geometry, word, places)
    if found_sides is None:
        return term
    letter, sides = found_sides
    squares = None if weight else _squares(geometry, letter, sides, coefficient)
    nonnegative = nonnegative and all(semidefinite_form(alphabet, side) is not None for side in sides)
    return term._replace(
        sides=sides, squares=squares, nonnegative=squares is not None or nonnegative, family=letter.family
    )


def _unwrapped(geometry: Geometry, word: Word, tangent: str) -> Word:
    """tr(A w) for tr(A E(w)) with A in the commuting algebra on which E projects, where w holds the tangent."""
    parts = [letter for letter in word if isinstance(letter, PartLetter)]
    moving = [part for part in parts if tangent in geometry.alphabet.monomial(part.word).symbols()]
    if len(moving) != 1 or any(letter.family is not moving[0].family for letter in word):
        return word
    return moving[0].word + _others(word, moving[0])


def _sides(geometry: Geometry, word: Word, places: list[int]) -> tuple[SymbolLetter, tuple[Word, Word]] | None:
    """(xi, (left, right)) with tr(word) = tr(xi' left xi right), or None where xi does not stand like that."""
    if word[places[0]].family is not None:
        return _diagonal_sides(geometry, word, places[0])
    start = next((i for i in places if _is_transposed(word[i])), None)
    if start is None:
        return None
    turned = word[start:] + word[:start]
    second = (sum(places) - 2 * start) % len(word)
    letter = turned[second]
    if geometry.alphabet.transpose(turned[0])[1] is not letter:
        return None
    assert isinstance(letter, SymbolLetter)
    return letter, (turned[1:second], turned[second + 1 :])


def _diagonal_sides(geometry: Geometry, word: Word, place: int) -> tuple[SymbolLetter, tuple[Word, Word]]:
    """The same for a diagonal xi, which commutes with the diagonal letters beside it."""
    letter = word[place]
    assert isinstance(letter, SymbolLetter)
    if all(inner.family is letter.family for inner in word):
        return letter, ((), _others(word, letter))
    start = place
    while word[start - 1].family is letter.family:
        start -= 1
    turned = word[start:] + word[:start]
    end = run_length(turned)
    first, rest = turned[:end], turned[end:]
    if first.count(letter) == 2:
        _, halves, weights = paired(geometry.alphabet, _others(first, letter))
        _, mirrored = geometry.alphabet.transpose_word(halves)
        return letter, ((*mirrored, *rest, *halves), weights)
    begin = rest.index(letter)
    while begin and rest[begin - 1].family is letter.family:
        begin -= 1
    end = begin + run_length(rest[begin:])
    between = (*_others(first, letter), *rest[:begin], *_others(rest[begin:end], letter))
    return letter, (between, rest[end:])


def _others(word: Word, letter: Letter) -> Word:
    return tuple(inner for inner in word if inner is not letter)


def _squares(
    geometry: Geometry, letter: SymbolLetter, sides: tuple[Word, Word], coefficient: Fraction
) -> list[Square] | None:
    alphabet = geometry.alphabet
    tangent = alphabet.monomial((letter,))
    left, right = (
        roots(alphabet.monomial(side) if side else alphabet.identity(size))
        for side, size in zip(sides, tangent.shape, strict=True)
    )
    if left is None or right is None:
        return None
    return [Square(abs(coefficient) * a * b, x * tangent * y.T) for a, x in left for b, y in right]


def _names(geometry: Geometry, letter: Letter) -> set[str]:
    return set(TracePolynomial(geometry.alphabet, {(letter,): Fraction(1)}).symbols())


def _is_transposed(letter: Letter) -> bool:
    return isinstance(letter, SymbolLetter) and letter.transposed


# growth


def dominated(geometry: Geometry) -> Dominated | None:
    """A disproof for all sizes: terms that outgrow all others under a scaling of the factors and are minus squares.

    Every term of <xi, xi> whose inverses are of homogeneous sums is homogeneous in each factor. Where all terms of highest
    degree under a scaling are minus sums of squares, <xi, xi> < 0 once the scaling has gone far enough.
    """
    factors = geometry.names.factors
    terms: dict[str, list[tuple[Degree, _Term]]] = {factor: [] for factor in factors}
    for monomial, coefficient in kinetic(geometry):
        moving = {f for f in factors if any(geometry.names.tangent(f) in _names(geometry, s) for s in monomial)}
        if len(moving) > 1:
            continue  # tangents of two factors: gone where xi is in one factor alone
        term, degree = _term(geometry, monomial, coefficient), _degree(geometry, monomial)
        if degree is None or not moving:
            return None
        terms[moving.pop()].append((degree, term or _Term("", coefficient, monomial)))
    scalings = sorted(product((-1, 0, 1), repeat=len(factors)), key=lambda s: (sum(map(abs, s)), s))
    for factor, found in terms.items():
        for scaling in scalings if found else ():
            growth = [sum(s * d for s, d in zip(scaling, degree, strict=True)) for degree, _ in found]
            top = [term for (_, term), g in zip(found, growth, strict=True) if g == max(growth)]
            if all(term.coefficient < 0 and term.nonnegative for term in top):
                return Dominated(factor, dict(zip(factors, scaling, strict=True)), _negated(geometry, top))
    return None


def _negated(geometry: Geometry, terms: list[_Term]) -> SumOfSquares:
    squares = [square for term in terms for square in term.squares or []]
    weighted = (
        TracePolynomial(geometry.alphabet, {term.monomial: -term.coefficient}) for term in terms if term.squares is None
    )
    return SumOfSquares(squares, [], tuple(weighted))


def _degree(geometry: Geometry, word: Word | Monomial) -> Degree | None:
    """Degree in each factor, or None where an inverse of an inhomogeneous sum occurs."""
    factors = geometry.names.factors
    out = [0] * len(factors)
    for letter in word:
        degree: Degree | None = (0,) * len(factors)
        match letter:
            case SymbolLetter():
                degree = tuple((-1 if letter.inverted else 1) * (letter.name == factor) for factor in factors)
            case ScalarSymbol():
                degree = tuple(int(letter.name == factor) for factor in factors)
            case TraceLetter():
                degree = _degree(geometry, letter.letters)
            case PartLetter():
                degree = _degree(geometry, letter.word)
            case InverseLetter() | InverseScalar():
                degrees = {_degree(geometry, inner) for inner, _ in letter.argument}
                inverse = degrees.pop() if len(degrees) == 1 else None
                degree = None if inverse is None else tuple(-d for d in inverse)
        if degree is None:
            return None
        out = [a + b for a, b in zip(out, degree, strict=True)]
    return tuple(out)
