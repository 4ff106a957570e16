"""Formula trees as plain text, for docstrings."""

from __future__ import annotations

from quotientgeo.symbolic.algebra.text import product_text
from quotientgeo.symbolic.codegen.notation import (
    ComplexDiagonal,
    Diagonal,
    Inverse,
    Norm,
    Ones,
    Piece,
    Size,
    Sum,
    Symbol,
    Trace,
)


def text(terms: Sum) -> str:
    """Plain text: ``xi_G P^-1 (G' xi_G + xi_G' G) - G P^-1 xi_G' xi_G``."""
    out = ""
    for product in terms:
        size = abs(product.coefficient)
        body = product_text(map(_piece_text, product.pieces))
        body = (body or "1") if size == 1 else f"{size} {body}".rstrip()
        sign = "-" if product.coefficient < 0 else "+"
        out += f" {sign} {body}" if out else (f"-{body}" if sign == "-" else body)
    return out or "0"


def _piece_text(piece: Piece) -> str:
    match piece:
        case Symbol(name, transposed, inverted):
            return name + ("^-T" if inverted and transposed else "^-1" if inverted else "'" if transposed else "")
        case Inverse(argument):
            return f"({text(argument)})^-1"
        case Diagonal(argument, power):
            return f"diag({text(argument)})" + ("" if power == 1 else f"^{power}")
        case ComplexDiagonal(argument, pairing):
            return f"complex_{pairing}({text(argument)})"
        case Ones(transposed):
            return "1'" if transposed else "1"
        case Size(name):
            return name
        case Trace(argument):
            return f"tr({text(argument)})"
        case Norm(column, power):
            return f"|{column.name}|^{power}"
    return f"({text(piece)})"
