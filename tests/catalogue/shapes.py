"""Watches the tensors that a computation makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class ShapeWatch(TorchDispatchMode):
    """Records the operations that are called and the largest size of each of the last two axes of every result."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: set[str] = set()
        self.shapes: set[tuple[int, ...]] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations.add(str(func))
        for value in out if isinstance(out, tuple | list) else (out,):
            if isinstance(value, Tensor):
                self.shapes.add(tuple(value.shape))
        return out

    def wide(self, limit: int) -> list[tuple[int, ...]]:
        """Shapes that no pair of (rows, columns) with a short side explains."""
        return sorted(shape for shape in self.shapes if len(shape) >= 2 and min(shape[-2:]) > limit)

    @property
    def inverting(self) -> list[str]:
        """Operations that form an inverse, or that solve without a factorisation that is kept."""
        marks = ("inverse", "linalg_inv", "linalg_solve", "pinv", "_linalg_det")
        return sorted(name for name in self.operations if any(mark in name for mark in marks))


def watched(function: Any, *arguments: Tensor) -> ShapeWatch:
    with ShapeWatch() as watch, torch.no_grad():
        function(*arguments)
    return watch
