"""The two real checkpoints: a 12-layer BERT, and an ALBERT whose layers share one set of weights."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import CheckpointError
from quotientgeo.model.checkpoint import load_checkpoint, load_weights, model_digest

pytestmark = pytest.mark.real
transformers = pytest.importorskip("transformers")
FOLDERS = {
    "albert": ("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k"),
    "bert": ("rxnfp", "models/transformers/bert_pretrained"),
}


def folder(name: str) -> Path:
    package, path = FOLDERS[name]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {package} with the real checkpoint is not installed")
    return Path(spec.submodule_search_locations[0]) / path


def load(name: str) -> nn.Module:
    if name == "albert":
        return load_checkpoint(folder(name))
    model = transformers.BertForMaskedLM(transformers.BertConfig.from_json_file(folder(name) / "config.json"))
    load_weights(model, folder(name), ignore_unexpected=("bert.pooler.*", "cls.seq_relationship.*"))
    return model


@pytest.fixture(scope="module", params=list(FOLDERS))
def real(request) -> tuple[str, nn.Module]:
    return request.param, load(request.param)


def batch() -> dict[str, Tensor]:
    ids = torch.randint(20, 590, (2, 10), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def test_blocks_and_coverage_of_the_real_models(real):
    name, model = real
    graph = qg.symmetry_graph(model)
    layers, heads, size = (1, 8, 32) if name == "albert" else (12, 4, 64)
    coverage = graph.coverage()
    assert coverage.kinds == dict.fromkeys(
        ("attention_qk", "attention_vo", "key_bias_translation", "value_bias_fold"), layers * heads
    )
    assert coverage.total == sum(p.numel() for p in model.parameters())
    assert coverage.block == layers * (4 * 256 * 256 + 256)
    assert coverage.frozen == layers * 2 * 256
    assert coverage.redundant == layers * heads * (2 * size**2 + 2 * size)
    assert [(s.n, s.m, s.h, len(s)) for s in graph.stacks()] == [
        (257, 256, size, layers * heads),
        (256, 256, size, layers * heads),
    ]


def test_every_block_of_the_real_models_holds(real):
    _, model = real
    digest = model_digest(model)
    report = qg.symmetry_graph(model).verify(batch())
    report.require()
    print(report)
    assert report.residual < 1e-11
    assert model_digest(model) == digest


def test_moved_real_models_are_the_same_function(real):
    _, model = real
    graph = qg.symmetry_graph(model)
    wide = copy.deepcopy(model).double()
    wide_graph = qg.symmetry_graph(wide)
    with torch.no_grad():
        reference = wide(**batch()).logits
        for condition in (1.0, 10.0, 1000.0):
            other = copy.deepcopy(wide)
            other.load_state_dict(wide_graph.move(seed=1, condition=condition, translations=0.1))
            change = float((other(**batch()).logits - reference).abs().max() / reference.abs().max())
            print(f"condition {condition:g}: {change:.1e}")
            assert change < 1e-11
        narrow = copy.deepcopy(model)
        narrow.load_state_dict(graph.move(seed=1, condition=10.0))
        change = float((narrow(**batch()).logits - reference).abs().max() / reference.abs().max())
        assert 1e-9 < change < 1e-4  # float32 rounding, no more
    untied = {name for name, p in narrow.named_parameters()} ^ {name for name, p in model.named_parameters()}
    assert not untied


def test_folding_the_biases_of_the_real_models_keeps_the_function(real):
    _, model = real
    graph = qg.symmetry_graph(model)
    params = {name: p.detach().double() for name, p in graph.parameters.items()}
    buffers = {name: b.double() if b.is_floating_point() else b for name, b in model.named_buffers()}
    with torch.no_grad():
        reference = torch.func.functional_call(model, (params, buffers), (), batch()).logits
        folded = graph.canonicalise_shifts(params)
        change = (torch.func.functional_call(model, (folded, buffers), (), batch()).logits - reference).abs().max()
    assert change < 1e-12 * reference.abs().max()
    assert all(not bool(folded[name].any()) for name in graph.frozen)


def test_real_checkpoints_say_what_was_ignored():
    assert load("albert").load_report.ignored == ("albert.pooler.bias", "albert.pooler.weight")
    with pytest.raises(CheckpointError, match="names no model_type"):
        load_checkpoint(folder("bert"))
    model = transformers.BertForMaskedLM(transformers.BertConfig.from_json_file(folder("bert") / "config.json"))
    with pytest.raises(
        CheckpointError,
        match=r"has no place for stored tensors \(4\): bert.pooler.dense.bias, .*cls.seq_relationship.weight",
    ):
        load_weights(model, folder("bert"))
    wrong = transformers.BertConfig.from_json_file(folder("bert") / "config.json")
    wrong.num_hidden_layers = 13
    model = transformers.BertForMaskedLM(wrong)
    with pytest.raises(CheckpointError, match=r"missing \(16\): bert.encoder.layer.12.attention.self.query.weight"):
        load_weights(model, folder("bert"), ignore_unexpected=("bert.pooler.*", "cls.seq_relationship.*"))
