"""Exact geodesics and Taylor polynomials against independent integrations, conservation laws and the group."""

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quotientgeo.errors import ArgumentError, CertificateError
from quotientgeo.geometry.catalogue_code import generated_code
from quotientgeo.geometry.certify import certify_exponential, random_draws
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.groups import GL
from tests.geometry.cases import METRICS, Case, admissible_size, gap, horizontal, whitened
from tests.geometry.oracles import (
    christoffel_acceleration,
    exact,
    geodesic_dop853,
    geodesic_mpmath,
    inner,
    join,
    project_mpmath,
    sizes_of,
    whitened_error,
)

FINE = 256  # Runge-Kutta steps at which the mixed geodesics below are exact to rounding
TOLERANCE = 1e-10  # the accuracy that issue 2 asks of exact geodesics, in the whitened norm


def _exponential(metric, steps=FINE):
    """Exp of any tangent at any point: what a user's closed form looks like to ``certify_exponential``."""
    return lambda G, H, xi_G, xi_H: PairGeometry.at(G, H, metric=metric, steps=steps).exponential(xi_G, xi_H)


# --- the oracles themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_christoffel_symbols_of_the_oracle(metric):
    """Dual numbers against torch's reverse-mode derivatives of the same metric, and against the generated acceleration."""
    case = Case(4, 3, 2)
    G, H = case.factors()
    generator, sizes = case.generator(), sizes_of(G, H)
    xi = [torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in (G, H)]
    oracle = christoffel_acceleration(metric, exact(join(G, H)), exact(join(*xi)), sizes).astype(np.float64)

    def matrix(w):
        G, H = sizes.split(w)
        P, Q = G.T @ G, H.T @ H
        K_G, K_H = (torch.linalg.inv(P), torch.linalg.inv(Q)) if metric == "invariant" else (Q, P)
        return torch.block_diag(*[K_G] * sizes.n, *[K_H] * sizes.m)

    w, v = join(G, H), join(*xi)
    d = torch.autograd.functional.jacobian(matrix, w)
    lower = torch.einsum("lji,i,j->l", d, v, v) - 0.5 * torch.einsum("ijl,i,j->l", d, v, v)
    reverse = -torch.linalg.solve(matrix(w), lower).numpy()
    generated = join(*generated_code(metric).acceleration(G, H, *xi)).numpy()
    scale = np.abs(reverse).max()
    np.testing.assert_allclose(oracle, reverse, rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(oracle, generated, rtol=0, atol=1e-11 * scale)


# --- closed form and reduced flow against the derived geodesic equation -----------------------------------------------


def test_closed_form_of_the_invariant_metric_satisfies_its_geodesic_equation():
    acceleration = generated_code("invariant").acceleration
    for shapes in ([(5, 2), (4, 2)], [(3, 3), (4, 3)], [(2, 1), (3, 1)]):
        report = certify_exponential(_exponential("invariant"), acceleration, random_draws(shapes, count=3, size=0.5))
        assert report.residual < 1e-12
        assert (report.draws, report.times) == (3, (0.4, 1.0))


def test_reduced_flow_of_the_mixed_metric_satisfies_its_geodesic_equation():
    """Runge-Kutta curves satisfy it up to their own error, which doubling the steps divides by about 16."""
    acceleration, residuals = generated_code("mixed").acceleration, []
    for steps in (6, 12):
        draws = random_draws([(4, 2), (5, 2)], count=1, size=0.05)
        residuals.append(
            certify_exponential(
                _exponential("mixed", steps), acceleration, draws, times=(0.7,), tolerance=1e-4
            ).residual
        )
    assert residuals[1] < 1e-6
    assert residuals[0] / residuals[1] == pytest.approx(16, rel=0.5)


def _forgets_the_rotation(G, H, xi_G, xi_H):
    """exp(t (A - A')) Y0 with A = xi Y^+: the closed form without its second factor."""

    def one(Y, xi):
        A = xi @ torch.linalg.pinv(Y)
        return torch.linalg.matrix_exp(A - A.mT) @ Y

    return one(G, xi_G), one(H, xi_H)


def _swaps_the_order(G, H, xi_G, xi_H):
    def one(Y, xi):
        A = xi @ torch.linalg.pinv(Y)
        return torch.linalg.matrix_exp(A.mT) @ torch.linalg.matrix_exp(A - A.mT) @ Y

    return one(G, xi_G), one(H, xi_H)


def _full_size_closed_form(G, H, xi_G, xi_H):
    def one(Y, xi):
        A = xi @ torch.linalg.pinv(Y)
        return torch.linalg.matrix_exp(A - A.mT) @ torch.linalg.matrix_exp(A.mT) @ Y

    return one(G, xi_G), one(H, xi_H)


def _straight(G, H, xi_G, xi_H):
    return G + xi_G, H + xi_H


def _constant(G, H, xi_G, xi_H):
    return G, H


def _wrong_start(G, H, xi_G, xi_H):
    end = _full_size_closed_form(G, H, xi_G, xi_H)
    return end[0] + 1e-6, end[1]


def _slightly_off(G, H, xi_G, xi_H):
    end = _full_size_closed_form(G, H, xi_G, xi_H)
    return end[0] + 1e-6 * xi_G @ (xi_G.mT @ xi_G), end[1]


def _not_finite(G, H, xi_G, xi_H):
    return G / (G * 0), H + xi_H


@pytest.mark.parametrize(
    "wrong",
    [_forgets_the_rotation, _swaps_the_order, _straight, _constant, _wrong_start, _slightly_off, _not_finite],
)
def test_wrong_closed_forms_are_rejected(wrong):
    draws = random_draws([(4, 2), (3, 2)], count=2)
    with pytest.raises(CertificateError, match=r"not the geodesic .* draw \d, factor \d"):
        certify_exponential(wrong, generated_code("invariant").acceleration, draws)


def test_another_right_closed_form_is_accepted_and_a_right_one_needs_its_own_metric():
    draws = random_draws([(4, 2), (3, 2)], count=2)
    certify_exponential(_full_size_closed_form, generated_code("invariant").acceleration, draws)
    with pytest.raises(CertificateError):
        certify_exponential(_full_size_closed_form, generated_code("mixed").acceleration, draws)
    with pytest.raises(CertificateError, match="no draw"):
        certify_exponential(_full_size_closed_form, generated_code("invariant").acceleration, [])


# --- against integration in original coordinates ----------------------------------------------------------------------

DOP853_CASES = [
    ("invariant", Case(5, 4, 2, spectrum=1e3, gauge=1e2)),
    ("invariant", Case(3, 3, 3, spectrum=30.0, gauge=10.0, seed=1)),
    ("invariant", Case(4, 3, 1, gauge=1e2, seed=2)),
    ("mixed", Case(5, 4, 2, spectrum=1e2, gauge=1e2)),
    ("mixed", Case(2, 3, 2, spectrum=10.0, gauge=30.0, seed=1)),
    ("mixed", Case(3, 4, 1, gauge=1e2, seed=2)),
]


@pytest.mark.parametrize(("metric", "case"), DOP853_CASES)
def test_exact_geodesics_agree_with_christoffel_integration(metric, case):
    G, H = case.factors()
    geometry = PairGeometry.at(G, H, metric=metric, steps=FINE)
    z = horizontal(geometry, admissible_size(metric, geometry))
    xi = geometry.displacement(z)
    reference = whitened(geometry, *geodesic_dop853(metric, G, H, *xi))
    assert gap(whitened(geometry, *geometry.exponential(*xi)), reference) < TOLERANCE
    assert gap(whitened(geometry, *geometry.original(*geometry.exp(z))), reference) < TOLERANCE
    straight = whitened(geometry, G + xi[0], H + xi[1])
    assert gap(straight, reference) > 1e-3  # the geodesic bends enough for the comparison to mean something


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("gauge", [1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("shape", [(5, 4, 2), (2, 3, 2)])
def test_exact_geodesics_agree_with_fifty_digits(metric, gauge, shape):
    case = Case(*shape, spectrum=1e3 if metric == "invariant" else 1e2, gauge=gauge, seed=3)
    G, H = case.factors()
    geometry = PairGeometry.at(G, H, metric=metric, steps=FINE)
    frames = geometry.frames
    xi = geometry.displacement(horizontal(geometry, admissible_size(metric, geometry)))
    # In a bad gauge the float64 tangent is horizontal only to rounding times the condition: project it with 60 digits.
    start = project_mpmath(metric, G, H, *xi)
    reference = geodesic_mpmath(metric, exact(G), exact(H), *start)
    ends = geometry.exp(geometry.coordinates(*xi))
    with mp.workdps(60):  # from the gauge of the frames to the original one without rounding to float64 on the way
        errors = [
            whitened_error(exact(end / frames.s.sqrt()) @ (exact(T) + exact(low)), wanted, exact(base))
            for end, T, low, wanted, base in zip(
                ends, (frames.T_G, frames.T_H), (frames.T_G_low, frames.T_H_low), reference, (G, H), strict=True
            )
        ]
    assert max(errors) < 1e-13 < TOLERANCE  # no digit is lost to the gauge


# --- along the trajectory ---------------------------------------------------------------------------------------------


def _along(geometry, tangent, times, step=0.01):
    """Points and velocities at the given times: all in one batch, velocities by central differences of order 6."""
    offsets = step * torch.arange(-3.0, 4.0, dtype=torch.float64)
    t = (torch.tensor(times, dtype=torch.float64)[:, None] + offsets)[..., None, None]
    weights = torch.tensor([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0], dtype=torch.float64) / (60 * step)
    curves = geometry.exponential(*(t * part for part in tangent))
    points = zip(*(Y[:, 3] for Y in curves), strict=True)
    velocities = zip(*(torch.einsum("k,tknh->tnh", weights, Y) for Y in curves), strict=True)
    return zip(times, points, velocities, strict=True)


def _moments(metric, G, H, V_G, V_H):
    """GL momentum G'Pi_G - Pi_H'H, and the momenta of the two rotation groups Pi G' - G Pi'; Pi is the metric's covector."""
    P, Q = G.T @ G, H.T @ H
    weights = (torch.linalg.inv(P), torch.linalg.inv(Q)) if metric == "invariant" else (Q, P)
    Pi_G, Pi_H = V_G @ weights[0], V_H @ weights[1]
    return G.T @ Pi_G - Pi_H.T @ H, Pi_G @ G.T - G @ Pi_G.T, Pi_H @ H.T - H @ Pi_H.T


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("is_horizontal", [True, False])
@pytest.mark.parametrize("shape", [(5, 4, 2), (3, 3, 3), (3, 2, 1)])
def test_energy_and_momenta_are_conserved(metric, is_horizontal, shape):
    case = Case(*shape, gauge=3.0, spectrum=5.0)
    G, H = case.factors()
    geometry = PairGeometry.at(G, H, metric=metric, steps=FINE)
    tangent = geometry.displacement(horizontal(geometry, admissible_size(metric, geometry, 0.4)))
    if not is_horizontal:
        X = 0.05 * torch.randn(shape[2], shape[2], generator=case.generator(), dtype=torch.float64)
        tangent = tangent[0] - G @ X, tangent[1] + H @ X.T
    energy, start = inner(metric, G, H, tangent, tangent), _moments(metric, G, H, *tangent)
    assert (float(start[0].abs().max()) < 1e-12) == is_horizontal
    for t, (Y_G, Y_H), velocity in _along(geometry, tangent, (0.25, 0.5, 1.0)):
        assert inner(metric, Y_G, Y_H, velocity, velocity) == pytest.approx(energy, rel=1e-10)
        assert gap(_moments(metric, Y_G, Y_H, *velocity), start) < 1e-10
        derived = generated_code(metric).momentum(Y_G, Y_H, *velocity)
        assert gap((derived,), (generated_code(metric).momentum(G, H, *tangent),)) < 1e-10
        straight = _moments(metric, G + t * tangent[0], H + t * tangent[1], *tangent)
        assert gap(straight, start) > 1e-4 or shape == (3, 3, 3)  # a straight line does not conserve them


def _moved(A, Y_G, Y_H):
    """The action (G A^-1, H A') on points and on tangents."""
    return torch.linalg.solve(A, Y_G, left=False), Y_H @ A.mT


seeds = st.integers(0, 10**6)
shapes = st.integers(1, 3).flatmap(lambda h: st.tuples(st.integers(h, h + 3), st.integers(h, h + 3), st.just(h)))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.sampled_from(METRICS), st.sampled_from(["exact", 1, 2, 3, 4]), shapes, st.sampled_from([1, 64]), seeds)
def test_equivariance_along_the_whole_trajectory(metric, geodesic, shape, steps, seed):
    """Also at one Runge-Kutta step and for Taylor polynomials, whatever their own error: the group acts linearly."""
    case = Case(*shape, gauge=5.0, spectrum=5.0, seed=seed)
    G, H = case.factors()
    A = GL(shape[2]).random_element(case.generator(), condition=20.0)
    options = {"metric": metric, "geodesic": geodesic, "steps": steps}
    here, there = PairGeometry.at(G, H, **options), PairGeometry.at(*_moved(A, G, H), **options)
    tangent = here.displacement(horizontal(here, admissible_size(metric, here), seed))
    X = 0.02 * torch.randn(shape[2], shape[2], generator=case.generator(), dtype=torch.float64)
    for xi in (tangent, (tangent[0] - G @ X, tangent[1] + H @ X.T)):
        for t in (0.25, 0.5, 0.75, 1.0):
            end = here.exponential(*(t * part for part in xi))
            moved_end = there.exponential(*(t * part for part in _moved(A, *xi)))
            assert gap(whitened(there, *moved_end), whitened(there, *_moved(A, *end))) < TOLERANCE
    z, moved_z = here.coordinates(*tangent), there.coordinates(*_moved(A, *tangent))
    W, moved_W = ((ends[0] @ ends[1].mT) for ends in (here.exp(z), there.exp(moved_z)))
    assert gap((W,), (moved_W,)) < TOLERANCE


def test_the_equivariance_test_sees_a_metric_that_is_not_invariant():
    """The Euclidean metric's projection and straight lines, for which the same comparison fails."""
    G, H = Case(4, 3, 2).factors()
    A = GL(2).random_element(torch.Generator().manual_seed(0), condition=20.0)
    xi = 0.1 * torch.ones_like(G), 0.1 * torch.ones_like(H)
    end, moved_end = (G + xi[0], H + xi[1]), tuple(a + b for a, b in zip(_moved(A, G, H), xi, strict=True))
    assert gap(moved_end, _moved(A, *end)) > 1e-2


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_taylor_polynomials_have_their_order(metric, order):
    geometry = Case(6, 5, 3, spectrum=4.0, batch=(2,)).geometry(metric, steps=FINE)
    polynomial = PairGeometry(geometry.frames, metric, order)
    direction = horizontal(geometry, admissible_size(metric, geometry, 1.0))
    sizes, errors = torch.tensor([0.4, 0.2, 0.1, 0.05], dtype=torch.float64), []
    for size in sizes.tolist():
        z = direction.scale(size)
        errors.append(gap(polynomial.exp(z), geometry.exp(z)))
    slopes = torch.tensor(errors).log().diff() / sizes.log().diff()
    assert float(slopes[-1]) == pytest.approx(order + 1, abs=0.2), (errors, slopes)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("geodesic", ["exact", 1, 2, 3, 4])
def test_zero_tangent_gives_the_balanced_base_point_exactly(metric, geodesic):
    G, H = Case(6, 5, 3, batch=(2,)).factors()
    G, H = 3.0 * G, 0.7 * H  # s_1 is not 1
    geometry = PairGeometry.at(G, H, metric=metric, geodesic=geodesic)
    base, at_zero = geometry.base(), geometry.exp(geometry.zero())
    assert gap(base, at_zero) < 1e-14
    assert gap(geometry.original(*base), (G, H)) < 1e-13
    gram_G, gram_H = (Y.mT @ Y for Y in base)
    torch.testing.assert_close(gram_G, torch.diag_embed(geometry.frames.s), rtol=0, atol=1e-14)
    torch.testing.assert_close(gram_H, torch.diag_embed(geometry.frames.s), rtol=0, atol=1e-14)


def test_batches_are_independent():
    """A batch gives what its blocks give one by one; tangents may have more leading dimensions than the point."""
    for metric in METRICS:
        geometry = Case(5, 4, 2, batch=(2, 3)).geometry(metric, steps=4)
        z = horizontal(geometry, admissible_size(metric, geometry))
        together = geometry.exp(z)
        for index in ((0, 0), (1, 2)):
            frames = type(geometry.frames)(*(part[index] for part in geometry.frames))
            alone = PairGeometry(frames, metric, steps=4).exp(type(z)(*(part[index] for part in z)))
            assert gap(alone, tuple(part[index] for part in together)) < 1e-14
        one = Case(5, 4, 2).geometry(metric, steps=4)
        several = type(z)(
            *(torch.stack([part, 2 * part, 0 * part]) for part in horizontal(one, admissible_size(metric, one, 0.2)))
        )
        ends = one.exp(several)
        assert ends[0].shape == (3, 5, 2)
        assert gap(tuple(part[2] for part in ends), one.base()) < 1e-15


def test_impossible_options_are_named():
    frames = Case(5, 4, 2).geometry("invariant").frames
    for options in ({"metric": "euclidean"}, {"geodesic": 5}, {"geodesic": "quadratic"}, {"geodesic": True}):
        with pytest.raises(ArgumentError):
            PairGeometry(frames, **options)
    with pytest.raises(ArgumentError, match="steps"):
        PairGeometry(frames, "mixed", steps=0)
    assert PairGeometry(frames, "invariant", steps=7).steps is None
    assert PairGeometry(frames, "mixed", 2, steps=7).steps is None
