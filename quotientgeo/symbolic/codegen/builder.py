"""Polynomials to graphs: common factors collected, products ordered by cost, inverses applied by solving.

Every value denotes a polynomial; values are remembered by the normal form of what they denote, up to a rational factor and
a transpose, so equal sub-expressions are computed once wherever they occur in a function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any, NamedTuple, TypeAlias

from quotientgeo.symbolic.algebra import (
    Alphabet,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    PartLetter,
    Polynomial,
    ScalarSymbol,
    Shape,
    SymbolLetter,
    TraceLetter,
    Word,
    is_positive_definite,
    split_scalars,
    word_key,
)
from quotientgeo.symbolic.codegen.chain import plan, tokens
from quotientgeo.symbolic.codegen.elementwise import Columns, is_column, is_row, is_run
from quotientgeo.symbolic.codegen.factoring import Factoring, Group, Phrase, join
from quotientgeo.symbolic.codegen.graph import Graph, Operation, Sizes, Value, extent

Terms: TypeAlias = Mapping[Word, int]  # coefficients brought to a common denominator, which is kept beside


def is_inverse(letter: Letter) -> bool:
    """Whether a letter is applied by solving."""
    if letter.family is Kind.DIAGONAL:
        return False
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
        self.columns = Columns(self)
        self._factoring = factoring
        self._values: dict[frozenset[tuple[Word, int]], Value] = {}
        self._transposes: dict[Word, tuple[Fraction, Word]] = {}
        self._phrases: dict[Word, Phrase] = {}
        self._keys: dict[Word, tuple[Any, ...]] = {}

    # polynomials

    def output(self, polynomial: Polynomial) -> Value:
        """The value of a polynomial; the coefficients of its outermost sum are kept as they are."""
        if polynomial.is_zero:
            return self.graph.constant(Operation.ZERO, polynomial.shape)
        if _has_scalars(polynomial):
            return self._scaled_sum(polynomial)
        scale, terms = integer_terms(polynomial)
        if all(map(_is_diagonal, terms)):
            return self.value(terms, polynomial.shape).times(scale)
        found = self._find(terms)
        if found is not None or len(terms) == 1:
            return (found or self.value(terms, polynomial.shape)).times(scale)
        summands = tuple(value.times(scale) for value in self._summands(terms, polynomial.shape))
        return self.graph.sum(summands, polynomial.shape)

    def matrix(self, polynomial: Polynomial) -> Value:
        """The value of a non-zero polynomial that is an operand of something else."""
        if _has_scalars(polynomial):
            return self._scaled_sum(polynomial)
        scale, terms = integer_terms(polynomial)
        return self.value(terms, polynomial.shape).times(scale)

    def _scaled_sum(self, polynomial: Polynomial) -> Value:
        """Numbers times matrices, one matrix for each number."""
        parts = []
        for scalars, part in polynomial.by_scalars().items():
            number = self.graph.scalar_product(tuple(map(self.number, scalars))) if scalars else None
            value = self.matrix(part)
            parts.append(value if number is None else self.graph.scaled(number, value))
        return self.graph.sum(tuple(parts), polynomial.shape)

    def number(self, letter: Letter) -> Value:
        """The value of a scalar letter."""
        from quotientgeo.symbolic.codegen.scalars import scalar_output, trace_value

        match letter:
            case TraceLetter():
                return trace_value(self, letter)
            case ScalarSymbol(name=name):
                return self.graph.entry(self.graph.argument(name, (1, 1)))
        assert isinstance(letter, InverseScalar)
        return self.graph.scalar_inverse(scalar_output(self, letter.argument))

    def value(self, terms: Terms, shape: Shape) -> Value:
        """The value of a non-zero polynomial, shared with every multiple of it and of its transpose."""
        found = self._find(terms)
        if found is not None:
            return found
        scale, key = self._normal(terms)
        if any(terms) and all(map(_is_diagonal, terms)):
            value = self._diagonal(dict(key), shape)
            return self._store(dict(key), value).times(Fraction(scale))
        if len(key) == 1:
            ((word, _),) = key
            if not word:
                return self.graph.constant(Operation.IDENTITY, shape).times(Fraction(scale))
            value = self._word(word)
        else:
            value = self.graph.sum(tuple(self._summands(dict(key), shape)), shape)
        return self._store(dict(key), value).times(Fraction(scale))

    def _diagonal(self, terms: Terms, shape: Shape) -> Value:
        """A sum of products of diagonal matrices, or of such products times ones, through columns."""
        if shape[1] == 1:
            return self.columns.of_sum({word[:-1]: Fraction(c) for word, c in terms.items()}, shape[0])
        if shape[0] == 1:
            return self.graph.transpose(
                self.columns.of_sum({word[1:]: Fraction(c) for word, c in terms.items()}, shape[1])
            )
        return self.graph.diagonal_matrix(self.columns.of_sum({w: Fraction(c) for w, c in terms.items()}, shape[0]))

    def _summands(self, terms: Terms, shape: Shape) -> list[Value]:
        """Values that add up to the polynomial: common factors collected greedily, then single words."""
        out: list[Value] = []
        rest: dict[Phrase, int] = {self._phrase(word): terms[word] for word in sorted(terms, key=self._key)}
        for group in self._factoring.groups(rest):
            out.append(self._group(group, rest, shape))
            rest = {phrase: c for phrase, c in rest.items() if phrase not in group.members}
            if len(rest) > 1:
                found = self._find({join(phrase): c for phrase, c in rest.items()})
                if found is not None:
                    return [*out, found]
        return [*out, *(self.value({join(phrase): c}, shape) for phrase, c in rest.items())]

    def _phrase(self, word: Word) -> Phrase:
        phrase = self._phrases.get(word)
        if phrase is None:
            phrase = self._phrases[word] = tokens(word, self.sizes)
        return phrase

    def _group(self, group: Group, terms: Mapping[Phrase, int], shape: Shape) -> Value:
        """common * (sum of what remains), or the other way round."""
        inner = {join(group.remainder(phrase)): c for phrase, c in terms.items() if phrase in group.members}
        edge = group.common[-1][-1].columns if group.left else group.common[0][0].rows
        inner_shape = (edge, shape[1]) if group.left else (shape[0], edge)
        scale, key = self._normal(inner)
        middle = _Item(dict(key), inner_shape, self.value(dict(key), inner_shape))
        common = [self._word_item(token) for token in group.common]
        return self._chain([*common, middle] if group.left else [middle, *common]).times(Fraction(scale))

    # words

    def _word(self, word: Word) -> Value:
        if len(word) == 1:
            return self._letter(word[0])
        pieces = self._phrase(word)
        if len(pieces) == 1:
            pieces = tuple((letter,) for letter in word)
        return self._chain([self._word_item(piece) for piece in pieces])

    def _word_item(self, word: Word) -> _Item:
        return _Item({word: 1}, word_shape(word))

    def _letter(self, letter: Letter) -> Value:
        if isinstance(letter, PartLetter):  # a complex one: diagonal ones are columns
            assert letter.family is not None
            inner = self.value({letter.word: 1}, letter.shape)
            return self.graph.complex_part(inner, letter.family.value.removeprefix("complex_"))
        if isinstance(letter, SymbolLetter) and not letter.inverted:
            argument = self.graph.argument(letter.name, self.alphabet.shape(letter.name))
            return Value(argument.node, letter.transposed)
        matrix, definite = self._inverted(letter)
        return self.graph.solve(matrix, definite, self.graph.constant(Operation.IDENTITY, letter.shape))

    def _inverted(self, letter: Letter) -> tuple[Value, bool]:
        """(the matrix whose inverse the letter is, whether Cholesky may factor it)."""
        if isinstance(letter, InverseLetter):
            return self.matrix(letter.argument), is_positive_definite(letter.argument)
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
            if k == i + 1 and _is_diagonal_run(items[i]):
                value = self.graph.elementwise(self._column(items[i]), assemble(k, j))
            elif j == k + 1 and _is_diagonal_run(items[k]):
                value = self.graph.elementwise(assemble(i, k), self.graph.transpose(self._column(items[k])))
            elif j == k + 1 and _is_ones_column(items[k]):
                value = self.graph.row_sum(assemble(i, k))
            elif k == i + 1 and inverse[i]:
                value = self._solve_left(items[i], assemble(k, j))
            elif j == k + 1 and inverse[k]:
                value = self._solve_right(assemble(i, k), items[k])
            else:
                value = self.graph.product(assemble(i, k), assemble(k, j))
            return self._store(products[i, j], value)

        return assemble(0, len(items))

    def _column(self, item: _Item) -> Value:
        return self.columns.of_sum({word: Fraction(c) for word, c in item.terms.items()}, item.shape[0])

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

    def _key(self, word: Word) -> tuple[Any, ...]:
        key = self._keys.get(word)
        if key is None:
            key = self._keys[word] = word_key(word)
        return key

    def _normal(self, terms: Terms) -> tuple[int, frozenset[tuple[Word, int]]]:
        """(scale, key): terms = scale * key, whose coefficients are coprime, the leading one positive."""
        scale = gcd(*terms.values())
        if terms[max(terms, key=self._key)] < 0:
            scale = -scale
        if scale == 1:
            return 1, frozenset(terms.items())
        return scale, frozenset((word, c // scale) for word, c in terms.items())

    def _normal_transpose(self, terms: Terms) -> tuple[Fraction, frozenset[tuple[Word, int]]]:
        """(scale, key) of the transpose."""
        out: dict[Word, Fraction] = {}
        for word, coefficient in terms.items():
            known = self._transposes.get(word)
            if known is None:
                known = self._transposes[word] = self.alphabet.transpose_word(word)
            factor, transposed = known
            out[transposed] = out.get(transposed, Fraction(0)) + coefficient * factor
        unit, integers = _integers(out)
        scale, key = self._normal(integers)
        return unit * scale, key

    def _find(self, terms: Terms) -> Value | None:
        if len(terms) == 1 and () in terms:
            return None  # identities of all sizes are the same word
        scale, key = self._normal(terms)
        value = self._values.get(key)
        if value is not None:
            return value.times(Fraction(scale))
        mirrored_scale, key = self._normal_transpose(terms)
        value = self._values.get(key)
        return None if value is None else self.graph.transpose(value).times(mirrored_scale)

    def _store(self, terms: Terms, value: Value) -> Value:
        """Remember what the value denotes; returns it with the transpose of a symmetric node dropped."""
        scale, key = self._normal(terms)
        mirrored_scale, mirrored = self._normal_transpose(terms)
        if mirrored == key:
            self.graph.declare_symmetry(value.node, int(mirrored_scale / scale))
            if value.transposed:
                value = self.graph.transpose(value)
                value = Value(value.node, False, value.coefficient)
        self._values[key] = value.times(Fraction(1, scale))
        return value


def _has_scalars(polynomial: Polynomial) -> bool:
    return polynomial.alphabet.special and any(split_scalars(word)[0] for word in polynomial.terms)


def _is_diagonal(word: Word) -> bool:
    """Whether a word is evaluated as a column; the identity is, beside one that is."""
    return not word or is_run(word) or is_column(word) or is_row(word)


def _is_diagonal_run(item: _Item) -> bool:
    return any(item.terms) and all(not word or is_run(word) for word in item.terms)


def _is_ones_column(item: _Item) -> bool:
    return item.value is None and len(item.terms) == 1 and len(word := next(iter(item.terms))) == 1 and is_column(word)


def _concatenate(left: Terms, right: Terms) -> Terms:
    return {a + b: c * d for a, c in left.items() for b, d in right.items()}


def integer_terms(polynomial: Polynomial) -> tuple[Fraction, Terms]:
    """(scale, terms) with polynomial = scale * terms and integer terms; the words in structural order."""
    return _integers(dict(polynomial))


def _integers(terms: Mapping[Word, Fraction]) -> tuple[Fraction, Terms]:
    denominator = lcm(*(coefficient.denominator for coefficient in terms.values()))
    return Fraction(1, denominator), {word: int(coefficient * denominator) for word, coefficient in terms.items()}


def word_shape(word: Word) -> Shape:
    """Shape of a non-empty word."""
    return (word[0].rows, word[-1].columns)
