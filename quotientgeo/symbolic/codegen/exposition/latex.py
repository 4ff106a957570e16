"""Formula trees to LaTeX that GitHub, KaTeX and MathJax typeset; long formulas are broken into rows of an aligned block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from quotientgeo.symbolic.codegen.notation import (
    ComplexDiagonal,
    Diagonal,
    Inverse,
    Norm,
    Ones,
    Piece,
    Product,
    Size,
    Sum,
    Symbol,
    Trace,
)

_GREEK_1 = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi"
_GREEK_2 = "psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
_GREEK = frozenset(f"{_GREEK_1} {_GREEK_2}".split())
_SIZES = ("", r"\bigl \bigr", r"\Bigl \Bigr", r"\biggl \biggr", r"\Biggl \Biggr")
WIDTH = 56  # visible characters of a row
WIDEST = 80  # of a formula that is left on one line


def symbol_latex(name: str) -> str:
    """xi_G as \\xi_{G}, W_in as W_{\\mathrm{in}}, G1 as G_{1}, gamma as \\gamma."""
    base, _, subscript = name.partition("_")
    numbered = re.fullmatch(r"([A-Za-z])(\d+)", base)
    if numbered and not subscript:
        return f"{numbered[1]}_{{{numbered[2]}}}"
    head = f"\\{base}" if base in _GREEK else base if len(base) == 1 else f"\\mathrm{{{_escaped(base)}}}"
    if not subscript:
        return head
    plain = len(subscript) == 1 or subscript.isdigit()
    return f"{head}_{{{subscript if plain else symbol_latex(subscript)}}}"


def _escaped(text: str) -> str:
    return text.replace("_", r"\_")


class Latex:
    """Spells trees; ``names`` = {letter: LaTeX} overrides what ``symbol_latex`` makes of a name."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names = dict(names or {})

    def symbol(self, name: str) -> str:
        """A name."""
        return self._names.get(name) or symbol_latex(name)

    def line(self, terms: Sum) -> str:
        """A formula on one line."""
        return " ".join(text for _, text in self._chunks(terms, 0, wide=False)) or "0"

    def block(self, left: str, terms: Sum, relation: str = "=") -> str:
        """``left = terms`` as rows of an aligned environment, without the environment."""
        rows = self.rows(terms)
        out = [f"{left} &{relation} {rows[0]}", *(f"&\\quad {row}" for row in rows[1:])]
        return " \\\\\n".join(out)

    def rows(self, terms: Sum, width: int = WIDTH) -> list[str]:
        """A formula in rows of about ``width`` visible characters; an outermost term rather starts a row of its own."""
        rows: list[tuple[int, str]] = []
        for depth, text in self._chunks(terms, 0, wide=True) or [(0, "0")]:
            used = visible(rows[-1][1]) + 2 * rows[-1][0] if rows else 0
            if rows and used + visible(text) <= width and (depth or used + visible(text) <= width // 2):
                rows[-1] = (rows[-1][0], f"{rows[-1][1]} {text}")
            else:
                rows.append((depth, text))
        return [r"\quad " * depth + (text if i == 0 else _binary(text)) for i, (depth, text) in enumerate(rows)]

    def _chunks(self, terms: Sum, depth: int, wide: bool) -> list[tuple[int, str]]:
        """(nesting depth, text) of pieces between which a row may end."""
        out: list[tuple[int, str]] = []
        for i, product in enumerate(terms):
            out.extend(self._product(product, first=i == 0, depth=depth, wide=wide))
        return out

    def _product(self, product: Product, first: bool, depth: int, wide: bool) -> list[tuple[int, str]]:
        sign = "-" if product.coefficient < 0 else "" if first else "+"
        size = abs(product.coefficient)
        number = "" if size == 1 and product.pieces else number_latex(size)
        line = " ".join(
            part for part in (sign, number, *(self._power(*pair) for pair in _counted(product.pieces))) if part
        )
        if not wide or visible(line) <= WIDTH // 2:
            return [(depth, line)]
        out: list[tuple[int, str]] = []
        current, current_depth = " ".join(part for part in (sign, number) if part), depth
        for piece, count in _counted(product.pieces):
            if isinstance(piece, tuple):
                opening, closing = _brackets(piece)
                inner = self._chunks(piece, depth + 1, wide)
                inner[0] = (depth, f"{current} {opening} {inner[0][1]}".strip())
                inner[-1] = (inner[-1][0], f"{inner[-1][1]} {closing}")
                out.extend(inner[:-1])
                current_depth, current = inner[-1]
            else:
                current = f"{current} {self._power(piece, count)}".strip()
        return [*out, (current_depth, current)]

    def _power(self, piece: Piece, count: int) -> str:
        """A factor that stands ``count`` times; functions of one matrix need no brackets around themselves."""
        if isinstance(piece, Inverse):
            inner = _alone(piece.argument)
            if isinstance(inner, Diagonal):
                return self.piece(Diagonal(inner.argument, -count * inner.power))
            if inner is not None:
                return f"{self.piece(inner)}^{{{-count}}}"
            opening, closing = _brackets(piece.argument)
            return f"{opening} {self.line(piece.argument)} {closing}^{{{-count}}}"
        if isinstance(piece, Norm):
            return rf"\lVert {self.piece(piece.column)} \rVert^{{{piece.power * count}}}"
        if isinstance(piece, Symbol) and count > 1:
            return f"{self.symbol(piece.name)}^{{{-count if piece.inverted else count}}}"
        return self.piece(piece) + (f"^{{{count}}}" if count > 1 else "")

    def piece(self, piece: Piece) -> str:
        """One factor of a product."""
        match piece:
            case Symbol(name, transposed, inverted):
                power = r"-\top" if transposed and inverted else r"\top" if transposed else "-1" if inverted else ""
                return self.symbol(name) + (f"^{{{power}}}" if power else "")
            case Inverse() | Norm():
                return self._power(piece, 1)
            case Diagonal(argument, power):
                exponent = "" if power == 1 else f"^{{{power}}}"
                opening, closing = _brackets(argument)
                return rf"\mathrm{{diag}}{opening} {self.line(argument)} {closing}{exponent}"
            case ComplexDiagonal(argument, _):
                opening, closing = _brackets(argument)
                return rf"\mathcal{{C}}{opening} {self.line(argument)} {closing}"
            case Ones(transposed):
                return r"\mathbf{1}^{\top}" if transposed else r"\mathbf{1}"
            case Size(size):
                return self.symbol(size)
            case Trace(argument):
                return rf"\mathrm{{tr}}\bigl( {self.line(argument)} \bigr)"
        assert isinstance(piece, tuple)
        opening, closing = _brackets(piece)
        return f"{opening} {self.line(piece)} {closing}"


def _binary(text: str) -> str:
    """A row that starts with a sign continues a sum: an empty group before the sign gives it the spacing of an operator."""
    return f"{{}} {text}" if text[0] in "+-" else text


def number_latex(value: Fraction) -> str:
    """A rational number."""
    return str(value) if value.denominator == 1 else rf"\tfrac{{{value.numerator}}}{{{value.denominator}}}"


def _counted(pieces: Iterable[Piece]) -> list[tuple[Piece, int]]:
    """The factors of a product with how often each stands in a row; what is transposed or a sum becomes no power."""
    out: list[tuple[Piece, int]] = []
    for piece in pieces:
        plain = isinstance(piece, Symbol) and not piece.transposed
        if out and out[-1][0] == piece and (plain or isinstance(piece, Inverse | ComplexDiagonal | Trace | Norm)):
            out[-1] = (piece, out[-1][1] + 1)
        else:
            out.append((piece, 1))
    return out


def _alone(terms: Sum) -> Piece | None:
    """The plain letter, or the function of one matrix, that a sum consists of, if it is nothing else."""
    if len(terms) != 1 or terms[0].coefficient != 1 or len(terms[0].pieces) != 1:
        return None
    (piece,) = terms[0].pieces
    plain = isinstance(piece, Symbol) and not (piece.transposed or piece.inverted)
    return piece if plain or isinstance(piece, Diagonal | ComplexDiagonal | Trace) else None


def _height(piece: Piece | Product) -> int:
    match piece:
        case Inverse(argument) if _alone(argument) is not None:
            return _height(_alone(argument))  # type: ignore[arg-type]
        case Symbol() | Size() | Ones() | Norm():
            return 0
        case Inverse(argument) | Trace(argument) | Diagonal(argument) | ComplexDiagonal(argument):
            return 1 + max(map(_height, argument), default=0)
        case Product(_, pieces):
            return max(map(_height, pieces), default=0)
    assert isinstance(piece, tuple)
    return 1 + max(map(_height, piece), default=0)


def _brackets(terms: Sum) -> tuple[str, str]:
    """Brackets that grow with what they hold."""
    left, _, right = _SIZES[min(1 + max(map(_height, terms), default=0), len(_SIZES) - 1)].partition(" ")
    return f"{left}(", f"{right})"


def visible(latex: str) -> int:
    """About how many characters wide a formula is."""
    text = re.sub(r"\\(?:bigl|bigr|Bigl|Bigr|biggl|biggr|Biggl|Biggr|mathrm|tfrac|dot|ddot)", "", latex)
    text = re.sub(r"\^\{[^}]*\}", "^", text)
    text = re.sub(r"\\[A-Za-z]+", "x", text)
    return len(re.sub(r"[{}_\s]", "", text))


def aligned(equations: Iterable[str]) -> str:
    """A fenced math block with one aligned environment."""
    body = " \\\\[4pt]\n".join(equations)
    return f"```math\n\\begin{{aligned}}\n{body}\n\\end{{aligned}}\n```"


def display(equation: str) -> str:
    """A fenced math block."""
    return f"```math\n{equation}\n```"


def enumeration(parts: Sequence[str]) -> str:
    """a, b and c; nothing for nothing."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
