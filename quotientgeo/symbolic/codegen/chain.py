"""The order in which a product of several matrices is evaluated: cheapest split at representative sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from quotientgeo.symbolic.algebra import Kind, OnesLetter, Word
from quotientgeo.symbolic.codegen.graph import Sizes, extent

# a product whose operands are both bare inverses needs an explicit inverse: chosen only where nothing else is possible
EXPLICIT_INVERSE = 100


def tokens(word: Word, sizes: Sizes) -> tuple[Word, ...]:
    """The word cut wherever its inner size is smallest among its neighbours: G | xi_G' G | (G'G)^-1 | xi_H' H.

    At such a place the two sides are best evaluated separately, whatever they are multiplied with later; the pieces
    (mostly small Gram matrices) are the units in which words are compared and factored.
    """
    if not word:
        return ()
    lengths = [extent(word[0].rows, sizes), *(extent(letter.columns, sizes) for letter in word)]
    cuts = [i for i in range(1, len(word)) if lengths[i] <= min(lengths[i - 1], lengths[i + 1])]
    for start, end in _columns(
        word
    ):  # products of diagonal matrices are evaluated as columns, with the ones beside them
        cuts = sorted({i for i in cuts if not start < i < end} | {i for i in (start, end) if 0 < i < len(word)})
    return tuple(word[i:j] for i, j in zip([0, *cuts], [*cuts, len(word)], strict=True))


def _columns(word: Word) -> list[tuple[int, int]]:
    """(start, end) of the runs of diagonal matrices and columns of ones, each with the ones that make it a column or a row."""
    out, i = [], 0
    while i < len(word):
        start = i
        opened = isinstance(word[i], OnesLetter) and word[i].columns != 1
        i += opened
        while i < len(word) and word[i].family is Kind.DIAGONAL:
            i += 1
        closed = not opened and i < len(word) and isinstance(word[i], OnesLetter) and word[i].columns == 1
        i += closed
        if i > start:
            out.append((start, i))
        else:
            i += 1
    return out


@lru_cache(maxsize=100_000)
def chain_cost(lengths: tuple[int, ...], inverse: tuple[bool, ...]) -> int:
    """Multiplications for a product of matrices of sizes lengths[i] x lengths[i + 1] in its cheapest order."""
    return plan(lengths, inverse, lambda i, j: False)[0]


def plan(
    lengths: Sequence[int], inverse: Sequence[bool], known: Callable[[int, int], bool]
) -> tuple[int, dict[tuple[int, int], int]]:
    """(cost, splits) of the cheapest evaluation order of items 0 .. k-1 with sizes lengths[0] .. lengths[k].

    ``inverse[i]``: item i is a bare inverse, cheap to apply to something and dear to form. ``known(i, j)``: the product of
    items i .. j-1 is at hand. splits[i, j] is where the product of items i .. j-1 is cut last.
    """
    count = len(lengths) - 1
    costs: dict[tuple[int, int], int] = {(i, i + 1): 0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length
            if known(i, j):
                costs[i, j] = 0
                continue
            outer, best = lengths[i] * lengths[j], -1
            for k in range(i + 1, j):
                bare = length == 2 and inverse[i] and inverse[k]
                cost = costs[i, k] + costs[k, j] + outer * lengths[k] * (EXPLICIT_INVERSE if bare else 1)
                if best < 0 or cost < best:
                    best, splits[i, j] = cost, k
            costs[i, j] = best
    if count == 1 and inverse[0]:
        return EXPLICIT_INVERSE * lengths[0] ** 3, splits
    return costs[0, count], splits
