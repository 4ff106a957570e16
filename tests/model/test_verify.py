"""Verification: true symmetries pass at rounding, false ones are named, and a batch that cannot tell is not believed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import SymmetryError
from quotientgeo.model.checkpoint import model_digest
from tests.helpers.graphs import graph_of
from tests.helpers.models import TinyModel, hf_batch, hugging_face, randomised, rotate, tiny, token_batch


def test_true_symmetries_pass_at_rounding_with_power():
    graph = graph_of(tiny())
    report = graph.verify(token_batch())
    report.require()
    assert report.passed
    assert report.residual < 1e-14
    assert report.noise == 0.0
    assert report.outputs == ("output",)
    assert len(report.entries) == 16
    for entry in report.entries:
        assert entry.joint == 15
        assert entry.control is not None
        assert entry.control > 1e-3
    assert report.summary() == {
        "symmetries": 16, "passed": 16, "residual": report.residual, "tolerance": 1e-9, "outputs": ["output"], "failures": {},
    }  # fmt: skip
    table = str(report)
    assert "attention_qk                  4 passed" in table
    assert "tolerance 1e-09" in table


def test_the_model_is_untouched_bit_for_bit():
    model = tiny()
    model.register_buffer("count", torch.zeros(1, dtype=torch.float64))
    model.register_forward_pre_hook(counting)
    graph = graph_of(model)
    before, state = model_digest(model), torch.random.get_rng_state()
    pointers = [p.data_ptr() for p in model.parameters()]
    graph.verify(token_batch())
    graph.move()
    assert model_digest(model) == before
    assert [p.data_ptr() for p in model.parameters()] == pointers
    assert all(p.grad is None and p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(RuntimeError, match="stop"):
        graph.verify(token_batch(), forward=failing)
    assert model_digest(model) == before


def counting(module: nn.Module, _: object) -> None:
    module.count.add_(1.0)


def failing(model: nn.Module, batch: Tensor) -> Tensor:
    model(batch)
    raise RuntimeError("stop")


def test_a_planted_fault_is_named_alone_among_right_blocks():
    model = tiny(heads=2)
    right = graph_of(model)
    graph = qg.SymmetryGraph(model)
    for block in right.blocks:
        if block.name == "layers.1.head0.vo":  # reads the columns of head 1 from W_O
            continue
        if block.name == "layers.1.head1.vo":
            wrong = (replace(block.H[0], indices=(0, 1, 2, 3)),)
            block = replace(block, H=wrong)
        graph.add(block)
    for shift in right.shifts:
        graph.add(shift)
    report = graph.verify(token_batch())
    (failed,) = report.with_status("failed")
    assert failed.name == "layers.1.head1.vo"
    assert failed.residual > 1e-3
    assert failed.joint == 0
    assert len(report.with_status("passed")) == len(report.entries) - 1
    assert max(e.residual for e in report.with_status("passed")) < 1e-13
    with pytest.raises(
        SymmetryError, match=r"1 of 15 declared symmetries do not hold.*\n  layers.1.head1.vo: .* change by"
    ):
        report.require()
    assert list(report.failures()) == ["layers.1.head1.vo"] == list(report.summary()["failures"])


@pytest.mark.parametrize("fault", ["wrong bias", "wrong columns", "no compensator", "key bias of the query"])
def test_planted_faults_in_shifts_are_named(fault):
    model = tiny()
    good = graph_of(model)
    graph = qg.SymmetryGraph(model)
    for block in good.blocks:
        graph.add(block)
    for shift in good.shifts:
        if shift.name == "layers.0.head0.value_bias":
            ((weight, bias),) = shift.compensators
            if fault == "wrong bias":
                shift = replace(shift, compensators=((weight, "layers.1.o_proj.bias"),))
            elif fault == "wrong columns":
                shift = replace(shift, compensators=((replace(weight, indices=(4, 5, 6, 7)), bias),))
            elif fault == "no compensator":
                shift = replace(shift, compensators=())
        graph.add(shift)
    if fault == "key bias of the query":
        graph = qg.SymmetryGraph(model)
        leg = qg.Leg("layers.0.q_proj.bias", indices=range(4))
        graph.add(qg.ShiftBlock("layers.0.head0.value_bias", (leg,)))
    failed = graph.verify(token_batch()).with_status("failed")
    assert [entry.name for entry in failed] == ["layers.0.head0.value_bias"]


def test_gl_under_rotary_positions_is_refused_and_the_free_dimensions_accepted():
    model = tiny(size=6, rotary=4)
    graph = graph_of(model)
    report = graph.verify(token_batch())
    failed = {entry.name for entry in report.with_status("failed")}
    assert failed == {
        b.name for b in (*graph.blocks, *graph.shifts) if b.kind in ("attention_qk", "key_bias_translation")
    }
    assert min(entry.residual for entry in report.with_status("failed")) > 1e-4
    part = graph.restricted_to([entry.name for entry in report.with_status("passed")])
    for layer in (0, 1):
        for head in (0, 1):
            free = range(6 * head + 4, 6 * head + 6)
            legs = [
                (
                    qg.Leg(f"layers.{layer}.{p}_proj.weight", indices=free),
                    qg.Leg(f"layers.{layer}.{p}_proj.bias", indices=free),
                )
                for p in "qk"
            ]
            part.add(qg.PairBlock(f"free{layer}{head}", qg.GL(2), *legs, kind="pass-through"))
    narrow = part.verify(token_batch())
    narrow.require()
    assert narrow.residual < 1e-12


def test_the_rotary_test_model_depends_on_relative_positions_only():
    """The fault that the test above plants is a real rotary embedding, not a broken one."""
    q, k = torch.randn(2, 1, 1, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    q, k = q[..., :1, :].expand_as(q), k[..., :1, :].expand_as(k)
    scores = (rotate(q, 4) @ rotate(k, 4).mT)[0, 0]
    for offset in range(-3, 4):
        assert scores.diagonal(offset).std(correction=0) < 1e-12
    assert scores.std() > 1e-2


def test_gl_under_query_key_norm_is_refused():
    graph = graph_of(tiny(qk_norm=True))
    report = graph.verify(token_batch())
    failed = {entry.kind for entry in report.with_status("failed")}
    assert failed == {"attention_qk", "key_bias_translation"}
    assert {entry.kind for entry in report.with_status("passed")} == {"attention_vo", "value_bias_fold"}
    with pytest.raises(SymmetryError, match=r"layers.0.head0.qk: the outputs change by"):
        report.require()


@pytest.mark.parametrize("case", ["one token", "equal tokens", "all masked but one"])
def test_batches_that_cannot_tell_are_not_believed(case):
    """Softmax over one key, or over equal keys, ignores queries and keys altogether: anything would pass."""
    model = TinyModel(rotary=2)
    randomised(model).eval()
    with torch.no_grad():
        model.positions.zero_()
    if case == "one token":
        batch = token_batch(4, 1)
    elif case == "equal tokens":
        batch = torch.full((2, 6), 3)
    else:
        batch = token_batch()
        for layer in model.layers:
            layer.forward = masked_forward(layer)
    graph = graph_of(model)
    report = graph.verify(batch)
    undecided = {entry.name for entry in report.with_status("inconclusive")}
    assert undecided == {
        b.name for b in (*graph.blocks, *graph.shifts) if b.kind in ("attention_qk", "key_bias_translation")
    }
    assert report.with_status("failed") == ()
    with pytest.raises(SymmetryError, match=r"this batch cannot tell: .* several different, unmasked tokens"):
        report.require()


def masked_forward(layer: nn.Module):
    """Attention in which every query sees the first key only."""

    def forward(x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (2, 4)).transpose(1, 2) for f in (layer.q_proj, layer.k_proj, layer.v_proj))
        scores = q @ k.mT
        scores[..., 1:] = -torch.inf
        return layer.o_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    return forward


def test_a_padded_single_token_cannot_tell_either():
    pytest.importorskip("transformers")
    model = hugging_face("BertForMaskedLM")
    batch = hf_batch(model)
    batch["attention_mask"][:, 1:] = 0
    kinds = {entry.kind for entry in qg.symmetry_graph(model).verify(batch).with_status("inconclusive")}
    assert kinds == {"attention_qk", "key_bias_translation"}


def test_a_block_too_weak_to_be_seen_is_inconclusive_not_passed():
    """A wrong block whose effect is below the tolerance must not pass for that reason."""
    model = tiny()
    with torch.no_grad():
        for p in model.layers[1].o_proj.parameters():
            p.mul_(1e-11)
    right = graph_of(model)
    graph = qg.SymmetryGraph(model)
    weights = [replace(right.blocks[4].G[0]), replace(right.blocks[4].H[0], indices=(4, 5, 6, 7))]
    assert right.blocks[4].name == "layers.1.head0.qk"
    graph.add(qg.PairBlock("wrong", qg.GL(4), (weights[0],), (weights[1],), kind="attention_qk"))
    (entry,) = graph.verify(token_batch()).entries
    assert entry.residual < 1e-9
    assert entry.control is not None
    assert entry.control > 1e-13, "a fault in the test: the block is not even visible above rounding"
    assert entry.status == "inconclusive"
    (entry,) = right.restricted_to(["layers.1.head0.vo"]).verify(token_batch()).entries
    assert entry.residual < 1e-14, "right, but nobody could see from this batch that it is"
    assert entry.status == "inconclusive"


def test_a_weak_right_block_is_tested_alone_where_the_others_drown_it():
    model = tiny().double()
    graph = graph_of(model)
    with torch.no_grad():
        for p in model.layers[1].o_proj.parameters():
            p.mul_(1e-7)
    strong = graph.restricted_to([block.name for block in graph.blocks if block.layer == 0])
    model.load_state_dict(strong.move(condition=1e6))  # rounding of 1e-12 and more in the first layer
    report = graph.verify(token_batch())
    assert {entry.status for entry in report.entries} == {"passed"}
    joint = max(entry.residual for entry in report.entries if entry.joint)
    alone = [entry for entry in report.entries if not entry.joint]
    assert alone, "a fault in the test: nothing had to be tested alone"
    assert all(entry.control < 1e3 * joint and entry.residual < 1e-13 for entry in alone)


def test_zero_output_weights_leave_the_block_untested():
    model = tiny()
    with torch.no_grad():
        model.layers[0].o_proj.weight[:, :4] = 0.0
    undecided = {entry.name for entry in graph_of(model).verify(token_batch()).with_status("inconclusive")}
    assert undecided == {
        "layers.0.head0.qk",
        "layers.0.head0.vo",
        "layers.0.head0.key_bias",
        "layers.0.head0.value_bias",
    }


class Detached(TinyModel):
    def forward(self, ids: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(ids)


@pytest.mark.parametrize("length", [6, 1])
def test_without_gradients_controls_are_finite_motions(length):
    graph = graph_of(randomised(Detached()).eval())
    report = graph.verify(token_batch(length=length))
    kinds = {entry.kind for entry in report.with_status("inconclusive")}
    assert kinds == (set() if length > 1 else {"attention_qk", "key_bias_translation"})
    assert min(e.control for e in report.with_status("passed") if e.control is not None) > 1e-3


def test_memory_shared_by_two_parameter_objects_is_moved_under_both_names():
    pytest.importorskip("transformers")
    model = hugging_face("BertModel")
    layers = model.encoder.layer
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        first, second = (layer.attention.get_submodule(part) for layer in layers)
        second.weight, second.bias = nn.Parameter(first.weight.data), nn.Parameter(first.bias.data)
    graph = qg.symmetry_graph(model)
    assert len(graph.aliases) == 8
    assert len(graph.blocks) == 4
    graph.verify(hf_batch(model)).require()
