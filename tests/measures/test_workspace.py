"""The parameters at z and the pullback of gradients, in place, against the differentiable map and automatic differentiation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from quotientgeo.measures import adaptive, geodesic
from quotientgeo.measures.ascent import BatchAscent
from quotientgeo.measures.movers import DifferentiatedMover, PairMover
from quotientgeo.measures.objective import Objective
from quotientgeo.measures.problem import raised
from quotientgeo.measures.tables import Table
from quotientgeo.model import inventory
from quotientgeo.model.graph import symmetry_graph
from tests.helpers.losses import masked_batch, masked_loss
from tests.helpers.models import hugging_face

RHO = 0.3
MODELS = ("BertForMaskedLM", "AlbertForMaskedLM")


def ascent_of(model, loss, batch, *, metric="invariant", how="exact", excluded=(), dtype=torch.float64, measure=None):
    if measure == "adaptive":
        problem = adaptive.build(model, dtype)
    else:
        problem = geodesic.build(
            model, dtype, symmetry_graph(model), metric=metric, geodesic=how, rho=RHO, excluded=excluded
        )
    parameters = raised(dict(model.named_parameters()), dtype)
    return BatchAscent(problem, Objective(model, loss, batch), model, parameters)


def compared(ascent, seed=3):
    """(in place, by differentiation) of the loss and its gradient at a random point of the sphere and at zero."""
    atlas = ascent.atlas
    for point in (atlas.random_point(torch.Generator().manual_seed(seed), RHO), atlas.zero()):
        value, gradient = ascent.value_and_gradient(point)
        leaf = point.clone().requires_grad_()
        parameters = atlas.parameters(leaf)
        expected, by_tensor = ascent.objective.value_and_gradient(parameters, ascent.workspace.names)
        pulled = [(parameters[name], g) for name, g in by_tensor.items() if g is not None]
        (dz,) = torch.autograd.grad([tensor for tensor, _ in pulled], leaf, [g for _, g in pulled])
        yield value, expected, gradient.clone(), dz
        assert torch.equal(ascent.value(point), value)


@pytest.mark.parametrize("how", ["exact", 1, 2, 3, 4])
@pytest.mark.parametrize("metric", ["invariant", "mixed"])
@pytest.mark.parametrize("kind", MODELS)
def test_values_and_gradients_are_those_of_the_differentiable_map(kind, metric, how):
    model = hugging_face(kind).double()
    ascent = ascent_of(model, masked_loss, masked_batch(model), metric=metric, how=how)
    assert any(isinstance(mover, PairMover) for mover in ascent.workspace._movers)
    for value, expected, gradient, dz in compared(ascent):
        torch.testing.assert_close(value, expected, rtol=1e-13, atol=0)
        torch.testing.assert_close(gradient, dz, rtol=1e-9, atol=1e-12)
        assert gradient.abs().max() > 1e-3


def test_a_wrong_pullback_is_seen(monkeypatch):
    """The comparison above can fail: without the projection onto normal directions it does."""
    model = hugging_face("BertForMaskedLM").double()
    ascent = ascent_of(model, masked_loss, masked_batch(model))
    real = torch.baddbmm
    monkeypatch.setattr(torch, "baddbmm", lambda *a, alpha=1, **k: a[0] if alpha == -1 else real(*a, alpha=alpha, **k))
    assert not all(torch.allclose(g, dz, rtol=1e-6, atol=1e-9) for _, _, g, dz in compared(ascent))


def test_a_block_left_to_the_rest_shares_its_tensors():
    """Two movers own entries of one weight: heads in blocks, and a head excluded, entry by entry."""
    model = hugging_face("BertForMaskedLM").double()
    graph = symmetry_graph(model)
    first = next(block.name for block in graph.blocks)
    ascent = ascent_of(model, masked_loss, masked_batch(model), excluded=(first,))
    *pairs, rest = ascent.workspace._movers
    assert {name for pair in pairs for name in pair.names} & set(rest.names)
    for value, expected, gradient, dz in compared(ascent):
        torch.testing.assert_close(value, expected, rtol=1e-13, atol=0)
        torch.testing.assert_close(gradient, dz, rtol=1e-9, atol=1e-12)


def test_adaptive_too():
    model = hugging_face("BertForMaskedLM").double()
    for value, expected, gradient, dz in compared(
        ascent_of(model, masked_loss, masked_batch(model), measure="adaptive")
    ):
        torch.testing.assert_close(value, expected, rtol=1e-13, atol=0)
        torch.testing.assert_close(gradient, dz, rtol=1e-9, atol=1e-12)


def test_nothing_is_written_into_the_model():
    model = hugging_face("BertForMaskedLM").double()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ascent = ascent_of(model, masked_loss, masked_batch(model))
    ascent.value_and_gradient(ascent.atlas.random_point(torch.Generator().manual_seed(0), RHO))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def extreme():
    """float32 weights so small that products of three leave its range."""
    model = hugging_face("BertForMaskedLM")
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.attention.self.query.weight.mul_(1e-9)
            layer.attention.self.query.bias.mul_(1e-9)
            layer.attention.self.key.weight.mul_(1e-9)
    return ascent_of(model, masked_loss, masked_batch(model), dtype=torch.float32)


def test_extreme_weights_go_by_differentiation():
    """The end points are those of the float64 path."""
    single = extreme()
    assert any(isinstance(mover, DifferentiatedMover) for mover in single.workspace._movers)
    for value, expected, gradient, dz in compared(single):
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(gradient, dz, rtol=1e-4, atol=1e-6)


class Reader(nn.Module):
    """Token embeddings, averaged and classified; ``around`` also reads the table's first row without the embedding."""

    def __init__(self, padding: int | None, around: bool = False):
        super().__init__()
        self.embed = nn.Embedding(40, 6, padding_idx=padding)
        self.head = nn.Linear(6, 3)
        self.around = around

    def forward(self, ids):
        x = self.embed(ids).tanh().mean(-2)
        return self.head(x + self.embed.weight[7].detach()) if self.around else self.head(x)


