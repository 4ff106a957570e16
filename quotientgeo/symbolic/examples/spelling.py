"""LaTeX of explicit formulas, fit for tables of Markdown."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.printing.latex import LatexPrinter


class _Printer(LatexPrinter):
    def _print_Abs(self, expr: sp.Abs, exp: str | None = None) -> str:
        """Without the character that separates the columns of a table."""
        inside = rf"\lvert {self._print(expr.args[0])} \rvert"
        return inside if exp is None else rf"{inside}^{{{exp}}}"


def spelled(expression: Any) -> str:
    """LaTeX of an expression; no vertical bars in it."""
    return _Printer({"order": "lex"}).doprint(expression)
