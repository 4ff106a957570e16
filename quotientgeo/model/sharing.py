"""Which tensors of a model are the same memory, wholly or in part, and which of them torch would not move together.

A model runs at other weights by swapping its registered parameters. A tensor that shares their memory but is reached otherwise,
through a buffer or a plain attribute, stays where it is: a tie that holds in training would silently not hold in a measure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import gcd
from typing import Any

import torch
from torch import Tensor, nn

from quotientgeo.errors import BlockError

_DEPTH = 2  # of lists, tuples and dicts inside an attribute
_MOST = 10_000  # items of one of them: a list of parameters is shorter, a vocabulary may be longer
_REGISTERED = ("_parameters", "_buffers", "_modules")


def refuse_partial_sharing(parameters: Mapping[str, Tensor]) -> None:
    """``BlockError`` where two parameters share some of their entries, or one holds an entry twice."""
    for name, parameter in parameters.items():
        if _in_memory(parameter) and parameter.numel() > 1 and _repeats(parameter):
            raise BlockError(
                f"entries of parameter {name!r} are the same memory (an expanded tensor): moving one would move others; give it "
                "storage of its own with .clone()"
            )
    for one, other in _neighbours(parameters):
        if overlap(parameters[one], parameters[other]):
            raise BlockError(
                f"parameters {one!r} and {other!r} overlap in memory without being the same tensor (a view or a transpose "
                "of one another): moving one would move a part of the other; give each its own storage, or tie them whole"
            )


def refuse_hidden_sharing(model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    """``BlockError`` where a buffer or a plain attribute of a module is (a part of) a parameter's memory."""
    places: dict[object, list[str]] = {}
    for name, parameter in parameters.items():
        if _in_memory(parameter):
            places.setdefault(_place(parameter), []).append(name)
    for where, tensor in _held(model):
        if not _in_memory(tensor):
            continue
        for name in places.get(_place(tensor), ()):
            if overlap(tensor, parameters[name]):
                raise BlockError(
                    f"{where} shares the memory of parameter {name!r} but would not move with it: torch swaps registered "
                    "parameters only; assign the Parameter itself as an attribute of a module (that is a tie), or a clone"
                )


def overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have an entry of memory in common."""
    if _place(one) != _place(other):
        return False
    (a, b), (c, d) = _extent(one), _extent(other)
    if b <= c or d <= a:
        return False
    if one.is_contiguous() and other.is_contiguous():
        return True
    unit = gcd(one.element_size(), other.element_size())
    return bool(torch.isin(_bytes(one, unit), _bytes(other, unit)).any())


def _held(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that modules hold other than as a parameter, with words for where."""
    registered = {id(module) for module in model.modules()}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        for name, buffer in module.named_buffers(recurse=False):
            yield f"buffer '{prefix}{name}'", buffer
        for name, value in vars(module).items():
            follows = isinstance(module, nn.RNNBase) and name == "_flat_weights"  # it is kept in step by torch
            if name not in _REGISTERED and not follows:
                for tensor in _inside(value, _DEPTH, registered):
                    yield f"attribute '{prefix}{name}'", tensor


def _inside(value: Any, depth: int, registered: set[int]) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, nn.Module):
        if id(value) not in registered:
            yield from value.parameters()
    elif depth and isinstance(value, (list, tuple, set, Mapping)):
        for item in islice(value.values() if isinstance(value, Mapping) else value, _MOST):
            yield from _inside(item, depth - 1, registered)


def _neighbours(parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Pairs of parameters whose extents in one storage meet."""
    places: dict[object, list[tuple[int, int, str]]] = {}
    for name, parameter in parameters.items():
        if _in_memory(parameter):
            places.setdefault(_place(parameter), []).append((*_extent(parameter), name))
    for extents in places.values():
        open_ones: list[tuple[int, str]] = []
        for start, end, name in sorted(extents):
            open_ones = [(other_end, other) for other_end, other in open_ones if other_end > start]
            yield from ((other, name) for _, other in open_ones)
            open_ones.append((end, name))


def _in_memory(tensor: Tensor) -> bool:
    return tensor.numel() > 0 and tensor.device.type != "meta" and tensor.layout == torch.strided


def _place(tensor: Tensor) -> tuple[object, int]:
    return tensor.device, int(tensor.untyped_storage().data_ptr())


def _extent(tensor: Tensor) -> tuple[int, int]:
    """First byte and the one after the last."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = int(tensor.storage_offset()) * tensor.element_size()
    return start, start + (int(last) + 1) * tensor.element_size()


def _bytes(tensor: Tensor, unit: int) -> Tensor:
    """Where the entries lie in their storage, in pieces of ``unit`` bytes."""
    at = torch.full((1,), int(tensor.storage_offset()), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        at = (at[:, None] + torch.arange(size) * stride).reshape(-1)
    pieces = tensor.element_size() // unit
    return (at[:, None] * pieces + torch.arange(pieces)).reshape(-1)


def _repeats(tensor: Tensor) -> bool:
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                break
            reach += stride * (size - 1)
    else:
        return False  # every step is longer than all shorter ones together
    at = _bytes(tensor, tensor.element_size())
    return len(torch.unique(at)) < len(at)
