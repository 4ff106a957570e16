"""Plain text of polynomials: G' for the transpose, A^-1 and (G' G)^-1 for inverses, tr(...) for traces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.letters import Word
    from quotientgeo.symbolic.algebra.polynomial import Polynomial
    from quotientgeo.symbolic.algebra.trace import TracePolynomial

_POWER = re.compile(r"\^-?\d+$")


def product_text(factors: Iterable[str]) -> str:
    """Factors separated by spaces; what repeats becomes a power, ``A^2`` or ``A^-2``, unless it is transposed."""
    out = []
    for factor, same in groupby(factors):
        count = len(list(same))
        if count == 1 or factor.endswith(("'", "^-T")):
            out += [factor] * count
        else:
            base, _, exponent = factor.rpartition("^") if _POWER.search(factor) else (factor, "", "1")
            out.append(f"{base}^{int(exponent) * count}")
    return " ".join(out)


def word_text(word: Word) -> str:
    """Letters separated by spaces, ``I`` for the empty word."""
    return product_text(map(repr, word)) or "I"


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
    return sum_text((product_text(map(repr, monomial)), coefficient) for monomial, coefficient in trace)
