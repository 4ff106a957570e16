"""The graph of blocks: what it holds, what it refuses, what each scalar parameter belongs to."""

from __future__ import annotations

import math
from dataclasses import replace

import networkx as nx
import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import BlockError, DeclarationError, UnknownArchitectureError
from tests.helpers.graphs import graph_of
from tests.helpers.models import HUGGING_FACE, StackedHeads, hf_batch, hugging_face, randomised, tiny, token_batch


def float64(graph: qg.SymmetryGraph) -> dict[str, Tensor]:
    return {name: p.detach().double() for name, p in graph.parameters.items()}


def outputs(model: nn.Module, params: dict[str, Tensor], *batch: Tensor, **more: Tensor) -> Tensor:
    """First output of the model in float64 with these parameters."""
    wide = {name: b.double() if b.is_floating_point() else b for name, b in model.named_buffers()}
    found = torch.func.functional_call(model, (params, wide), batch, more)
    return found if isinstance(found, Tensor) else found[0]


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_every_head_class_of_a_known_family_is_described(name):
    pytest.importorskip("transformers")
    model = hugging_face(name)
    graph = qg.symmetry_graph(model)
    assert graph.coverage().kinds == {
        "attention_qk": 4,
        "attention_vo": 4,
        "key_bias_translation": 4,
        "value_bias_fold": 4,
    }
    assert graph.uncovered == ()
    batch = hf_batch(model)
    report = graph.verify(batch)
    report.require()
    assert report.residual < 1e-12


def test_cross_attention_of_a_decoder_has_its_own_blocks():
    pytest.importorskip("transformers")
    model = hugging_face("BertLMHeadModel", add_cross_attention=True)
    graph = qg.symmetry_graph(model)
    crossing = [block for block in graph.blocks if "crossattention" in block.name]
    assert len(graph.blocks) == 16
    assert len(crossing) == 8
    assert {block.layer for block in crossing} == {0, 1}
    batch = hf_batch(model) | {
        "encoder_hidden_states": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    }
    graph.verify(batch).require()
    without = graph.verify(hf_batch(model)).failures()
    assert without.keys() == {b.name for b in (*graph.blocks, *graph.shifts) if "crossattention" in b.name}


def test_shared_layers_of_albert_act_once():
    pytest.importorskip("transformers")
    graph = qg.symmetry_graph(hugging_face("AlbertForMaskedLM", num_hidden_layers=6, num_hidden_groups=1))
    assert len(graph.blocks) == 4
    assert len(graph.shifts) == 4
    (qk, vo) = graph.stacks()
    assert (qk.n, qk.m, qk.h) == (17, 16, 8)
    assert (vo.n, vo.m, vo.h) == (16, 16, 8)


def test_layers_are_numbered_in_order_where_names_hold_several_numbers():
    pytest.importorskip("transformers")
    graph = qg.symmetry_graph(hugging_face("AlbertForMaskedLM", inner_group_num=2))
    layers = {block.name.rsplit(".head", 1)[0]: block.layer for block in graph.blocks}
    stem = "albert.encoder.albert_layer_groups"
    assert layers == {f"{stem}.{k // 2}.albert_layers.{k % 2}.attention": k for k in range(4)}


def test_layers_that_share_parameter_objects_act_once():
    pytest.importorskip("transformers")
    model = hugging_face("BertModel", num_hidden_layers=3)
    layers = model.encoder.layer
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        first, second = (layers[k].attention.get_submodule(part) for k in (0, 2))
        second.weight, second.bias = first.weight, first.bias
    graph = qg.symmetry_graph(model)
    assert len(graph.blocks) == 2 * 4
    assert {block.layer for block in graph.blocks} == {0, 1}
    graph.verify(hf_batch(model)).require()


def test_half_shared_layers_are_refused_not_moved_twice():
    pytest.importorskip("transformers")
    model = hugging_face("BertModel")
    layers = model.encoder.layer
    layers[1].attention.self.query.weight = layers[0].attention.self.query.weight
    with pytest.raises(
        BlockError, match=r"layer.1.*layer\.0\.attention\.self\.query\.weight' already belong to .*layer\.0"
    ):
        qg.symmetry_graph(model)


