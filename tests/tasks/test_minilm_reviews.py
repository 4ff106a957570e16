"""The task file examples/minilm_reviews.py and its data, on a small encoder made here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from quotientgeo.errors import CheckpointError, TaskError
from quotientgeo.tasks import FileTask, load_task
from tests.helpers.folders import text_folder
from tests.helpers.trained import EXAMPLES, REVIEWS


@pytest.fixture
def task() -> FileTask:
    task = load_task(EXAMPLES / "minilm_reviews.py")
    assert isinstance(task, FileTask)
    return task


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(text_folder(tmp_path_factory.mktemp("encoder"), "BertModel"))


def test_the_data_are_64_different_reviews_of_both_classes(task: FileTask) -> None:
    reviews = task.module.read_reviews(REVIEWS)
    assert len({text for text, _ in reviews}) == 64
    assert Counter(label for _, label in reviews) == {0: 32, 1: 32}


def test_the_encoder_is_the_one_in_the_folder_and_the_head_always_the_same(task: FileTask, encoder: str) -> None:
    from transformers import BertModel

    before = torch.random.get_rng_state()
    model, again = task.load(encoder), task.load(encoder)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not any(module.training for module in model.modules())
    assert not any(p.is_meta for p in [*model.parameters(), *model.buffers()])
    assert torch.equal(model.classifier.weight, again.classifier.weight)
    assert model.classifier.weight.shape == (2, 16)
    assert bool((model.classifier.bias != 0).all())  # a weight of zero would stay zero
    stored = BertModel.from_pretrained(encoder).eval()
    ids = torch.tensor([[2, 5, 6, 3]])
    assert torch.equal(model.bert(ids).last_hidden_state, stored(ids).last_hidden_state)
    pooled = stored(ids).pooler_output
    assert torch.allclose(model(ids).logits, model.classifier(pooled), atol=1e-6)


def test_a_file_without_the_encoder_is_refused(task: FileTask, tmp_path: Path) -> None:
    folder = text_folder(tmp_path, "BertForMaskedLM")
    with pytest.raises(CheckpointError, match=r"missing|no place"):
        task.load(str(folder))


def test_batches_are_the_reviews_in_order_and_the_loss_splits(task: FileTask, encoder: str) -> None:
    model, batches = task.load(encoder), task.batches(str(REVIEWS))
    labels = [label for _, label in task.module.read_reviews(REVIEWS)]
    assert torch.cat([batch["labels"] for batch in batches]).tolist() == labels
    assert [len(batch["labels"]) for batch in batches] == [16] * 4
    batch = {name: tensor[:6] for name, tensor in batches[0].items()}
    whole, count = task.loss(model, batch)
    parts = [task.loss(model, {name: tensor[i::2] for name, tensor in batch.items()}) for i in (0, 1)]
    assert count == sum(n for _, n in parts) == 6
    assert torch.allclose(whole, sum(part for part, _ in parts), rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text,stars\ngood,5\n", "columns text and label"),
        ("text,label\n", "a row at least"),
        ("text,label\ngood,liked\nbad,2\n", "labels '2'"),
        ("text,label\ngood\n", "labels ''"),
    ],
)
def test_bad_data_is_named(task: FileTask, encoder: str, tmp_path: Path, text: str, message: str) -> None:
    data = tmp_path / "reviews.csv"
    data.write_text(text)
    task.load(encoder)
    with pytest.raises(TaskError, match=message):
        task.batches(str(data))


def test_data_before_a_checkpoint_is_an_error(task: FileTask) -> None:
    with pytest.raises(TaskError, match="load"):
        task.batches(str(REVIEWS))
