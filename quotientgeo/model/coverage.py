"""Every scalar parameter is in exactly one of: a block, frozen (with its reason), the rest."""

from __future__ import annotations

from dataclasses import dataclass

from quotientgeo.errors import BlockError


@dataclass(frozen=True)
class TensorCoverage:
    """Counts of one tensor's entries; ``reasons`` says why entries are frozen, with their number."""

    shape: tuple[int, ...]
    block: int
    frozen: int
    rest: int
    reasons: dict[str, int]


@dataclass(frozen=True)
class Coverage:
    """Counts of scalar parameters, each tensor in memory once.

    tensors: per parameter. kinds: number of blocks and shifts of each kind. redundant: dimensions of all groups together,
    translations included: directions in which the function does not change. uncovered: attention-like modules without a rule.
    """

    tensors: dict[str, TensorCoverage]
    kinds: dict[str, int]
    redundant: int
    uncovered: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, t in self.tensors.items():
            entries = 1
            for size in t.shape:
                entries *= size
            if min(t.block, t.frozen, t.rest) < 0 or t.block + t.frozen + t.rest != entries:
                raise BlockError(
                    f"coverage of {name!r} is no partition: {t.block} + {t.frozen} + {t.rest} of {entries} entries"
                )

    @property
    def block(self) -> int:
        return sum(t.block for t in self.tensors.values())

    @property
    def frozen(self) -> int:
        return sum(t.frozen for t in self.tensors.values())

    @property
    def rest(self) -> int:
        return sum(t.rest for t in self.tensors.values())

    @property
    def total(self) -> int:
        return self.block + self.frozen + self.rest

    @property
    def reasons(self) -> dict[str, int]:
        """Frozen entries of the whole model by reason."""
        found: dict[str, int] = {}
        for t in self.tensors.values():
            for reason, count in t.reasons.items():
                found[reason] = found.get(reason, 0) + count
        return found

    def __str__(self) -> str:
        def line(what: str, count: int) -> str:
            share = 100 * count / self.total if self.total else 0.0
            return f"{what:<8} {count:>14,}  {share:5.1f} %"

        lines = [line("blocks", self.block), line("frozen", self.frozen), line("rest", self.rest)]
        lines += [f"  frozen {count:,}: {reason}" for reason, count in self.reasons.items()]
        lines.append(
            f"total    {self.total:>14,}  in {len(self.tensors)} tensors; {self.redundant:,} redundant dimensions"
        )
        lines.append("kinds    " + (", ".join(f"{count} x {kind}" for kind, count in self.kinds.items()) or "none"))
        if self.uncovered:
            lines.append("attention-like modules that no rule describes: " + ", ".join(self.uncovered))
        return "\n".join(lines)