@pytest.mark.parametrize(
    ("biases", "n", "m", "frozen"),
    [
        ("qkvo", (9, 8), (8, 8), {"k", "v"}),
        ("qvo", (9, 8), (8, 8), {"v"}),
        ("qkv", (9, 9), (8, 8), {"k"}),  # no output bias to fold into: b_V is a row of the value factor
        ("v", (8, 9), (8, 8), set()),
        ("o", (8, 8), (8, 8), set()),
    ],
)
def test_biases_are_rows_or_frozen_as_the_output_bias_allows(biases, n, m, frozen):
    model = tiny(biases=biases)
    graph = graph_of(model)
    graph.verify(token_batch()).require()
    sizes = {
        block.kind: block.sizes({k: tuple(p.shape) for k, p in model.named_parameters()}) for block in graph.blocks
    }
    assert sizes["attention_qk"] == (n[0], m[0], 4)
    assert sizes["attention_vo"] == (n[1], m[1], 4)
    assert set(graph.frozen) == {f"layers.{layer}.{part}_proj.bias" for layer in (0, 1) for part in frozen}
    assert all(mask is None for mask, _ in graph.frozen.values())
    for part, reason in (("k", "no effect"), ("v", "folded into the output bias")):
        if part in frozen:
            assert reason in graph.frozen_reasons()[f"layers.0.{part}_proj.bias"]


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
    with pytest.raises(DeclarationError, match="'attention', 'none', got 'all'"):
        qg.symmetry_graph(model, symmetries="all")


def example_of(model: nn.Module) -> str:
    with pytest.raises(UnknownArchitectureError) as caught:
        qg.symmetry_graph(model)
    message = str(caught.value)
    return message[message.index("    import quotientgeo") : message.index("or measure without")]


def run_example(model: nn.Module, batch: object) -> qg.SymmetryGraph:
    """The code printed in the error, executed as a user would who pastes it."""
    lines = [line.removeprefix("    ") for line in example_of(model).splitlines()]
    scope: dict[str, object] = {"model": model, "batch": batch}
    exec("\n".join(lines), scope)
    return scope["graph"]  # type: ignore[return-value]


@pytest.mark.parametrize("biases", ["qkvo", "q", ""])
def test_the_example_for_an_unknown_model_works_as_printed(biases):
    graph = run_example(tiny(biases=biases), (token_batch(),))
    assert [block.name for block in graph.blocks] == ["layers.0.head0.qk"]


def test_the_example_fits_fused_and_transposed_projections():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    fused = randomised(nn.MultiheadAttention(8, 2, batch_first=True)).eval()
    run_example(fused, (x, x, x))
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20, bos_token_id=0, eos_token_id=0)
    run_example(randomised(transformers.GPT2Model(config)).eval(), {"input_ids": token_batch()})
    config = transformers.T5Config(d_model=8, d_kv=3, num_heads=2, num_layers=1, d_ff=8, vocab_size=20)
    run_example(randomised(transformers.T5EncoderModel(config)).eval(), {"input_ids": token_batch()})


def test_unknown_architectures_list_their_attention_like_modules():
    with pytest.raises(UnknownArchitectureError) as caught:
        qg.symmetry_graph(tiny(layers=2))
    message = str(caught.value)
    assert "no rule describes TinyModel" in message
    assert "layers.0 (SelfAttention, 2 heads): query layers.0.q_proj, key layers.0.k_proj" in message
    assert "layers.1 (SelfAttention" in message
    with pytest.raises(UnknownArchitectureError, match="no attention-like module found"):
        qg.symmetry_graph(nn.Sequential(nn.Linear(3, 3)))


def test_a_replaced_linear_map_is_named_not_guessed():
    pytest.importorskip("transformers")
    model = hugging_face("BertModel")
    attention = model.encoder.layer[1].attention
    attention.self.query = nn.Sequential(attention.self.query)
    with pytest.raises(UnknownArchitectureError, match=r"'encoder.layer.1.attention.self.query' is a Sequential"):
        qg.symmetry_graph(model)
    attention.self.query = nn.Linear(16, 12)
    with pytest.raises(UnknownArchitectureError, match=r"with weight \(12, 16\), .* expects an nn.Linear with 16"):
        qg.symmetry_graph(model)


def test_modules_without_a_rule_beside_known_ones_are_listed():
    pytest.importorskip("transformers")

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.text = hugging_face("BertModel")
            self.other = tiny()

    graph = qg.symmetry_graph(Both())
    assert len(graph.blocks) == 8
    assert graph.uncovered == ("other.layers.0", "other.layers.1")
    assert "no rule describes: other.layers.0" in str(graph.coverage())


