"""Losses and batches for the tiny models: masked tokens with unequal counts, and plain next labels."""

from __future__ import annotations

import torch
from torch import nn

from tests.helpers.models import hf_batch, token_batch


def masked_loss(model, batch):
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    labels = batch["labels"]
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    return loss, (labels != -100).sum()


def masked_batch(model):
    batch = hf_batch(model)
    generator = torch.Generator().manual_seed(9)
    labels = torch.randint(29, batch["input_ids"].shape, generator=generator)
    labels[batch["attention_mask"] == 0] = -100
    labels[0, :4] = -100  # unequal counts
    return {**batch, "labels": labels}


def tiny_loss(model, batch):
    logits = model(batch["ids"])
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum"), 12


def tiny_batch():
    return {"ids": token_batch(), "labels": token_batch(seed=1)}
