"""The run-time geometry of generated modules against the hand-made geometry of pairs; closed forms; shapes, dtypes, errors."""

from __future__ import annotations

import copy
import linecache
import pickle
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import quotientgeo as qg
from quotientgeo.errors import (
    AbsentOperationError,
    ArgumentError,
    CertificateError,
    GeodesicAccuracyError,
    GeodesicCollapseError,
    ShapeError,
)
from quotientgeo.geometry import derived_flow
from quotientgeo.geometry.derived import Derived
from quotientgeo.geometry.derived_samples import random_factors, random_tangent
from tests.geometry.derived_settings import Setting, flat, gap, generated, plus, scaled, with_fault

METRICS = ("invariant", "mixed")


def pair(metric: str, **functions) -> Derived:
    return Derived(with_fault(generated(f"gl_pair_{metric}"), **functions))


def by_hand(metric: str):
    """The exponential of ``qg.GLPair``, which has a closed form or a reduced flow of its own, on factors."""

    def exponential(G, H, xi_G, xi_H):
        manifold = qg.GLPair(G.shape[-2], H.shape[-2], metric=metric)
        batch = torch.broadcast_shapes(G.shape[:-2], xi_G.shape[:-2])
        x, u = (torch.cat(part, -2).expand(*batch, -1, -1) for part in ((G, H), (xi_G, xi_H)))
        return manifold.unpack_tensor(manifold.expmap(x, u))

    return exponential


@st.composite
def pairs(draw: st.DrawFn):
    h = draw(st.integers(1, 4))
    shapes = tuple((h + draw(st.integers(0, 3)), h) for _ in range(2))
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    point = random_factors(shapes, batch, generator=generator)
    size = draw(st.sampled_from([0.0, 1e-3, 0.05]))
    return draw(st.sampled_from(METRICS)), point, scaled(size, random_tangent(shapes, batch, generator=generator))


@settings(deadline=None, max_examples=40, derandomize=True)
@given(case=pairs())
def test_pairs_agree_with_the_hand_made_geometry(case) -> None:
    metric, x, xi = case
    at, manifold = pair(metric), qg.GLPair(x[0].shape[-2], x[1].shape[-2], metric=metric)
    X, U = torch.cat(x, -2), torch.cat(xi, -2)
    assert gap(at.exponential(x, xi), by_hand(metric)(*x, *xi)) < 1e-9
    projected = manifold.unpack_tensor(manifold.proju(X, U))
    assert float((flat(at.project(x, xi)) - flat(projected)).abs().max()) < 1e-11
    assert float((at.norm(x, xi) - manifold.norm(X, U)).abs().max()) < 1e-12


# --- transport ---


@pytest.mark.parametrize("name", ["gl_pair_invariant", "orthogonal_pair_euclidean"])
def test_the_two_equations_of_transport_are_one(name) -> None:
    """With the derivative of the momentum where the projection is solved for, else with that of the projection."""
    setting = Setting(name)
    x = setting.point()
    xi, eta = setting.horizontal(x), setting.horizontal(x, stream=2)
    as_formula = with_fault(generated(name))
    del as_formula._vertical_part  # ``horizontal`` finds its own in the module it comes from
    solved, direct = (at._parallel_in_quotient(x, xi, eta) for at in (setting.geometry, Derived(as_formula)))
    assert gap(direct, solved) < 1e-11
    assert gap(setting.geometry._parallel_in_total(x, xi, eta), solved) > 1e-2


# --- geodesics ---


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("order", ["exact", 1, 2, 3, 4])
def test_geodesics_can_be_differentiated_twice(metric, order) -> None:
    setting = Setting(f"gl_pair_{metric}", batch=())
    x = setting.point()
    inputs = tuple(t.requires_grad_() for t in (*x, *setting.tangent(x)))
    at = setting.geometry

    def end(G, H, a, b):
        return at.exponential((G, H), (a, b), order, **({"tolerance": 1e-6} if order == "exact" else {}))

    assert gradcheck(end, inputs, fast_mode=True)
    assert gradgradcheck(end, inputs, atol=1e-5, fast_mode=True)


@pytest.mark.parametrize("metric", METRICS)
def test_transport_can_be_differentiated(metric) -> None:
    setting = Setting(f"gl_pair_{metric}", batch=())
    x = setting.point()
    inputs = tuple(t.requires_grad_() for t in (*x, *setting.tangent(x), *setting.tangent(x, stream=2)))
    at = setting.geometry
    assert gradcheck(
        lambda G, H, a, b, c, d: at.transport((G, H), (a, b), (c, d), steps=1).tangent, inputs, fast_mode=True
    )


