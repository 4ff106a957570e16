"""The distance of two models: on one orbit, near, far, of other structure, and where rank is lost."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, NonFiniteError, UnknownArchitectureError
from tests.helpers.models import hugging_face, tiny

METRICS = ("invariant", "mixed")


def bert(seed: int = 0) -> nn.Module:
    return hugging_face("BertForMaskedLM", seed).double()


def loaded(model: nn.Module, state: dict[str, Any]) -> nn.Module:
    other = copy.deepcopy(model)
    other.load_state_dict(state)
    return other


def shaken(model: nn.Module, size: float, seed: int = 0) -> nn.Module:
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in other.parameters():
            p += size * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    return other


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize(("condition", "rounding"), [(10.0, 1e-12), (1000.0, 1e-11)])
@pytest.mark.parametrize("metric", METRICS)
def test_a_model_and_its_orbit_are_one_point(metric: str, condition: float, rounding: float) -> None:
    model = bert()
    before = snapshot(model)
    other = loaded(model, qg.symmetry_graph(model).move(seed=1, condition=condition, translations=1.0))
    found = qg.distance(model, other, metric=metric)
    assert found.upper < rounding
    assert found.lower <= found.upper
    assert found.rest < rounding
    assert found.converged
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert (
        max(float((p - q).detach().abs().max()) for p, q in zip(model.parameters(), other.parameters(), strict=True))
        > 0.1
    )


@pytest.mark.parametrize("metric", METRICS)
def test_bounds_symmetry_and_invariance_of_near_models(metric: str) -> None:
    model = bert()
    near = shaken(model, 0.02)
    found, back = qg.distance(model, near, metric), qg.distance(near, model, metric)
    assert found.converged
    assert 0.2 < found.lower < found.upper < 1.6
    assert abs(found.upper - back.upper) < 1e-8
    elsewhere = loaded(near, qg.symmetry_graph(near).move(seed=3, condition=10.0, translations=1.0))
    moved = qg.distance(model, elsewhere, metric)
    assert abs(found.upper - moved.upper) < 1e-8
    assert abs(found.lower - moved.lower) < 1e-11
    assert abs(found.rest - moved.rest) < 1e-11
    assert found.upper == pytest.approx(math.sqrt(sum(b.upper**2 for b in found.per_block.values())), rel=1e-14)
    assert set(found.per_block) == {block.name for block in qg.symmetry_graph(model).blocks}


def test_the_rest_is_what_no_block_covers() -> None:
    model = bert()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.bert.encoder.layer[0].intermediate.dense.bias[0] += 3.0
        other.bert.encoder.layer[1].output.dense.weight[0, 0] += 4.0
        other.bert.encoder.layer[0].attention.self.key.bias += 7.0  # has no effect
    found = qg.distance(model, other)
    assert found.upper < 1e-12
    assert abs(found.rest - 5.0) < 1e-12
    raw = qg.distance(model, other, symmetries="paper")  # there the key bias is a row
    assert raw.upper > 0.1
    none = qg.distance(model, other, symmetries="none")
    assert (none.upper, none.per_block) == (0.0, {})
    assert abs(none.rest - math.sqrt(25.0 + 16 * 49.0)) < 1e-12


def test_one_block_that_moves_is_the_distance() -> None:
    """A scaling of one query: G -> 1.1 G moves s by 1.1 in every direction: sqrt(h / 2) log 1.1, its own lower bound."""
    model = tiny(biases="", layers=1).double()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.layers[0].q_proj.weight[:4] *= 1.1
    graph = qg.SymmetryGraph(model)
    for head in range(2):
        at = range(4 * head, 4 * head + 4)
        legs = [(qg.Leg(f"layers.0.{name}_proj.weight", indices=at),) for name in ("q", "k")]
        graph.add(qg.PairBlock(f"head{head}.qk", qg.GL(4), G=legs[0], H=legs[1]))
    found = qg.distance(model, other, graph=graph)
    assert (found.rest, found.symmetries) == (0.0, "those of the given graph")
    wanted = math.sqrt(4 / 2) * math.log(1.1)
    assert abs(found.upper - wanted) < 1e-9
    assert abs(found.lower - wanted) < 1e-12
    moving = [name for name, block in found.per_block.items() if block.upper > 1e-9]
    assert len(moving) == 1
    assert moving[0].endswith("head0.qk")


def test_far_models_have_an_upper_bound_that_says_what_it_is() -> None:
    found = qg.distance(bert(0), bert(5))
    assert 0 < found.lower < found.upper < math.inf
    assert found.not_converged
    assert {found.per_block[name].outcome for name in found.not_converged} == {"path"}
    assert "explicit path" in str(found)
    record = json.loads(found.to_json())
    assert record["upper"] == found.upper
    assert record["not_converged"] == found.not_converged


def test_lost_rank_is_a_named_outcome() -> None:
    model = bert()
    poor = copy.deepcopy(model)
    with torch.no_grad():
        poor.bert.encoder.layer[1].attention.self.value.weight[3] = 0.0
    found = qg.distance(model, poor)
    (name,) = [name for name, block in found.per_block.items() if block.outcome == "rank_deficient"]
    assert name.endswith("layer.1.attention.head0.vo")
    assert (found.per_block[name].lower, found.per_block[name].upper) == (0.0, math.inf)
    assert found.per_block[name].detail == "rank lost in model_b"
    assert found.upper == math.inf
    assert json.loads(found.to_json())["upper"] is None
    assert "rank lost" in str(found)
    both = qg.distance(poor, poor).per_block[name]
    assert both.detail == "rank lost in model_a and model_b"


def test_float32_resolves_no_more_than_its_digits() -> None:
    model = hugging_face("BertForMaskedLM", 0)
    other = loaded(model, qg.symmetry_graph(model).move(seed=1, condition=10.0))
    found = qg.distance(model, other)
    assert 1e-9 < found.upper < 1e-3
    assert found.converged


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"layers": 1}, {"layers": 2}, "model_a has no parameter 'layers.1"),
        ({"layers": 2}, {"layers": 1}, "model_b has no parameter 'layers.1"),
        ({"width": 8}, {"width": 12}, r"'positions' has shape \(16, 8\) in model_a and \(16, 12\) in model_b"),
        ({"tied": True}, {}, "'head.weight' is tied to another parameter in model_a only"),
        ({}, {"tied": True}, "'head.weight' is tied to another parameter in model_b only"),
    ],
)
def test_the_first_difference_of_structure_is_named(first: dict, second: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        qg.distance(tiny(**first), tiny(**second))


def test_bad_arguments() -> None:
    model = tiny()
    with pytest.raises(ArgumentError, match=r"model_b must be a torch.nn.Module, got a OrderedDict"):
        qg.distance(model, model.state_dict())
    with pytest.raises(ArgumentError, match="metric must be one of"):
        qg.distance(model, model, metric="euclid")
    with pytest.raises(UnknownArchitectureError, match="no rule describes TinyModel"):
        qg.distance(model, model)
    with pytest.raises(ArgumentError, match="symmetries must be one of"):
        qg.distance(model, model, symmetries="all")
    with pytest.raises(ArgumentError, match="graph of model_a"):
        qg.distance(model, model, graph=qg.SymmetryGraph(tiny()))


def test_what_is_no_number_is_named() -> None:
    first, second = bert(0), bert(1)
    with pytest.raises(ArgumentError, match="tolerance must be a number between 0 and 1"):
        qg.distance(first, second, tolerance=float("nan"))
    name = "encoder.layer.0.attention.self.query.weight"
    broken = dict(second.named_parameters())[next(n for n, _ in second.named_parameters() if n.endswith(name))]
    with torch.no_grad():
        broken[0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=rf"model_b: the parameter '.*{name}' holds NaN or infinity"):
        qg.distance(first, second)
