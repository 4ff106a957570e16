"""Setting, action and vertical space of a derivation."""

from __future__ import annotations

from quotientgeo.symbolic.algebra import Polynomial
from quotientgeo.symbolic.codegen.exposition.latex import aligned, display, enumeration, symbol_latex
from quotientgeo.symbolic.codegen.exposition.spelling import Spelling, added, listed, size_latex
from quotientgeo.symbolic.declaration import Group
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula
from quotientgeo.symbolic.derivation.levels.assumed import assumed
from quotientgeo.symbolic.derivation.levels.freeness import fixing_steps, vertical_steps
from quotientgeo.symbolic.derivation.levels.kept import keeps_assumptions

_KINDS = {  # what is said of a letter beside its shape
    "skew": " (skew)",
    "symmetric": " (symmetric)",
    "invertible": " (invertible)",
    "orthogonal": " (orthogonal)",
    "diagonal": " (diagonal)",
    **{f"complex_{p}": f" (complex diagonal, pairing {p})" for p in ("half", "interleaved")},
}


class SymmetrySection:
    """Formulas of the symmetry."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._geometry = spelling.geometry

    def setting(self) -> str:
        """What a point and a tangent are, and the names of their products."""
        s = self._spelling
        one, named = len(s.factors) == 1, ""
        if one:
            point = f"A point is a matrix {self.factors()}."
            tangent = f"A tangent at the point is a matrix of the same shape, called ${s.tangent_point()}$."
        else:
            point = f"A point is ${s.point()}$ with factors {self.factors()}."
            tangent = "A tangent at the point has one matrix of the same shape for each factor"
            tangent = f"{tangent}; they are called ${s.tangent_point()}$."
        if s.grams:
            whose = "Its product with itself gets a name of its own" if one else ""
            named = f" {whose or 'Products of a factor with itself get names of their own'}, {self.grams()}."
        return f"{point}{named} {tangent}"

    def factors(self) -> str:
        """G in R^{n x h} and H in R^{m x h}."""
        s = self._spelling
        return enumeration([rf"${s.symbol(f)} \in {s.shape(f)}$" for f in s.factors])

    def grams(self) -> str:
        """P = G^T G and Q = H^T H."""
        s = self._spelling
        parts = []
        for factor, gram in s.grams.items():
            ((word, _),) = s.gram(factor)
            product = " ".join(s.line(s.alphabet.monomial((letter,))) for letter in word)
            parts.append(f"${symbol_latex(gram.name)} = {product}$")
        return enumeration(parts)

    def conventions(self) -> str:
        """What diag, C and 1 mean, where they occur."""
        s, found = self._spelling, []
        shown = " ".join([s.scalar(self._geometry.inner.polynomial), self.action(), self.preserved()])
        shown += " ".join(s.line(formula.polynomial) for formula in self._geometry.momentum.values())
        if r"\mathrm{diag}" in shown:
            found.append(
                r"Of a column, $\mathrm{diag}(\cdot)$ is the diagonal matrix with its entries; of a square matrix, its "
                "diagonal part."
            )
        if r"\mathcal{C}" in shown:
            found.append(
                r"$\mathcal{C}(\cdot)$ is the orthogonal projection of a matrix on the complex diagonal matrices, which "
                "multiply pairs of columns by complex numbers."
            )
        if r"\mathbf{1}" in shown:
            found.append(r"$\mathbf{1}$ is a column of ones.")
        return "".join(f" {text}" for text in found)

    def group(self) -> str:
        """GL(h), or a product."""
        return r" \times ".join(map(group_latex, self._geometry.symmetry.groups))

    def group_in_words(self) -> str:
        """How its elements are written as matrices, where that does not go without saying."""
        complex_matrix = "written as the real matrix that multiplies the pairs of"
        words = {
            "diagonal": "written as a diagonal matrix",
            "complex_half": f"{complex_matrix} columns $j$ and $j + k$ (of $2 k$) by complex numbers",
            "complex_interleaved": f"{complex_matrix} neighbouring columns by complex numbers",
        }
        groups = self._geometry.symmetry.groups
        found = [words.get(g.element_kind, "under addition" if g.law == "add" else "") for g in groups]
        told = list(dict.fromkeys(filter(None, found)))
        return f", {' or '.join(told)}," if told else ""

    def cancelling(self, shown: str) -> str:
        """Why what is shown is what it was before the move."""
        reasons = ["what stands over a brace cancels"] if r"\underbrace" in shown else []
        return "".join(f"; {reason}" for reason in [*reasons, *commuting(self._geometry)])

    def algebra_shapes(self) -> str:
        """X in R^{h x h}."""
        s = self._spelling
        shapes = [(rf"${s.symbol(x)} \in {s.shape(x)}$", self._geometry.kind(x)) for x in s.names.algebra]
        return enumeration([shape + _KINDS.get(kind, "") for shape, kind in shapes])

    def action(self) -> str:
        """A . (G, H) = (G A^-1, H A^T)."""
        s = self._spelling
        moved = ", ".join(s.line(formula.polynomial) for formula in self._geometry.action.values())
        image = moved if len(s.factors) == 1 else rf"\bigl( {moved} \bigr)"
        return display(rf"{s.elements()} \cdot {s.point()} = {image}")

    def composition(self) -> str:
        """What acting twice does to each factor."""
        s, action = self._spelling, self._geometry.action
        once = self._acting_with_other()
        return aligned(
            rf"{s.symbol(f)} &\longmapsto {s.line(once[f])} \longmapsto {s.replaced(formula.polynomial, once)}"
            for f, formula in action.items()
        )

    def _acting_with_other(self) -> dict[str, Polynomial]:
        s = self._spelling
        other = {e: s.alphabet[s.names.other_element(e)] for e in s.names.elements}
        return {f: formula.polynomial.substitute(other) for f, formula in self._geometry.action.items()}

    def other_elements(self) -> str:
        """B."""
        s = self._spelling
        return listed(s.symbol(s.names.other_element(e)) for e in s.names.elements)

    def product(self) -> str:
        """The element that acts as the second after the first."""
        s = self._spelling
        one = {e: s.alphabet[e] for e in s.names.elements}
        other = {e: s.alphabet[s.names.other_element(e)] for e in s.names.elements}
        sides = (one, other) if self._geometry.side == "left" else (other, one)
        return listed(map(s.line, self._geometry.symmetry.product(*sides).values()))

    def preserved(self) -> str:
        """G H', for every declared quantity."""
        return enumeration([f"${self._preserved_line(i)}$" for i in range(len(self._geometry.preserved))])

    def inputs(self) -> str:
        """ ", for every D in R^{k x k} (diagonal)", or nothing where a model puts nothing between the factors."""
        s = self._spelling
        names = [
            rf"${s.symbol(x)} \in {s.shape(x)}$" + _KINDS.get(self._geometry.kind(x), "")
            for x in self._geometry.symmetry.inputs
        ]
        return f", for every {enumeration(names)} that it puts between them" if names else ""

    def _preserved_line(self, i: int) -> str:
        s, formula = self._spelling, self._geometry.preserved[i]
        return s.line(formula.polynomial) if isinstance(formula, MatrixFormula) else s.scalar(formula.polynomial)

    def preservation(self) -> str:
        """G H' |-> what it becomes = G H'."""
        s = self._spelling
        moved = {f: formula.polynomial for f, formula in self._geometry.action.items()}
        rows = []
        for i, formula in enumerate(self._geometry.preserved):
            if isinstance(formula, MatrixFormula):
                there = s.replaced(formula.polynomial, moved)
            else:
                there = s.replaced_traces(formula.polynomial, moved)
            here = self._preserved_line(i)
            rows.append(rf"{here} &\longmapsto {there} = {here}")
        return aligned(rows)

    def vertical(self) -> str:
        """The derivative of the moved factor along X, at a general element and at the identity."""
        s, names = self._spelling, self._spelling.names
        directions = {e: s.alphabet[x] for e, x in zip(names.elements, names.algebra, strict=True)}
        along = ", ".join(
            rf"\mathrm{{d}}{s.symbol(e)} = {s.symbol(x)}" for e, x in zip(names.elements, names.algebra, strict=True)
        )
        rows = []
        for factor, formula in self._geometry.action.items():
            moved, vertical = formula.polynomial, self._geometry.vertical[factor].polynomial
            rows.append(
                rf"\mathrm{{d}}\bigl( {s.line(moved)} \bigr) &= {s.line(moved.differential(directions))} "
                rf"&&\text{{for }} {along}, & {s.vertical}_{{{s.symbol(factor)}}} &= {s.line(vertical)}"
            )
        return aligned(rows)

    def kernel(self) -> str:
        """What a vertical vector does to each preserved matrix, before the terms cancel."""
        s = self._spelling
        rows = []
        for formula in self._geometry.preserved:
            if isinstance(formula, MatrixFormula):
                moves = {f: {f: v.polynomial} for f, v in self._geometry.vertical.items()}
                changes = [formula.polynomial.differential(move) for move in moves.values()]
                parts = [s.line(change, collect=False) for change in changes if not change.is_zero]
                change = rf"\mathrm{{D}}\bigl( {s.line(formula.polynomial)} \bigr)[{s.vertical}]"
                rows.append(f"{change} &= {f'{added(parts)} = ' if parts else ''}0")
        return aligned(rows) if rows else ""

    def stabiliser(self) -> str:
        """G X = 0 => X = 0, or nothing where the formulas do not show it."""
        s = self._spelling
        steps = vertical_steps(self._geometry, assumed(self._geometry)) or []
        rows = [
            rf"{s.line(step.formula)} = 0 \quad &\Longrightarrow \quad {s.symbol(step.letter)} = 0" for step in steps
        ]
        return aligned(rows) if rows else ""

    def fixing(self) -> str:
        """G A^-1 = G => A = I, or nothing where the formulas do not show it."""
        s = self._spelling
        steps = fixing_steps(self._geometry, assumed(self._geometry)) or []
        ones = self._geometry.symmetry.identity(s.alphabet)
        rows = [
            rf"{s.line(step.formula)} = {s.line(step.value)} \quad &\Longrightarrow \quad "
            rf"{s.symbol(step.letter)} = {'1' if one.shape == (1, 1) and not one.is_zero else s.line(one)}"
            for step in steps
            for one in [ones[step.letter]]
        ]
        return aligned(rows) if rows else ""

    def keeps_assumptions(self) -> bool:
        """Whether the form of the action shows that it keeps what the proofs assume of a point."""
        return keeps_assumptions(self._geometry, assumed(self._geometry))


