"""The mixed metric's integrator: how many steps, how wrong, and what happens at the singular set."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quotientgeo.errors import GeodesicAccuracyError, GeodesicCollapseError
from quotientgeo.geometry import flow
from quotientgeo.geometry.coordinates import Horizontal, draw_start, random_start
from quotientgeo.geometry.gauge import canonical_frames
from quotientgeo.geometry.pair import PairGeometry
from tests.geometry.cases import Case, admissible_size, gap, horizontal


def _scalar(slopes, steps=64):
    """Pairs of numbers g h = 2, along z = c alone: g(t) h(t) = 2 + sqrt(2) c t exactly, which ends at c = -sqrt(2)."""
    slopes = torch.tensor(slopes, dtype=torch.float64)
    one = torch.ones(len(slopes), 1, 1, dtype=torch.float64)
    geometry = PairGeometry.at(4 * one, 0.5 * one, metric="mixed", steps=steps)
    return geometry, Horizontal((slopes[:, None, None]), 0 * one, 0 * one)


def test_scalar_geodesics_against_the_closed_form():
    geometry, z = _scalar([0.5, -0.5, -1.2], steps=256)
    G, H = geometry.exp(z)
    exact = 2 + math.sqrt(2) * z.c
    sign = torch.sign(geometry.frames.F_G * geometry.frames.F_H)
    torch.testing.assert_close(G * H * sign, exact, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        geometry.smallest_singular_ratio(z), (exact.flatten() / 2).clamp_max(1.0), rtol=1e-9, atol=0
    )


def test_a_geodesic_that_runs_into_the_singular_set_is_named():
    geometry, z = _scalar([0.1, -math.sqrt(2), -1.3])
    with pytest.raises(GeodesicCollapseError, match=r"head\.1: ") as raised:
        geometry.require_regular(z, names=["head.0", "head.1", "head.2"])
    assert "head.2" not in str(raised.value)
    assert "head.0" not in str(raised.value)
    with pytest.raises((GeodesicCollapseError, GeodesicAccuracyError), match="block 1: "):
        geometry.with_steps(4).settled_steps(z)
    regular, z = _scalar([0.1, -1.2])
    regular.require_regular(z)


def test_the_watch_sees_every_stage_not_only_the_end():
    """s_h dips on the way and comes back: the end says nothing about it."""
    geometry = Case(4, 4, 2, spectrum=3.0, seed=4).geometry("mixed", steps=64)
    starts = [horizontal(geometry, 1.5 * geometry.frames.s[-1], seed) for seed in range(20)]
    z = Horizontal(*(torch.stack(parts) for parts in zip(*starts, strict=True)))
    lowest = geometry.smallest_singular_ratio(z)
    times = torch.linspace(0, 1, 65, dtype=torch.float64)[:, None, None, None]
    G, H = geometry.exp(Horizontal(*(times * part for part in z)))
    along = torch.linalg.svdvals(G @ H.mT)[..., 1] / geometry.frames.s[-1]
    assert bool((lowest <= along.amin(0) + 1e-6).all())  # stages lie between the samples too
    assert bool((lowest >= along.amin(0) - 0.05).all())
    assert bool((lowest < 0.95 * along[-1].clamp_max(1.0)).any())


def test_a_non_finite_stage_counts_as_collapse():
    geometry = Case(4, 4, 2, batch=(2,)).geometry("mixed", steps=2)
    z = horizontal(geometry, 0.01)
    z.N_G[1] = 1e200
    assert geometry.smallest_singular_ratio(z)[0] > 0.9
    assert geometry.smallest_singular_ratio(z)[1] == 0.0
    assert geometry.step_error(z)[1] == math.inf
    with pytest.raises(GeodesicCollapseError, match="block 1: 0"):
        geometry.require_regular(z)


def test_no_geodesic_ends_below_the_bound():
    """|xi| < s_h / sqrt(2) is enough, and the scalar example above shows that nothing larger is."""
    for seed in range(5):
        geometry = Case(5, 4, 3, spectrum=20.0, seed=seed, batch=(8,)).geometry("mixed", steps=64)
        z = horizontal(geometry, admissible_size("mixed", geometry, 0.99), seed)
        assert float(geometry.smallest_singular_ratio(z).min()) > flow.COLLAPSE_FRACTION


def test_step_error_is_the_error():
    """Against G H' itself at many more steps, block by block."""
    geometry = Case(6, 5, 3, spectrum=5.0, batch=(3,)).geometry("mixed", steps=4)
    z = horizontal(geometry, torch.tensor([0.02, 0.05, 0.1], dtype=torch.float64))
    W = {steps: (lambda Y: Y[0] @ Y[1].mT)(geometry.with_steps(steps).exp(z)) for steps in (4, 8, 256)}
    norm = torch.linalg.matrix_norm
    torch.testing.assert_close(geometry.step_error(z), norm(W[4] - W[8]) / norm(W[8]), rtol=1e-6, atol=1e-15)
    true = norm(W[4] - W[256]) / norm(W[256])
    torch.testing.assert_close(geometry.step_error(z), true, rtol=0.2, atol=1e-14)


