"""The same claims said of equations instead of their solutions, for geometries that are solved at run time.

The acceleration of an implicit geometry is the solution of M(x'') = F with known F. A claim that sees it in inner products
only, <x'', eta> = tr(M(x'')' eta) = tr(F' eta), is a claim about F: an identity between polynomials, which can be proven. That
there is exactly one solution is that M is positive definite, a claim of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from quotientgeo.symbolic.derivation.calculus import Blocks, Reading, Side
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.statements import Sides, Statement, Weak, matched, spelled

_FORCE = "said of F = M(x''), with <x'', eta> = tr(F' eta) for every eta"
_LOWERED = "said of M(Gamma), with <Gamma, eta> = tr(M(Gamma)' eta) for every eta"


def _zero_like(r: Reading[Any], value: Any) -> Side:
    return value, r.calculus.scale(value, Fraction(0))


def _gradient(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any]) -> list[Side]:
    return [(r.inner(p, xi, eta), r.pair(r.lowered(p, xi), eta))]


def _euler_lagrange(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any]) -> list[Side]:
    c = r.calculus
    by_point = r.along_scalar(lambda q: r.inner(q, xi, eta), p, xi)
    by_motion = r.along_scalar(lambda q: r.inner(q, xi, xi), p, eta)
    return [(c.add(r.pair(r.stage(2, p, [xi]), eta), by_point), c.scale(by_motion, Fraction(1, 2)))]


def _energy_conserved(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
    c = r.calculus
    by_point = r.along_scalar(lambda q: r.inner(q, xi, xi), p, xi)
    return [_zero_like(r, c.add(by_point, c.scale(r.pair(r.stage(2, p, [xi]), xi), Fraction(2))))]


def _momentum_conserved(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], x: Blocks[Any]) -> list[Side]:
    by_point = r.along_scalar(lambda q: r.pair(r.momentum(q, xi), x), p, xi)
    return [_zero_like(r, r.calculus.add(by_point, r.pair(r.stage(2, p, [xi]), r.vertical(p, x))))]


def _acceleration_equivariant(
    r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any], a: Blocks[Any]
) -> list[Side]:
    c = r.calculus

    def push(q: Blocks[Any], tangent: Blocks[Any]) -> Blocks[Any]:
        return r.along(lambda point: r.act(a, point), q, tangent)

    moved, there = r.act(a, p), push(p, eta)
    bend = r.along(lambda q: push(q, xi), p, xi)  # of the action, beside the moved acceleration
    left = r.pair(r.stage(2, moved, [push(p, xi)]), there)
    return [(left, c.add(r.inner(moved, bend, there), r.pair(r.stage(2, p, [xi]), eta)))]


def _christoffel_symmetric(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any]) -> list[Side]:
    return matched(r.lowered_christoffel(p, xi, eta), r.lowered_christoffel(p, eta, xi))


def _christoffel_quadratic(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
    both = r.lowered_christoffel(p, xi, xi)
    return [(value, r.calculus.scale(both[f], Fraction(-1))) for f, value in r.stage(2, p, [xi]).items()]


def _metric_compatible(
    r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any], zeta: Blocks[Any]
) -> list[Side]:
    change = r.along_scalar(lambda q: r.inner(q, eta, zeta), p, xi)
    first, second = r.lowered_christoffel(p, xi, eta), r.lowered_christoffel(p, xi, zeta)
    return [(change, r.calculus.add(r.pair(first, zeta), r.pair(second, eta)))]


def _stage(k: int) -> Sides:
    """The equation of order k is the derivative of the one before, along any curve."""

    def sides(r: Reading[Any], p: Blocks[Any], *derivatives: Blocks[Any]) -> list[Side]:
        def rest(q: Blocks[Any], *known: Blocks[Any]) -> Blocks[Any]:
            value = r.stage(k - 1, q, known)
            return value if r.geometry.equations is None else r.add(r.lowered(q, known[-1]), value, -1)

        if r.geometry.equations is None:
            return matched(r.stage(k, p, derivatives), r.along_curve(rest, p, derivatives))
        here = r.add(r.lowered(p, derivatives[-1]), r.stage(k, p, derivatives[:-1]), -1)
        return matched(here, r.along_curve(rest, p, derivatives))

    return sides


def _weak(text: str, roles: str, sides: Sides) -> Weak:
    return Weak(tuple(roles.split()), sides, text)


_IMPLICIT: dict[str, Weak] = {
    "gradient": _weak("said of M, in <xi, eta> = tr(M(xi)' eta): the gradient is where M is dF", "p xi eta", _gradient),
    "acceleration": _weak(_FORCE, "p xi eta", _euler_lagrange),
    "energy_conserved": _weak(_FORCE, "p xi", _energy_conserved),
    "momentum_conserved": _weak(_FORCE, "p xi X", _momentum_conserved),
    "acceleration_equivariant": _weak(f"{_FORCE}, and invariance", "p xi eta A", _acceleration_equivariant),
    "christoffel_symmetric": _weak(_LOWERED, "p xi eta", _christoffel_symmetric),
    "christoffel_quadratic": _weak(_LOWERED, "p xi", _christoffel_quadratic),
    "metric_compatible": _weak(_LOWERED, "p xi eta zeta", _metric_compatible),
}


SAID_OF_EQUATIONS = frozenset(_IMPLICIT)  # claims that have a form in which nothing is solved


def _of_order(k: int, implicit: bool) -> Weak:
    roles = ["p", "xi", *(f"x{j}" for j in range(2, k + (1 if implicit else 0)))]
    what = f"M(x_{k}) = F_{k} and M(x_{k - 1}) = F_{k - 1}" if implicit else f"the formulas of x_{k} and x_{k - 1}"
    return Weak(tuple(roles), _stage(k), f"said of {what} along any curve, with x_2, x_3, ... as letters")


def weakly(geometry: Geometry, statement: Statement) -> Statement:
    """The statement with what its proofs may show instead; as it is where everything has a closed form."""
    implicit = geometry.equations is not None
    kind, _, order = statement.name.partition("_")
    weak = _IMPLICIT.get(statement.name) if implicit else None
    if kind == "taylor" and geometry.rates and (int(order) > 2 or not implicit):
        weak = _of_order(int(order), implicit) if int(order) > 2 else None
    if weak is None:
        return statement
    formula = _EQUATIONS.get(statement.name, statement.formula) if implicit else statement.formula
    return dataclasses.replace(statement, weak=weak, formula=formula)


def _lowered(geometry: Geometry) -> str:
    assert geometry.equations is not None
    return spelled(geometry.equations.lowered)


_EQUATIONS: dict[str, Callable[[Geometry], str]] = {
    "gradient": _lowered,
    **{
        name: lambda geometry: spelled(geometry.staged[2])
        for name in ("acceleration", "energy_conserved", "acceleration_equivariant")
    },
    **{
        name: lambda geometry: spelled(geometry.equations.christoffel)  # type: ignore[union-attr]
        for name in ("christoffel_symmetric", "christoffel_quadratic", "metric_compatible")
    },
}
