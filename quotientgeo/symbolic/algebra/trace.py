"""Scalar expressions: rational combinations of products of traces, in cyclic-and-transpose normal form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from quotientgeo.errors import DeclarationError, NotDerivableError
from quotientgeo.symbolic.algebra.letters import Dimension, InverseLetter, Kind, Letter, SymbolLetter, Word, word_key
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.rewriting import reduce_word

if TYPE_CHECKING:
    import sympy

    from quotientgeo.symbolic.algebra.alphabet import Alphabet


class CyclicWord(NamedTuple):
    """The trace of a word; ``size`` is its number of rows, which for the empty word is the value of the trace."""

    letters: Word
    size: Dimension


Monomial: TypeAlias = tuple[CyclicWord, ...]  # a product of traces; the empty product is the number 1


def _monomial_key(monomial: Monomial) -> tuple[object, ...]:
    return (len(monomial), tuple((word_key(factor.letters), str(factor.size)) for factor in monomial))


def _sorted_monomial(factors: Monomial) -> Monomial:
    return tuple(sorted(factors, key=lambda factor: (word_key(factor.letters), str(factor.size))))


class TracePolynomial:
    """A scalar: sum of ``coefficient * product of traces`` over ``terms`` = {monomial: Fraction}.

    A monomial is a sorted tuple of CyclicWords, each the least of its rotations and of those of its transpose. The trace
    of an identity of symbolic size stays a factor (its ``letters`` are empty), of a numeric size becomes a number.
    Immutable; ``+ - *`` with its like and with rational numbers.
    """

    __slots__ = ("alphabet", "terms")

    def __init__(self, alphabet: Alphabet, terms: Mapping[Monomial, Fraction]) -> None:
        self.alphabet = alphabet
        self.terms: Mapping[Monomial, Fraction] = MappingProxyType(dict(terms))

    @property
    def is_zero(self) -> bool:
        """Whether the normal form has no term."""
        return not self.terms

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
        found: set[str] = set()
        for monomial in self.terms:
            for factor in monomial:
                if factor.letters:
                    found.update(self.alphabet.monomial(factor.letters).symbols())
        return sorted(found)

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
                _add_monomial(out, _sorted_monomial(left + right), c * d)
        return TracePolynomial(self.alphabet, out)

    def __rmul__(self, factor: Fraction | int) -> TracePolynomial:
        return self * factor

    # calculus

    def _map(self, function: Mapping[CyclicWord, TracePolynomial]) -> TracePolynomial:
        out = scalar(self.alphabet, 0)
        for monomial, coefficient in self.terms.items():
            product = scalar(self.alphabet, coefficient)
            for factor in monomial:
                product = product * function[factor]
            out = out + product
        return out

    def _factors(self) -> list[CyclicWord]:
        return list({factor: None for monomial in self.terms for factor in monomial})

    def substitute(self, values: Mapping[str, Polynomial]) -> TracePolynomial:
        """This scalar with each symbol ``name`` replaced by values[name], all at once."""
        return self._map({factor: trace(self._word(factor).substitute(values)) for factor in self._factors()})

    def differential(self, directions: Mapping[str, Polynomial]) -> TracePolynomial:
        """Derivative when each symbol ``name`` moves with velocity directions[name]."""
        out = scalar(self.alphabet, 0)
        for monomial, coefficient in self.terms.items():
            for i, factor in enumerate(monomial):
                rest = TracePolynomial(self.alphabet, {monomial[:i] + monomial[i + 1 :]: coefficient})
                out = out + rest * trace(self._word(factor).differential(directions))
        return out

    def gradient(self, name: str) -> Polynomial:
        """The matrix D of the symbol's shape with d(self) = tr(D' d name); for a linear scalar, its coefficient.

        For a symmetric (skew) symbol D is symmetric (skew). Products of traces have no gradient inside this algebra, whose
        coefficients are rational: NotDerivableError.
        """
        shape, kind = self.alphabet.shape(name), self.alphabet.kind(name)
        if kind is Kind.ORTHOGONAL:
            raise NotDerivableError(f"gradient with respect to the orthogonal symbol {name}: differentiate along Q K")
        out = self.alphabet.zero(shape)
        for monomial, coefficient in self.terms.items():
            holding = [factor for factor in monomial if name in _symbols_of(self.alphabet, factor)]
            if not holding:
                continue
            if len(monomial) > 1:
                raise NotDerivableError(
                    f"gradient of a product of traces with respect to {name}: the coefficient would be a trace, and only "
                    "rational coefficients are supported; write the metric as a sum of single traces"
                )
            word = holding[0].letters
            for i, letter in enumerate(word):
                context = word[i + 1 :] + word[:i]
                around = self.alphabet.monomial(context) if context else self.alphabet.identity(letter.rows)
                out = out + _pull_back(letter, around, name, shape) * coefficient
        if kind is Kind.SYMMETRIC:
            return (out + out.T) * Fraction(1, 2)
        if kind is Kind.SKEW:
            return (out - out.T) * Fraction(1, 2)
        return out

    def occurrences(self, name: str) -> set[int | None]:
        """How often ``name`` occurs in the terms; None stands for an occurrence inside the inverse of a sum or product."""
        return {_count(self.alphabet, monomial, name) for monomial in self.terms}

    def _word(self, factor: CyclicWord) -> Polynomial:
        return self.alphabet.monomial(factor.letters) if factor.letters else self.alphabet.identity(factor.size)

    def to_sympy(self) -> sympy.Expr:
        """The same scalar in SymPy (Add and Mul of rationals and Trace)."""
        from quotientgeo.symbolic.algebra.sympy_output import trace_to_sympy

        return trace_to_sympy(self)


def scalar(alphabet: Alphabet, value: Fraction | int) -> TracePolynomial:
    """A rational number as a TracePolynomial."""
    return TracePolynomial(alphabet, {(): Fraction(value)} if value else {})


def trace(polynomial: Polynomial) -> TracePolynomial:
    """Trace of a square polynomial, in cyclic-and-transpose normal form; a word equal to minus itself vanishes."""
    if polynomial.shape[0] != polynomial.shape[1]:
        raise DeclarationError(f"trace of {polynomial}: its shape {polynomial.shape} is not square")
    alphabet = polynomial.alphabet
    terms: dict[Monomial, Fraction] = {}
    stack = list(polynomial.terms.items())
    while stack:
        word, coefficient = stack.pop()
        size = word[0].rows if word else polynomial.shape[0]
        reduced = _cyclic_step(alphabet, word)
        if reduced is not None:
            # a rotated word may shrink to an identity of another size: (G'G)^-1 is h x h, G (G'G)^-1 G' is n x n
            for shorter, c in reduced.terms.items():
                if shorter:
                    stack.append((shorter, coefficient * c))
                else:
                    _add_identity(terms, reduced.shape[0], coefficient * c)
        elif not word:
            _add_identity(terms, size, coefficient)
        else:
            sign, letters = _least_rotation(alphabet, word)
            if sign:
                _add_monomial(terms, (CyclicWord(letters, letters[0].rows),), coefficient * sign)
    return TracePolynomial(alphabet, terms)


def _add_monomial(terms: dict[Monomial, Fraction], monomial: Monomial, coefficient: Fraction) -> None:
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def _add_identity(terms: dict[Monomial, Fraction], size: Dimension, coefficient: Fraction) -> None:
    if isinstance(size, int):
        _add_monomial(terms, (), coefficient * size)
    else:
        _add_monomial(terms, (CyclicWord((), size),), coefficient)


def _cyclic_step(alphabet: Alphabet, word: Word) -> Polynomial | None:
    """The reduced form of the first rotation that reduces, or None when no rotation does."""
    for i in range(1, len(word)):
        rotated = word[i:] + word[:i]
        reduced = reduce_word(alphabet, rotated)
        if reduced != {rotated: 1}:
            return Polynomial(alphabet, reduced, (rotated[0].rows, rotated[0].rows))
    return None


def _transposed_word(alphabet: Alphabet, word: Word) -> tuple[Fraction, Word]:
    sign = Fraction(1)
    letters: list[Letter] = []
    for letter in reversed(word):
        factor, transposed = alphabet.transpose(letter)
        sign *= factor
        letters.append(transposed)
    return sign, tuple(letters)


def _least_rotation(alphabet: Alphabet, word: Word) -> tuple[Fraction, Word]:
    """(c, least) with tr(word) = c tr(least) over rotations of the word and of its transpose; c = 0 if tr(word) = 0."""
    factor, transposed = _transposed_word(alphabet, word)
    plain = min((word[i:] + word[:i] for i in range(len(word))), key=word_key)
    mirrored = min((transposed[i:] + transposed[:i] for i in range(len(word))), key=word_key)
    if plain == mirrored:
        return (Fraction(1) if factor == 1 else Fraction(0)), plain
    return (Fraction(1), plain) if word_key(plain) < word_key(mirrored) else (factor, mirrored)


def _pull_back(letter: Letter, context: Polynomial, name: str, shape: tuple[Dimension, Dimension]) -> Polynomial:
    """Gradient of tr(letter context) with respect to ``name``, the context held fixed."""
    alphabet = context.alphabet
    if isinstance(letter, InverseLetter):
        here = alphabet.monomial((letter,))
        context = -(here * context * here)  # tr(d(p^-1) C) = tr(dp (-p^-1 C p^-1))
        out = alphabet.zero(shape)
        for word, coefficient in letter.argument.terms.items():
            for j, inner in enumerate(word):
                before = alphabet.monomial(word[:j]) if j else alphabet.identity(letter.rows)
                after = alphabet.monomial(word[j + 1 :]) if word[j + 1 :] else alphabet.identity(letter.rows)
                out = out + _pull_back(inner, after * context * before, name, shape) * coefficient
        return out
    assert isinstance(letter, SymbolLetter)
    if letter.name != name:
        return alphabet.zero(shape)
    if letter.inverted:
        here = alphabet.monomial((letter,))
        context = -(here * context * here)
    return context if letter.transposed else context.T


def _symbols_of(alphabet: Alphabet, factor: CyclicWord) -> list[str]:
    return alphabet.monomial(factor.letters).symbols() if factor.letters else []


def _count(alphabet: Alphabet, monomial: Monomial, name: str) -> int | None:
    total = 0
    for factor in monomial:
        for letter in factor.letters:
            if isinstance(letter, SymbolLetter):
                if letter.name == name and letter.inverted:
                    return None
                total += letter.name == name
            elif isinstance(letter, InverseLetter) and name in letter.argument.symbols():
                return None
    return total
