"""Every claim of a certificate, stated once.

A statement lists equations (left, right) between values; each level evaluates both sides in its own arithmetic. The
inner product, the action and the preserved quantity are the declared ones; vertical, momentum, gradient, acceleration and
time derivatives are the derived ones under test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from quotientgeo.symbolic.derivation.calculus import Blocks, Reading, Side
from quotientgeo.symbolic.derivation.formula import MatrixFormula
from quotientgeo.symbolic.derivation.geometry import Geometry

Sides = Callable[..., list[Side]]


@dataclass(frozen=True)
class Weak:
    """Equations from which a claim about something solved for follows, without the solution; ``text`` says how."""

    roles: tuple[str, ...]
    sides: Sides
    text: str


@dataclass(frozen=True)
class Statement:
    """A claim: its name, its text, the letters it is quantified over, its formula as text, and its equations.

    Where it has a ``weak`` form, that is what the levels that prove look at; the others solve at their own points.
    """

    name: str
    text: str
    roles: tuple[str, ...]
    formula: Callable[[Geometry], str]
    sides: Sides
    weak: Weak | None = None

    @property
    def provable(self) -> Statement | Weak:
        """What a proof is about."""
        return self.weak or self


def matched(left: Blocks[Any], right: Blocks[Any]) -> list[Side]:
    """One equation per block."""
    return list(zip(left.values(), right.values(), strict=True))


def spelled(formulas: Mapping[str, MatrixFormula]) -> str:
    """Formulas as text."""
    return "; ".join(map(str, formulas.values()))


# the action


def _action_identity(r: Reading[Any], p: Blocks[Any]) -> list[Side]:
    return matched(r.act(r.identity(), p), p)


def _action_composition(r: Reading[Any], p: Blocks[Any], a: Blocks[Any], b: Blocks[Any]) -> list[Side]:
    product = r.product(a, b) if r.geometry.side == "left" else r.product(b, a)
    return matched(r.act(a, r.act(b, p)), r.act(product, p))


def _preserved(r: Reading[Any], p: Blocks[Any], a: Blocks[Any]) -> list[Side]:
    return matched(r.preserved(r.act(a, p)), r.preserved(p))


def _vertical_from_action(r: Reading[Any], p: Blocks[Any], x: Blocks[Any]) -> list[Side]:
    return matched(r.vertical(p, x), r.along_orbit(p, x))


def _vertical_in_kernel(r: Reading[Any], p: Blocks[Any], x: Blocks[Any]) -> list[Side]:
    change = r.along(r.preserved, p, r.vertical(p, x))
    return [(value, r.calculus.scale(value, Fraction(0))) for value in change.values()]


# the metric


def _metric_symmetric(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any]) -> list[Side]:
    return [(r.inner(p, xi, eta), r.inner(p, eta, xi))]


def _metric_bilinear(
    r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any], zeta: Blocks[Any]
) -> list[Side]:
    c = r.calculus
    one_by_one = c.add(r.inner(p, xi, eta), c.scale(r.inner(p, zeta, eta), Fraction(2)))
    return [(r.inner(p, r.add(xi, zeta, 2), eta), one_by_one)]


def _invariance(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any], a: Blocks[Any]) -> list[Side]:
    def push(tangent: Blocks[Any]) -> Blocks[Any]:
        return r.along(lambda q: r.act(a, q), p, tangent)

    return [(r.inner(r.act(a, p), push(xi), push(eta)), r.inner(p, xi, eta))]


def _horizontal_condition(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], x: Blocks[Any]) -> list[Side]:
    return [(r.inner(p, xi, r.vertical(p, x)), r.pair(r.momentum(p, xi), x))]


def _gradient(r: Reading[Any], p: Blocks[Any], d: Blocks[Any], eta: Blocks[Any]) -> list[Side]:
    return [(r.inner(p, r.gradient(p, d), eta), r.pair(d, eta))]


# geodesics


def _euler_lagrange(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any]) -> list[Side]:
    c = r.calculus
    by_point = r.along_scalar(lambda q: r.inner(q, xi, eta), p, xi)
    force = r.along_scalar(lambda q: r.inner(q, xi, xi), p, eta)
    return [(c.add(r.inner(p, r.acceleration(p, xi), eta), by_point), c.scale(force, Fraction(1, 2)))]


def _energy_conserved(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
    change = r.along_flow(lambda q, velocity: {"": r.inner(q, velocity, velocity)}, p, xi)[""]
    return [(change, r.calculus.scale(change, Fraction(0)))]


def _momentum_conserved(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
    change = r.along_flow(r.momentum, p, xi)
    return [(value, r.calculus.scale(value, Fraction(0))) for value in change.values()]


def _acceleration_equivariant(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], a: Blocks[Any]) -> list[Side]:
    def push(q: Blocks[Any], velocity: Blocks[Any]) -> Blocks[Any]:
        return r.along(lambda point: r.act(a, point), q, velocity)

    return matched(r.acceleration(r.act(a, p), push(p, xi)), r.along_flow(push, p, xi))


def _taylor(k: int) -> Sides:
    def sides(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
        return matched(r.order(k, p, xi), r.along_flow(lambda q, velocity: r.order(k - 1, q, velocity), p, xi))

    return sides


# the connection


def _christoffel_symmetric(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any]) -> list[Side]:
    return matched(r.christoffel(p, xi, eta), r.christoffel(p, eta, xi))


def _christoffel_quadratic(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
    both = r.christoffel(p, xi, xi)
    return [(a, r.calculus.scale(both[f], Fraction(-1))) for f, a in r.acceleration(p, xi).items()]


def _metric_compatible(
    r: Reading[Any], p: Blocks[Any], xi: Blocks[Any], eta: Blocks[Any], zeta: Blocks[Any]
) -> list[Side]:
    change = r.along_scalar(lambda q: r.inner(q, eta, zeta), p, xi)
    first, second = r.christoffel(p, xi, eta), r.christoffel(p, xi, zeta)
    return [(change, r.calculus.add(r.inner(p, first, zeta), r.inner(p, eta, second)))]


# the projector


def _vertical_gram(r: Reading[Any], p: Blocks[Any], x: Blocks[Any]) -> list[Side]:
    return matched(r.vertical_gram(p, x), r.momentum(p, r.vertical(p, x)))


def _horizontal_momentum(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
    momenta = r.momentum(p, r.horizontal(p, xi))
    return [(value, r.calculus.scale(value, Fraction(0))) for value in momenta.values()]


def _horizontal_projects(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
    once = r.horizontal(p, xi)
    return matched(r.horizontal(p, once), once)


def _horizontal_difference(r: Reading[Any], p: Blocks[Any], xi: Blocks[Any]) -> list[Side]:
    return matched(r.add(xi, r.horizontal(p, xi), -1), r.vertical(p, r.projector(p, xi)))


def _preserved_text(geometry: Geometry) -> str:
    return "; ".join(map(str, geometry.preserved))


def _acceleration_text(geometry: Geometry) -> str:
    return spelled(geometry.acceleration)


def _statement(name: str, text: str, roles: str, formula: Callable[[Geometry], str], sides: Sides) -> Statement:
    return Statement(name, text, tuple(roles.split()), formula, sides)


_ACTION = [
    _statement("action_identity", "the identity moves nothing", "p", lambda g: spelled(g.action), _action_identity),
    _statement(
        "action_composition",
        "acting with B and then with A is acting with the product",
        "p A B",
        lambda g: spelled(g.action),
        _action_composition,
    ),
    _statement(
        "vertical_from_action",
        "the vertical vector is the differential of the action at the identity",
        "p X",
        lambda g: spelled(g.vertical),
        _vertical_from_action,
    ),
]
_PRESERVED = [
    _statement("preserved", "the action leaves this unchanged", "p A", _preserved_text, _preserved),
    _statement(
        "vertical_in_kernel",
        "vertical vectors do not change what the action preserves",
        "p X",
        lambda g: spelled(g.vertical),
        _vertical_in_kernel,
    ),
]
_METRIC = [
    _statement("metric_symmetric", "<xi, eta> = <eta, xi>", "p xi eta", lambda g: str(g.inner), _metric_symmetric),
    _statement(
        "metric_bilinear",
        "<xi + 2 zeta, eta> = <xi, eta> + 2 <zeta, eta>",
        "p xi eta zeta",
        lambda g: str(g.inner),
        _metric_bilinear,
    ),
    _statement(
        "invariance",
        "pushing point and tangents forward with a group element leaves the inner product unchanged",
        "p xi eta A",
        lambda g: str(g.inner),
        _invariance,
    ),
    _statement(
        "horizontal_condition",
        "<xi, V_X> = tr(J' X) for every X, so xi is horizontal exactly when the momentum J is zero",
        "p xi X",
        lambda g: spelled(g.momentum),
        _horizontal_condition,
    ),
    _statement(
        "gradient",
        "<grad, eta> = sum over factors F of tr(dF' eta_F) for every eta",
        "p d eta",
        lambda g: spelled(g.gradient),
        _gradient,
    ),
]
_GEODESIC = [
    _statement(
        "acceleration",
        "Euler-Lagrange for L = 1/2 <xi, xi>: d/dt <xi, eta> = 1/2 (d/dp)<xi, xi>[eta] for every fixed eta",
        "p xi eta",
        _acceleration_text,
        _euler_lagrange,
    ),
    _statement("energy_conserved", "d/dt <xi, xi> = 0 along geodesics", "p xi", _acceleration_text, _energy_conserved),
    _statement(
        "momentum_conserved",
        "d/dt J = 0 along geodesics, so a horizontal start stays horizontal",
        "p xi",
        lambda g: spelled(g.momentum),
        _momentum_conserved,
    ),
    _statement(
        "acceleration_equivariant",
        "a group element moves geodesics to geodesics",
        "p xi A",
        _acceleration_text,
        _acceleration_equivariant,
    ),
]


_CONNECTION = [
    _statement(
        "christoffel_symmetric",
        "Gamma(xi, eta) = Gamma(eta, xi), so the connection D_xi eta = d eta/dt + Gamma(xi, eta) has no torsion",
        "p xi eta",
        lambda g: spelled(g.christoffel),
        _christoffel_symmetric,
    ),
    _statement(
        "christoffel_quadratic",
        "the acceleration is -Gamma(xi, xi), so geodesics are the curves with D xi = 0",
        "p xi",
        lambda g: spelled(g.christoffel),
        _christoffel_quadratic,
    ),
    _statement(
        "metric_compatible",
        "d/dt <eta, zeta> = <D eta, zeta> + <eta, D zeta> as the point moves with xi; said for fixed eta and zeta, for which "
        "D is Gamma, and by bilinearity of all",
        "p xi eta zeta",
        lambda g: spelled(g.christoffel),
        _metric_compatible,
    ),
]
_GRAM = [
    _statement(
        "vertical_gram",
        "K_X is the momentum of the vertical vector V_X, so <V_X, V_Y> = tr(K_X' Y)",
        "p X",
        lambda g: spelled(g.vertical_gram),
        _vertical_gram,
    ),
]
_PROJECTOR = [
    _statement(
        "horizontal_momentum",
        "the horizontal part of a tangent has momentum zero",
        "p xi",
        lambda g: spelled(g.horizontal or {}),
        _horizontal_momentum,
    ),
    _statement(
        "horizontal_projects",
        "the horizontal part of the horizontal part is itself",
        "p xi",
        lambda g: spelled(g.horizontal or {}),
        _horizontal_projects,
    ),
    _statement(
        "horizontal_difference",
        "what is taken off is the vertical vector of X, and X = 0 for a tangent without momentum",
        "p xi",
        lambda g: spelled(g.projector or {}),
        _horizontal_difference,
    ),
]


def statements(geometry: Geometry) -> list[Statement]:
    """All statements about a geometry, in the order of the certificate."""
    from quotientgeo.symbolic.derivation.weak import weakly

    taylor = [
        _statement(
            f"taylor_{k}",
            f"time derivative {k} of the geodesic is the differential of derivative {k - 1} along the flow",
            "p xi",
            lambda g, k=k: spelled(g.staged[k]),  # type: ignore[misc]
            _taylor(k),
        )
        for k in sorted(geometry.staged)
        if k > 2 or geometry.equations is None
    ]
    preserved = _PRESERVED if geometry.preserved else []
    connection = _CONNECTION if geometry.christoffel or geometry.equations else []
    projector = [*(_GRAM if geometry.vertical_gram else []), *(_PROJECTOR if geometry.horizontal else [])]
    found = [*_ACTION, *preserved, *_METRIC, *_GEODESIC, *connection, *projector, *taylor]
    return [weakly(geometry, statement) for statement in found]
