"""The example of a symmetry of one's own, from declaration to orbit table; and what happens to a false one."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import torch

import quotientgeo as qg
from quotientgeo.errors import BlockError, CertificateError, SymmetryError

EXAMPLE = Path(__file__).parents[2] / "examples" / "bilinear_layer.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return run_path(str(EXAMPLE), run_name="example")


@pytest.fixture(scope="module")
def geometry(example: dict[str, Any]) -> Any:
    symmetry = example["symmetry"]
    return qg.derive(symmetry, qg.Metric("weighted", symmetry, example["inner"]))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return x, (x[:, 0] > 0).long()


def test_it_runs_and_only_the_geodesic_value_is_constant(example, capsys):
    rows = example["main"]()
    assert "claims hold" in capsys.readouterr().out
    (_, geodesic, euclidean), *moved = rows
    assert len(moved) == 2
    for _, value, control in moved:
        assert value == pytest.approx(geodesic, rel=1e-9)
        assert abs(control / euclidean - 1) > 0.1
    assert len(EXAMPLE.read_text().splitlines()) < 80


def test_a_false_symmetry_is_refused(example, geometry):
    model = example["Net"]().double().eval()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    # a skip around the first factor: what the layers compute is no function of G W H' any more
    forward = model.forward
    model.forward = lambda x: forward(x) + model.left(x[:, :3]).sum(-1, keepdim=True)
    with pytest.raises(SymmetryError, match=r"hidden: .*under a random element of its group"):
        qg.sharpness(model, example["loss"], [batch()], graph=example["graph_of"](model, geometry))
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_a_transposed_leg_does_not_fit(example, geometry):
    model = example["Net"]().double().eval()
    legs = {"G": qg.Leg("left.weight", axis=1), "W": qg.Leg("core.weight", axis=0), "H": qg.Leg("right.weight", axis=0)}
    with pytest.raises(BlockError, match=r"factor W: h = 2 by the rows of factor W \(legs 'core.weight'\), but h = 3"):
        qg.SymmetryGraph(model).add(qg.DeclaredBlock("hidden", geometry, legs))


def test_a_metric_that_is_not_invariant_gets_no_block(example):
    from sympy import Trace

    symmetry = example["symmetry"]
    flat = lambda p, a, b: Trace(a.G.T * b.G) + Trace(a.W.T * b.W) + Trace(a.H.T * b.H)  # noqa: E731
    false = qg.derive(symmetry, qg.Metric("flat", symmetry, flat))
    with pytest.raises(CertificateError, match=r"block 'hidden': .*(?s:.*)witness"):
        example["graph_of"](example["Net"](), false)


def test_all_orders_are_constant_on_the_orbit(example, geometry):
    model = example["Net"]().double().eval()
    graph_of = example["graph_of"]
    state = graph_of(model, geometry).move(seed=3, condition=100.0)
    point = example["Net"]().double().eval()
    point.load_state_dict(state)
    values = {}
    for order in ("exact", 1, 2, 3, 4):
        both = [
            qg.sharpness(m, example["loss"], [batch()], graph=graph_of(m, geometry), geodesic=order, rho=0.2, starts=2)
            for m in (model, point)
        ]
        assert both[1].value == pytest.approx(both[0].value, rel=1e-9)
        values[order] = both[0].value
    errors = [abs(values[k] / values["exact"] - 1) for k in (1, 2, 4)]
    assert errors[0] > errors[1] > errors[2]
