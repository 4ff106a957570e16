"""Linear matrix equations that a one-sided inverse solves."""

from __future__ import annotations

from fractions import Fraction

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.algebra.letters import InverseLetter, SymbolLetter, Word, word_key
from quotientgeo.symbolic.algebra.polynomial import Polynomial
from quotientgeo.symbolic.algebra.rewriting import Terms, add_term


def solve_linear(equation: Polynomial, unknown: str) -> Polynomial:
    """The value of the symbol ``unknown`` at which ``equation`` is zero, for equations L unknown R + rest = 0.

    L and R may be sums. A sum L_1 x R_1 + L_2 x R_2 + ... that is no such product (a Sylvester-type equation), or an
    equation that contains the unknown transposed, inverted or not at all, raises NotDerivableError.
    """
    alphabet = equation.alphabet
    rows, columns = alphabet.shape(unknown)
    rest: Terms = {}
    sides: dict[tuple[Word, Word], Fraction] = {}
    for word, coefficient in equation.terms.items():
        place = _place(word, unknown)
        if place is None:
            rest[word] = coefficient
        else:
            sides[word[:place], word[place + 1 :]] = coefficient
    if not sides:
        raise NotDerivableError(f"the equation for {unknown} does not contain it: {equation} = 0")
    left, right = _factorise(sides, equation, unknown)
    left_factor = Polynomial(alphabet, left, (equation.shape[0], rows))
    right_factor = Polynomial(alphabet, right, (columns, equation.shape[1]))
    constant = Polynomial(alphabet, rest, equation.shape)
    return -(left_factor.inverse() * constant * right_factor.inverse())


def _place(word: Word, unknown: str) -> int | None:
    """Position of the unknown in a word, None if absent."""
    places = []
    for i, letter in enumerate(word):
        if isinstance(letter, SymbolLetter) and letter.name == unknown:
            if letter.transposed or letter.inverted:
                raise NotDerivableError(
                    f"the equation for {unknown} contains {letter}: no one-sided solution exists for such an equation"
                )
            places.append(i)
        elif isinstance(letter, InverseLetter) and unknown in letter.argument.symbols():
            raise NotDerivableError(f"the equation for {unknown} contains it inside {letter}, so it is not linear")
    if len(places) > 1:
        raise NotDerivableError(f"the equation for {unknown} is not linear in it: {' '.join(map(repr, word))}")
    return places[0] if places else None


def _factorise(
    sides: dict[tuple[Word, Word], Fraction], equation: Polynomial, unknown: str
) -> tuple[dict[Word, Fraction], dict[Word, Fraction]]:
    """Write sum c_ij L_i x R_j as (sum l_i L_i) x (sum r_j R_j): the coefficients must form a matrix of rank one."""
    pivot = min(sides, key=lambda pair: (word_key(pair[0]), word_key(pair[1])))
    left = {one: c / sides[pivot] for (one, other), c in sides.items() if other == pivot[1]}
    right = {other: c for (one, other), c in sides.items() if one == pivot[0]}
    product: dict[tuple[Word, Word], Fraction] = {(a, b): c * d for a, c in left.items() for b, d in right.items()}
    if product != sides:
        terms: Terms = {}
        letter = equation.alphabet.symbol_letter(unknown)
        for (a, b), c in sides.items():
            add_term(terms, (*a, letter, *b), c)
        operator = Polynomial(equation.alphabet, terms, equation.shape)
        raise NotDerivableError(
            f"the equation for {unknown} is of Sylvester type (a sum of two-sided products that is no single product): "
            f"{operator} = ...; only metrics whose weight acts from one side on each factor can be solved symbolically"
        )
    return left, right
