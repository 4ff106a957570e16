"""A model and its batches in another floating-point type."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from quotientgeo.measures.batches import map_tensors
from quotientgeo.tasks.protocol import Batch


def converted(model: nn.Module, batches: Sequence[Batch], dtype: torch.dtype) -> tuple[nn.Module, list[Batch]]:
    """``model`` (changed in place, as by ``model.to``) and the batches with every floating tensor in ``dtype``; ids stay."""

    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return model.to(dtype), [map_tensors(batch, cast) for batch in batches]
