"""Matrix polynomials in non-commuting letters: {word: rational coefficient} with a shape, always in normal form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.letters import (
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    PartLetter,
    ScalarSymbol,
    Shape,
    SymbolLetter,
    TraceLetter,
    Word,
    split_scalars,
    word_key,
)
from quotientgeo.symbolic.algebra.rewriting import Terms, add_reduced, add_term

if TYPE_CHECKING:
    import sympy

    from quotientgeo.symbolic.algebra.alphabet import Alphabet
    from quotientgeo.symbolic.algebra.trace import TracePolynomial


class Polynomial:
    """A matrix-valued expression of ``shape`` (rows, columns): the sum of ``coefficient * word`` over ``terms``.

    Immutable. ``terms`` maps a word (a tuple of letters; the empty word is the identity) to its non-zero Fraction.
    Iterating yields (word, coefficient) in an order that depends on names only. Operators: ``+ - *`` (``*`` also with
    a rational number), ``.T``, ``.inverse()``. Equality is equality of normal forms: a proof when true, no disproof
    when false.
    """

    __slots__ = ("_sort_key", "alphabet", "shape", "terms")

    def __init__(self, alphabet: Alphabet, terms: Mapping[Word, Fraction], shape: Shape) -> None:
        self.alphabet = alphabet
        self.terms: Mapping[Word, Fraction] = MappingProxyType(dict(terms))
        self.shape = shape
        self._sort_key: tuple[Any, ...] | None = None

    # reading

    @property
    def is_zero(self) -> bool:
        """Whether the normal form has no term."""
        return not self.terms

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Structural key: equal exactly for equal terms, ordered by names and coefficients."""
        if self._sort_key is None:
            self._sort_key = tuple((word_key(word), coefficient) for word, coefficient in self)
        return self._sort_key

    def __iter__(self) -> Iterator[tuple[Word, Fraction]]:
        return iter(sorted(self.terms.items(), key=lambda term: word_key(term[0])))

    def __len__(self) -> int:
        """Number of terms."""
        return len(self.terms)

    def letters(self) -> list[Letter]:
        """The distinct letters of all words, in structural order; arguments of inverses are not entered."""
        return sorted({letter for word in self.terms for letter in word}, key=lambda letter: letter.sort_key)

    def symbols(self) -> list[str]:
        """Names of all symbols that occur, inverses entered, sorted."""
        return sorted({name for letter in self.letters() for name in symbols_of(letter)})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Polynomial):
            return NotImplemented
        return self.alphabet is other.alphabet and self.shape == other.shape and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.shape, frozenset(self.terms.items())))

    def __repr__(self) -> str:
        from quotientgeo.symbolic.algebra.text import polynomial_text

        return polynomial_text(self)

    # arithmetic

    def _same(self, other: Polynomial, operation: str) -> None:
        if self.alphabet is not other.alphabet:
            raise DeclarationError(f"{operation}: {self} and {other} belong to different alphabets (problems)")

    def _same_alphabet(self, alphabet: Alphabet, operation: str) -> None:
        if self.alphabet is not alphabet:
            raise DeclarationError(f"{operation} of {self} by a number of another alphabet (problem)")

    def __add__(self, other: Polynomial) -> Polynomial:
        self._same(other, "sum")
        if self.shape != other.shape:
            raise DeclarationError(f"cannot add {self} of shape {self.shape} and {other} of shape {other.shape}")
        terms = dict(self.terms)
        for word, coefficient in other.terms.items():
            add_term(terms, word, coefficient)
        return Polynomial(self.alphabet, terms, self.shape)

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * -1

    def __mul__(self, other: Polynomial | Fraction | int) -> Polynomial:
        if not isinstance(other, Polynomial):
            factor = Fraction(other)
            terms = {word: c * factor for word, c in self.terms.items()} if factor else {}
            return Polynomial(self.alphabet, terms, self.shape)
        self._same(other, "product")
        if self.shape[1] != other.shape[0]:
            raise DeclarationError(f"cannot multiply {self} of shape {self.shape} by {other} of shape {other.shape}")
        out: Terms = {}
        for left, c in self.terms.items():
            for right, d in other.terms.items():
                add_reduced(self.alphabet, out, left + right, c * d, (len(left),))
        return Polynomial(self.alphabet, out, (self.shape[0], other.shape[1]))

    def __rmul__(self, factor: Fraction | int) -> Polynomial:
        return self * factor

    def scaled(self, factor: TracePolynomial) -> Polynomial:
        """``factor`` times this matrix, for a scalar factor."""
        self._same_alphabet(factor.alphabet, "multiple")
        out: Terms = {}
        for monomial, c in factor.terms.items():
            self.alphabet.special = self.alphabet.special or bool(monomial)
            for word, d in self.terms.items():
                add_reduced(self.alphabet, out, (*monomial, *word), c * d)
        return Polynomial(self.alphabet, out, self.shape)

    def by_scalars(self) -> dict[Word, Polynomial]:
        """{product of scalars: what it multiplies}, the latter without scalars, in structural order."""
        parts: dict[Word, Terms] = {}
        for word, coefficient in self:
            scalars, matrices = split_scalars(word)
            parts.setdefault(scalars, {})[matrices] = coefficient
        return {scalars: Polynomial(self.alphabet, terms, self.shape) for scalars, terms in parts.items()}

    @property
    def T(self) -> Polynomial:
        """The transpose."""
        out: Terms = {}
        for word, coefficient in self.terms.items():
            scalars, matrices = split_scalars(word)
            factor, transposed = self.alphabet.transpose_word(matrices)
            # transposing an inverse can change its leading word, so the result is reduced again
            add_reduced(self.alphabet, out, scalars + transposed, coefficient * factor)
        return Polynomial(self.alphabet, out, (self.shape[1], self.shape[0]))

    def part(self, family: Kind) -> Polynomial:
        """The orthogonal projection of a square matrix on a commuting algebra: E(A M B) = A E(M) B for A, B in the algebra."""
        from quotientgeo.symbolic.algebra.projection import part

        return part(self, family)

    def diagonal(self) -> Polynomial:
        """The diagonal matrix whose diagonal is this column."""
        if self.shape[1] != 1:
            raise DeclarationError(f"a diagonal matrix is made of one column, not of {self} of shape {self.shape}")
        return (self * self.alphabet.ones(1, self.shape[0])).part(Kind.DIAGONAL)

    def scalar(self) -> TracePolynomial:
        """The only entry of a matrix of shape (1, 1)."""
        from quotientgeo.symbolic.algebra.cyclic import trace

        return trace(self)

    def inverse(self) -> Polynomial:
        """The inverse, split at invertible letters and at square sub-words; an error for a non-square or zero matrix."""
        from quotientgeo.symbolic.algebra.inversion import inverse

        return inverse(self)

    # calculus

    def differential(self, directions: Mapping[str, Polynomial]) -> Polynomial:
        """d/dt at t = 0 of this polynomial with each symbol ``name`` replaced by name + t directions[name]."""
        from quotientgeo.symbolic.algebra.calculus import differential

        return differential(self, directions)

    def substitute(self, values: Mapping[str, Polynomial]) -> Polynomial:
        """This polynomial with each symbol ``name`` replaced by values[name], all at once."""
        from quotientgeo.symbolic.algebra.calculus import substitute

        return substitute(self, values)

    def trace(self) -> TracePolynomial:
        """Trace of a square polynomial."""
        from quotientgeo.symbolic.algebra.cyclic import trace

        return trace(self)

    def to_sympy(self) -> sympy.MatrixExpr:
        """The same expression in SymPy (MatAdd of MatMul of symbols, Transpose and Inverse)."""
        from quotientgeo.symbolic.algebra.sympy_output import polynomial_to_sympy

        return polynomial_to_sympy(self)


def symbols_of(letter: Letter) -> list[str]:
    """Names of the symbols inside a letter."""
    match letter:
        case SymbolLetter() | ScalarSymbol():
            return [letter.name]
        case InverseLetter() | InverseScalar():
            return letter.argument.symbols()
        case PartLetter():
            return [name for inner in letter.word for name in symbols_of(inner)]
        case TraceLetter():
            return [name for inner in letter.letters for name in symbols_of(inner)]
    return []
