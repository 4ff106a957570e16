"""Plain data that say which numbers of which parameters a head's symmetric pair is made of."""

from dataclasses import dataclass, field

from tests.oracle.networks import Attention, FusedAttention


@dataclass(frozen=True)
class View:
    """`indices` along `axis` of the parameter `tensor`: the coordinates on which the group acts, one after the other.

    Read as a matrix, that axis goes last and the other axes are its rows; a bias vector is one row.
    """

    tensor: str
    axis: int
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """One GL(h) pair: A acts as G -> G A^-1 and H -> H A^T; rows of a factor are its views' rows, stacked.

    `carried_G` and `carried_H` move with G and H but are no rows of them: the key bias (no effect on the function at
    all, frozen) and a value bias that has an output bias (folded into it before anything is measured).
    """

    name: str
    kind: str
    layer: int
    head: int
    G: tuple[View, ...]
    H: tuple[View, ...]
    carried_G: tuple[View, ...] = ()
    carried_H: tuple[View, ...] = ()


@dataclass(frozen=True)
class Shift:
    """A translation symmetry: bias += t, and compensator[1] -= W t with W the matrix of the view compensator[0].

    The canonical form has the bias zero; without a compensator the bias has no effect (key bias).
    """

    name: str
    kind: str
    bias: View
    compensator: tuple[View, str] | None = None


@dataclass(frozen=True)
class Blocks:
    """All pairs and shifts of a model."""

    pairs: tuple[Pair, ...] = field(default=())
    shifts: tuple[Shift, ...] = field(default=())

    def __add__(self, other: "Blocks") -> "Blocks":
        return Blocks(self.pairs + other.pairs, self.shifts + other.shifts)


def _rows(attention: Attention | FusedAttention, which: str, head: int) -> tuple[str, tuple[int, ...]]:
    """Name of the projection ("query", "key", "value") and the output rows of it that belong to the head."""
    size = attention.value_size if which == "value" else attention.key_size
    if isinstance(attention, FusedAttention):
        start = (head * 3 + ("query", "key", "value").index(which)) * size
        return "qkv", tuple(range(start, start + size))
    return which, tuple(range(head * size, (head + 1) * size))


def attention_blocks(attention: Attention | FusedAttention, prefix: str, layer: int) -> Blocks:
    """The pairs and shifts of one attention module whose parameters are named `prefix`.*."""
    blocks = Blocks()
    for head in range(attention.heads):
        weight: dict[str, View] = {}
        bias: dict[str, View] = {}
        for which in ("query", "key", "value"):
            module, rows = _rows(attention, which, head)
            weight[which] = View(f"{prefix}.{module}.weight", 0, rows)
            bias[which] = View(f"{prefix}.{module}.bias", 0, rows)
        columns = tuple(range(head * attention.value_size, (head + 1) * attention.value_size))
        out = View(f"{prefix}.out.weight", 1, columns)
        has = attention.biases
        folds = "v" in has and "o" in has
        query_key = Pair(
            f"{prefix}.{head}.QK", "QK", layer, head,
            G=(weight["query"], bias["query"]) if "q" in has else (weight["query"],),
            H=(weight["key"],),
            carried_H=(bias["key"],) if "k" in has else (),
        )  # fmt: skip
        value_out = Pair(
            f"{prefix}.{head}.VO", "VO", layer, head,
            G=(weight["value"], bias["value"]) if "v" in has and not folds else (weight["value"],),
            H=(out,),
            carried_G=(bias["value"],) if folds else (),
        )  # fmt: skip
        shifts = []
        if "k" in has:
            shifts.append(Shift(f"{prefix}.{head}.key_bias", "key_bias", bias["key"]))
        if folds:
            compensator = (out, f"{prefix}.out.bias")
            shifts.append(Shift(f"{prefix}.{head}.value_bias", "value_bias", bias["value"], compensator))
        blocks += Blocks((query_key, value_out), tuple(shifts))
    return blocks
