"""Equations in place of closed forms, in a derivation: what the metric lowers, what is solved and how, staged orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quotientgeo.symbolic.codegen.exposition.latex import aligned, enumeration
from quotientgeo.symbolic.codegen.exposition.projector import sylvester_rows
from quotientgeo.symbolic.codegen.exposition.spelling import Spelling
from quotientgeo.symbolic.codegen.solving import DENSE_METRIC
from quotientgeo.symbolic.codegen.systems import System, metric_systems
from quotientgeo.symbolic.derivation import MatrixFormula

_LONG = 40  # words: longer formulas are folded


class ImplicitSection:
    """Formulas of what is solved for at run time."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._geometry = spelling.geometry
        self.holds = self._geometry.equations is not None
        self.staged = bool(self._geometry.rates)

    def lowered(self) -> str:
        """The parts of xi^flat."""
        assert self._geometry.equations is not None
        return self._block(r"\xi^{{\flat}}_{{{}}}", self._geometry.equations.lowered)

    def force(self) -> str:
        """The parts of the lowered acceleration."""
        return self._block(r"\dot\xi^{{\,\flat}}_{{{}}}", self._geometry.staged[2])

    def christoffel(self) -> str:
        """The parts of the lowered Christoffel form."""
        assert self._geometry.equations is not None
        return self._block(r"\Gamma(\xi, \eta)^{{\flat}}_{{{}}}", self._geometry.equations.christoffel)

    def _block(self, left: str, formulas: Mapping[str, MatrixFormula]) -> str:
        s = self._spelling
        return aligned(s.block(left.format(s.symbol(f)), formula.polynomial) for f, formula in formulas.items())

    def methods(self) -> list[dict[str, str]]:
        """How each group of coupled factors is solved: a sentence, and formulas where there are some."""
        s, out = self._spelling, []
        for solver in metric_systems(self._geometry):
            if not isinstance(solver, System):
                ((_, formula),) = solver.outputs.items()
                (factor,) = [f for f in s.factors if s.names.euclidean(f) in solver.arguments]
                text = f"The equation for ${s.symbol(s.names.tangent(factor))}$ has a closed form:"
                solution = s.block(s.symbol(s.names.tangent(factor)), formula)  # type: ignore[arg-type]
                out.append({"text": text, "rows": aligned([solution])})
                continue
            letters = enumeration([f"${s.symbol(x)}$" for x in solver.letters])
            found = solver.sylvester()
            if found is not None:
                text = (
                    f"The equation for {letters} is of Sylvester type, with two terms whose weights are positive "
                    "semi-definite, one on each side definite, so each side has a basis in which both are diagonal:"
                )
                rows = sylvester_rows(s, found, s.symbol(solver.given[0]))
                out.append({"text": text, "rows": aligned(rows)})
                continue
            which = f"equation for {letters} is" if solver.one else f"equations for {letters} are coupled and"
            text = (
                f"The {which} solved as one system in all entries, by a Cholesky factorisation where there are at most "
                f"{DENSE_METRIC} of them, and otherwise by conjugate gradients (not a number where these do not converge)."
            )
            out.append({"text": text, "rows": ""})
        return out

    def taylor(self) -> list[dict[str, Any]]:
        """Order, number of words per factor, and formulas, for the orders above 2."""
        s, out = self._spelling, []
        for order, formulas in self._geometry.staged.items():
            if order <= 2:
                continue
            flat = r"\,\flat" if self.holds else ""
            rows = [
                s.block(rf"{s.symbol(f)}^{{({order}){flat}}}", formula.polynomial) for f, formula in formulas.items()
            ]
            sizes = {f: len(formula.polynomial) for f, formula in formulas.items()}
            words = [
                f"{size}{' words' if i == 0 else ''} for ${s.symbol(f)}$" for i, (f, size) in enumerate(sizes.items())
            ]
            long, zero = max(sizes.values()) > _LONG, not any(sizes.values())
            counts = enumeration(words)
            out.append({"order": order, "counts": counts, "rows": aligned(rows), "long": long, "zero": zero})
        return out
