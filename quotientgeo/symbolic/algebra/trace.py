"""Scalar expressions: rational combinations of products of scalars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.factoring import factors
from quotientgeo.symbolic.algebra.letters import (
    InverseLetter,
    InverseScalar,
    Letter,
    PartLetter,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    Word,
)
from quotientgeo.symbolic.algebra.normalisation import reduce_scalars
from quotientgeo.symbolic.algebra.polynomial import Polynomial, symbols_of

if TYPE_CHECKING:
    import sympy

    from quotientgeo.symbolic.algebra.alphabet import Alphabet


Monomial: TypeAlias = Word  # a product of scalars, sorted; the empty product is the number 1


def _monomial_key(monomial: Monomial) -> tuple[Any, ...]:
    return (len(monomial), tuple(factor.sort_key for factor in monomial))


class TracePolynomial:
    """A scalar: sum of ``coefficient * product of scalars`` over ``terms`` = {monomial: Fraction}.

    A monomial is a sorted tuple of traces (each the least of its rotations and of those of its transpose), scalar symbols
    and inverses of scalars. The trace of an identity of symbolic size stays a factor (its ``letters`` are empty), of a
    numeric size becomes a number. Immutable; ``+ - *`` with its like and with rational numbers.
    """

    __slots__ = ("_sort_key", "alphabet", "terms")

    def __init__(self, alphabet: Alphabet, terms: Mapping[Monomial, Fraction]) -> None:
        self.alphabet = alphabet
        self.terms: Mapping[Monomial, Fraction] = MappingProxyType(dict(terms))
        self._sort_key: tuple[Any, ...] | None = None

    @property
    def is_zero(self) -> bool:
        """Whether the normal form has no term."""
        return not self.terms

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Structural key: equal exactly for equal terms."""
        if self._sort_key is None:
            self._sort_key = tuple((_monomial_key(monomial), coefficient) for monomial, coefficient in self)
        return self._sort_key

    @property
    def lead(self) -> Monomial:
        """The greatest monomial."""
        return max(self.terms, key=_monomial_key)

    def __iter__(self) -> Iterator[tuple[Monomial, Fraction]]:
        return iter(sorted(self.terms.items(), key=lambda term: _monomial_key(term[0])))

    def __len__(self) -> int:
        """Number of terms."""
        return len(self.terms)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TracePolynomial):
            return NotImplemented
        return self.alphabet is other.alphabet and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        from quotientgeo.symbolic.algebra.text import trace_text

        return trace_text(self)

    def symbols(self) -> list[str]:
        """Names of all symbols that occur, sorted."""
        return sorted({name for factor in self.factors() for name in symbols_of(factor)})

    def factors(self) -> list[Letter]:
        """The distinct scalars of all monomials."""
        return list({factor: None for monomial in self.terms for factor in monomial})

    # arithmetic

    def __add__(self, other: TracePolynomial) -> TracePolynomial:
        if self.alphabet is not other.alphabet:
            raise DeclarationError(f"sum: {self} and {other} belong to different alphabets (problems)")
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            _add_monomial(terms, monomial, coefficient)
        return TracePolynomial(self.alphabet, terms)

    def __neg__(self) -> TracePolynomial:
        return self * -1

    def __sub__(self, other: TracePolynomial) -> TracePolynomial:
        return self + other * -1

    def __mul__(self, other: TracePolynomial | Fraction | int) -> TracePolynomial:
        if not isinstance(other, TracePolynomial):
            factor = Fraction(other)
            terms = {monomial: c * factor for monomial, c in self.terms.items()} if factor else {}
            return TracePolynomial(self.alphabet, terms)
        out: dict[Monomial, Fraction] = {}
        for left, c in self.terms.items():
            for right, d in other.terms.items():
                add_product(self.alphabet, out, left + right, c * d)
        return TracePolynomial(self.alphabet, out)

    def __rmul__(self, factor: Fraction | int) -> TracePolynomial:
        return self * factor

    # calculus

    def substitute(self, values: Mapping[str, Polynomial]) -> TracePolynomial:
        """This scalar with each symbol ``name`` replaced by values[name], all at once."""
        from quotientgeo.symbolic.algebra.calculus import scalar_value

        known = {factor: scalar_value(self.alphabet, factor, values) for factor in self.factors()}
        out = scalar(self.alphabet, 0)
        for monomial, coefficient in self.terms.items():
            product = scalar(self.alphabet, coefficient)
            for factor in monomial:
                product = product * known[factor]
            out = out + product
        return out

    def differential(self, directions: Mapping[str, Polynomial]) -> TracePolynomial:
        """Derivative when each symbol ``name`` moves with velocity directions[name]."""
        from quotientgeo.symbolic.algebra.calculus import scalar_differential

        known = {factor: scalar_differential(self.alphabet, factor, directions) for factor in self.factors()}
        out = scalar(self.alphabet, 0)
        for monomial, coefficient in self.terms.items():
            for i, factor in enumerate(monomial):
                rest = TracePolynomial(self.alphabet, {monomial[:i] + monomial[i + 1 :]: coefficient})
                out = out + rest * known[factor]
        return out

    def gradient(self, name: str) -> Polynomial:
        """The matrix D of the symbol's shape with d(self) = tr(D' d name); for a linear scalar, its coefficient.

        For a symmetric, skew, diagonal or complex diagonal symbol D is of the same kind.
        """
        from quotientgeo.symbolic.algebra.gradient import gradient

        return gradient(self, name)

    def occurrences(self, name: str) -> set[int | None]:
        """How often ``name`` occurs in the terms; None stands for an occurrence inside an inverse."""
        return {_count(monomial, name) for monomial in self.terms}

    def to_sympy(self) -> sympy.Expr:
        """The same scalar in SymPy (Add and Mul of rationals, Trace, symbols and inverse powers)."""
        from quotientgeo.symbolic.algebra.sympy_output import trace_to_sympy

        return trace_to_sympy(self)


