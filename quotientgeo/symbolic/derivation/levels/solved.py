"""Closed forms read as solutions: where they provably are the gradient at a known right side, claims about them are claims
about that right side.

The metric lowers tangents, <xi, eta> = tr(M(xi)' eta). If the gradient's formula solves M(grad(d)) = d for every d, M has an
inverse, and it is that formula. If the acceleration is grad(F) with the force F, and the Christoffel form grad(L), then
M(x'') = F and M(Gamma) = L, and what ``weak`` says of implicit geometries holds of these formulas, too. The normal form shows all
of this where it does not relate the inverses that inner products of the formulas themselves would bring together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from quotientgeo.symbolic.algebra import Polynomial, vanishes
from quotientgeo.symbolic.derivation import implicit
from quotientgeo.symbolic.derivation.formula import MatrixFormula, block
from quotientgeo.symbolic.derivation.geometry import Equations, Geometry

_Blocks = Mapping[str, Polynomial]


def as_solution(geometry: Geometry) -> Geometry | None:
    """The geometry with its equations in place of the closed forms; None where these are not shown to solve them."""
    if geometry.equations is not None or not geometry.acceleration or not geometry.christoffel:
        return None
    alphabet, names, inner = geometry.alphabet, geometry.names, geometry.inner.polynomial
    metric = implicit.lowered(names, inner)
    force = implicit.force(alphabet, names, inner, metric)
    pairs = implicit.polarised(alphabet, names, force)
    gradient = {f: formula.polynomial for f, formula in geometry.gradient.items()}
    solution = {names.tangent(f): value for f, value in gradient.items()}

    def is_gradient_of(right: _Blocks, formulas: Mapping[str, MatrixFormula]) -> bool:
        values = {names.euclidean(f): value for f, value in right.items()}
        return all(vanishes(formulas[f].polynomial - gradient[f].substitute(values)) for f in names.factors)

    if not (
        all(vanishes(metric[f].substitute(solution) - alphabet[names.euclidean(f)]) for f in names.factors)
        and is_gradient_of(force, geometry.acceleration)
        and is_gradient_of(pairs, geometry.christoffel)
    ):
        return None
    state = (*names.factors, *names.tangents, *geometry.metric.parameters)
    both = (*names.factors, *names.tangents, *map(names.second_tangent, names.factors), *geometry.metric.parameters)
    equations = Equations(
        lowered=block("lowered", state, metric),
        forces={2: block("force_2", state, force)},
        christoffel=block("lowered_christoffel", both, pairs),
    )
    return dataclasses.replace(
        geometry, gradient={}, acceleration={}, christoffel={}, derivatives={}, rates={}, equations=equations
    )
