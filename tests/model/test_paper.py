"""symmetries="paper": every query, key and value bias a row of its factor, and another measure than "attention"."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import SymmetryError
from tests.helpers.losses import masked_loss
from tests.helpers.models import hf_batch, hugging_face
from tests.helpers.orbit import orbit_table
from tests.helpers.vision import classifier_loss, labelled_images

pytest.importorskip("transformers")

# attention module of layer 0, its maps, and how many modules the model has
LAYOUTS = {
    "BertForMaskedLM": ("bert.encoder.layer.0.attention", ("self.query", "self.key", "self.value", "output.dense")),
    "AlbertForMaskedLM": (
        "albert.encoder.albert_layer_groups.0.albert_layers.0.attention",
        ("query", "key", "value", "dense"),
    ),
    "ViTForImageClassification": ("vit.layers.0.attention", ("q_proj", "k_proj", "v_proj", "o_proj")),
}


def sample(model: nn.Module) -> tuple[object, dict[str, Tensor]]:
    """A loss and a batch for a model of either kind."""
    if "ViT" in type(model).__name__:
        return classifier_loss, labelled_images()
    batch = hf_batch(model)
    return masked_loss, batch | {
        "labels": batch["input_ids"].roll(1, dims=1).masked_fill(batch["attention_mask"] == 0, -100)
    }


def forward_batch(model: nn.Module) -> dict[str, Tensor]:
    return hf_batch(model)


@pytest.mark.parametrize("name", LAYOUTS)
def test_biases_are_rows_of_their_factors(name):
    """G = [W_Q; b_Q] with H = [W_K; b_K], and G = [W_V; b_V] with H = W_O', per head, read here by hand."""
    model = hugging_face(name).double()
    graph = qg.symmetry_graph(model, symmetries="paper")
    path, parts = LAYOUTS[name]
    query, key, value, output = (model.get_submodule(f"{path}.{part}") for part in parts)
    params = {n: p.detach() for n, p in model.named_parameters()}
    found = {}
    for stack in graph.stacks():
        for block, G, H in zip(stack.blocks, *stack.read(params), strict=True):
            found[block.name] = (G, H)
    for head in (0, 1):
        rows = slice(8 * head, 8 * (head + 1))
        with_bias = [torch.cat([m.weight[rows].T, m.bias[rows][None]]).detach() for m in (query, key, value)]
        for (G, H), (wanted_G, wanted_H) in (
            (found[f"{path}.head{head}.qk"], with_bias[:2]),
            (found[f"{path}.head{head}.vo"], (with_bias[2], output.weight[:, rows].detach())),
        ):
            assert torch.equal(G, wanted_G)
            assert torch.equal(H, wanted_H)


@pytest.mark.parametrize("name", LAYOUTS)
def test_nothing_is_frozen_or_translated_and_the_output_bias_is_in_the_rest(name):
    model = hugging_face(name)
    graph = qg.symmetry_graph(model, symmetries="paper")
    coverage = graph.coverage()
    assert graph.shifts == ()
    assert graph.frozen == {} == graph.frozen_reasons()
    assert coverage.frozen == 0
    assert coverage.block == 2 * (4 * 16 * 16 + 3 * 16)
    assert coverage.rest == coverage.total - coverage.block
    path, parts = LAYOUTS[name]
    assert bool(graph.rest_mask(f"{path}.{parts[3]}.bias").all())
    for part in parts[:3]:
        assert bool(graph.factor_mask(f"{path}.{part}.bias").all())
    params = {n: p.detach() for n, p in graph.parameters.items()}
    folded = graph.canonicalise_shifts(params)
    assert all(folded[n] is params[n] for n in params)


@pytest.mark.parametrize("name", LAYOUTS)
def test_it_holds_and_a_wrong_row_does_not(name):
    model = hugging_face(name)
    right = qg.symmetry_graph(model, symmetries="paper")
    report = right.verify(forward_batch(model))
    report.require()
    assert report.residual < 1e-12
    for kind, side, wrong in (
        ("attention_qk", "G", True),
        ("attention_qk", "H", False),  # softmax does not see the key bias, so whatever is done to it is right
        ("attention_vo", "G", True),
    ):
        first, second = (b for b in right.blocks if b.kind == kind and b.layer == 0)
        mine, other = getattr(first, side), getattr(second, side)
        for legs in ((mine[0], other[1]), mine[:1]):  # the bias of the other head; none, so that its own stays behind
            graph = qg.SymmetryGraph(model)
            graph.add(replace(first, **{side: legs}))
            (entry,) = graph.verify(forward_batch(model)).entries
            assert entry.status == ("failed" if wrong else "passed"), (kind, side, legs)