class Gated(Reader):
    """Reads its table a second time behind a gate that is closed at the weights."""

    def __init__(self, way: str):
        super().__init__(None)
        self.way, self.gate = way, nn.Parameter(torch.zeros(()))
        if way == "a subclass":
            self.embed.__class__ = type("Shifted", (nn.Embedding,), {"forward": lambda self, ids: self.weight[ids + 1]})

    def forward(self, ids):
        if self.way == "a subclass":
            return super().forward(ids)
        table = self.embed.weight.detach() if self.way == "detached" else self.embed.weight
        return super().forward(ids) + (self.gate * table[:7]).sum()


class Positions(nn.Embedding):
    def forward(self, shape):
        return super().forward(torch.arange(shape[-1]))


def reader_loss(model, batch):
    return nn.functional.cross_entropy(model(batch["ids"]), batch["labels"], reduction="sum"), len(batch["labels"])


IDS = {
    "without padding": torch.tensor([[3, 7, 9], [9, 30, 3]]),
    "with row 0": torch.tensor([[0, 7, 9], [9, 30, 3]]),
    "with row 2": torch.tensor([[2, 7, 9], [9, 30, 3]]),
}


class TestCompactTables:
    @pytest.fixture(autouse=True)
    def every_size(self, monkeypatch):
        monkeypatch.setattr(inventory, "LARGE_TABLE", 0)

    @pytest.mark.parametrize("padding", [None, 0, 2])
    @pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())
    def test_change_nothing(self, ids, padding, monkeypatch):
        torch.manual_seed(0)
        model = Reader(padding).double()
        batch = {"ids": ids, "labels": torch.tensor([0, 2])}
        compact = ascent_of(model, reader_loss, batch, measure="adaptive")
        assert set(compact.seen.tables) == {"embed.weight"}
        monkeypatch.setattr(inventory, "LARGE_TABLE", 1 << 40)
        dense = ascent_of(model, reader_loss, batch, measure="adaptive")
        assert not dense.seen.tables
        for z in (dense.atlas.zero(), dense.atlas.random_point(torch.Generator().manual_seed(1), RHO)):
            (a, g), (b, h) = compact.value_and_gradient(z), dense.value_and_gradient(z)
            torch.testing.assert_close(a, b, rtol=1e-14, atol=0)
            torch.testing.assert_close(g, h, rtol=1e-12, atol=1e-15)

    def test_a_padding_row_too_far_down_keeps_the_whole_table(self):
        assert Table.of(nn.Embedding(40, 6, padding_idx=30), torch.tensor([3, 7, 9])) is None
        assert Table.of(nn.Embedding(40, 6, padding_idx=3), torch.tensor([3, 7, 9])) is None
        table = Table.of(nn.Embedding(40, 6, padding_idx=2), torch.tensor([3, 7, 9]))
        assert table is not None
        assert table.rows.tolist() == [3, 7, 2, 9]

    def test_other_kinds_of_tables_are_kept_whole(self):
        read = torch.tensor([1, 2])
        assert Table.of(nn.Embedding(40, 6, max_norm=1.0), read) is None
        assert Table.of(nn.Embedding(40, 6, sparse=True), read) is None
        assert Table.of(nn.Embedding(3, 6), read) is None

    def test_a_table_that_is_read_around_its_embedding_is_kept_whole(self):
        """In the compact table row 7 is another, or none: the loss tells."""
        torch.manual_seed(0)
        model = Reader(None, around=True).double()
        for ids in IDS.values():
            ascent = ascent_of(model, reader_loss, {"ids": ids, "labels": torch.tensor([0, 2])}, measure="adaptive")
            assert not ascent.seen.tables

    @pytest.mark.parametrize("way", ["gated", "detached", "a subclass"])
    def test_a_second_use_that_does_not_show_at_the_weights(self, way):
        """Its part of the loss is zero there, with and without the right rows; in the ball it is not."""
        torch.manual_seed(0)
        model = Gated(way).double()
        ids = torch.tensor([[20, 21, 22], [30, 31, 32]])
        ascent = ascent_of(model, reader_loss, {"ids": ids, "labels": torch.tensor([0, 2])}, measure="adaptive")
        assert not ascent.seen.tables
        assert not ascent.seen.rows

    def test_an_embedding_that_is_called_with_something_else(self):
        """Some models call subclasses of nn.Embedding with masks or shapes."""
        torch.manual_seed(0)
        model = Reader(None).double()
        model.position = Positions(40, 6).double()
        plain = Reader.forward

        def forward(ids):
            return plain(model, ids) + model.position(ids.shape).sum()

        model.forward = forward
        ascent = ascent_of(
            model, reader_loss, {"ids": IDS["with row 0"], "labels": torch.tensor([0, 2])}, measure="adaptive"
        )
        assert set(ascent.seen.rows) == {"embed.weight"}

    def test_a_row_that_was_not_read_before_is_an_error(self):
        module = nn.Embedding(40, 6)
        table = Table.of(module, torch.tensor([3, 7]))
        assert table is not None
        handle = module.register_forward_pre_hook(table.look_up, with_kwargs=True)
        compact = {"weight": module.weight.detach()[table.rows]}
        assert torch.equal(torch.func.functional_call(module, compact, (torch.tensor([7]),))[0], module.weight[7])
        with pytest.raises(IndexError):
            torch.func.functional_call(module, compact, (torch.tensor([8]),))
        handle.remove()

    def test_no_hook_stays_behind(self):
        torch.manual_seed(0)
        model = Reader(None).double()
        batch = {"ids": IDS["without padding"], "labels": torch.tensor([0, 2])}

        def failing(model, batch):
            if model.embed.weight.shape[0] < 40:
                raise RuntimeError("stop")
            return reader_loss(model, batch)

        ascent = ascent_of(model, failing, batch, measure="adaptive")
        assert not ascent.seen.tables  # the loss fails on the compact table, so it is kept whole
        assert not model.embed._forward_pre_hooks
        ascent = ascent_of(model, reader_loss, batch, measure="adaptive")
        ascent.value_and_gradient(ascent.atlas.zero())
        assert not model.embed._forward_pre_hooks