def scalar(alphabet: Alphabet, value: Fraction | int) -> TracePolynomial:
    """A rational number as a TracePolynomial."""
    return TracePolynomial(alphabet, {(): Fraction(value)} if value else {})


def one_over(value: TracePolynomial) -> TracePolynomial:
    """1 / value: factor by factor for a product, one interned letter for a sum."""
    alphabet = value.alphabet
    if value.is_zero:
        raise DeclarationError("division by a scalar that is zero")
    if len(value) > 1:
        constant, found = factors(value.alphabet, value.terms)
        out = scalar(alphabet, 1 / constant)
        for terms, power in found:
            factor = TracePolynomial(alphabet, terms)
            once = one_over(factor) if len(factor) == 1 else _interned(factor)
            for _ in range(power):
                out = out * once
        return out
    ((monomial, coefficient),) = value.terms.items()
    out = scalar(alphabet, 1 / coefficient)
    for letter in monomial:
        if isinstance(letter, InverseScalar):
            out = out * letter.argument
        else:
            out = out * _interned(TracePolynomial(alphabet, {(letter,): Fraction(1)}))
    return out


def _interned(value: TracePolynomial) -> TracePolynomial:
    scale, letter = value.alphabet.inverse_scalar(value)
    return TracePolynomial(value.alphabet, {(letter,): scale})


def _add_monomial(terms: dict[Monomial, Fraction], monomial: Monomial, coefficient: Fraction) -> None:
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def add_product(alphabet: Alphabet, terms: dict[Monomial, Fraction], factors: Word, coefficient: Fraction) -> None:
    """Add a product of scalars in normal form."""
    stack = [(factors, coefficient)]
    while stack:
        current, c = stack.pop()
        step = reduce_scalars(alphabet, current) if alphabet.special else None
        if step is None:
            _add_monomial(terms, tuple(sorted(current, key=lambda factor: factor.sort_key)), c)
        else:
            stack.extend((shorter, c * d) for shorter, d in step)


def _count(monomial: Monomial, name: str) -> int | None:
    total = 0
    for factor in monomial:
        found = _count_in(factor, name)
        if found is None:
            return None
        total += found
    return total


def _count_in(letter: Letter, name: str) -> int | None:
    match letter:
        case SymbolLetter():
            return None if letter.inverted and letter.name == name else int(letter.name == name)
        case ScalarSymbol():
            return int(letter.name == name)
        case InverseLetter() | InverseScalar():
            return None if name in letter.argument.symbols() else 0
        case TraceLetter() | PartLetter():
            found = [
                _count_in(inner, name) for inner in (letter.letters if isinstance(letter, TraceLetter) else letter.word)
            ]
            return None if None in found else sum(count or 0 for count in found)
    return 0
