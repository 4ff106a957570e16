"""All architecture rules, and what they find in a model."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch import nn

from quotientgeo.model.architectures import albert, bert, vit
from quotientgeo.model.blocks import PairBlock, ShiftBlock

RULES = (bert.ATTENTION, albert.ATTENTION, vit.ATTENTION)
UNUSED = {"bert": bert.UNUSED, "albert": albert.UNUSED, "vit": vit.UNUSED}  # by config.model_type


def attention_blocks(model: nn.Module, *, biases_as_rows: bool) -> tuple[list[PairBlock], list[ShiftBlock], list[str]]:
    """Blocks and shifts of every attention module that a rule describes, and the names of those modules."""
    pairs: list[PairBlock] = []
    shifts: list[ShiftBlock] = []
    found: list[str] = []
    for rule in RULES:
        for name, module in rule.find(model):
            new_pairs, new_shifts = rule.blocks(name, module, _layer(name, len(found)), biases_as_rows=biases_as_rows)
            pairs += new_pairs
            shifts += new_shifts
            found.append(name)
    return pairs, shifts, found


def _layer(name: str, ordinal: int) -> int:
    """The number in a name such as ``encoder.layer.3.attention``; where there is not exactly one, the order of appearance."""
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name)
    return int(numbers[0]) if len(numbers) == 1 else ordinal


def inside(name: str, modules: Iterable[str]) -> bool:
    """Whether the module ``name`` is one of ``modules``, lies inside one, or contains one."""
    return any(
        name == other or other == "" or name.startswith(f"{other}.") or other.startswith(f"{name}.")
        for other in modules
    )
