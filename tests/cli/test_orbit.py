"""``quotientgeo orbit``: an equivalent checkpoint, complete, in the types of the first one, or nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

import quotientgeo as qg
from quotientgeo.cli.main import app
from quotientgeo.errors import CheckpointError
from quotientgeo.tasks import load_task, random_inputs
from tests.helpers.folders import REVIEWS, image_checkpoint, text_folder
from tests.helpers.trained import trained


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["orbit", *map(str, arguments)])


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return text_folder(tmp_path / "bert", "BertForSequenceClassification")


def outputs(folder: Path) -> torch.Tensor:
    model = qg.load_checkpoint(folder).double()
    with torch.no_grad():
        return model(**random_inputs(model, seed=5)).logits


def test_the_folder_is_a_checkpoint_of_the_same_function(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "moved"
    done = run(bert, out, "--condition", "30", "--seed", "4")
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in out.iterdir()) == ["config.json", "model.safetensors", "vocab.txt"]
    assert (out / "config.json").read_bytes() == (bert / "config.json").read_bytes()
    torch.testing.assert_close(outputs(out), outputs(bert), rtol=1e-4, atol=1e-4)
    before, after = load_file(bert / "model.safetensors"), load_file(out / "model.safetensors")
    assert before.keys() == after.keys()
    assert {name: t.dtype for name, t in before.items()} == {name: t.dtype for name, t in after.items()}
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert all(".attention." in name for name in changed)
    query = "bert.encoder.layer.0.attention.self.query.weight"
    assert float((before[query] - after[query]).norm() / before[query].norm()) > 0.1
    assert "8 blocks of" in done.stdout
    assert "float32" in done.stdout
    task = load_task("text-classification")
    task.load(str(out))
    (tmp_path / "x.csv").write_text(REVIEWS)
    assert len(task.batches(str(tmp_path / "x.csv"))) == 1  # the tokenizer came along


def test_a_double_checkpoint_is_moved_exactly(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "bert", "BertForSequenceClassification", dtype=torch.float64)
    found = json.loads(run(folder, tmp_path / "o", "--condition", "1000", "--json").stdout)
    assert found["stored_dtypes"] == ["float64"]
    assert found["difference_written"] == found["difference_float64"] < 1e-10
    assert json.loads(run(folder, tmp_path / "t", "--translations", "1", "--json").stdout)["difference_written"] < 1e-10
    bias = "bert.encoder.layer.0.attention.self.key.bias"
    assert not torch.equal(
        load_file(tmp_path / "t" / "model.safetensors")[bias], load_file(folder / "model.safetensors")[bias]
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_half_and_its_rounding_is_said(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = text_folder(tmp_path / "bert", "BertForSequenceClassification", dtype=dtype)
    done = run(folder, tmp_path / "out", "--condition", "100")
    assert done.exit_code == 0, done.output
    assert {t.dtype for t in load_file(tmp_path / "out" / "model.safetensors").values()} == {dtype}
    name = str(dtype).removeprefix("torch.")
    assert f"so much is rounding in {name}: a smaller --condition leaves less" in done.stdout
    assert "in float64" in done.stdout


def test_what_the_model_does_not_read_is_kept_and_shards_become_one_file(bert: Path, tmp_path: Path) -> None:
    tensors = load_file(bert / "model.safetensors") | {"bert.embeddings.position_ids": torch.arange(20)[None]}
    (bert / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, part in parts.items():
        save_file({f"module.{name}": tensors[name] for name in part}, bert / file, metadata={"format": "pt"})
    weight_map = {f"module.{name}": file for file, part in parts.items() for name in part}
    (bert / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    for name, text in (("optimizer.pt", ""), ("notes.md", "kept"), ("training_args.bin", "")):
        (bert / name).write_text(text)
    (bert / "checkpoint-5").mkdir()
    (bert / "1_Pooling").mkdir()
    (bert / "1_Pooling" / "config.json").write_text("{}")
    out = tmp_path / "out"
    done = run(bert, out)
    assert done.exit_code == 0, done.output
    files = sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
    assert files == ["1_Pooling/config.json", "config.json", "model.safetensors", "notes.md", "vocab.txt"]
    written = load_file(out / "model.safetensors")
    assert sorted(written) == [f"module.{name}" for name in names]
    query = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(written[f"module.{query}"], tensors[query])
    torch.testing.assert_close(outputs(out), outputs(bert), rtol=1e-4, atol=1e-4)


def test_an_image_model(tmp_path: Path) -> None:
    folder = image_checkpoint(tmp_path / "vit")
    found = json.loads(run(folder, tmp_path / "out", "--json", "--symmetries", "paper").stdout)
    assert found["difference_written"] < 1e-5
    assert (tmp_path / "out" / "preprocessor_config.json").is_file()


@pytest.mark.real
def test_a_trained_albert_stored_by_pickle(tmp_path: Path) -> None:
    """Its pooler is in the file but not in the model, and its weights are a .bin file."""
    found = json.loads(run(trained("albert"), tmp_path / "out", "--json").stdout)
    assert found["difference_float64"] < 1e-12
    assert found["difference_written"] < 1e-5
    stored = torch.load(Path(trained("albert")) / "pytorch_model.bin", map_location="cpu", weights_only=True)
    written = load_file(tmp_path / "out" / "model.safetensors")
    assert stored.keys() == written.keys()
    assert torch.equal(stored["albert.pooler.weight"], written["albert.pooler.weight"])
    assert (tmp_path / "out" / "vocab.txt").is_file()


def test_nothing_is_overwritten(bert: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("years of work")
    done = run(bert, full)
    assert done.exit_code == 2
    assert "exists and is not empty" in done.stderr
    assert [p.name for p in full.iterdir()] == ["thesis.tex"]
    (tmp_path / "empty").mkdir()
    assert run(bert, tmp_path / "empty").exit_code == 0
    file = tmp_path / "file"
    file.write_text("")
    for out, message in (
        (file, "is a file"),
        (file / "x", "cannot be written"),
        (bert / "x", "lies inside the checkpoint"),
    ):
        done = run(bert, out)
        assert done.exit_code == 2, out
        assert message in done.stderr.splitlines()[-1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bert", "empty", "file", "full"]  # no part of a folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--condition", "0.5"), "Invalid value for '--condition'"),
        (("--condition", "nan"), "Invalid value for '--condition'"),
        (("--symmetries", "none"), "there is nothing to move"),
        (("--condition", "1e12"), "use a smaller condition"),
        (("--condition", "1e17"), "1e+17 is too large: float64 keeps no digit of such a move"),
        (("--condition", "1e300"), "1e+300 is too large: float64 keeps no digit of such a move"),
    ],
)
def test_what_cannot_be_moved_is_refused(bert: Path, tmp_path: Path, options: tuple[str, str], message: str) -> None:
    done = run(bert, tmp_path / "out", *options)
    assert done.exit_code == 2
    assert message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("dtype", "condition", "fits"),
    [
        (torch.float32, "1e8", False),
        (torch.float32, "1e4", True),
        (torch.float64, "1e8", True),
        (torch.float16, "1e4", False),
        (torch.bfloat16, "1e4", False),
        (torch.bfloat16, "10", True),
    ],
)
@pytest.mark.parametrize("existed", [False, True])
def test_weights_that_their_type_cannot_hold_are_not_left_there(
    tmp_path: Path, dtype: torch.dtype, condition: str, fits: bool, existed: bool
) -> None:
    folder, out = text_folder(tmp_path / "bert", "BertForSequenceClassification", dtype=dtype), tmp_path / "out"
    if existed:
        out.mkdir()
    done = run(folder, out, "--condition", condition)
    assert done.exit_code == (0 if fits else 2), done.output
    if fits:
        assert (out / "model.safetensors").is_file()
        return
    line = done.stderr.splitlines()[-1]
    assert re.search(
        rf"once they are rounded to {str(dtype)[6:]}, more than .*use a smaller condition, or store them wider", line
    )
    assert not done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == (["bert", "out"] if existed else ["bert"])
    assert not existed or not list(out.iterdir())


def test_a_move_that_changes_the_function_is_not_written(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = qg.SymmetryGraph.move

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = real(self, *args, **kwargs)
        name = "bert.encoder.layer.1.attention.self.query.weight"
        return state | {name: state[name] * 1.001}

    monkeypatch.setattr(qg.SymmetryGraph, "move", broken)
    done = run(bert, tmp_path / "out")
    assert done.exit_code == 2
    assert "the moved weights change the outputs by" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_value_that_does_not_fit_its_type_is_refused(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "bert", "BertForSequenceClassification", dtype=torch.float16)
    model = qg.load_checkpoint(folder)
    state = {name: t * 1e6 for name, t in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"overflow torch\.float16"):
        qg.save_checkpoint(model, tmp_path / "out", like=folder, state=state)
    assert [p.name for p in tmp_path.iterdir()] == ["bert"]
    with pytest.raises(CheckpointError, match=r"no tensor for x: it belongs to another model"):
        qg.save_checkpoint(model, tmp_path / "out", like=folder, state=model.state_dict() | {"x": torch.ones(2)})
    saved = qg.save_checkpoint(model, tmp_path / "same", like=folder)
    assert (saved / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