def test_fourth_order():
    geometry = Case(6, 5, 3, spectrum=3.0).geometry("mixed", steps=256)
    z = horizontal(geometry, admissible_size("mixed", geometry, 1.0))
    errors = torch.tensor([gap(geometry.with_steps(k).exp(z), geometry.exp(z)) for k in (8, 16)])
    assert float((errors[0] / errors[1]).log2()) == pytest.approx(4, abs=0.2)


def test_settling_doubles_until_the_tolerance_holds():
    geometry = Case(6, 5, 3, spectrum=5.0, batch=(3,)).geometry("mixed", steps=1)
    z = horizontal(geometry, admissible_size("mixed", geometry, 1.5))
    steps = geometry.settled_steps(z)
    assert steps in (2, 4, 8, 16, 32)
    assert float(geometry.with_steps(steps).step_error(z).max()) <= flow.STEP_TOLERANCE
    assert float(geometry.with_steps(steps // 2).step_error(z).max()) > flow.STEP_TOLERANCE
    assert geometry.with_steps(steps).settled_steps(z) == steps
    assert geometry.settled_steps(z.scale(0.0)) == 1


def test_an_unreachable_accuracy_is_named():
    geometry = Case(6, 5, 3, spectrum=5.0, batch=(3,)).geometry("mixed", steps=1)
    z = horizontal(
        geometry, admissible_size("mixed", geometry, 0.5) * torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    )
    velocity = geometry._velocity(z)
    with pytest.raises(GeodesicAccuracyError, match=r"2 Runge-Kutta steps .* middle: .*cap 2"):
        flow.settled_steps(geometry.frames, *velocity, 1, tolerance=1e-9, cap=2, names=["first", "middle", "last"])


@pytest.mark.parametrize("geodesic", ["exact", 2])
def test_geodesics_that_are_not_integrated_have_nothing_to_settle(geodesic):
    metric = "invariant" if geodesic == "exact" else "mixed"
    geometry = Case(6, 5, 3, batch=(3,)).geometry(metric, geodesic=geodesic, rho=0.1)
    z = horizontal(geometry, 0.05)
    assert geometry.steps is None
    assert geometry.settled_steps(z) is None
    geometry.require_regular(z)
    assert geometry.step_error(z).tolist() == [0.0, 0.0, 0.0]
    end_G, end_H = geometry.exp(z)
    ratio = torch.linalg.svdvals(end_G @ end_H.mT)[..., 2] / geometry.frames.s[..., 2]
    torch.testing.assert_close(geometry.smallest_singular_ratio(z), ratio.clamp_max(1.0), rtol=1e-10, atol=0)


# --- the choice before an ascent --------------------------------------------------------------------------------------


def _spectrum(name, h):
    j = torch.arange(1, h + 1, dtype=torch.float64)
    return {"flat": 1 + 0 * j, "root": j**-0.5, "harmonic": 1 / j, "geometric": 30.0 ** (-(j - 1) / h)}[name]


@pytest.mark.parametrize("h", [2, 8, 24])
@pytest.mark.parametrize("spectrum", ["flat", "root", "harmonic", "geometric"])
@pytest.mark.parametrize("relative", [0.03, 0.1, 0.3])
def test_the_choice_suffices_for_tangents_of_moderate_rank(h, spectrum, relative):
    """Unless it is capped: the median error of a few blocks keeps the tolerance within a factor 3, and no more than 6 times as
    many steps are chosen as needed."""
    s = _spectrum(spectrum, h)
    generator = torch.Generator().manual_seed(h)
    F_G, F_H = (torch.linalg.qr(torch.randn(4, 3 * h, h, generator=generator, dtype=torch.float64)).Q for _ in range(2))
    frames = canonical_frames(F_G * s.sqrt(), F_H * s.sqrt())
    rho = relative * float(s.norm())
    steps = flow.choose_steps(frames, rho)
    assert flow.choose_steps(frames, rho / 10) <= steps <= flow.MOST_ASCENT_STEPS
    geometry = PairGeometry(frames, "mixed", steps=steps)
    for rank in (4, 3 * h):
        left, right = (torch.randn(4, 3 * h, rank, generator=generator, dtype=torch.float64) for _ in range(2))
        z = random_start(frames, left @ right.mT)
        z = z.scale(rho / z.squared_norm().sqrt())
        if steps < flow.MOST_ASCENT_STEPS:
            assert float(geometry.step_error(z).median()) < 3 * flow.ASCENT_TOLERANCE
    wanted = max(2, geometry.settled_steps(z) if steps < flow.MOST_ASCENT_STEPS else steps)
    assert steps <= 6 * wanted


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.floats(1e-3, 1e3), st.floats(1e-12, 1e12))
def test_the_choice_does_not_depend_on_the_unit_of_the_weights(rho, scale):
    G, H = Case(6, 5, 3).factors()
    small, large = canonical_frames(G, H), canonical_frames(scale * G, H)
    assert abs(flow.choose_steps(small, rho) - flow.choose_steps(large, scale * rho)) <= 1  # a rounding may tip it
    assert 2 <= flow.choose_steps(small, rho) <= flow.MOST_ASCENT_STEPS


def test_the_choice_is_used_where_nobody_said_how_many():
    G, H = Case(6, 5, 3).factors()
    assert PairGeometry.at(G, H, metric="mixed").steps == flow.DEFAULT_STEPS
    assert PairGeometry.at(G, H, metric="mixed", rho=1e-4).steps == 2
    assert PairGeometry.at(G, H, metric="mixed", rho=0.1, steps=3).steps == 3
    assert flow.choose_steps(canonical_frames(G[None][:0], H[None][:0]), 0.1) == 2
    assert flow.choose_steps(canonical_frames(G, H), float("inf")) == flow.MOST_ASCENT_STEPS


def test_a_settled_value_is_within_one_in_a_million():
    """The figure that the measure promises, not whatever the module's constant says."""
    generator = torch.Generator().manual_seed(2)
    G, H = (torch.randn(2, rows, 4, generator=generator, dtype=torch.float64) for rows in (8, 7))
    geometry = PairGeometry.at(G, H, metric="mixed", steps=2)
    z = draw_start(geometry.frames, generator)
    z = z.scale(2.0 * geometry.frames.s[:, -1] / z.squared_norm().sqrt())
    assert float(geometry.step_error(z).max()) > 1e-6  # two steps are not enough here
    settled = geometry.with_steps(geometry.settled_steps(z))
    assert float(settled.step_error(z).max()) <= 1e-6