def pair(name: str = "b", *, G: qg.Leg | None = None, H: qg.Leg | None = None, size: int = 4) -> qg.PairBlock:
    rows = range(4)
    G = G or qg.Leg("layers.0.q_proj.weight", indices=rows)
    H = H or qg.Leg("layers.0.k_proj.weight", indices=rows)
    return qg.PairBlock(name, qg.GL(size), (G,), (H,))


def test_overlaps_are_refused_and_leave_the_graph_as_it_was():
    graph = qg.SymmetryGraph(tiny())
    graph.add(pair("one"))
    before = graph.coverage()
    with pytest.raises(BlockError, match=r"block 'two': entries of 'layers.0.q_proj.weight' already belong to 'one'"):
        graph.add(
            pair(
                "two",
                G=qg.Leg("layers.0.q_proj.weight", indices=range(3, 7)),
                H=qg.Leg("layers.0.v_proj.weight", indices=range(4)),
            )
        )
    assert graph.coverage() == before
    assert [b.name for b in graph.blocks] == ["one"]
    columns = qg.Leg("layers.1.q_proj.weight", axis=1, indices=range(4))
    with pytest.raises(BlockError, match=r"two of its legs share entries of 'layers.1.q_proj.weight'"):
        graph.add(pair("three", G=qg.Leg("layers.1.q_proj.weight", indices=range(4)), H=columns))
    graph.add(
        pair(
            "two",
            G=qg.Leg("layers.1.q_proj.weight", indices=range(4)),
            H=qg.Leg("layers.1.k_proj.weight", indices=range(4)),
        )
    )
    with pytest.raises(BlockError, match="the name 'two' is taken"):
        graph.add(pair("two", G=columns))
    with pytest.raises(BlockError, match="takes a PairBlock or a ShiftBlock, got str"):
        graph.add("two")


def test_shifts_and_factors_may_not_share_entries():
    graph = qg.SymmetryGraph(tiny())
    bias = qg.Leg("layers.0.k_proj.bias", indices=range(4))
    graph.add(qg.ShiftBlock("free", (bias,)))
    carried = qg.Leg("layers.0.k_proj.bias", indices=range(4), role="carried")
    weights = [qg.Leg(f"layers.0.{part}_proj.weight", indices=range(4)) for part in "qk"]
    with pytest.raises(BlockError, match=r"'layers.0.k_proj.bias' already belong to 'free'"):
        graph.add(qg.PairBlock("row", qg.GL(4), (weights[0],), (weights[1], bias)))
    graph.add(qg.PairBlock("carrier", qg.GL(4), (weights[0],), (weights[1], carried)))
    assert graph.carriers(graph.shifts[0]) == ["carrier"]
    with pytest.raises(BlockError, match="already belong to 'free'"):
        graph.add(qg.ShiftBlock("again", (bias,)))
    column = qg.Leg("layers.0.k_proj.weight", axis=1, indices=range(1))
    with pytest.raises(BlockError, match="already belong to 'carrier'"):
        graph.add(
            qg.ShiftBlock(
                "into a frozen bias", (qg.Leg("layers.1.k_proj.bias", indices=[0]),), ((column, bias.tensor),)
            )
        )


def test_carried_entries_and_compensated_biases_are_nobody_elses_rows():
    rows, other = range(4), range(4, 8)
    weights = {(part, i): qg.Leg(f"layers.0.{part}_proj.weight", indices=i) for part in "qk" for i in (rows, other)}
    bias = qg.Leg("layers.0.k_proj.bias", indices=rows)
    carried = replace(bias, role="carried")
    for first, second in ((bias, carried), (carried, bias), (carried, carried)):
        graph = qg.SymmetryGraph(tiny())
        graph.add(qg.PairBlock("one", qg.GL(4), (weights["q", rows],), (weights["k", rows], first)))
        with pytest.raises(BlockError, match=r"k_proj.bias' already belong to 'one'"):
            graph.add(qg.PairBlock("two", qg.GL(4), (weights["q", other],), (weights["k", other], second)))
    graph = qg.SymmetryGraph(tiny())
    graph.add(qg.PairBlock("one", qg.GL(4), (weights["q", rows],), (weights["k", rows], bias)))
    fold = ((qg.Leg("layers.0.o_proj.weight", axis=1, indices=[0]), bias.tensor),)
    with pytest.raises(BlockError, match=r"k_proj.bias' already belong to 'one'"):
        graph.add(qg.ShiftBlock("s", (qg.Leg("layers.0.v_proj.bias", indices=[0]),), fold))


