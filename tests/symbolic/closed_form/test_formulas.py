"""What is derived, against formulas that are written down here: the paper's geodesics and the cone."""

from __future__ import annotations

import sympy as sp

from quotientgeo.symbolic.closed_form.functions import definition, is_own
from quotientgeo.symbolic.closed_form.solving import TIME, Solved
from tests.symbolic.closed_form import cases

B = sp.Symbol("b", positive=True)  # 1 + 2 b t stays positive


def number(solved: Solved, factor: str, velocities: dict[str, sp.Expr]) -> sp.Expr:
    """x(t) of a number, in elementary functions, for these velocities."""
    grams = solved.flow.reduced.grams
    value = solved.solutions[factor].number(grams[factor])
    for _ in range(2):
        value = value.subs(solved.definitions)
    return value.subs({grams[f].mixed: v for f, v in velocities.items()})


def point(solved: Solved, factor: str) -> sp.Symbol:
    return solved.flow.reduced.grams[factor].point


def test_invariant_diagonal_network_moves_exponentially() -> None:
    solved = cases.solution("diagonal_network_invariant")
    u, v = point(solved, "u"), point(solved, "v")
    first, second = sp.symbols("first second", real=True)
    at = {"u": first * u, "v": second * v}
    assert sp.simplify(number(solved, "u", at) - u * sp.exp(first * TIME)) == 0
    assert sp.simplify(number(solved, "v", at) - v * sp.exp(second * TIME)) == 0


def test_mixed_diagonal_network_along_horizontal_tangents_moves_as_a_square_root() -> None:
    solved = cases.solution("diagonal_network_mixed")
    for factor in ("u", "v"):
        at = {f: B * point(solved, f) for f in ("u", "v")}
        found = number(solved, factor, at).replace(is_own, definition)
        limit = found.subs(TIME, sp.Rational(1, 3)).subs(sp.zoo, 0)
        value = solved.solutions[factor].along
        scale = next(node for node in value.atoms(sp.Function) if type(node).__name__ == "Scale")
        turning, growth, _ = scale.args
        straight = definition(scale).subs({turning: 0, growth: 2 * B})
        assert sp.simplify(straight - (1 + 2 * B * TIME) ** 2) == 0  # its fourth root is sqrt(1 + 2 b t)
        assert sp.simplify(sp.root(straight, 4) - sp.sqrt(1 + 2 * B * TIME)) == 0
        assert value.atoms(sp.exp) == {sp.exp(arg) for arg in (e.args[0] for e in value.atoms(sp.exp))}
        assert limit is not None
        rates = [solved.flow.number_rates[f] for f in ("u", "v")]
        (exponential,) = value.atoms(sp.exp)
        assert exponential.subs(dict.fromkeys(rates, B)) == 1  # nothing turns


def test_mixed_neuron_is_a_cone() -> None:
    """sigma = |g| |h|: sigma^2 is Scale^(1/2 * 2), with 1 + t d log sigma and w^2 = tau'^2 + 2 |u'|^2 + 2 |v'|^2."""
    solved = cases.solution("neuron_rescaling_mixed")
    g, h = solved.flow.polar["g"], solved.flow.polar["h"]
    turning, growth = solved.cone  # type: ignore[misc]
    assert sp.expand(solved.definitions[growth] - (g.rate + h.rate)) == 0  # d log sigma
    tau = g.rate - h.rate
    assert sp.expand(solved.definitions[turning] - (tau**2 + 2 * g.turn + 2 * h.turn)) == 0
    (exponential,) = solved.solutions["g"].along.atoms(sp.exp)
    elapsed = next(node for node in exponential.atoms(sp.Function) if type(node).__name__ == "Turn")
    assert sp.expand(exponential.args[0] - tau * elapsed / 2) == 0
    assert {node.args[0] for node in solved.solutions["g"].along.atoms(sp.Function) if len(node.args) == 2} == {g.turn}


def test_norm_gain_moves_in_a_hyperbolic_space() -> None:
    """With y = 1 / (w + 1), columns of V and y are a half-space: y = y(0) / (cosh + (w' / (w + 1)) sinh / s)."""
    solved = cases.solution("norm_gain_affine_invariant")
    found = solved.solutions["w"]
    (bend,) = {node.args[0] for node in found.along.atoms(sp.Function)}
    w, V = solved.flow.reduced.grams["w"], solved.flow.reduced.grams["V"]
    value = solved.definitions[bend].subs(solved.definitions)
    assert sp.simplify(value + (w.mixed / (w.point + 1)) ** 2 + (w.point + 1) ** 2 * V.speed) == 0
    assert found.shift == 1
