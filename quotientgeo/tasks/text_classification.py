"""text-classification: one class for each text, or pair of texts, in a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from quotientgeo.tasks.checkpoint_task import CheckpointTask, groups
from quotientgeo.tasks.labels import Labels
from quotientgeo.tasks.protocol import Batch
from quotientgeo.tasks.tables import read_table
from quotientgeo.tasks.text import LABEL_COLUMNS, TextModel, read_texts


@dataclass(frozen=True)
class _Prepared:
    text: TextModel
    labels: Labels


class TextClassification(CheckpointTask):
    """Texts with labels (a csv, tsv, json, jsonl or parquet file) under a model that chooses one class.

    ``loss``: sum over the texts of -log of the probability of the right class, and their number.
    """

    name = "text-classification"
    head = "SEQUENCE_CLASSIFICATION"

    def prepare(self, folder: Path, model: nn.Module) -> _Prepared:
        config: Any = model.config
        return _Prepared(TextModel.of(folder, model), Labels.of(config, self.name))

    def read(self, data: Path, prepared: _Prepared) -> list[Batch]:
        whole = read_table(data, self.options.limit)
        column = whole.column(self.options.label_column, LABEL_COLUMNS, "--label-column")
        found = read_texts(whole, self.options)
        table, texts = found.table, found.texts
        places = [f"{data}, example {number}" for number in table.numbers]
        indices, reading = prepared.labels.indices([row[column] for row in table.rows], places)
        labels = torch.tensor(indices)
        length, batches, counts = prepared.text.length(self.options), list[Batch](), Counter[str]()
        for part in groups(len(texts), self.options.batch_size):
            batch, more = prepared.text.encode(texts[part], length)
            del batch["special_tokens_mask"]
            batches.append(batch | {"labels": labels[part]})
            counts += more
        self.used(len(whole.rows), whole.total)
        self.columns(found, column)
        self.labelled(prepared.labels, indices, reading)
        self.tokenised(len(texts), length, counts)
        return batches
