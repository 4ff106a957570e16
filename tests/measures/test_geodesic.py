"""Geodesic sharpness end to end on tiny models: invariance, outcomes, refusals, and that nothing is touched."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, BlockError, ModeError, SymmetryError, UnknownArchitectureError
from tests.helpers.graphs import graph_of
from tests.helpers.losses import masked_batch, masked_loss, tiny_batch, tiny_loss
from tests.helpers.models import hugging_face, tiny
from tests.helpers.orbit import CONTROLS, GEODESIC, orbit_table


def snapshot(model):
    return {name: t.detach().clone() for name, t in model.state_dict().items()}, [id(p) for p in model.parameters()]


def assert_untouched(model, before):
    tensors, identities = before
    assert [id(p) for p in model.parameters()] == identities
    for name, t in model.state_dict().items():
        assert torch.equal(t, tensors[name]), name
    assert all(p.grad is None for p in model.parameters())
    assert not model._forward_hooks
    assert not any(m._forward_pre_hooks for m in model.modules())


class TestOrbit:
    def test_float64(self, trained_like):
        model, batch = trained_like
        rows = orbit_table(
            model,
            masked_loss,
            [batch],
            dtype=torch.float64,
            measures=GEODESIC,
            rhos=[0.3],
            conditions=[10, 1000],
            steps=4,
            starts=2,
        )
        for row in rows:
            assert max(row.changes.values()) <= 1e-8, str(row)

    def test_the_controls_show(self, trained_like):
        model, batch = trained_like
        rows = orbit_table(
            model,
            masked_loss,
            [batch],
            dtype=torch.float64,
            measures=CONTROLS,
            rhos=[0.05],
            conditions=[1, 10, 1000],
            steps=6,
        )
        adaptive, euclidean = rows
        # a tiny untrained model, dominated by its head; on the trained checkpoints the changes are far larger
        assert adaptive.changes[10] > 0.02, str(adaptive)
        assert euclidean.changes[1000] > 0.05, str(euclidean)
        assert euclidean.changes[1] < 1e-8, str(euclidean)

    def test_float32(self, trained_like):
        model, batch = trained_like
        rows = orbit_table(
            model,
            masked_loss,
            [batch],
            dtype=torch.float32,
            measures=GEODESIC,
            rhos=[0.05, 0.3],
            conditions=[10],
            steps=4,
        )
        for row in rows:
            allowed = 1e-4 * row.value + 8 * torch.finfo(torch.float32).eps * row.loss
            assert row.changes[10] * row.value <= allowed, str(row)

    def test_translations_of_the_biases_do_not_matter_either(self, trained_like):
        model, batch = trained_like
        model = copy.deepcopy(model).double()
        moved = copy.deepcopy(model)
        moved.load_state_dict(qg.symmetry_graph(model).move(seed=1, condition=10.0, translations=1.0))
        values = [qg.sharpness(m, masked_loss, [batch], steps=5, rho=0.1).value for m in (model, moved)]
        assert values[0] == pytest.approx(values[1], rel=1e-8)


class TestNothingIsTouched:
    def test_after_success(self, trained_like):
        model, batch = trained_like
        before = snapshot(model)
        assert qg.sharpness(model, masked_loss, [batch], steps=2).ok
        assert_untouched(model, before)

    @pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
    @pytest.mark.parametrize("when", [1, 4, 9])
    def test_after_an_exception(self, trained_like, trouble, when):
        model, batch = trained_like
        before = snapshot(model)
        calls = 0

        def failing(model, batch):
            nonlocal calls
            calls += 1
            result = masked_loss(model, batch)
            if calls > when:
                raise trouble("stop")
            return result

        with pytest.raises(trouble):
            qg.sharpness(model, failing, [batch], steps=20)
        assert calls == when + 1
        assert_untouched(model, before)


class TestOutcomes:
    def test_a_nan_in_the_weights(self):
        model = hugging_face("BertForMaskedLM").double()
        with torch.no_grad():
            model.cls.predictions.transform.dense.weight[0, 0] = math.nan
        batch = masked_batch(model)
        for measure in ("geodesic", "adaptive", "euclidean"):
            result = qg.sharpness(model, masked_loss, [batch], measure=measure, steps=2)
            assert result.outcome == "non_finite_loss"
            assert math.isnan(result.value)

    def test_all_labels_masked(self, trained_like):
        model, batch = trained_like
        result = qg.sharpness(
            model, masked_loss, [{**batch, "labels": torch.full_like(batch["labels"], -100)}], steps=2
        )
        assert result.outcome == "non_finite_loss"
        assert "batch 0" in result.detail
        assert "masked" in result.detail

    def test_an_overflow_inside_the_ball(self):
        model = tiny().double()

        def exploding(model, batch):
            loss, count = tiny_loss(model, batch)
            drift = (model.head.weight - head).square().sum()
            return loss * torch.exp(1e6 * drift), count

        head = model.head.weight.detach().clone()
        result = qg.sharpness(model, exploding, [tiny_batch()], rho=0.5, steps=3, graph=graph_of(model))
        assert result.outcome == "non_finite_loss"
        assert "overflows" in result.detail
        assert result.value != 0

    def test_a_head_without_full_rank_is_named(self):
        model = tiny().double()
        with torch.no_grad():
            model.layers[1].q_proj.weight[5] = model.layers[1].q_proj.weight[4]
            model.layers[1].q_proj.bias[5] = model.layers[1].q_proj.bias[4]
        result = qg.sharpness(model, tiny_loss, [tiny_batch()], steps=2, graph=graph_of(model))
        assert result.outcome == "rank_deficient"
        assert "layers.1.head1" in result.detail
        assert math.isnan(result.value)

    def test_a_collapsing_mixed_geodesic_is_named(self):
        model = tiny(layers=1).double()
        with torch.no_grad():  # tiny singular values: the domain of the mixed metric ends at s_h / sqrt(2)
            for layer in model.layers:
                layer.q_proj.weight.mul_(1e-3)
                layer.q_proj.bias.mul_(1e-3)
        result = qg.sharpness(model, tiny_loss, [tiny_batch()], metric="mixed", rho=3.0, steps=2, graph=graph_of(model))
        assert result.outcome in ("geodesic_collapsed", "geodesic_inaccurate"), result.detail
        assert math.isnan(result.value)


class TestFalseSymmetries:
    def test_gl_under_rope_is_refused_and_can_be_left_out(self):
        model = tiny(rotary=4, biases="").double()
        graph = graph_of(model)
        with pytest.raises(SymmetryError, match=r"layers\.0\.head0"):
            qg.sharpness(model, tiny_loss, [tiny_batch()], steps=2, graph=graph)
        with pytest.warns(UserWarning, match="do not hold"):
            result = qg.sharpness(model, tiny_loss, [tiny_batch()], steps=2, graph=graph, unverified="exclude")
        assert result.ok
        excluded = [name for name in result.left_out if "head" in name]
        assert len(excluded) == 4  # query-key of two heads in two layers
        assert not set(excluded) & set(result.per_block)
        assert {"layers.0.q_proj.weight", "layers.0.k_proj.weight"} <= set(result.per_block)

    def test_an_unknown_architecture_is_named(self):
        with pytest.raises(UnknownArchitectureError, match="q_proj"):
            qg.sharpness(tiny(), tiny_loss, [tiny_batch()], steps=1)

    def test_a_graph_of_another_model_is_refused(self):
        with pytest.raises(BlockError, match="another model"):
            qg.sharpness(tiny(), tiny_loss, [tiny_batch()], graph=graph_of(tiny()))

    def test_a_random_loss_is_noticed(self):
        model = tiny(dropout=0.3)
        model.layers[0].dropout.train()
        with pytest.raises(ModeError, match=r"layers\.0\.dropout"):
            qg.sharpness(model, tiny_loss, [tiny_batch()], graph=graph_of(model))


class TestTheCall:
    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"rho": 0}, "rho"),
            ({"rho": math.nan}, "rho"),
            ({"rho": math.inf}, "rho"),
            ({"rho": -1}, "rho"),
            ({"rho": 1e39}, "rho"),
            ({"rho": True}, "rho"),
            ({"steps": 0}, "steps"),
            ({"steps": 1.5}, "steps"),
            ({"steps": np.int64(3)}, "steps"),
            ({"geodesic": 2.0}, "geodesic"),
            ({"measure": torch.ones(2)}, "measure"),
            ({"starts": 0}, "starts"),
            ({"seed": -1}, "seed"),
            ({"measure": "sharp"}, "measure"),
            ({"metric": "euclid"}, "metric"),
            ({"geodesic": 5}, "geodesic"),
            ({"geodesic": True}, "geodesic"),
            ({"symmetries": "all"}, "symmetries"),
            ({"micro_batch_size": 0}, "micro_batch_size"),
        ],
    )
    def test_nonsense_is_refused_before_any_work(self, wrong, words):
        def never(model, batch):
            pytest.fail("the loss was called")

        with pytest.raises(ArgumentError, match=words):
            qg.sharpness(tiny(), never, [tiny_batch()], **wrong)

    def test_progress_is_told_every_step(self, trained_like):
        model, batch = trained_like
        events = []
        qg.sharpness(model, masked_loss, [batch, batch], steps=3, starts=2, progress=events.append)
        assert len(events) == 2 * 2 * 3
        assert events[-1] == {"batch": 1, "batches": 2, "start": 1, "starts": 2, "step": 3, "steps": 3}

    def test_a_hugging_face_model_can_bring_its_own_loss(self, trained_like):
        model, batch = trained_like
        model = copy.deepcopy(model).double()
        own = qg.sharpness(model, None, [batch], steps=4)
        ours = qg.sharpness(model, masked_loss, [batch], steps=4)
        assert own.value == pytest.approx(ours.value, rel=1e-9)

    def test_half_precision_is_raised_and_said_so(self, trained_like):
        model, batch = trained_like
        half = copy.deepcopy(model).to(torch.bfloat16)
        result = qg.sharpness(half, masked_loss, [batch], steps=3, rho=0.3)
        assert result.ok, result.detail
        assert result.definitions["dtype"] == "float32"
        assert result.definitions["stored_dtypes"] == ["bfloat16"]
        assert any("raised" in note for note in result.notes)
        same = qg.sharpness(copy.deepcopy(half).float(), masked_loss, [batch], steps=3, rho=0.3)
        assert result.value == pytest.approx(same.value, rel=1e-6)

    def test_a_value_below_the_resolution_is_marked(self, trained_like):
        model, batch = trained_like
        result = qg.sharpness(model, masked_loss, [batch], steps=2, rho=1e-9)
        assert any("rounding" in note for note in result.notes)
