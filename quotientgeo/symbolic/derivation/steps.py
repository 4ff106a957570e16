"""The steps of a derivation, each a pure function of polynomials in one alphabet."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.algebra import Alphabet, Polynomial, TracePolynomial
from quotientgeo.symbolic.declaration import Names, Symmetry
from quotientgeo.symbolic.derivation.elimination import eliminate
from quotientgeo.symbolic.derivation.implicit import polarised

Blocks = dict[str, Polynomial]


def vertical_space(alphabet: Alphabet, symmetry: Symmetry, action: Mapping[str, Polynomial]) -> Blocks:
    """V_F = d/dt at t = 0 of the action of exp(t X) on F: the differential of the action at the identity along X."""
    names, identity = symmetry.names, symmetry.identity(alphabet)
    algebra = {e: alphabet[x] for e, x in zip(names.elements, names.algebra, strict=True)}
    return {factor: moved.differential(algebra).substitute(identity) for factor, moved in action.items()}


def momentum(alphabet: Alphabet, names: Names, inner: TracePolynomial, vertical: Blocks) -> Blocks:
    """J_X with <xi, V_X> = tr(J_X' X) for every X: xi is horizontal exactly when every J_X is zero."""
    values = {names.second_tangent(factor): v for factor, v in vertical.items()}
    pairing = inner.substitute(values)
    return {x: pairing.gradient(x) for x in names.algebra}


def gradient(alphabet: Alphabet, names: Names, inner: TracePolynomial) -> Blocks:
    """The Riemannian gradient grad with <grad, b> = sum_F tr(dF' b_F) for every b, dF being the Euclidean gradient."""
    equations = {f: inner.gradient(names.second_tangent(f)) - alphabet[names.euclidean(f)] for f in names.factors}
    solutions = eliminate({names.tangent(f): equation for f, equation in equations.items()})
    return dict(zip(names.factors, solutions.values(), strict=True))


def acceleration(alphabet: Alphabet, names: Names, inner: TracePolynomial) -> Blocks:
    """-Gamma(xi, xi): the second derivative solving d/dt dL/dxi_F = dL/dF for L = 1/2 <xi, xi> (Euler-Lagrange)."""
    unknown = {f: alphabet.declare_fresh(f"acc_{f}", alphabet.shape(f), alphabet.kind(f)) for f in names.factors}
    kinetic = inner.substitute({names.second_tangent(f): alphabet[names.tangent(f)] for f in names.factors})
    lagrangian = kinetic * Fraction(1, 2)
    flow = flow_directions(alphabet, names, unknown)
    equations = {}
    for factor in names.factors:
        force = lagrangian.gradient(factor)
        (letter,) = unknown[factor].symbols()
        equations[letter] = lagrangian.gradient(names.tangent(factor)).differential(flow) - force
    return dict(zip(names.factors, eliminate(equations).values(), strict=True))


def christoffel(alphabet: Alphabet, names: Names, acc: Blocks) -> Blocks:
    """Gamma(xi, eta) = -1/2 (acc(xi + eta) - acc(xi) - acc(eta)): the acceleration, quadratic in xi, polarised."""
    return polarised(alphabet, names, acc)


def vertical_gram(names: Names, momenta: Blocks, vertical: Blocks) -> Blocks:
    """K_X = J(V_X), the operator with tr(K_X' Y) = <V_X, V_Y>: the metric of the orbit in the Lie algebra."""
    values = {names.tangent(f): v for f, v in vertical.items()}
    return {x: j.substitute(values) for x, j in momenta.items()}


def projector(names: Names, momenta: Blocks, gram: Blocks) -> Blocks | None:
    """The X with K_X = J(xi), so that xi - V_X is horizontal; None where one-sided products do not give it."""
    try:
        return eliminate({x: gram[x] - momenta[x] for x in names.algebra})
    except NotDerivableError:
        return None


def horizontal(alphabet: Alphabet, names: Names, vertical: Blocks, solution: Blocks) -> Blocks:
    """xi - V_X for the X of the projector."""
    return {f: alphabet[names.tangent(f)] - v.substitute(solution) for f, v in vertical.items()}


def flow_directions(alphabet: Alphabet, names: Names, acc: Mapping[str, Polynomial]) -> Blocks:
    """Velocities of all letters along a geodesic: F moves with xi_F, xi_F with the acceleration."""
    directions = {factor: alphabet[names.tangent(factor)] for factor in names.factors}
    return directions | {names.tangent(factor): acc[factor] for factor in names.factors}


def time_derivatives(alphabet: Alphabet, names: Names, acc: Blocks, order: int, longest: int) -> dict[int, Blocks]:
    """{k: {F: k-th time derivative of the geodesic}} for k = 2..order, in the letters F and xi_F.

    Ends before an order one of whose formulas has more than ``longest`` words.
    """
    flow = flow_directions(alphabet, names, acc)
    out = {2: acc}
    for k in range(3, order + 1):
        found = {factor: value.differential(flow) for factor, value in out[k - 1].items()}
        if max(map(len, found.values())) > longest:
            break
        out[k] = found
    return out
