"""Geodesics of a derivation: Euler-Lagrange equations, conserved quantities, Taylor terms."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from quotientgeo.symbolic.algebra import Polynomial, SymbolLetter, TracePolynomial
from quotientgeo.symbolic.codegen.exposition.latex import aligned, enumeration
from quotientgeo.symbolic.codegen.exposition.metric import MetricSection
from quotientgeo.symbolic.codegen.exposition.spelling import Spelling
from quotientgeo.symbolic.derivation.steps import flow_directions

_LONG = 40  # words: longer formulas are folded
_RATE = r"\frac{\mathrm{d}}{\mathrm{d}t}"


class GeodesicSection:
    """Formulas of the geodesics."""

    def __init__(self, spelling: Spelling, metric: MetricSection) -> None:
        self._spelling = spelling
        self._geometry = spelling.geometry
        self._metric = metric

    @cached_property
    def _lagrangian(self) -> TracePolynomial:
        s, names = self._spelling, self._spelling.names
        same = {names.second_tangent(f): s.alphabet[names.tangent(f)] for f in s.factors}
        return self._geometry.inner.polynomial.substitute(same) * Fraction(1, 2)

    @cached_property
    def _flow(self) -> Mapping[str, Polynomial]:
        """Velocities of all letters along a curve whose acceleration is a letter of its own."""
        return flow_directions(self._spelling.alphabet, self._spelling.names, self._spelling.accelerations)

    def lagrangian(self) -> str:
        """Half the squared speed."""
        left = r"L(x, \xi) = \tfrac{1}{2} \langle \xi, \xi \rangle"
        return self._spelling.displayed_scalar(left, self._lagrangian)

    def euler_lagrange(self) -> list[dict[str, str]]:
        """Per factor: the conjugate momentum, its rate, and the force."""
        s = self._spelling
        out = []
        for factor in s.factors:
            tangent = s.names.tangent(factor)
            conjugate = self._lagrangian.gradient(tangent)
            left = rf"\frac{{\partial L}}{{\partial {s.symbol(tangent)}}}"
            rows = [
                s.block(left, conjugate),
                s.block(rf"{_RATE} {left}", conjugate.differential(self._flow), s.with_rates),
                s.block(
                    rf"\frac{{\partial L}}{{\partial {s.symbol(factor)}}}",
                    self._lagrangian.gradient(factor),
                    s.with_rates,
                ),
            ]
            out.append({"factor": s.symbol(factor), "rows": aligned(rows)})
        return out

    def acceleration(self) -> str:
        """The solved equations."""
        s = self._spelling
        return aligned(
            s.block(s.symbol(s.acceleration_letters[f]), formula.polynomial, s.with_rates)
            for f, formula in self._geometry.acceleration.items()
        )

    def christoffel(self) -> str:
        """The acceleration polarised."""
        s = self._spelling
        return aligned(
            s.block(rf"\Gamma_{{{s.symbol(f)}}}(\xi, \eta)", formula.polynomial)
            for f, formula in self._geometry.christoffel.items()
        )

    def momentum_rate(self) -> str:
        """d/dt J before the acceleration is inserted."""
        s = self._spelling
        return aligned(
            s.block(f"{_RATE} {self._metric.momentum(x)}", formula.polynomial.differential(self._flow), s.with_rates)
            for x, formula in self._geometry.momentum.items()
        )

    def momentum_conserved(self) -> str:
        """Why this rate is zero, as the beginning of a sentence."""
        if self._geometry.equations is not None:
            return (
                "Pair this with an element of the Lie algebra. The acceleration then stands in an inner product with the "
                "vertical vector, where it is known, and all words cancel;"
            )
        if all(f.polynomial.differential(self._flow).is_zero for f in self._geometry.momentum.values()):
            return "This is zero whatever the acceleration is,"
        count = self.momentum_words()
        if not count:
            return "Insert the acceleration: what appears here of it is zero, and nothing is left,"
        return f"Insert the acceleration: the {count} words that appear cancel,"

    def momentum_words(self) -> int:
        """How many words d/dt J has once the acceleration is inserted, before any of them cancel."""
        s = self._spelling
        factors = {letter: factor for factor, letter in s.acceleration_letters.items()}
        count = 0
        for formula in self._geometry.momentum.values():
            for word, _ in formula.polynomial.differential(self._flow):
                inserted = [factors[x.name] for x in word if isinstance(x, SymbolLetter) and x.name in factors]
                count += len(self._geometry.acceleration[inserted[0]].polynomial) if inserted else 1
        return count

    @property
    def affine(self) -> bool:
        """Whether group elements move Taylor polynomials to Taylor polynomials."""
        return self._geometry.affine_action

    def equivariance(self) -> str:
        """How the action moves an acceleration."""
        s = self._spelling
        rows = []
        for factor, formula in self._geometry.action.items():
            velocity = {f: s.alphabet[s.names.tangent(f)] for f in s.factors}
            moved = formula.polynomial.differential(velocity).differential(self._flow)
            rows.append(rf"{s.symbol(s.acceleration_letters[factor])} &\longmapsto {s.line(moved)}")
        return aligned(rows)

    def rates(self) -> str:
        """The rates of the Gram matrices, as the engine differentiates them."""
        s = self._spelling
        parts = []
        for factor, gram in s.grams.items():
            rate = s.gram(factor).differential(self._flow)
            parts.append(rf"$\dot{{{s.symbol(gram.name)}}} = {s.line(rate)}$")
        return enumeration(parts)

    def short_names(self) -> str:
        """M_G = G^T xi_G and so on."""
        s = self._spelling
        parts = []
        for factor, names in s.short.velocities.items():
            velocity = s.alphabet[names.tangent]
            square = velocity * velocity.T if s.grams[factor].wide else velocity.T * velocity
            parts.append(rf"${s.symbol(names.product)} = {s.line(s.gram(factor, velocity))}$")
            parts.append(rf"${s.symbol(names.square)} = {s.line(square)}$")
        return enumeration(parts)

    def taylor(self) -> list[dict[str, Any]]:
        """Order, number of words per factor, and formulas, for the orders above 2."""
        s = self._spelling
        out = []
        for order, formulas in self._geometry.derivatives.items():
            if order > 2:
                rows = [
                    s.block(rf"{s.symbol(f)}^{{({order})}}", formula.polynomial, s.short)
                    for f, formula in formulas.items()
                ]
                sizes = {f: len(formula.polynomial) for f, formula in formulas.items()}
                words = [
                    f"{size}{' words' if i == 0 else ''} for ${s.symbol(f)}$"
                    for i, (f, size) in enumerate(sizes.items())
                ]
                counts = enumeration(words)
                long, zero = max(sizes.values()) > _LONG, not any(sizes.values())
                out.append({"order": order, "counts": counts, "rows": aligned(rows), "long": long, "zero": zero})
        return out
