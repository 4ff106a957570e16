"""The shipped checkpoint and digits: what they are, that the script makes such, and the orbit table on them."""

from __future__ import annotations

import importlib.util
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import quotientgeo as qg
from quotientgeo.demo import CHECKPOINT, DIGITS, HELD_OUT, Loaded
from quotientgeo.demo.assets import SHIPPED
from quotientgeo.tasks import DataOptions, load_task
from tests.helpers.orbit import CONTROLS, GEODESIC, orbit_table

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "train_digits_vit.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("train_digits_vit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def images(folder: Path) -> dict[bytes, str]:
    """Pixels of every image -> its class; fails where two are the same."""
    files = sorted(folder.glob("*/*.png"))
    found = {np.asarray(Image.open(path)).tobytes(): path.parent.name for path in files}
    assert len(found) == len(files) > 0
    return found


def test_it_is_small_and_says_where_it_comes_from() -> None:
    files = [path for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 1_000_000
    about = (SHIPPED / "README.md").read_text()
    for words in ("UCI", "CC BY 4.0", "10.24432/C50P49", "Apache-2.0", SCRIPT.name):
        assert words in about


def test_everything_in_the_package_that_is_no_code_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["quotientgeo"]
    package = ROOT / "quotientgeo"
    others = [p.relative_to(package) for p in package.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert len(others) > 300
    left = [str(p) for p in others if not any(fnmatch(str(p), pattern.replace("/**", "")) for pattern in patterns)]
    assert left == []


def test_the_digits_are_those_of_scikit_learn_and_the_held_out_ones_were_held_out(script: ModuleType) -> None:
    training, held_out = script.read_digits()
    for folder, digits, count in ((DIGITS, training, 20), (HELD_OUT, held_out, 10)):
        shipped = images(folder)
        source = {grey.tobytes(): str(label) for grey, label in zip(digits.grey, digits.labels, strict=True)}
        assert shipped.items() <= source.items()
        assert sorted(shipped.values()) == sorted(count * [str(label) for label in range(10)])
    assert not images(DIGITS).keys() & images(HELD_OUT).keys()


def test_it_reads_digits_that_it_has_not_seen(script: ModuleType) -> None:
    model = qg.load_checkpoint(CHECKPOINT)
    training, held_out = script.read_digits()
    loss, right = script.judge(model, training)
    assert loss < 0.01
    assert right == 1.0
    assert script.judge(model, held_out)[1] > 0.95


def relative_gradient(model: nn.Module, digits: Any) -> float:
    """|w| |grad L(w)|: by how much the loss would change for a relative move of 1, were it linear."""
    loss = nn.functional.cross_entropy(model(digits.pixels).logits, digits.classes)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    gradient, weights = (torch.cat([t.detach().flatten() for t in ts]).norm() for ts in (gradients, model.parameters()))
    return float(gradient * weights)


def test_it_is_trained_to_a_minimum(script: ModuleType) -> None:
    """A guess has loss 2.3. Stopped after one epoch, the gradient is a hundred times as large."""
    training, _ = script.read_digits()
    assert relative_gradient(qg.load_checkpoint(CHECKPOINT), training) < 0.5
    with torch.random.fork_rng(devices=[]):
        early = script.build()
        script.train(early, training, 1)
    assert relative_gradient(early, training) > 5


def test_the_task_gives_it_what_it_was_trained_on(script: ModuleType) -> None:
    task = load_task("image-classification", DataOptions(batch_size=200, limit=None))
    model = task.load(str(CHECKPOINT))
    (batch,) = task.batches(str(DIGITS))
    training, _ = script.read_digits()
    keys = [pixels.numpy().round(5).tobytes() for pixels in training.pixels]
    known = dict(zip(keys, training.classes.tolist(), strict=True))
    assert len(batch["labels"]) == 200
    for pixels, label in zip(batch["pixel_values"], batch["labels"], strict=True):
        assert known[pixels.numpy().round(5).tobytes()] == int(label)
    with torch.no_grad():
        total, count = task.loss(model, batch)
    assert float(total / count) < 0.01


def test_what_the_script_writes_loads(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["train_digits_vit.py", str(tmp_path), "--epochs", "1"])
    with torch.random.fork_rng(devices=[]):
        script.main()
    assert "trained on: loss" in capsys.readouterr().out
    assert images(tmp_path / "digits") == images(DIGITS)
    assert images(tmp_path / "held-out") == images(HELD_OUT)
    task = load_task("image-classification", DataOptions(batch_size=50, limit=None))
    model = task.load(str(tmp_path / "digits-vit"))
    batches = task.batches(str(tmp_path / "digits"))
    assert [len(batch["labels"]) for batch in batches] == [50] * 4
    qg.symmetry_graph(model).verify({"pixel_values": batches[0]["pixel_values"]}).require()
    shipped = qg.load_checkpoint(CHECKPOINT)
    assert {n: p.shape for n, p in model.named_parameters()} == {n: p.shape for n, p in shipped.named_parameters()}


class TestOrbitTable:
    """The same function at other weights: geodesic sharpness stays, adaptive and Euclidean change."""

    @pytest.mark.parametrize("rho", [pytest.param(0.05, marks=pytest.mark.slow), 0.3])
    def test_geodesic_stays_in_float64(self, loaded: Loaded, rho: float) -> None:
        rows = orbit_table(
            loaded.model, loaded.task.loss, few(loaded), dtype=torch.float64, measures=GEODESIC, rhos=[rho],
            conditions=[1, 10, 1000], steps=3,
        )  # fmt: skip
        assert len(rows) == 4
        for row in rows:
            assert row.value > 1e-4, str(row)
            assert max(row.changes.values()) <= 1e-8, str(row)

    def test_adaptive_and_euclidean_change(self, loaded: Loaded) -> None:
        adaptive, euclidean = orbit_table(
            loaded.model, loaded.task.loss, few(loaded), dtype=torch.float64, measures=CONTROLS, rhos=[0.1],
            conditions=[1, 10, 1000], steps=3,
        )  # fmt: skip
        assert adaptive.changes[10] > 0.05, str(adaptive)
        assert euclidean.changes[1000] > 0.05, str(euclidean)
        assert euclidean.changes[1] < 1e-8, str(euclidean)

    def test_geodesic_stays_in_float32_up_to_rounding(self, loaded: Loaded) -> None:
        batches = [{**batch, "pixel_values": batch["pixel_values"].float()} for batch in few(loaded)]
        rows = orbit_table(
            loaded.model, loaded.task.loss, batches, dtype=torch.float32, measures=GEODESIC, rhos=[0.05, 0.3],
            conditions=[10], steps=4,
        )  # fmt: skip
        for row in rows:
            allowed = 1e-4 * row.value + 8 * torch.finfo(torch.float32).eps * row.loss
            assert row.changes[10] * row.value <= allowed, str(row)


def few(loaded: Loaded) -> list[dict[str, torch.Tensor]]:
    """One batch of 20 digits, two of each."""
    return [{name: tensor[:20] for name, tensor in loaded.batches[0].items()}]
