"""Folders in the layouts that transformers has renamed since load under the names in memory; anything more is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from quotientgeo.errors import CheckpointError
from quotientgeo.model.checkpoint import load_checkpoint, load_weights, model_digest
from tests.helpers.models import hugging_face

transformers = pytest.importorskip("transformers")

OLD = "vit.encoder.layer.1.attention.attention.query.weight"
NEW = "vit.layers.1.attention.q_proj.weight"


@pytest.fixture
def model() -> nn.Module:
    return hugging_face("ViTForImageClassification")


def test_a_vit_loads_from_the_layout_that_transformers_writes(model, tmp_path):
    model.save_pretrained(tmp_path)
    assert OLD in load_file(tmp_path / "model.safetensors"), "the two layouts agree now: this test has lost its object"
    loaded = load_checkpoint(tmp_path)
    assert model_digest(loaded) == model_digest(model)
    assert loaded.load_report.renamed[OLD] == NEW
    pixels = torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(loaded(pixels).logits, model(pixels).logits)
        theirs = type(model).from_pretrained(tmp_path).eval()
        assert torch.equal(loaded(pixels).logits, theirs(pixels).logits)


@pytest.mark.parametrize("wrapper", ["", "module.", "_orig_mod."])
@pytest.mark.parametrize("layout", ["old", "new"])
def test_either_layout_may_be_wrapped(model, tmp_path, wrapper, layout):
    model.save_pretrained(tmp_path)
    old = load_file(tmp_path / "model.safetensors")
    tensors = old if layout == "old" else dict(model.named_parameters())
    save_file({f"{wrapper}{n}": t.detach() for n, t in tensors.items()}, tmp_path / "model.safetensors")
    loaded = load_checkpoint(tmp_path)
    assert model_digest(loaded) == model_digest(model)
    assert bool(loaded.load_report.renamed) == (layout == "old" or wrapper != "")


@pytest.mark.parametrize("wrapper", ["", "module.", "_orig_mod."])
def test_a_module_that_is_called_as_a_wrapper_names_its_tensors_keeps_its_name(wrapper):
    model = nn.Module()
    model.module = nn.Linear(2, 2)
    stored = {f"{wrapper}module.{name}": torch.full_like(t, 2.0) for name, t in model.module.state_dict().items()}
    report = load_weights(model, stored)
    assert set(report.renamed) == (set(stored) if wrapper else set())
    assert bool((model.module.weight == 2.0).all())


def test_a_missing_tensor_is_named_as_in_memory_and_a_stray_one_as_stored(model, tmp_path):
    def without(part: str, **more: torch.Tensor) -> Path:
        model.save_pretrained(tmp_path)
        tensors = load_file(tmp_path / "model.safetensors")
        save_file({n: t for n, t in tensors.items() if part not in n} | more, tmp_path / "model.safetensors")
        return tmp_path

    with pytest.raises(CheckpointError, match=r"missing \(1\): vit.layers.1.attention.q_proj.weight"):
        load_checkpoint(without(OLD))
    stray = {"vit.encoder.layer.9.attention.attention.query.weight": torch.zeros(16, 16)}
    with pytest.raises(CheckpointError, match=r"no place for stored tensors \(1\): vit.encoder.layer.9.attention.att"):
        load_checkpoint(without("nothing", **stray))
    both = {NEW: torch.zeros(16, 16)}
    with pytest.raises(CheckpointError, match=rf"two stored tensors are called '{NEW}'"):
        load_checkpoint(without("nothing", **both))


def test_a_pooler_that_the_class_lacks_is_ignored_and_said_so(tmp_path):
    hugging_face("ViTModel").save_pretrained(tmp_path)
    loaded = load_checkpoint(tmp_path)
    assert loaded.pooler is not None
    tensors = load_file(tmp_path / "model.safetensors")
    stored = {f"vit.{name}": tensor for name, tensor in tensors.items()}
    stored |= {"classifier.weight": torch.zeros(2, 16), "classifier.bias": torch.zeros(2)}
    save_file(stored, tmp_path / "model.safetensors")
    classifier = load_checkpoint(tmp_path, transformers.ViTForImageClassification)
    assert classifier.load_report.ignored == ("vit.pooler.dense.bias", "vit.pooler.dense.weight")


def test_layouts_that_are_more_than_renamed_are_refused(tmp_path):
    """SwiGLU weights of DINOv2 are stored fused: by name alone they would never fit, or fit wrongly."""
    hugging_face("Dinov2Model", use_swiglu_ffn=True).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"mlp.weights_in.* splits, merges or transposes .*from_pretrained"):
        load_checkpoint(tmp_path)
    plain = hugging_face("Dinov2Model")
    plain.save_pretrained(tmp_path)
    assert model_digest(load_checkpoint(tmp_path)) == model_digest(plain)
