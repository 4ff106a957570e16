"""From a declaration to a geometry with its certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from quotientgeo.errors import CertificateError, DeclarationError, NotDerivableError
from quotientgeo.symbolic.algebra import Alphabet, Polynomial
from quotientgeo.symbolic.declaration import Metric, Symmetry
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
        CertificateError: the metric is not symmetric, or not positive definite, and its equations have no solution for that
            reason; with a witness.
        NotDerivableError: a step has no closed form in the algebra (Sylvester-type or coupled metrics).
    """
    if not isinstance(symmetry, Symmetry) or not isinstance(metric, Metric):
        raise DeclarationError(
            f"derive takes a Symmetry and a Metric, got a {type(symmetry).__name__} and a {type(metric).__name__}"
        )
    if metric.symmetry is not symmetry and metric.symmetry != symmetry:
        raise DeclarationError(
            f"metric {metric.name} was declared for the symmetry {metric.symmetry.name}, not for {symmetry.name}"
        )
    geometry = derive_formulas(symmetry, metric)
    return dataclasses.replace(geometry, certificate=certify(geometry, levels))


def derive_formulas(symmetry: Symmetry, metric: Metric) -> Geometry:
    """The geometry without a certificate."""
    declared = _declared(symmetry, metric)
    alphabet, names, inner = declared.alphabet, symmetry.names, declared.inner.polynomial
    try:
        gradient = steps.gradient(alphabet, names, inner)
        acceleration = steps.acceleration(alphabet, names, inner)
    except NotDerivableError:
        _require_metric(declared)
        raise
    derivatives = steps.time_derivatives(alphabet, names, acceleration, HIGHEST_ORDER)
    christoffel = steps.christoffel(alphabet, names, acceleration)
    parameters = metric.parameters
    state = (*names.factors, *names.tangents, *parameters)
    geometry = dataclasses.replace(
        declared,
        gradient=_blocks("gradient", (*names.factors, *map(names.euclidean, names.factors), *parameters), gradient),
        acceleration=_blocks("acceleration", state, acceleration),
        derivatives={k: _blocks(f"derivative_{k}", state, value) for k, value in derivatives.items()},
        christoffel=_blocks(
            "christoffel",
            (*names.factors, *names.tangents, *map(names.second_tangent, names.factors), *parameters),
            christoffel,
        ),
    )
    return _with_projector(geometry)


def _with_projector(geometry: Geometry) -> Geometry:
    """The vertical Gram operator, and the closed form of the horizontal part where there is one."""
    names, alphabet, parameters = geometry.names, geometry.alphabet, geometry.metric.parameters
    state = (*names.factors, *names.tangents, *parameters)
    vertical = {f: formula.polynomial for f, formula in geometry.vertical.items()}
    momenta = {x: formula.polynomial for x, formula in geometry.momentum.items()}
    gram = steps.vertical_gram(names, momenta, vertical)
    geometry = dataclasses.replace(
        geometry, vertical_gram=_blocks("vertical_gram", (*names.factors, *names.algebra, *parameters), gram)
    )
    solution = steps.projector(names, momenta, gram)
    if solution is None:
        return geometry
    closed = dataclasses.replace(
        geometry,
        projector=_blocks("projector", state, solution),
        horizontal=_blocks("horizontal", state, steps.horizontal(alphabet, names, vertical, solution)),
    )
    # an inverse that exists in the algebra only (of G H' with more rows than columns, say) is no solution
    exists = certify(closed, (Level.MODULAR,), claims=("horizontal_momentum",))["horizontal_momentum"].status != "false"
    return closed if exists else geometry


def _blocks(name: str, arguments: Iterable[str], values: Mapping[str, Polynomial]) -> dict[str, MatrixFormula]:
    arguments = tuple(arguments)
    return {key: MatrixFormula.derived(f"{name}_{key}", arguments, value) for key, value in values.items()}


def _declared(symmetry: Symmetry, metric: Metric) -> Geometry:
    """What was declared, with the vertical space and the momentum; nothing is solved for."""
    alphabet, names = symmetry.alphabet(), symmetry.names
    points, velocities = names.factors, names.tangents
    action = symmetry.read_action(alphabet)
    moved = {factor: polynomial for factor, (_, polynomial) in action.items()}
    inner_expression, inner = metric.read_inner(alphabet)
    vertical = steps.vertical_space(alphabet, symmetry, moved)
    return Geometry(
        symmetry=symmetry,
        metric=metric,
        alphabet=alphabet,
        side=_side(alphabet, symmetry, moved),
        action={
            factor: MatrixFormula(f"action_{factor}", (*names.elements, *points), polynomial, expression)
            for factor, (expression, polynomial) in action.items()
        },
        preserved=tuple(_declared_preserved(symmetry, alphabet)),
        inner=ScalarFormula(
            "inner",
            (*points, *velocities, *map(names.second_tangent, points), *metric.parameters),
            inner,
            inner_expression,
        ),
        vertical=_blocks("vertical", (*points, *names.algebra), vertical),
        momentum=_blocks(
            "momentum", (*points, *velocities, *metric.parameters), steps.momentum(alphabet, names, inner, vertical)
        ),
        gradient={},
        acceleration={},
        derivatives={},
    )


def _require_metric(declared: Geometry) -> None:
    """CertificateError where the equations could not be solved because what was declared is no metric."""
    certificate = certify(declared, "abde", claims=("metric_symmetric", "metric_positive_definite"))
    names, letters = declared.names, declared.inner.polynomial.symbols()
    for claim, what in (("metric_symmetric", "symmetric"), ("metric_positive_definite", "positive definite")):
        if certificate[claim].status != "false":
            continue
        missing = [f for f in names.factors if not {names.tangent(f), names.second_tangent(f)} & set(letters)]
        if missing and claim == "metric_positive_definite":
            absent = " and ".join(f"a.{f}" for f in missing)
            what += f" (degenerate): {absent} {'does' if len(missing) == 1 else 'do'} not occur in it"
        witness = certificate[claim].witness
        where = f"; witness {witness}" if witness else ""
        statement = certificate[claim].statement
        raise CertificateError(f"{declared.name}: the metric is not {what}: {statement} is false{where}")


def _declared_preserved(symmetry: Symmetry, alphabet: Alphabet) -> Iterable[Formula]:
    for i, (expression, value) in enumerate(symmetry.read_preserved(alphabet)):
        name, arguments = f"preserved_{i + 1}", symmetry.names.factors
        if isinstance(value, Polynomial):
            yield MatrixFormula(name, arguments, value, expression)
        else:
            yield ScalarFormula(name, arguments, value, expression)


def _side(alphabet: Alphabet, symmetry: Symmetry, action: Mapping[str, Polynomial]) -> str:
    """Whether the action composes as A (B p) = (A B) p or as a right action; left unless only right is provable."""
    names = symmetry.names
    element = {e: alphabet[e] for e in names.elements}
    other = {e: alphabet[names.other_element(e)] for e in names.elements}
    inner = {factor: moved.substitute(other) for factor, moved in action.items()}
    twice = {factor: moved.substitute(inner) for factor, moved in action.items()}

    def agrees(product: dict[str, Polynomial]) -> bool:
        return all(action[factor].substitute(product) == twice[factor] for factor in action)

    left, right = symmetry.product(element, other), symmetry.product(other, element)
    return "right" if agrees(right) and not agrees(left) else "left"
