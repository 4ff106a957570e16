"""What the trap tests share: a small model, its loss on unequal masks, and a planted fault being noticed."""

from __future__ import annotations

import pytest
from torch import nn

import quotientgeo as qg
from quotientgeo.measures.result import SharpnessResult
from tests.helpers.graphs import graph_of
from tests.helpers.models import token_batch

EXAMPLES, LENGTH = 4, 6


def batch(seed: int = 0):
    labels = token_batch(EXAMPLES, LENGTH, seed=seed + 100)
    labels[0, 1:] = -100  # unequal masks: a mean of means would be wrong
    labels[3] = -100
    return {"ids": token_batch(EXAMPLES, LENGTH, seed=seed), "labels": labels}


def loss(model, batch):
    logits, labels = model(batch["ids"]).flatten(0, 1), batch["labels"].flatten()
    return nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum"), (labels != -100).sum()


def measured(model, *, data=None, of=loss, **settings) -> SharpnessResult:
    settings = {"steps": 4, "rho": 0.3, "graph": graph_of(model)} | settings
    return qg.sharpness(model, of, data or [batch()], **settings)


def notices(check, *trouble) -> bool:
    """Whether a check fails."""
    try:
        check()
    except (AssertionError, pytest.fail.Exception, *trouble):
        return True
    return False
