"""The letters of one problem. Nothing is kept in module globals: two alphabets never know of each other."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from quotientgeo.errors import DeclarationError, NotDerivableError
from quotientgeo.symbolic.algebra.letters import (
    COMMUTING,
    SCALARS,
    SELF_TRANSPOSED,
    SPECIAL,
    Dimension,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    ScalarLetter,
    ScalarSymbol,
    Shape,
    SymbolLetter,
    TraceLetter,
    Word,
    split_scalars,
    word_key,
)
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.trace import Monomial, TracePolynomial, one_over


class Alphabet:
    """Symbols with their shapes and kinds, and the interned letters made of them.

    A polynomial belongs to exactly one alphabet; mixing two is an error. Use one alphabet per problem and thread.
    """

    def __init__(self) -> None:
        self._symbols: dict[str, tuple[Shape, Kind]] = {}
        self._letters: dict[tuple[Any, ...], Letter] = {}
        self._transposes: dict[Letter, tuple[Fraction, Letter]] = {}
        self._leading: dict[InverseLetter, tuple[Word, dict[Word, Fraction]]] = {}
        self._leading_scalars: dict[InverseScalar, tuple[Monomial, dict[Monomial, Fraction]]] = {}
        # factors of sums of commuting letters, as ``factoring.factors`` found them
        self.factored: dict[
            frozenset[tuple[Word, Fraction]], tuple[Fraction, list[tuple[dict[Word, Fraction], int]]]
        ] = {}
        self.paired: set[Dimension] = set()  # sizes whose coordinates come in pairs, so that they are even
        self.longest_lead = 0  # length of the longest leading word of an inverse: how far a rewriting rule reaches
        self.special = False  # whether words may hold scalars, commuting letters, ones or products of shape (1, 1)

    # symbols

    def declare(self, name: str, shape: Shape, kind: Kind | str = Kind.GENERAL) -> Polynomial:
        """The symbol ``name`` as a polynomial; declaring it again with the same shape and kind changes nothing."""
        kind = Kind(kind)
        if not name.isidentifier():
            raise DeclarationError(f"symbol name {name!r} is not an identifier; choose a name like G or xi_G")
        wanted = {Kind.GENERAL: shape, Kind.SCALAR: (1, 1), Kind.POSITIVE: (1, 1), Kind.VECTOR: (shape[0], 1)}.get(
            kind, (shape[0], shape[0])
        )
        if kind in (Kind.ORTHOGONAL, Kind.SKEW) and tuple(shape) == (1, 1):
            raise DeclarationError(
                f"symbol {name}: orthogonal matrices of size 1 are signs and have no directions: leave that group out, or give "
                "its size a name"
            )
        if tuple(shape) != wanted:
            what = {Kind.SCALAR: "the shape (1, 1)", Kind.POSITIVE: "the shape (1, 1)", Kind.VECTOR: "one column"}.get(
                kind, "a square shape"
            )
            raise DeclarationError(f"symbol {name}: kind {kind.value} needs {what}, got {shape}")
        if self._symbols.setdefault(name, (shape, kind)) != (shape, kind):
            known_shape, known_kind = self._symbols[name]
            raise DeclarationError(
                f"symbol {name} is already declared with shape {known_shape} and kind {known_kind.value}; "
                f"cannot declare it again with shape {shape} and kind {kind.value}: use another name"
            )
        self.special = self.special or kind in SPECIAL or 1 in shape
        if kind in COMMUTING and kind is not Kind.DIAGONAL:
            self.paired.add(shape[0])
        return self[name]

    def declare_fresh(self, stem: str, shape: Shape, kind: Kind | str = Kind.GENERAL) -> Polynomial:
        """A new symbol called ``stem``, or ``stem_1``, ``stem_2``, ... where that name is taken."""
        name, count = stem, 0
        while name in self._symbols:
            count += 1
            name = f"{stem}_{count}"
        return self.declare(name, shape, kind)

    def __contains__(self, name: object) -> bool:
        return name in self._symbols

    def __iter__(self) -> Iterator[str]:
        """Names of the declared symbols, in the order of their declaration."""
        return iter(self._symbols)

    def __getitem__(self, name: str) -> Polynomial:
        if name not in self._symbols:
            raise DeclarationError(f"unknown symbol {name!r}; declared here: {', '.join(self._symbols) or 'none'}")
        shape, kind = self._symbols[name]
        if kind in SCALARS:
            return Polynomial(self, {(self.scalar_symbol(name),): Fraction(1)}, (1, 1))
        if kind is Kind.VECTOR:
            return self.monomial((self.symbol_letter(name), self.ones_letter(shape[0])))
        letter = self.symbol_letter(name)
        if shape == (1, 1):  # a matrix with one entry is a number
            return Polynomial(self, {(self.trace_letter((letter,), 1),): Fraction(1)}, (1, 1))
        return self.monomial((letter,))

    @property
    def sizes(self) -> set[Dimension]:
        """The sizes that occur in the shapes of symbols."""
        return {size for shape, _ in self._symbols.values() for size in shape}

    def shape(self, name: str) -> Shape:
        """Shape of a declared symbol."""
        return self._symbols[name][0]

    def kind(self, name: str) -> Kind:
        """Kind of a declared symbol."""
        return self._symbols[name][1]

    # polynomials

    def monomial(self, word: Word, coefficient: Fraction | int = 1) -> Polynomial:
        """``coefficient`` times a non-empty word of matrices that is already in normal form."""
        return Polynomial(self, {word: Fraction(coefficient)}, (word[0].rows, word[-1].columns))

    def identity(self, size: Dimension) -> Polynomial:
        """The identity matrix of shape (size, size): the empty word."""
        return Polynomial(self, {(): Fraction(1)}, (size, size))

    def zero(self, shape: Shape) -> Polynomial:
        """The zero matrix."""
        return Polynomial(self, {}, shape)

    def ones(self, rows: Dimension, columns: Dimension = 1) -> Polynomial:
        """The matrix of ones."""
        column = self.identity(1) if rows == 1 else self.monomial((self.ones_letter(rows),))
        row = self.identity(1) if columns == 1 else self.monomial((self.ones_letter(columns, transposed=True),))
        return column * row

    # letters

    def symbol_letter(self, name: str, transposed: bool = False, inverted: bool = False) -> SymbolLetter:
        """The interned letter of a symbol, brought to the normal form of its kind (a symmetric one has no transpose)."""
        shape, kind = self._symbols[name]
        if kind is Kind.ORTHOGONAL and inverted:
            transposed, inverted = not transposed, False
        if kind in SELF_TRANSPOSED and transposed:
            transposed = False
        key = (0, name, inverted, transposed)
        letter = self._letters.get(key)
        if letter is None:
            letter_shape = (shape[1], shape[0]) if transposed else shape
            letter_shape = (shape[0], shape[0]) if kind is Kind.VECTOR else letter_shape
            letter = self._letters[key] = SymbolLetter(name, letter_shape, kind, transposed, inverted)
        assert isinstance(letter, SymbolLetter)
        return letter

    def inverse_letter(self, argument: Polynomial) -> tuple[Polynomial, InverseLetter]:
        """(c, letter) with argument^-1 = c letter, c a number; the letter's own argument has leading coefficient 1."""
        scale, argument, lead = _leading_one(argument)
        key = (1, argument.sort_key, argument.shape)
        letter = self._letters.get(key)
        if letter is None:
            families = {inner.family for word in argument.terms for inner in split_scalars(word)[1]}
            family = families.pop() if len(families) == 1 else None
            letter = self._letters[key] = InverseLetter(argument, family)
        assert isinstance(letter, InverseLetter)
        if letter not in self._leading:
            self._leading[letter] = (lead, {word: c for word, c in argument.terms.items() if word != lead})
            self.longest_lead = max(self.longest_lead, len(lead))
        return scale, letter

    def part_letter(self, word: Word, family: Kind) -> tuple[Fraction, PartLetter] | None:
        """(c, letter) with c letter the projection of a word of matrices on a commuting algebra; None where it is zero."""
        sign = Fraction(1)
        if family is not Kind.DIAGONAL:
            self.paired.add(word[0].rows)
        if family is Kind.DIAGONAL:  # the diagonal of a matrix is that of its transpose
            terms = self.monomial(word).T.terms
            if len(terms) == 1:
                ((mirrored, factor),) = terms.items()
                if mirrored == word and factor < 0:
                    return None
                if not split_scalars(mirrored)[0] and word_key(mirrored) < word_key(word):
                    sign, word = factor, mirrored
        key = (3, family, word)
        letter = self._letters.get(key)
        if letter is None:
            letter = self._letters[key] = PartLetter(word, family)
            self.special = True
        assert isinstance(letter, PartLetter)
        return sign, letter

    def ones_letter(self, size: Dimension, transposed: bool = False) -> OnesLetter:
        """The interned column of ones, or its transpose."""
        letter = self._letters.setdefault((2, size, transposed), OnesLetter(size, transposed))
        assert isinstance(letter, OnesLetter)
        self.special = True
        return letter

    # scalars

    def trace_letter(self, letters: Word, size: Dimension) -> TraceLetter:
        """The interned trace of a cyclic word that is already in normal form."""
        letter = self._letters.get((4, letters, size))
        if letter is None:
            letter = self._letters[4, letters, size] = TraceLetter(letters, size)
        assert isinstance(letter, TraceLetter)
        return letter

    def scalar_symbol(self, name: str) -> ScalarSymbol:
        """The interned letter of a scalar symbol."""
        letter = self._letters.setdefault((5, name), ScalarSymbol(name))
        assert isinstance(letter, ScalarSymbol)
        return letter

    def inverse_scalar(self, argument: TracePolynomial) -> tuple[Fraction, InverseScalar]:
        """(c, letter) with 1 / argument = c letter; the letter's own argument has leading coefficient 1."""
        lead = argument.lead
        scale = 1 / argument.terms[lead]
        argument = argument * scale
        letter = self._letters.get((6, argument.sort_key))
        if letter is None:
            letter = self._letters[6, argument.sort_key] = InverseScalar(argument)
            self.special = True
        assert isinstance(letter, InverseScalar)
        if letter not in self._leading_scalars:
            rest = {monomial: c for monomial, c in argument.terms.items() if monomial != lead}
            self._leading_scalars[letter] = (lead, rest)
        return scale, letter

    def leading_scalar(self, letter: InverseScalar) -> tuple[Monomial, dict[Monomial, Fraction]]:
        """(monomial, rest) with argument = monomial + rest."""
        return self._leading_scalars[letter]

    def leading(self, letter: InverseLetter) -> tuple[Word, dict[Word, Fraction]]:
        """(word, rest) with argument = word + rest: the rewriting rule letter word -> 1 - letter rest."""
        return self._leading[letter]

    def local_inverse(self, letter: Letter) -> Letter | None:
        """The letter that is the two-sided inverse of a symbol's letter, or None where there is none."""
        if not isinstance(letter, SymbolLetter):
            return None
        if letter.kind is Kind.ORTHOGONAL:
            return self.symbol_letter(letter.name, not letter.transposed)
        if letter.kind in (Kind.INVERTIBLE, Kind.VECTOR, *COMMUTING):
            return self.symbol_letter(letter.name, letter.transposed, not letter.inverted)
        return None

    def transpose(self, letter: Letter) -> tuple[Fraction, Letter]:
        """(c, letter') with letter^T = c letter'."""
        known = self._transposes.get(letter)
        if known is None:
            known = self._transposes[letter] = self._transpose(letter)
        return known

    def transpose_word(self, word: Word) -> tuple[Fraction, Word]:
        """(c, word') with word^T = c word', letter by letter: word' may still be reducible.

        c is 1 or -1 for letters of symbols; an inverse has leading coefficient 1, and its transpose may lead with another word.
        """
        factor, letters = Fraction(1), []
        for letter in reversed(word):
            one, transposed = self.transpose(letter)
            factor *= one
            letters.append(transposed)
        return factor, tuple(letters)

    def _transpose(self, letter: Letter) -> tuple[Fraction, Letter]:
        if isinstance(letter, SymbolLetter):
            sign = -1 if letter.kind is Kind.SKEW else 1
            return Fraction(sign), self.symbol_letter(letter.name, not letter.transposed, letter.inverted)
        if isinstance(letter, OnesLetter):
            return Fraction(1), self.ones_letter(
                letter.columns if letter.transposed else letter.rows, not letter.transposed
            )
        if isinstance(letter, ScalarLetter):
            return Fraction(1), letter
        if isinstance(letter, PartLetter):
            return self._transpose_part(letter)
        assert isinstance(letter, InverseLetter)
        scale, transposed = self.inverse_letter(letter.argument.T)
        ((word, factor), *others) = scale.terms.items()
        if word or others:
            raise NotDerivableError(
                f"the transpose of {letter} has no normal form here: its leading coefficient is {scale}"
            )
        return factor, transposed

    def _transpose_part(self, letter: PartLetter) -> tuple[Fraction, Letter]:
        if letter.family is Kind.DIAGONAL:
            return Fraction(1), letter
        assert letter.family is not None
        terms = self.monomial(letter.word).T.terms
        if len(terms) != 1:
            raise NotDerivableError(
                f"the transpose of {letter} has no normal form here: write its argument as a product"
            )
        ((mirrored, factor),) = terms.items()
        found = self.part_letter(mirrored, letter.family)
        assert found is not None
        return factor * found[0], found[1]


def _leading_one(argument: Polynomial) -> tuple[Polynomial, Polynomial, Word]:
    """(c, argument c, lead): the greatest word of matrices of ``argument c`` is ``lead``, with the coefficient 1."""
    alphabet, one = argument.alphabet, argument.alphabet.identity(argument.shape[0])
    if not alphabet.special:
        lead = max(argument.terms, key=word_key)
        scale = 1 / argument.terms[lead]
        return one * scale, argument * scale, lead
    lead = max((split_scalars(word)[1] for word in argument.terms), key=word_key)
    monomials = {split_scalars(w)[0]: c for w, c in argument.terms.items() if split_scalars(w)[1] == lead}
    factor = one_over(TracePolynomial(alphabet, monomials))
    return one.scaled(factor), argument.scaled(factor), lead
