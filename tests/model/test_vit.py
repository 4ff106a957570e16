"""ViT: what is a block, frozen and the rest; verification, orbits, a planted fault; timm's fused layout by hand."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import SymmetryError
from tests.helpers.models import hugging_face, image_batch, randomised
from tests.helpers.orbit import CONTROLS, GEODESIC, orbit_table
from tests.helpers.vision import FusedViT, classifier_loss, fused_graph, labelled_images, trained_vit

pytest.importorskip("transformers")
IMAGE_MODELS = ("ViTModel", "ViTForImageClassification", "DeiTForImageClassification", "Dinov2Model")


@pytest.mark.parametrize("bias", [True, False], ids=["qkv biases", "no qkv biases"])
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_blocks_with_and_without_biases(name, bias):
    model = hugging_face(name, qkv_bias=bias)
    graph = qg.symmetry_graph(model)
    pairs = {"attention_qk": 4, "attention_vo": 4}
    shifts = {"key_bias_translation": 4, "value_bias_fold": 4} if bias else {}
    coverage = graph.coverage()
    assert coverage.kinds == pairs | shifts
    assert graph.uncovered == ()
    assert coverage.block == 2 * (4 * 16 * 16 + 16 * bias)
    assert coverage.frozen == 2 * 2 * 16 * bias
    sizes = {
        (block.kind, *block.sizes({k: tuple(p.shape) for k, p in graph.parameters.items()})) for block in graph.blocks
    }
    assert sizes == {("attention_qk", 16 + bias, 16, 8), ("attention_vo", 16, 16, 8)}
    assert {(block.layer, block.head) for block in graph.blocks} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    report = graph.verify(image_batch())
    report.require()
    assert report.residual < 1e-13
    assert min(entry.control for entry in report.entries if entry.control is not None) > 1e-4


@pytest.mark.parametrize("pooler", [True, False])
def test_a_pooler_is_in_the_rest(pooler):
    import transformers

    config = hugging_face("ViTModel").config
    model = randomised(transformers.ViTModel(config, add_pooling_layer=pooler)).eval()
    graph = qg.symmetry_graph(model)
    graph.verify(image_batch()).require()
    assert ("pooler.dense.weight" in graph.parameters) == pooler
    if pooler:
        assert bool(graph.rest_mask("pooler.dense.weight").all())


@pytest.mark.parametrize("symmetries", ["attention", "paper", "none"])
@pytest.mark.parametrize("bias", [True, False])
def test_every_scalar_parameter_is_in_exactly_one_place(symmetries, bias):
    model = hugging_face("ViTForImageClassification", qkv_bias=bias)
    graph = qg.symmetry_graph(model, symmetries=symmetries)
    for name, p in graph.parameters.items():
        frozen = graph.frozen.get(name, (torch.zeros(p.shape, dtype=torch.bool), ""))[0]
        frozen = torch.ones(p.shape, dtype=torch.bool) if frozen is None else frozen
        places = graph.factor_mask(name).int() + frozen.int() + graph.rest_mask(name).int()
        assert torch.equal(places, torch.ones(p.shape, dtype=torch.int32)), name
    assert graph.coverage().total == sum(p.numel() for p in model.parameters())


def normed(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return nn.functional.normalize(output.unflatten(-1, (2, -1)), dim=-1).flatten(-2) * 3


@pytest.mark.parametrize("symmetries", ["attention", "paper"])
def test_a_vit_that_normalises_its_queries_is_refused(symmetries):
    """The architecture's rule is false for a model that was changed under it."""
    model = hugging_face("ViTForImageClassification")
    model.vit.layers[1].attention.q_proj.register_forward_hook(normed)
    report = qg.symmetry_graph(model, symmetries=symmetries).verify(image_batch())
    failed = {entry.name for entry in report.with_status("failed")}
    assert failed == {f"vit.layers.1.attention.head{k}.qk" for k in (0, 1)}
    assert min(entry.residual for entry in report.with_status("failed")) > 1e-4
    with pytest.raises(SymmetryError, match=r"vit\.layers\.1\.attention\.head0\.qk"):
        qg.sharpness(model, classifier_loss, [labelled_images()], steps=1, symmetries=symmetries)


