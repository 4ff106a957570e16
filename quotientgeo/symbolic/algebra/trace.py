"""Scalar expressions: rational combinations of products of scalars, traces in cyclic-and-transpose normal form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.factoring import factors
from quotientgeo.symbolic.algebra.letters import (
    Dimension,
    InverseLetter,
    InverseScalar,
    Letter,
    OnesLetter,
    PartLetter,
    ScalarLetter,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    Word,
    split_scalars,
    word_key,
)
from quotientgeo.symbolic.algebra.normalisation import arranged, is_vector_part, normalise, reduce_scalars, runs
from quotientgeo.symbolic.algebra.polynomial import Polynomial, symbols_of
from quotientgeo.symbolic.algebra.rewriting import Terms, add_term, reduce_word

if TYPE_CHECKING:
    import sympy

    from quotientgeo.symbolic.algebra.alphabet import Alphabet


Monomial: TypeAlias = tuple[ScalarLetter, ...]  # a product of scalars, sorted; the empty product is the number 1


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

    def factors(self) -> list[ScalarLetter]:
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
                _add_product(self.alphabet, out, left + right, c * d)
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
        constant, found = factors(value.terms)
        out = scalar(alphabet, 1 / constant)
        for terms, power in found:
            factor = TracePolynomial(alphabet, terms)  # type: ignore[arg-type]
            once = one_over(factor) if len(factor) == 1 else _interned(factor)
            for _ in range(power):
                out = out * once
        return out
    ((monomial, coefficient),) = value.terms.items()
    out = scalar(alphabet, 1 / coefficient)
    for factor in monomial:
        if isinstance(factor, InverseScalar):
            out = out * factor.argument
        else:
            out = out * _interned(TracePolynomial(alphabet, {(factor,): Fraction(1)}))
    return out


def _interned(value: TracePolynomial) -> TracePolynomial:
    scale, letter = value.alphabet.inverse_scalar(value)
    return TracePolynomial(value.alphabet, {(letter,): scale})


def trace(polynomial: Polynomial) -> TracePolynomial:
    """Trace of a square polynomial, in cyclic-and-transpose normal form; a word equal to minus itself vanishes."""
    if polynomial.shape[0] != polynomial.shape[1]:
        raise DeclarationError(f"trace of {polynomial}: its shape {polynomial.shape} is not square")
    alphabet = polynomial.alphabet
    terms: dict[Monomial, Fraction] = {}
    stack = [(*split_scalars(word), polynomial.shape[0], coefficient) for word, coefficient in polynomial.terms.items()]
    while stack:
        scalars, word, size, coefficient = stack.pop()
        reduced = _cyclic_step(alphabet, word)
        if reduced is not None:
            # a rotated word may shrink to an identity of another size: (G'G)^-1 is h x h, G (G'G)^-1 G' is n x n
            for shorter, c in reduced.terms.items():
                more, matrices = split_scalars(shorter)
                stack.append((scalars + more, matrices, reduced.shape[0], coefficient * c))
            continue
        blocks = _unit_blocks(word)
        if not word:
            factor = _identity(alphabet, size)
        elif len(blocks) > 1:
            factor = scalar(alphabet, 1)
            for block in blocks:
                factor = factor * trace(alphabet.monomial(block))
        else:
            factor = _cyclic(alphabet, blocks[0])
        for monomial, c in factor.terms.items():
            _add_product(alphabet, terms, scalars + monomial, coefficient * c)  # type: ignore[arg-type]
    return TracePolynomial(alphabet, terms)


def _add_monomial(terms: dict[Monomial, Fraction], monomial: Monomial, coefficient: Fraction) -> None:
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def _add_product(alphabet: Alphabet, terms: dict[Monomial, Fraction], factors: Word, coefficient: Fraction) -> None:
    """Add a product of scalars in normal form."""
    stack = [(factors, coefficient)]
    while stack:
        current, c = stack.pop()
        step = reduce_scalars(alphabet, current) if alphabet.special else None
        if step is None:
            _add_monomial(terms, tuple(sorted(current, key=lambda factor: factor.sort_key)), c)  # type: ignore[arg-type]
        else:
            stack.extend((shorter, c * d) for shorter, d in step)


def _identity(alphabet: Alphabet, size: Dimension) -> TracePolynomial:
    if isinstance(size, int):
        return scalar(alphabet, size)
    return TracePolynomial(alphabet, {(alphabet.trace_letter((), size),): Fraction(1)})


def _cyclic(alphabet: Alphabet, word: Word) -> TracePolynomial:
    """The trace of a word that no rotation shortens."""
    if alphabet.special:
        word, factor = _with_parts(alphabet, word)
        if factor is not None:
            return factor
    sign, letters = _least_rotation(alphabet, word)
    if not sign:
        return scalar(alphabet, 0)
    return TracePolynomial(alphabet, {(alphabet.trace_letter(letters, letters[0].rows),): sign})


def _starts(word: Word) -> list[int]:
    """Where a rotation may start: not inside a run of commuting letters, unless all of the word is one."""
    if all(letter.family is not None and letter.family is word[0].family for letter in word):
        return [0]
    return [i for i in range(len(word)) if word[i].family is None or word[i - 1].family is not word[i].family]


def _cyclic_step(alphabet: Alphabet, word: Word) -> Polynomial | None:
    """The reduced form of the first rotation that reduces, or None when no rotation does."""
    if alphabet.special:
        for i in _starts(word) if word else ():
            rotated = arranged(word[i:] + word[:i])
            found = normalise(alphabet, rotated, blocks=False)
            if found != [(rotated, 1)]:
                reduced: Terms = {}
                for shorter, c in found:
                    add_term(reduced, shorter, c)
                return Polynomial(alphabet, reduced, (rotated[0].rows, rotated[0].rows))
        return None
    for i in range(1, len(word)):
        rotated = word[i:] + word[:i]
        reduced = reduce_word(alphabet, rotated)
        if reduced != {rotated: 1}:
            return Polynomial(alphabet, reduced, (rotated[0].rows, rotated[0].rows))
    return None


def _unit_blocks(word: Word) -> list[Word]:
    """A cyclic word cut wherever its inner size is 1: the trace is the product of the traces of the pieces."""
    cuts = [i for i, letter in enumerate(word) if letter.rows == 1]
    if len(cuts) < 2:
        return [word[cuts[0] :] + word[: cuts[0]]] if cuts else [word]
    turned = word[cuts[0] :] + word[: cuts[0]]
    places = [cut - cuts[0] for cut in cuts]
    return [turned[i:j] for i, j in zip(places, [*places[1:], len(turned)], strict=True)]


def _with_parts(alphabet: Alphabet, word: Word) -> tuple[Word, TracePolynomial | None]:
    """tr(E(w) D) = tr(w D) for D in a commuting algebra: where all but one stretch is in it, one form of the two is chosen.

    The stretch is wrapped, E(w); where that leaves one projection only, it is unwrapped again.
    """
    families = {letter.family for letter in word} - {None}
    if len(families) != 1:
        return word, None
    (family,) = families
    assert family is not None
    turned = word
    starts = _starts(word)
    if len(starts) > 1:
        first = next(i for i in starts if word[i].family is family)
        turned = word[first:] + word[:first]
    spans = runs(turned)
    if len(spans) == 1 and spans[0][1] < len(turned):
        run, rest = turned[: spans[0][1]], turned[spans[0][1] :]
        ends = [isinstance(letter, OnesLetter) for letter in (rest[0], rest[-1])]
        if any(ends) and not (all(ends) and len(rest) == 2):
            return word, None  # columns are not wrapped: E(x 1') 1 = x
        wrapped = alphabet.monomial(rest).part(family)
        joined = alphabet.monomial(run) * wrapped
        if all(isinstance(letter, PartLetter) or letter.family is family for w in joined.terms for letter in w):
            return word, _unwrapped(alphabet, joined)
    if len(spans) == 1:
        return word, _unwrapped(alphabet, alphabet.monomial(turned))
    return word, None


def _unwrapped(alphabet: Alphabet, joined: Polynomial) -> TracePolynomial:
    """The trace of a polynomial in one commuting algebra."""
    out = scalar(alphabet, 0)
    for word, coefficient in joined.terms.items():
        scalars, letters = split_scalars(word)
        parts = [letter for letter in letters if isinstance(letter, PartLetter)]
        if not letters:
            term = _identity(alphabet, joined.shape[0])
        elif columns := [part for part in parts if is_vector_part(part)]:
            part = max(columns, key=lambda letter: letter.sort_key)
            rest = joined.alphabet.identity(joined.shape[0])
            for letter in (*letters[: letters.index(part)], *letters[letters.index(part) + 1 :]):
                rest = rest * joined.alphabet.monomial((letter,))
            term = trace(joined.alphabet.monomial(part.word) * rest)
        elif len(letters) == 1 and parts:
            term = trace(joined.alphabet.monomial(parts[0].word))
        else:
            if len(parts) == 1:
                i = letters.index(parts[0])
                letters = parts[0].word + letters[i + 1 :] + letters[:i]
            sign, least = _least_rotation(alphabet, arranged(letters))
            term = TracePolynomial(alphabet, {(alphabet.trace_letter(least, least[0].rows),): sign} if sign else {})
        out = out + TracePolynomial(alphabet, {scalars: coefficient}) * term  # type: ignore[dict-item]
    return out


def _transposed_word(alphabet: Alphabet, word: Word) -> tuple[Fraction, Word]:
    sign = Fraction(1)
    letters: list[Letter] = []
    for letter in reversed(word):
        factor, transposed = alphabet.transpose(letter)
        sign *= factor
        letters.append(transposed)
    return sign, arranged(tuple(letters)) if alphabet.special else tuple(letters)


def _least_rotation(alphabet: Alphabet, word: Word) -> tuple[Fraction, Word]:
    """(c, least) with tr(word) = c tr(least) over rotations of the word and of its transpose; c = 0 if tr(word) = 0."""
    factor, transposed = _transposed_word(alphabet, word)
    plain, mirrored = (min(_rotations(alphabet, w), key=word_key) for w in (word, transposed))
    if plain == mirrored:
        return (Fraction(1) if factor == 1 else Fraction(0)), plain
    return (Fraction(1), plain) if word_key(plain) < word_key(mirrored) else (factor, mirrored)


def _rotations(alphabet: Alphabet, word: Word) -> list[Word]:
    if alphabet.special:
        return [arranged(word[i:] + word[:i]) for i in _starts(word)]
    return [word[i:] + word[:i] for i in range(len(word))]


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
