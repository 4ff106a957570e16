"""Embedding tables of which a batch reads few rows: the model gets these rows alone, and its gradient is as small.

A dense gradient of a vocabulary costs more than the rest of a short step. An embedding is looked up through a forward
pre-hook that maps indices to places in the compact table, for the time of one evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from quotientgeo.model import inventory

# A table is made compact if this many times its read rows are no more than the whole, and if it is large: a loss that looks
# at a small table sees all of it.
SAVING = 2


@dataclass(frozen=True, eq=False)
class Table:
    """``rows`` (R,) of the full table, in the order of the compact one; ``places`` (all rows,) the way back.

    A row that is not in ``rows`` has a place outside, so that reading it fails.
    """

    module: nn.Embedding
    rows: Tensor
    places: Tensor

    @classmethod
    def of(cls, module: nn.Embedding, read: Tensor) -> Table | None:
        """The table of the rows ``read`` (sorted, unique), None where it does not pay or cannot be.

        torch leaves the gradient of row ``padding_idx`` out, by its number: it keeps that number in the compact table. An
        embedding that renormalises its rows in place, or returns sparse gradients, keeps its own table.
        """
        count, padding = module.num_embeddings, module.padding_idx
        small = module.weight.numel() < inventory.LARGE_TABLE or SAVING * len(read) > count
        if small or module.max_norm is not None or module.sparse:
            return None
        rows = read.tolist()
        if padding is not None:
            rows = [row for row in rows if row != padding]
            if len(rows) < padding:
                return None
            rows.insert(padding, padding)
        at = torch.tensor(rows, device=read.device)
        places = torch.full((count,), len(rows), device=read.device)
        places[at] = torch.arange(len(rows), device=read.device)
        return cls(module, at, places)

    def look_up(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Forward pre-hook: the same rows, by their places in the compact table."""
        if args:
            return (self.places[args[0]], *args[1:]), kwargs
        return args, kwargs | {"input": self.places[kwargs["input"]]}
