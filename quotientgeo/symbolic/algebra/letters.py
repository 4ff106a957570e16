"""Letters of the non-commutative algebra: a symbol (perhaps transposed or inverted), or the inverse of a polynomial.

Letters are interned by their alphabet, so identity is equality and a word (a tuple of letters) hashes at C speed. Every
order that reaches a reader or a file goes through ``sort_key``, which depends on the names only, never on addresses.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.polynomial import Polynomial

Dimension: TypeAlias = "str | int"  # a symbol's name, or a number
Shape: TypeAlias = tuple[Dimension, Dimension]


class Kind(StrEnum):
    """What the algebra may assume of a symbol beyond its shape; every kind but GENERAL needs a square shape."""

    GENERAL = "general"
    INVERTIBLE = "invertible"
    ORTHOGONAL = "orthogonal"
    SYMMETRIC = "symmetric"
    SKEW = "skew"


class Letter:
    """A factor of a word; ``shape`` is (rows, columns), ``sort_key`` a structural total order."""

    __slots__ = ("shape", "sort_key")
    shape: Shape
    sort_key: tuple[Any, ...]

    def __init__(self, shape: Shape, sort_key: tuple[Any, ...]) -> None:
        self.shape = shape
        self.sort_key = sort_key

    @property
    def rows(self) -> Dimension:
        """Number of rows."""
        return self.shape[0]

    @property
    def columns(self) -> Dimension:
        """Number of columns."""
        return self.shape[1]


class SymbolLetter(Letter):
    """The symbol ``name``, its transpose, its inverse, or the transpose of its inverse.

    ``shape`` is the shape of the letter itself, so a transposed (n, h) symbol has shape (h, n).
    """

    __slots__ = ("inverted", "kind", "name", "transposed")

    def __init__(self, name: str, shape: Shape, kind: Kind, transposed: bool, inverted: bool) -> None:
        super().__init__(shape, (0, name, inverted, transposed))
        self.name = name
        self.kind = kind
        self.transposed = transposed
        self.inverted = inverted

    def __repr__(self) -> str:
        if self.inverted:
            return f"{self.name}^-T" if self.transposed else f"{self.name}^-1"
        return f"{self.name}'" if self.transposed else self.name


class InverseLetter(Letter):
    """The inverse of ``argument``, a square polynomial in normal form whose leading coefficient is 1."""

    __slots__ = ("argument",)

    def __init__(self, argument: Polynomial) -> None:
        super().__init__(argument.shape, (1, argument.sort_key))
        self.argument = argument

    def __repr__(self) -> str:
        return f"({self.argument})^-1"


Word: TypeAlias = tuple[Letter, ...]


def word_key(word: Word) -> tuple[Any, ...]:
    """Total order of words, by length and then letter by letter; compatible with concatenation."""
    return (len(word), tuple(letter.sort_key for letter in word))
