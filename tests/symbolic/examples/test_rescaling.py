"""The geometry of two numbers of which only the product is seen: derived, proven, and integrated by a route of its own."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

from quotientgeo.errors import ArgumentError, CertificateError
from quotientgeo.symbolic.examples import RescalingPair, general_invariant_geodesic, prove, refute, rescaling
from quotientgeo.symbolic.examples.rescaling import RHO, B, T

U, V = RescalingPair("invariant").point
METRICS = ("invariant", "mixed")
# what the paper says of each metric, typed here: profile, |xi|^2, radius of the domain
STATED = {
    "invariant": (sp.exp(B * T), 2 * B**2, sp.oo),
    "mixed": (sp.sqrt(1 + 2 * B * T), 2 * B**2 * U**2 * V**2, sp.Abs(U * V) / sp.sqrt(2)),
}
WRONG = {
    "invariant": (sp.exp(2 * B * T), B**2, sp.Abs(U * V)),
    "mixed": (sp.sqrt(1 + B * T), B**2 * U**2 * V**2, sp.Abs(U * V) / 2),
}


@pytest.mark.parametrize("metric", METRICS)
def test_what_is_derived_is_what_is_stated_and_nothing_else(metric: str) -> None:
    pair = RescalingPair(metric)
    for found, stated, wrong in zip(
        (pair.profile, pair.squared_norm, pair.radius), STATED[metric], WRONG[metric], strict=True
    ):
        assert found == stated or prove("stated", "", found - stated)
        with pytest.raises(CertificateError):
            prove("wrong", "", found - wrong)


@pytest.mark.parametrize("metric", METRICS)
def test_every_claim_is_proven(metric: str) -> None:
    claims = RescalingPair(metric).claims
    assert [claim.name for claim in claims] == [
        "invariance", "horizontal", "geodesic", "constant speed", "second-order step",
    ]  # fmt: skip
    assert all(claim.proven for claim in claims)


@pytest.mark.parametrize(
    "weights", [lambda u, v: (sp.Integer(1), sp.Integer(1)), lambda u, v: (u**-2, v**-1), lambda u, v: (u**2, v**2)]
)
def test_a_metric_that_is_not_invariant_is_refused_with_a_witness(monkeypatch: pytest.MonkeyPatch, weights) -> None:
    monkeypatch.setitem(rescaling.WEIGHTS, "planted", weights)
    with pytest.raises(CertificateError, match=r"^invariance is not proven.* at .*a = "):
        RescalingPair("planted").claims  # noqa: B018


def test_a_planted_profile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = RescalingPair("mixed")
    monkeypatch.setitem(pair.__dict__, "profile", sp.sqrt(1 + B * T))
    with pytest.raises(CertificateError, match=r"^geodesic is not proven"):
        pair.claims  # noqa: B018


@pytest.mark.parametrize("metric", METRICS)
def test_geodesics_are_those_of_a_numeric_integrator(metric: str) -> None:
    """Hamilton's equations with the metric's weights as numbers and their derivatives by central differences."""
    u, v, b = 1.3, -0.4, -0.3

    def energy(q: np.ndarray, p: np.ndarray) -> float:
        weights = (q[0] ** -2, q[1] ** -2) if metric == "invariant" else (q[1] ** 2, q[0] ** 2)
        return 0.5 * (p[0] ** 2 / weights[0] + p[1] ** 2 / weights[1])

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        q, p, h = state[:2], state[2:], 1e-5
        slope = [[(energy(q + h * e, p) - energy(q - h * e, p)) / (2 * h) for e in np.eye(2)],
                 [(energy(q, p + h * e) - energy(q, p - h * e)) / (2 * h) for e in np.eye(2)]]  # fmt: skip
        return np.concatenate([slope[1], np.negative(slope[0])])

    pair = RescalingPair(metric)
    at = {pair.point[0]: u, pair.point[1]: v}
    momentum = np.array(pair.coordinates.metric.subs(at), dtype=float) @ [b * u, b * v]
    end = solve_ivp(flow, (0, 1), [u, v, *momentum], rtol=1e-10, atol=1e-12).y[:2, -1]
    expected = [float(entry.subs({**at, B: b, T: 1})) for entry in pair.geodesic]
    assert end == pytest.approx(expected, rel=1e-7)
    assert end != pytest.approx([u * (1 + b), v * (1 + b)], rel=1e-3)


def test_any_geodesic_of_the_invariant_metric_moves_each_number_by_itself() -> None:
    _, solution, claim = general_invariant_geodesic()
    x, eta = sorted(solution.free_symbols - {T}, key=str, reverse=True)
    assert sp.simplify(solution - x * sp.exp(eta / x * T)) == 0
    assert claim.proven


def test_the_ball_in_b() -> None:
    assert RescalingPair("invariant").largest_b == RHO / sp.sqrt(2)
    assert sp.simplify(RescalingPair("mixed").largest_b - RHO / (sp.sqrt(2) * sp.Abs(U * V))) == 0


def test_unknown_metric() -> None:
    with pytest.raises(ArgumentError, match="choose one of invariant, mixed"):
        RescalingPair("euclidean")


def test_proofs_and_refutations() -> None:
    x = sp.Symbol("x", positive=True)
    assert prove("one", "", sp.sin(x) ** 2 + sp.cos(x) ** 2 - 1).value == 0
    with pytest.raises(CertificateError, match=r"half is not proven: 1/2 should vanish; it is 1/2 at every point"):
        prove("half", "", sp.sin(x) ** 2 + sp.cos(x) ** 2 - sp.Rational(1, 2))
    with pytest.raises(CertificateError, match=r"square is not proven: .* it is 2 at x = 1"):
        prove("square", "", x**2 + x)
    with pytest.raises(CertificateError, match="proves nothing"):
        prove("none", "")
    refuted = refute("grows", "", x * (x - 1))
    assert not refuted.proven
    assert refuted.value == refuted.residuals[0].subs(refuted.witness) != 0
    with pytest.raises(CertificateError, match="not refuted"):
        refute("zero", "", (x + 1) ** 2 - x**2 - 2 * x - 1)
