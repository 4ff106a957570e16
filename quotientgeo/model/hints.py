"""What may be behind a symmetry that does not hold: said after the numbers, as a guess."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from torch import nn

from quotientgeo.model.blocks import PairBlock

if TYPE_CHECKING:
    from quotientgeo.model.graph import SymmetryGraph

_MOST = 2  # blocks that a hint is spelled out for


def hints(graph: SymmetryGraph, failed: Collection[str]) -> tuple[str, ...]:
    """Guesses about the blocks and shifts named in ``failed``."""
    found = []
    if failed and (dropping := [name for name, module in graph.model.named_modules() if _drops(module)]):
        found.append(
            f"dropout is active ({dropping[0]}{', ...' if len(dropping) > 1 else ''}): dropped attention weights do not sum to "
            "one, so a value bias is not part of the output bias any more; measure in evaluation mode, or with "
            "symmetries='paper', where value biases are rows of the value factor"
        )
    blocks = [block for block in graph.blocks if block.name in failed and isinstance(block, PairBlock)]
    missing = [(block, side, bias) for block in blocks for side, bias in missing_biases(graph, block)]
    for block, side, bias in missing[:_MOST]:
        found.append(
            f"{bias!r} is no leg of {block.name!r}: if it is added to what the group acts on, it belongs to side {side}, "
            f"qg.Leg({bias!r}, indices=...)"
        )
    if len(missing) > _MOST:
        found.append(f"{len(missing) - _MOST} more biases beside declared weights are no legs")
    return tuple(found)


def missing_biases(graph: SymmetryGraph, block: PairBlock) -> Iterator[tuple[str, str]]:
    """(side, name) of every bias beside a weight of the block, on the axis that the group acts on, that is none of its legs."""
    legs = {leg.tensor for _, leg in block.legs}
    for side, leg in block.legs:
        prefix, _, last = leg.tensor.rpartition(".")
        bias = graph.names.get(leg.tensor.removesuffix("weight") + "bias") if last.endswith("weight") else None
        if bias is None or bias in legs or leg.lead is not None:
            continue
        shape = graph.parameters[leg.tensor].shape
        if leg.axis is None:
            continue
        axis = leg.axis % len(shape)
        output = 0 if isinstance(graph.model.get_submodule(prefix), nn.Linear) else axis
        if axis == output and tuple(graph.parameters[bias].shape) == (shape[axis],):
            legs.add(bias)
            yield side, bias


def _drops(module: nn.Module) -> bool:
    if not module.training:
        return False
    rates = (
        value for name, value in vars(module).items() if "drop" in name.lower() or (_is_dropout(module) and name == "p")
    )
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def _is_dropout(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd)
