"""The graph of blocks: nodes and views, what each scalar parameter belongs to, canonical shifts."""

from __future__ import annotations

import math

import networkx as nx
import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, BlockError
from tests.helpers.graphs import graph_of
from tests.helpers.models import StackedHeads, tiny, token_batch


def float64(graph: qg.SymmetryGraph) -> dict[str, Tensor]:
    return {name: p.detach().double() for name, p in graph.parameters.items()}


def outputs(model: nn.Module, params: dict[str, Tensor], *batch: Tensor, **more: Tensor) -> Tensor:
    """First output of the model in float64 with these parameters."""
    wide = {name: b.double() if b.is_floating_point() else b for name, b in model.named_buffers()}
    found = torch.func.functional_call(model, (params, wide), batch, more)
    return found if isinstance(found, Tensor) else found[0]


def test_blocks_without_any_bias_share_one_stack():
    (stack,) = graph_of(tiny(biases="")).stacks()
    assert len(stack) == 8


def test_coverage_is_a_partition_by_count():
    model = tiny(tied=True)
    graph = graph_of(model)
    coverage = graph.coverage()
    assert coverage.total == sum(p.numel() for p in model.parameters())  # torch counts a tied tensor once, so do we
    weights, biases = 2 * 4 * 8 * 8, 2 * 8
    assert coverage.block == weights + biases  # q bias only
    assert coverage.frozen == 2 * biases
    assert sum(coverage.reasons.values()) == coverage.frozen
    assert coverage.redundant == 8 * 16 + 8 * 4
    for name, p in graph.parameters.items():
        t = coverage.tensors[name]
        frozen = graph.frozen.get(name, (torch.zeros(p.shape, dtype=torch.bool), ""))[0]
        frozen = torch.ones(p.shape, dtype=torch.bool) if frozen is None else frozen
        membership = graph.factor_mask(name).int() + frozen.int() + graph.rest_mask(name).int()
        assert torch.equal(membership, torch.ones(p.shape, dtype=torch.int32)), name
        assert (t.block, t.frozen) == (int(graph.factor_mask(name).sum()), int(frozen.sum()))
    assert "total" in str(coverage)
    assert "8 x" not in str(coverage)
    assert "4 x attention_qk" in str(coverage)


def test_a_coverage_that_is_no_partition_cannot_be_made():
    from quotientgeo.model.coverage import Coverage, TensorCoverage

    with pytest.raises(BlockError, match=r"'w' is no partition: 3 \+ 1 \+ 1 of 4"):
        Coverage({"w": TensorCoverage((2, 2), 3, 1, 1, {})}, {}, 0, ())


def test_partly_frozen_tensors_report_a_mask():
    model = nn.Sequential(nn.MultiheadAttention(8, 2, batch_first=True))
    graph = qg.SymmetryGraph(model)
    for head in range(2):
        keys = range(8 + 4 * head, 12 + 4 * head)
        graph.add(qg.ShiftBlock(f"key{head}", (qg.Leg("0.in_proj_bias", indices=keys),), reason="keys"))
    mask, reason = graph.frozen["0.in_proj_bias"]
    assert mask is not None
    assert mask.nonzero().flatten().tolist() == list(range(8, 16))
    assert reason == "keys"
    assert graph.frozen_reasons() == {"0.in_proj_bias": "8 of 24 entries: keys"}
    assert int(graph.rest_mask("0.in_proj_bias").sum()) == 16


def test_networkx_graph_carries_views_and_sizes():
    model = tiny(tied=True)
    graph = graph_of(model).graph
    assert isinstance(graph, nx.DiGraph)
    nodes = dict(graph.nodes(data=True))
    qk = nodes["layers.1.head0.qk"]
    assert (qk["kind"], qk["layer"], qk["head"], qk["n"], qk["m"], qk["h"]) == ("attention_qk", 1, 0, 9, 8, 4)
    assert qk["group"] == qg.GL(4)
    weight = nodes["layers.1.q_proj.weight"]
    assert weight["shape"] == (8, 8)
    assert weight["storage"] == model.layers[1].q_proj.weight.untyped_storage().data_ptr()
    assert nodes["embed.weight"]["tied"] == ("head.weight",)
    ((side, leg),) = graph.edges["layers.1.head0.qk", "layers.1.q_proj.weight"]["legs"]
    assert (side, leg.axis, leg.indices) == ("G", 0, (0, 1, 2, 3))
    sides = {target: data["legs"][0][0] for _, target, data in graph.out_edges("layers.0.head1.value_bias", data=True)}
    assert sides == {
        "layers.0.v_proj.bias": "shift",
        "layers.0.o_proj.weight": "compensator",
        "layers.0.o_proj.bias": "bias",
    }
    assert nx.is_bipartite(graph)


