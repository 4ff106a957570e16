"""Checkpoints load completely or not at all, and nothing stored in them runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import CheckpointError
from quotientgeo.model.checkpoint import load_checkpoint, load_weights, model_digest
from tests.helpers.models import hf_batch, hugging_face, tiny, token_batch

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return hugging_face("BertForMaskedLM")


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A copy of a sound checkpoint, to be damaged."""
    return Path(shutil.copytree(saved, tmp_path / "checkpoint"))


def change_weights(folder: Path, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def as_bin(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def as_shards(folder: Path, kind: str = "safetensors") -> dict[str, str]:
    """Two shards and their index; returns the weight map."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    stem = "model" if kind == "safetensors" else "pytorch_model"
    where = {name: f"{stem}-0000{1 + i % 2}-of-00002.{kind}" for i, name in enumerate(sorted(tensors))}
    for shard in set(where.values()):
        part = {name: tensors[name] for name in tensors if where[name] == shard}
        if kind == "safetensors":
            save_file(part, folder / shard)
        else:
            torch.save(part, folder / shard)
    (folder / f"{stem}.{kind}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return where


@pytest.mark.parametrize("layout", ["safetensors", "bin", "sharded safetensors", "sharded bin"])
def test_every_layout_loads_the_same_model(folder, model, layout):
    if layout == "bin":
        as_bin(folder)
    elif layout.startswith("sharded"):
        as_shards(folder, layout.split()[1])
    state = torch.random.get_rng_state()
    loaded = qg.load_checkpoint(folder)
    assert torch.equal(torch.random.get_rng_state(), state), "building the model moved the global random state"
    assert type(loaded) is type(model)
    assert not any(module.training for module in loaded.modules())
    assert model_digest(loaded) == model_digest(model)
    with torch.no_grad():
        assert torch.equal(loaded(**hf_batch(model)).logits, model(**hf_batch(model)).logits)
    assert loaded.load_report.ignored == ()
    assert loaded.load_report.notes() == []
    assert len(loaded.load_report.files) == (2 if layout.startswith("sharded") else 1)


def test_ties_are_kept_and_need_one_of_the_names(folder, model):
    names = load_file(folder / "model.safetensors").keys()
    assert "cls.predictions.decoder.weight" not in names, "a fault in the test: the tie is stored twice"
    loaded = load_checkpoint(folder)
    assert loaded.cls.predictions.decoder.weight is loaded.bert.embeddings.word_embeddings.weight
    assert len(qg.symmetry_graph(loaded).parameters) == len(list(model.parameters()))


def test_a_tie_stored_with_two_values_is_refused(folder):
    def untie(tensors):
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"] + 1

    change_weights(folder, untie)
    with pytest.raises(
        CheckpointError, match=r"decoder.weight' are stored with different values, but the model ties them"
    ):
        load_checkpoint(folder)
    change_config(folder, tie_word_embeddings=False)
    change_weights(folder, lambda t: t.update({"cls.predictions.decoder.bias": t["cls.predictions.bias"].clone()}))
    loaded = load_checkpoint(folder)
    assert not torch.equal(loaded.cls.predictions.decoder.weight, loaded.bert.embeddings.word_embeddings.weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_raised_to_float32_and_recorded(folder, dtype):
    change_weights(folder, lambda t: t.update({name: x.to(dtype) for name, x in t.items()}))
    change_config(folder, dtype=str(dtype).removeprefix("torch."))
    loaded = load_checkpoint(folder)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    (count,) = loaded.load_report.raised.values()
    assert count == len(load_file(folder / "model.safetensors"))
    assert f"{count} tensors were stored in {str(dtype).removeprefix('torch.')}" in loaded.load_report.notes()[0]
    stored = load_file(folder / "model.safetensors")["bert.embeddings.word_embeddings.weight"]
    assert torch.equal(loaded.bert.embeddings.word_embeddings.weight, stored.float())


def test_double_precision_is_kept(folder):
    change_weights(folder, lambda t: t.update({name: x.double() + 1e-12 for name, x in t.items()}))
    loaded = load_checkpoint(folder)
    assert {p.dtype for p in loaded.parameters()} == {torch.float64}
    stored = load_file(folder / "model.safetensors")["bert.embeddings.word_embeddings.weight"]
    assert torch.equal(loaded.bert.embeddings.word_embeddings.weight, stored)


def test_a_missing_tensor_is_refused_and_named(folder):
    change_weights(folder, lambda t: t.pop("bert.encoder.layer.1.attention.self.key.bias"))
    with pytest.raises(CheckpointError, match=r"missing \(1\): bert.encoder.layer.1.attention.self.key.bias"):
        load_checkpoint(folder)


def test_a_base_model_without_its_head_is_refused(folder):
    change_config(folder, architectures=["BertForSequenceClassification"])
    with pytest.raises(
        CheckpointError, match=r"BertForSequenceClassification has no place for .*: cls.predictions.bias"
    ):
        load_checkpoint(folder)
    change_weights(folder, lambda t: [t.pop(name) for name in list(t) if name.startswith("cls.")])
    with pytest.raises(CheckpointError, match=r"missing \(4\): bert.pooler.dense.weight, .*, classifier.bias"):
        load_checkpoint(folder)
    change_config(folder, architectures=["BertForMaskedLM"])
    with pytest.raises(CheckpointError, match=r"missing \(6\): cls"):
        load_checkpoint(folder)


def test_unexpected_tensors_are_refused_unless_named(folder):
    change_weights(folder, lambda t: t.update({"bert.extra.weight": torch.ones(2), "other": torch.ones(1)}))
    with pytest.raises(
        CheckpointError, match=r"BertForMaskedLM has no place for stored tensors \(2\): bert.extra.weight, other"
    ):
        load_checkpoint(folder)
    with pytest.raises(CheckpointError, match=r"has no place for stored tensors \(1\): other"):
        load_checkpoint(folder, ignore_unexpected=("bert.extra.*",))
    loaded = load_checkpoint(folder, ignore_unexpected=("*extra*", "other"))
    assert loaded.load_report.ignored == ("bert.extra.weight", "other")
    assert "ignored: bert.extra.weight, other" in loaded.load_report.notes()[0]


def test_known_leftovers_of_a_family_and_own_buffers_are_ignored_and_recorded(folder):
    extra = {
        "bert.pooler.dense.weight": torch.ones(16, 16),
        "cls.seq_relationship.bias": torch.ones(2),
        "bert.embeddings.position_ids": torch.arange(24)[None],
    }
    change_weights(folder, lambda t: t.update(extra))
    assert load_checkpoint(folder).load_report.ignored == tuple(sorted(extra))


@pytest.mark.parametrize(
    "name", ["xpooler.y", "bert.xpooler.dense.weight", "bert.encoder.pooler.dense.weight", "pooler.layers.5.weight"]
)
def test_a_leftover_is_known_by_its_whole_name(folder, name):
    change_weights(folder, lambda t: t.update({name: torch.ones(16)}))
    with pytest.raises(CheckpointError, match=rf"no place for stored tensors \(1\): {name}"):
        load_checkpoint(folder)


def test_a_wrong_shape_or_an_integer_tensor_is_refused(folder):
    change_weights(folder, lambda t: t.update({"cls.predictions.bias": torch.ones(28)}))
    with pytest.raises(CheckpointError, match=r"'cls.predictions.bias' has shape \(28,\), the model needs \(29,\)"):
        load_checkpoint(folder)
    change_weights(folder, lambda t: t.update({"cls.predictions.bias": torch.ones(29, dtype=torch.int8)}))
    with pytest.raises(CheckpointError, match=r"stored in torch.int8 \(quantised\?\)"):
        load_checkpoint(folder)


def test_known_spellings_are_accepted_and_recorded(folder, model):
    def respell(tensors):
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[f"module.{old}"] = tensors.pop(name)

    change_weights(folder, respell)
    loaded = load_checkpoint(folder)
    assert model_digest(loaded) == model_digest(model)
    renamed = loaded.load_report.renamed
    assert renamed["module.bert.embeddings.LayerNorm.gamma"] == "bert.embeddings.LayerNorm.weight"
    change_weights(folder, lambda t: t.update({"module.bert.embeddings.LayerNorm.bias": torch.zeros(16)}))
    with pytest.raises(CheckpointError, match=r"two stored tensors are called 'bert.embeddings.LayerNorm.bias'"):
        load_checkpoint(folder)


def test_a_half_prefixed_file_is_refused(folder):
    change_weights(folder, lambda t: t.update({"module.cls.predictions.bias": t.pop("cls.predictions.bias")}))
    with pytest.raises(CheckpointError, match=r"has no place for .*: module.cls.predictions.bias"):
        load_checkpoint(folder)


def test_shards_that_are_incomplete_are_refused(folder):
    where = as_shards(folder)
    first = sorted(set(where.values()))[0]
    index = folder / "model.safetensors.index.json"
    kept = index.read_text()
    index.unlink()
    with pytest.raises(
        CheckpointError, match=r"holds shards \(model-00001-of-00002.safetensors, ...\) without their index"
    ):
        load_checkpoint(folder)
    absent = next(name for name, shard in where.items() if shard == first)
    index.write_text(json.dumps({"weight_map": {name: shard for name, shard in where.items() if name != absent}}))
    with pytest.raises(CheckpointError, match=rf"does not list but it holds {absent}"):
        load_checkpoint(folder)
    index.write_text(json.dumps({"weight_map": where | {"more": first}}))
    with pytest.raises(CheckpointError, match="lists for it but it lacks more"):
        load_checkpoint(folder)
    index.write_text(json.dumps({"weight_map": where | {"more": "../secret.safetensors"}}))
    with pytest.raises(CheckpointError, match="points outside its folder"):
        load_checkpoint(folder)
    index.write_text("{}")
    with pytest.raises(CheckpointError, match="is not an index of shards"):
        load_checkpoint(folder)
    index.write_text(kept)
    load_checkpoint(folder)
    (folder / first).unlink()
    with pytest.raises(CheckpointError, match=rf"lists shards that are missing: {first}"):
        load_checkpoint(folder)


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
@pytest.mark.parametrize("keep", [0, 100, -10])
def test_truncated_files_are_refused_in_one_line(folder, kind, keep):
    if kind == "bin":
        as_bin(folder)
    path = folder / ("model.safetensors" if kind == "safetensors" else "pytorch_model.bin")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="damaged") as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["QUOTIENTGEO_BOMB"],)


def test_pickled_objects_are_refused_without_running_them(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("QUOTIENTGEO_BOMB", str(tmp_path / "exploded"))
    as_bin(folder)
    torch.save({"bert": Bomb()}, folder / "pytorch_model.bin")
    with pytest.raises(
        CheckpointError, match="holds other pickled objects than tensors, or is damaged; it was not executed"
    ):
        load_checkpoint(folder)
    torch.save(tiny(), folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="it was not executed"):
        load_checkpoint(folder)
    assert not (tmp_path / "exploded").exists()
    torch.load(folder / "pytorch_model.bin", weights_only=False)  # the file itself is sound
    torch.save({"state_dict": {"w": torch.ones(1)}, "epoch": 3}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="holds a dictionary with 'state_dict', 'epoch', not a state dict"):
        load_checkpoint(folder)


def test_folders_and_configurations_that_do_not_load_say_why(folder, tmp_path):
    with pytest.raises(CheckpointError, match=r"bert-base-uncased does not exist: .* nothing is downloaded"):
        load_checkpoint("bert-base-uncased")
    with pytest.raises(CheckpointError, match="is a file"):
        load_checkpoint(folder / "model.safetensors")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        CheckpointError, match=r"has no config.json: is this the right folder\? .*build the model in a task file"
    ):
        load_checkpoint(tmp_path / "empty")
    (tmp_path / "empty" / "adapter_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="holds an adapter"):
        load_checkpoint(tmp_path / "empty")
    for changes, message in (
        ({"model_type": None}, r"names no model_type, so .* write a task file .*load_weights"),
        ({"model_type": "no-such-model"}, "no-such-model"),
        ({"model_type": "bert", "architectures": None}, "names 0 architectures, expected one: pass model_class"),
        ({"architectures": ["NoSuchClass"]}, "names the class 'NoSuchClass', which transformers does not have"),
        ({"architectures": ["pipeline"]}, "'pipeline'"),
        (
            {"architectures": ["BertForMaskedLM"], "num_attention_heads": 3},
            "BertForMaskedLM cannot be built from config.json",
        ),
    ):
        change_config(folder, **changes)
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="is not valid JSON"):
        load_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="holds no weights"):
        load_weights(hugging_face("BertForMaskedLM"), folder)


def test_the_class_may_be_chosen(folder, model):
    with pytest.raises(
        CheckpointError, match=r"BertModel has no place for stored tensors \(42\): bert.embeddings.LayerNorm.bias"
    ):
        load_checkpoint(folder, transformers.BertModel)
    change_config(folder, architectures=None)
    assert model_digest(load_checkpoint(folder, transformers.BertForMaskedLM)) == model_digest(model)


def test_weights_of_any_module_from_a_folder_a_file_or_a_mapping(tmp_path):
    source, state = tiny(seed=1, tied=True), tiny(seed=1, tied=True).state_dict()
    torch.save(state, tmp_path / "pytorch_model.bin")
    torch.save(state, tmp_path / "weights.pt")
    for given in (tmp_path, tmp_path / "weights.pt", state):
        target = tiny(seed=2, tied=True)
        target.train()
        report = load_weights(target, given)
        assert model_digest(target) == model_digest(source)
        assert not target.training
        assert report is target.load_report
    with pytest.raises(CheckpointError, match="does not exist"):
        load_weights(tiny(), tmp_path / "nowhere.pt")


def test_a_refused_load_leaves_the_model_alone():
    target = tiny(seed=2)
    before = model_digest(target)
    state = tiny(seed=1).half().state_dict()
    del state["head.weight"]
    with pytest.raises(CheckpointError, match=r"the given tensors: .* missing \(1\): head.weight"):
        load_weights(target, state)
    assert model_digest(target) == before


def test_the_digest_sees_names_types_shapes_and_values():
    model = tiny(seed=1)
    digests = {model_digest(model)}
    assert digests == {model_digest(tiny(seed=1))}
    with torch.no_grad():
        model.head.weight[0, 0] += 1e-6
    digests.add(model_digest(model))
    digests.add(model_digest(model.double()))
    digests.add(model_digest(model.bfloat16()))
    model.head.weight = nn.Parameter(model.head.weight.detach().reshape(-1, 1))
    digests.add(model_digest(model))
    model.register_buffer("table", torch.zeros(1))
    digests.add(model_digest(model))
    model.register_buffer("scratch", torch.zeros(1), persistent=False)
    assert model_digest(model) in digests
    model.also = model.head
    assert model_digest(model) in digests, "a second name for the same tensor is no other model"
    assert len(digests) == 6
    tied = tiny(seed=1, tied=True)
    with torch.no_grad():
        assert tied(token_batch()).isfinite().all()
