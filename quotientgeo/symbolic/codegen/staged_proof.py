"""Functions that are put together from others, run on symbols with stand-ins for what solves.

A stand-in for ``gradient`` knows the right sides of the geometry's equations as polynomials, and answers each with the
letters of the time derivative that solves it; any other right side is refused. So each function is proven to return what it
should for all sizes, up to the solution of M(xi) = y itself, which is checked on numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import factorial
from typing import Any

from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.algebra import Polynomial, vanishes
from quotientgeo.symbolic.codegen.functions import DERIVATIVE
from quotientgeo.symbolic.codegen.staged import staged_names
from quotientgeo.symbolic.codegen.symbolic_torch import SymbolicTensor, run_on_symbols
from quotientgeo.symbolic.codegen.systems import System, metric_systems
from quotientgeo.symbolic.derivation import Geometry

Case = tuple[Sequence[Polynomial], Sequence[Polynomial]]  # (arguments, what the stand-in returns for them)


def check_staged(source: str, geometry: Geometry) -> dict[str, str]:
    """{function: status}; CertificateError where one does not return what the solutions of the equations make it."""
    out = {}
    for name in staged_names(geometry):
        namespace = run_on_symbols(source, geometry.alphabet)
        _stand_ins(namespace, geometry, name)
        arguments, wanted = _expected(geometry, name)
        found = [value.value for value in namespace[name](*map(SymbolicTensor, arguments))]
        if len(found) != len(wanted) or not all(map(_equal, found, wanted)):
            raise CertificateError(f"{geometry.name}: generated {name} returns {found}, expected {list(wanted)}")
        solved = geometry.equations is not None
        out[name] = f"proven for all sizes{', up to the solution of lowered(xi) = y' if solved else ''}"
    return out


def _stand_ins(namespace: dict[str, Any], geometry: Geometry, name: str) -> None:
    """Put stand-ins in place of what solves, and of what has been proven by itself."""
    if name == "gradient":
        for system in metric_systems(geometry):
            if isinstance(system, System):
                arguments, solutions = (_letters(geometry, x) for x in (system.arguments, system.letters))
                namespace[system.solver] = _answering(geometry, system.solver, [(arguments, solutions)], system.one)
        return
    if geometry.equations is not None:
        namespace["gradient"] = _answering(geometry, "gradient", _solutions(geometry))
        return
    state = (*geometry.names.factors, *geometry.names.tangents)
    for k, formulas in geometry.derivatives.items():
        arguments = _letters(geometry, next(iter(formulas.values())).arguments)
        called = "acceleration" if k == 2 else DERIVATIVE.format(k)
        case = (_letters(geometry, (*state, *geometry.metric.parameters)) if k == 2 else arguments, _rates(geometry, k))
        namespace[called] = _answering(geometry, called, [case])


def _solutions(geometry: Geometry) -> list[Case]:
    """Each right side of M(xi) = y, and the letters that stand for its solution."""
    assert geometry.equations is not None
    sides = [
        (formulas, _rates(geometry, k)) for k, formulas in geometry.equations.forces.items()
    ] + [(geometry.equations.christoffel, _letters(geometry, map(geometry.names.third_tangent, geometry.factors)))]  # fmt: skip
    point, parameters = _letters(geometry, geometry.factors), _letters(geometry, geometry.metric.parameters)
    return [([*point, *(f.polynomial for f in formulas.values()), *parameters], found) for formulas, found in sides]


def _expected(geometry: Geometry, name: str) -> Case:
    """(arguments, what the function has to return for them)."""
    names, parameters = geometry.names, geometry.metric.parameters
    if name == "gradient":
        given = _letters(geometry, (*names.factors, *map(names.euclidean, names.factors), *parameters))
        return given, _gradient(geometry)
    state = (*names.factors, *names.tangents)
    if name == "christoffel":
        letters = (*state, *map(names.second_tangent, names.factors), *parameters)
        return _letters(geometry, letters), _letters(geometry, map(names.third_tangent, names.factors))
    arguments = _letters(geometry, (*state, *parameters))
    if name == "acceleration":
        return arguments, _rates(geometry, 2)
    order, ends = int(name.removeprefix("taylor_")), []
    for f in names.factors:
        end = geometry.alphabet[f] + geometry.alphabet[names.tangent(f)]
        for k in range(2, order + 1):
            end = end + geometry.alphabet[geometry.rates[k][f]] * Fraction(1, factorial(k))
        ends.append(end)
    return arguments, ends


def _gradient(geometry: Geometry) -> list[Polynomial]:
    """The tangent letters where a system solves, else the formula."""
    found: dict[str, Polynomial] = {}
    for solver in metric_systems(geometry):
        if isinstance(solver, System):
            found |= {x: geometry.alphabet[x] for x in solver.letters}
        else:
            ((_, value),) = solver.outputs.items()
            (factor,) = [f for f in geometry.factors if geometry.names.euclidean(f) in solver.arguments]
            assert isinstance(value, Polynomial)
            found[geometry.names.tangent(factor)] = value
    return [found[x] for x in geometry.names.tangents]


def _letters(geometry: Geometry, names: Any) -> list[Polynomial]:
    return [geometry.alphabet[name] for name in names]


def _rates(geometry: Geometry, k: int) -> list[Polynomial]:
    return _letters(geometry, geometry.rates[k].values())


def _answering(geometry: Geometry, name: str, cases: Sequence[Case], one: bool = False) -> Callable[..., Any]:
    """A function that knows its answers for these arguments only."""

    def stand_in(*arguments: SymbolicTensor) -> Any:
        given = [argument.value for argument in arguments]
        for wanted, answer in cases:
            if len(wanted) == len(given) and all(map(_equal, given, wanted)):
                values = tuple(map(SymbolicTensor, answer))
                return values[0] if one else values
        raise CertificateError(f"{geometry.name}: generated code calls {name} with {', '.join(map(str, given))}")

    return stand_in


def _equal(one: Polynomial, other: Polynomial) -> bool:
    return one.shape == other.shape and (one == other or vanishes(one - other))
