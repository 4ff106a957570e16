"""Each property fails on a manifold that is wrong in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from quotientgeo.errors import QuotientgeoError
from quotientgeo.geometry.moving import MovingPair
from quotientgeo.manifolds import GLPair
from tests.manifolds import properties
from tests.manifolds.cases import Case

INVARIANT = Case(batch=(2,))
MIXED = replace(INVARIANT, metric="mixed")
_REAL = {name: getattr(GLPair, name) for name in ("inner", "proju", "expmap", "egrad2rgrad")}
_REAL_AT = MovingPair.at.__func__


def frobenius(self, x, u, v=None, *, keepdim=False):
    return (u * (u if v is None else v)).sum((-2, -1), keepdim=keepdim)


def half_of_the_vertical_part(self, x, u):
    return (u + _REAL["proju"](self, x, u)) / 2


def of_one_factor_only(self, x, u):
    part = torch.cat([u[..., : self.n, :], torch.zeros_like(u[..., self.n :, :])], -2)
    return _REAL["proju"](self, x, part)


def euclidean_projection(self, x, u):
    """Orthogonal to the orbit in the Frobenius product."""
    basis = torch.eye(x.shape[-1] ** 2, dtype=x.dtype).unflatten(-1, (x.shape[-1],) * 2)
    G, H = (t[..., None, :, :] for t in self.unpack_tensor(x))
    along = torch.cat([-G @ basis, H @ basis.mT], -2).flatten(-2).mT
    rest = u.flatten(-2)[..., None]
    return (rest - along @ torch.linalg.lstsq(along, rest).solution).squeeze(-1).reshape(u.shape)


def with_the_other_metric(cls, G, H, metric, geodesic="exact"):
    return _REAL_AT(cls, G, H, {"invariant": "mixed", "mixed": "invariant"}[metric], geodesic)


def one_order_less(cls, G, H, metric, geodesic="exact"):
    return _REAL_AT(cls, G, H, metric, {"exact": 4}.get(geodesic, geodesic - 1 if geodesic != "exact" else 4))


# where, what is put in its place, the property that must fail, the case
FAULTS: list[tuple[tuple[type, str], Callable[..., Any], Callable[[Case], None], Case]] = [
    ((GLPair, "inner"), frobenius, properties.inner_is_the_metric, INVARIANT),
    (
        (GLPair, "inner"),
        lambda self, x, u, v=None, *, keepdim=False: _REAL["inner"](self, x, u, v),
        properties.inner_is_the_metric,
        INVARIANT,
    ),
    (
        (GLPair, "inner"),
        lambda self, x, u, v=None, *, keepdim=False: 1.001 * _REAL["inner"](self, x, u, v, keepdim=keepdim),
        properties.inner_is_the_metric,
        MIXED,
    ),
    ((GLPair, "norm"), GLPair.inner, properties.inner_is_the_metric, MIXED),
    ((GLPair, "proju"), lambda self, x, u: u, properties.projection_has_the_rank_of_the_quotient, INVARIANT),
    (
        (GLPair, "proju"),
        lambda self, x, u: u,
        properties.projection_is_orthogonal_onto_the_horizontal_space,
        INVARIANT,
    ),
    (
        (GLPair, "proju"),
        half_of_the_vertical_part,
        properties.projection_is_orthogonal_onto_the_horizontal_space,
        INVARIANT,
    ),
    (
        (GLPair, "proju"),
        of_one_factor_only,
        properties.projection_is_orthogonal_onto_the_horizontal_space,
        MIXED,
    ),
    ((GLPair, "proju"), of_one_factor_only, properties.projection_has_the_rank_of_the_quotient, MIXED),
    (
        (GLPair, "proju"),
        euclidean_projection,
        properties.projection_is_orthogonal_onto_the_horizontal_space,
        INVARIANT,
    ),
    (
        (MovingPair, "at"),
        classmethod(with_the_other_metric),
        properties.projection_is_orthogonal_onto_the_horizontal_space,
        INVARIANT,
    ),
    ((GLPair, "proju"), lambda self, x, u: u, properties.the_point_and_its_tangents_pass_the_checks, MIXED),
    (
        (GLPair, "_check_vector_on_tangent"),
        lambda self, x, u, *, atol, rtol: (True, None),
        properties.the_point_and_its_tangents_pass_the_checks,
        MIXED,
    ),
    ((GLPair, "expmap"), lambda self, x, u: x + u, properties.the_geodesic_has_its_declared_order, INVARIANT),
    ((GLPair, "expmap"), lambda self, x, u: x + u, properties.the_geodesic_has_its_declared_order, MIXED),
    *(
        (
            (MovingPair, "at"),
            classmethod(one_order_less),
            properties.the_geodesic_has_its_declared_order,
            replace(case, geodesic=geodesic, dtype=dtype),
        )
        for case in (INVARIANT, MIXED)
        for geodesic in ("exact", 2, 3, 4)
        for dtype in (torch.float64, torch.float32)
    ),
    (
        (GLPair, "expmap"),
        lambda self, x, u: _REAL["expmap"](self, x, u / (1 + frobenius(self, x, u, keepdim=True))),
        properties.geodesics_commute_with_the_group,
        INVARIANT,
    ),
    ((GLPair, "expmap"), lambda self, x, u: x.clone(), properties.geodesics_commute_with_the_group, INVARIANT),
    (
        (MovingPair, "gradient"),
        lambda self, dG, dH: (dG.double(), dH.double()),
        properties.the_gradient_is_the_gradient,
        INVARIANT,
    ),
    (
        (MovingPair, "at"),
        classmethod(with_the_other_metric),
        properties.the_gradient_is_the_gradient,
        MIXED,
    ),
    (
        (GLPair, "egrad2rgrad"),
        lambda self, x, u: torch.cat(self._at(x).gradient(*self.unpack_tensor(u)), -2),
        properties.the_gradient_of_any_function_is_horizontal,
        INVARIANT,
    ),
    (
        (GLPair, "egrad2rgrad"),
        _REAL["proju"],
        properties.the_gradient_of_any_function_is_horizontal,
        MIXED,
    ),
    (
        (GLPair, "transp"),
        lambda self, x, y, v: v,
        properties.transport_is_horizontal_linear_and_equivariant,
        INVARIANT,
    ),
    (
        (GLPair, "transp"),
        lambda self, x, y, v: self.proju(y, v) * (self.norm(x, v, keepdim=True) / self.norm(y, v, keepdim=True)),
        properties.transport_is_horizontal_linear_and_equivariant,
        INVARIANT,
    ),
    (
        (GLPair, "transp"),
        lambda self, x, y, v: self.proju(y, v + frobenius(self, x, v, y, keepdim=True) * y),
        properties.transport_is_horizontal_linear_and_equivariant,
        INVARIANT,
    ),
    (
        (GLPair, "expmap"),
        lambda self, x, u: _REAL["expmap"](self, x, u - 0.1 * u.mean(0, keepdim=True) if u.ndim > 2 else u),
        properties.a_batch_is_its_members,
        INVARIANT,
    ),
    (
        (GLPair, "expmap"),
        lambda self, x, u: _REAL["expmap"](self, x, u) * (1 + 1e-6 * (x.dtype == torch.float32)),
        properties.float32_is_float64_rounded,
        replace(INVARIANT, dtype=torch.float32),
    ),
    (
        (GLPair, "proju"),
        lambda self, x, u: _REAL["proju"](self, x, u).double(),
        properties.float32_is_float64_rounded,
        replace(INVARIANT, dtype=torch.float32),
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f[0][1]}-{f[2].__name__}-{f[3]}")
def test_a_fault_is_noticed(fault, monkeypatch) -> None:
    (owner, name), wrong, property_of, case = fault
    property_of(case)
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((AssertionError, RuntimeError, QuotientgeoError)):
        property_of(case)


def test_every_property_has_a_fault() -> None:
    assert {fault[2] for fault in FAULTS} == set(properties.PROPERTIES)
