"""Horizontal coordinates: an isometry onto the orthogonal complement of the orbit, against dense linear algebra."""

import math

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quotientgeo.errors import ShapeError
from quotientgeo.geometry.coordinates import Horizontal, dimension, draw_start, random_start
from quotientgeo.geometry.pair import METRICS as FUNCTIONS
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.groups import GL
from tests.geometry.cases import METRICS, Case, gap, horizontal, whitened
from tests.geometry.oracles import (
    exact,
    inner,
    inverse,
    join,
    metric_components,
    project_mpmath,
    sizes_of,
    vertical_basis,
)

SHAPES = [(5, 4, 2), (4, 5, 3), (3, 3, 3), (4, 3, 1), (1, 1, 1), (3, 6, 3)]
shapes = st.integers(1, 3).flatmap(lambda h: st.tuples(st.integers(h, h + 3), st.integers(h, h + 3), st.just(h)))
metrics = st.sampled_from(METRICS)
seeds = st.integers(0, 10**6)


def _dense(metric, G, H):
    """Vertical basis (columns), metric matrix and orthogonal projector onto the horizontal space, as float64 matrices."""
    vertical = vertical_basis(exact(G), exact(H)).astype(np.float64)
    g = metric_components(metric, exact(join(G, H)), sizes_of(G, H)).value.astype(np.float64)
    weighed = vertical.T @ g
    return vertical, g, np.eye(len(g)) - vertical @ np.linalg.solve(weighed @ vertical, weighed)


def _projector(geometry, G, H):
    """The package's projector as a matrix: every basis tangent through ``project``, one batch."""
    sizes = sizes_of(G, H)
    basis = torch.eye(sizes.total, dtype=torch.float64)
    return join(*geometry.project(*sizes.split(basis))).mT.numpy()


@settings(max_examples=20, deadline=None, derandomize=True)
@given(metrics, shapes, seeds)
def test_projector_is_the_orthogonal_projector(metric, shape, seed):
    G, H = Case(*shape, gauge=5.0, spectrum=5.0, seed=seed).factors()
    projector = _projector(PairGeometry.at(G, H, metric=metric), G, H)
    vertical, g, dense = _dense(metric, G, H)
    np.testing.assert_allclose(projector, dense, atol=1e-11)
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-11)  # idempotent
    np.testing.assert_allclose(projector @ vertical, 0, atol=1e-11)
    np.testing.assert_allclose(vertical.T @ g @ projector, 0, atol=1e-10)
    assert np.linalg.matrix_rank(projector, tol=1e-6) == dimension(*shape) == sum(shape[:2]) * shape[2] - shape[2] ** 2


def _sylvester(left, right, rhs):
    """L with left L + L right = rhs, by the dense linear system."""
    eye = torch.eye(len(rhs), dtype=torch.float64)
    system = torch.kron(left.contiguous(), eye) + torch.kron(eye, right.mT.contiguous())
    return torch.linalg.solve(system, rhs.flatten()).reshape(rhs.shape)


def test_the_dense_projector_rejects_the_misprinted_equation():
    """A L + L A = B, as one printed form of the invariant metric's Sylvester equation has it, is no projection."""
    G, H = Case(5, 4, 2, seed=3).factors()
    P, Q = G.T @ G, H.T @ H
    xi_G, xi_H = (torch.randn(k, 2, generator=torch.Generator().manual_seed(k)).double() for k in (5, 4))
    wanted = torch.from_numpy(_dense("invariant", G, H)[2] @ join(xi_G, xi_H).numpy())
    A, B = P @ Q, P @ (H.T @ xi_H) - (xi_G.T @ G) @ Q
    right, wrong = _sylvester(A.T, A.T, B.T), _sylvester(A, A, B)
    distance = [float((join(xi_G + G @ L, xi_H - H @ L.T) - wanted).abs().max()) for L in (right, wrong)]
    assert distance[0] < 1e-10 < 1e-3 < distance[1]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(metrics, shapes, seeds)
