"""Names of Gram matrices: P = G' G for a tall factor, F F' for a wide one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quotientgeo.symbolic.algebra import Shape, SymbolLetter
from quotientgeo.symbolic.codegen.graph import Sizes, extent

_NAMES = "PQRSTUVYZ"


class Gram(NamedTuple):
    """The small product of a factor with its own transpose: F' F if F is tall, F F' if it is wide."""

    name: str
    wide: bool = False

    def text(self, factor: str) -> str:
        """``G' G`` or ``F F'``."""
        return f"{factor} {factor}'" if self.wide else f"{factor}' {factor}"

    def joins(self, left: SymbolLetter, right: SymbolLetter) -> bool:
        """Whether left right is a product of this kind, of two letters shaped like the factor."""
        return not (left.inverted or right.inverted) and (left.transposed, right.transposed) == (
            not self.wide,
            self.wide,
        )


def choose_grams(factors: Mapping[str, Shape], sizes: Sizes, taken: Iterable[str]) -> dict[str, Gram]:
    """{factor: its Gram matrix}, called P, Q, ... in the order of the factors, skipping names that are taken.

    A column or a row has none: its product with its own transpose is a number.
    """
    used, out = set(taken), {}
    for factor, (rows, columns) in factors.items():
        if 1 in (rows, columns):
            continue
        name = next((letter for letter in _NAMES if letter not in used), f"gram_{factor}")
        used.add(name)
        out[factor] = Gram(name, wide=extent(rows, sizes) < extent(columns, sizes))
    return out
