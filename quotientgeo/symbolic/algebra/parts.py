"""The complex diagonal part of a matrix, as a SymPy node; SymPy has its own nodes for the diagonal (DiagMatrix, DiagonalOf).

A complex diagonal matrix of size 2k is the real matrix of z_1, ..., z_k acting on k pairs of coordinates (p, q): the block
[[a, -b], [b, a]] for z = a + i b. Pairing "half" pairs (j, j + k), "interleaved" pairs (2j, 2j + 1), counted from 0.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.core.symbol import Str

from quotientgeo.errors import DeclarationError

PAIRINGS = ("half", "interleaved")


def coordinate_pairs(size: int, pairing: str) -> list[tuple[int, int]]:
    """The pairs (p, q) of coordinates that a complex number acts on.

    Raises:
        DeclarationError: the size is odd, or the pairing has no such name.
    """
    if pairing not in PAIRINGS:
        raise DeclarationError(f"pairing {pairing!r} is unknown: choose one of {', '.join(PAIRINGS)}")
    if size % 2:
        raise DeclarationError(f"coordinates cannot be paired: their number {size} is odd; use an even size")
    if pairing == "half":
        return [(j, j + size // 2) for j in range(size // 2)]
    return [(j, j + 1) for j in range(0, size, 2)]


class ComplexPart(sp.MatrixExpr):
    """Orthogonal projection of a square matrix M on the complex diagonal matrices; the shape is that of M.

    On each pair (p, q) it has the block [[a, -b], [b, a]] with a = (M_pp + M_qq) / 2 and b = (M_qp - M_pq) / 2; all else
    is zero.

    Raises:
        DeclarationError: M is not square, its size is odd, or the pairing has no such name.
    """

    def __new__(cls, matrix: sp.MatrixExpr, pairing: str | Str) -> ComplexPart:
        matrix = sp.sympify(matrix)
        name = str(pairing)
        if name not in PAIRINGS:
            raise DeclarationError(f"ComplexPart({matrix}, {name!r}): pairing must be one of {', '.join(PAIRINGS)}")
        if not getattr(matrix, "is_Matrix", False) or matrix.shape[0] != matrix.shape[1]:
            raise DeclarationError(f"ComplexPart({matrix}, {name!r}) needs a square matrix")
        if matrix.shape[0].is_odd if isinstance(matrix.shape[0], sp.Basic) else matrix.shape[0] % 2:
            raise DeclarationError(
                f"ComplexPart({matrix}, {name!r}): coordinates come in pairs; {matrix.shape[0]} is odd"
            )
        return super().__new__(cls, matrix, Str(name))

    @property
    def arg(self) -> sp.MatrixExpr:
        """The matrix that is projected."""
        return self.args[0]

    @property
    def pairing(self) -> str:
        """``"half"`` or ``"interleaved"``."""
        return str(self.args[1])

    @property
    def shape(self) -> tuple[sp.Expr, sp.Expr]:
        """Shape of the matrix."""
        rows, columns = self.arg.shape
        return sp.sympify(rows), sp.sympify(columns)

    def _entry(self, i: Any, j: Any, **kwargs: Any) -> sp.Expr:
        size = self.shape[0]
        if not all(isinstance(number, int | sp.Integer) for number in (size, i, j)):
            return sp.matrices.expressions.matexpr.MatrixElement(self, i, j)
        partner = dict(coordinate_pairs(int(size), self.pairing))
        partner |= {q: p for p, q in partner.items()}
        p, q, m = int(i), partner[int(i)], self.arg
        if int(j) == p:
            return (m[p, p] + m[q, q]) / 2
        return (m[p, q] - m[q, p]) / 2 if int(j) == q else sp.S.Zero

    def _eval_transpose(self) -> ComplexPart:
        return ComplexPart(sp.Transpose(self.arg).doit(), self.pairing)

    def doit(self, **hints: Any) -> sp.MatrixExpr:
        """The explicit matrix where M is one."""
        inner = self.arg.doit(**hints) if hints.get("deep", True) else self.arg
        out = ComplexPart(inner, self.pairing)
        return out.as_explicit() if isinstance(inner, sp.MatrixBase) else out

    def _sympystr(self, printer: Any) -> str:
        return f'ComplexPart({printer._print(self.arg)}, "{self.pairing}")'

    def _latex(self, printer: Any) -> str:
        return rf"\mathcal{{C}}_{{\mathrm{{{self.pairing}}}}}\left({printer._print(self.arg)}\right)"
