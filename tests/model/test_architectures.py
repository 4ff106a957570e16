"""Known families are described head by head; unknown models get a list of their attention and an example that works."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import BlockError, UnknownArchitectureError
from quotientgeo.model import architectures
from quotientgeo.model.architectures import registry
from tests.helpers.folders import saved
from tests.helpers.graphs import graph_of
from tests.helpers.losses import tiny_batch, tiny_loss
from tests.helpers.models import HUGGING_FACE, hf_batch, hugging_face, randomised, tiny, token_batch


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_every_head_class_of_a_known_family_is_described(name):
    pytest.importorskip("transformers")
    model = hugging_face(name)
    graph = qg.symmetry_graph(model)
    assert graph.coverage().kinds == {
        "attention_qk": 4,
        "attention_vo": 4,
        "key_bias_translation": 4,
        "value_bias_fold": 4,
    }
    assert graph.uncovered == ()
    batch = hf_batch(model)
    report = graph.verify(batch)
    report.require()
    assert report.residual < 1e-12


@pytest.mark.parametrize(
    "name",
    ["RobertaForMaskedLM", "XLMRobertaForMaskedLM", "CamembertForMaskedLM", "ElectraForPreTraining",
     "DeiTForImageClassification", "ViTMSNForImageClassification", "Dinov2ForImageClassification"],
)  # fmt: skip
def test_poolers_of_every_known_family_are_ignored_and_said_so(name, tmp_path):
    pytest.importorskip("transformers")
    model = hugging_face(name)
    saved(model, tmp_path)
    stray = {f"{model.base_model_prefix}.pooler.dense.{part}": torch.zeros(16) for part in ("bias", "weight")}
    file = tmp_path / "model.safetensors"
    save_file(load_file(file) | stray, file)
    assert qg.load_checkpoint(tmp_path).load_report.ignored == tuple(stray)


def test_model_types_are_those_of_transformers_and_each_is_claimed_once():
    transformers = pytest.importorskip("transformers")
    claimed = [kind for module in registry.collected() for kind in module.MODEL_TYPES]
    assert len(claimed) == len(set(claimed)) == len(registry.UNUSED)
    for kind in claimed:
        assert transformers.CONFIG_MAPPING[kind].model_type == kind
    modules = [name for rule in registry.RULES for name in rule.modules]
    assert len(modules) == len(set(modules))


def test_an_architecture_is_one_file(tmp_path, monkeypatch):
    before = registry.collected()
    (tmp_path / "brand_new.py").write_text(
        "from quotientgeo.model.architectures.bert import ATTENTION\nMODEL_TYPES = ('brand_new',)\nUNUSED = ()\n"
    )
    monkeypatch.setattr(architectures, "__path__", [*architectures.__path__, str(tmp_path)])
    after = registry.collected()
    assert [module.__name__.rpartition(".")[2] for module in after] == ["albert", "bert", "brand_new", "vit"]
    assert next(module for module in after if module not in before).MODEL_TYPES == ("brand_new",)


def test_cross_attention_of_a_decoder_has_its_own_blocks():
    pytest.importorskip("transformers")
    model = hugging_face("BertLMHeadModel", add_cross_attention=True)
    graph = qg.symmetry_graph(model)
    crossing = [block for block in graph.blocks if "crossattention" in block.name]
    assert len(graph.blocks) == 16
    assert len(crossing) == 8
    assert {block.layer for block in crossing} == {0, 1}
    batch = hf_batch(model) | {
        "encoder_hidden_states": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    }
    graph.verify(batch).require()
    without = graph.verify(hf_batch(model)).failures()
    assert without.keys() == {b.name for b in (*graph.blocks, *graph.shifts) if "crossattention" in b.name}


def test_shared_layers_of_albert_act_once():
    pytest.importorskip("transformers")
    graph = qg.symmetry_graph(hugging_face("AlbertForMaskedLM", num_hidden_layers=6, num_hidden_groups=1))
    assert len(graph.blocks) == 4
    assert len(graph.shifts) == 4
    (qk, vo) = graph.stacks()
    assert (qk.n, qk.m, qk.h) == (17, 16, 8)
    assert (vo.n, vo.m, vo.h) == (16, 16, 8)


def test_layers_are_numbered_in_order_where_names_hold_several_numbers():
    pytest.importorskip("transformers")
    graph = qg.symmetry_graph(hugging_face("AlbertForMaskedLM", inner_group_num=2))
    layers = {block.name.rsplit(".head", 1)[0]: block.layer for block in graph.blocks}
    stem = "albert.encoder.albert_layer_groups"
    assert layers == {f"{stem}.{k // 2}.albert_layers.{k % 2}.attention": k for k in range(4)}


def test_layers_that_share_parameter_objects_act_once():
    pytest.importorskip("transformers")
    model = hugging_face("BertModel", num_hidden_layers=3)
    layers = model.encoder.layer
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        first, second = (layers[k].attention.get_submodule(part) for k in (0, 2))
        second.weight, second.bias = first.weight, first.bias
    graph = qg.symmetry_graph(model)
    assert len(graph.blocks) == 2 * 4
    assert {block.layer for block in graph.blocks} == {0, 1}
    graph.verify(hf_batch(model)).require()


def test_half_shared_layers_are_refused_not_moved_twice():
    pytest.importorskip("transformers")
    model = hugging_face("BertModel")
    layers = model.encoder.layer
    layers[1].attention.self.query.weight = layers[0].attention.self.query.weight
    with pytest.raises(
        BlockError, match=r"layer.1.*layer\.0\.attention\.self\.query\.weight' already belong to .*layer\.0"
    ):
        qg.symmetry_graph(model)


@pytest.mark.parametrize(
    ("biases", "n", "m", "frozen"),
    [
        ("qkvo", (9, 8), (8, 8), {"k", "v"}),
        ("qvo", (9, 8), (8, 8), {"v"}),
        ("qkv", (9, 9), (8, 8), {"k"}),  # no output bias to fold into: b_V is a row of the value factor
        ("v", (8, 9), (8, 8), set()),
        ("o", (8, 8), (8, 8), set()),
    ],
)
def test_biases_are_rows_or_frozen_as_the_output_bias_allows(biases, n, m, frozen):
    model = tiny(biases=biases)
    graph = graph_of(model)
    graph.verify(token_batch()).require()
    sizes = {
        block.kind: block.sizes({k: tuple(p.shape) for k, p in model.named_parameters()}) for block in graph.blocks
    }
    assert sizes["attention_qk"] == (n[0], m[0], 4)
    assert sizes["attention_vo"] == (n[1], m[1], 4)
    assert set(graph.frozen) == {f"layers.{layer}.{part}_proj.bias" for layer in (0, 1) for part in frozen}
    assert all(mask is None for mask, _ in graph.frozen.values())
    for part, reason in (("k", "no effect"), ("v", "folded into the output bias")):
        if part in frozen:
            assert reason in graph.frozen_reasons()[f"layers.0.{part}_proj.bias"]


def example_of(model: nn.Module) -> str:
    with pytest.raises(UnknownArchitectureError) as caught:
        qg.symmetry_graph(model)
    message = str(caught.value)
    return message[message.index("    import quotientgeo") : message.index("then measure with qg.sharpness")]


def run_example(model: nn.Module, batch: object) -> qg.SymmetryGraph:
    """The code printed in the error, executed as a user would who pastes it."""
    lines = [line.removeprefix("    ") for line in example_of(model).splitlines()]
    scope: dict[str, object] = {"model": model, "batch": batch}
    exec("\n".join(lines), scope)
    return scope["graph"]  # type: ignore[return-value]


@pytest.mark.parametrize("biases", ["qkvo", "qkv", "q", "vo", ""])
def test_the_example_for_an_unknown_model_works_as_printed(biases):
    """It declares what the shipped rule for such a module declares, and can be measured with."""
    model = tiny(biases=biases, layers=1)
    graph, known = run_example(model, (token_batch(),)), graph_of(model)
    assert {b.name for b in graph.blocks} == {b.name for b in known.blocks}
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert {b.name: b.sizes(shapes) for b in graph.blocks} == {b.name: b.sizes(shapes) for b in known.blocks}
    assert {s.name: len(s.compensators) for s in graph.shifts} == {s.name: len(s.compensators) for s in known.shifts}
    assert graph.coverage().tensors.keys() == known.coverage().tensors.keys()
    for name, one in graph.coverage().tensors.items():
        other = known.coverage().tensors[name]
        assert (one.block, one.frozen, one.rest) == (other.block, other.frozen, other.rest)
    assert qg.sharpness(model, tiny_loss, [tiny_batch()], graph=graph, steps=1).ok


def test_the_example_fits_fused_and_transposed_projections():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    fused = randomised(nn.MultiheadAttention(8, 2, batch_first=True)).eval()
    graph = run_example(fused, (x, x, x))
    assert (len(graph.blocks), len(graph.shifts)) == (4, 4)
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20, bos_token_id=0, eos_token_id=0)
    graph = run_example(randomised(transformers.GPT2Model(config)).eval(), {"input_ids": token_batch()})
    assert (len(graph.blocks), len(graph.shifts)) == (4, 4)
    config = transformers.T5Config(d_model=8, d_kv=3, num_heads=2, num_layers=1, d_ff=8, vocab_size=20)
    graph = run_example(randomised(transformers.T5EncoderModel(config)).eval(), {"input_ids": token_batch()})
    assert (len(graph.blocks), len(graph.shifts)) == (4, 0)


def test_where_shapes_do_not_tell_the_example_is_a_pattern():
    class Grouped(nn.Module):
        """Two query heads share one head of keys and values."""

        def __init__(self) -> None:
            super().__init__()
            self.num_heads = 2
            self.q_proj, self.k_proj, self.v_proj = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 4)

    class KeysAndValuesFused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads = 2
            self.to_q, self.to_kv = nn.Linear(8, 8), nn.Linear(8, 16)

    for model in (Grouped(), KeysAndValuesFused(), nn.Linear(2, 2)):
        code = example_of(model)
        assert 'qg.Leg("PATH.query.weight", axis=0, indices=at), qg.Leg("PATH.query.bias", indices=at)' in code
        assert 'H=(qg.Leg("PATH.output.weight", axis=1, indices=at),)' in code
        compile("\n".join(line.removeprefix("    ") for line in code.splitlines()), "example", "exec")


def test_without_an_output_map_the_example_says_what_is_missing():
    model = tiny(layers=1)
    model.layers[0].last = model.layers[0].o_proj
    del model.layers[0].o_proj
    code = example_of(model)
    assert "# the value-output pair: likewise" in code
    assert ".vo" not in code


def test_unknown_architectures_list_their_attention_like_modules():
    with pytest.raises(UnknownArchitectureError) as caught:
        qg.symmetry_graph(tiny(layers=2))
    message = str(caught.value)
    assert "no rule describes TinyModel" in message
    assert "layers.0 (SelfAttention, 2 heads): query layers.0.q_proj, key layers.0.k_proj" in message
    assert "layers.1 (SelfAttention" in message
    with pytest.raises(UnknownArchitectureError, match="no attention-like module found"):
        qg.symmetry_graph(nn.Sequential(nn.Linear(3, 3)))


def test_a_replaced_linear_map_is_named_not_guessed():
    pytest.importorskip("transformers")
    model = hugging_face("BertModel")
    attention = model.encoder.layer[1].attention
    attention.self.query = nn.Sequential(attention.self.query)
    with pytest.raises(UnknownArchitectureError, match=r"'encoder.layer.1.attention.self.query' is a Sequential"):
        qg.symmetry_graph(model)
    attention.self.query = nn.Linear(16, 12)
    with pytest.raises(UnknownArchitectureError, match=r"with weight \(12, 16\), .* expects an nn.Linear with 16"):
        qg.symmetry_graph(model)


def test_modules_without_a_rule_beside_known_ones_are_listed():
    pytest.importorskip("transformers")

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.text = hugging_face("BertModel")
            self.other = tiny()

    graph = qg.symmetry_graph(Both())
    assert len(graph.blocks) == 8
    assert graph.uncovered == ("other.layers.0", "other.layers.1")
    assert "no rule describes: other.layers.0" in str(graph.coverage())
