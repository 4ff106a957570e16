"""The scalar toy: orbit invariants and sharpness as derived, against numbers computed without SymPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.examples import ScalarToy, euclidean_claims, prove
from quotientgeo.symbolic.examples.rescaling import RHO, B
from quotientgeo.symbolic.examples.scalar_toy import OUTPUT, PRODUCT, X, Y, euclidean_norm_and_trace

METRICS = ("invariant", "mixed")
CASES = [(1.2, 0.7, 0.9, 0.4), (1.2, 0.7, 0.9, 2.0), (-0.8, 1.5, 1.1, 0.6), (-0.8, 1.5, 1.1, -1.32)]  # G, H, x, y


def loss(G: float, H: float, x: float, y: float) -> float:
    return (y - G * H * x) ** 2


def moved(metric: str, G: float, H: float, b: float) -> tuple[float, float]:
    profile = math.exp(b) if metric == "invariant" else math.sqrt(1 + 2 * b)
    return G * profile, H * profile


@pytest.mark.parametrize("metric", METRICS)
def test_every_claim_is_proven(metric: str) -> None:
    names = [claim.name for claim in ScalarToy(metric).claims if claim.proven]
    assert len(names) == len(set(names)) == 6
    assert {"loss", "gradient norm", "trace of the Hessian", "geodesic sharpness"} <= set(names)


@pytest.mark.parametrize(("metric", "rho"), [("invariant", 0.3), ("invariant", 1.5), ("mixed", 0.05), ("mixed", 0.5)])
@pytest.mark.parametrize("case", CASES)
def test_sharpness_is_the_largest_rise_on_a_fine_grid(metric: str, rho: float, case: tuple[float, ...]) -> None:
    G, H, x, y = case
    largest = rho / math.sqrt(2) / (1 if metric == "invariant" else abs(G * H))
    grid = np.linspace(-largest, largest, 4001)
    best = max(loss(*moved(metric, G, H, b), x, y) for b in grid) - loss(G, H, x, y)
    values = {OUTPUT: G * H * x, PRODUCT: G * H, X: x, Y: y, RHO: rho}
    assert float(ScalarToy(metric).sharpness.subs(values)) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("case", CASES)
def test_traces_are_second_derivatives_along_geodesics(metric: str, case: tuple[float, ...]) -> None:
    """The horizontal part: along (G, H) phi(b). The vertical part: along the geodesic that starts along the orbit."""
    G, H, x, y = case
    toy = ScalarToy(metric)
    values = {toy.point[0]: G, toy.point[1]: H, X: x, Y: y}
    h = 1e-4
    square = 2.0 if metric == "invariant" else 2 * (G * H) ** 2
    rises = [loss(*moved(metric, G, H, b), x, y) for b in (-h, 0.0, h)]
    second = (rises[0] - 2 * rises[1] + rises[2]) / h**2 / square
    assert float(toy.horizontal_trace.subs(values)) == pytest.approx(second, rel=1e-6, abs=1e-6)
    if metric == "invariant":  # G e^t, H e^-t is a geodesic: the loss stands still on it
        assert toy.vertical_trace == 0
    else:  # vertical geodesics leave the orbit
        ends = [vertical_end(G, H, t) for t in (-h, 0.0, h)]
        second = sum(c * loss(*end, x, y) for c, end in zip((1, -2, 1), ends, strict=True)) / h**2 / square
        assert float(toy.vertical_trace.subs(values)) == pytest.approx(second, rel=1e-6, abs=1e-6)


def vertical_end(G: float, H: float, t: float) -> tuple[float, float]:
    """Four RK4 steps of the mixed geodesic equation G'' = -2 G' H' / H + G H'^2 / H^2 (H likewise) from the velocity (G, -H)."""

    def rate(s: np.ndarray) -> np.ndarray:
        g, k, dg, dk = s
        return np.array([dg, dk, -2 * dg * dk / k + g * dk**2 / k**2, -2 * dg * dk / g + k * dg**2 / g**2])

    state, dt = np.array([G, H, G, -H]), t / 4
    for _ in range(4):
        k1 = rate(state)
        k2 = rate(state + dt / 2 * k1)
        k3 = rate(state + dt / 2 * k2)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + rate(state + dt * k3))
    return state[0], state[1]


@pytest.mark.parametrize(
    ("metric", "stated"),
    [
        ("invariant", OUTPUT**2 * (sp.exp(2 * B) - 1) - 2 * Y * OUTPUT * (sp.exp(2 * B) - 1)),
        ("invariant", OUTPUT**2 * (sp.exp(4 * B) - 1) + 2 * Y * OUTPUT * (sp.exp(2 * B) - 1)),
        ("invariant", OUTPUT**2 * (sp.exp(4 * B) - 1) - Y * OUTPUT * (sp.exp(2 * B) - 1)),
        ("mixed", OUTPUT**2 * (sp.exp(4 * B) - 1) - 2 * Y * OUTPUT * (sp.exp(2 * B) - 1)),
    ],
)
def test_wrong_rises_are_rejected(metric: str, stated: sp.Expr) -> None:
    with pytest.raises(CertificateError, match="should vanish"):
        prove("rise", "", ScalarToy(metric).rise - stated)


def test_wrong_constants_of_the_mixed_sharpness_are_rejected() -> None:
    found = ScalarToy("mixed").sharpness
    error = sp.Abs(X) * sp.Abs(PRODUCT * X - Y)
    prove("right", "", found - 2 * sp.sqrt(2) * RHO * error - 2 * RHO**2 * X**2)
    for linear, square in ((2, 2), (2 * sp.sqrt(2), 1), (2 * sp.sqrt(2), 0)):
        with pytest.raises(CertificateError):
            prove("wrong", "", found - linear * RHO * error - square * RHO**2 * X**2)


def test_a_gradient_norm_of_another_metric_is_no_orbit_invariant() -> None:
    """The claim fails when the Euclidean quantity is put in its place."""
    toy = ScalarToy()
    toy.__dict__["squared_gradient_norm"] = euclidean_norm_and_trace(toy)[0]
    with pytest.raises(CertificateError, match="gradient norm is not proven"):
        toy.claims  # noqa: B018


def test_euclidean_witnesses_can_be_evaluated() -> None:
    for claim in euclidean_claims():
        assert not claim.proven
        values = {str(symbol): float(value) for symbol, value in claim.witness.items()}
        G, H, a, x, y = (values.get(name, 0.0) for name in ("G", "H", "a", "x", "y"))

        def quantity(G: float, H: float, norm: bool, x: float = x, y: float = y) -> float:
            slope = -2 * x * (y - G * H * x)
            return slope**2 * (G**2 + H**2) if norm else 2 * x**2 * (G**2 + H**2)

        norm = "gradient" in claim.name
        assert quantity(a * G, H / a, norm) - quantity(G, H, norm) == pytest.approx(float(claim.value))
        assert float(claim.value) != 0
