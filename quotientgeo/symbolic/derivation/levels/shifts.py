"""Factors with an affine action, read as what is moved linearly: 1 + w where w is moved to A (1 + w) - 1.

Any w is 1 + w less 1, so what is proven for all values of the letter that stands for 1 + w is proven for all w.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from quotientgeo.symbolic.algebra import Alphabet, Polynomial, TracePolynomial
from quotientgeo.symbolic.algebra.polynomial import symbols_of

T = TypeVar("T", Polynomial, TracePolynomial)


def linear_points(
    alphabet: Alphabet, moved: Mapping[str, Polynomial], elements: Collection[str]
) -> dict[str, Polynomial]:
    """Each factor plus what makes an affine action linear, from the moved factors {factor: polynomial}."""
    origin = {factor: alphabet.zero(value.shape) for factor, value in moved.items()}
    out = {}
    for factor, value in moved.items():
        at_origin = value.substitute(origin)
        fixed = {
            word: c
            for word, c in at_origin
            if not {name for letter in word for name in symbols_of(letter)} & set(elements)
        }
        out[factor] = alphabet[factor] - Polynomial(alphabet, fixed, at_origin.shape)
    return out


class Shifts:
    """``points``: {factor: what its letter stands for in shifted formulas}, of the factors where that is not the factor."""

    def __init__(self, alphabet: Alphabet, points: Mapping[str, Polynomial]) -> None:
        self._alphabet = alphabet
        self.points = {factor: point for factor, point in points.items() if point != alphabet[factor]}
        self._back = {factor: alphabet[factor] * 2 - point for factor, point in self.points.items()}

    def shifted(self, formula: T) -> T:
        """The formula in letters that stand for the points."""
        return formula.substitute(self._back) if self._back else formula

    def restored(self, formula: T) -> T:
        """A shifted formula in the factors again."""
        return formula.substitute(self.points) if self.points else formula

    def point(self, factor: str) -> Polynomial:
        """What the factor's letter stands for, in the factors."""
        return self.points.get(factor, self._alphabet[factor])

    def text(self, factor: str) -> str:
        """``w``, or ``1 + w``."""
        return str(self.point(factor)).replace(str(self._alphabet[factor]), factor)
