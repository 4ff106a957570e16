"""From a declaration to a geometry with its certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from quotientgeo.errors import CertificateError, DeclarationError, NotDerivableError
from quotientgeo.symbolic.algebra import Alphabet, Polynomial
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import implicit, steps
from quotientgeo.symbolic.derivation.certificate import Level
from quotientgeo.symbolic.derivation.certify import DEFAULT_LEVELS, certify
from quotientgeo.symbolic.derivation.formula import Formula, MatrixFormula, ScalarFormula, block
from quotientgeo.symbolic.derivation.geometry import Equations, Geometry

HIGHEST_ORDER = 4  # of the Taylor terms; the number of terms grows about sevenfold per order
LONGEST = 400  # words of a time derivative in point and velocity alone; longer ones are staged


def derive(symmetry: Symmetry, metric: Metric, *, levels: Iterable[Level | str] = DEFAULT_LEVELS) -> Geometry:
    """Vertical space, momentum, gradient, acceleration and Taylor terms of a declared geometry, with their certificate.

    A false declaration is derived too: its certificate says what is false, with a witness, and
    ``geometry.certificate.require()`` raises it.

    Where no one-sided product solves the equations of the metric (Sylvester-type, coupled and rank-one metrics), the geometry
    is derived all the same: it carries the ``equations``, and what they define is solved for at run time.

    Args:
        symmetry: the group action.
        metric: a metric declared for that symmetry.
        levels: which certificate levels to run, as letters ("abcde"; "f" is slow).

    Raises:
        DeclarationError: the metric was declared for another symmetry.
        CertificateError: the metric is not symmetric, or not positive definite, and its equations have no solution for that
            reason; with a witness.
        NotDerivableError: a step cannot be differentiated in the algebra.
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
        return _with_projector(_implicit(declared))
    return _with_projector(_explicit(declared, gradient, acceleration))


def _explicit(declared: Geometry, gradient: steps.Blocks, acceleration: steps.Blocks) -> Geometry:
    """With closed forms; staged time derivatives where those in the letters of point and velocity alone are long."""
    names, alphabet, parameters = declared.names, declared.alphabet, declared.metric.parameters
    letters = _Letters(declared)
    rates: dict[int, dict[str, str]] = {}
    derivatives = steps.time_derivatives(alphabet, names, acceleration, HIGHEST_ORDER, LONGEST)
    if len(derivatives) < HIGHEST_ORDER - 1:
        rates = implicit.declare_rates(alphabet, names, range(2, HIGHEST_ORDER + 1))
        derivatives = implicit.staged(alphabet, names, None, acceleration, HIGHEST_ORDER, rates)
    return dataclasses.replace(
        declared,
        gradient=block("gradient", (*names.factors, *map(names.euclidean, names.factors), *parameters), gradient),
        acceleration=block("acceleration", letters.state(), acceleration),
        derivatives={k: block(f"derivative_{k}", letters.state(k, rates), v) for k, v in derivatives.items()},
        christoffel=block("christoffel", letters.pair(), steps.christoffel(alphabet, names, acceleration)),
        rates=rates,
    )


def _implicit(declared: Geometry) -> Geometry:
    """With the equations in place of closed forms."""
    names, alphabet, inner = declared.names, declared.alphabet, declared.inner.polynomial
    letters = _Letters(declared)
    rates = implicit.declare_rates(alphabet, names, range(2, HIGHEST_ORDER + 1))
    metric = implicit.lowered(names, inner)
    second = implicit.force(alphabet, names, inner, metric)
    forces = implicit.staged(alphabet, names, metric, second, HIGHEST_ORDER, rates)
    equations = Equations(
        lowered=block("lowered", letters.state(), metric),
        forces={k: block(f"force_{k}", letters.state(k, rates), value) for k, value in forces.items()},
        christoffel=block("lowered_christoffel", letters.pair(), implicit.polarised(alphabet, names, second)),
    )
    return dataclasses.replace(declared, equations=equations, rates=rates)


class _Letters:
    """The arguments of formulas, in their order: factors, tangents, time derivatives, parameters."""

    def __init__(self, geometry: Geometry) -> None:
        self._names, self._parameters = geometry.names, geometry.metric.parameters

    def state(self, order: int = 2, rates: implicit.Letters | None = None) -> tuple[str, ...]:
        """Of a time derivative of this order, with x_2, ..., x_(order - 1) where they have letters."""
        names = self._names
        further = (rates[k][f] for k in range(2, order) for f in names.factors) if rates else ()
        return (*names.factors, *names.tangents, *further, *self._parameters)

    def pair(self) -> tuple[str, ...]:
        """Of what is bilinear."""
        names = self._names
        return (*names.factors, *names.tangents, *map(names.second_tangent, names.factors), *self._parameters)


def _with_projector(geometry: Geometry) -> Geometry:
    """The vertical Gram operator, and the closed form of the horizontal part where there is one."""
    names, alphabet, parameters = geometry.names, geometry.alphabet, geometry.metric.parameters
    state = (*names.factors, *names.tangents, *parameters)
    vertical = {f: formula.polynomial for f, formula in geometry.vertical.items()}
    momenta = {x: formula.polynomial for x, formula in geometry.momentum.items()}
    gram = steps.vertical_gram(names, momenta, vertical)
    geometry = dataclasses.replace(
        geometry, vertical_gram=block("vertical_gram", (*names.factors, *names.algebra, *parameters), gram)
    )
    solution = steps.projector(names, momenta, gram)
    if solution is None:
        return geometry
    closed = dataclasses.replace(
        geometry,
        projector=block("projector", state, solution),
        horizontal=block("horizontal", state, steps.horizontal(alphabet, names, vertical, solution)),
    )
    # an inverse that exists in the algebra only (of G H' with more rows than columns, say) is no solution
    exists = certify(closed, (Level.MODULAR,), claims=("horizontal_momentum",))["horizontal_momentum"].status != "false"
    return closed if exists else geometry


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
        vertical=block("vertical", (*points, *names.algebra), vertical),
        momentum=block(
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
        advice = f"; what to do: {certificate[claim].advice}"
        raise CertificateError(f"{declared.name}: the metric is not {what}: {statement} is false{where}{advice}")


def _declared_preserved(symmetry: Symmetry, alphabet: Alphabet) -> Iterable[Formula]:
    for i, (expression, value) in enumerate(symmetry.read_preserved(alphabet)):
        name, arguments = f"preserved_{i + 1}", (*symmetry.names.factors, *symmetry.inputs)
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
