"""Which parameters take part in a measure, and in which precision."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import BlockError
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.measures.ascent import start_seed
from tests.helpers.graphs import graph_of
from tests.helpers.losses import masked_batch, masked_loss, tiny_batch, tiny_loss
from tests.helpers.models import hugging_face, tiny


class TestWhatTakesPart:
    def test_every_scalar_parameter_is_accounted_for(self, trained_like):
        model, batch = trained_like
        result = qg.sharpness(model, masked_loss, [batch], steps=2)
        graph = qg.symmetry_graph(model)
        blocks = {block.name for block in graph.blocks}
        assert blocks <= set(result.per_block)
        rest = {name for name in graph.parameters if bool(graph.rest_mask(name).any())}
        assert rest <= set(result.per_block) | set(result.left_out)
        assert set(result.frozen) == {name for name in graph.parameters if name.endswith(("key.bias", "value.bias"))}
        for key in ("norm_share", "gain_share"):
            assert sum(shares[key] for shares in result.per_block.values()) == pytest.approx(1, abs=1e-6)

    def test_unused_parameters_are_reported(self):
        model = tiny().double()
        model.spare = nn.Linear(3, 3).double()
        model.eval()
        result = qg.sharpness(model, tiny_loss, [tiny_batch()], steps=2, starts=2, graph=graph_of(model))
        assert result.left_out == dict.fromkeys(["spare.bias", "spare.weight"], "no gradient of the loss reaches it")

    def test_frozen_parameters_do_not_move(self):
        """A user who froze the embeddings and one whole projection measures the sharpness of what is trained."""
        model = tiny().double()
        model.embed.weight.requires_grad_(False)
        model.layers[0].k_proj.requires_grad_(False)
        seen = []

        def watching(model, batch):
            seen.append((model.embed.weight.detach().clone(), model.layers[0].k_proj.weight.detach().clone()))
            return tiny_loss(model, batch)

        result = qg.sharpness(model, watching, [tiny_batch()], steps=3, starts=2, graph=graph_of(model))
        assert result.ok, result.detail
        measured = seen[-6:]  # the first calls are the verification's, which moves everything on purpose
        assert all(torch.equal(embed, measured[0][0]) for embed, _ in measured)
        assert all(torch.equal(key, model.layers[0].k_proj.weight) for _, key in measured)
        assert result.left_out["embed.weight"] == "requires_grad is False"
        dropped = [name for name in result.left_out if name.startswith("layers.0.head") and name.endswith("qk")]
        assert len(dropped) == 2, result.left_out
        assert "layers.0.q_proj.weight" in result.per_block  # it joins the rest

    @pytest.mark.parametrize("measure", ["geodesic", "adaptive"])
    def test_memory_that_the_model_holds_twice_is_one_parameter(self, measure):
        """Two Parameter objects on one storage move together, and count once, as one tied Parameter does."""
        tied, shared = tiny(tied=True).double(), tiny(tied=True).double()
        shared.head.weight = nn.Parameter(shared.embed.weight.detach())
        assert len(list(shared.parameters())) == len(list(tied.parameters())) + 1
        values = [
            qg.sharpness(m, tiny_loss, [tiny_batch()], measure=measure, steps=4, starts=2, graph=graph_of(m)).value
            for m in (tied, shared)
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-12)

    def test_a_model_without_parameters_is_refused(self):
        with pytest.raises(BlockError, match="no parameters"):
            qg.sharpness(nn.Identity().eval(), tiny_loss, [tiny_batch()], measure="adaptive")

    def test_measure_names_and_symmetries_none(self, trained_like):
        model, batch = trained_like
        by_name = qg.sharpness(model, masked_loss, [batch], measure="adaptive", steps=3)
        as_geodesic = qg.sharpness(model, masked_loss, [batch], symmetries="none", geodesic=1, steps=3)
        assert by_name.value == as_geodesic.value
        assert not as_geodesic.frozen

    def test_memory_held_twice_is_frozen_under_either_name(self):
        model = tiny(tied=True).double()
        model.head.weight = nn.Parameter(model.embed.weight.detach(), requires_grad=False)
        result = qg.sharpness(model, tiny_loss, [tiny_batch()], measure="adaptive", steps=2)
        assert result.left_out == {"embed.weight": "requires_grad is False"}

    def test_an_integer_parameter_is_left_out(self):
        model = tiny().double()
        model.scale = nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)
        for measure in ("adaptive", "geodesic"):
            result = qg.sharpness(
                model, tiny_loss, [tiny_batch()], measure=measure, steps=2, starts=2, graph=graph_of(model)
            )
            assert result.ok
            assert "int64" in result.left_out["scale"]

    def test_a_shift_of_several_vectors_needs_all_of_them_trained(self):
        """t enters two biases at once: with one of them frozen the other is not free."""

        class Sum(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.table = nn.Embedding(13, 13)
                self.plus, self.minus = nn.Parameter(torch.randn(13)), nn.Parameter(torch.randn(13))

            def forward(self, ids):
                return self.table(ids) + self.plus - self.minus

        model = Sum().double().eval()
        graph = qg.SymmetryGraph(model)
        graph.add(qg.ShiftBlock("both", (qg.Leg("plus"), qg.Leg("minus"))))
        assert qg.sharpness(model, tiny_loss, [tiny_batch()], steps=2, graph=graph).frozen
        model.minus.requires_grad_(False)
        result = qg.sharpness(model, tiny_loss, [tiny_batch()], steps=2, graph=graph)
        assert not result.frozen
        assert "requires_grad" in result.left_out["both"]
        assert "plus" in result.per_block

    def test_a_geometry_of_its_own_is_refused_not_ignored(self):
        block = graph_of(tiny()).blocks[0]
        with pytest.raises(BlockError, match=r"what qg.derive\(symmetry, metric\) returned, got 'my own metric'"):
            dataclasses.replace(block, geometry="my own metric")


class TestPrecision:
    @pytest.mark.parametrize("metric", ["invariant", "mixed"])
    def test_an_outer_autocast_does_not_reach_the_geometry(self, metric):
        model = tiny()

        def exact_loss(model, batch):
            with torch.autocast("cpu", enabled=False):
                return tiny_loss(model, batch)

        settings = {"metric": metric, "steps": 4, "rho": 0.3, "graph": graph_of(model)}
        plain = qg.sharpness(model, exact_loss, [tiny_batch()], **settings)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = qg.sharpness(model, exact_loss, [tiny_batch()], **settings)
            assert torch.is_autocast_enabled("cpu")
        assert inside.batches == plain.batches

    def test_a_loss_that_turns_nan_when_the_geodesic_is_refined_has_no_value(self, monkeypatch):
        model = tiny().double()
        graph = graph_of(model)
        finished = []

        def poisoned(model, batch):
            total, count = tiny_loss(model, batch)
            return (total * math.nan if finished else total), count

        real = PairGeometry.settled_steps

        def refine(self, z, names=None):
            finished.append(True)
            return 2 * real(self, z, names)

        monkeypatch.setattr(PairGeometry, "settled_steps", refine)
        result = qg.sharpness(model, poisoned, [tiny_batch()], metric="mixed", steps=2, graph=graph)
        assert result.outcome == "non_finite_loss"
        assert math.isnan(result.value)

    def test_a_model_whose_parameters_were_replaced_needs_a_new_graph(self):
        model = tiny().double()
        graph = graph_of(model)
        model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
        with pytest.raises(BlockError, match="build the graph again"):
            qg.sharpness(model, tiny_loss, [tiny_batch()], steps=1, graph=graph)

    def test_many_seeds_and_starts(self):
        seeds = {
            start_seed(seed, batch, start) for seed in (0, 1, 2**62) for batch in range(3) for start in range(1200)
        }
        assert len(seeds) == 3 * 3 * 1200
        assert max(seeds) < 2**63
        model = tiny().double()
        assert qg.sharpness(model, tiny_loss, [tiny_batch()], measure="adaptive", steps=1, starts=2, seed=2**62).ok


def test_a_translation_whose_weight_is_in_no_block_is_folded_in_float64():
    """Its compensating weight is read in float64 too, though no block holds it."""
    model = hugging_face("BertForMaskedLM")
    graph = qg.symmetry_graph(model)
    values = {block.name for block in graph.blocks if block.kind == "attention_vo"}
    part = graph.restricted_to([n.name for n in (*graph.blocks, *graph.shifts) if n.name not in values])
    assert qg.sharpness(model, masked_loss, [masked_batch(model)], graph=part, steps=2).ok
