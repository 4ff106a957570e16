"""text-classification and masked-lm on tiny BERTs: which examples, tokens, masks and labels the loss sees."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, CheckpointError, DataError, TaskError
from quotientgeo.tasks import DataOptions, load_task
from quotientgeo.tasks.text import longest
from tests.helpers.folders import REVIEWS, WORDS, text_folder
from tests.helpers.models import hugging_face

LINES = "the film was good\n\nit was not good\nthe film was not very bad the film was not\na film\n"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_folder(tmp_path_factory.mktemp("c") / "model", "BertForSequenceClassification")


@pytest.fixture(scope="module")
def masker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_folder(tmp_path_factory.mktemp("m") / "model", "BertForMaskedLM")


def ids(text: str) -> list[int]:
    return [WORDS.index(word) for word in f"[CLS] {text} [SEP]".split()]


def run(task: str, folder: Path, data: Path, **options: Any) -> tuple[Any, Any, list[dict[str, Tensor]]]:
    made = load_task(task, DataOptions(**options))
    model = made.load(str(folder))
    return made, model, made.batches(str(data))


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


# --- text-classification ---


def test_batches_hold_the_texts_in_order_with_their_classes(classifier: Path, tmp_path: Path) -> None:
    task, model, batches = run("text-classification", classifier, write(tmp_path, "x.csv", REVIEWS), batch_size=3)
    assert not model.training
    assert [batch["labels"].tolist() for batch in batches] == [[1, 0, 2], [2]]
    first = batches[0]
    assert first["input_ids"][0].tolist() == [*ids("the film was good"), 0, 0]
    assert first["attention_mask"].sum(1).tolist() == [6, 6, 8]
    assert set(first) == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    assert all(type(batch) is dict for batch in batches)
    assert task.definitions["examples"] == task.definitions["examples_in_data"] == 4
    assert task.definitions["labels_read_as"] == "class names"
    assert task.notes == []


def test_a_head_of_one_class_is_noted(classifier: Path, tmp_path: Path) -> None:
    data = write(tmp_path, "x.csv", "text,label\na film,1\nthe film,1\nit,0\n")
    task, _, _ = run("text-classification", classifier, data, limit=2)
    assert task.definitions["labels_read_as"] == "indices"
    assert task.notes[1].startswith(
        "all 2 examples have class good: where the data is sorted by class, shuffle it first"
    )
    assert not any("have class" in note for note in run("text-classification", classifier, data)[0].notes)


def test_the_loss_is_the_sum_of_cross_entropies(classifier: Path, tmp_path: Path) -> None:
    task, model, batches = run("text-classification", classifier, write(tmp_path, "x.csv", REVIEWS), batch_size=3)
    total, count = task.loss(model, batches[0])
    with torch.no_grad():
        one_by_one = [
            -torch.log_softmax(model(input_ids=torch.tensor([ids(text)])).logits[0], 0)[label]
            for text, label in (("the film was good", 1), ("it was not good", 0), ("the film was not very bad", 2))
        ]
    assert count == 3
    assert float(total.detach()) == pytest.approx(float(sum(one_by_one)), rel=1e-5)


def test_a_batch_splits_without_changing_the_value(masker: Path, tmp_path: Path) -> None:
    """Lines of different lengths have different numbers of masks: only (sum, count) adds up."""
    task, model, batches = run("masked-lm", masker, write(tmp_path, "x.txt", LINES))
    counts = [int((row != -100).sum()) for row in batches[0]["labels"]]
    assert len(set(counts)) > 1
    model = model.double()
    whole, split = (
        qg.sharpness(model, task.loss, batches, rho=0.05, steps=3, micro_batch_size=size).value for size in (None, 1)
    )
    assert split == pytest.approx(whole, rel=1e-9)
    with torch.no_grad():
        parts = [task.loss(model, {k: v[i : i + 1] for k, v in batches[0].items()}) for i in range(len(counts))]
        total, count = task.loss(model, batches[0])
    mean_of_means = math.fsum(float(s / c) for s, c in parts) / len(parts)
    assert float(total / count) != pytest.approx(mean_of_means, rel=1e-3)  # a mean would not have split


def test_columns_pairs_limits_and_cuts(classifier: Path, tmp_path: Path) -> None:
    rows = "premise,hypothesis,y\nthe film was good,it was good,0\na film,bad,1\nit,it,2\n"
    data = write(tmp_path, "pairs.csv", rows)
    options: dict[str, Any] = {"text_column": "premise, hypothesis", "label_column": "y", "limit": 2, "max_length": 9}
    task, _, (batch,) = run("text-classification", classifier, data, **options)
    assert batch["input_ids"].shape == (2, 9)
    assert batch["token_type_ids"][0].sum() == 4  # "it was good" loses no word, the longer premise loses one
    assert batch["labels"].tolist() == [0, 1]
    assert task.notes == [
        "the first 2 of 3 examples in the data (all of them: --limit 0)",
        "1 of 2 texts are longer than 9 tokens and were cut there (--max-length)",
    ]
    assert task.definitions["texts_cut"] == 1
    assert task.definitions["task_options"]["text_column"] == "premise, hypothesis"


def test_words_that_the_checkpoint_does_not_know_are_counted(classifier: Path, tmp_path: Path) -> None:
    data = write(tmp_path, "x.csv", "text,label\nthe movie was fine,0\na film,1\n")
    task, _, _ = run("text-classification", classifier, data)
    assert (task.definitions["tokens"], task.definitions["unknown_tokens"]) == (6, 2)
    assert task.notes == ["2 of 6 tokens are unknown to this checkpoint: are these texts of its kind?"]


def test_texts_are_cut_where_the_model_ends(classifier: Path, tmp_path: Path) -> None:
    data = write(tmp_path, "x.csv", "text,label\n" + "film " * 40 + ",0\n")
    task, model, (batch,) = run("text-classification", classifier, data)
    assert batch["input_ids"].shape == (1, 20)
    task.loss(model, batch)  # would fail beyond the 20 positions
    assert task.notes == ["1 of 1 texts are longer than 20 tokens and were cut there (the model takes no more)"]


def test_positions_after_the_padding_index_are_those_of_roberta() -> None:
    model = hugging_face("RobertaForMaskedLM", pad_token_id=1)
    limit = longest(model)
    assert limit == 24 - 2
    model(input_ids=torch.full((1, limit), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, limit + 1), 5))
    assert longest(hugging_face("BertForMaskedLM")) == 24
    assert longest(torch.nn.Linear(1, 1)) is None


def test_models_without_token_types_get_none(tmp_path: Path) -> None:
    import transformers

    from tests.helpers.folders import saved
    from tests.helpers.models import randomised

    config = transformers.DistilBertConfig(
        vocab_size=len(WORDS), dim=16, n_layers=1, n_heads=2, hidden_dim=16, num_labels=3, max_position_embeddings=20
    )
    folder = saved(randomised(transformers.DistilBertForSequenceClassification(config)), tmp_path / "d")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    task, model, (batch,) = run("text-classification", folder, write(tmp_path, "x.csv", "text,label\na film,0\n"))
    assert "token_type_ids" not in batch
    assert task.loss(model, batch)[1] == 1


def test_a_result_says_that_half_precision_was_raised(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "m", "BertForSequenceClassification", dtype=torch.bfloat16)
    task, model, batches = run("text-classification", folder, write(tmp_path, "x.csv", REVIEWS))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    result = qg.sharpness(model, task.loss, batches, measure="euclidean", steps=1)
    assert any("stored in bfloat16 and raised to float32" in note for note in result.notes)


# --- masked-lm ---


def test_masks_are_tokens_of_the_text_and_labels_what_they_hide(masker: Path, tmp_path: Path) -> None:
    _, _, (batch,) = run("masked-lm", masker, write(tmp_path, "x.txt", LINES))
    texts = [line for line in LINES.splitlines() if line]
    hidden = batch["labels"] != -100
    assert hidden.sum(1).tolist() == [1, 1, 2, 1]  # 15 % of 4, 4, 10, 2, at least one
    assert torch.equal(batch["input_ids"] == WORDS.index("[MASK]"), hidden)
    restored = torch.where(hidden, batch["labels"], batch["input_ids"])
    for row, text in zip(restored.tolist(), texts, strict=True):
        assert row[: len(ids(text))] == ids(text)
    assert not hidden[:, 0].any()
    assert not hidden[batch["attention_mask"] == 0].any()


def test_masks_depend_on_the_seed_and_the_text_alone(masker: Path, tmp_path: Path) -> None:
    data = write(tmp_path, "x.txt", "\n".join(["it was not a very good film"] * 12))

    def masks(**options: Any) -> list[int]:
        _, _, batches = run("masked-lm", masker, data, **options)
        return [int(place) for batch in batches for place in (batch["labels"] != -100).int().argmax(1)]

    plain = masks()
    torch.manual_seed(99)
    assert masks() == plain
    assert masks(batch_size=5) == plain
    assert masks(limit=4) == plain[:4]
    assert len(set(plain)) > 2  # equal texts are not masked alike
    assert masks(seed=1) != plain
    assert masks(seed=1)[:-1] != plain[1:]  # the masks of another seed are not those of the next texts


def test_a_text_without_a_token_is_named(masker: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.csv, example 2 holds no token that could be masked"):
        run("masked-lm", masker, write(tmp_path, "x.csv", "text,n\na film,1\n\x7f,2\n"))


def test_an_empty_text_is_left_out_of_the_masked_too(masker: Path, tmp_path: Path) -> None:
    full = write(tmp_path, "x.csv", 'text,n\nthe film was good,1\n" ",2\nit was not very bad,3\n')
    task, _, (batch,) = run("masked-lm", masker, full)
    assert len(batch["input_ids"]) == 2
    assert task.notes == ["1 examples have no text and were left out: 2"]
    assert run("masked-lm", masker, full, label_column="n")[0].notes[0] == "without effect on masked-lm: --label-column"
    _, _, (other,) = run("masked-lm", masker, write(tmp_path, "y.csv", full.read_text().replace('" "', "film")))
    assert torch.equal(batch["labels"], other["labels"][[0, 2]])  # the masks of the others are what they were


def test_a_model_with_the_heads_of_pre_training_is_one_for_masks(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "m", "BertForPreTraining")
    _, model, _ = run("masked-lm", folder, write(tmp_path, "x.txt", LINES))
    assert type(model).__name__ == "BertForMaskedLM"
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": None}))
    assert type(run("masked-lm", folder, tmp_path / "x.txt")[1]).__name__ == "BertForMaskedLM"


# --- what does not fit ---


def test_the_head_must_be_the_tasks(masker: Path, classifier: Path, tmp_path: Path) -> None:
    base = text_folder(tmp_path / "base", "BertModel")
    for task, folder, message in (
        (
            "text-classification",
            masker,
            r"holds a BertForMaskedLM.*BertForSequenceClassification: the task masked-lm fits",
        ),
        (
            "masked-lm",
            classifier,
            r"holds a BertForSequenceClassification.*: the task text-classification fits this one, or",
        ),
        ("text-classification", base, r"holds a BertModel"),
        ("image-classification", base, r"holds a BertModel, but image-classification needs a model with that head: "),
    ):
        with pytest.raises(TaskError, match=message):
            load_task(task).load(str(folder))


def test_regression_is_no_classification(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "r", "BertForSequenceClassification", id2label={0: "score"}, label2id={"score": 0})
    with pytest.raises(TaskError, match=r"1 output\(s\)"):
        load_task("text-classification").load(str(folder))


def test_a_tokenizer_must_be_there_and_be_the_models(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "m", "BertForSequenceClassification")
    (folder / "vocab.txt").write_text("\n".join([*WORDS, "unseen"]))
    data = write(tmp_path, "x.csv", "text,label\nan unseen film,0\n")
    with pytest.raises(CheckpointError, match=r"gives the token 14, but the model has 14 embeddings"):
        run("text-classification", folder, data)
    (folder / "vocab.txt").unlink()  # transformers would make one without a vocabulary
    with pytest.raises(CheckpointError, match=r"no tokenizer files \(tokenizer\.json or vocab\.txt\)"):
        run("text-classification", folder, data)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("text,other\na,1\n", {}, "no column 'label' or"),
        ("text,label\na,1\n", {"label_column": "class"}, "no column 'class'"),
        ("words,label\na,1\n", {}, "no column 'text' or 'sentence'"),
        ("a,b,c,label\n1,2,3,0\n", {"text_column": "a,b,c"}, "3 columns"),
        ("text,label\na,good\nb,7\n", {}, r"x\.csv, example 2 has the label '7'"),
        ("text,label\na,\n", {}, "example 1 has no label"),
        ("text,label\na,1\n", {"max_length": 2}, "no room for a token beside 2 special ones"),
    ],
)
def test_bad_data_is_a_named_error(
    classifier: Path, tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        run("text-classification", classifier, write(tmp_path, "x.csv", text), **options)


def test_what_is_no_text_is_named(classifier: Path, tmp_path: Path) -> None:
    data = write(tmp_path, "x.jsonl", '{"text": ["a"], "label": 1}\n')
    with pytest.raises(DataError, match=r"example 1: 'text' is \['a'\], not a text"):
        run("text-classification", classifier, data)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "text,label\na film,1\n,1\nit,0\n  ,7\n"),
        ("x.jsonl", "\n".join(json.dumps({"text": t, "label": 1}) for t in ("a film", None, "it", " "))),
    ],
)
def test_empty_texts_are_left_out_and_named(classifier: Path, tmp_path: Path, name: str, text: str) -> None:
    task, _, (batch,) = run("text-classification", classifier, write(tmp_path, name, text))
    assert [row[row != 0].tolist() for row in batch["input_ids"]] == [ids("a film"), ids("it")]
    assert (task.definitions["examples"], task.definitions["examples_in_data"]) == (2, 4)
    assert "2 examples have no text and were left out: 2, 4" in task.notes
    with pytest.raises(DataError, match=r"the 1 examples read have no text in text"):
        run("text-classification", classifier, write(tmp_path, "y.csv", "text,label\n,1\n"))


def test_columns_that_were_used_are_told_and_others_that_could_be_meant(classifier: Path, tmp_path: Path) -> None:
    data = write(tmp_path, "x.csv", "sentence,text,target,label\nit,a film,1,0\nit,film,0,1\n")
    task, _, _ = run("text-classification", classifier, data)
    assert (task.definitions["text_columns"], task.definitions["label_column"]) == (["text"], "label")
    assert task.notes == [
        "the texts are those of column 'text'; there is 'sentence', too (--text-column)",
        "the labels are those of column 'label'; there is 'target', too (--label-column)",
    ]
    task, _, (batch,) = run("text-classification", classifier, data, text_column="sentence,text", label_column="target")
    assert (task.definitions["text_columns"], task.definitions["label_column"]) == (["sentence", "text"], "target")
    assert task.notes == []
    assert batch["labels"].tolist() == [1, 0]


def test_batches_come_after_load(classifier: Path, tmp_path: Path) -> None:
    task = load_task("text-classification")
    with pytest.raises(TaskError, match="call load"):
        task.batches("x.csv")
    task.load(str(classifier))
    with pytest.raises(CheckpointError):
        task.load(str(tmp_path / "nowhere"))
    with pytest.raises(TaskError, match="call load"):  # a failed load leaves nothing of the one before
        task.batches("x.csv")


def test_options_out_of_range() -> None:
    for name, value in (("batch_size", 0), ("limit", 0), ("max_length", True), ("seed", -1), ("batch_size", 2.0)):
        with pytest.raises(ArgumentError, match=name):
            DataOptions(**{name: value})  # type: ignore[arg-type]


def test_names_of_tasks_and_files() -> None:
    for wrong, close in (
        ("text-clasification", "text-classification"),
        ("Text_Classification", "text-classification"),
        ("masked_lm", "masked-lm"),
        ("image classification", "image-classification"),
    ):
        with pytest.raises(TaskError, match=f"did you mean '{close}'"):
            load_task(wrong)
    with pytest.raises(TaskError, match=r"no task 'sentiment': tasks are text-classification, .*FILE\.py"):
        load_task("sentiment")
    with pytest.raises(TaskError, match="does not exist"):
        load_task("folder/task")
    with pytest.raises(TaskError, match="reads its data itself"):
        load_task("task.py", DataOptions())


def test_a_failing_forward_is_a_named_error(classifier: Path) -> None:
    task = load_task("text-classification")
    model = task.load(str(classifier))
    batch = {"input_ids": torch.full((1, 3), 99), "labels": torch.tensor([0])}
    with pytest.raises(TaskError, match=r"BertForSequenceClassification failed on a batch of input_ids \(1, 3\)"):
        task.loss(model, batch)
