"""Squares completed: sum of c_i |A_i|^2 plus products 2 g_ij tr(A_i' A_j) as a sum of squares of sums of the A_i."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from fractions import Fraction

from quotientgeo.symbolic.algebra import Polynomial, TracePolynomial, trace

Combination = tuple[Fraction, dict[int, Fraction]]  # (c, {i: weight}) for c |sum of weight A_i|^2, c > 0


def completed(coefficients: Sequence[Fraction], values: Sequence[Polynomial], cross: TracePolynomial) -> (
    list[Combination] | None
):  # fmt: skip
    """The sum of coefficients_i |values_i|^2 and ``cross`` as squares of combinations, or None where that is not found."""
    gram = _gram(coefficients, values, cross)
    return None if gram is None else _diagonalised(gram)


def _gram(
    coefficients: Sequence[Fraction], values: Sequence[Polynomial], cross: TracePolynomial
) -> list[list[Fraction]] | None:
    """g with sum of g_ij tr(A_i' A_j) = sum of c_i |A_i|^2 + cross: every product in ``cross`` is one of two values."""
    count, rest = len(values), dict(cross.terms)
    gram = [[coefficients[i] if i == j else Fraction(0) for j in range(count)] for i in range(count)]
    for i in range(count):
        for j in range(i):
            if not rest or values[i].shape != values[j].shape:
                continue
            product = trace(values[i].T * values[j])
            if len(product) == 1:
                ((monomial, coefficient),) = product.terms.items()
                gram[i][j] = gram[j][i] = rest.pop(monomial, Fraction(0)) / (2 * coefficient)
    return None if rest else gram


def _diagonalised(gram: list[list[Fraction]]) -> list[Combination] | None:
    """L D L' of a positive semi-definite matrix, as combinations; None where it is not one."""
    work, count = [list(row) for row in gram], len(gram)
    out: list[Combination] = []
    for k in range(count):
        pivot = work[k][k]
        if pivot < 0 or (pivot == 0 and any(work[k])):
            return None
        if pivot == 0:
            continue
        weights = {i: work[k][i] / pivot for i in range(k, count) if work[k][i]}
        out.append((pivot, weights))
        row = list(work[k])
        work = [[a - row[r] * b / pivot for a, b in zip(line, row, strict=True)] for r, line in enumerate(work)]
    return out


def left_alone(combinations: Iterable[Combination], factors: Sequence[str], known: Container[str]) -> list[int]:
    """The values that are zero where all combinations are: those that one of them leaves where the tangents of ``known`` are."""
    left = [[i for i in weights if factors[i] not in known] for _, weights in combinations]
    return [places[0] for places in left if len(places) == 1]
