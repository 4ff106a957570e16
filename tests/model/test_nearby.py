"""Symmetries that hold at the given weights only, by a zero or a one in them, are not believed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import SymmetryError
from quotientgeo.model.orbit import act, raised, random_elements
from quotientgeo.model.probe import Probe
from quotientgeo.model.trial import NEARBY, Trial
from quotientgeo.model.verify import BlockVerification
from tests.helpers.graphs import graph_of
from tests.helpers.models import SelfAttention, TinyModel, randomised, tiny, token_batch


def fresh(model: nn.Module) -> nn.Module:
    """Every bias at zero, as after initialisation."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                p.zero_()
    return model


def with_swapped_biases(model: nn.Module, side: str) -> qg.SymmetryGraph:
    """The query (or value) pairs of the two heads of layer 0, each with the bias of the other head as its row."""
    part = {"qk": "q_proj", "vo": "v_proj"}[side]
    graph = qg.SymmetryGraph(model)
    for block in graph_of(model).restricted_to([f"layers.0.head{k}.{side}" for k in (0, 1)]).blocks:
        at = tuple(4 * (1 - (block.head or 0)) + i for i in range(4))
        G = (block.G[0], qg.Leg(f"layers.0.{part}.bias", indices=at))
        graph.add(replace(block, G=G, H=tuple(leg for leg in block.H if leg.role == "factor")))
    return graph


@pytest.mark.parametrize("side", ["qk", "vo"])
def test_a_wrong_leg_on_a_fresh_bias_is_found(side):
    graph = with_swapped_biases(fresh(tiny(layers=1)), side)
    with torch.no_grad():  # at the very weights nothing shows
        base = raised(dict(graph.parameters))
        probe = Probe(graph.model, token_batch(), None)
        moved = act(graph, base, random_elements(graph, torch.Generator().manual_seed(0), 10.0))
        assert (probe(moved, 0)["output"] - probe(base, 0)["output"]).abs().max() < 1e-14
    report = graph.verify(token_batch())
    assert {entry.status for entry in report.entries} == {"failed"}
    assert all(entry.special for entry in report.entries)
    assert min(entry.residual for entry in report.entries) > 1e-6
    with pytest.raises(
        SymmetryError, match="at weights 1% away from the given ones, though not at them, the outputs chan"
    ):
        report.require()


@pytest.mark.parametrize("biases", ["qkvo", "qv", "kvo", ""])
def test_right_blocks_hold_close_by_too(biases):
    report = graph_of(fresh(tiny(biases=biases))).verify(token_batch())
    report.require()
    assert report.residual < 1e-13
    assert not any(entry.special for entry in report.entries)


class Scaled(SelfAttention):
    """Learned scales of the query dimensions, all one after initialisation: then GL(h) holds, and only then."""

    def __init__(self, *args: int, **options: object):
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.scale = nn.Parameter(torch.ones(self.num_heads * self.size))

    def forward(self, x: Tensor) -> Tensor:
        plain = self.q_proj.forward
        self.q_proj.forward = lambda y: plain(y) * self.scale  # type: ignore[method-assign]
        try:
            return super().forward(x)
        finally:
            self.q_proj.forward = plain  # type: ignore[method-assign]


def scaled() -> TinyModel:
    model = randomised(TinyModel(layers=1)).eval()
    layer = Scaled(8, 2, 4)
    layer.load_state_dict(model.layers[0].state_dict() | {"scale": torch.ones(8)})
    model.layers[0] = layer.eval()
    return model


def test_gains_that_happen_to_be_one_do_not_make_a_symmetry():
    model = scaled()
    report = graph_of(model).verify(token_batch())
    failed = {entry.name for entry in report.with_status("failed")}
    assert failed == {"layers.0.head0.qk", "layers.0.head1.qk"}
    assert all(entry.special for entry in report.with_status("failed"))
    model.layers[0].scale.requires_grad_(False)  # what is not trained does not move in a measure either
    graph_of(model).verify(token_batch()).require()


