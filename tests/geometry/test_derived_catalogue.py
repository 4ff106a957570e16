"""Every property on every geometry of the catalogue; and each property fails on a module that is wrong in one place."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from quotientgeo.errors import QuotientgeoError
from quotientgeo.geometry.derived import Derived
from tests.geometry import derived_properties as properties
from tests.geometry.derived_settings import CATALOGUE, DEAR, REPRESENTATIVES, Setting, generated, with_fault

INTEGRATED = (
    properties.trajectories_commute_with_the_group,
    properties.energy_momentum_and_horizontality_are_conserved,
    properties.errors_fall_with_their_order,
    properties.quotient_transport_is_parallel,
    properties.the_covariant_derivative_of_what_is_transported_is_vertical,
    properties.total_transport_preserves_inner_products,
)
INVARIANT, MIXED = (generated(f"gl_pair_{metric}") for metric in ("invariant", "mixed"))


def test_the_catalogue_is_found() -> None:
    assert set(REPRESENTATIVES) <= set(CATALOGUE)
    kinds = {name: kinds_of(name) for name in CATALOGUE}
    assert {kind for name in REPRESENTATIVES for kind in kinds[name]} == {kind for k in kinds.values() for kind in k}


def kinds_of(name: str) -> set[str]:
    """Kinds of groups of a declaration."""
    declaration = import_module(f"quotientgeo.catalogue.{name}.declaration")
    return {type(group).__name__ for group in declaration.symmetry.groups}


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("holds", [p for p in properties.PROPERTIES if p not in INTEGRATED], ids=lambda p: p.__name__)
def test_the_property_holds(holds, name) -> None:
    holds(Setting(name))


@pytest.mark.parametrize("name", DEAR)
@pytest.mark.parametrize("holds", INTEGRATED, ids=lambda p: p.__name__)
def test_the_property_of_what_is_integrated_holds(holds, name) -> None:
    holds(Setting(name))


def one_factor_alone(function):
    """The second factor's result from the arguments of the first alone: what couples the factors is lost."""
    return lambda G, H, a, b: (function(G, H, a, torch.zeros_like(b))[0], function(G, H, torch.zeros_like(a), b)[1])


def invariant_symbol(G, H, a, b, c, d):
    return Derived(INVARIANT).christoffel((G, H), (a, b), (c, d))


# what is replaced in the mixed module, by what, and the property that must fail
FAULTS = [
    ("inner", INVARIANT.inner, properties.the_gradient_is_the_gradient),
    ("inner", lambda G, H, a, b, c, d: (a * c).sum((-2, -1)) + (b * d).sum((-2, -1)),
     properties.the_metric_is_an_invariant_inner_product),
    ("gradient", INVARIANT.gradient, properties.the_gradient_is_the_gradient),
    ("gradient", lambda G, H, a, b: (a, b), properties.the_gradient_is_the_gradient),
    ("momentum", INVARIANT.momentum, properties.momentum_pairs_tangents_with_the_algebra),
    ("momentum", lambda G, H, a, b: -MIXED.momentum(G, H, a, b), properties.momentum_pairs_tangents_with_the_algebra),
    ("horizontal", lambda G, H, a, b: (a, b), properties.the_projection_has_the_rank_of_the_quotient),
    ("horizontal", lambda G, H, a, b: (a, b), properties.the_projection_is_orthogonal_onto_the_horizontal_space),
    ("horizontal", lambda G, H, a, b: (a, 0 * b), properties.the_projection_is_orthogonal_onto_the_horizontal_space),
    ("acceleration", INVARIANT.acceleration, properties.christoffel_symbols_are_the_connection),
    ("acceleration", INVARIANT.acceleration, properties.energy_momentum_and_horizontality_are_conserved),
    ("acceleration", one_factor_alone(MIXED.acceleration), properties.energy_momentum_and_horizontality_are_conserved),
    ("acceleration", lambda G, H, a, b: (0 * a, 0 * b), properties.energy_momentum_and_horizontality_are_conserved),
    ("acceleration", lambda G, H, a, b: tuple(1.0001 * t for t in MIXED.acceleration(G, H, a, b)),
     properties.energy_momentum_and_horizontality_are_conserved),
    ("acceleration", lambda G, H, a, b: tuple(t + 0.01 * s.norm() ** 2 * s for t, s in zip(
        MIXED.acceleration(G, H, a, b), (a, b), strict=True)), properties.trajectories_commute_with_the_group),
    *((f"taylor_{k}", getattr(MIXED, f"taylor_{k - 1}"), properties.errors_fall_with_their_order) for k in (2, 3, 4)),
    ("taylor_1", MIXED.taylor_2, properties.errors_fall_with_their_order),
    ("taylor_3", lambda G, H, a, b: (G + a + 0.1 * a.norm() * a, H + b), properties.trajectories_commute_with_the_group),
    ("christoffel", invariant_symbol,
     properties.christoffel_symbols_are_the_connection),
    ("christoffel", lambda G, H, a, b, c, d: (0 * a, 0 * b), properties.total_transport_preserves_inner_products),
    ("christoffel", lambda G, H, a, b, c, d: (0 * a, 0 * b), properties.quotient_transport_is_parallel),
    ("horizontal", lambda G, H, a, b: (a, b), properties.quotient_transport_is_parallel),
    ("christoffel", invariant_symbol, properties.the_covariant_derivative_of_what_is_transported_is_vertical),
    ("acceleration", lambda G, H, a, b: tuple(t + 1e-6 * G.sum() * s for t, s in zip(
        MIXED.acceleration(G, H, a, b), (a, b), strict=True)), properties.a_batch_is_its_members),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f[0]}-{f[2].__name__}")
def test_a_fault_is_noticed(fault) -> None:
    function, wrong, holds = fault
    setting = Setting("gl_pair_mixed", module=with_fault(MIXED, **{function: wrong}))
    assert setting.geometry.name == "gl_pair_mixed"  # a module that is refused would show nothing
    with pytest.raises((AssertionError, QuotientgeoError)):
        holds(setting)


def test_every_property_has_a_fault() -> None:
    assert {fault[2] for fault in FAULTS} == set(properties.PROPERTIES)
