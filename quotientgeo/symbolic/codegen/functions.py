"""The functions of a generated module: what each computes, from which formulas, and what its docstring says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import factorial

from quotientgeo.symbolic.algebra import Polynomial, TracePolynomial
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula

LOWERED = "lowered"  # the function M of an implicit metric
FORCE, DERIVATIVE, LOWERED_CHRISTOFFEL = "_force_{}", "_derivative_{}", "_lowered_christoffel"


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
    """Every function of the module that is a formula, in its order."""
    return [*_of_the_metric(geometry), *_of_the_orbit(geometry), *_of_geodesics(geometry)]


def _together(letters: Iterable[str]) -> str:
    """(G, H)."""
    return f"({', '.join(letters)})"


def _of_the_metric(geometry: Geometry) -> list[Function]:
    names = geometry.names
    point, velocity = _together(names.factors), _together(names.tangents)
    other = _together(map(names.second_tangent, names.factors))
    elements = names.elements[0] if len(names.elements) == 1 else _together(names.elements)
    out = [
        _per_factor(
            geometry, "action", geometry.action, "moved_{}", f"The point {point} moved by the group element {elements}."
        ),
        Function(
            "inner",
            geometry.inner.arguments,
            {local("inner", geometry): geometry.inner.polynomial},
            f"Inner product of the tangents {velocity} and {other} at {point}.",
            one=True,
        ),
    ]
    if geometry.equations is not None:
        summary = f"What pairs with a tangent in the inner product with {velocity} at {point}: linear in {velocity}."
        pairing = " + ".join(f"tr({local(f'lowered_{f}', geometry)}' {names.second_tangent(f)})" for f in names.factors)
        notes = (f"<xi, eta> = {pairing}",)
        return [*out, _per_factor(geometry, LOWERED, geometry.equations.lowered, "lowered_{}", summary, notes)]
    return [*out, _per_factor(geometry, "gradient", geometry.gradient, "grad_{}", gradient_summary(geometry))]


def gradient_summary(geometry: Geometry) -> str:
    """First line of the docstring."""
    names = geometry.names
    point, euclidean = _together(names.factors), _together(map(names.euclidean, names.factors))
    return f"Riemannian gradient at {point} of a function with Euclidean gradient {euclidean}."


def _of_the_orbit(geometry: Geometry) -> list[Function]:
    names, momenta = geometry.names, momentum_names(geometry)
    point, velocity, algebra = _together(names.factors), _together(names.tangents), ", ".join(names.algebra)
    pairing = " + ".join(f"tr({momentum}' {x})" for x, momentum in momenta.items())
    out = [
        _per_factor(
            geometry,
            "vertical",
            geometry.vertical,
            f"{geometry.vertical_name}_{{}}",
            f"Vertical tangent at {point}: the velocity of the orbit under the Lie algebra element {algebra}.",
        ),
        Function(
            "momentum",
            next(iter(geometry.momentum.values())).arguments,
            {local(momenta[x], geometry): formula.polynomial for x, formula in geometry.momentum.items()},
            f"Momentum of the tangent {velocity} at {point}: zero exactly for horizontal tangents, constant along geodesics.",
            one=len(momenta) == 1,
            notes=(f"<xi, vertical({algebra})> = {pairing}",),
        ),
    ]
    if geometry.horizontal is not None:  # otherwise no formula, but a solve at run time
        summary = f"Horizontal part of the tangent {velocity} at {point}: what is left without its vertical part."
        out.append(_per_factor(geometry, "horizontal", geometry.horizontal, "horizontal_{}", summary))
    return out


def _of_geodesics(geometry: Geometry) -> list[Function]:
    if geometry.equations is not None:
        return [_taylor(geometry, 1), *_equations(geometry)]
    out = [
        _per_factor(geometry, "acceleration", geometry.acceleration, "acc_{}", acceleration_summary(geometry)),
        _per_factor(
            geometry,
            "christoffel",
            geometry.christoffel,
            "Gamma_{}",
            christoffel_summary(geometry),
            notes=(f"Gamma(xi, xi) = -acceleration; {COVARIANT}",),
        ),
    ]
    closed = [order for order in (1, *geometry.derivatives) if order <= 2 or not geometry.rates]
    return [*out, *(_taylor(geometry, order) for order in closed), *_stages(geometry)]


COVARIANT = "the covariant derivative of eta along xi is d eta/dt + Gamma(xi, eta)"


def acceleration_summary(geometry: Geometry) -> str:
    """First line of the docstring."""
    names = geometry.names
    point, velocity = _together(names.factors), _together(names.tangents)
    return f"Second time derivative -Gamma(xi, xi) of the geodesic through {point} with velocity {velocity}."


def christoffel_summary(geometry: Geometry) -> str:
    """First line of the docstring."""
    names = geometry.names
    point, velocity = _together(names.factors), _together(names.tangents)
    other = _together(map(names.second_tangent, names.factors))
    return f"Christoffel form Gamma(xi, eta) of the tangents {velocity} and {other} at {point}, symmetric and bilinear."


def _equations(geometry: Geometry) -> list[Function]:
    """Right sides of the equations of an implicit geometry."""
    assert geometry.equations is not None
    out = []
    for k, forces in geometry.equations.forces.items():
        summary = f"What {LOWERED} gives for the time derivative {k} of the geodesic, from those before."
        out.append(_per_factor(geometry, FORCE.format(k), forces, "force_{}", summary))
    summary = f"What {LOWERED} gives for the Christoffel form Gamma(xi, eta)."
    return [*out, _per_factor(geometry, LOWERED_CHRISTOFFEL, geometry.equations.christoffel, "force_{}", summary)]


def _stages(geometry: Geometry) -> list[Function]:
    """Time derivatives from those before, where formulas in point and velocity alone are long."""
    if not geometry.rates:
        return []
    return [
        _per_factor(
            geometry,
            DERIVATIVE.format(k),
            formulas,
            "derivative_{}",
            f"Time derivative {k} of the geodesic, from those before.",
        )
        for k, formulas in geometry.derivatives.items()
        if k > 2
    ]


def momentum_names(geometry: Geometry) -> dict[str, str]:
    """{Lie algebra letter: what its momentum is called}."""
    algebra = geometry.names.algebra
    return {x: "momentum" if len(algebra) == 1 else f"momentum_{x}" for x in algebra}


def local(name: str, geometry: Geometry) -> str:
    """A name for a result that is no letter of the problem."""
    while name in geometry.names.all:
        name += "_"
    return name


def _per_factor(
    geometry: Geometry,
    name: str,
    formulas: Mapping[str, MatrixFormula],
    result: str,
    summary: str,
    notes: tuple[str, ...] = (),
) -> Function:
    outputs = {local(result.format(factor), geometry): formula.polynomial for factor, formula in formulas.items()}
    return Function(name, next(iter(formulas.values())).arguments, outputs, summary, notes=notes)


def _taylor(geometry: Geometry, order: int) -> Function:
    names, alphabet = geometry.names, geometry.alphabet
    outputs: dict[str, Polynomial | TracePolynomial] = {}
    for factor in names.factors:
        end = alphabet[factor] + alphabet[names.tangent(factor)]
        for k in range(2, order + 1):
            end = end + geometry.derivatives[k][factor].polynomial * Fraction(1, factorial(k))
        outputs[local(f"{factor}1", geometry)] = end
    formulas = taylor_formulas(order)
    return Function(
        f"taylor_{order}",
        (*names.factors, *names.tangents, *geometry.metric.parameters),
        outputs,
        taylor_summary(geometry, order),
        formulas=formulas if order > 1 else None,
    )


def taylor_summary(geometry: Geometry, order: int) -> str:
    """First line of the docstring."""
    names = geometry.names
    return (
        f"End point at t = 1 of the order-{order} Taylor polynomial of the geodesic through ({', '.join(names.factors)}) "
        f"with velocity ({', '.join(names.tangents)})."
    )


def taylor_formulas(order: int) -> tuple[str, ...]:
    """The polynomial, and what its coefficients are."""
    powers = "".join(f" + x^({k}) / {factorial(k)}" for k in range(3, order + 1))
    formulas = [f"x + xi + x^(2) / 2{powers}", "with x^(2) the acceleration"]
    if order > 2:
        formulas[1] += ", x^(k+1) = d x^(k) in the direction (xi, x^(2)) of (point, velocity)"
    return tuple(formulas)
