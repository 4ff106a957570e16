"""Blocks that a user adds: what is refused, and why; tied and shared parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import BlockError
from tests.helpers.models import tiny, token_batch


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
    with pytest.raises(BlockError, match="takes a PairBlock, a DeclaredBlock or a ShiftBlock, got str"):
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
    params = {name: p.detach().double() for name, p in model.named_parameters()}
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
