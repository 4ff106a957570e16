"""``sharpness`` with a geometry of the catalogue moves by its closed form, and by Runge-Kutta to the same value."""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import quotientgeo as qg
import quotientgeo.catalogue
from quotientgeo.measures import declared
from tests.measures.test_diagonal_networks import DiagonalNetwork, squared_error
from tests.oracle.diagonal import SETS, networks


@cache
def geometry(metric: str) -> Any:
    path = Path(quotientgeo.catalogue.__file__).parent / f"diagonal_network_{metric}" / "declaration.py"
    spec = importlib.util.spec_from_file_location(f"_measured_{metric}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return qg.derive(module.symmetry, module.metric)


def measured(metric: str, rho: float, **options: Any) -> Any:
    nets = networks(SETS[0])
    model = DiagonalNetwork(nets.u[0], nets.v[0]).eval()
    graph = qg.symmetry_graph(model, symmetries="none")
    graph.add(qg.DeclaredBlock("weights", geometry(metric), {"u": qg.Leg("u"), "v": qg.Leg("v")}))
    batch = (torch.tensor(nets.X), torch.tensor(nets.y))
    return qg.sharpness(model, squared_error, [batch], rho=rho, graph=graph, metric=geometry(metric), **options)


def smallest() -> float:
    """Least |u v| of a coordinate."""
    return float(abs(networks(SETS[0]).beta[0]).min())


@pytest.mark.parametrize(("metric", "fraction"), [("invariant", None), ("mixed", 0.5)])
def test_closed_form_and_integral_give_one_value(
    monkeypatch: pytest.MonkeyPatch, metric: str, fraction: float | None
) -> None:
    rho = 0.05 if fraction is None else fraction * smallest() / math.sqrt(2)
    closed = measured(metric, rho, steps=20)
    calls: list[int] = []
    plain = declared.Derived

    def without(geometry: Any) -> Any:
        calls.append(1)
        derived = plain(geometry)
        assert derived.attached is not None
        derived.attached = None
        return derived

    monkeypatch.setattr(declared, "Derived", without)
    integrated = measured(metric, rho, steps=20)
    assert calls
    assert closed.outcome == integrated.outcome == "ok"
    assert closed.value == pytest.approx(integrated.value, rel=1e-7)


def test_a_mixed_ball_that_leaves_the_domain_is_named() -> None:
    found = measured("mixed", 0.01, steps=5)
    assert found.outcome == "geodesic_collapsed"
    assert math.isnan(found.value)
    assert "apex" in str(found) or "apex" in repr(found.__dict__)