def test_results_under_no_grad_are_those_with_grad() -> None:
    setting = Setting("gl_pair_invariant")
    x, at = setting.point(), setting.geometry
    xi, eta = setting.tangent(x), setting.tangent(x, stream=2)
    free = tuple(t.clone().requires_grad_() for t in x)
    with torch.no_grad():
        quiet = at.transport(free, xi, eta, steps=2).tangent
        assert not any(t.requires_grad for t in quiet)
    loud = at.transport(free, xi, eta, steps=2).tangent
    assert all(t.requires_grad for t in loud)
    assert gap(quiet, tuple(t.detach() for t in loud)) < 1e-14
    assert not any(t.requires_grad for t in at.transport(x, xi, eta, steps=2).tangent)


@pytest.mark.parametrize("metric", METRICS)
def test_float32_settles_at_its_own_resolution(metric) -> None:
    setting = Setting(f"gl_pair_{metric}")
    x = setting.point()
    xi, at = setting.horizontal(x), setting.geometry
    small, tangent = (tuple(t.float() for t in part) for part in (x, xi))
    end = at.exponential(small, tangent)
    assert {t.dtype for t in end} == {torch.float32}
    assert gap(tuple(t.double() for t in end), at.exponential(x, xi)) < 3e-5
    assert at.settled_steps(small, tangent, fewest=1) < at.settled_steps(x, xi, fewest=1)
    assert derived_flow.default_tolerance(torch.float64) == 1e-10
    for value in (at.project(small, tangent), at.transport(small, tangent, tangent, steps=2).tangent):
        assert {t.dtype for t in value} == {torch.float32}


def test_the_tolerance_decides_the_steps_and_steps_can_be_fixed() -> None:
    setting = Setting("gl_pair_mixed")
    x = setting.point()
    xi, at = setting.horizontal(x), setting.geometry
    loose, tight = (at.settled_steps(x, xi, tolerance=tolerance) for tolerance in (1e-4, 1e-10))
    assert loose < tight
    assert torch.equal(at.exponential(x, xi, steps=tight)[0], at.exponential(x, xi)[0])
    reference = at.exponential(x, xi, tolerance=1e-12)
    assert 1e-10 < gap(at.exponential(x, xi, steps=4), reference) < 1e-4
    assert gap(at.exponential(x, xi), reference) < 1e-10


def test_an_incomplete_geodesic_is_a_named_error() -> None:
    """Along -e e' in the balanced gauge the mixed pair runs straight into the singular set."""
    e = torch.eye(4, 2, dtype=torch.float64)
    x, at = (e, e), pair("mixed")
    last = torch.zeros_like(e)
    last[1, 1] = -1.0
    through = (2.5 * last, 2.5 * last)
    with pytest.raises((GeodesicCollapseError, GeodesicAccuracyError), match="gl_pair_mixed"):
        at.exponential(x, through)
    broken = pair("invariant", acceleration=lambda G, H, a, b: (1e8 * a * (a**2).sum(), 1e8 * b))
    with pytest.raises(GeodesicCollapseError, match="left the finite numbers"):
        broken.exponential(x, (e, e))
    jumpy = pair("invariant", acceleration=lambda G, H, a, b: (torch.sin(1e6 * G) * 1e3, 0 * b))
    with pytest.raises(GeodesicAccuracyError, match="relatively uncertain"):
        jumpy.exponential(x, (e, e))


# --- closed forms ---


@pytest.mark.parametrize("metric", METRICS)
def test_a_right_closed_form_is_attached_and_used(metric) -> None:
    at, calls = pair(metric), []

    def closed(*arguments):
        calls.append(arguments[0].shape)
        return by_hand(metric)(*arguments)

    attached = at.attach("by hand", closed)
    assert attached.residual < attached.tolerance < attached.control
    assert attached.draws >= 12
    assert {len(shape) for shape in calls} == {2, 3, 4}
    x = random_factors([(6, 2), (5, 2)])
    xi = at.project(x, scaled(0.1, random_tangent([(6, 2), (5, 2)])))
    calls.clear()
    assert gap(at.exponential(x, xi), by_hand(metric)(*x, *xi)) == 0.0
    assert len(calls) == 1
    assert gap(at.exponential(x, xi, tolerance=1e-10), by_hand(metric)(*x, *xi)) < 1e-9
    assert len(calls) == 1  # a tolerance asks for the integral
    assert "by hand" in repr(at)


def fifth_order_error(G, H, a, b):
    end = by_hand("invariant")(G, H, a, b)
    return plus(end, (a, b), 1e-4 * (a**2).sum() ** 2) if float(a.abs().max()) > 0.05 else end


