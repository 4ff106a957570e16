"""Embedding tables of which a batch reads few rows: the model gets these rows alone, and its gradient is as small.

A dense gradient of a vocabulary costs more than the rest of a short step. An embedding is looked up through a forward
pre-hook that maps indices to places in the compact table, for the time of one evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

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


class Reads(TorchFunctionMode):
    """Watches a forward pass: which rows of embedding tables it reads, and which tables it uses in any other way.

    rows: the indices that each table was called with. around: names of tables whose weight met any other operation, or whose
    module is no plain ``nn.Embedding`` called with integers. Enter it around forward passes alone.
    """

    def __init__(self, modules: Mapping[str, nn.Embedding]) -> None:
        super().__init__()
        self._modules = dict(modules)
        self._weights: dict[int, str] = {}
        self._inside: str | None = None
        self.rows: dict[str, list[Tensor]] = {}
        self.around = {name for name, module in modules.items() if type(module).forward is not nn.Embedding.forward}

    def watch(self, tensors: Mapping[str, Tensor]) -> None:
        """``tensors`` by parameter name are what the coming pass uses."""
        self._weights = {id(tensors[name]): name for name in self._modules if name in tensors}

    @contextmanager
    def hooks(self) -> Iterator[Reads]:
        """Inside, modules tell when they run."""
        with ExitStack() as stack:
            for name, module in self._modules.items():
                stack.callback(module.register_forward_pre_hook(partial(self._enter, name), with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(self._leave, always_call=True).remove)
            yield self

    def _enter(self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = args[0] if args else kwargs.get("input")
        if isinstance(ids, Tensor) and ids.dtype in (torch.int64, torch.int32):
            self.rows.setdefault(name, []).append(ids.detach().flatten())
        else:
            self.around.add(name)
        self._inside = name

    def _leave(self, *_: Any) -> None:
        self._inside = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__self__", None) not in _HARMLESS:
            for value in _flat((*args, *kwargs.values())):
                name = self._weights.get(id(value))
                if name is not None and name != self._inside:
                    self.around.add(name)
        return func(*args, **kwargs)


_HARMLESS = (
    torch.Tensor.dtype,
    torch.Tensor.device,
    torch.Tensor.requires_grad,
)  # said of a table, they read none of it


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _flat(value)
        else:
            yield value