def test_norm_is_the_metric_norm_at_the_original_point(metric, shape, seed):
    case = Case(*shape, gauge=30.0, spectrum=30.0, seed=seed)
    G, H = case.factors()
    geometry = PairGeometry.at(G, H, metric=metric)
    first, second = horizontal(geometry, 0.7, seed), horizontal(geometry, 1.3, seed + 1)
    xi, eta = geometry.displacement(first), geometry.displacement(second)
    product = sum(float((a * b).sum()) for a, b in zip(first, second, strict=True))
    assert inner(metric, G, H, xi, xi) == pytest.approx(0.49, rel=1e-10)
    assert inner(metric, G, H, xi, eta) == pytest.approx(product, abs=1e-10)
    torch.testing.assert_close(geometry.squared_norm(first), first.squared_norm(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("shape", SHAPES)
def test_lift_and_coordinates_are_inverse(metric, shape):
    geometry = Case(*shape, gauge=100.0, batch=(2, 3)).geometry(metric)
    z = horizontal(geometry, 1.0)
    functions = FUNCTIONS[metric]
    assert gap(functions.coordinates(geometry.frames, *functions.lift(geometry.frames, z)), z) < 1e-14
    xi = geometry.displacement(z)
    assert gap(geometry.coordinates(*xi), z) < 1e-12
    assert gap(geometry.displacement(geometry.coordinates(*xi)), xi) < 1e-12
    assert (
        gap(functions.project(geometry.frames, *functions.lift(geometry.frames, z)), functions.lift(geometry.frames, z))
        < 1e-13
    )


@pytest.mark.parametrize("metric", METRICS)
def test_normal_parts_inside_the_frames_are_dropped(metric):
    geometry = Case(5, 4, 2).geometry(metric)
    z = horizontal(geometry, 1.0)
    smuggled = Horizontal(z.c, z.N_G + geometry.frames.F_G @ torch.ones(2, 2).double(), z.N_H)
    assert gap(geometry.displacement(smuggled), geometry.displacement(z)) < 1e-13
    assert float(smuggled.squared_norm()) > float(z.squared_norm()) + 1  # so |z| bounds the metric norm from above


# (metric, what is ill-conditioned, its condition) -> what the textbook formula with Gram matrices loses there, at least.
# Refined frames keep 1e-14 everywhere; plain QR + SVD would give about 4e-9 at gauge condition 1e8.
GRAM_LOSS = {
    ("invariant", "spectrum", 1e4): 1e-11,
    ("invariant", "spectrum", 1e8): 1e-3,
    ("invariant", "gauge", 1e4): 1e-10,
    ("invariant", "gauge", 1e8): 1e-3,
    ("mixed", "spectrum", 1e4): 0.0,
    ("mixed", "spectrum", 1e8): 1e-14,
    ("mixed", "gauge", 1e4): 1e-12,
    ("mixed", "gauge", 1e8): 1e-5,
}


@pytest.mark.parametrize(("metric", "what", "condition"), GRAM_LOSS)
def test_projection_accuracy_against_sixty_digits(metric, what, condition):
    n, m, h = 8, 7, 3
    options = {"spectrum": condition, "gauge": 1.0} if what == "spectrum" else {"spectrum": 3.0, "gauge": condition}
    case = Case(n, m, h, seed=1, **options)
    G, H = case.factors()
    geometry = PairGeometry.at(G, H, metric=metric)
    frames, generator = geometry.frames, case.generator()
    xi_G, xi_H = (
        torch.randn(rows, h, generator=generator, dtype=torch.float64) @ T
        for rows, T in ((n, frames.T_G), (m, frames.T_H))
    )
    columns = exact(frames.s.sqrt() if metric == "mixed" else torch.ones(h, dtype=torch.float64))
    lifted = FUNCTIONS[metric].lift(frames, geometry.coordinates(xi_G, xi_H))
    with mp.workdps(60):
        reference = _whitened(frames, project_mpmath(metric, G, H, xi_G, xi_H))
        ours = [exact(X) / columns for X in lifted]
        grams = _whitened(frames, [exact(part) for part in _gram_projection(metric, G, H, xi_G, xi_H)])
        # in the whitened representation the metric is |X columns^2|
        size = _length([part * columns**2 for part in reference])
        error, gram_error = (
            _length([(a - b) * columns**2 for a, b in zip(found, reference, strict=True)]) / size
            for found in (ours, grams)
        )
    assert error < 1e-14
    assert gram_error >= GRAM_LOSS[metric, what, condition]


def _whitened(frames, parts):
    gauges = ((frames.T_G, frames.T_G_low), (frames.T_H, frames.T_H_low))
    return [part @ inverse(exact(T) + exact(low)) for part, (T, low) in zip(parts, gauges, strict=True)]


def _length(parts) -> float:
    return math.sqrt(sum(float((part**2).sum()) for part in parts))


def _gram_projection(metric, G, H, xi_G, xi_H):
    """The textbook projection from Gram matrices in float64: (xi_G + G L, xi_H - H L')."""
    P, Q = G.mT @ G, H.mT @ H
    if metric == "mixed":
        L = 0.5 * (torch.linalg.solve(Q, H.mT @ xi_H).mT - torch.linalg.solve(P, G.mT @ xi_G))
    else:
        A, B = P @ Q, P @ (H.mT @ xi_H) - (xi_G.mT @ G) @ Q
        L = _sylvester(A.mT, A.mT, B.mT)
    return xi_G + G @ L, xi_H - H @ L.mT


@settings(max_examples=15, deadline=None, derandomize=True)
@given(metrics, shapes, seeds)
def test_random_starts_do_not_depend_on_the_gauge(metric, shape, seed):
    n, m, h = shape
    case = Case(*shape, gauge=3.0, seed=seed)
    G, H = case.factors()
    A = GL(h).random_element(case.generator(), condition=20.0)
    moved_G, moved_H = torch.linalg.solve(A, G, left=False), H @ A.mT
    Omega = torch.randn(n, m, generator=case.generator(), dtype=torch.float64)
    here, there = PairGeometry.at(G, H, metric=metric), PairGeometry.at(moved_G, moved_H, metric=metric)
    xi_G, xi_H = here.displacement(random_start(here.frames, Omega))
    moved = there.displacement(random_start(there.frames, Omega))
    assert gap(moved, (torch.linalg.solve(A, xi_G, left=False), xi_H @ A.mT)) < 1e-9
    # drawing z itself from the seed would not do: the frames of the two points differ by signs
    z = horizontal(here, 1.0, seed)
    flipped = Horizontal(z.c, -z.N_G, z.N_H)
    assert n == h or gap(there.displacement(flipped), there.displacement(z)) > 1e-3


@pytest.mark.parametrize("metric", METRICS)
def test_random_starts_are_isotropic(metric):
    """Covariance of 20 000 starts in an orthonormal basis of the horizontal space: the identity."""
    shape, count = (4, 3, 2), 20_000
    geometry = Case(*shape).geometry(metric)
    Omega = torch.randn(count, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = random_start(geometry.frames, Omega)
    flat = torch.cat([part.flatten(-2) for part in z], -1)
    covariance = (flat.mT @ flat) / count
    eigenvalues = torch.linalg.eigvalsh(covariance)
    expected = torch.zeros_like(eigenvalues)
    expected[-dimension(*shape) :] = 1.0
    torch.testing.assert_close(eigenvalues, expected, rtol=0, atol=5 * math.sqrt(dimension(*shape) / count))
    skewed = flat * torch.linspace(1.0, 1.3, flat.shape[-1])
    assert float(torch.linalg.eigvalsh(skewed.mT @ skewed / count)[-1]) > 1.2  # the test sees a lack of isotropy


def test_drawing_starts(monkeypatch):
    geometry = Case(5, 4, 2, batch=(3, 2)).geometry("invariant")
    first, again = (draw_start(geometry.frames, torch.Generator().manual_seed(5)) for _ in range(2))
    assert first.N_G.shape == (3, 2, 5, 2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert gap(first, draw_start(geometry.frames, torch.Generator().manual_seed(6))) > 1e-3
    blocks = first.squared_norm().flatten()
    assert blocks.unique().numel() == blocks.numel()  # every block has its own draw
    monkeypatch.setattr("quotientgeo.geometry.coordinates._OMEGA_ENTRIES", 1)
    assert draw_start(geometry.frames, torch.Generator().manual_seed(5)).c.shape == (3, 2, 2, 2)
    empty = Case(5, 4, 2, batch=(0,)).geometry("invariant")
    assert draw_start(empty.frames, torch.Generator()).c.shape == (0, 2, 2)
    with pytest.raises(ShapeError, match="Omega"):
        random_start(geometry.frames, torch.zeros(4, 5))


@pytest.mark.parametrize("metric", METRICS)
def test_whitening_helper_agrees(metric):
    geometry = Case(5, 4, 2).geometry(metric)
    assert (
        gap(whitened(geometry, *geometry.original(*geometry.base())), (geometry.frames.F_G, geometry.frames.F_H))
        < 1e-13
    )


@pytest.mark.parametrize("metric", ["invariant", "mixed"])
@pytest.mark.parametrize("side", ["N_G", "N_H"])
def test_what_a_coordinate_holds_inside_its_frame_moves_nothing(metric, side):
    """Gradients in z are then normal, and z stays a horizontal tangent whatever an optimiser adds to it."""
    generator = torch.Generator().manual_seed(4)
    G, H = (torch.randn(2, rows, 3, generator=generator, dtype=torch.float64) for rows in (6, 5))
    geometry = PairGeometry.at(G, H, metric=metric)
    z = draw_start(geometry.frames, generator).scale(0.1)
    frame = geometry.frames.F_G if side == "N_G" else geometry.frames.F_H
    inside = frame @ torch.randn(2, 3, 3, generator=generator, dtype=torch.float64)
    for expected, found in zip(
        geometry.exp(z), geometry.exp(z._replace(**{side: getattr(z, side) + inside})), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
