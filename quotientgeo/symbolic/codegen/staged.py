"""Functions that are put together from others: gradient and geodesics of implicit metrics, staged time derivatives.

An implicit geometry has one function that solves, ``gradient``: the tangent xi with lowered(xi) = y for any y. Acceleration,
Christoffel form and time derivatives are gradients of known right sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

from quotientgeo.symbolic.codegen.functions import (
    COVARIANT,
    DERIVATIVE,
    FORCE,
    LOWERED,
    LOWERED_CHRISTOFFEL,
    acceleration_summary,
    christoffel_summary,
    gradient_summary,
    taylor_formulas,
    taylor_summary,
)
from quotientgeo.symbolic.codegen.solving import documented, signature_of
from quotientgeo.symbolic.codegen.systems import System, metric_systems
from quotientgeo.symbolic.codegen.writer import INDENT, broken
from quotientgeo.symbolic.derivation import Geometry


def staged_names(geometry: Geometry) -> list[str]:
    """The public functions that are put together here, in their order."""
    solved = ["gradient", "acceleration", "christoffel"] if geometry.equations is not None else []
    return [*solved, *(f"taylor_{k}" for k in _orders(geometry))]


def staged_source(geometry: Geometry) -> list[str]:
    """Their text."""
    out = []
    if geometry.equations is not None:
        out = [_gradient(geometry), _acceleration(geometry), _christoffel(geometry)]
    return [*out, *(_taylor(geometry, k) for k in _orders(geometry))]


def _orders(geometry: Geometry) -> list[int]:
    if not geometry.rates:
        return []
    return [k for k in geometry.staged if k > 2 or geometry.equations is not None]


def _gradient(geometry: Geometry) -> str:
    names, parameters = geometry.names, geometry.metric.parameters
    given = [names.euclidean(f) for f in names.factors]
    arguments = [*names.factors, *given, *parameters]
    lines = documented(
        geometry,
        gradient_summary(geometry),
        [f"the tangent with {LOWERED}(tangent) = ({', '.join(given)})", "solved at run time: no formula gives it"],
        arguments,
    )
    shapes = [f"{name}.shape[:-2]" for name in arguments]
    body = broken(f"{INDENT}batch = torch.broadcast_shapes(", shapes, ")", INDENT)
    body += [f"{INDENT}{name} = {name}.expand(*batch, -1, -1)" for name in given]
    for solver in metric_systems(geometry):
        if isinstance(solver, System):
            found = [f"grad_{names.factors[names.tangents.index(letter)]}" for letter in solver.letters]
            name, called = solver.solver, solver.arguments
        else:
            (letter,) = [f for f in names.factors if names.euclidean(f) in solver.arguments]
            found, name, called = [f"grad_{letter}"], solver.name, solver.arguments
        body += _assigned(found, f"{name}(", called, one=len(found) == 1)
    return _text("gradient", geometry, arguments, lines, [*body, _returned([f"grad_{f}" for f in names.factors])])


def _acceleration(geometry: Geometry) -> str:
    names, parameters = geometry.names, geometry.metric.parameters
    arguments = [*names.factors, *names.tangents, *parameters]
    formulas = [f"the tangent with {LOWERED}(tangent) = {FORCE.format(2)}", "solved at run time: no formula gives it"]
    lines = documented(geometry, acceleration_summary(geometry), formulas, arguments)
    force = f"*{FORCE.format(2)}({', '.join(arguments)})"
    return _text("acceleration", geometry, arguments, lines, _solved(geometry, force))


def _christoffel(geometry: Geometry) -> str:
    names, parameters = geometry.names, geometry.metric.parameters
    arguments = [*names.factors, *names.tangents, *map(names.second_tangent, names.factors), *parameters]
    formulas = [
        f"the tangent with {LOWERED}(tangent) = {LOWERED_CHRISTOFFEL}, solved at run time",
        f"Gamma(xi, xi) = -acceleration; {COVARIANT}",
    ]
    lines = documented(geometry, christoffel_summary(geometry), formulas, arguments)
    force = f"*{LOWERED_CHRISTOFFEL}({', '.join(arguments)})"
    return _text("christoffel", geometry, arguments, lines, _solved(geometry, force))


def _solved(geometry: Geometry, force: str) -> list[str]:
    called = [*geometry.names.factors, force, *geometry.metric.parameters]
    return broken(f"{INDENT}return gradient(", called, ")", INDENT)


def _taylor(geometry: Geometry, order: int) -> str:
    names, parameters, rates = geometry.names, geometry.metric.parameters, geometry.rates
    state = [*names.factors, *names.tangents]
    lines = documented(geometry, taylor_summary(geometry, order), taylor_formulas(order), [*state, *parameters])
    body = _assigned([rates[2][f] for f in names.factors], "acceleration(", [*state, *parameters])
    known = list(state)
    for k in range(3, order + 1):
        known += [rates[k - 1][f] for f in names.factors]
        found = [rates[k][f] for f in names.factors]
        arguments = [*known, *parameters]
        if geometry.equations is None:
            body += _assigned(found, f"{DERIVATIVE.format(k)}(", arguments)
            continue
        force = _assigned([f"force_{f}" for f in names.factors], f"{FORCE.format(k)}(", arguments)
        body += [*force, *_assigned(found, "gradient(", [*names.factors, *_forces(geometry), *parameters])]
    ends = []
    for f in names.factors:
        terms = [f"{rates[k][f]} / {factorial(k)}" for k in range(2, order + 1)]
        body.append(f"{INDENT}end_{f} = {' + '.join([f, names.tangent(f), *terms])}")
        ends.append(f"end_{f}")
    return _text(f"taylor_{order}", geometry, [*state, *parameters], lines, [*body, _returned(ends)])


def _forces(geometry: Geometry) -> list[str]:
    return [f"force_{f}" for f in geometry.names.factors]


def _assigned(targets: Sequence[str], call: str, arguments: Sequence[str], one: bool = False) -> list[str]:
    """``a, b = call(arguments)``, with the values of a tuple of one taken out."""
    left = ", ".join(targets) if one or len(targets) > 1 else f"({targets[0]},)"
    return broken(f"{INDENT}{left} = {call}", list(arguments), ")", INDENT)


def _returned(values: Sequence[str]) -> str:
    return f"{INDENT}return {', '.join(values)}" if len(values) > 1 else f"{INDENT}return ({values[0]},)"


def _text(name: str, geometry: Geometry, arguments: Sequence[str], lines: Sequence[str], body: Sequence[str]) -> str:
    return "\n".join([signature_of(name, arguments, geometry.names.factors), *lines, *body])
