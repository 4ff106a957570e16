"""Geodesics whose time derivatives end: where one of them is zero, the geodesic is its Taylor polynomial.

The k-th time derivative of a geodesic is x_k(x, x'), a formula in its point and velocity. Where the formula is zero, it is
so all along the geodesic, and with it all later ones: x(t) = sum over j < k of t^j x_j / j!, for every point, tangent and size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import factorial

from quotientgeo.errors import CertificateError, NotDerivableError
from quotientgeo.symbolic.algebra import Polynomial, vanishes
from quotientgeo.symbolic.derivation.certificate import Level, Outcome
from quotientgeo.symbolic.derivation.certify import check_statement
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.kept import inverses_of
from quotientgeo.symbolic.derivation.statements import statements


@dataclass(frozen=True)
class Series:
    """factor -> (x, xi, x_2 / 2, ..., x_(k-1) / (k-1)!), what multiplies the powers of t; x_k is zero for k = ``order``."""

    order: int
    coefficients: dict[str, tuple[Polynomial, ...]]

    def end(self, factor: str) -> Polynomial:
        """At t = 1."""
        first, *rest = self.coefficients[factor]
        return sum(rest, first)

    def formula(self, factor: str) -> str:
        """Of x(t), for a reader."""
        return f"{factor}(t) = " + "".join(_term(j, value) for j, value in enumerate(self.coefficients[factor]))

    @property
    def degree(self) -> int:
        """Of the polynomial in t."""
        return self.order - 1


def series(geometry: Geometry) -> Series:
    """The polynomial, from the first time derivative that is zero for every factor.

    Raises:
        NotDerivableError: none is, or time derivatives are no formulas in point and velocity alone.
    """
    name, names, alphabet = geometry.name, geometry.names, geometry.alphabet
    if geometry.equations is not None or geometry.rates or geometry.metric.parameters:
        raise NotDerivableError(f"{name}: its time derivatives are no formulas in point and velocity alone")
    zero = [k for k, x in sorted(geometry.derivatives.items()) if all(vanishes(f.polynomial) for f in x.values())]
    if not zero:
        raise NotDerivableError(f"{name}: no time derivative up to {max(geometry.derivatives, default=1)} is zero")
    coefficients = {
        f: (
            alphabet[f],
            alphabet[names.tangent(f)],
            *(geometry.derivatives[j][f].polynomial * Fraction(1, factorial(j)) for j in range(2, zero[0])),
        )
        for f in names.factors
    }
    return Series(zero[0], coefficients)


def prove_series(geometry: Geometry, found: Series) -> None:
    """Each time derivative up to the one that is zero is, in normal form, the derivative of the one before along geodesics.

    Raises:
        CertificateError: one is not, or the polynomial has other coefficients, or the last is not zero.
    """
    wanted = ["acceleration", *(f"taylor_{k}" for k in range(2, found.order + 1))]
    known = {statement.name: statement for statement in statements(geometry)}
    for name in wanted:
        if name not in known:
            raise CertificateError(f"{geometry.name}: there is no statement {name} to prove its closed form with")
        result = check_statement(geometry, known[name], Level.NORMAL_FORM)
        if result.outcome is not Outcome.PROVEN:
            raise CertificateError(
                f"{geometry.name}: the closed form is not proven: {known[name].text}: {result.outcome}, {result.residual:.200}"
            )
    for factor, values in found.coefficients.items():
        formulas = [geometry.derivatives[k][factor].polynomial for k in range(2, found.order + 1)]
        start = [geometry.alphabet[factor], geometry.alphabet[geometry.names.tangent(factor)]]
        right = [x * Fraction(1, factorial(j)) for j, x in enumerate([*start, *formulas])]
        if len(values) != found.order or any(not vanishes(a - b) for a, b in zip(values, right, strict=False)):
            raise CertificateError(f"{geometry.name}: the closed form of {factor} is not the Taylor polynomial")
        if not vanishes(formulas[-1]):
            raise CertificateError(
                f"{geometry.name}: time derivative {found.order} of {factor} is {formulas[-1]!r:.200}"
            )


def divides(geometry: Geometry) -> bool:
    """Whether an inverse occurs in the metric or in its time derivatives: these hold where it exists."""
    formulas = (formula for x in geometry.derivatives.values() for formula in x.values())
    return bool(inverses_of([*formulas, geometry.inner]))


def _term(power: int, value: Polynomial) -> str:
    """With its sign, as it follows what comes before."""
    if value.is_zero:
        return ""
    if power == 0:
        return repr(value)
    sign, text = " + ", repr(value)
    if len(value) > 1:
        text = f"({text})"
    elif text.startswith("-"):
        sign, text = " - ", text[1:].lstrip()
    return f"{sign}{'t' if power == 1 else f't^{power}'} {text}"
