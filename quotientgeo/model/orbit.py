"""Moving a model along the orbits of its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError, SymmetryError
from quotientgeo.model.blocks import PairBlock
from quotientgeo.model.geometries import groups_of
from quotientgeo.model.inventory import storage_key
from quotientgeo.model.stacks import DeclaredStack, Element

if TYPE_CHECKING:
    from quotientgeo.model.graph import SymmetryGraph


def random_elements(graph: SymmetryGraph, generator: torch.Generator, condition: float) -> dict[str, Element]:
    """One element per block, a matrix for each group of its product, float64, drawn in the order of the blocks' names."""
    sizes = {
        block.name: stack.sizes
        for stack in graph.stacks()
        if isinstance(stack, DeclaredStack)
        for block in stack.blocks
    }
    found: dict[str, Element] = {}
    for block in sorted(graph.blocks, key=lambda block: block.name):
        if isinstance(block, PairBlock) and block.geometry is None:
            found[block.name] = (block.group.random_element(generator, condition=condition),)
        else:
            found[block.name] = tuple(
                group.random_element(generator, condition=condition, sizes=sizes[block.name])
                for group in groups_of(block.geometry)
            )
    return found


def checked_seed(seed: Any) -> int:
    """The seed, if it is an integer that torch takes."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not -(2**63) <= index(seed) < 2**63:
        raise ArgumentError(f"seed must be an integer of 64 bits, got {seed!r}")
    return index(seed)


def raised(parameters: dict[str, Any]) -> dict[str, Tensor]:
    """Detached copies, real numbers in float64."""
    return {
        name: p.detach().to(torch.float64 if p.is_floating_point() else p.dtype, copy=True)
        for name, p in parameters.items()
    }


def act(graph: SymmetryGraph, params: dict[str, Tensor], elements: Mapping[str, Element]) -> dict[str, Tensor]:
    """``params`` with every block that has an element moved by it; the others stay exactly where they are."""
    for stack in graph.stacks():
        if any(block.name in elements for block in stack.blocks):
            params = stack.moved(params, elements)
    return params


def identities(graph: SymmetryGraph) -> dict[str, Element]:
    """The neutral element of every block."""
    found: dict[str, Element] = {}
    for stack in graph.stacks():
        one = stack.identity() if isinstance(stack, DeclaredStack) else (torch.eye(stack.h, dtype=torch.float64),)
        found |= {block.name: one for block in stack.blocks}
    return found


def moved_state(graph: SymmetryGraph, seed: int, condition: float, translations: float) -> dict[str, Any]:
    """See ``SymmetryGraph.move``."""
    if not (isinstance(translations, Real) and 0.0 <= translations < float("inf")):
        raise ArgumentError(f"translations must be a finite number >= 0, got {translations!r}")
    generator = torch.Generator().manual_seed(checked_seed(seed))
    params = act(graph, raised(dict(graph.parameters)), random_elements(graph, generator, condition))
    if translations:
        amounts = {
            name: translations * torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.device)
            for name, value in sorted(graph.translations.amounts(params).items())
        }
        params = graph.translations.apply(params, amounts)
    return _as_state(graph, params)


def _as_state(graph: SymmetryGraph, params: dict[str, Tensor]) -> dict[str, Any]:
    """The model's state dict with ``params`` in it, in the stored dtypes; one tensor under all names of a tie."""
    cast = {}
    for name, p in graph.parameters.items():
        moved = params[name].to(p.dtype).contiguous()
        if bool(torch.isfinite(p.detach()).all()) and not bool(torch.isfinite(moved).all()):
            raise SymmetryError(f"the moved weights of {name!r} overflow {p.dtype}: use a smaller condition")
        cast[storage_key(p)] = moved
    state: dict[str, Any] = {}
    for name, value in graph.model.state_dict(keep_vars=True).items():
        if isinstance(value, Tensor):
            key = storage_key(value)
            state[name] = cast.setdefault(key, value.detach().clone())
        else:
            state[name] = value
    return state
