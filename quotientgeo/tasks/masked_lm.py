"""masked-lm: hidden tokens of each text in a file."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor, nn

from quotientgeo.errors import CheckpointError, DataError
from quotientgeo.tasks.checkpoint_task import NOT_ASKED, CheckpointTask, groups
from quotientgeo.tasks.protocol import Batch
from quotientgeo.tasks.tables import read_table
from quotientgeo.tasks.text import TextModel, read_texts

MASK_SHARE = 0.15


class MaskedLM(CheckpointTask):
    """Texts (a txt file of one text a line, or a column of a table) under a masked language model.

    Of each text, 15 % of its tokens (at least one, never a special token) are replaced by the mask token. They are drawn from
    the seed and the text's number in the data, so that neither batch size nor limit changes them. ``loss``: sum of the
    cross-entropies of the masked tokens, and their number.
    """

    name = "masked-lm"
    head = "MASKED_LM"
    unread = ("label_column",)

    def prepare(self, folder: Path, model: nn.Module) -> TextModel:
        text = TextModel.of(folder, model)
        if text.tokenizer.mask_token_id is None:
            raise CheckpointError(f"{folder}: its tokenizer has no mask token: name one in tokenizer_config.json")
        return text

    def read(self, data: Path, prepared: TextModel) -> list[Batch]:
        whole = read_table(data, self.options.limit)
        found = read_texts(whole, self.options)
        table, texts = found.table, found.texts
        length, batches, counts = prepared.length(self.options), list[Batch](), Counter[str]()
        for part in groups(len(texts), self.options.batch_size):
            batch, more = prepared.encode(texts[part], length)
            free = (batch.pop("special_tokens_mask") == 0) & (batch["attention_mask"] != 0)
            chosen = torch.stack(
                [self._mask(row, number, data) for row, number in zip(free, table.numbers[part], strict=True)]
            )
            labels = torch.where(chosen, batch["input_ids"], NOT_ASKED)
            batch["input_ids"] = batch["input_ids"].masked_fill(chosen, prepared.tokenizer.mask_token_id)
            batches.append(batch | {"labels": labels})
            counts += more
        self.used(len(whole.rows), whole.total)
        self.columns(found)
        self.tokenised(len(texts), length, counts)
        return batches

    def _mask(self, free: Tensor, number: int, data: Path) -> Tensor:
        """Which positions of one text are masked; bool, (length,)."""
        places = free.nonzero().flatten()
        if not len(places):
            raise DataError(f"{data}, example {number} holds no token that could be masked: remove it")
        # hashed: torch's generator reads 32 bits of its seed, and a sum would give one seed the masks of another's neighbours
        stream = hashlib.sha256(f"{self.options.seed} {number}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(stream[:4], "big"))
        count = max(1, round(MASK_SHARE * len(places)))
        chosen = torch.zeros_like(free)
        chosen[places[torch.randperm(len(places), generator=generator)[:count]]] = True
        return chosen
