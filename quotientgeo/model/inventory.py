"""The parameters of a model, each once: ties are found by storage, not by configuration."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from quotientgeo.errors import ArgumentError
from quotientgeo.model.sharing import refuse_hidden_sharing, refuse_partial_sharing

_Key = tuple[object, ...]
LARGE_TABLE = 1 << 20  # entries of an embedding table from which its copies are avoided


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
    """All parameters of ``model``; ``BlockError`` where two share a part of one storage without being the same tensor, or a
    buffer or a plain attribute of a module is a parameter's memory."""
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"model must be a torch.nn.Module, got {_described(model)}")
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
    refuse_partial_sharing(parameters)
    refuse_hidden_sharing(model, parameters)
    return Inventory(parameters, one_name, aliases)


def _described(value: object) -> str:
    return f"the class {value.__name__}: make one" if isinstance(value, type) else f"a {type(value).__name__}"


def untied_embeddings(model: nn.Module) -> dict[str, nn.Embedding]:
    """Embedding tables that no other module shares, by the name of their weight."""
    owners: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        names[id(module.weight)]: module
        for module in model.modules()
        if isinstance(module, nn.Embedding) and owners.get(id(module.weight)) == 1
    }


def large_tables(model: nn.Module) -> frozenset[str]:
    """Names of those untied embeddings that are ``LARGE_TABLE`` entries or more: copies of them are worth avoiding."""
    return frozenset(name for name, module in untied_embeddings(model).items() if module.weight.numel() >= LARGE_TABLE)
