"""Metric, horizontal vectors and gradient of a derivation."""

from __future__ import annotations

from functools import cached_property

from quotientgeo.symbolic.algebra import Polynomial, TraceLetter, TracePolynomial, Word
from quotientgeo.symbolic.codegen.exposition.latex import WIDEST, aligned, enumeration, number_latex, visible
from quotientgeo.symbolic.codegen.exposition.spelling import Spelling
from quotientgeo.symbolic.codegen.exposition.symmetry import commuting
from quotientgeo.symbolic.codegen.notation import Symbol
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.squares import sum_of_squares


class MetricSection:
    """Formulas of the metric."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._geometry = spelling.geometry

    def inner(self) -> str:
        """The metric as declared."""
        return self._spelling.displayed_scalar(r"\langle \xi, \eta \rangle", self._geometry.inner.polynomial)

    def parameters(self) -> str:
        """A sentence about the metric's parameters, if it has some."""
        names = [f"${self._spelling.symbol(name)}$" for name in self._geometry.metric.parameters]
        if not names:
            return ""
        many = len(names) > 1
        what = f"positive parameter{'s' if many else ''} {enumeration(names)}"
        return f" The metric has the {what}; everything holds for all {'their' if many else 'its'} values."

    def squares(self) -> str:
        """<xi, xi> as a sum of squares, or nothing where that is not proven."""
        s = self._spelling
        found = sum_of_squares(self._geometry, Ranks(self._geometry))
        if found is None or found.undecided:
            return ""
        terms = [
            f"{'' if c == 1 else number_latex(c)} " + rf"\bigl\lVert {s.line(value)} \bigr\rVert^2"
            for c, value in found.squares
        ] + [s.scalar(term) for term in found.weighted]
        rows = [
            rf"\langle \xi, \xi \rangle &= {terms[0].strip()}",
            *(rf"&\quad {{}} + {term.strip()}" for term in terms[1:]),
        ]
        return aligned([" \\\\\n".join(rows)])

    def nonnegative(self) -> str:
        """Why no term of the sum is negative."""
        found = sum_of_squares(self._geometry, Ranks(self._geometry))
        reasons = []
        if found is not None and found.squares:
            reasons.append("squared Frobenius norms are not")
        if found is not None and found.weighted:
            shown = "".join(map(self._spelling.scalar, found.weighted))
            form = "traces of products that are positive semi-definite by their form are not"
            reasons.append(form if r"\mathrm{tr}" in shown else "squared lengths are not")
        return "".join(f", as {reason}" if i == 0 else f", and {reason}" for i, reason in enumerate(reasons))

    def definite(self) -> str:
        """Why all terms vanish for xi = 0 only."""
        s = self._spelling
        found = sum_of_squares(self._geometry, Ranks(self._geometry))
        parts = enumeration([f"${s.symbol(x)}$" for x in s.names.tangents])
        if len(s.factors) == 1:
            return f"Under the assumptions of section 1 there is a term that does so only for {parts} $= 0$."
        if found is not None and found.coupled:
            return (
                f"Under the assumptions of section 1, and taken in a suitable order, each of {parts} has a term that vanishes "
                "only where that part is zero, once the parts before it are."
            )
        return f"Under the assumptions of section 1, each of {parts} has a term that vanishes only where that part is zero."

    @cached_property
    def _pushed(self) -> dict[str, Polynomial]:
        """Each factor and each tangent as a group element moves it."""
        s, names = self._spelling, self._spelling.names
        moved = {f: formula.polynomial for f, formula in self._geometry.action.items()}
        values = dict(moved)
        for rename in (names.tangent, names.second_tangent):
            directions = {f: s.alphabet[rename(f)] for f in s.factors}
            values |= {rename(f): polynomial.differential(directions) for f, polynomial in moved.items()}
        return values

    def pushed(self) -> str:
        """Where the action takes tangents, Gram matrices and inverses."""
        s = self._spelling
        rows = [rf"{s.symbol(letter)} &\longmapsto {s.line(self._pushed[letter])}" for letter in s.names.tangents]
        for word in self._weights():
            value = s.alphabet.monomial(word)
            rows.append(rf"{s.line(value)} &\longmapsto {s.line(value.substitute(self._pushed))}")
        return aligned(rows)

    def _weights(self) -> list[Word]:
        """The Gram matrices and inverses that the metric contains, each once."""
        s = self._spelling
        heavy = {gram.name for gram in s.grams.values()}
        found: dict[Word, None] = {}
        for monomial, _ in self._geometry.inner.polynomial:
            for factor in monomial:
                for piece in (
                    s.notation.words(s.notation.rotated(factor))
                    if isinstance(factor, TraceLetter) and factor.letters
                    else ()
                ):
                    spelled = s.notation.matrix(s.alphabet.monomial(piece), collect=False)[0].pieces[0]
                    if not isinstance(spelled, Symbol) or spelled.name in heavy:
                        found[piece] = None
        return list(found)

    def invariance(self) -> str:
        """Each trace of the metric, and the same with the moved letters in place."""
        s = self._spelling
        rows = []
        for monomial, coefficient in self._geometry.inner.polynomial:
            term = TracePolynomial(s.alphabet, {monomial: coefficient})
            rows.append((s.scalar(term), s.replaced_traces(term, self._pushed)))
        if max(visible(before) + visible(after) for before, after in rows) > WIDEST:
            return aligned([f"&{before} \\\\\n&\\quad {{}} \\longmapsto {after}" for before, after in rows])
        return aligned([rf"{before} &\longmapsto {after}" for before, after in rows])

    def cancelling(self) -> str:
        """Why each trace, or their sum, is what it was before the move."""
        still = all(self._pushed[x] == self._spelling.alphabet[x] for x in self._geometry.inner.polynomial.symbols())
        if still:
            return "None of them moves"
        shown, reasons = self.invariance(), []
        if r"\underbrace" in shown:
            reasons.append("pairs over a brace cancel")
        if r"\mathrm{tr}" in shown and any(group.law == "multiply" for group in self._geometry.symmetry.groups):
            reasons.append(
                "letters left at the two ends of a trace meet, because a trace may be read in a circle, and cancel too"
            )
        text = "; ".join([*reasons, *commuting(self._geometry)]) or "what cancels leaves nothing of the group element"
        return text[0].upper() + text[1:]

    def kept(self) -> str:
        """What the move leaves as it was: each term, or only their sum."""
        value = self._geometry.inner.polynomial
        terms = [TracePolynomial(self._spelling.alphabet, {monomial: c}) for monomial, c in value]
        return "Each term" if all(term.substitute(self._pushed) == term for term in terms) else "The sum"

    def flat(self, factor: str) -> Polynomial:
        """M with <xi, eta> = ... + tr(M' eta_factor)."""
        return self._geometry.inner.polynomial.gradient(self._spelling.names.second_tangent(factor))

    def pairing(self) -> str:
        """<xi, V_X> written out, and with the Lie algebra elements collected."""
        s, names = self._spelling, self._spelling.names
        values = {names.second_tangent(f): v.polynomial for f, v in self._geometry.vertical.items()}
        pairing = self._geometry.inner.polynomial.substitute(values)
        collected = " + ".join(
            f"{self.momentum(x)} {s.symbol(x)}"
            if s.alphabet.shape(x) == (1, 1)
            else rf"\mathrm{{tr}}\bigl( {self.momentum(x)}^\top {s.symbol(x)} \bigr)"
            for x in names.algebra
        )
        return aligned(
            [
                rf"\langle \xi, {s.vertical} \rangle &= {s.scalar(pairing, last=names.algebra)}",
                rf"&= {collected}",
                *(s.block(self.momentum(x), self._geometry.momentum[x].polynomial) for x in names.algebra),
            ]
        )

    def momentum(self, letter: str) -> str:
        """J, or J_{X_1}."""
        return "J" if len(self._spelling.names.algebra) == 1 else f"J_{{{self._spelling.symbol(letter)}}}"

    def horizontal(self) -> str:
        """The equations J = 0, terms of one sign on each side."""
        s = self._spelling
        rows = []
        for formula in self._geometry.momentum.values():
            sides = []
            for sign in (1, -1):
                terms = {word: sign * c for word, c in formula.polynomial if sign * c > 0}
                sides.append(s.line(Polynomial(s.alphabet, terms, formula.polynomial.shape)))
            rows.append(rf"{sides[0]} &= {sides[1]}")
        return aligned(rows)

    @cached_property
    def coupled(self) -> bool:
        """Whether an equation of the gradient holds the tangent of another factor."""
        tangents = {f: self._spelling.names.tangent(f) for f in self._spelling.factors}
        return any(set(self.flat(f).symbols()) & (set(tangents.values()) - {own}) for f, own in tangents.items())

    def gradient(self) -> str:
        """The equations that define the gradient; beside each its solution, unless they are coupled."""
        s, names, grads = self._spelling, self._spelling.names, self._grads
        spelled = s.renamed({names.tangent(f): grad for f, grad in grads.items()})
        left = {f: f"{spelled.line(s.notation.matrix(self.flat(f)))} &= {s.symbol(names.euclidean(f))}" for f in grads}
        if self.coupled:
            return aligned(list(left.values()))
        right = {f: s.line(formula.polynomial) for f, formula in self._geometry.gradient.items()}
        return aligned([rf"{left[f]} &&\Longrightarrow & {grads[f]} &= {right[f]}" for f in grads])

    def solution(self) -> str:
        """The gradient by itself."""
        formulas = self._geometry.gradient
        return aligned([f"{grad} &= {self._spelling.line(formulas[f].polynomial)}" for f, grad in self._grads.items()])

    @property
    def _grads(self) -> dict[str, str]:
        return {f: rf"\mathrm{{grad}}_{{{self._spelling.symbol(f)}}}" for f in self._spelling.factors}
