"""Plain text of polynomials: G' for the transpose, A^-1 and (G' G)^-1 for inverses, tr(...) for traces."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.letters import Word
    from quotientgeo.symbolic.algebra.polynomial import Polynomial
    from quotientgeo.symbolic.algebra.trace import TracePolynomial


def word_text(word: Word) -> str:
    """Letters separated by spaces, ``I`` for the empty word."""
    return " ".join(map(repr, word)) or "I"


def sum_text(terms: Iterable[tuple[str, Fraction]]) -> str:
    """``2 x - 1/2 y`` from (text, coefficient) pairs; an empty text stands for the number 1."""
    out = ""
    for text, coefficient in terms:
        sign = "-" if coefficient < 0 else "+"
        size = abs(coefficient)
        body = text if size == 1 and text else f"{size} {text}".rstrip()
        out += f" {sign} {body}" if out else (f"-{body}" if sign == "-" else body)
    return out or "0"


def polynomial_text(polynomial: Polynomial) -> str:
    """Text of a matrix polynomial."""
    return sum_text((word_text(word), coefficient) for word, coefficient in polynomial)


def trace_text(trace: TracePolynomial) -> str:
    """Text of a scalar."""
    return sum_text((" ".join(map(repr, monomial)), coefficient) for monomial, coefficient in trace)
