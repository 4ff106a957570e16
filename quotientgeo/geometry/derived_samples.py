"""Random points of declared factors, well-conditioned whatever group acts, and sizes to try a geometry at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError

Size = str | int
Factors = tuple[Tensor, ...]


def size_names(factors: Mapping[str, tuple[Size, Size]]) -> tuple[str, ...]:
    """Symbolic sizes in the order of their first occurrence."""
    return tuple(dict.fromkeys(size for shape in factors.values() for size in shape if isinstance(size, str)))


def numeric_shapes(
    factors: Mapping[str, tuple[Size, Size]], sizes: Mapping[str, int], of: str
) -> tuple[tuple[int, int], ...]:
    """Shapes of the factors.

    Raises:
        ArgumentError: a symbolic size has no value.
    """
    missing = [name for name in size_names(factors) if name not in sizes]
    if missing:
        raise ArgumentError(f"{of}: give sizes a value for {', '.join(missing)}, got {dict(sizes)}")
    return tuple(
        (rows if isinstance(rows, int) else sizes[rows], columns if isinstance(columns, int) else sizes[columns])
        for rows, columns in factors.values()
    )


def candidate_sizes(factors: Mapping[str, tuple[Size, Size]]) -> list[dict[str, int]]:
    """Small sizes to try, most telling first: rows differ from columns and from each other where they may.

    Columns are even, for groups that pair them. Which sizes a geometry admits (a square factor that is inverted, a Gram matrix of
    full rank) is seen by evaluating it.
    """
    names = size_names(factors)
    columns = [n for n in names if any(shape[1] == n for shape in factors.values())]
    rows = [n for n in names if n not in columns]
    many = {name: 5 + (i % 3) for i, name in enumerate(rows)}
    down = {name: max(4 - 2 * i, 2) for i, name in enumerate(columns)}
    up = {name: min(2 + 2 * i, 4) for i, name in enumerate(columns)}
    equal = dict.fromkeys(columns, 2)
    return [{**many, **chosen} for chosen in ((down, up, equal) if len(columns) > 1 else (up, down))]


def random_factors(
    shapes: Sequence[tuple[int, int]],
    batch: Sequence[int] = (),
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> Factors:
    """Factors (*batch, rows, columns) in float64 that are far from every singular set that an action on factors may have.

    A matrix has singular values between 1/sqrt(2) and sqrt(2), and singular vectors of a Gaussian. A single column has
    entries of either sign between 5/4 and 5/2 in size, since a group may act on each of them, on w or on 1 + w.
    """
    options: Any = {"dtype": torch.float64, "device": device, "generator": generator}

    def one(rows: int, columns: int) -> Tensor:
        if columns == 1:
            sign = torch.randint(2, (*batch, rows, 1), **options) * 2 - 1
            return 1.25 * sign * torch.exp2(torch.rand(*batch, rows, 1, **options))
        k = min(rows, columns)
        left, right = (torch.linalg.qr(torch.randn(*batch, d, k, **options)).Q for d in (rows, columns))
        return (left * torch.exp2(torch.rand(*batch, 1, k, **options) - 0.5)) @ right.mT

    return tuple(one(rows, columns) for rows, columns in shapes)


def random_tangent(
    shapes: Sequence[tuple[int, int]], batch: Sequence[int] = (), *, generator: torch.Generator | None = None
) -> Factors:
    """Gaussian tangents (*batch, rows, columns) in float64 on the CPU."""
    return tuple(torch.randn(*batch, *shape, dtype=torch.float64, generator=generator) for shape in shapes)
