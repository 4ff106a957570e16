"""The projector on horizontal vectors, and the degrees of freedom, of a derivation."""

from __future__ import annotations

from quotientgeo.symbolic.algebra import Polynomial
from quotientgeo.symbolic.codegen.exposition.latex import aligned
from quotientgeo.symbolic.codegen.exposition.metric import MetricSection
from quotientgeo.symbolic.codegen.exposition.spelling import Spelling, size_latex
from quotientgeo.symbolic.codegen.solving import sylvester
from quotientgeo.symbolic.codegen.systems import Pencil, Sylvester
from quotientgeo.symbolic.derivation.levels.freeness import vertical_steps
from quotientgeo.symbolic.derivation.levels.ranks import Ranks


class ProjectorSection:
    """Formulas of the horizontal part."""

    def __init__(self, spelling: Spelling, metric: MetricSection) -> None:
        self._spelling = spelling
        self._geometry = spelling.geometry
        self._metric = metric
        self.closed = self._geometry.horizontal is not None
        self._sylvester = None if self.closed else sylvester(self._geometry)

    def gram(self) -> str:
        """K_X = J(V_X)."""
        s = self._spelling
        return aligned(s.block(self._operator(x), f.polynomial) for x, f in self._geometry.vertical_gram.items())

    def _operator(self, letter: str) -> str:
        one = len(self._spelling.names.algebra) == 1
        return "K" if one else f"K_{{{self._spelling.symbol(letter)}}}"

    def equation(self) -> str:
        """K = J, in one line per letter."""
        letters = self._spelling.names.algebra
        return ", ".join(f"${self._operator(x)} = {self._metric.momentum(x)}$" for x in letters)

    def solution(self) -> str:
        """X, and the horizontal part of each factor, where they are formulas."""
        s, projector, horizontal = self._spelling, self._geometry.projector, self._geometry.horizontal
        assert projector is not None
        assert horizontal is not None
        rows = [s.block(s.symbol(x), formula.polynomial) for x, formula in projector.items()]
        for factor, formula in horizontal.items():
            left = rf"{s.symbol(s.names.tangent(factor))}^{{\mathrm{{hor}}}}"
            rows.append(s.block(left, formula.polynomial))
        return aligned(rows)

    @property
    def diagonalised(self) -> bool:
        """Whether the run-time solve diagonalises two terms; otherwise it is iterative."""
        return self._sylvester is not None

    def pencils(self) -> str:
        """What is diagonalised with what, and the solution in the two bases."""
        assert self._sylvester is not None
        return aligned(sylvester_rows(self._spelling, self._sylvester, "J"))

    # degrees of freedom

    def degrees(self) -> str:
        """Dimension of the factors minus that of an orbit, or nothing where no formula shows the latter."""
        if vertical_steps(self._geometry, Ranks(self._geometry)) is None:
            return ""
        total = [_product(*shape) for shape in self._geometry.factors.values()]
        group = [self._group(x) for x in self._spelling.names.algebra]
        names = (r"\dim M", r"\dim \text{(orbit)}", r"\dim \text{(quotient)}")
        rows = [rf"{names[0]} &= {' + '.join(total)}", rf"{names[1]} &= {' + '.join(group)}"]
        for size in list(group):
            if size in total:
                total.remove(size)
                group.remove(size)
        left = " + ".join(total) or ("" if group else "0")
        return aligned([*rows, rf"{names[2]} &= {left}{''.join(f' - {size}' for size in group)}"])

    def _group(self, letter: str) -> str:
        rows, columns = self._geometry.alphabet.shape(letter)
        size = size_latex(rows)
        match self._geometry.kind(letter):
            case "skew":
                return rf"\tfrac{{1}}{{2}} {size} ({size} - 1)"
            case "symmetric":
                return rf"\tfrac{{1}}{{2}} {size} ({size} + 1)"
            case "diagonal" | "complex_half" | "complex_interleaved":
                return size
        return _product(rows, columns)


def sylvester_rows(spelling: Spelling, found: Sylvester, given: str) -> list[str]:
    """Both sides' bases, and the solution in them for the right side ``given``."""
    rows = [*_pencil(spelling, found.left, "T", "d"), *_pencil(spelling, found.right, "S", "e")]
    weight = "1 + d_i e_j" if found.left.first == found.right.first else "d_i + e_j"
    solution = rf"{spelling.symbol(found.letter)} &= T Z S^{{\top}}"
    return [*rows, rf"{solution}, & Z_{{ij}} &= \frac{{(T^{{\top}} {given} S)_{{ij}}}}{{{weight}}}"]


def _pencil(spelling: Spelling, pencil: Pencil, basis: str, values: str) -> list[str]:
    fixed: Polynomial = pencil.fixed.inverse() if pencil.inverted else pencil.fixed
    one, other = (_bracketed(spelling, weight) for weight in (fixed, pencil.other))
    return [rf"{basis}^{{\top}} {one} {basis} &= I, & {basis}^{{\top}} {other} {basis} &= \mathrm{{diag}}({values})"]


def _bracketed(spelling: Spelling, weight: Polynomial) -> str:
    text = spelling.line(weight)
    return text if len(weight) == 1 else rf"\bigl( {text} \bigr)"


def _product(rows: str | int, columns: str | int) -> str:
    if rows == columns:
        return "1" if rows == 1 else rf"{size_latex(rows)}^2"
    if isinstance(rows, int) and isinstance(columns, int):
        return str(rows * columns)
    if 1 in (rows, columns):
        return size_latex(columns if rows == 1 else rows)
    return f"{size_latex(rows)} {size_latex(columns)}"
