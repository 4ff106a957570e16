"""Weights that are not finite load, for the measure to name; weights of 8 bits do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import quotientgeo as qg
from quotientgeo.errors import CheckpointError
from quotientgeo.model.checkpoint import load_checkpoint
from tests.helpers.models import hf_batch, hugging_face

pytest.importorskip("transformers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hugging_face("BertForMaskedLM").save_pretrained(tmp_path)
    return tmp_path


def change_weights(folder: Path, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("tied", [False, True])
def test_a_weight_that_is_no_number_loads_and_is_an_outcome_of_the_measure(folder, tied):
    table = "bert.embeddings.word_embeddings.weight"

    def break_one(tensors):
        tensors[table][3, 0] = float("nan")
        if tied:  # the same value under both names: NaN is the same as NaN
            tensors["cls.predictions.decoder.weight"] = tensors[table].clone()

    change_weights(folder, break_one)
    loaded = load_checkpoint(folder)
    assert loaded.bert.embeddings.word_embeddings.weight.isnan().sum() == 1
    batch = hf_batch(loaded)
    batch["labels"] = batch["input_ids"]
    assert qg.sharpness(loaded, None, [batch], steps=1).outcome in ("non_finite_loss", "non_finite_weights")
    if tied:
        change_weights(folder, lambda t: t[table].__setitem__((4, 0), float("nan")))
        with pytest.raises(CheckpointError, match="stored with different values, but the model ties them"):
            load_checkpoint(folder)


def test_a_pair_that_is_no_number_is_an_outcome_of_the_measure(folder):
    change_weights(folder, lambda t: t["bert.encoder.layer.1.attention.self.query.weight"].fill_(float("nan")))
    loaded = load_checkpoint(folder)
    batch = hf_batch(loaded)
    batch["labels"] = batch["input_ids"]
    assert qg.sharpness(loaded, None, [batch], steps=1).outcome in ("non_finite_loss", "non_finite_weights")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("tied", [False, True])
def test_weights_of_8_bits_are_refused_by_name(folder, dtype, tied):
    table = "bert.embeddings.word_embeddings.weight"

    def narrow(tensors):
        tensors[table] = tensors[table].to(dtype)
        if tied:
            tensors["cls.predictions.decoder.weight"] = tensors[table].clone()

    change_weights(folder, narrow)
    with pytest.raises(CheckpointError, match=rf"weight' is stored in {dtype}, and weights of 8 bits .* not read yet"):
        load_checkpoint(folder)
