"""Attention-like modules of a model that no rule describes, and what to write for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import nn

from quotientgeo.errors import UnknownArchitectureError

_PARTS = {
    "query": re.compile(r"^(to_?|w_?|lin_?)?(q|query|queries)(_?(proj|projection|lin|linear|layer|w|weight))*$", re.I),
    "key": re.compile(r"^(to_?|w_?|lin_?)?(k|key|keys)(_?(proj|projection|lin|linear|layer|w|weight))*$", re.I),
    "value": re.compile(r"^(to_?|w_?|lin_?)?(v|value|values)(_?(proj|projection|lin|linear|layer|w|weight))*$", re.I),
}
_OUTPUT = re.compile(
    r"^(to_?|w_?|lin_?|c_?)?(o|out|output|dense|proj|projection)(_?(proj|projection|lin|linear|w|weight))*$", re.I
)
_FUSED = re.compile(r"(qkv|query_key_value|c_attn|in_proj|kv_?proj|to_kv|^kv$)", re.I)
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "nheads", "h")


@dataclass(frozen=True)
class AttentionLike:
    """One module that looks like attention: which linear maps it seems to hold, by part, and its head count if it says so."""

    name: str
    kind: str
    parts: dict[str, str]
    fused: str | None
    heads: int | None

    def __str__(self) -> str:
        maps = ", ".join(f"{part} = {path}" for part, path in self.parts.items())
        fused = f"fused projection {self.fused}" if self.fused else ""
        heads = f", {self.heads} heads" if self.heads else ""
        return f"{self.name or '(the model itself)'} ({self.kind}{heads}): {', '.join(x for x in (fused, maps) if x)}"


def attention_like(model: nn.Module) -> list[AttentionLike]:
    """nn.MultiheadAttention, and modules with query, key and value maps or one fused map among their children."""
    found = []
    for name, module in model.named_modules():
        children = dict(module.named_children())
        own = {n: m for n, m in children.items() if any(p.ndim == 2 for p in m.parameters(recurse=False))}
        direct = [n for n, p in module.named_parameters(recurse=False) if p.ndim >= 2]
        parts = {part: _full(name, n) for part, pattern in _PARTS.items() for n in [*own, *direct] if pattern.match(n)}
        fused = next((_full(name, n) for n in [*own, *direct] if _FUSED.search(n)), None)
        if len(parts) < 3 and not fused:
            continue
        output = next((_full(name, n) for n in own if _OUTPUT.match(n)), None)
        if output:
            parts["output"] = output
        heads = next((int(x) for x in (getattr(module, a, None) for a in _HEADS) if isinstance(x, int)), None)
        found.append(AttentionLike(name, type(module).__name__, parts, fused, heads))
    return found


def unknown_architecture(model: nn.Module) -> UnknownArchitectureError:
    """The error for a model without a rule: its attention-like modules, and a block ready to paste."""
    found = attention_like(model)
    listed = "\n".join(f"  - {item}" for item in found[:8]) or "  (no attention-like module found)"
    more = f"\n  and {len(found) - 8} more" if len(found) > 8 else ""
    return UnknownArchitectureError(
        f"no rule describes {type(model).__name__}. Attention-like modules:\n{listed}{more}\n"
        f"Declare its blocks by hand, one pair per head, and verify them:\n\n{example(model, found)}\n"
        "or measure without symmetries: symmetries='none'."
    )


def example(model: nn.Module, found: list[AttentionLike]) -> str:
    """Code that adds the query-key block of the first head of the first module found."""
    parameters = dict(model.named_parameters())
    rows, bias_rows, names, size = ["range(0, h)"] * 2, [], ["LAYER.query.weight", "LAYER.key.weight"], "h"
    if found and found[0].fused:
        item = found[0]
        weight = next((n for n in (f"{item.fused}.weight", str(item.fused)) if n in parameters), None)
        if weight and item.heads and parameters[weight].shape[0] % (3 * item.heads) == 0:
            inner = parameters[weight].shape[0] // 3
            h = inner // item.heads
            size, names = str(h), [weight, weight]
            rows = [f"range(0, {h})", f"range({inner}, {inner + h})"]
            bias_rows = [
                n for n in (f"{item.fused}.bias", weight.replace("_weight", "_bias")) if n in parameters and n != weight
            ]
            bias_rows = bias_rows[:1] * 2
    elif found:
        item = found[0]
        pair = [
            next((n for n in (f"{item.parts[p]}.weight", item.parts[p]) if n in parameters), None)
            for p in ("query", "key")
        ]
        if pair[0] and pair[1]:
            h = parameters[pair[0]].shape[0] // (item.heads or 1)
            size, names, rows = str(h), [pair[0], pair[1]], [f"range(0, {h})"] * 2
            biases = [f"{item.parts[p]}.bias" for p in ("query", "key")]
            bias_rows = biases if all(b in parameters for b in biases) else []
    prefix = f"{found[0].name}." if found and found[0].name else ""
    return _code(f"{prefix}head0.qk", size, names, rows, bias_rows)


def _code(block: str, size: str, names: list[str], rows: list[str], biases: list[str]) -> str:
    sides = [[f'qg.Leg("{name}", axis=0, indices={where})'] for name, where in zip(names, rows, strict=True)]
    for side, bias, where in zip(sides, biases, rows, strict=False):
        side.append(f'qg.Leg("{bias}", indices={where})')
    G, H = (", ".join(side) for side in sides)
    return (
        "    graph = qg.SymmetryGraph(model)\n"
        f'    graph.add(qg.PairBlock("{block}", qg.GL({size}),\n'
        f"        G=({G},),\n"
        f"        H=({H},)))\n"
        "    graph.verify(batch).require()\n"
    )


def _full(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