def test_a_wrong_pairing_of_heads_is_refused():
    right = qg.symmetry_graph(hugging_face("ViTForImageClassification"), symmetries="paper")
    graph = qg.SymmetryGraph(right.model)
    first, second = (b for b in right.blocks if b.layer == 0 and b.kind == "attention_qk")
    graph.add(replace(first, H=second.H))
    graph.add(replace(second, H=first.H))
    assert [entry.status for entry in graph.verify(image_batch()).entries] == ["failed"] * 2


def test_one_patch_and_no_class_token_would_tell_nothing_but_a_class_token_does():
    """An image of one patch still has two tokens."""
    model = hugging_face("ViTModel", image_size=4)
    pixels = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    qg.symmetry_graph(model).verify({"pixel_values": pixels}).require()


@pytest.fixture(scope="module")
def trained():
    return trained_vit()


class TestOrbit:
    """The same function at other weights: geodesic sharpness stays, adaptive and Euclidean change."""

    def test_it_has_learned(self, trained):
        model, batch = trained
        with torch.no_grad():
            loss, count = classifier_loss(model, batch)
        assert loss / count < 1.0

    @pytest.mark.parametrize("symmetries", ["attention", "paper"])
    @pytest.mark.parametrize("which", ["trained", "random"])
    def test_geodesic_stays(self, trained, which, symmetries):
        model, batch = trained if which == "trained" else (hugging_face("ViTForImageClassification"), labelled_images())
        measures = [settings | {"symmetries": symmetries} for settings in GEODESIC]
        rows = orbit_table(
            model, classifier_loss, [batch], dtype=torch.float64, measures=measures, rhos=[0.1],
            conditions=[10, 1000], steps=4, starts=2,
        )  # fmt: skip
        for row in rows:
            assert max(row.changes.values()) <= 1e-8, str(row)
            assert row.value > 1e-4, str(row)

    def test_adaptive_and_euclidean_change(self, trained):
        model, batch = trained
        rows = orbit_table(
            model, classifier_loss, [batch], dtype=torch.float64, measures=CONTROLS, rhos=[0.1],
            conditions=[1, 10, 1000], steps=4,
        )  # fmt: skip
        adaptive, euclidean = rows
        assert adaptive.changes[10] > 0.01, str(adaptive)
        assert euclidean.changes[1000] > 0.05, str(euclidean)
        assert euclidean.changes[1] < 1e-8, str(euclidean)


class TestFusedLayout:
    """Fused maps need no rule of their own: legs are rows of one tensor."""

    @pytest.mark.parametrize("bias", [True, False])
    def test_blocks_by_hand_hold(self, bias):
        model = randomised(FusedViT(bias=bias)).eval()
        graph = fused_graph(model)
        graph.verify(image_batch()["pixel_values"]).require()
        coverage = graph.coverage()
        assert coverage.block == 2 * (4 * 8 * 8 + 8 * bias)
        assert coverage.frozen == 2 * 2 * 8 * bias
        assert len(graph.stacks()) == 1 + bias

    def test_sharpness_is_constant_on_its_orbit(self):
        model = randomised(FusedViT()).double().eval()
        batch = labelled_images()
        batch["pixel_values"] = batch["pixel_values"].double()
        moved = copy.deepcopy(model)
        moved.load_state_dict(fused_graph(model).move(seed=1, condition=100.0, translations=1.0))
        values = {
            measure: [
                qg.sharpness(m, plain_loss, [batch], measure=measure, rho=0.2, steps=4, graph=fused_graph(m)).value
                for m in (model, moved)
            ]
            for measure in ("geodesic", "adaptive")
        }
        assert values["geodesic"][1] == pytest.approx(values["geodesic"][0], rel=1e-8)
        assert abs(values["adaptive"][1] - values["adaptive"][0]) > 0.02 * values["adaptive"][0]

    def test_rows_of_the_wrong_part_are_refused(self):
        model = randomised(FusedViT()).eval()
        graph = qg.SymmetryGraph(model)
        q, v = (qg.Leg("blocks.0.qkv.weight", indices=range(start, start + 4)) for start in (0, 16))
        graph.add(qg.PairBlock("query with value", qg.GL(4), (q,), (v,)))
        assert graph.verify(image_batch()["pixel_values"]).with_status("failed")


def plain_loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
    logits = model(batch["pixel_values"])
    return nn.functional.cross_entropy(logits, batch["labels"], reduction="sum"), len(logits)
