"""Diagonal matrices to graphs, as columns: never a (d, d) matrix where a column of its diagonal does.

diag(u) M is u * M with u of shape (d, 1), M diag(u) is M * u', the diagonal of A B' is the sum of A * B along rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from quotientgeo.symbolic.algebra import (
    InverseLetter,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    ScalarLetter,
    SymbolLetter,
    Word,
    word_key,
)
from quotientgeo.symbolic.algebra.factoring import factors
from quotientgeo.symbolic.codegen.chain import chain_cost
from quotientgeo.symbolic.codegen.graph import Operation, Value, extent

if TYPE_CHECKING:
    from quotientgeo.symbolic.codegen.builder import Builder


def is_run(word: Word) -> bool:
    """Whether a word is a product of diagonal matrices."""
    return bool(word) and all(letter.family is Kind.DIAGONAL for letter in word)


def is_column(word: Word) -> bool:
    """Whether a word is such a product times a column of ones, so a column."""
    return bool(word) and _is_ones(word[-1], False) and (len(word) == 1 or is_run(word[:-1]))


def is_row(word: Word) -> bool:
    """Whether a word is the transpose of such a column."""
    return bool(word) and _is_ones(word[0], True) and (len(word) == 1 or is_run(word[1:]))


def _is_ones(letter: Letter, transposed: bool) -> bool:
    return isinstance(letter, OnesLetter) and letter.transposed is transposed


class Columns:
    """The columns of one function's graph."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._graph = builder.graph

    def of_run(self, run: Word, size: str | int) -> Value:
        """The diagonal of a product of diagonal matrices."""
        above = [self._of_letter(letter) for letter in run if not _divides(letter)]
        below = [self._of_letter(letter) for letter in run if _divides(letter)]
        value = self._product(above, size)
        return value if not below else self._graph.divide(value, self._product(below, size))

    def _product(self, factors: list[Value], size: str | int) -> Value:
        if not factors:
            return self._graph.constant(Operation.ONES, (size, 1))
        value = factors[0]
        for factor in factors[1:]:
            value = self._graph.elementwise(value, factor)
        return value

    def of_sum(self, terms: Mapping[Word, Fraction], size: str | int) -> Value:
        """The diagonal of a sum of products of diagonal matrices, in factors where it has some."""
        if len(terms) > 1:
            constant, found = factors(self._builder.alphabet, terms)
            if len(found) > 1 or found[0][1] > 1:
                powers = [self.of_sum(factor, size) for factor, power in found for _ in range(power)]
                return self._product(powers, size).times(constant)
        ordered = sorted(terms.items(), key=lambda term: word_key(term[0]))  # they come from a set
        columns = tuple(self._of_term(word, size).times(coefficient) for word, coefficient in ordered)
        return self._graph.sum(columns, (size, 1))

    def _of_term(self, word: Word, size: str | int) -> Value:
        """The diagonal of numbers times a product of diagonal matrices."""
        numbers = [letter for letter in word if isinstance(letter, ScalarLetter)]
        column = self.of_run(tuple(letter for letter in word if not isinstance(letter, ScalarLetter)), size)
        if not numbers:
            return column
        return self._graph.scaled(self._graph.scalar_product(tuple(map(self._builder.number, numbers))), column)

    def _of_letter(self, letter: Letter) -> Value:
        """The diagonal of a letter, or what divides where the letter is an inverse."""
        match letter:
            case InverseLetter(argument=argument):
                return self.of_sum(dict(argument), argument.shape[0])
            case PartLetter(word=word):
                return self.of_diagonal(word)
        assert isinstance(letter, SymbolLetter)
        symbol = self._graph.argument(letter.name, self._builder.alphabet.shape(letter.name))
        return symbol if letter.kind is Kind.VECTOR else self._graph.diagonal(symbol)

    def of_diagonal(self, word: Word) -> Value:
        """The diagonal of any square word, cut where its two halves cost least."""
        builder, graph = self._builder, self._graph
        if len(word) == 1:
            return graph.diagonal(builder.value({word: 1}, word[0].shape))
        if _is_ones(word[-1], True):
            return builder.value({word[:-1]: 1}, (word[0].rows, 1))
        if _is_ones(word[0], True):
            return graph.transpose(builder.value({word[1:]: 1}, (1, word[-1].columns)))
        best: tuple[int, int] | None = None
        for i in range(1, len(word)):
            if is_run(word[:i]) or is_run(word[i:]):
                continue
            cost = sum(_cost(builder, half) for half in (word[:i], word[i:])) + _entries(builder, word[:i])
            if best is None or (cost, i) < best:
                best = (cost, i)
        assert best is not None
        left, right = word[: best[1]], word[best[1] :]
        values = (builder.value({half: 1}, (half[0].rows, half[-1].columns)) for half in (left, right))
        first, second = values
        return graph.row_product(first, graph.transpose(second))


def _divides(letter: Letter) -> bool:
    return isinstance(letter, InverseLetter) or (isinstance(letter, SymbolLetter) and letter.inverted)


def _entries(builder: Builder, word: Word) -> int:
    return extent(word[0].rows, builder.sizes) * extent(word[-1].columns, builder.sizes)


def _cost(builder: Builder, word: Word) -> int:
    lengths = [extent(word[0].rows, builder.sizes), *(extent(letter.columns, builder.sizes) for letter in word)]
    return chain_cost(tuple(lengths), tuple(False for _ in word))