def test_what_has_no_gradient_at_a_point_does_not_keep_an_older_one():
    """An expert that no token reaches, say: its part of dL/dz is zero there."""
    model = hugging_face("BertForMaskedLM").double()
    for ascent in (ascent_of(model, masked_loss, masked_batch(model)), extreme()):
        z = ascent.atlas.random_point(torch.Generator().manual_seed(0), RHO)
        assert ascent.value_and_gradient(z)[1].abs().max() > 0
        ascent.workspace.move(z)
        assert torch.equal(ascent.workspace.pull({}), torch.zeros_like(z))


def test_one_tensor_of_a_stack_without_gradient_counts_as_zero():
    model = hugging_face("BertForMaskedLM").double()
    ascent = ascent_of(model, masked_loss, masked_batch(model))
    z = ascent.atlas.random_point(torch.Generator().manual_seed(0), RHO)
    parameters = ascent.workspace.move(z)
    _, gradients = ascent.objective.value_and_gradient(parameters, ascent.workspace.names)
    missing = next(name for name in gradients if name.endswith("key.weight"))
    found = []
    for replacement in (None, torch.zeros_like(parameters[missing])):
        ascent.workspace.move(z)
        found.append(ascent.workspace.pull({**gradients, missing: replacement}).clone())
    assert torch.equal(*found)
