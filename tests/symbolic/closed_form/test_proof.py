"""What the proof accepts and what it refuses: every entry of the catalogue, and each of its formulas changed in one place."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import sympy as sp

from quotientgeo.errors import CertificateError, NotDerivableError
from quotientgeo.symbolic.closed_form import closed_form
from quotientgeo.symbolic.closed_form import functions as times
from quotientgeo.symbolic.closed_form.flow import Flow
from quotientgeo.symbolic.closed_form.functions import Cosine, Scale, Sine, Turn, definition, functions_hold, is_own
from quotientgeo.symbolic.closed_form.proof import prove
from quotientgeo.symbolic.closed_form.reduction import Reduced, reduced
from quotientgeo.symbolic.closed_form.solving import TIME, solve
from tests.symbolic.closed_form import cases


@pytest.mark.parametrize("name", cases.CLOSED)
def test_every_closed_form_is_proven(name: str) -> None:
    prove(cases.solution(name))


@pytest.mark.parametrize("name", cases.OPEN)
def test_other_entries_have_none_and_say_why(name: str) -> None:
    geometry = cases.geometry(name)
    assert closed_form(geometry, "") is None
    with pytest.raises(NotDerivableError, match=r"geodesics do not move in blocks|no formula of the acceleration"):
        reduced(geometry)


@pytest.mark.parametrize("name", cases.ONE_OF_EACH)
def test_each_formula_changed_in_one_place_is_refused(name: str) -> None:
    count = 0
    for _, wrong in itertools.islice(cases.mutants(name), 0, None, 3 if name == "neuron_rescaling_mixed" else 1):
        with pytest.raises(
            CertificateError,
            match=r"does not have its initial|is not the geodesic: in the equation of \w+, .* is left at ",
        ):
            prove(wrong)
        count += 1
    assert count >= 12


@pytest.mark.parametrize("name", cases.ONE_OF_EACH)
def test_the_right_form_is_refused_for_another_equation(name: str) -> None:
    right = cases.solution(name)
    factor = next(iter(right.flow.reduced.coefficients))
    A, B = right.flow.reduced.coefficients[factor]
    for other in ((2 * A, B), (A, 2 * B), (-A, -B), (A, B + 1) if B != 0 else (A + 1, B)):
        if other == (A, B):
            continue
        changed = {**right.flow.reduced.coefficients, factor: other}
        flow = Flow(dataclasses.replace(right.flow.reduced, coefficients=changed))
        with pytest.raises(CertificateError, match="is not the geodesic"):
            prove(dataclasses.replace(right, flow=flow))


def test_what_is_found_for_another_equation_is_another_form() -> None:
    """x'' = -x of a vector: a great circle's equation with the frequency 1, not that of the metric."""
    right = cases.solution("normalised_weight_invariant").flow.reduced
    harmonic = solve(dataclasses.replace(right, coefficients={"W": (sp.Integer(-1), sp.Integer(0))}))
    prove(harmonic)
    assert harmonic.solutions["W"].along == Cosine(sp.Integer(1), TIME)
    damped = dataclasses.replace(right, coefficients={"W": (sp.Integer(-1), right.grams["W"].point)})
    with pytest.raises(NotDerivableError, match="no closed form was found for the geodesic of W"):
        solve(damped)


def test_the_functions_of_time_are_what_they_are_called() -> None:
    functions_hold()
    k, b, t = sp.symbols("k b t", positive=True)
    for node, wanted in (
        (Cosine(-(k**2), t), sp.cosh(k * t)),
        (Sine(-(k**2), t), sp.sinh(k * t) / k),
    ):
        assert sp.simplify(definition(node).rewrite(sp.exp) - wanted.rewrite(sp.exp)) == 0
    assert Sine(sp.Integer(0), t) == t
    assert Cosine(sp.Integer(0), t) == 1
    assert sp.limit(definition(Turn(k**2, b, t)), k, 0) == t / (1 + b * t)
    assert is_own(Scale(k, b, t))
    assert isinstance(Cosine(k, t).diff(k), sp.Derivative)  # nothing is claimed of other derivatives


@pytest.mark.parametrize(
    ("kind", "slope"),
    [
        (Cosine, lambda self, argindex=2: self.args[0] * Sine(*self.args)),
        (Sine, lambda self, argindex=2: 2 * Cosine(*self.args)),
        (Turn, lambda self, argindex=3: Scale(*self.args)),
        (Scale, lambda self, argindex=3: 2 * self.args[1]),
    ],
)
def test_a_wrong_derivative_of_a_function_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: type, slope: object
) -> None:
    monkeypatch.setattr(kind, "fdiff", slope)
    with pytest.raises(CertificateError, match="in time is not"):
        times.functions_hold.__wrapped__()


def test_numbers_and_blocks_are_read_as_they_are_written() -> None:
    layer = reduced(cases.geometry("layer_rescaling_mixed"))
    assert layer.layout == {"U": "rows", "V": "columns"}
    U, V = layer.grams["U"], layer.grams["V"]
    assert layer.coefficients["U"] == (V.speed / V.point, -2 * V.mixed / V.point)
    assert layer.coefficients["V"] == (U.speed / U.point, -2 * U.mixed / U.point)
    network = reduced(cases.geometry("diagonal_network_mixed"))
    assert network.numbers == {"u", "v"}
    u, v = network.grams["u"], network.grams["v"]
    (found, _) = network.coefficients["u"]
    assert sp.cancel(found - (-2 * u.mixed * v.mixed / v.point + u.point * v.mixed**2 / v.point**2)) == 0
    rope = reduced(cases.geometry("rope_pair_interleaved_mixed"))
    assert set(rope.layout.values()) == {"interleaved"}
    assert isinstance(rope, Reduced)