def test_a_shift_of_what_the_batch_does_not_read_is_inconclusive():
    """No block carries it and no bias compensates it, so nothing else would say that it was not tested."""
    model = tiny()
    graph = qg.SymmetryGraph(model)
    graph.add(qg.ShiftBlock("unread", (qg.Leg("positions", lead=9),)))
    (entry,) = graph.verify(token_batch(length=6)).entries
    assert (entry.residual, entry.control, entry.status) == (0.0, 0.0, "inconclusive")
    assert "do not depend on these weights at all" in entry.reason
    assert graph.verify(token_batch(length=12)).with_status("failed")
    free = qg.SymmetryGraph(model)
    free.add(qg.ShiftBlock("key", (qg.Leg("layers.0.k_proj.bias", indices=range(4)),)))
    (entry,) = free.verify(token_batch()).entries
    assert (entry.control, entry.status) == (None, "passed")


def test_a_shift_of_several_legs_is_compared_with_its_first_leg_alone():
    """Its own gradient cancels to exactly zero, which says nothing against it."""
    model = nn.Module()
    model.plus, model.minus = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))
    model.forward = lambda x: x + model.plus - model.minus
    graph = qg.SymmetryGraph(model.eval())
    graph.add(qg.ShiftBlock("both", (qg.Leg("plus"), qg.Leg("minus"))))
    (entry,) = graph.verify((torch.ones(3),)).entries
    assert entry.control is not None
    assert entry.control > 0.1
    assert entry.status == "passed"


def test_the_point_close_by_does_not_depend_on_the_gauge():
    """A perturbation in raw coordinates would be enormous in an ill-conditioned gauge."""
    model = tiny(biases="qo").double()
    graph = graph_of(model)
    probe = Probe(model, token_batch(), None)

    def at(params: dict[str, Tensor]) -> Trial:
        return Trial(graph, probe, 0, params)

    here = at(raised(dict(graph.parameters)))
    elements = random_elements(graph, torch.Generator().manual_seed(1), 1e4)
    there = at(act(graph, here.base, elements))
    one, other = here.nearby(), there.nearby()
    scale = here.reference["output"].abs().max()
    assert (one.reference["output"] - here.reference["output"]).abs().max() > 1e-4 * scale
    assert (one.reference["output"] - other.reference["output"]).abs().max() < 1e-9 * scale
    for stack in graph.stacks():
        for before, after in zip(stack.read(here.base), stack.read(one.base), strict=True):
            relative = (after - before).norm(dim=(1, 2)) / before.norm(dim=(1, 2))
            assert bool(((relative > NEARBY / 10) & (relative < 10 * NEARBY)).all())


def test_weights_that_are_exactly_zero_and_not_in_a_block_stay_zero():
    model = tiny()
    with torch.no_grad():
        model.head.weight[3] = 0.0
    graph = graph_of(model)
    trial = Trial(graph, Probe(model, token_batch(), None), 0, raised(dict(graph.parameters)))
    near = trial.nearby().base["head.weight"]
    assert not bool(near[3].any())
    ratio = near[:3] / model.head.weight[:3].double()
    assert float((ratio - 1).abs().max().detach()) <= NEARBY
    assert float((ratio - 1).abs().max().detach()) > NEARBY / 2


def test_a_group_that_is_right_only_up_to_scale_is_found():
    """Elements of determinant one alone would not tell GL(2) from SL(2)."""
    model = nn.Module()
    model.a, model.b = nn.Parameter(torch.eye(2)), nn.Parameter(torch.tensor([[1.0, 2.0], [0.5, 3.0]]))
    model.forward = lambda x: (model.a @ model.b.mT + torch.linalg.det(model.a)) @ x
    graph = qg.SymmetryGraph(model.eval())
    graph.add(qg.PairBlock("sl", qg.GL(2), (qg.Leg("a", axis=1),), (qg.Leg("b", axis=1),)))
    elements = random_elements(graph, torch.Generator().manual_seed(0), 10.0)
    assert float(torch.linalg.det(elements["sl"][0])) == pytest.approx(1.0)
    assert [entry.status for entry in graph.verify((torch.ones(2),)).entries] == ["failed"]


def test_reasons_say_what_failed_where():
    entry = BlockVerification("b", "", 1e-3, 1.0, "failed", 0)
    assert entry.reason == "the outputs change by 1.0e-03 (relative) under a random element of its group"
    assert replace(entry, special=True).reason.startswith("at weights 1% away from the given ones, though not at them,")
    assert replace(entry, status="passed").reason == ""