@pytest.mark.parametrize("name", LAYOUTS)
def test_it_moves_to_the_same_point_as_attention(name):
    """The biases move with their factors in either case; only translations are missing."""
    model = hugging_face(name)
    graph = qg.symmetry_graph(model, symmetries="paper")
    paper, attention = (g.move(seed=3, condition=10.0) for g in (graph, qg.symmetry_graph(model)))
    moved = 0
    for n in paper:
        torch.testing.assert_close(paper[n], attention[n])
        moved += not torch.equal(paper[n], model.state_dict()[n])
    assert moved >= 14  # weights and biases of two layers: query, key, value, and the weights of the output
    still = graph.move(seed=3, condition=10.0, translations=1.0)
    assert all(torch.equal(still[n], paper[n]) for n in paper)


@pytest.mark.parametrize("name", LAYOUTS)
def test_its_value_is_constant_on_orbits(name):
    model = hugging_face(name)
    loss, batch = sample(model)
    measures = [{"measure": "geodesic", "metric": metric, "symmetries": "paper"} for metric in ("invariant", "mixed")]
    table = {"dtype": torch.float64, "rhos": [0.3], "conditions": [10, 1000], "steps": 3}
    for row in orbit_table(model, loss, [batch], measures=measures, **table):
        assert max(row.changes.values()) <= 1e-8, str(row)
    (adaptive,) = orbit_table(model, loss, [batch], measures=[{"measure": "adaptive"}], **table)
    assert adaptive.changes[10] > 0.01, str(adaptive)


@pytest.mark.parametrize("name", LAYOUTS)
def test_it_is_another_measure_than_attention(name):
    """A translation of the key biases, without effect on the function, changes "paper" and not "attention"."""
    model = hugging_face(name).double()
    loss, batch = sample(model)
    moved = copy.deepcopy(model)
    moved.load_state_dict(qg.symmetry_graph(model).move(seed=1, condition=10.0, translations=1.0))
    values = {
        symmetries: [
            qg.sharpness(m, loss, [batch], symmetries=symmetries, rho=0.3, steps=3).value for m in (model, moved)
        ]
        for symmetries in ("attention", "paper")
    }
    assert values["attention"][1] == pytest.approx(values["attention"][0], rel=1e-8)
    assert abs(values["paper"][1] / values["paper"][0] - 1) > 1e-4
    assert abs(values["paper"][0] / values["attention"][0] - 1) > 1e-4


def test_without_biases_the_two_agree():
    model = hugging_face("ViTForImageClassification", qkv_bias=False).double()
    loss, batch = sample(model)
    one, other = (
        qg.sharpness(model, loss, [batch], symmetries=symmetries, rho=0.3, steps=3)
        for symmetries in ("attention", "paper")
    )
    assert one.value == other.value
    assert one.definitions["blocks"] == other.definitions["blocks"]


def test_the_result_records_it():
    model = hugging_face("BertForMaskedLM").double()
    loss, batch = sample(model)
    found = {s: qg.sharpness(model, loss, [batch], symmetries=s, steps=1) for s in ("attention", "paper", "none")}
    paper = qg.SharpnessResult.from_json(found["paper"].to_json())
    assert paper.definitions["symmetries"] == "paper"
    assert paper.frozen == {}
    assert found["attention"].frozen != {}
    assert paper.verification["symmetries"] == paper.verification["passed"] == 8
    assert found["attention"].verification["symmetries"] == 16
    digests = [found[s].definitions["blocks"]["digest"] for s in ("attention", "paper")]
    assert digests[0] != digests[1]
    assert not any("bias" in name and "self" in name for name in paper.per_block), (
        "a bias of the factors is in the rest"
    )
    adaptive = qg.sharpness(model, loss, [batch], measure="adaptive", symmetries="paper", steps=1)
    assert adaptive.definitions["symmetries"] == "none"


def test_a_false_one_is_refused_with_its_name():
    model = hugging_face("BertForMaskedLM")
    attention = model.bert.encoder.layer[1].attention.self
    attention.query.register_forward_hook(lambda *args: args[2].tanh())
    loss, batch = sample(model)
    with pytest.raises(
        SymmetryError, match=re.escape("bert.encoder.layer.1.attention.head0.qk: the outputs change by")
    ):
        qg.sharpness(model, loss, [batch], symmetries="paper", steps=1)
    with pytest.warns(UserWarning, match="left out"):
        result = qg.sharpness(model, loss, [batch], symmetries="paper", steps=1, unverified="exclude")
    assert result.verification["passed"] == 6
    assert "bert.encoder.layer.1.attention.self.query.bias" in result.per_block
