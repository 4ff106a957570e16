"""The parameters of a model, each once: ties are found by storage, not by configuration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from quotientgeo.errors import BlockError

_Key = tuple[object, ...]


@dataclass(frozen=True)
class Inventory:
    """parameters: one name per tensor in memory, in the order of ``named_parameters()``. one_name: every name, of tied
    parameters too, to that name. aliases: other names of ``named_parameters()`` that hold the same storage through another
    Parameter object (torch reports those twice).
    """

    parameters: dict[str, nn.Parameter]
    one_name: dict[str, str]
    aliases: dict[str, tuple[str, ...]]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(p.shape) for name, p in self.parameters.items()}


def storage_key(tensor: Tensor) -> _Key:
    """Equal for two tensors exactly if they are the same memory seen the same way."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return ("object", id(tensor))
    storage = tensor.untyped_storage().data_ptr()
    return (tensor.device, storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def inventory(model: nn.Module) -> Inventory:
    """All parameters of ``model``; ``BlockError`` where two share a part of one storage without being the same tensor."""
    first: dict[_Key, str] = {}
    one_name: dict[str, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        one_name[name] = first.setdefault(storage_key(parameter), name)
    listed = dict(model.named_parameters())
    aliases: dict[str, tuple[str, ...]] = {}
    for name in listed:
        if one_name[name] != name:
            aliases[one_name[name]] = (*aliases.get(one_name[name], ()), name)
    parameters = {name: p for name, p in listed.items() if one_name[name] == name}
    _refuse_partial_sharing(parameters)
    return Inventory(parameters, one_name, aliases)


def _refuse_partial_sharing(parameters: dict[str, nn.Parameter]) -> None:
    spans: dict[object, list[tuple[int, int, str]]] = {}
    for name, p in parameters.items():
        if p.numel() and p.device.type != "meta":
            start = int(p.storage_offset()) * p.element_size()
            extent = 1 + sum((size - 1) * stride for size, stride in zip(p.shape, p.stride(), strict=True))
            place = (p.device, p.untyped_storage().data_ptr())
            spans.setdefault(place, []).append((start, start + int(extent) * p.element_size(), name))
    for found in spans.values():
        found.sort()
        for (_, end, one), (start, _, other) in pairwise(found):
            if start < end:
                raise BlockError(
                    f"parameters {one!r} and {other!r} overlap in memory without being the same tensor (a view or a transpose "
                    "of one another): moving one would move a part of the other; give each its own storage, or tie them whole"
                )
