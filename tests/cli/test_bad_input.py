"""What users get wrong: each is one line on stderr that says what, where and what to do, exit code 2, and nothing on stdout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quotientgeo.cli.main import app
from tests.helpers.folders import REVIEWS, image_checkpoint, image_data, text_folder

TASK = """
import torch

def load(checkpoint):
    return torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Dropout(0.5)).eval()

def batches(data):
    return [torch.ones(4, 2)]

def loss(model, batch):
    return model(batch).square().sum(), len(batch)
"""
FILES = {
    "good.csv": REVIEWS,
    "no_label.csv": "text,other\na,1\n",
    "outside.csv": "text,label\na,good\nb,9\n",
    "header.csv": "text,label\n",
    "empty.csv": "",
    "blank.txt": "\n\n",
    "training.py": TASK.replace(".eval()", ""),
    "shuffles.py": TASK.replace(
        "[torch.ones(4, 2)]", "torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2, shuffle=True)"
    ),
    "raises.py": TASK.replace("return model", "raise KeyError('oops')\n    return model"),
    "fails_to_load.py": TASK.replace("torch.nn.Linear(2, 1)", "torch.nn.Linear('2', 1)"),
    "nothing.py": TASK.replace("[torch.ones(4, 2)]", "[]"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the cases below name."""
    folder = tmp_path_factory.mktemp("bad")
    text_folder(folder / "bert", "BertForSequenceClassification")
    text_folder(folder / "truncated", "BertForSequenceClassification")
    weights = folder / "truncated" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    text_folder(folder / "no_config", "BertModel")
    (folder / "no_config" / "config.json").unlink()
    text_folder(folder / "no_tokenizer", "BertForSequenceClassification")
    (folder / "no_tokenizer" / "vocab.txt").unlink()
    text_folder(folder / "masker", "BertForMaskedLM")
    text_folder(folder / "unknown", "BertForSequenceClassification")
    config = folder / "unknown" / "config.json"
    config.write_text(config.read_text().replace('"bert"', '"sphinx"'))
    image_checkpoint(folder / "vit")
    image_data(folder / "images", {"0": 1, "9": 1})
    (folder / "full").mkdir()
    (folder / "full" / "x").write_text("")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


