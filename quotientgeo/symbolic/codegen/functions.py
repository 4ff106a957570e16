"""The functions of a generated module: what each computes, from which formulas, and what its docstring says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import factorial

from quotientgeo.symbolic.algebra import Polynomial, TracePolynomial
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula


@dataclass(frozen=True)
class Function:
    """One generated function.

    ``outputs`` = {local name: formula} in the order of return; ``summary`` starts the docstring; ``formulas`` are written
    out below it (``None``: the outputs themselves), then ``notes``; ``one``: the function returns its only output, not a
    tuple.
    """

    name: str
    arguments: tuple[str, ...]
    outputs: Mapping[str, Polynomial | TracePolynomial]
    summary: str
    one: bool = False
    formulas: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def functions(geometry: Geometry) -> list[Function]:
    """Every function of the module, in its order."""
    names = geometry.names
    point, velocity = f"({', '.join(names.factors)})", f"({', '.join(names.tangents)})"
    other = f"({', '.join(map(names.second_tangent, names.factors))})"
    euclidean = f"({', '.join(map(names.euclidean, names.factors))})"
    momenta = {x: "momentum" if len(names.algebra) == 1 else f"momentum_{x}" for x in names.algebra}
    pairing = " + ".join(f"tr({momentum}' {x})" for x, momentum in momenta.items())
    return [
        Function(
            "inner",
            geometry.inner.arguments,
            {_local("inner", geometry): geometry.inner.polynomial},
            f"Inner product of the tangents {velocity} and {other} at {point}.",
            one=True,
        ),
        _per_factor(
            geometry,
            "gradient",
            geometry.gradient,
            "grad_{}",
            f"Riemannian gradient at {point} of a function with Euclidean gradient {euclidean}.",
        ),
        _per_factor(
            geometry,
            "vertical",
            geometry.vertical,
            "V_{}",
            f"Vertical tangent at {point}: the velocity of the orbit under the Lie algebra element {', '.join(names.algebra)}.",
        ),
        Function(
            "momentum",
            next(iter(geometry.momentum.values())).arguments,
            {_local(momenta[x], geometry): formula.polynomial for x, formula in geometry.momentum.items()},
            f"Momentum of the tangent {velocity} at {point}: zero exactly for horizontal tangents, constant along geodesics.",
            one=len(momenta) == 1,
            notes=(f"<xi, vertical({', '.join(names.algebra)})> = {pairing}",),
        ),
        _per_factor(
            geometry,
            "acceleration",
            geometry.acceleration,
            "acc_{}",
            f"Second time derivative -Gamma(xi, xi) of the geodesic through {point} with velocity {velocity}.",
        ),
        *(_taylor(geometry, order) for order in (1, *geometry.derivatives)),
    ]


def _local(name: str, geometry: Geometry) -> str:
    """A name for a result that is no letter of the problem."""
    while name in geometry.names.all:
        name += "_"
    return name


def _per_factor(
    geometry: Geometry, name: str, formulas: Mapping[str, MatrixFormula], result: str, summary: str
) -> Function:
    outputs = {_local(result.format(factor), geometry): formula.polynomial for factor, formula in formulas.items()}
    return Function(name, next(iter(formulas.values())).arguments, outputs, summary)


def _taylor(geometry: Geometry, order: int) -> Function:
    names, alphabet = geometry.names, geometry.alphabet
    outputs: dict[str, Polynomial | TracePolynomial] = {}
    for factor in names.factors:
        end = alphabet[factor] + alphabet[names.tangent(factor)]
        for k in range(2, order + 1):
            end = end + geometry.derivatives[k][factor].polynomial * Fraction(1, factorial(k))
        outputs[_local(f"{factor}1", geometry)] = end
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
