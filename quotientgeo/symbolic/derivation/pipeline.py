"""From a declaration to a geometry with its certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra import Alphabet, Polynomial
from quotientgeo.symbolic.declaration import Metric, Names, Symmetry
from quotientgeo.symbolic.derivation import steps
from quotientgeo.symbolic.derivation.certificate import Level
from quotientgeo.symbolic.derivation.certify import DEFAULT_LEVELS, certify
from quotientgeo.symbolic.derivation.formula import Formula, MatrixFormula, ScalarFormula
from quotientgeo.symbolic.derivation.geometry import Geometry

HIGHEST_ORDER = 4  # of the Taylor terms; the number of terms grows about sevenfold per order


def derive(symmetry: Symmetry, metric: Metric, *, levels: Iterable[Level | str] = DEFAULT_LEVELS) -> Geometry:
    """Vertical space, momentum, gradient, acceleration and Taylor terms of a declared geometry, with their certificate.

    A false declaration is derived too: its certificate says what is false, with a witness, and
    ``geometry.certificate.require()`` raises it.

    Args:
        symmetry: the group action.
        metric: a metric declared for that symmetry.
        levels: which certificate levels to run, as letters ("abcde"; "f" is slow).

    Raises:
        DeclarationError: the metric was declared for another symmetry.
        NotDerivableError: a step has no closed form in the algebra (Sylvester-type or coupled metrics).
    """
    if metric.symmetry is not symmetry and metric.symmetry != symmetry:
        raise DeclarationError(
            f"metric {metric.name} was declared for the symmetry {metric.symmetry.name}, not for {symmetry.name}"
        )
    geometry = derive_formulas(symmetry, metric)
    return dataclasses.replace(geometry, certificate=certify(geometry, levels))


def derive_formulas(symmetry: Symmetry, metric: Metric) -> Geometry:
    """The geometry without a certificate."""
    alphabet, names = symmetry.alphabet(), symmetry.names
    points, velocities = names.factors, names.tangents
    action = symmetry.read_action(alphabet)
    moved = {factor: polynomial for factor, (_, polynomial) in action.items()}
    inner_expression, inner = metric.read_inner(alphabet)
    vertical = steps.vertical_space(alphabet, names, moved)
    acceleration = steps.acceleration(alphabet, names, inner)
    derivatives = steps.time_derivatives(alphabet, names, acceleration, HIGHEST_ORDER)

    def blocks(name: str, arguments: Iterable[str], values: Mapping[str, Polynomial]) -> dict[str, MatrixFormula]:
        arguments = tuple(arguments)
        return {key: MatrixFormula.derived(f"{name}_{key}", arguments, value) for key, value in values.items()}

    orders = {k: blocks(f"derivative_{k}", (*points, *velocities), value) for k, value in derivatives.items()}
    return Geometry(
        symmetry=symmetry,
        metric=metric,
        alphabet=alphabet,
        side=_side(alphabet, names, moved),
        action={
            factor: MatrixFormula(f"action_{factor}", (*names.elements, *points), polynomial, expression)
            for factor, (expression, polynomial) in action.items()
        },
        preserved=tuple(_declared_preserved(symmetry, alphabet)),
        inner=ScalarFormula(
            "inner", (*points, *velocities, *map(names.second_tangent, points)), inner, inner_expression
        ),
        vertical=blocks("vertical", (*points, *names.algebra), vertical),
        momentum=blocks("momentum", (*points, *velocities), steps.momentum(alphabet, names, inner, vertical)),
        gradient=blocks("gradient", (*points, *map(names.euclidean, points)), steps.gradient(alphabet, names, inner)),
        acceleration=blocks("acceleration", (*points, *velocities), acceleration),
        derivatives=orders,
    )


def _declared_preserved(symmetry: Symmetry, alphabet: Alphabet) -> Iterable[Formula]:
    for i, (expression, value) in enumerate(symmetry.read_preserved(alphabet)):
        name, arguments = f"preserved_{i + 1}", symmetry.names.factors
        if isinstance(value, Polynomial):
            yield MatrixFormula(name, arguments, value, expression)
        else:
            yield ScalarFormula(name, arguments, value, expression)


def _side(alphabet: Alphabet, names: Names, action: Mapping[str, Polynomial]) -> str:
    """Whether the action composes as A (B p) = (A B) p or as a right action; left unless only right is provable."""
    other = {e: alphabet[names.other_element(e)] for e in names.elements}
    inner = {factor: moved.substitute(other) for factor, moved in action.items()}
    twice = {factor: moved.substitute(inner) for factor, moved in action.items()}

    def agrees(product: dict[str, Polynomial]) -> bool:
        return all(action[factor].substitute(product) == twice[factor] for factor in action)

    left = {e: alphabet[e] * other[e] for e in names.elements}
    right = {e: other[e] * alphabet[e] for e in names.elements}
    return "right" if agrees(right) and not agrees(left) else "left"