WRONG = {
    "straight lines": lambda G, H, a, b: (G + a, H + b),
    "order 4": lambda G, H, a, b: generated("gl_pair_invariant").taylor_4(G, H, a, b),
    "another metric": by_hand("mixed"),
    "horizontal only": lambda G, H, a, b: by_hand("invariant")(
        G, H, *Derived(generated("gl_pair_invariant")).project((G, H), (a, b))
    ),
    "1 % off": lambda G, H, a, b: by_hand("invariant")(G, H, 1.01 * a, 1.01 * b),
    "far out only": fifth_order_error,
    "batch mixed up": lambda G, H, a, b: tuple(
        t.flip(0) if t.ndim > 2 else t for t in by_hand("invariant")(G, H, a, b)
    ),
    "NaN": lambda G, H, a, b: (G + torch.nan, H),
    "one factor": lambda G, H, a, b: by_hand("invariant")(G, H, a, b)[:1],
    "no batches": lambda G, H, a, b: tuple(t.reshape(t.shape[-2:]) for t in by_hand("invariant")(G, H, a, b)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_closed_form_is_refused_with_a_witness(wrong) -> None:
    at = pair("invariant")
    with pytest.raises(CertificateError, match=f"closed form '{wrong}'") as caught:
        at.attach(wrong, WRONG[wrong])
    assert "at sizes {" in str(caught.value)
    assert at.attached is None


def test_a_comparison_that_a_wrong_velocity_passes_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("quotientgeo.geometry.derived_closed._CONTROL", 1.0)
    at = pair("invariant")
    with pytest.raises(CertificateError, match="cannot be judged"):
        at.attach("by hand", by_hand("invariant"))
    assert at.attached is None


def test_a_geometry_that_is_singular_everywhere_cannot_judge() -> None:
    nowhere = pair("invariant", gradient=lambda G, H, a, b: (torch.nan * a, b))
    with pytest.raises(CertificateError, match="pass sizes"):
        nowhere.attach("by hand", by_hand("invariant"))


# --- arguments ---


def test_shapes_that_do_not_fit_are_refused() -> None:
    at = pair("invariant")
    G, H = random_factors([(5, 2), (4, 2)])
    for point, tangent, words in (
        ((G,), (G,), "got 1 tensors"),
        ((G, H[..., :1]), (G, H), "h = 2"),
        ((G, H), (H, G), "a tangent of shapes"),
        ((G[:, 0], H), (G, H), r"must have shape \(..., n, h\)"),
        ((G, H), (G.float(), H), "dtype and device"),
        ((G.expand(2, -1, -1), H), (G.expand(3, -1, -1), H), "do not broadcast"),
    ):
        with pytest.raises(ShapeError, match=words):
            at.inner(point, tangent)


def test_arguments_that_mean_nothing_are_refused() -> None:
    at = pair("invariant")
    x = random_factors([(5, 2), (4, 2)])
    for order in (0, 5, "fast", True):
        with pytest.raises(ArgumentError, match="geodesic must be one of"):
            at.exponential(x, x, order)
    for steps in (0, -1, 1.5, True):
        with pytest.raises(ArgumentError, match="steps"):
            at.exponential(x, x, steps=steps)
    with pytest.raises(ArgumentError, match="space"):
        at.transport(x, x, x, space="both")
    with pytest.raises(ShapeError, match="one list"):
        at.trajectory(x, x, [[1.0]])
    with pytest.raises(ArgumentError, match="neither a derived geometry"):
        Derived(torch)
    for name in ("horizontal", "christoffel"):
        short = with_fault(generated("gl_pair_invariant"))
        delattr(short, name)
        with pytest.raises(ArgumentError, match=f"it has no {name}"):
            Derived(short)
    short = with_fault(generated("gl_pair_invariant"))
    del short.taylor_4
    with pytest.raises(AbsentOperationError, match="taylor_4"):
        Derived(short).exponential(x, x, 4)


def test_what_derive_gives_is_asked_for_its_module() -> None:
    class Geometry:
        def module(self):
            return generated("gl_pair_mixed")

    assert Derived(Geometry()).name == "gl_pair_mixed"


def test_copies_and_pickles_are_the_same_geometry(monkeypatch) -> None:
    at = pair("mixed")
    assert copy.deepcopy(at) is at
    by_name = Derived(generated("gl_pair_mixed"))
    assert pickle.loads(pickle.dumps(by_name)).module is by_name.module
    text = Path(by_name.module.__file__).read_text()
    made = ModuleType("made_in_memory")
    exec(text, made.__dict__)
    monkeypatch.setitem(sys.modules, "made_in_memory", made)  # where a reader in another process does not find it
    with pytest.raises(pickle.PicklingError, match="made_in_memory"):
        pickle.dumps(Derived(made))
    made.__file__ = "<made_in_memory>"
    monkeypatch.setitem(
        linecache.cache, made.__file__, (len(text), None, text.splitlines(keepends=True), made.__file__)
    )
    stored = pickle.dumps(Derived(made))
    monkeypatch.delitem(sys.modules, "made_in_memory")
    again = pickle.loads(stored)
    x = random_factors([(5, 2), (4, 2)])
    assert torch.equal(again.inner(x, x), by_name.inner(x, x))
    assert pickle.loads(pickle.dumps(again)).name == "gl_pair_mixed"
