"""The letters of one problem. Nothing is kept in module globals: two alphabets never know of each other."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.letters import (
    Dimension,
    InverseLetter,
    Kind,
    Letter,
    Shape,
    SymbolLetter,
    Word,
    word_key,
)
from quotientgeo.symbolic.algebra.polynomial import Polynomial


class Alphabet:
    """Symbols with their shapes and kinds, and the interned letters made of them.

    A polynomial belongs to exactly one alphabet; mixing two is an error. Use one alphabet per problem and thread.
    """

    def __init__(self) -> None:
        self._symbols: dict[str, tuple[Shape, Kind]] = {}
        self._letters: dict[tuple[Any, ...], Letter] = {}
        self._transposes: dict[Letter, tuple[Fraction, Letter]] = {}
        self._leading: dict[InverseLetter, tuple[Word, dict[Word, Fraction]]] = {}
        self.longest_lead = 0  # length of the longest leading word of an inverse: how far a rewriting rule reaches

    # symbols

    def declare(self, name: str, shape: Shape, kind: Kind | str = Kind.GENERAL) -> Polynomial:
        """The symbol ``name`` as a polynomial; declaring it again with the same shape and kind changes nothing."""
        kind = Kind(kind)
        if not name.isidentifier():
            raise DeclarationError(f"symbol name {name!r} is not an identifier; choose a name like G or xi_G")
        if kind is not Kind.GENERAL and shape[0] != shape[1]:
            raise DeclarationError(f"symbol {name}: kind {kind.value} needs a square shape, got {shape}")
        if self._symbols.setdefault(name, (shape, kind)) != (shape, kind):
            known_shape, known_kind = self._symbols[name]
            raise DeclarationError(
                f"symbol {name} is already declared with shape {known_shape} and kind {known_kind.value}; "
                f"cannot declare it again with shape {shape} and kind {kind.value}: use another name"
            )
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
        return self.monomial((self.symbol_letter(name),))

    def shape(self, name: str) -> Shape:
        """Shape of a declared symbol."""
        return self._symbols[name][0]

    def kind(self, name: str) -> Kind:
        """Kind of a declared symbol."""
        return self._symbols[name][1]

    # polynomials

    def monomial(self, word: Word, coefficient: Fraction | int = 1) -> Polynomial:
        """``coefficient`` times a non-empty word that is already in normal form."""
        return Polynomial(self, {word: Fraction(coefficient)}, (word[0].rows, word[-1].columns))

    def identity(self, size: Dimension) -> Polynomial:
        """The identity matrix of shape (size, size): the empty word."""
        return Polynomial(self, {(): Fraction(1)}, (size, size))

    def zero(self, shape: Shape) -> Polynomial:
        """The zero matrix."""
        return Polynomial(self, {}, shape)

    # letters

    def symbol_letter(self, name: str, transposed: bool = False, inverted: bool = False) -> SymbolLetter:
        """The interned letter of a symbol, brought to the normal form of its kind (a symmetric one has no transpose)."""
        shape, kind = self._symbols[name]
        if kind is Kind.ORTHOGONAL and inverted:
            transposed, inverted = not transposed, False
        if kind in (Kind.SYMMETRIC, Kind.SKEW) and transposed:
            transposed = False
        key = (0, name, inverted, transposed)
        letter = self._letters.get(key)
        if letter is None:
            letter_shape = (shape[1], shape[0]) if transposed else shape
            letter = self._letters[key] = SymbolLetter(name, letter_shape, kind, transposed, inverted)
        assert isinstance(letter, SymbolLetter)
        return letter

    def inverse_letter(self, argument: Polynomial) -> tuple[Fraction, InverseLetter]:
        """(c, letter) with argument^-1 = c letter; the letter's own argument has leading coefficient 1."""
        lead = max(argument.terms, key=word_key)
        scale = 1 / argument.terms[lead]
        argument = argument * scale
        key = (1, argument.sort_key, argument.shape)
        letter = self._letters.get(key)
        if letter is None:
            letter = self._letters[key] = InverseLetter(argument)
        assert isinstance(letter, InverseLetter)
        if letter not in self._leading:
            self._leading[letter] = (lead, {word: c for word, c in argument.terms.items() if word != lead})
            self.longest_lead = max(self.longest_lead, len(lead))
        return scale, letter

    def leading(self, letter: InverseLetter) -> tuple[Word, dict[Word, Fraction]]:
        """(word, rest) with argument = word + rest: the rewriting rule letter word -> 1 - letter rest."""
        return self._leading[letter]

    def local_inverse(self, letter: Letter) -> Letter | None:
        """The letter that is the two-sided inverse of a symbol's letter, or None where there is none."""
        if not isinstance(letter, SymbolLetter):
            return None
        if letter.kind is Kind.ORTHOGONAL:
            return self.symbol_letter(letter.name, not letter.transposed)
        if letter.kind is Kind.INVERTIBLE:
            return self.symbol_letter(letter.name, letter.transposed, not letter.inverted)
        return None

    def transpose(self, letter: Letter) -> tuple[Fraction, Letter]:
        """(c, letter') with letter^T = c letter'."""
        known = self._transposes.get(letter)
        if known is None:
            known = self._transposes[letter] = self._transpose(letter)
        return known

    def _transpose(self, letter: Letter) -> tuple[Fraction, Letter]:
        if isinstance(letter, SymbolLetter):
            sign = -1 if letter.kind is Kind.SKEW else 1
            return Fraction(sign), self.symbol_letter(letter.name, not letter.transposed, letter.inverted)
        assert isinstance(letter, InverseLetter)
        return self.inverse_letter(letter.argument.T)
