"""The functions of a generated module: what each computes, from which formulas, and what its docstring says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import factorial

from quotientgeo.symbolic.algebra import Polynomial, TracePolynomial
from quotientgeo.symbolic.derivation import Geometry


@dataclass(frozen=True)
class Function:
    """One generated function.

    ``outputs`` = {local name: formula} in the order of return; ``summary`` starts the docstring; ``formulas`` are written
    out below it (``None``: the outputs themselves); ``one``: the function returns its only output, not a tuple.
    """

    name: str
    arguments: tuple[str, ...]
    outputs: Mapping[str, Polynomial | TracePolynomial]
    summary: str
    one: bool = False
    formulas: tuple[str, ...] | None = None


def functions(geometry: Geometry) -> list[Function]:
    """Every function of the module, in its order."""
    names = geometry.names
    point = f"({', '.join(names.factors)})"
    velocity = f"({', '.join(names.tangents)})"
    return [
        Function(
            "inner",
            geometry.inner.arguments,
            {"inner": geometry.inner.polynomial},
            f"Inner product of the tangents {velocity} and ({', '.join(map(names.second_tangent, names.factors))}) at {point}.",
            one=True,
        ),
        Function(
            "gradient",
            next(iter(geometry.gradient.values())).arguments,
            {f"grad_{factor}": formula.polynomial for factor, formula in geometry.gradient.items()},
            f"Riemannian gradient at {point} of a function with Euclidean gradient "
            f"({', '.join(map(names.euclidean, names.factors))}).",
        ),
        Function(
            "vertical",
            next(iter(geometry.vertical.values())).arguments,
            {f"V_{factor}": formula.polynomial for factor, formula in geometry.vertical.items()},
            f"Vertical tangent at {point}: the velocity of the orbit under the Lie algebra element {', '.join(names.algebra)}.",
        ),
        Function(
            "momentum",
            next(iter(geometry.momentum.values())).arguments,
            {
                "momentum" if len(geometry.momentum) == 1 else f"momentum_{letter}": formula.polynomial
                for letter, formula in geometry.momentum.items()
            },
            f"Momentum J of the tangent {velocity} at {point}: <xi, vertical(X)> = tr(J' X). Zero exactly for horizontal "
            "tangents, constant along geodesics.",
            one=len(geometry.momentum) == 1,
        ),
        Function(
            "acceleration",
            next(iter(geometry.acceleration.values())).arguments,
            {f"acc_{factor}": formula.polynomial for factor, formula in geometry.acceleration.items()},
            f"Second time derivative -Gamma(xi, xi) of the geodesic through {point} with velocity {velocity}.",
        ),
        *(_taylor(geometry, order) for order in (1, *geometry.derivatives)),
    ]


def _taylor(geometry: Geometry, order: int) -> Function:
    names, alphabet = geometry.names, geometry.alphabet
    outputs: dict[str, Polynomial | TracePolynomial] = {}
    for factor in names.factors:
        end = alphabet[factor] + alphabet[names.tangent(factor)]
        for k in range(2, order + 1):
            end = end + geometry.derivatives[k][factor].polynomial * Fraction(1, factorial(k))
        outputs[f"{factor}1"] = end
    summary = (
        f"End point at t = 1 of the order-{order} Taylor polynomial of the geodesic through ({', '.join(names.factors)}) "
        f"with velocity ({', '.join(names.tangents)})."
    )
    powers = "".join(f" + x^({k}) / {factorial(k)}" for k in range(3, order + 1))
    formulas = [f"x + xi + x^(2) / 2{powers}", "with x^(2) the acceleration"]
    if order > 2:
        formulas[1] += ", x^(k+1) = d x^(k) in the direction (xi, x^(2)) of (point, velocity)"
    return Function(
        f"taylor_{order}",
        (*names.factors, *names.tangents),
        outputs,
        summary,
        formulas=tuple(formulas) if order > 1 else None,
    )
