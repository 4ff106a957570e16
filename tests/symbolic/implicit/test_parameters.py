"""Metrics with parameters, from the generated module to manifold and block."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import geoopt
import pytest
import torch

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, BlockError, CertificateError
from quotientgeo.geometry.derived import Derived
from quotientgeo.model.blocks import DeclaredBlock
from quotientgeo.model.geometries import module_of
from quotientgeo.parameters import AtParameters, bound_module
from quotientgeo.symbolic.derivation import derive_formulas
from tests.symbolic.implicit.declarations import FAMILY, METRICS, geometry
from tests.symbolic.implicit.oracles import EPS, close_to, drawn

VALUES = {"eps": EPS}


@pytest.fixture(params=["weighted", "family"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_parameters_come_last_in_all_but_the_action_and_the_orbit(name: str) -> None:
    module = geometry(name).module()
    assert module.PARAMETERS == ("eps",)
    functions = {x: f for x, f in vars(module).items() if inspect.isfunction(f) and not x.startswith("_")}
    assert {"inner", "gradient", "momentum", "horizontal", "christoffel", "taylor_1", "taylor_4"} <= set(functions)
    for function_name, function in functions.items():
        last = list(inspect.signature(function).parameters)[-1]
        assert (last == "eps") is (function_name not in ("action", "vertical")), function_name


def test_a_module_at_values_computes_the_same(name: str) -> None:
    module = geometry(name).module()
    bound = bound_module(module, VALUES)
    assert bound is bound_module(module, VALUES)
    assert bound is not bound_module(module, {"eps": 0.5})
    p, xi = drawn(module, name, (2,), (2,))
    eps = torch.full((1, 1), EPS, dtype=torch.float64)
    for function in ("acceleration", "taylor_4", "horizontal"):
        found = getattr(bound, function)(*p, *xi)
        assert close_to(found, getattr(module, function)(*p, *xi, eps))
        if (
            function != "horizontal" or name != "weighted"
        ):  # there xi is horizontal where G' xi is symmetric, for every eps
            assert not close_to(found, getattr(module, function)(*p, *xi, 1.1 * eps), 1e-6)


def test_derived_geometry_integrates_projects_and_survives_a_pickle(name: str) -> None:
    derived = Derived(geometry(name), VALUES)
    p, xi = drawn(derived.module, name, (2,), (2,))
    horizontal = derived.project(p, xi)
    small = tuple(0.1 * x for x in horizontal)
    end, speed = derived.velocity(p, small)
    assert all(float(j.abs().max()) < 1e-9 for j in derived.momentum(end, speed))
    assert torch.allclose(derived.inner(end, speed), derived.inner(p, small), rtol=1e-9)
    moved = derived.transport(p, small, horizontal)
    assert torch.allclose(derived.inner(moved.point, moved.tangent), derived.inner(p, horizontal), rtol=1e-8)
    again = pickle.loads(pickle.dumps(derived))
    assert close_to(again.acceleration(p, xi), derived.acceleration(p, xi))


def test_a_manifold_runs_at_values(name: str) -> None:
    sizes = {"turned": {"n": 5}, "weighted": {"n": 5}, "family": {"n": 5, "m": 4}}[name]
    manifold = qg.QuotientManifold(geometry(name), sizes=sizes, geodesic=2, parameters=VALUES)
    rng = torch.Generator().manual_seed(0)
    total = sum(sizes.values())
    wanted, start = (manifold.random(total, 2, dtype=torch.float64, generator=rng) for _ in range(2))

    def product(x: torch.Tensor) -> torch.Tensor:
        G, *rest = manifold.unpack_tensor(x)
        return G @ (rest[0] if rest else G).mT

    point = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
    optimizer = geoopt.optim.RiemannianSGD([point], lr=0.05)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (product(point) - product(wanted)).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0]


def test_values_are_asked_for_and_checked(name: str) -> None:
    given = geometry(name)
    with pytest.raises(ArgumentError, match=r"has the parameters eps, got none: give parameters=\{'eps': 0.1\}"):
        Derived(given)
    with pytest.raises(ArgumentError, match="has the parameters eps, got"):
        Derived(given, {"epsilon": 0.1})
    for wrong in (0.0, -1.0, float("nan"), True, "0.1"):
        with pytest.raises(ArgumentError, match="the parameter eps must be a positive number"):
            Derived(given, {"eps": wrong})  # type: ignore[dict-item]
    with pytest.raises(ArgumentError, match="no parameters"):
        Derived(geometry("turned"), VALUES)
    with pytest.raises(ArgumentError, match="has the values of its parameters already"):
        qg.QuotientManifold(Derived(given, VALUES), sizes={"n": 5, "m": 4}, parameters=VALUES)


def test_a_block_is_declared_at_values(name: str) -> None:
    legs: dict[str, Any] = {f: qg.Leg(f"{f}.weight") for f in geometry(name).factors}
    block = DeclaredBlock("own", geometry(name), legs, parameters=VALUES)
    assert block.geometry.name == f"{geometry(name).name}(eps=0.3)"
    assert module_of(block.geometry) is bound_module(geometry(name).module(), VALUES)
    again = block.with_legs(lambda leg: leg)
    assert module_of(again.geometry) is module_of(block.geometry)
    assert isinstance(geometry(name).at(eps=EPS), AtParameters)
    assert DeclaredBlock("own", geometry(name).at(eps=EPS), legs).geometry.name == block.geometry.name
    with pytest.raises(BlockError, match=r"has parameters without a value: take geometry.at\(eps=0.1\)"):
        DeclaredBlock("own", geometry(name), legs)
    with pytest.raises(BlockError, match="must be a positive number"):
        DeclaredBlock("own", geometry(name), legs, parameters={"eps": -1.0})


def test_values_do_not_replace_a_certificate() -> None:
    with pytest.raises(CertificateError, match="no certificate"):
        derive_formulas(METRICS["weighted"].symmetry, METRICS["weighted"]).at(eps=0.1)


def test_long_time_derivatives_are_staged() -> None:
    found = geometry("family")
    assert found.equations is None
    assert FAMILY.parameters == ("eps",)
    assert set(found.derivatives) == {2, 3, 4}
    assert set(found.derivatives[4]["G"].arguments) >= {found.rates[2]["G"], found.rates[3]["H"], "eps"}
    words = [len(found.derivatives[k]["G"].polynomial) for k in (3, 4)]
    assert max(words) < 400
    assert all(claim.status == "proven for all sizes" for claim in found.certificate)
