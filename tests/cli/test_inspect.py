"""``quotientgeo inspect``: what it says of a checkpoint, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

import quotientgeo as qg
from quotientgeo.cli.main import app
from quotientgeo.measures.call import SYMMETRIES
from quotientgeo.tasks import random_inputs
from tests.helpers.folders import image_checkpoint, saved, text_folder
from tests.helpers.models import hugging_face
from tests.helpers.trained import trained


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_folder(tmp_path_factory.mktemp("b") / "bert", "BertForMaskedLM")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)])


def test_the_table_lists_blocks_by_kind_with_their_dimensions(bert: Path) -> None:
    done = run(bert)
    assert done.exit_code == 0, done.output
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if line.startswith("│")
    ]
    assert rows == [
        ["attention_qk", "GL(8)", "4", "2", "17", "16", "8", "256"],
        ["attention_vo", "GL(8)", "4", "2", "16", "16", "8", "256"],
        ["key_bias_translation", "translation(8)", "4", "2", "1", "0", "8", "32"],
        ["value_bias_fold", "translation(8)", "4", "2", "1", "0", "8", "32"],
    ]
    assert "576 redundant dimensions" in done.stdout
    assert done.stderr.splitlines() == [f"loading {bert}"]


def test_what_is_not_covered_is_named_by_module(bert: Path) -> None:
    found = json.loads(run(bert, "--json").stdout)
    rest = found["parameters"]["rest_by_module"]
    graph = qg.symmetry_graph(qg.load_checkpoint(bert))
    assert sum(rest.values()) == found["parameters"]["rest"] == graph.coverage().rest
    assert set(rest) == {"Embedding", "LayerNorm", "Linear", "BertLMPredictionHead"}
    assert rest["Embedding"] == (14 + 20 + 2) * 16
    assert "not covered: Linear" in run(bert).stdout


def test_json_is_all_of_stdout_and_adds_up(bert: Path) -> None:
    done = run(bert, "--json", "--verify")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert sum(row["redundant"] for row in found["blocks"]) == found["parameters"]["redundant"] == 576
    counts = found["parameters"]
    assert counts["block"] + counts["frozen"] + counts["rest"] == counts["total"]
    assert found["verification"]["passed"] == found["verification"]["symmetries"] == 16
    assert found["verification"]["residual"] < 1e-12
    assert json.loads(run(bert, "--json").stdout)["verification"] is None


@pytest.mark.parametrize(("symmetries", "blocks"), [("attention", 16), ("paper", 8), ("none", 0)])
def test_every_choice_of_symmetries(bert: Path, symmetries: str, blocks: int) -> None:
    assert symmetries in SYMMETRIES
    found = json.loads(run(bert, "--json", "--symmetries", symmetries).stdout)
    assert sum(row["blocks"] for row in found["blocks"]) == blocks


def test_an_image_model_is_verified_on_random_images(tmp_path: Path) -> None:
    done = run(image_checkpoint(tmp_path / "vit", channels=3), "--verify")
    assert done.exit_code == 0, done.output
    assert "passed" in done.stdout
    assert "logits" in done.stdout


def test_a_symmetry_that_fails_is_said_and_exit_code_3(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is given rotary positions behind the rule's back: GL on queries and keys no longer holds."""
    import transformers
    from transformers.models.bert import modeling_bert

    real = modeling_bert.BertSelfAttention.forward

    def twisted(self, hidden_states, *args, **kwargs):  # type: ignore[no-untyped-def]
        weight = self.query.weight
        with torch.no_grad():
            turned = torch.tanh(weight)  # not equivariant under GL
        return real(self, hidden_states + (weight - weight.detach() + turned).sum() * 1e-3, *args, **kwargs)

    assert transformers is not None
    monkeypatch.setattr(modeling_bert.BertSelfAttention, "forward", twisted)
    done = run(bert, "--verify")
    assert done.exit_code == 3, done.output
    assert "failed" in done.stdout
    assert json.loads(run(bert, "--verify", "--json").stdout)["verification"]["failures"]


def test_half_precision_is_said(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "m", "BertForMaskedLM", dtype=torch.float16)
    done = run(folder)
    assert "stored in float16 and raised to float32" in done.stdout


def test_an_architecture_without_a_rule(tmp_path: Path) -> None:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=20, n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    folder = saved(transformers.GPT2LMHeadModel(config), tmp_path / "gpt2")
    done = run(folder)
    assert done.exit_code == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("loading")]
    assert line.startswith("UnknownArchitectureError: no rule describes GPT2LMHeadModel.")
    assert " In Python, declare their blocks by hand, and verify them, then measure with qg.sharpness(" in line
    assert line.endswith("or measure without symmetries: symmetries='none'. (here: --symmetries none)")
    assert "import quotientgeo" not in line
    assert run(folder, "--symmetries", "none", "--verify").exit_code == 0


@pytest.mark.real
def test_a_trained_albert() -> None:
    found = json.loads(run(trained("albert"), "--verify", "--json").stdout)
    assert found["parameters"]["redundant"] == 8 * (2 * 32**2 + 2 * 32)
    assert found["verification"]["passed"] == found["verification"]["symmetries"] == 32
    assert any("pooler" in note for note in found["notes"])


@pytest.mark.parametrize("name", ["RobertaForMaskedLM", "AlbertForMaskedLM", "ElectraForPreTraining", "BertModel"])
def test_inputs_are_made_for_any_text_model(name: str) -> None:
    model = hugging_face(name)
    batch = random_inputs(model)
    assert qg.symmetry_graph(model).verify(batch).passed
    assert all(
        torch.equal(value, again) for value, again in zip(batch.values(), random_inputs(model).values(), strict=True)
    )


def test_made_up_tokens_are_no_padding_but_where_the_mask_says_so() -> None:
    model = hugging_face("RobertaForMaskedLM", pad_token_id=1)
    for seed in range(20):
        batch = random_inputs(model, seed)
        assert torch.equal(batch["input_ids"] == 1, batch["attention_mask"] == 0)
