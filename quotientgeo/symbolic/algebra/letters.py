"""Letters of the non-commutative algebra: a symbol (perhaps transposed or inverted), or something made of a polynomial.

A word is a tuple of letters: scalars first (they commute with everything and are sorted), then matrices. Letters are interned
by their alphabet, so identity is equality and a word hashes at C speed. Every order that reaches a reader or a file goes
through ``sort_key``, which depends on the names only, never on addresses.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from quotientgeo.symbolic.algebra.text import word_text

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.polynomial import Polynomial
    from quotientgeo.symbolic.algebra.trace import TracePolynomial

Dimension: TypeAlias = "str | int"  # a symbol's name, or a number
Shape: TypeAlias = tuple[Dimension, Dimension]


class Kind(StrEnum):
    """What the algebra may assume of a symbol beyond its shape.

    ``DIAGONAL`` and the two ``COMPLEX`` kinds (multiplication of column pairs by complex numbers, as real matrices) are the
    commuting algebras: their letters commute with each other. ``SCALAR`` is a number, of shape (1, 1), ``POSITIVE`` one that
    is positive. ``VECTOR`` is a column whose diagonal matrix occurs: the vector u is diag(u) times a vector of ones.
    """

    GENERAL = "general"
    INVERTIBLE = "invertible"
    ORTHOGONAL = "orthogonal"
    SYMMETRIC = "symmetric"
    SKEW = "skew"
    DIAGONAL = "diagonal"
    COMPLEX_HALF = "complex_half"
    COMPLEX_INTERLEAVED = "complex_interleaved"
    SCALAR = "scalar"
    POSITIVE = "positive"
    VECTOR = "vector"


COMMUTING = (Kind.DIAGONAL, Kind.COMPLEX_HALF, Kind.COMPLEX_INTERLEAVED)
SELF_TRANSPOSED = (Kind.SYMMETRIC, Kind.SKEW, Kind.DIAGONAL, Kind.VECTOR)  # letters without a transpose of their own
SCALARS = (Kind.SCALAR, Kind.POSITIVE)
SPECIAL = (*COMMUTING, *SCALARS, Kind.VECTOR)  # beyond what words of plain matrices need


class Letter:
    """A factor of a word; ``shape`` is (rows, columns), ``sort_key`` a structural total order.

    ``family``: the commuting algebra that the letter belongs to, or None.
    """

    __slots__ = ("family", "shape", "sort_key")
    shape: Shape
    sort_key: tuple[Any, ...]
    family: Kind | None

    def __init__(self, shape: Shape, sort_key: tuple[Any, ...], family: Kind | None = None) -> None:
        self.shape = shape
        self.sort_key = sort_key
        self.family = family

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

    ``shape`` is the shape of the letter itself, so a transposed (n, h) symbol has shape (h, n); of a vector symbol (d, 1) the
    letter is the diagonal matrix (d, d).
    """

    __slots__ = ("inverted", "kind", "name", "transposed")

    def __init__(self, name: str, shape: Shape, kind: Kind, transposed: bool, inverted: bool) -> None:
        family = Kind.DIAGONAL if kind is Kind.VECTOR else kind if kind in COMMUTING else None
        super().__init__(shape, (0, name, inverted, transposed), family)
        self.name = name
        self.kind = kind
        self.transposed = transposed
        self.inverted = inverted

    def __repr__(self) -> str:
        name = f"diag({self.name})" if self.kind is Kind.VECTOR else self.name
        if self.inverted:
            return f"{name}^-T" if self.transposed else f"{name}^-1"
        return f"{name}'" if self.transposed else name


class InverseLetter(Letter):
    """The inverse of ``argument``, a square polynomial in normal form whose leading coefficient is 1."""

    __slots__ = ("argument",)

    def __init__(self, argument: Polynomial, family: Kind | None = None) -> None:
        super().__init__(argument.shape, (1, argument.sort_key), family)
        self.argument = argument

    def __repr__(self) -> str:
        return f"({self.argument})^-1"


class OnesLetter(Letter):
    """A column of ones of shape (size, 1), or its transpose."""

    __slots__ = ("transposed",)

    def __init__(self, size: Dimension, transposed: bool) -> None:
        super().__init__((1, size) if transposed else (size, 1), (2, str(size), transposed))
        self.transposed = transposed

    def __repr__(self) -> str:
        return "1'" if self.transposed else "1"


class PartLetter(Letter):
    """The orthogonal projection of a square word on a commuting algebra: its diagonal, or its complex diagonal part."""

    __slots__ = ("word",)

    def __init__(self, word: Word, family: Kind) -> None:
        super().__init__((word[0].rows, word[-1].columns), (3, family.value, word_key(word)), family)
        self.word = word

    def __repr__(self) -> str:
        name = "diag" if self.family is Kind.DIAGONAL else str(self.family)
        return f"{name}({word_text(self.word)})"


class ScalarLetter(Letter):
    """A number: it commutes with every letter and stands before the matrices of a word."""

    __slots__ = ()

    def __init__(self, sort_key: tuple[Any, ...]) -> None:
        super().__init__((1, 1), sort_key)


class TraceLetter(ScalarLetter):
    """The trace of a word of matrices; ``size`` is its number of rows, which for the empty word is the value of the trace."""

    __slots__ = ("letters", "size")

    def __init__(self, letters: Word, size: Dimension) -> None:
        super().__init__((4, word_key(letters), str(size)))
        self.letters = letters
        self.size = size

    def __repr__(self) -> str:
        return f"tr({word_text(self.letters)})" if self.letters else f"tr(I_{self.size})"


class ScalarSymbol(ScalarLetter):
    """A scalar symbol."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__((5, name))
        self.name = name

    def __repr__(self) -> str:
        return self.name


class InverseScalar(ScalarLetter):
    """1 / argument, a scalar in normal form whose leading coefficient is 1."""

    __slots__ = ("argument",)

    def __init__(self, argument: TracePolynomial) -> None:
        super().__init__((6, argument.sort_key))
        self.argument = argument

    def __repr__(self) -> str:
        text = repr(self.argument)
        single = len(self.argument) == 1 and len(next(iter(self.argument.terms))) == 1
        return f"{text}^-1" if single else f"({text})^-1"


Word: TypeAlias = tuple[Letter, ...]


def words_inside(letter: Letter) -> Iterable[Word]:
    """The words that a letter is made of: of what is inverted, projected or traced; none of a symbol."""
    match letter:
        case InverseLetter(argument=inverted):
            return inverted.terms
        case InverseScalar(argument=inverted):
            return inverted.terms
        case PartLetter(word=word) | TraceLetter(letters=word):
            return (word,)
    return ()


def is_vector(letter: Letter | None) -> TypeGuard[SymbolLetter]:
    """Whether a letter is diag(x) of a column x, not inverted."""
    return isinstance(letter, SymbolLetter) and letter.kind is Kind.VECTOR and not letter.inverted


def word_key(word: Word) -> tuple[Any, ...]:
    """Total order of words, by length and then letter by letter; compatible with concatenation."""
    return (len(word), tuple(letter.sort_key for letter in word))


def split_scalars(word: Word) -> tuple[Word, Word]:
    """(scalars, matrices) of a word in normal form."""
    count = 0
    while count < len(word) and isinstance(word[count], ScalarLetter):
        count += 1
    return word[:count], word[count:]
