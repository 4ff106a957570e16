"""Claims about explicit formulas: proven when SymPy simplifies their residuals to zero, refuted by a point where they differ."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy as sp

from quotientgeo.errors import CertificateError

# small numbers to try at once for all symbols; positive ones come first, so that symbols declared positive get one
_TRIED = tuple(sp.Rational(n, d) for n, d in ((1, 1), (2, 1), (1, 2), (3, 1), (-1, 1), (2, 3), (-3, 2), (5, 4)))


@dataclass(frozen=True)
class Claim:
    """One statement and how it was decided.

    name: short, unique on its page. statement: a sentence with formulas in $...$, |x| for absolute values and norms.
    residuals: what has to vanish (of a refuted statement: what does not).
    witness: values of the symbols where it does not; empty for what is proven.
    """

    name: str
    statement: str
    residuals: tuple[sp.Expr, ...]
    witness: Mapping[sp.Symbol, sp.Expr] = field(default_factory=dict)

    @property
    def proven(self) -> bool:
        return not self.witness

    @property
    def value(self) -> sp.Expr:
        """The residual at the witness; zero for what is proven."""
        return sp.simplify(self.residuals[0].subs(self.witness)) if self.witness else sp.Integer(0)


def prove(name: str, statement: str, *residuals: sp.Expr) -> Claim:
    """A claim whose every residual SymPy simplifies to zero; that is a proof for all values of its symbols.

    Raises:
        CertificateError: a residual does not vanish; the message holds a point where it is not zero, if a small one was found.
    """
    if not residuals:
        raise CertificateError(
            f"{name}: a claim without residuals proves nothing; pass the differences that have to vanish"
        )
    for residual in residuals:
        rest = sp.simplify(residual)
        if rest != 0:
            witness = _witness(rest)
            at = (
                f"it is {rest.subs(witness)} at {_spelled(witness)}"
                if witness is not None
                else "no small rational witness was found"
            )
            raise CertificateError(f"{name} is not proven: {rest} should vanish; {at}. Claimed: {statement}")
    return Claim(name, statement, residuals)


def refute(name: str, statement: str, residual: sp.Expr) -> Claim:
    """A claim that ``residual`` vanishes is false: a point at which it does not.

    Raises:
        CertificateError: no such point was found among small rational numbers (the claim may be true).
    """
    witness = _witness(residual)
    if witness is None:
        raise CertificateError(f"{name} is not refuted: {residual} vanishes wherever it was tried")
    return Claim(name, statement, (residual,), witness)


def _witness(residual: sp.Expr) -> dict[sp.Symbol, sp.Expr] | None:
    """Small rational values of all symbols at which the residual is a nonzero finite number; not all equal, if possible."""
    symbols = sorted(residual.free_symbols, key=str)
    for shift, step in itertools.product(range(len(_TRIED)), (1, 3)):
        values = {s: _TRIED[(shift + step * k) % len(_TRIED)] for k, s in enumerate(symbols)}
        if any(s.is_positive and value < 0 for s, value in values.items()):
            continue
        number = sp.simplify(residual.subs(values))
        if number.is_finite and number.is_nonzero:
            return values
    return None


def _spelled(witness: Mapping[sp.Symbol, sp.Expr]) -> str:
    return ", ".join(f"{symbol} = {value}" for symbol, value in witness.items()) or "every point"