def test_symmetries_none_has_no_block_and_needs_no_rule():
    model = nn.Linear(3, 2).eval()
    graph = qg.symmetry_graph(model, symmetries="none")
    assert graph.blocks == () == graph.shifts
    assert graph.stacks() == []
    assert graph.coverage().rest == graph.coverage().total == 8
    assert graph.verify(torch.ones(1, 3)).passed
    with pytest.raises(ArgumentError, match="'attention', 'paper', 'none', got 'all'"):
        qg.symmetry_graph(model, symmetries="all")


@pytest.mark.parametrize("biases", ["qkvo", "kv", "vo"])
def test_canonical_shifts_keep_the_function_and_zero_the_biases(biases):
    model = tiny(biases=biases)
    graph = graph_of(model)
    params = float64(graph)
    before = {name: p.clone() for name, p in params.items()}
    folded = graph.canonicalise_shifts(params)
    assert all(torch.equal(params[name], before[name]) for name in params)
    ids = token_batch()
    reference = outputs(model, params, ids)
    assert (outputs(model, folded, ids) - reference).abs().max() < 1e-13 * reference.abs().max()
    for name in graph.frozen:
        assert not bool(folded[name].any()), name
        assert bool(params[name].any()), "a fault in the test: the bias was zero from the start"
    if "v" in biases and "o" in biases:
        assert not torch.equal(folded["layers.0.o_proj.bias"], params["layers.0.o_proj.bias"])
        unfolded = folded | {"layers.0.o_proj.bias": params["layers.0.o_proj.bias"]}
        assert (outputs(model, unfolded, ids) - reference).abs().max() > 1e-3
    again = graph.canonicalise_shifts(folded)
    assert all(torch.equal(again[name], folded[name]) for name in folded)


def test_a_shift_may_have_followers_and_many_compensators():
    """t added to two positions' embeddings and taken off the readers' biases: a translation with followers."""
    torch.manual_seed(0)
    model = nn.Module()
    model.a, model.b = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(2, 3))
    model.W, model.c = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4))
    model.forward = lambda x: torch.stack([model.W @ (model.a * 0 + row) + model.c for row in (model.a, *model.b)]) * x
    graph = qg.SymmetryGraph(model.eval())
    graph.add(qg.ShiftBlock("s", (qg.Leg("a"), qg.Leg("b", axis=1)), ((qg.Leg("W", axis=1), "c"),)))
    graph.verify(torch.ones(())).require()
    folded = graph.canonicalise_shifts(float64(graph))
    assert not bool(folded["a"].any())
    torch.testing.assert_close(folded["b"], (model.b - model.a).detach().double())
    assert list(graph.frozen) == ["a"]
    assert bool(graph.rest_mask("b").all())


def test_restriction_turns_carried_legs_without_their_shift_into_rows():
    model = tiny()
    graph = graph_of(model)
    keep = [b.name for b in (*graph.blocks, *graph.shifts) if b.name != "layers.0.head1.value_bias"]
    part = graph.restricted_to(keep)
    sizes = sorted((len(stack), stack.n, stack.m) for stack in part.stacks())
    assert sizes == [(3, 8, 8), (5, 9, 8)]  # with its bias as a row, the value factor has the query factor's shape
    assert int(part.factor_mask("layers.0.v_proj.bias").sum()) == 4
    assert int(part.frozen["layers.0.v_proj.bias"][0].sum()) == 4
    part.verify(token_batch()).require()
    assert len(graph.stacks()) == 2, "the original graph changed"
    with pytest.raises(BlockError, match="no block is called 'nothing'"):
        graph.restricted_to(["nothing"])


def test_blocks_of_stacked_head_parameters_use_the_leading_index():
    torch.manual_seed(1)
    model = StackedHeads(6, 3, 2).eval()
    graph = qg.SymmetryGraph(model)
    for head in range(3):
        for kind, G, H in (("qk", "query", "key"), ("vo", "value", "out")):
            legs = ((qg.Leg(name, axis=1, lead=head),) for name in (G, H))
            graph.add(qg.PairBlock(f"{kind}{head}", qg.GL(2), *legs, kind=kind))
    assert graph.coverage().block == graph.coverage().total
    report = graph.verify(torch.randn(2, 5, 6))
    report.require()
    assert report.residual < 1e-13
    assert math.isclose(graph.coverage().redundant, 6 * 4)