TEXT = "--task text-classification --steps 1 --data"
FILE = "x --symmetries none --steps 1 --data d --task"
CASES = {
    f"sharpness nowhere {TEXT} good.csv": "CheckpointError: nowhere does not exist",
    f"sharpness no_config {TEXT} good.csv": "CheckpointError: no_config has no config.json: is this the right folder?",
    f"sharpness bert bert no_config {TEXT} good.csv": "CheckpointError: no_config has no config.json",
    f"sharpness bert nowhere {TEXT} good.csv": "CheckpointError: nowhere does not exist",
    f"sharpness unknown {TEXT} good.csv": "CheckpointError: unknown/config.json: ",
    f"sharpness truncated {TEXT} good.csv": "CheckpointError: truncated/model.safetensors is damaged",
    f"sharpness no_tokenizer {TEXT} good.csv": "CheckpointError: no_tokenizer has no tokenizer files",
    f"sharpness masker {TEXT} good.csv": "TaskError: masker holds a BertForMaskedLM",
    f"sharpness bert {TEXT} missing.csv": "DataError: data file missing.csv does not exist",
    f"sharpness bert {TEXT} no_label.csv": "DataError: no_label.csv has no column 'label'",
    f"sharpness bert {TEXT} good.csv --text-column words": "DataError: good.csv has no column 'words'",
    f"sharpness bert {TEXT} outside.csv": "DataError: outside.csv, example 2 has the label '9'",
    f"sharpness bert {TEXT} header.csv": "DataError: header.csv holds no examples",
    f"sharpness bert {TEXT} empty.csv": "DataError: empty.csv is empty",
    "sharpness masker --task masked-lm --data blank.txt": "DataError: blank.txt holds no examples",
    f"sharpness bert {TEXT} images": "DataError: images is a folder",
    "sharpness vit --task image-classification --data good.csv": "DataError: good.csv is a file",
    "sharpness vit --task image-classification --data images": "DataError: images: the folder of 0.png has the label '9'",
    f"sharpness bert {TEXT} good.csv --rho 0": "Error: Invalid value for '--rho': 0.0 is not a finite number > 0",
    f"sharpness bert {TEXT} good.csv --rho -0.1": "Error: Invalid value for '--rho': -0.1 is not",
    f"sharpness bert {TEXT} good.csv --rho nan": "Error: Invalid value for '--rho': nan is not",
    f"sharpness bert {TEXT} good.csv --rho much": "Error: Invalid value for '--rho': ",
    f"sharpness bert {TEXT} good.csv --batch-size 0": "Error: Invalid value for '--batch-size'",
    f"sharpness bert {TEXT} good.csv --out full": "Error: Invalid value for '--out': cannot append to full",
    "sharpness bert --task text-clasification --data good.csv": (
        "TaskError: there is no task 'text-clasification': did you mean 'text-classification'?"
    ),
    "sharpness bert --task text-classification": "Error: Missing option '--data'",
    f"sharpness {FILE} training.py": "ModeError: the model is in training mode",
    f"sharpness {FILE} shuffles.py": "DataError: the DataLoader draws its order from a RandomSampler",
    f"sharpness {FILE} raises.py": "TaskError: raises.py: loss(model, batch) failed: KeyError: 'oops' (line 11 of raises.py)",
    f"sharpness {FILE} fails_to_load.py": "TaskError: fails_to_load.py: load('x') failed: ",
    f"sharpness {FILE} nothing.py": "DataError: batches is empty",
    f"sharpness {FILE} no.py": "TaskError: task file no.py does not exist",
    f"sharpness {FILE} raises.py --batch-size 2": "TaskError: task file raises.py reads its data itself",
    "inspect nowhere": "CheckpointError: nowhere does not exist",
    "inspect no_config": "CheckpointError: no_config has no config.json",
    "inspect unknown": "CheckpointError: unknown/config.json: ",
    "inspect truncated": "CheckpointError: truncated/model.safetensors is damaged",
    "inspect bert --symmetries all": "Error: Invalid value for '--symmetries'",
    "orbit truncated out": "CheckpointError: truncated/model.safetensors is damaged",
    "orbit bert bert/moved": "CheckpointError: bert/moved lies inside the checkpoint bert",
    "orbit bert full": "Error: Invalid value for 'OUT': full exists and is not empty",
    "orbit bert good.csv/out": "CheckpointError: good.csv/out cannot be written",
    "orbit bert": "Error: Missing argument 'OUT'",
    "derive no.py": "DeclarationError: declaration file no.py does not exist",
    "derive raises.py": "DeclarationError: raises.py defines no `symmetry`: it must define symmetry",
    "sharpnes": "Error: No such command 'sharpnes'",
}


# told before any work is done
AT_ONCE = (
    "orbit bert bert/moved",
    f"sharpness bert bert no_config {TEXT} good.csv",
    f"sharpness bert nowhere {TEXT} good.csv",
)


@pytest.mark.parametrize("command", CASES)
def test_one_line_and_exit_code_2(place: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(place)
    before = sorted(p.name for p in place.iterdir())
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 2, done.output
    assert not done.stdout
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    if command in AT_ONCE:
        assert len(lines) == 1
    assert lines[-1].startswith(CASES[command])
    progress = ("loading", "verifying", "writing")
    assert not [line for line in lines[:-1] if not line.split(": ")[-1].startswith(progress)]
    assert sorted(p.name for p in place.iterdir()) == before


def test_the_cases_are_about_their_fault(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fault, the same commands pass."""
    monkeypatch.chdir(place)
    (place / "right.py").write_text(TASK)
    run: Callable[[str], int] = lambda command: CliRunner().invoke(app, command.split()).exit_code  # noqa: E731
    assert run(f"sharpness bert {TEXT} good.csv") == 0
    assert run(f"sharpness {FILE} right.py") == 0
    assert run("inspect bert") == 0
    (place / "right.py").unlink()
