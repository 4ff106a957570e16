"""What can be said about an attention module, and the blocks that follow from it.

The scores of a head use W_Q W_K' with the query bias b_Q as one more row of W_Q, its output uses W_V W_O'. What the other biases
are to these pairs is a choice, and each choice is another measure:

| | "attention" | "paper" (da Silva, Dangel, Oore, ICML 2025, section C.1) |
|---|---|---|
| b_Q | row of the query factor | row of the query factor |
| b_K | frozen at zero: a free translation | row of the key factor |
| b_V | folded into b_O, then frozen at zero | row of the value factor |
| b_O | the rest | the rest |

Both hold exactly. The first removes more: its value does not change when b_K moves, or b_V against b_O; under "paper" it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from torch import nn

from quotientgeo.errors import UnknownArchitectureError
from quotientgeo.groups import GL
from quotientgeo.model.blocks import Leg, PairBlock, ShiftBlock

KEY_REASON = "key bias: no effect, since softmax ignores what is added to all scores of a query"
VALUE_REASON = "value bias: folded into the output bias, since attention weights sum to one"


@dataclass(frozen=True)
class SplitAttention:
    """Multi-head softmax attention with separate linear maps, heads contiguous in their rows, and no position in the scores.

    modules: class names of the attention modules, also of their base classes. query, key, value, output: paths of the linear
    maps from such a module. heads, size: paths of its number of heads and their width.
    """

    modules: tuple[str, ...]
    query: str
    key: str
    value: str
    output: str
    heads: str
    size: str

    def find(self, model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
        """Names and modules of this kind inside ``model``, a shared module once."""
        for name, module in model.named_modules():
            if any(base.__name__ in self.modules for base in type(module).__mro__):
                yield name, module

    def blocks(
        self, name: str, module: nn.Module, layer: int, *, biases_as_rows: bool = False
    ) -> tuple[list[PairBlock], list[ShiftBlock]]:
        """Two pair blocks per head, and the free translations of key and value biases.

        ``biases_as_rows``: every query, key and value bias is a row of its factor instead, and nothing is a translation.
        """
        heads, size = int(attrgetter(self.heads)(module)), int(attrgetter(self.size)(module))
        maps = {part: self._linear(name, module, part, heads * size) for part in ("query", "key", "value", "output")}
        pairs: list[PairBlock] = []
        shifts: list[ShiftBlock] = []
        for head in range(heads):
            rows = tuple(range(head * size, (head + 1) * size))
            found = _head_blocks(maps, rows, f"{name}.head{head}" if name else f"head{head}", biases_as_rows)
            pairs += [PairBlock(n, GL(size), G, H, kind, layer, head) for n, kind, G, H in found[0]]
            shifts += [ShiftBlock(n, (leg,), to, kind, layer, head, reason) for n, kind, leg, to, reason in found[1]]
        return pairs, shifts

    def _linear(self, name: str, module: nn.Module, part: str, width: int) -> _Linear:
        path = getattr(self, part)
        full = f"{name}.{path}" if name else path
        try:
            found = module.get_submodule(path)
        except AttributeError as error:
            raise UnknownArchitectureError(f"{type(module).__name__} {name!r} has no {path!r}") from error
        weight, bias = (found._parameters.get(key) for key in ("weight", "bias"))
        axis = 1 if part == "output" else 0
        if not isinstance(found, nn.Linear) or weight is None or weight.shape[axis] != width:
            shape = None if weight is None else tuple(weight.shape)
            raise UnknownArchitectureError(
                f"{full!r} is a {type(found).__name__} with weight {shape}, but the rule for {type(module).__name__} expects an "
                f"nn.Linear with {width} = heads x size on axis {axis}. Adapters and parametrizations need their own blocks: "
                "use SymmetryGraph(model) and graph.add(PairBlock(...))"
            )
        return _Linear(f"{full}.weight", f"{full}.bias" if bias is not None else None)


@dataclass(frozen=True)
class _Linear:
    weight: str
    bias: str | None


_Role = Literal["factor", "carried"]
_Pair = tuple[str, str, tuple[Leg, ...], tuple[Leg, ...]]
_Shift = tuple[str, str, Leg, tuple[tuple[Leg, str], ...], str]


def _head_blocks(
    maps: dict[str, _Linear], rows: tuple[int, ...], prefix: str, biases_as_rows: bool
) -> tuple[tuple[_Pair, _Pair], list[_Shift]]:
    """The two pairs of a head, and its translations: see the table above.

    A value bias without an output bias to fold into is a row of the value factor in either case.
    """
    query, key, value, output = (maps[part] for part in ("query", "key", "value", "output"))
    queries = (Leg(query.weight, 0, rows), *_bias(query, rows, "factor"))
    outputs = Leg(output.weight, 1, rows)
    shifts: list[_Shift] = []
    key_role: _Role = "factor"
    value_role: _Role = "factor"
    if key.bias and not biases_as_rows:
        key_role = "carried"
        shifts.append((f"{prefix}.key_bias", "key_bias_translation", Leg(key.bias, 0, rows), (), KEY_REASON))
    if value.bias and output.bias and not biases_as_rows:
        value_role = "carried"
        fold = ((outputs, output.bias),)
        shifts.append((f"{prefix}.value_bias", "value_bias_fold", Leg(value.bias, 0, rows), fold, VALUE_REASON))
    keys = (Leg(key.weight, 0, rows), *_bias(key, rows, key_role))
    values = (Leg(value.weight, 0, rows), *_bias(value, rows, value_role))
    pairs = (f"{prefix}.qk", "attention_qk", queries, keys), (f"{prefix}.vo", "attention_vo", values, (outputs,))
    return pairs, shifts


def _bias(linear: _Linear, rows: tuple[int, ...], role: _Role) -> tuple[Leg, ...]:
    return () if linear.bias is None else (Leg(linear.bias, 0, rows, role=role),)
