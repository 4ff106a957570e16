"""Texts to token ids: a checkpoint's own tokenizer, checked against its model."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from quotientgeo.errors import CheckpointError, DataError, one_line
from quotientgeo.tasks.options import DataOptions
from quotientgeo.tasks.tables import Table

TEXT_COLUMNS = ("text", "sentence", "review", "content")
LABEL_COLUMNS = ("label", "labels", "target", "class")


@dataclass(frozen=True)
class TextModel:
    """What is needed of a text checkpoint. positions, vocabulary: how many the model has, None where it does not say;
    accepts: names of the inputs that its forward takes."""

    folder: Path
    tokenizer: Any
    config: Any
    positions: int | None
    vocabulary: int | None
    accepts: frozenset[str]

    @classmethod
    def of(cls, folder: Path, model: nn.Module) -> TextModel:
        """Raises CheckpointError where the folder holds no tokenizer that transformers reads."""
        config: Any = getattr(model, "config", None)
        find: Any = getattr(model, "get_input_embeddings", lambda: None)
        return cls(
            folder,
            _tokenizer(folder),
            config,
            longest(model),
            getattr(find(), "num_embeddings", None),
            frozenset(inspect.signature(type(model).forward).parameters),
        )

    def encode(self, texts: Sequence[tuple[str, ...]], length: int) -> tuple[dict[str, Tensor], Counter[str]]:
        """One padded batch of texts, or of pairs of texts; and counts: of texts that were "cut", of "tokens" that are
        no special ones, and of those that are "unknown".

        Keys: input_ids, attention_mask, special_tokens_mask, and token_type_ids where the model takes them; all (texts, length).
        """
        columns = [[text[i] for text in texts] for i in range(len(texts[0]))]
        whole = self.tokenizer(*columns, verbose=False)["input_ids"]
        found = self.tokenizer(
            *columns,
            truncation=True,
            max_length=length,
            padding=True,
            return_tensors="pt",
            return_attention_mask=True,
            return_special_tokens_mask=True,
        )
        kept = ("input_ids", "attention_mask", "special_tokens_mask", *({"token_type_ids"} & self.accepts))
        batch = {key: found[key] for key in kept if key in found}
        highest = int(batch["input_ids"].max())
        if self.vocabulary is not None and highest >= self.vocabulary:
            raise CheckpointError(
                f"{self.folder}: its tokenizer gives the token {highest}, but the model has {self.vocabulary} embeddings: "
                "the tokenizer files belong to another model"
            )
        words = (batch["special_tokens_mask"] == 0) & (batch["attention_mask"] != 0)
        unknown = self.tokenizer.unk_token_id
        strange = batch["input_ids"] == (
            -1 if unknown is None else unknown
        )  # tokenizers may mask it as a special token
        counts = Counter(cut=sum(len(ids) > length for ids in whole), tokens=int((words | strange).sum()))
        counts["unknown"] = int(strange.sum())
        return batch, counts

    def length(self, options: DataOptions) -> int:
        """The number of tokens to cut at: max_length, or what the model or its tokenizer has where that is less."""
        limits = [options.max_length, int(self.tokenizer.model_max_length)]
        shortest = min([*limits, self.positions] if self.positions is not None else limits)
        special = self.tokenizer.num_special_tokens_to_add()
        if shortest <= special:
            raise DataError(
                f"max_length {shortest} leaves no room for a token beside {special} special ones: use a larger one"
            )
        return shortest


@dataclass(frozen=True)
class Texts:
    """One text, or a pair of texts, of each row of ``table`` that has one. columns: where they stand.

    empty: numbers of the rows that were left out, because a text in them is missing or blank.
    """

    table: Table
    texts: list[tuple[str, ...]]
    columns: tuple[str, ...]
    empty: tuple[int, ...]


def read_texts(table: Table, options: DataOptions) -> Texts:
    """The texts of a table. Raises DataError where a column is missing, a value is no text, or none is left."""
    names = options.text_column
    if names is not None and names not in table.columns and "," in names:
        columns = [table.column(name.strip(), (), "--text-column") for name in names.split(",")]
    else:
        columns = [table.column(names, TEXT_COLUMNS, "--text-column")]
    if len(columns) > 2:
        raise DataError(f"--text-column names {len(columns)} columns: a tokenizer takes one text or a pair of texts")
    texts, kept = [], []
    for i, (row, number) in enumerate(zip(table.rows, table.numbers, strict=True)):
        values = [row[column] for column in columns]
        for column, value in zip(columns, values, strict=True):
            if not (value is None or isinstance(value, (str, int, float))):
                raise DataError(f"{table.path}, example {number}: {column!r} is {value!r}, not a text")
        if not any(_missing(value) for value in values):
            texts.append(tuple(map(str, values)))
            kept.append(i)
    if not texts:
        raise DataError(f"{table.path}: the {len(table.rows)} examples read have no text in {', '.join(columns)}")
    empty = tuple(number for i, number in enumerate(table.numbers) if i not in set(kept))
    return Texts(table.only(kept), texts, tuple(columns), empty)


def _missing(value: Any) -> bool:
    """Nothing, not a number, or blank."""
    return value is None or value != value or not str(value).strip()


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        words = one_line(error)
        raise CheckpointError(f"{folder} has no tokenizer that transformers can read: {words}") from error
    # without its files a tokenizer is made all the same, with an empty vocabulary: every word would be unknown
    files = set(getattr(tokenizer, "vocab_files_names", {}).values())
    if files and not any((folder / name).is_file() for name in files):
        raise CheckpointError(
            f"{folder} has no tokenizer files ({' or '.join(sorted(files))}): copy those of the model, or write a task file"
        )
    if tokenizer.pad_token_id is None:
        raise CheckpointError(f"{folder}: its tokenizer has no padding token: name one in tokenizer_config.json")
    return tokenizer


def longest(model: nn.Module) -> int | None:
    """Longest sequence that learned absolute positions allow; RoBERTa's begin after the padding index."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and name.split(".")[-1] in (
            "position_embeddings",
            "wpe",
            "embed_positions",
        ):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return None
