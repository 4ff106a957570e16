"""What a user reads when a symmetry does not hold: few lines, the likely reason, and a dead head by its name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, SymmetryError
from quotientgeo.model.hints import hints, missing_biases
from tests.helpers.graphs import graph_of
from tests.helpers.losses import tiny_batch, tiny_loss
from tests.helpers.models import hf_batch, hugging_face, tiny, token_batch


def killed(which: str, model: nn.Module) -> nn.Module:
    """Head 0 of layer 1 without queries, or without its part of the output."""
    layer = model.layers[1]
    with torch.no_grad():
        if which == "query":
            layer.q_proj.weight[:4] = 0.0
            layer.q_proj.bias[:4] = 0.0
        elif which == "output":
            layer.o_proj.weight[:, :4] = 0.0
        else:
            layer.v_proj.weight[:4] = layer.v_proj.weight[:1]
            layer.v_proj.bias[:4] = layer.v_proj.bias[:1]
    return model


@pytest.mark.parametrize("unverified", ["refuse", "exclude"])
@pytest.mark.parametrize(
    ("which", "kind", "factor"), [("query", "qk", "G"), ("output", "vo", "H"), ("one value column", "vo", "G")]
)
def test_a_dead_head_is_rank_deficient_and_named(which, kind, factor, unverified):
    model = killed(which, tiny())
    if unverified == "exclude" and which != "one value column":
        with pytest.warns(UserWarning, match="layers.1.head0"):
            assert qg.sharpness(
                model, tiny_loss, [tiny_batch()], graph=graph_of(model), steps=1, unverified="exclude"
            ).ok
        return
    result = qg.sharpness(model, tiny_loss, [tiny_batch()], graph=graph_of(model), steps=1, unverified=unverified)
    assert result.outcome == "rank_deficient"
    assert f"factor {factor} (layers.1.head0.{kind}: " in result.detail
    assert "head1" not in result.detail
    assert result.value != result.value


def test_a_false_symmetry_is_an_error_beside_a_dead_head():
    model = killed("query", tiny(qk_norm=True))
    with pytest.raises(SymmetryError, match=r"layers.0.head0.qk: the outputs change by"):
        qg.sharpness(model, tiny_loss, [tiny_batch()], graph=graph_of(model), steps=1)


def test_a_batch_that_cannot_tell_about_a_living_head_is_still_an_error():
    batch = {"ids": token_batch(length=1), "labels": token_batch(length=1)}
    model = tiny()
    with pytest.raises(SymmetryError, match="this batch cannot tell"):
        qg.sharpness(model, tiny_loss, [batch], graph=graph_of(model), steps=1)


def test_messages_list_a_few_of_many_failures_and_count_the_rest():
    model = tiny(qk_norm=True, layers=6)
    graph = graph_of(model)
    report = graph.verify(token_batch())
    failed = len(report.failures())
    assert failed == 24
    with pytest.raises(SymmetryError, match=rf"^{failed} of 48 declared symmetries do not hold") as caught:
        report.require()
    lines = str(caught.value).splitlines()
    assert len(lines) == 7
    assert lines[-1] == "  and 19 more"
    assert len(str(report).splitlines()) <= 12
    assert len(report.summary()["failures"]) == 24, "the record has them all"
    assert report.summary()["symmetries"] == 48
    with pytest.warns(UserWarning, match=r"left out: .* and 19 more \(all are in the result\)") as warned:
        result = qg.sharpness(model, tiny_loss, [tiny_batch()], graph=graph, steps=1, unverified="exclude")
    assert len(str(warned[0].message)) < 1000
    assert {name for name, reason in result.left_out.items() if "change by" in reason} == set(report.failures())


@pytest.mark.parametrize("name", ["BertForMaskedLM", "ViTForImageClassification"])
def test_dropout_is_named_where_it_breaks_the_fold_of_value_biases(name):
    pytest.importorskip("transformers")
    model = hugging_face(name, attention_probs_dropout_prob=0.3).train()
    report = qg.symmetry_graph(model).verify(hf_batch(model), allow_training_mode=True)
    assert {entry.kind for entry in report.with_status("failed")} == {"value_bias_fold"}
    with pytest.raises(SymmetryError, match=r"\n  dropout is active \(.*evaluation mode, or with symmetries='paper'"):
        report.require()
    assert "dropout is active" in str(report)
    rows = qg.symmetry_graph(model, "paper").verify(hf_batch(model), allow_training_mode=True)
    rows.require()
    assert rows.hints == ()


def test_no_dropout_no_hint():
    model = tiny(dropout=0.0, qk_norm=True).train()
    assert graph_of(model).verify(token_batch(), allow_training_mode=True).hints == ()
    model.layers[0].dropout.p = 0.5
    (hint,) = hints(graph_of(model), ["layers.0.head0.qk"])
    assert hint.startswith("dropout is active (layers.0.dropout):")
    assert hints(graph_of(model), []) == ()


def without(graph: qg.SymmetryGraph, ending: str) -> qg.SymmetryGraph:
    """The pair blocks without their legs on tensors of this ending."""
    part = qg.SymmetryGraph(graph.model)
    for block in graph.blocks:
        G, H = (tuple(leg for leg in legs if not leg.tensor.endswith(ending)) for legs in (block.G, block.H))
        part.add(replace(block, G=G, H=tuple(replace(leg, role="factor") for leg in H)))
    return part


def test_a_bias_that_is_no_leg_is_hinted_at():
    graph = without(graph_of(tiny()), "q_proj.bias").restricted_to(["layers.0.head0.qk"])
    report = graph.verify(token_batch())
    assert report.with_status("failed")
    with pytest.raises(
        SymmetryError,
        match=r"\n  'layers.0.q_proj.bias' is no leg of 'layers.0.head0.qk': .* side G, qg.Leg\('layers.0.q_proj.bias', indices",
    ):
        report.require()
    everywhere = without(graph_of(tiny(heads=4, size=2)), "bias")
    found = [
        (block.name, *pair)
        for block in everywhere.blocks
        for pair in missing_biases(everywhere, block)
        if block.layer == 0 and block.head == 0
    ]
    assert found == [
        ("layers.0.head0.qk", "G", "layers.0.q_proj.bias"),
        ("layers.0.head0.qk", "H", "layers.0.k_proj.bias"),
        ("layers.0.head0.vo", "G", "layers.0.v_proj.bias"),
    ], "an output bias is on the other axis, though this layer is square"
    shown = hints(everywhere, [block.name for block in everywhere.blocks])
    assert len(shown) == 3
    assert shown[-1] == "22 more biases beside declared weights are no legs"
    whole = graph_of(tiny())
    assert [pair for block in whole.blocks for pair in missing_biases(whole, block)] == []


@pytest.mark.parametrize("tolerance", [-1, 0, 1, float("nan"), "1e-9"])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with pytest.raises(ArgumentError, match="tolerance must be a number between 0 and 1"):
        graph_of(tiny()).verify(token_batch(), tolerance=tolerance)
