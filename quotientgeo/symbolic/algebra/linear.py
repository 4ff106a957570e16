"""Linear matrix equations that a one-sided inverse solves."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.algebra.letters import (
    COMMUTING,
    SCALARS,
    Kind,
    Letter,
    OnesLetter,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    Word,
    split_scalars,
    word_key,
)
from quotientgeo.symbolic.algebra.normalisation import runs
from quotientgeo.symbolic.algebra.polynomial import Polynomial, symbols_of
from quotientgeo.symbolic.algebra.rewriting import Terms, add_term
from quotientgeo.symbolic.algebra.trace import TracePolynomial, one_over, scalar

Side = tuple[Word, Word]  # what stands left and right of the unknown


def solve_linear(equation: Polynomial, unknown: str) -> Polynomial:
    """The value of the symbol ``unknown`` at which ``equation`` is zero, for equations c L unknown R + rest = 0.

    L and R may be sums, c a number. A sum L_1 x R_1 + L_2 x R_2 + ... that is no such product (a Sylvester-type equation), or an
    equation that contains the unknown transposed, inverted or not at all, raises NotDerivableError.
    """
    alphabet = equation.alphabet
    rows, columns = alphabet.shape(unknown)
    rest: Terms = {}
    sides: dict[Side, TracePolynomial] = {}
    for word, coefficient in equation.terms.items():
        place = _place(word, unknown, alphabet.kind(unknown))
        if place is None:
            rest[word] = coefficient
        else:
            numbers, side = place
            number = TracePolynomial(alphabet, {numbers: coefficient})
            sides[side] = sides.get(side, scalar(alphabet, 0)) + number
    sides = {side: number for side, number in sides.items() if not number.is_zero}
    if not sides:
        raise NotDerivableError(f"the equation for {unknown} does not contain it: {equation} = 0")
    left, right = _factorise(sides, equation, unknown)
    left_factor = _sum(left, equation, (equation.shape[0], rows))
    right_factor = _sum(right, equation, (columns, equation.shape[1]))
    constant = Polynomial(alphabet, rest, equation.shape)
    return -(left_factor.inverse() * constant * right_factor.inverse())


def _sum(terms: dict[Word, TracePolynomial], equation: Polynomial, shape: tuple[str | int, str | int]) -> Polynomial:
    out = equation.alphabet.zero(shape)
    for word, number in terms.items():
        out = out + Polynomial(equation.alphabet, {word: Fraction(1)}, shape).scaled(number)
    return out


def _place(word: Word, unknown: str, kind: Kind) -> tuple[Word, Side] | None:
    """(scalars, what stands left and right of the unknown), None where it is absent."""
    scalars, matrices = split_scalars(word)
    if kind in SCALARS or any(_is_entry(letter, unknown) for letter in scalars):
        found = [i for i, letter in enumerate(scalars) if _is_entry(letter, unknown)]
        others = scalars[: found[0]] + scalars[found[0] + 1 :] if found else scalars
        _check_absent((*others, *matrices), unknown)
        return (others, (matrices, ())) if found else None
    places = [i for i, letter in enumerate(matrices) if isinstance(letter, SymbolLetter) and letter.name == unknown]
    for i in places:
        letter = matrices[i]
        assert isinstance(letter, SymbolLetter)
        if letter.transposed or letter.inverted:
            raise NotDerivableError(
                f"the equation for {unknown} contains {letter}: no one-sided solution exists for such an equation"
            )
    _check_absent([letter for i, letter in enumerate(word) if i - len(scalars) not in places], unknown)
    if len(places) > 1:
        raise NotDerivableError(f"the equation for {unknown} is not linear in it: {' '.join(map(repr, word))}")
    if not places:
        return None
    (i,) = places
    left, right = matrices[:i], matrices[i + 1 :]
    if kind in COMMUTING or kind is Kind.VECTOR:  # inside a run the unknown may stand last
        end = next(end for start, end in runs(matrices) if start <= i < end)
        left, right = (*matrices[:i], *matrices[i + 1 : end]), matrices[end:]
    if kind is Kind.VECTOR:
        if not right or not isinstance(right[0], OnesLetter) or right[0].transposed:
            raise NotDerivableError(
                f"the equation for {unknown} contains its diagonal matrix inside a product: {' '.join(map(repr, word))}"
            )
        right = right[1:]
    return scalars, (left, right)


def _is_entry(letter: Letter, unknown: str) -> bool:
    """Whether a number is the unknown: a scalar symbol, or the only entry of a matrix of shape (1, 1)."""
    if isinstance(letter, TraceLetter) and len(letter.letters) == 1:
        (inside,) = letter.letters
        return (
            isinstance(inside, SymbolLetter)
            and inside.name == unknown
            and inside.shape == (1, 1)
            and not inside.inverted
        )
    return isinstance(letter, ScalarSymbol) and letter.name == unknown


def _check_absent(letters: Iterable[Letter], unknown: str) -> None:
    for letter in letters:
        if unknown in symbols_of(letter):
            raise NotDerivableError(
                f"the equation for {unknown} contains it inside {letter}: it has no one-sided solution"
            )


def _factorise(
    sides: dict[Side, TracePolynomial], equation: Polynomial, unknown: str
) -> tuple[dict[Word, TracePolynomial], dict[Word, TracePolynomial]]:
    """Write sum c_ij L_i x R_j as (sum l_i L_i) x (sum r_j R_j): the coefficients must form a matrix of rank one."""
    pivot = min(sides, key=lambda pair: (word_key(pair[0]), word_key(pair[1])))
    scale = one_over(sides[pivot])
    left = {one: c * scale for (one, other), c in sides.items() if other == pivot[1]}
    right = {other: c for (one, other), c in sides.items() if one == pivot[0]}
    product = {(a, b): c * d for a, c in left.items() for b, d in right.items()}
    if product != sides:
        terms: Terms = {}
        letter = equation.alphabet[unknown]
        for (a, b), c in sides.items():
            for scalars, d in c.terms.items():
                for middle, e in letter.terms.items():
                    add_term(terms, (*scalars, *a, *middle, *b), d * e)
        operator = Polynomial(equation.alphabet, terms, equation.shape)
        raise NotDerivableError(
            f"the equation for {unknown} is of Sylvester type (a sum of two-sided products that is no single product): "
            f"{operator} = ...; only metrics whose weight acts from one side on each factor can be solved symbolically"
        )
    return left, right