def group_latex(group: Group) -> str:
    """GL(h), O(h), (R^*)^d and so on; the name of its class for a group that is not known here."""
    rows, columns = (size_latex(size) for size in group.element_shape)
    known = {
        "GL": rf"\mathrm{{GL}}({rows})",
        "Orthogonal": rf"\mathrm{{O}}({rows})",
        "NonzeroDiagonal": rf"(\mathbb{{R}}^{{*}})^{{{rows}}}",
        "PositiveDiagonal": rf"(\mathbb{{R}}_{{>0}})^{{{rows}}}",
        "ComplexDiagonal": rf"(\mathbb{{C}}^{{*}})^{{{rows} / 2}}",
        "Scaling": r"\mathbb{R}_{>0}",
        "Translation": rf"\mathbb{{R}}^{{{rows}}}" if columns == "1" else rf"\mathbb{{R}}^{{{rows} \times {columns}}}",
    }
    name = type(group).__name__
    return known.get(name) or rf"\mathrm{{{name}}}({', '.join(dict.fromkeys((rows, columns)))})"


def commuting(geometry: Geometry) -> list[str]:
    """Why letters of the group may cancel that do not stand side by side, for each kind of group that acts."""
    reasons = {
        "diagonal": "diagonal matrices commute, so they cancel wherever they stand among each other",
        "complex_half": "complex diagonal matrices commute, so they cancel wherever they stand among each other",
        "complex_interleaved": "complex diagonal matrices commute, so they cancel wherever they stand among each other",
        "positive": "numbers cancel wherever they stand",
    }
    groups = geometry.symmetry.groups
    found = ["terms of opposite sign cancel" if g.law == "add" else reasons.get(g.element_kind, "") for g in groups]
    return list(dict.fromkeys(filter(None, found)))
