"""All architecture rules, collected from the files of this folder, and what they find in a model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from torch import nn

from quotientgeo.model import architectures
from quotientgeo.model.blocks import PairBlock, ShiftBlock


def collected() -> list[Any]:
    """The modules of this folder that declare an architecture, by name: see ``architectures``."""
    names = sorted(found.name for found in iter_modules(architectures.__path__))
    others = [name for name in names if name != __name__.rpartition(".")[2]]
    modules = [import_module(f"quotientgeo.model.architectures.{name}") for name in others]
    return [module for module in modules if hasattr(module, "ATTENTION")]


RULES = tuple(module.ATTENTION for module in collected())
UNUSED = {kind: module.UNUSED for module in collected() for kind in module.MODEL_TYPES}


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
