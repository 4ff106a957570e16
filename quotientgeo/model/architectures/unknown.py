"""Attention-like modules of a model that no rule describes, and what to write for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from quotientgeo.errors import UnknownArchitectureError

_ENDS = "(_?(proj|projection|lin|linear|layer|w|weight))*"


def _pattern(names: str) -> re.Pattern[str]:
    return re.compile(f"^((to|w|lin|c)_?)?({names}){_ENDS}$", re.IGNORECASE)


_PARTS = {
    "query": _pattern("q|query|queries"),
    "key": _pattern("k|key|keys"),
    "value": _pattern("v|value|values"),
    "output": _pattern("o|out|output|dense|proj"),
}
_FUSED = re.compile("qkv|query_key_value|c_attn|in_proj|kv_?proj|to_kv|^kv$", re.IGNORECASE)
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "nheads")


@dataclass(frozen=True)
class AttentionLike:
    """A module that looks like attention: its name, class, linear maps by part, fused map, and head count if it has one.

    axis: where its maps keep their outputs (1 for the transposed Conv1D of GPT-2).
    """

    name: str
    kind: str
    parts: Mapping[str, str]
    fused: str | None
    heads: int | None
    axis: int

    def __str__(self) -> str:
        maps = [f"fused projection {self.fused}"] if self.fused else []
        maps += [f"{part} {path}" for part, path in self.parts.items()]
        heads = f", {self.heads} heads" if self.heads else ""
        return f"{self.name or '(the model itself)'} ({self.kind}{heads}): {', '.join(maps)}"


def attention_like(model: nn.Module) -> list[AttentionLike]:
    """Modules that hold query, key and value maps, or one fused map, among their children or own parameters."""
    found = []
    for name, module in model.named_modules():
        maps = [n for n, m in module.named_children() if any(p.ndim >= 2 for p in m.parameters(recurse=False))]
        maps += [n for n, p in module.named_parameters(recurse=False) if p.ndim >= 2]
        full = {n: f"{name}.{n}" if name else n for n in maps}
        parts = {part: full[n] for part, pattern in _PARTS.items() for n in maps if pattern.match(n)}
        fused = next((full[n] for n in maps if _FUSED.search(n)), None)
        if fused or {"query", "key", "value"} <= parts.keys():
            numbers = (getattr(m, n, None) for m in (module, getattr(module, "config", None)) for n in _HEADS)
            heads = next((n for n in numbers if isinstance(n, int) and n > 0), None)
            transposed = any(type(m).__name__ == "Conv1D" for m in module.children())
            found.append(AttentionLike(name, type(module).__name__, parts, fused, heads, int(transposed)))
    return found


def unknown_architecture(model: nn.Module) -> UnknownArchitectureError:
    """The error for a model without a rule: its attention-like modules, and a block ready to paste."""
    found = attention_like(model)
    listed = "\n".join(f"  - {item}" for item in found[:8]) or "  (no attention-like module found)"
    more = f"\n  and {len(found) - 8} more" if len(found) > 8 else ""
    return UnknownArchitectureError(
        f"no rule describes {type(model).__name__}. Attention-like modules:\n{listed}{more}\n"
        "Declare its blocks by hand, pair by pair and head by head, and verify them:\n\n"
        f"{example(model, found)}\n"
        "or measure without symmetries: symmetries='none'."
    )


def example(model: nn.Module, found: list[AttentionLike]) -> str:
    """Code that adds the query-key block of the first head of the first module found."""
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    prefix = f"{found[0].name}.head0" if found and found[0].name else "head0"
    fitted = _first_head(found[0], shapes) if found else None
    if fitted is None:
        fitted = _Head("h", ("PATH.query.weight", "PATH.key.weight"), 0, ("range(0, h)", "range(0, h)"), (None, None))
    return fitted.code(prefix)


@dataclass(frozen=True)
class _Head:
    """Size of a head, and of its query and key: weight, axis, indices and bias."""

    size: str
    weights: tuple[str, str]
    axis: int
    indices: tuple[str, str]
    biases: tuple[str | None, str | None]

    def code(self, prefix: str) -> str:
        sides = [[_leg(w, self.axis, at)] for w, at in zip(self.weights, self.indices, strict=True)]
        shift = ""
        if self.biases[0]:
            sides[0].append(_leg(self.biases[0], 0, self.indices[0]))
        if self.biases[1]:
            sides[1].append(_leg(self.biases[1], 0, self.indices[1], ', role="carried"'))
            shift = f"""    # softmax ignores what is added to all scores of a query, so the key bias is free
    graph.add(qg.ShiftBlock("{prefix}.key_bias", ({_leg(self.biases[1], 0, self.indices[1])},)))
"""
        G, H = (",\n           ".join(side) for side in sides)
        return f"""    import quotientgeo as qg

    graph = qg.SymmetryGraph(model)
    graph.add(qg.PairBlock("{prefix}.qk", qg.GL({self.size}),
        G=({G},),
        H=({H},)))
{shift}    graph.verify(batch).require()
"""


def _first_head(item: AttentionLike, shapes: Mapping[str, tuple[int, ...]]) -> _Head | None:
    """The first head, None where names and shapes do not tell."""
    parts = 3 if item.fused else 1  # fused: outputs taken to be [query, key, value]
    query = _weight(item.fused or item.parts["query"], shapes)
    key = query if item.fused else _weight(item.parts["key"], shapes)
    if query is None or key is None or not item.heads or shapes[query][item.axis] % (parts * item.heads):
        return None
    inner = shapes[query][item.axis] // parts
    h = inner // item.heads
    start = inner if item.fused else 0
    bias = [f"{name.removesuffix('weight')}bias" for name in (query, key)]
    biases = (bias[0] if bias[0] in shapes else None, bias[1] if bias[1] in shapes else None)
    return _Head(str(h), (query, key), item.axis, (f"range(0, {h})", f"range({start}, {start + h})"), biases)


def _weight(path: str, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    return next((name for name in (f"{path}.weight", path) if name in shapes and name.endswith("weight")), None)


def _leg(name: str, axis: int, indices: str, more: str = "") -> str:
    return f'qg.Leg("{name}", axis={axis}, indices={indices}{more})'
