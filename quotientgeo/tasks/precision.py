"""A model and its batches in another floating-point type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from quotientgeo.measures.batches import data_digest
from quotientgeo.model.checkpoint import model_digest
from quotientgeo.model.structure import all_in_dtype
from quotientgeo.tasks.protocol import Batch


class Converted(NamedTuple):
    """definitions: digests of the weights and the data as they were before, and the type they were converted to. Two results
    are about the same checkpoint where these agree, whatever the type they were computed in."""

    model: nn.Module
    batches: list[Batch]
    definitions: dict[str, Any]


def converted(model: nn.Module, batches: Sequence[Batch], dtype: torch.dtype) -> Converted:
    """``model`` (changed in place, as by ``model.to``) and the batches with every floating tensor in ``dtype``; ids stay."""
    definitions: dict[str, Any] = {
        "model_digest": model_digest(model),
        "data_digest": data_digest(batches),
        "stored_dtypes": sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters()}),
        "converted_to": str(dtype).removeprefix("torch."),
    }
    return Converted(model.to(dtype), [all_in_dtype(batch, dtype) for batch in batches], definitions)
