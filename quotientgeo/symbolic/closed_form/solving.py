"""From the geodesic equation of blocks to its solution by SymPy: first integrals, dsolve, a change of time and scale."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

import sympy as sp

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.closed_form.flow import Flow
from quotientgeo.symbolic.closed_form.functions import Cosine, Scale, Sine, Turn
from quotientgeo.symbolic.closed_form.reduction import Gram, Reduced

TIME = sp.Symbol("t", positive=True)
_POWER = sp.Rational(1, 4)  # of the change of scale: x = S^(1/4) y


@dataclass(frozen=True)
class Solution:
    """x(t) = along x + across (v - drift x) for a block x with velocity v; of a number along (x + shift) + across v - shift."""

    along: sp.Expr
    across: sp.Expr
    drift: sp.Expr
    shift: sp.Expr = sp.S.Zero

    @property
    def of_point(self) -> sp.Expr:
        """What multiplies x + shift."""
        return self.along - self.across * self.drift

    def number(self, gram: Gram) -> sp.Expr:
        """x(t) of a number."""
        return self.along * (gram.point + self.shift) + self.across * gram.mixed - self.shift


@dataclass
class Solved:
    """Solutions by factor, in ``TIME``, the flow's symbols and those of ``definitions``; and how they were found."""

    flow: Flow
    solutions: dict[str, Solution] = field(default_factory=dict)
    definitions: dict[sp.Symbol, sp.Expr] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    cone: tuple[sp.Symbol, sp.Symbol] | None = None  # (k, b) of Scale and Turn


def solve(reduced: Reduced) -> Solved:
    """The solution for any point and any velocity.

    Raises:
        NotDerivableError: none of the steps applies to some factor.
    """
    solved = Solved(Flow(reduced))
    for factor in reduced.grams:
        found = _number(solved, factor) if factor in reduced.numbers else _vector(solved, factor)
        if found is not None:
            solved.solutions[factor] = found
    for factor in _missing(solved):
        found = _carried(solved, factor)
        if found is not None:
            solved.solutions[factor] = found
    for together in _coupled(solved, _missing(solved)):
        if solved.cone is None:
            _cone(solved, together)
    if _missing(solved):
        raise NotDerivableError(
            f"{reduced.name}: no closed form was found for the geodesic of {', '.join(_missing(solved))}: the coefficients of "
            "its equation are no first integrals, nor become so by the changes of time and scale that are tried"
        )
    return solved


def _missing(solved: Solved) -> list[str]:
    return [f for f in solved.flow.reduced.grams if f not in solved.solutions]


def _coupled(solved: Solved, factors: Iterable[str]) -> list[list[str]]:
    """The factors in groups, each of which the equations of no other read."""
    reduced, groups = solved.flow.reduced, [[f] for f in factors]
    symbols = {f: {gram.point, gram.mixed, gram.speed} for f, gram in reduced.grams.items()}
    read = {f: set().union(*(value.free_symbols for value in reduced.coefficients[f])) for f in reduced.grams}
    for f, g in combinations(list(factors), 2):
        (first,), (second,) = ([group for group in groups if x in group] for x in (f, g))
        if first is not second and (read[f] & symbols[g] or read[g] & symbols[f]):
            groups = [first + second if group is first else group for group in groups if group is not second]
    return groups


# --- constant coefficients ---


@cache
def _by_dsolve() -> tuple[sp.Expr, sp.Expr, sp.Symbol, sp.Symbol, sp.Symbol]:
    """(along, across, h, k, t) for x'' = 2 h x' - (h^2 + k) x: what multiplies x(0) and x'(0) - h x(0)."""
    h, t = sp.symbols("h t", real=True)
    w, k = sp.Symbol("w", positive=True), sp.Symbol("k", real=True)
    start, velocity = sp.symbols("x v", real=True)
    f = sp.Function("f")
    equation = f(t).diff(t, 2) - 2 * h * f(t).diff(t) + (h**2 + w**2) * f(t)
    general = sp.dsolve(equation, f(t)).rhs
    constants = sorted(general.free_symbols - {h, t, w}, key=str)
    (values,) = sp.solve([general.subs(t, 0) - start, general.diff(t).subs(t, 0) - velocity], constants, dict=True)
    turned = {sp.exp(sign * sp.I * t * w): sp.cos(w * t) + sign * sp.I * sp.sin(w * t) for sign in (1, -1)}
    found = sp.expand(sp.expand(general.subs(values)).xreplace(turned))
    across = found.coeff(velocity)
    along = sp.expand(found.coeff(start) + h * across)
    spelled = {sp.cos(w * t): Cosine(k, t), sp.sin(w * t): w * Sine(k, t)}
    return along.subs(spelled), across.subs(spelled), h, k, t