def test_a_carried_leg_needs_a_shift():
    graph = qg.SymmetryGraph(tiny())
    legs = (
        qg.Leg("layers.0.k_proj.weight", indices=range(4)),
        qg.Leg("layers.0.k_proj.bias", indices=range(4), role="carried"),
    )
    graph.add(qg.PairBlock("b", qg.GL(4), (qg.Leg("layers.0.q_proj.weight", indices=range(4)),), legs))
    for needs in (graph.stacks, graph.coverage, lambda: graph.verify(token_batch())):
        with pytest.raises(BlockError, match=r"carries a leg on 'layers.0.k_proj.bias' that no ShiftBlock frees"):
            needs()


def test_legs_that_do_not_fit_the_model_are_refused():
    model = tiny()
    model.register_buffer("table", torch.zeros(8, 8))
    graph = qg.SymmetryGraph(model)
    for leg, message in (
        (qg.Leg("layers.0.q_proj.wieght"), "no such parameter; did you mean layers.0.q_proj.weight"),
        (qg.Leg("table"), "'table' is a buffer, not a parameter"),
        (qg.Leg("layers.0.q_proj.weight", indices=range(6, 10)), "indices 8, 9 are out of range"),
        (qg.Leg("layers.0.q_proj.weight", indices=range(3)), r"sees 3 indices on axis 0 but GL\(4\)"),
    ):
        with pytest.raises(BlockError, match=message):
            graph.add(pair(G=leg))
    assert graph.blocks == ()


def test_shift_declarations_that_do_not_fit_are_refused():
    graph = qg.SymmetryGraph(tiny())
    value = qg.Leg("layers.0.v_proj.bias", indices=range(4))
    weight, wide = (qg.Leg("layers.0.o_proj.weight", axis=1, indices=range(h)) for h in (4, 8))
    matrix = qg.Leg("layers.0.v_proj.weight", indices=range(4))
    for shift, message in (
        (qg.ShiftBlock("s", (matrix,)), "must be one row"),
        (qg.ShiftBlock("s", (value,), ((wide, "layers.0.o_proj.bias"),)), "sees 8 indices, the first leg 4"),
        (
            qg.ShiftBlock("s", (value,), ((weight, "positions"),)),
            r"bias 'positions' has shape \(16, 8\), but .* 8 rows",
        ),
        (qg.ShiftBlock("s", (value,), ((weight, "nowhere"),)), "no such parameter"),
    ):
        with pytest.raises(BlockError, match=message):
            graph.add(shift)
    assert graph.shifts == ()


def test_tied_names_mean_one_tensor():
    model = tiny(tied=True)
    graph = qg.SymmetryGraph(model)
    assert "head.weight" not in graph.parameters
    graph.add(qg.PairBlock("b", qg.GL(8), (qg.Leg("head.weight", axis=1),), (qg.Leg("positions", axis=1),)))
    assert graph.blocks[0].G[0].tensor == "embed.weight"
    assert bool(graph.factor_mask("head.weight").all())


def test_shared_storage_under_two_parameter_objects_is_found():
    model = tiny()
    model.head.weight = nn.Parameter(model.embed.weight.data)  # not the same object, but the same memory
    graph = qg.SymmetryGraph(model)
    assert graph.aliases == {"embed.weight": ("head.weight",)}
    assert set(dict(model.named_parameters())) - set(graph.parameters) == {"head.weight"}
    assert not bool(graph.rest_mask("head.weight").any())
    assert bool(graph.rest_mask("embed.weight").all())
    params = float64(graph) | {"head.weight": model.head.weight.detach().double()}
    graph.add(qg.PairBlock("b", qg.GL(8), (qg.Leg("embed.weight", axis=1),), (qg.Leg("positions", axis=1),)))
    (stack,) = graph.stacks()
    G, H = stack.read(params)
    new = stack.write(params, 2 * G, H)
    assert new["head.weight"] is new["embed.weight"]


def test_partly_shared_memory_is_refused():
    model = nn.ParameterList([nn.Parameter(torch.randn(4, 4))])
    model.append(nn.Parameter(model[0].data[1:]))
    with pytest.raises(BlockError, match="'0' and '1' overlap in memory"):
        qg.SymmetryGraph(model)
    transposed = nn.ParameterList([model[0], nn.Parameter(model[0].data.T)])
    with pytest.raises(BlockError, match="overlap in memory"):
        qg.SymmetryGraph(transposed)
    flat = torch.randn(8)
    apart = nn.ParameterList([nn.Parameter(flat[:4]), nn.Parameter(flat[4:])])
    assert len(qg.SymmetryGraph(apart).parameters) == 2


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
