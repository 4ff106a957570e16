"""Degrees of freedom: dimensions of the total space, of an orbit and of the quotient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import sympy as sp
import torch

from quotientgeo.errors import ArgumentError
from quotientgeo.symbolic.algebra import Dimension
from quotientgeo.symbolic.derivation.calculus import Reading
from quotientgeo.symbolic.derivation.coordinates import checked_sizes
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.autodiff import TorchCalculus
from quotientgeo.symbolic.derivation.levels.freeness import algebra_basis, vertical_steps
from quotientgeo.symbolic.derivation.levels.points import Sizes, generator, number
from quotientgeo.symbolic.derivation.levels.ranks import Ranks

LARGEST = 1_000_000  # entries of the matrix whose rank is the dimension of an orbit

Count: TypeAlias = Any  # an int, or a SymPy expression in the sizes
SizeValue: TypeAlias = Callable[[Dimension], Count]


class Degrees(NamedTuple):
    """Dimensions: numbers, or SymPy expressions in the sizes."""

    total: Count
    orbit: Count
    quotient: Count


def degrees(geometry: Geometry, sizes: Mapping[str, int] | None) -> Degrees:
    """Dimension of the factors, of the orbit of a generic point, and the difference."""
    if sizes is None:
        if vertical_steps(geometry, Ranks(geometry)) is None:
            raise ArgumentError(
                f"{geometry.name}: no formula shows that orbits have the dimension of the group: give the sizes, as in "
                f"dimension({{{', '.join(f'{size!r}: 4' for size in geometry.sizes if isinstance(size, str))}}})"
            )
        return _degrees(_total(geometry, sp.sympify), group_dimension(geometry, sp.sympify))
    checked = checked_sizes(geometry, sizes)

    def value(size: Dimension) -> int:
        return number(size, checked)

    total, group = _total(geometry, value), group_dimension(geometry, value)
    return _degrees(total, group if _free(geometry, checked) else _orbit(geometry, checked, total, group))


def _degrees(total: Count, orbit: Count) -> Degrees:
    return Degrees(total, orbit, total - orbit)


def _total(geometry: Geometry, value: SizeValue) -> Count:
    return sum((value(rows) * value(columns) for rows, columns in geometry.factors.values()), 0)


def group_dimension(geometry: Geometry, value: SizeValue) -> Count:
    """Dimension of the Lie algebra; ``value`` turns a size into a number or a symbol."""
    total: Count = 0
    for x in geometry.names.algebra:
        rows, columns = (value(size) for size in geometry.alphabet.shape(x))
        match geometry.kind(x):
            case "skew":
                total += rows * (rows - 1) // 2 if isinstance(rows, int) else rows * (rows - 1) / 2
            case "symmetric":
                total += rows * (rows + 1) // 2 if isinstance(rows, int) else rows * (rows + 1) / 2
            case "diagonal" | "complex_half" | "complex_interleaved":
                total += rows  # a pair of coordinates has one complex number
            case _:
                total += rows * columns
    return total


def _free(geometry: Geometry, sizes: Sizes) -> bool:
    """Whether the formulas give X = 0, and points of the full ranks that they need exist at these sizes."""
    ranks = Ranks(geometry)
    if vertical_steps(geometry, ranks) is None:
        return False
    for letter, rank in ranks.full.items():
        rows, columns = (number(size, sizes) for size in geometry.alphabet.shape(letter))
        if (rows < columns) if rank == "column" else (columns < rows):
            return False
    return True


def _orbit(geometry: Geometry, sizes: Sizes, total: int, group: int) -> int:
    """The rank of X -> V_X at a random point."""
    if total * group > LARGEST:
        raise ArgumentError(
            f"{geometry.name}: orbits have the dimension of the group only at points of full rank, which these sizes do not "
            f"have, and the rank of a {total} x {group} matrix would be needed: choose smaller sizes"
        )
    reading = Reading(TorchCalculus(sizes, generator("orbit", geometry.name).getrandbits(32)), geometry)
    (point,) = reading.bind(["p"])
    rows = []
    for element in algebra_basis(geometry, sizes):
        vertical = reading.vertical(point, {x: torch.tensor(m, dtype=torch.float64) for x, m in element.items()})
        rows.append(torch.cat([value.flatten() for value in vertical.values()]))
    return int(torch.linalg.matrix_rank(torch.stack(rows))) if rows else 0
