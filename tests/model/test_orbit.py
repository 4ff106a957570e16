"""Moving along orbits: another point, the same function, the same kind of state dict."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, SymmetryError
from quotientgeo.model.checkpoint import model_digest
from quotientgeo.model.orbit import random_elements
from tests.helpers.graphs import graph_of
from tests.helpers.models import hf_batch, hugging_face, tiny, token_batch


def difference(one: nn.Module, other: nn.Module, ids: Tensor) -> float:
    with torch.no_grad():
        a, b = one(ids), other(ids)
    return float((a - b).abs().max() / a.abs().max())


def moved(model: nn.Module, **settings: float) -> nn.Module:
    found = copy.deepcopy(model)
    found.load_state_dict(graph_of(model).move(**settings))
    return found


@pytest.mark.parametrize("condition", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("translations", [0.0, 1.0])
def test_the_function_stays_and_the_weights_move(condition, translations):
    model = tiny().double()
    other = moved(model, seed=3, condition=condition, translations=translations)
    assert difference(model, other, token_batch()) < 1e-12
    for name, p in model.named_parameters():
        change = float((p - other.get_parameter(name)).abs().max().detach())
        in_a_block = any(part in name for part in ("q_proj", "k_proj", "v_proj", "o_proj.weight"))
        shifted = translations and "o_proj.bias" in name
        assert (change > 1e-2) == bool(in_a_block or shifted), (name, change)


def test_condition_one_is_a_rotation_and_others_have_their_condition():
    graph = graph_of(tiny())
    for condition in (1.0, 10.0, 1e3):
        generator = torch.Generator().manual_seed(0)
        for (A,) in random_elements(graph, generator, condition).values():
            assert torch.linalg.cond(A) == pytest.approx(condition, rel=1e-9)
            assert torch.linalg.det(A) == pytest.approx(1.0, rel=1e-9)
    rotated = graph_of(tiny().double()).move(condition=1.0)
    weight = tiny().double().layers[0].q_proj.weight
    assert rotated["layers.0.q_proj.weight"].norm() == pytest.approx(float(weight.norm().detach()), rel=1e-12)


def test_moves_depend_on_the_seed_alone():
    model = tiny()
    one, two, other = (graph_of(model).move(seed=seed) for seed in (5, 5, 6))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["layers.0.q_proj.weight"], other["layers.0.q_proj.weight"])
    graph, shuffled = graph_of(model), qg.SymmetryGraph(model)
    for block in (*graph.shifts, *reversed(graph.blocks)):
        shuffled.add(block)
    three = shuffled.move(seed=5)
    assert all(torch.equal(one[name], three[name]) for name in one)


def test_the_state_dict_is_of_the_models_kind():
    model = tiny(tied=True).half()
    model.register_buffer("table", torch.ones(2))
    digest = model_digest(model)
    state = graph_of(model).move()
    own = model.state_dict()
    assert list(state) == list(own)
    for name, tensor in own.items():
        assert (state[name].shape, state[name].dtype) == (tensor.shape, tensor.dtype), name
        assert state[name].data_ptr() != tensor.data_ptr(), name
    assert state["head.weight"] is state["embed.weight"]
    assert model_digest(model) == digest
    assert difference(model.float(), moved(model.float()), token_batch()) < 1e-4


def test_rounding_is_that_of_the_stored_dtype_only():
    model = tiny()
    double = copy.deepcopy(model).double()
    state, exact = graph_of(model).move(seed=1), graph_of(double).move(seed=1)
    assert all(torch.equal(state[name], exact[name].float()) for name in state)


def test_a_tied_embedding_in_a_block_moves_under_both_names():
    model = tiny(tied=True).double()
    model.positions.data.zero_()
    for layer in model.layers:
        for p in layer.parameters():
            p.data.zero_()
    with torch.no_grad():  # now logits = E E', which is no function of E up to GL but up to rotations of E
        reference = model(token_batch())
    graph = qg.SymmetryGraph(model)
    graph.add(qg.PairBlock("b", qg.GL(8), (qg.Leg("head.weight", axis=1),), (qg.Leg("positions", axis=1),)))
    state = graph.move(condition=1.0)
    assert state["embed.weight"] is state["head.weight"]
    assert not torch.equal(state["embed.weight"], model.embed.weight)
    model.load_state_dict(state)
    with torch.no_grad():
        torch.testing.assert_close(model(token_batch()), reference)


def test_memory_shared_by_two_parameter_objects_moves_once():
    model = tiny().double()
    model.head.weight = nn.Parameter(model.embed.weight.data)
    graph = qg.SymmetryGraph(model)
    graph.add(qg.PairBlock("b", qg.GL(8), (qg.Leg("embed.weight", axis=1),), (qg.Leg("positions", axis=1),)))
    state = graph.move(seed=2, condition=10.0)
    A = random_elements(graph, torch.Generator().manual_seed(2), 10.0)["b"][0]
    torch.testing.assert_close(state["embed.weight"], model.embed.weight.detach() @ torch.linalg.inv(A))
    assert state["head.weight"] is state["embed.weight"]


def test_weights_that_overflow_their_dtype_are_an_error():
    model = tiny()
    with torch.no_grad():
        model.layers[0].q_proj.weight.mul_(2e4)
    model.half()
    with pytest.raises(
        SymmetryError, match=r"'layers.0.q_proj.weight' overflow torch.float16: use a smaller condition"
    ):
        graph_of(model).move(condition=1e6)


def test_wrong_settings_are_refused():
    graph = graph_of(tiny())
    for condition in (0.5, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="condition must be a finite number >= 1"):
            graph.move(condition=condition)
    for condition in (5e15, 1e17, 1e300):
        with pytest.raises(ArgumentError, match=r"condition must be at most 4\.5e\+15, got .*use a smaller condition"):
            graph.move(condition=condition)
    graph.move(condition=4.5e15)
    with pytest.raises(ArgumentError, match="translations must be a finite number >= 0"):
        graph.move(translations=-1.0)


@pytest.mark.parametrize("condition", [1.0, 10.0, 1000.0, 1e6])
def test_shared_layers_move_once(condition):
    pytest.importorskip("transformers")
    model = hugging_face("AlbertForMaskedLM", num_hidden_layers=5, num_hidden_groups=1).double()
    other = copy.deepcopy(model)
    other.load_state_dict(qg.symmetry_graph(model).move(seed=1, condition=condition, translations=0.5))
    batch = hf_batch(model)
    with torch.no_grad():
        a, b = model(**batch).logits, other(**batch).logits
    assert (a - b).abs().max() < 1e-15 * condition**2 * a.abs().max() + 1e-12
    assert (
        other.albert.encoder.albert_layer_groups[0].albert_layers[0].attention.query.weight
        != model.albert.encoder.albert_layer_groups[0].albert_layers[0].attention.query.weight
    ).any()
