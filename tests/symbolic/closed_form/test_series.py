"""Geodesics whose time derivatives end: against coordinates in which they are straight lines, and with wrong derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import pytest
import torch
from sympy import Trace
from torch import Tensor

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, CertificateError, NotDerivableError
from quotientgeo.groups import PositiveDiagonal, Translation
from quotientgeo.symbolic.closed_form import check_text, closed_form
from quotientgeo.symbolic.closed_form.record import Ending
from quotientgeo.symbolic.closed_form.series import divides, prove_series, series
from quotientgeo.symbolic.codegen.execution import module_from
from quotientgeo.symbolic.codegen.module import module_source
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry
from quotientgeo.symbolic.derivation.pipeline import derive_formulas
from tests.symbolic.closed_form import cases

SIZES = {"n": 2, "h": 3, "d": 4}
Values = dict[str, Tensor]


@dataclasses.dataclass(frozen=True)
class Bent:
    """A flat metric in bent coordinates: c + bend(others) moves on a straight line, and so do all the others.

    differential: of bend, for SymPy, at a point along a tangent.
    """

    factors: dict[str, tuple[str | int, str | int]]
    differential: Callable[[Any, Any], Any]
    bend: Callable[[Values], Tensor]
    degree: int  # of the geodesic in t


BENT = {
    "product": Bent(
        {"W": ("n", "h"), "b": ("h", 1), "c": ("n", 1)},
        lambda p, a: a.W * p.b + p.W * a.b,
        lambda x: x["W"] @ x["b"],
        2,
    ),
    "three": Bent(
        {"W": ("n", "h"), "V": ("h", "d"), "b": ("d", 1), "c": ("n", 1)},
        lambda p, a: a.W * p.V * p.b + p.W * a.V * p.b + p.W * p.V * a.b,
        lambda x: x["W"] @ x["V"] @ x["b"],
        3,
    ),
}


@cache
def geometry(name: str, gated: bool = False) -> Geometry:
    """The bent coordinates beside z, which a translation moves; ``gated``: diagonal matrices occur."""
    case = BENT[name]
    shapes = {**case.factors, "z": ("q", 1)}
    symmetry = Symmetry(
        "bent",
        group=Translation("q"),
        factors=shapes,
        action=lambda t, *x: (*x[:-1], x[-1] + t),
        preserves=lambda *x: x[-1] * x[0] if gated else x[0],
        inputs={"D": PositiveDiagonal("n")} if gated else {},
    )

    def inner(p: Any, a: Any, b: Any) -> Any:
        straight = sum(Trace(a[f].T * b[f]) for f in shapes if f != "c")
        return straight + Trace((a.c + case.differential(p, a)).T * (b.c + case.differential(p, b)))

    return derive_formulas(symmetry, Metric("flat", symmetry, inner))


@pytest.mark.parametrize("name", BENT)
def test_the_geodesic_is_a_straight_line_in_flat_coordinates(name: str) -> None:
    case, found = BENT[name], closed_form(geometry(name), "digest")
    assert isinstance(found, Ending)
    assert found.series.degree == case.degree
    assert found.claim.status == "proven for all sizes"
    assert found.domain == "all t"
    module = module_from(found.source("a test"), f"closed_form_{name}")
    generator = torch.Generator().manual_seed(0)
    shapes = [tuple((SIZES | {"q": 2}).get(str(s), s) for s in shape) for shape in geometry(name).factors.values()]
    x, xi = ([torch.randn(*s, dtype=torch.float64, generator=generator) for s in shapes] for _ in range(2))
    names = list(geometry(name).factors)
    for t in (1.0, -0.7, 30.0):  # not only short ones
        ends = dict(zip(names, module.exponential(*x, *(t * v for v in xi)), strict=True))
        start, velocity = dict(zip(names, x, strict=True)), dict(zip(names, xi, strict=True))
        moved = {f: start[f] + t * velocity[f] for f in names}
        slope = torch.func.jvp(case.bend, (start,), (velocity,))[1]
        moved["c"] = moved["c"] + case.bend(start) + t * slope - case.bend(moved)
        for f in names:
            assert float((ends[f] - moved[f]).abs().max()) < 1e-10 * max(1.0, abs(t) ** case.degree), (f, t)


@pytest.mark.parametrize("name", cases.ENDING)
def test_entries_of_the_catalogue_whose_derivatives_end(name: str) -> None:
    found = closed_form(cases.geometry(name), "")
    assert isinstance(found, Ending)
    assert found.formulas == ["W(t) = W + t xi_W", "b(t) = b + t xi_b", "c(t) = c + t xi_c - t^2 xi_W xi_b"]
    assert found.steps == ["time derivative 3 is 0, so the geodesic is its Taylor polynomial of order 2"]
    assert found.source("x") == found.source("x")


def wrong(right: Geometry, order: int, factor: str, change: Callable[[Any], Any]) -> Geometry:
    """One formula of one time derivative changed."""
    formula = right.derivatives[order][factor]
    changed = dataclasses.replace(formula, polynomial=change(formula.polynomial))
    return dataclasses.replace(
        right, derivatives={**right.derivatives, order: {**right.derivatives[order], factor: changed}}
    )


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("change", [lambda x: x * 2, lambda x: -x, lambda x: x * 0], ids=["twice", "minus", "zero"])
def test_a_wrong_derivative_before_the_last_is_refused(order: int, change: Callable[[Any], Any]) -> None:
    right = geometry("three")
    with pytest.raises(CertificateError, match=f"time derivative {order} of the geodesic is the differential"):
        closed_form(wrong(right, order, "c", change), "")


@pytest.mark.parametrize("name", ["norm_gain_invariant", "gl_pair_invariant", "neuron_rescaling_mixed"])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_derivative_that_is_wrongly_zero_is_refused(name: str, order: int) -> None:
    changed = right = cases.geometry(name)
    for factor in right.factors:
        changed = wrong(changed, order, factor, lambda x: x * 0)
    with pytest.raises(CertificateError, match=f"time derivative {order} of the geodesic is the differential"):
        prove_series(changed, series(changed))


def test_a_wrong_acceleration_is_refused() -> None:
    right = geometry("product")
    zero = dataclasses.replace(right.acceleration["c"], polynomial=right.acceleration["c"].polynomial * 0)
    changed = wrong(right, 2, "c", lambda x: x * 0)
    changed = dataclasses.replace(changed, acceleration={**right.acceleration, "c": zero})
    with pytest.raises(CertificateError, match="Euler-Lagrange"):
        prove_series(changed, series(changed))


def test_an_alphabet_with_diagonal_matrices_has_the_same() -> None:
    gated = geometry("product", gated=True)
    assert gated.alphabet.special
    found, plain = closed_form(gated, ""), closed_form(geometry("product"), "")
    assert found is not None
    assert plain is not None
    assert found.formulas == plain.formulas
    with pytest.raises(CertificateError, match="is the differential"):
        closed_form(wrong(gated, 2, "c", lambda x: x * 2), "")


def test_wrong_coefficients_are_refused() -> None:
    right = geometry("three")
    found = series(right)
    x, xi, second, third = found.coefficients["c"]
    for other in ((x, xi, second, third * 2), (x, xi, second * 2, third), (x, xi * 2, second, third), (x, xi, second)):
        changed = dataclasses.replace(found, coefficients={**found.coefficients, "c": other})
        with pytest.raises(CertificateError, match="of c is not the Taylor polynomial"):
            prove_series(right, changed)
    shorter = dataclasses.replace(found, order=3, coefficients={f: x[:3] for f, x in found.coefficients.items()})
    with pytest.raises(CertificateError, match="time derivative 3 of c is"):
        prove_series(right, shorter)


@pytest.mark.parametrize("name", ["gl_pair_damped", "gl_pair_mixed", "gl_pair_invariant"])
def test_derivatives_that_do_not_end_or_are_no_formulas_give_no_series(name: str) -> None:
    with pytest.raises(
        NotDerivableError, match=r"no time derivative up to 4 is zero|no formulas in point and velocity"
    ):
        series(cases.geometry(name))


def test_where_something_is_divided_by_the_domain_says_so() -> None:
    assert not divides(geometry("three"))
    assert divides(cases.geometry("normalised_weight_invariant"))
    assert divides(cases.geometry("gl_pair_invariant"))


# --- the text ---


def pieces() -> tuple[ModuleType, str]:
    found = closed_form(geometry("product"), "digest")
    assert found is not None
    return module_from(module_source(geometry("product"), "a test"), "generated"), found.source("a test")


def test_a_wrong_text_is_a_defect_that_is_named_with_a_way_out() -> None:
    generated, text = pieces()
    check_text("bent_flat", module_from(text, "closed"), generated)
    changed = text.replace("c + xi_c - xi_W", "c + xi_c + xi_W")
    assert changed != text
    with pytest.raises(
        CertificateError, match=r"closed form of c ends at .* defect of this package.*closed_form=False"
    ):
        check_text("bent_flat", module_from(changed, "closed"), generated)


def test_tangents_along_which_no_integral_settles_are_shortened_and_no_further() -> None:
    generated, text = pieces()
    closed = module_from(text, "closed")

    def hostile(limit: float) -> ModuleType:
        """No number where a velocity is longer."""
        copy = ModuleType("generated")
        copy.__dict__.update(generated.__dict__)

        def acceleration(*state: Tensor) -> tuple[Tensor, ...]:
            long = max(float(x.abs().max()) for x in state[len(state) // 2 :]) > limit
            return tuple(x * float("nan") if long else x for x in generated.acceleration(*state))

        copy.acceleration = acceleration  # type: ignore[attr-defined]
        return copy

    check_text("bent_flat", closed, hostile(0.3))
    with pytest.raises(CertificateError, match="cannot be judged: no integral"):
        check_text("bent_flat", closed, hostile(1e-4))


def test_generate_writes_the_rest_where_a_closed_form_is_not_wanted(tmp_path: Any, monkeypatch: Any) -> None:
    derived = qg.derive(geometry("product").symmetry, geometry("product").metric)

    def refuse(*_: Any) -> None:
        raise CertificateError("the text is wrong")

    monkeypatch.setattr("quotientgeo.symbolic.closed_form.check_text", refuse)
    with pytest.raises(CertificateError, match="the text is wrong"):
        qg.generate(derived, tmp_path / "with")
    assert not (tmp_path / "with").exists()
    qg.generate(derived, tmp_path / "without", closed_form=False)
    assert {p.name for p in (tmp_path / "without").iterdir()} == {"generated.py", "certificate.json", "derivation.md"}
    assert "closed_form" not in (tmp_path / "without" / "certificate.json").read_text()
    with pytest.raises(ArgumentError, match="closed_form must be True or False"):
        qg.generate(derived, tmp_path / "without", closed_form="no")  # type: ignore[arg-type]
