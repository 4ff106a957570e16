"""The matrices of each kind as a linear space: a basis, from which generic and random ones are made."""

from __future__ import annotations

from collections.abc import Sequence

from quotientgeo.symbolic.algebra.parts import coordinate_pairs

Unit = dict[tuple[int, int], int]  # (row, column) -> 1 or -1; the first one in the order of rows leads and is 1

PAIRING = {"complex_half": "half", "complex_interleaved": "interleaved"}  # of the kinds of complex diagonal matrices
PARTED = ("diagonal", *PAIRING)  # kinds whose algebra is commutative: a random one has no entry at which it is singular
SPREAD = (*PARTED, "scalar", "positive", "vector")  # kinds whose own entries are divided by


def basis(kind: str, rows: int, columns: int) -> list[Unit]:
    """A basis of the linear space of a kind, in the order of the leading entries.

    Kinds that are no linear spaces (invertible, orthogonal) are spanned by all unit matrices; ``skew`` spans the Lie algebra
    of the orthogonal ones.
    """
    if kind == "diagonal":
        return [{(i, i): 1} for i in range(rows)]
    if kind in PAIRING:
        pairs = coordinate_pairs(rows, PAIRING[kind])
        units = [unit for p, q in pairs for unit in ({(p, p): 1, (q, q): 1}, {(p, q): 1, (q, p): -1})]
        return sorted(units, key=min)
    if kind in ("symmetric", "skew"):
        sign = 1 if kind == "symmetric" else -1
        first = 0 if kind == "symmetric" else 1
        return [
            {(i, j): 1, (j, i): sign} if i != j else {(i, i): 1} for i in range(rows) for j in range(i + first, rows)
        ]
    return [{(i, j): 1} for i in range(rows) for j in range(columns)]


def integers(unit: Unit, rows: int, columns: int) -> list[list[int]]:
    """A unit as a matrix."""
    return [[unit.get((i, j), 0) for j in range(columns)] for i in range(rows)]


def partners(size: int, pairing: str) -> Sequence[int]:
    """The other coordinate of each one's pair."""
    out = list(range(size))
    for p, q in coordinate_pairs(size, pairing):
        out[p], out[q] = q, p
    return out
