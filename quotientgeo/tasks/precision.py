"""A model and its batches in another floating-point type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from quotientgeo.measures.batches import data_digest, map_tensors
from quotientgeo.model.checkpoint import model_digest
from quotientgeo.tasks.protocol import Batch


class Converted(NamedTuple):
    """definitions: digests of the weights and the data as they were before, and the type they were converted to. Two results
    are about the same checkpoint where these agree, whatever the type they were computed in."""

    model: nn.Module
    batches: list[Batch]
    definitions: dict[str, Any]


def converted(model: nn.Module, batches: Sequence[Batch], dtype: torch.dtype) -> Converted:
    """``model`` (changed in place, as by ``model.to``) and the batches with every floating tensor in ``dtype``; ids stay."""

    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    definitions: dict[str, Any] = {
        "model_digest": model_digest(model),
        "data_digest": data_digest(batches),
        "stored_dtypes": sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters()}),
        "converted_to": str(dtype).removeprefix("torch."),
    }
    return Converted(model.to(dtype), [map_tensors(batch, cast) for batch in batches], definitions)
