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
    """The error for a model without a rule: its attention-like modules, and blocks ready to paste."""
    found = attention_like(model)
    listed = "\n".join(f"  - {item}" for item in found[:8]) or "  (no attention-like module found)"
    more = f"\n  and {len(found) - 8} more" if len(found) > 8 else ""
    return UnknownArchitectureError(
        f"no rule describes {type(model).__name__}. Attention-like modules:\n{listed}{more}\n"
        "In Python, declare their blocks by hand, and verify them:\n\n"
        f"{example(model, found)}\n"
        "then measure with qg.sharpness(model, loss, batches, graph=graph) (other symmetries than GL(h) on a pair: "
        "qg.DeclaredBlock with a geometry from qg.derive); or measure without symmetries: symmetries='none'."
    )


def example(model: nn.Module, found: list[AttentionLike]) -> str:
    """Code that adds the query-key and value-output blocks of all heads of the first module found."""
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    fitted = _fitted(found[0], shapes) if found else None
    if fitted is None:
        part = {name: f"PATH.{name}.weight" for name in ("query", "key", "value", "output")}
        biases = {name: f"PATH.{name}.bias" for name in part}
        fitted = _Heads("PATH", "HEADS", "h", part, biases, {"output": 1}, None)
    return fitted.code()


@dataclass(frozen=True)
class _Heads:
    """The heads of one module: their number and size as code; of each part its weight, its bias, and the axis of the heads if
    not 0. inner: the offset between the parts of one fused map."""

    path: str
    heads: str
    h: str
    weights: Mapping[str, str]
    biases: Mapping[str, str]
    axes: Mapping[str, int]
    inner: int | None

    def code(self) -> str:
        lines = ["import quotientgeo as qg", "", "graph = qg.SymmetryGraph(model)"]
        lines.append(
            f"for head in range({self.heads}):  # of {self.path or 'the model'}; do the same for the other modules"
        )
        lines.append(f"    at = range({self.h} * head, {self.h} * head + {self.h})")
        if self.inner is not None:  # the order of the parts is a guess, and only verification can tell
            lines.append("    # outputs of the fused map in the order query, key, value")
            starts = f"(0, {self.inner}, {2 * self.inner})"
            lines.append(f"    query, key, value = (range(start + at.start, start + at.stop) for start in {starts})")
        lines += [f"    {line}" for line in (*self._query_key(), *self._value_output())]
        lines.append("graph.verify(batch).require()")
        return "\n".join(f"    {line}".rstrip() for line in lines) + "\n"

    def _query_key(self) -> list[str]:
        free = "key" in self.biases
        lines = self._pair("qk", self._side("query"), self._side("key", carried=free))
        if free:
            lines.append("# softmax ignores what is added to all scores of a query, so the key bias is free")
            lines.append(f'graph.add(qg.ShiftBlock(f"{self._name}.key_bias", ({self._bias("key")},)))')
        return lines

    def _value_output(self) -> list[str]:
        if "output" not in self.weights:
            return [
                "# the value-output pair: likewise, of the value map and the map that reads the heads (there axis=1)"
            ]
        folded = {"value", "output"} <= self.biases.keys()
        lines = self._pair("vo", self._side("value", carried=folded), [self._weight("output")])
        if folded:
            lines.append("# attention weights sum to one, so the value bias is a part of the output bias")
            lines.append(f'graph.add(qg.ShiftBlock(f"{self._name}.value_bias", ({self._bias("value")},),')
            lines.append(f'    (({self._weight("output")}, "{self.biases["output"]}"),)))')
        return lines

    def _pair(self, kind: str, G: list[str], H: list[str]) -> list[str]:
        sides = [f"    {side}=({', '.join(legs)},)" for side, legs in (("G", G), ("H", H))]
        return [f'graph.add(qg.PairBlock(f"{self._name}.{kind}", qg.GL({self.h}),', f"{sides[0]},", f"{sides[1]}))"]

    def _side(self, part: str, *, carried: bool = False) -> list[str]:
        role = ', role="carried"' if carried else ""
        return [self._weight(part), *([self._bias(part, role)] if part in self.biases else [])]

    def _weight(self, part: str) -> str:
        return f'qg.Leg("{self.weights[part]}", axis={self.axes.get(part, 0)}, indices={self._at(part)})'

    def _bias(self, part: str, more: str = "") -> str:
        return f'qg.Leg("{self.biases[part]}", indices={self._at(part)}{more})'

    def _at(self, part: str) -> str:
        return "at" if self.inner is None or part == "output" else part

    @property
    def _name(self) -> str:
        return f"{self.path}.head{{head}}" if self.path else "head{head}"


def _fitted(item: AttentionLike, shapes: Mapping[str, tuple[int, ...]]) -> _Heads | None:
    """The heads of a module, None where names and shapes do not tell (keys and values fused alone, or shared by queries)."""
    if item.fused and "query" in item.parts:
        return None
    named = {part: item.fused or item.parts[part] for part in ("query", "key", "value")}
    weights = {part: name for part, path in named.items() if (name := _weight(path, shapes))}
    widths = {shapes[name][item.axis] for name in weights.values()}
    parts = 3 if item.fused else 1
    if len(weights) < 3 or len(widths) > 1 or not item.heads:
        return None
    inner, rest = divmod(widths.pop(), parts)
    if rest or inner % item.heads:
        return None
    output = _weight(item.parts["output"], shapes) if "output" in item.parts else None
    if output and shapes[output][1 - item.axis] == inner:
        weights["output"] = output
    biases = {part: bias for part, name in weights.items() if (bias := f"{name.removesuffix('weight')}bias") in shapes}
    axes = dict.fromkeys(named, item.axis) | {"output": 1 - item.axis}
    h = str(inner // item.heads)
    return _Heads(item.name, str(item.heads), h, weights, biases, axes, inner if item.fused else None)


def _weight(path: str, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    return next((name for name in (f"{path}.weight", path) if name in shapes and name.endswith("weight")), None)
