"""Polynomials to graphs: common factors collected, products ordered by cost, inverses applied by solving.

Every value denotes a polynomial; values are remembered by the normal form of what they denote, up to a rational factor and
a transpose, so equal sub-expressions are computed once wherever they occur in a function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any, NamedTuple, TypeAlias

from quotientgeo.symbolic.algebra import (
    Alphabet,
    InverseLetter,
    Letter,
    Polynomial,
    Shape,
    SymbolLetter,
    Word,
    word_key,
)
from quotientgeo.symbolic.codegen.chain import plan, tokens
from quotientgeo.symbolic.codegen.definiteness import is_positive_definite
from quotientgeo.symbolic.codegen.factoring import Factoring, Group, Phrase
from quotientgeo.symbolic.codegen.graph import Graph, Operation, Sizes, Value, extent

Terms: TypeAlias = Mapping[Word, Fraction]


def is_inverse(letter: Letter) -> bool:
    """Whether a letter is applied by solving."""
    return isinstance(letter, InverseLetter) or (isinstance(letter, SymbolLetter) and letter.inverted)


class _Item(NamedTuple):
    """A factor of a product: what it denotes, and its value where it is no plain word."""

    terms: Terms
    shape: Shape
    value: Value | None = None

    @property
    def inverse(self) -> Letter | None:
        """The letter, if the factor is one bare inverse."""
        if len(self.terms) == 1:
            ((word, _),) = self.terms.items()
            if len(word) == 1 and is_inverse(word[0]):
                return word[0]
        return None


class Builder:
    """Builds the graph of one function from polynomials of one alphabet."""

    def __init__(self, alphabet: Alphabet, sizes: Sizes, factoring: Factoring) -> None:
        self.alphabet = alphabet
        self.sizes = sizes
        self.graph = Graph()
        self._factoring = factoring
        self._values: dict[frozenset[tuple[Word, Fraction]], Value] = {}
        self._transposes: dict[Word, tuple[Fraction, Word]] = {}
        self._keys: dict[Word, tuple[Any, ...]] = {}

    # polynomials

    def output(self, polynomial: Polynomial) -> Value:
        """The value of a polynomial whose coefficients are kept as they are (not brought to a common denominator)."""
        if polynomial.is_zero:
            return self.graph.constant(Operation.ZERO, polynomial.shape)
        found = self._find(polynomial.terms)
        if found is not None or len(polynomial) == 1:
            return found or self.value(polynomial.terms, polynomial.shape)
        return self.graph.sum(tuple(self._summands(polynomial.terms, polynomial.shape)), polynomial.shape)

    def value(self, terms: Terms, shape: Shape) -> Value:
        """The value of a non-zero polynomial, shared with every multiple of it and of its transpose."""
        found = self._find(terms)
        if found is not None:
            return found
        scale, key = self._normal(terms)
        if len(key) == 1:
            ((word, _),) = key
            value = self._word(word, shape)
        else:
            value = self.graph.sum(tuple(self._summands(dict(key), shape)), shape)
        return self._store(dict(key), value).times(scale)

    def _summands(self, terms: Terms, shape: Shape) -> list[Value]:
        """Values that add up to the polynomial: common factors collected greedily, then single words."""
        out: list[Value] = []
        rest: dict[Phrase, Fraction] = {tokens(word, self.sizes): terms[word] for word in self._sorted(terms)}
        while rest:
            if len(rest) > 1 and out:
                found = self._find({_join(phrase): c for phrase, c in rest.items()})
                if found is not None:
                    return [*out, found]
            group = self._factoring.best(rest)
            if group is None:
                return [*out, *(self.value({_join(phrase): c}, shape) for phrase, c in rest.items())]
            out.append(self._group(group, rest, shape))
            rest = {phrase: c for phrase, c in rest.items() if phrase not in group.members}
        return out

    def _group(self, group: Group, terms: Mapping[Phrase, Fraction], shape: Shape) -> Value:
        """common * (sum of what remains), or the other way round."""
        inner = {_join(group.remainder(phrase)): c for phrase, c in terms.items() if phrase in group.members}
        edge = group.common[-1][-1].columns if group.left else group.common[0][0].rows
        inner_shape = (edge, shape[1]) if group.left else (shape[0], edge)
        scale, key = self._normal(inner)
        middle = _Item(dict(key), inner_shape, self.value(dict(key), inner_shape))
        common = [self._word_item(token) for token in group.common]
        return self._chain([*common, middle] if group.left else [middle, *common]).times(scale)

    # words

    def _word(self, word: Word, shape: Shape) -> Value:
        if not word:
            return self.graph.constant(Operation.IDENTITY, shape)
        if len(word) == 1:
            return self._letter(word[0])
        pieces = tokens(word, self.sizes)
        if len(pieces) == 1:
            pieces = tuple((letter,) for letter in word)
        return self._chain([self._word_item(piece) for piece in pieces])

    def _word_item(self, word: Word) -> _Item:
        return _Item({word: Fraction(1)}, word_shape(word))

    def _letter(self, letter: Letter) -> Value:
        if isinstance(letter, SymbolLetter) and not letter.inverted:
            argument = self.graph.argument(letter.name, self.alphabet.shape(letter.name))
            return Value(argument.node, letter.transposed)
        matrix, definite = self._inverted(letter)
        return self.graph.solve(matrix, definite, self.graph.constant(Operation.IDENTITY, letter.shape))

    def _inverted(self, letter: Letter) -> tuple[Value, bool]:
        """(the matrix whose inverse the letter is, whether Cholesky may factor it)."""
        if isinstance(letter, InverseLetter):
            return self.value(letter.argument.terms, letter.shape), is_positive_definite(letter.argument)
        assert isinstance(letter, SymbolLetter)
        argument = self.graph.argument(letter.name, self.alphabet.shape(letter.name))
        return Value(argument.node, letter.transposed), False

    # products

    def _chain(self, items: Sequence[_Item]) -> Value:
        """The product of the items, in the cheapest order given what is known already."""
        lengths = [extent(items[0].shape[0], self.sizes), *(extent(item.shape[1], self.sizes) for item in items)]
        inverse = [item.inverse is not None and item.value is None for item in items]
        products: dict[tuple[int, int], Terms] = {(i, i + 1): item.terms for i, item in enumerate(items)}
        for length in range(2, len(items) + 1):
            for i in range(len(items) - length + 1):
                products[i, i + length] = _concatenate(products[i, i + length - 1], items[i + length - 1].terms)
        _, splits = plan(lengths, inverse, lambda i, j: self._find(products[i, j]) is not None)

        def assemble(i: int, j: int) -> Value:
            if j == i + 1:
                return items[i].value or self.value(items[i].terms, items[i].shape)
            found = self._find(products[i, j])
            if found is not None:
                return found
            k = splits[i, j]
            if k == i + 1 and inverse[i]:
                value = self._solve_left(items[i], assemble(k, j))
            elif j == k + 1 and inverse[k]:
                value = self._solve_right(assemble(i, k), items[k])
            else:
                value = self.graph.product(assemble(i, k), assemble(k, j))
            return self._store(products[i, j], value)

        return assemble(0, len(items))

    def _solve_left(self, item: _Item, right: Value) -> Value:
        letter = item.inverse
        assert letter is not None
        matrix, definite = self._inverted(letter)
        return self.graph.solve(matrix, definite, right)

    def _solve_right(self, left: Value, item: _Item) -> Value:
        letter = item.inverse
        assert letter is not None
        matrix, definite = self._inverted(letter)
        transpose = self.graph.transpose
        return transpose(self.graph.solve(transpose(matrix), definite, transpose(left)))

    # what is known

    def _sorted(self, words: Iterable[Word]) -> list[Word]:
        return sorted(words, key=self._key)

    def _key(self, word: Word) -> tuple[Any, ...]:
        key = self._keys.get(word)
        if key is None:
            key = self._keys[word] = word_key(word)
        return key

    def _normal(self, terms: Terms) -> tuple[Fraction, frozenset[tuple[Word, Fraction]]]:
        """(scale, key): terms = scale * key, whose coefficients are coprime integers, the leading one positive."""
        lead = terms[max(terms, key=self._key)]
        denominator = lcm(*(c.denominator for c in terms.values()))
        content = Fraction(gcd(*(int(c * denominator) for c in terms.values())), denominator)
        scale = content if lead > 0 else -content
        return scale, frozenset((word, c / scale) for word, c in terms.items())

    def _transposed(self, terms: Terms) -> Terms:
        out: dict[Word, Fraction] = {}
        for word, coefficient in terms.items():
            known = self._transposes.get(word)
            if known is None:
                known = self._transposes[word] = self._transpose_word(word)
            out[known[1]] = out.get(known[1], Fraction(0)) + coefficient * known[0]
        return out

    def _transpose_word(self, word: Word) -> tuple[Fraction, Word]:
        pairs = [self.alphabet.transpose(letter) for letter in reversed(word)]
        sign = Fraction(1)
        for factor, _ in pairs:
            sign *= factor
        return sign, tuple(letter for _, letter in pairs)

    def _find(self, terms: Terms) -> Value | None:
        scale, key = self._normal(terms)
        value = self._values.get(key)
        if value is not None:
            return value.times(scale)
        scale, key = self._normal(self._transposed(terms))
        value = self._values.get(key)
        return None if value is None else self.graph.transpose(value).times(scale)

    def _store(self, terms: Terms, value: Value) -> Value:
        """Remember what the value denotes; returns it with the transpose of a symmetric node dropped."""
        scale, key = self._normal(terms)
        mirrored_scale, mirrored = self._normal(self._transposed(terms))
        if mirrored == key:
            self.graph.declare_symmetry(value.node, int(mirrored_scale / scale))
            if value.transposed:
                value = self.graph.transpose(value)
                value = Value(value.node, False, value.coefficient)
        self._values[key] = value.times(1 / scale)
        return value


def _join(phrase: Phrase) -> Word:
    return tuple(letter for token in phrase for letter in token)


def _concatenate(left: Terms, right: Terms) -> Terms:
    return {a + b: c * d for a, c in left.items() for b, d in right.items()}


def word_shape(word: Word) -> Shape:
    """Shape of a non-empty word."""
    return (word[0].rows, word[-1].columns)