def _constant(h: sp.Expr, k: sp.Expr, time: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(along, across) with these values of h and k."""
    along, across, *symbols = _by_dsolve()
    values = dict(zip(symbols, (h, k, time), strict=True))
    return along.subs(values, simultaneous=True), across.subs(values, simultaneous=True)


def _vector(solved: Solved, factor: str) -> Solution | None:
    """Where A and B are first integrals, the equation is linear with constant coefficients."""
    A, B = solved.flow.coefficients(factor)
    if not (solved.flow.is_constant(A) and solved.flow.is_constant(B)):
        return None
    h = sp.cancel(B / 2)
    k = sp.expand(sp.cancel(-A - h**2))
    solved.steps.append(f"{factor}'' = ({A}) {factor} + ({B}) {factor}' with first integrals as coefficients: dsolve")
    return Solution(*_constant(h, k, TIME), h)


def _number(solved: Solved, factor: str) -> Solution | None:
    """Of a number y = x + shift: where y' / y is a first integral, y is exponential; where y'' / y is one, y'' = -k y."""
    flow, gram = solved.flow, solved.flow.reduced.grams[factor]
    second = flow.coefficients(factor)[0]
    for shift in _shifts(second, gram.point):
        y, rate = gram.point + shift, flow.number_rates[factor]
        if second != 0 and flow.is_constant(gram.mixed / y):
            solved.definitions[rate] = gram.mixed / y
            solved.steps.append(f"{rate} = {gram.mixed / y} is a first integral, so {y} is exponential")
            return Solution(_constant(rate, sp.Integer(0), TIME)[0], sp.Integer(0), rate, shift)
        if flow.is_constant(second / y):
            moved = sp.Symbol("moved")
            force = sp.expand(sp.cancel((second / y).subs({gram.mixed: rate * y}).subs(gram.point, moved - shift)))
            bend = sp.Symbol(f"bend_{factor}", real=True) if force != 0 else sp.Integer(0)
            solved.definitions |= {rate: gram.mixed / y} if force.has(rate) else {}
            solved.definitions |= {bend: -force.subs(moved, y)} if force != 0 else {}
            solved.steps.append(f"({y})'' = -({bend}) ({y}), a first integral times it: dsolve")
            return Solution(*_constant(sp.Integer(0), bend, TIME), sp.Integer(0), shift)
    return None


def _shifts(second: sp.Expr, point: sp.Symbol) -> list[sp.Expr]:
    """0, and what moves the poles of the equation to 0."""
    poles = sp.roots(sp.Poly(sp.denom(second), point)) if sp.denom(second).has(point) else {}
    found = [-pole for pole in poles if pole.is_Rational and pole]
    return [*found, sp.Integer(0)]


# --- carried along by a number ---


def _carried(solved: Solved, factor: str) -> Solution | None:
    """x'' = -2 (y' / y) x' with a solved y'' = -k y: x' y^2 is constant, and the integral of (y(0) / y)^2 is y(0) s / y, s the
    solution of the same equation with s(0) = 0 and s'(0) = 1 (Abel's identity)."""
    A, B = solved.flow.coefficients(factor)
    for other, solution in solved.solutions.items():
        if A != 0 or other not in solved.flow.reduced.numbers or solution.drift != 0:
            continue
        gram = solved.flow.reduced.grams[other]
        y = gram.point + solution.shift
        if sp.cancel(B * y / gram.mixed + 2) == 0:
            rate = solved.flow.number_rates[other]
            solved.definitions[rate] = gram.mixed / y
            along = solution.along + solution.across * rate
            solved.steps.append(f"{factor}' ({y})^2 is a first integral; Abel's identity integrates {factor}'")
            return Solution(sp.Integer(1), solution.across / along, sp.Integer(0))
    return None


# --- cones ---


@cache
def _rescaled() -> tuple[sp.Expr, sp.Expr, tuple[sp.Symbol, ...]]:
    """With x = S^(1/4) y and dT = dt / S, x'' = A x + B x' becomes y_TT = P y + Q y_T; (P, Q) in A, B, S, S', S''."""
    t = sp.Symbol("t", real=True)
    A, B, s0, s1, s2, first, second, y = sp.symbols("A B S S1 S2 first second y", real=True)
    S, Y = sp.Function("S", positive=True)(t), sp.Function("Y")(t)
    x = S**_POWER * Y
    velocity = sp.Function("V")(t)  # y_T as a function of t
    slopes = {Y.diff(t): velocity / S}
    x1 = x.diff(t).subs(slopes)
    x2 = x1.diff(t).subs(velocity.diff(t), second / S).subs(slopes)
    equation = (x2 - A * x - B * x1).subs(S.diff(t, 2), s2).subs(S.diff(t), s1)
    equation = equation.subs({velocity: first, Y: y}).subs(S, sp.Symbol("p", positive=True))
    (found,) = sp.solve(equation, second)
    found = sp.expand(sp.simplify(found.subs(sp.Symbol("p", positive=True), s0)))
    return found.coeff(y), found.coeff(first), (A, B, s0, s1, s2)


def _cone(solved: Solved, factors: Iterable[str]) -> None:
    """Where the product Q of all squared lengths has Q''' = 0 and y = (Q / Q(0))^(-1/4) x has constant coefficients in the time T
    with dT = dt Q(0) / Q."""
    flow, factors = solved.flow, list(factors)
    grams = flow.reduced.grams
    Q = sp.Mul(*(grams[f].point ** (2 if f in flow.reduced.numbers else 1) for f in factors))
    slope, bend = flow.derivative(Q), flow.derivative(Q, 2)
    if not flow.is_constant(bend):
        return
    k, b = sp.Symbol("turning", real=True, nonnegative=True), sp.Symbol("growth", real=True)
    growth = sp.expand(_in_rates(solved, factors, slope / (2 * Q)))
    found = {f: _in_the_cone(flow, f, (Q, slope, bend)) for f in factors}
    if any(value is None for value in found.values()):
        return
    solved.cone = (k, b)
    solved.definitions |= {b: growth, k: _squares(_in_rates(solved, factors, bend / (2 * Q) - growth**2), flow)}
    solved.steps.append(
        f"({Q})''' = 0, so {Q} is {Scale(k, b, TIME)} times its start; with x = Scale^(1/4) y and dT = dt / Scale the "
        f"coefficients are first integrals: dsolve, and T = {Turn(k, b, TIME)}"
    )
    power = Scale(k, b, TIME) ** _POWER
    for factor, value in found.items():
        assert value is not None
        h, kappa = (sp.expand(_in_rates(solved, factors, part)) for part in value)
        along, across = _constant(h, kappa, Turn(k, b, TIME))
        drift = sp.expand(h + 2 * _POWER * growth)
        across = sp.Integer(0) if factor in flow.reduced.numbers else power * across
        solved.solutions[factor] = Solution(power * along, across, drift)


def _in_rates(solved: Solved, factors: Iterable[str], value: sp.Expr) -> sp.Expr:
    """With rates in place of the velocities of numbers."""
    flow, values = solved.flow, {}
    for factor in factors:
        if factor in flow.reduced.numbers:
            gram, rate = flow.reduced.grams[factor], flow.number_rates[factor]
            solved.definitions[rate] = gram.mixed / gram.point
            values[gram.mixed] = rate * gram.point
    return sp.cancel(value.subs(values))


def _in_the_cone(flow: Flow, factor: str, along: tuple[sp.Expr, sp.Expr, sp.Expr]) -> tuple[sp.Expr, sp.Expr] | None:
    """(h, k) of y_TT = 2 h y_T - (h^2 + k) y, if both are first integrals."""
    P, R, symbols = _rescaled()
    A, B = flow.coefficients(factor)
    start = along[0]
    if factor in flow.reduced.numbers:
        gram = flow.reduced.grams[factor]
        # Q (x' / x) - Q' / 4, up to Q(0) the rate of y in T
        rate = start * gram.mixed / gram.point - _POWER * along[1]
        return (rate / start, sp.Integer(0)) if flow.is_constant(rate) else None
    values = dict(zip(symbols, (A, B, *along), strict=True))
    h, force = (sp.cancel(value.subs(values, simultaneous=True)) for value in (R / 2, P))
    if not (flow.is_constant(h) and flow.is_constant(force)):
        return None
    return h / start, -(force + h**2) / start**2


def _squares(value: sp.Expr, flow: Flow) -> sp.Expr:
    """The same as a sum of squares where SymPy finds one: no rounding can make it negative."""
    turns = {polar.turn for polar in flow.polar.values()}
    rest = value.subs(dict.fromkeys(turns, 0))
    return sp.expand(value - rest) + sp.factor(rest)
