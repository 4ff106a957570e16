"""The bilinear forms of an ansatz."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

from quotientgeo.symbolic.algebra import Kind, Polynomial, TracePolynomial, scalar, trace
from quotientgeo.symbolic.metric_search.ansatz import Words
from quotientgeo.symbolic.metric_search.places import Place, Problem


@dataclass(frozen=True)
class Candidate:
    """A symmetric bilinear form in the tangents of one or two factors, as text and as a scalar in xi and eta."""

    factors: tuple[str, ...]
    text: str
    value: TracePolynomial


def candidates(problem: Problem, ansatz: Words) -> list[Candidate]:
    """The forms of the ansatz in a fixed order, each once; a form that vanishes identically is left out.

    Raises:
        ArgumentError: there are too many.
    """
    out: dict[TracePolynomial, Candidate] = {}
    for number in problem.numbers(ansatz.powers):
        for candidate in _forms(problem, ansatz):
            value = candidate.value * number
            if value.is_zero or value in out:
                continue
            text = candidate.text if number == scalar(problem.alphabet, 1) else f"{number} {candidate.text}"
            out[value] = Candidate(candidate.factors, text, value)
            problem.check_count(len(out))
    return list(out.values())


def _forms(problem: Problem, ansatz: Words) -> Iterator[Candidate]:
    for factor in problem.factors:
        yield from _weighted(problem, factor, ansatz)
    if ansatz.two_sided is not None:
        for factor in problem.factors:
            yield from _two_sided(problem, factor, ansatz.two_sided)
    if ansatz.cross is not None:
        for first, second in combinations(problem.factors, 2):
            yield from _cross(problem, first, second, ansatz.cross)


def _between(problem: Problem, factor: str, left: Polynomial, right: Polynomial) -> Candidate:
    """tr(right xi' left eta), made symmetric."""
    xi, eta = problem.tangent(factor), problem.second(factor)
    value = (trace(right * xi.T * left * eta) + trace(right * eta.T * left * xi)) * Fraction(1, 2)
    names = problem.symmetry.names
    tangent, second = names.tangent(factor), names.second_tangent(factor)
    numbers = [word for word in (right, left) if word.shape == (1, 1)]
    before, between = ("" if word in numbers else _weight(problem, word) for word in (right, left))
    text = " ".join(part for part in (before, f"{tangent}'", between, second) if part)
    sign = "tr" if left == left.T and right == right.T else "sym tr"
    parts = [_weight(problem, word) for word in numbers]
    return Candidate((factor,), " ".join(part for part in (*parts, f"{sign}({text})") if part), value)


def _weight(problem: Problem, word: Polynomial) -> str:
    """The word as a factor of a product; nothing for the identity."""
    if word == problem.alphabet.identity(word.shape[0]):
        return ""
    return str(word) if len(word) == 1 else f"({word})"


def _weighted(problem: Problem, factor: str, ansatz: Words) -> Iterator[Candidate]:
    """tr(L xi' K eta) with K and L where groups act, one or both of them the identity."""
    sides, most, powers = problem.sides[factor], ansatz.length, ansatz.powers
    rows, columns = problem.symmetry.factors[factor]

    def words(place: Place, letters: int) -> list[Polynomial]:
        return problem.words(place, place, letters, powers)

    if len(sides.acted) == 2:
        seen: set[Polynomial] = set()
        for used in range(most + 1):  # letters on the left
            for left in words(sides.left, used):
                if left not in seen:
                    seen.add(left)
                    for right in words(sides.right, most - used):
                        yield _between(problem, factor, left, right)
    elif sides.left.elements:
        for left in words(sides.left, most):
            yield _between(problem, factor, left, problem.alphabet.identity(columns))
    else:
        for right in words(sides.right, most):
            yield _between(problem, factor, problem.alphabet.identity(rows), right)


def _two_sided(problem: Problem, factor: str, most: int) -> Iterator[Candidate]:
    """tr(K xi' (F L F') eta), or tr((F' L F) xi' K eta) where the group acts on the left; tr(X K Y L) and tr(X K) tr(Y L)."""
    sides, point = problem.sides[factor], problem.points[factor]
    if len(sides.acted) < 2:
        place = sides.left if sides.left.elements else sides.right
        words = problem.words(place, place, most, most)
        for word, inner in product(words, words):
            if sides.left.elements:
                yield _between(problem, factor, word, point.T * inner * point)
            else:
                yield _between(problem, factor, point * inner * point.T, word)
    core = _core(problem, factor)
    yield from _products(problem, (factor,), core, core, most)
    yield from _traces(problem, (factor,), core, core, most)


@dataclass(frozen=True)
class _Core:
    """A tangent brought between two places: F' xi_F, xi_F F', or xi_F itself between two groups."""

    start: Place
    end: Place
    first: Polynomial  # with xi
    second: Polynomial  # with eta

    @property
    def T(self) -> _Core:
        return _Core(self.end, self.start, self.first.T, self.second.T)


def _core(problem: Problem, factor: str) -> _Core:
    sides, point = problem.sides[factor], problem.points[factor]
    xi, eta = problem.tangent(factor), problem.second(factor)
    if len(sides.acted) == 2:
        return _Core(sides.left, sides.right, xi, eta)
    place = sides.left if sides.left.elements else sides.right
    if problem.alphabet.kind(factor) is Kind.VECTOR and sides.left.elements:
        return _Core(place, place, xi.diagonal(), eta.diagonal())
    if sides.left.elements:
        return _Core(place, place, xi * point.T, eta * point.T)
    return _Core(place, place, point.T * xi, point.T * eta)


def _cross(problem: Problem, first: str, second: str, most: int) -> Iterator[Candidate]:
    """tr(X K Y L), tr(X K Y' L) and tr(X K) tr(Y L)."""
    x, y = _core(problem, first), _core(problem, second)
    yield from _products(problem, (first, second), x, y, most)
    yield from _products(problem, (first, second), x, y.T, most)
    yield from _traces(problem, (first, second), x, y, most)


def _products(problem: Problem, factors: tuple[str, ...], x: _Core, y: _Core, most: int) -> Iterator[Candidate]:
    """tr(X K Y L), made symmetric."""
    inner, outer = (problem.words(a.end, b.start, most, most) for a, b in ((x, y), (y, x)))
    for one, other in product(inner, outer):
        value = trace(x.first * one * y.second * other) + trace(x.second * one * y.first * other)
        yield _halved(factors, value)


def _traces(problem: Problem, factors: tuple[str, ...], x: _Core, y: _Core, most: int) -> Iterator[Candidate]:
    """tr(X K) tr(Y L), made symmetric."""
    closing = [problem.words(core.end, core.start, most, most) for core in (x, y)]
    for one, other in product(*closing):
        value = trace(x.first * one) * trace(y.second * other) + trace(x.second * one) * trace(y.first * other)
        yield _halved(factors, value)


def _halved(factors: tuple[str, ...], value: TracePolynomial) -> Candidate:
    value = value * Fraction(1, 2)
    return Candidate(factors, str(value), value)
