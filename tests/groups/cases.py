"""One case for each kind of group, and elements and non-elements of it made without the package's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from quotientgeo.groups import (
    GL,
    ComplexDiagonal,
    NonzeroDiagonal,
    Orthogonal,
    PositiveDiagonal,
    Scaling,
    SimpleGroup,
    Translation,
)


@dataclass(frozen=True)
class Case:
    """A group with numbers for its sizes.

    ``equations`` maps a matrix to what vanishes exactly on the elements near the identity; ``wrong`` are matrices that are no
    elements, for one reason each; ``step`` is the number of columns by which a size can grow.
    """

    make: Callable[..., SimpleGroup]
    smallest: int
    step: int
    dimension: Callable[[int], int]
    equations: Callable[[np.ndarray], np.ndarray]
    wrong: Callable[[int], dict[str, np.ndarray]]
    columns: int = 0  # of a Translation

    def shape(self, k: int) -> tuple[int, int]:
        """Shape of an element at size k."""
        return (k, self.columns) if self.columns else (k, k)


def off_diagonal(a: np.ndarray) -> np.ndarray:
    return a[~np.eye(len(a), dtype=bool)]


def complex_equations(pairing: str) -> Callable[[np.ndarray], np.ndarray]:
    """J A = A J picks the complex matrices; commuting with one generic complex diagonal matrix the diagonal ones."""

    def equations(a: np.ndarray) -> np.ndarray:
        k = len(a) // 2
        numbers = np.diag(np.exp(1j * np.arange(1, k + 1)))
        generic = real_form(numbers, pairing)
        return np.concatenate([(m @ a - a @ m).ravel() for m in (generic, real_form(1j * np.eye(k), pairing))])

    return equations


def real_form(z: np.ndarray, pairing: str) -> np.ndarray:
    """The real matrix of a complex one, by what it does to each basis vector of C^k."""
    k = len(z)
    vectors = [*np.eye(k), *(1j * np.eye(k))]
    places = [(j, j + k) if pairing == "half" else (2 * j, 2 * j + 1) for j in range(k)]
    order = [first for first, _ in places] + [second for _, second in places]
    out = np.zeros((2 * k, 2 * k))
    for column, vector in zip(order, vectors, strict=True):
        image = z @ vector
        out[order[:k], column], out[order[k:], column] = image.real, image.imag
    return out


def with_entry(k: int, place: tuple[int, int], value: float) -> np.ndarray:
    """The identity with one entry replaced."""
    out = np.eye(k)
    out[place] = value
    return out


def never(a: np.ndarray) -> np.ndarray:
    return np.zeros(1)


NAN = float("nan")
CASES: dict[str, Case] = {
    "GL": Case(
        GL, 1, 1, lambda k: k * k, never,
        lambda k: {"singular": with_entry(k, (0, 0), 0.0), "zero": np.zeros((k, k)), "nan": NAN * np.eye(k)},
    ),
    "Orthogonal": Case(
        Orthogonal, 1, 1, lambda k: k * (k - 1) // 2, lambda a: (a.T @ a - np.eye(len(a))).ravel(),
        lambda k: {"scaled": (1 + 1e-9) * np.eye(k), "shear": with_entry(k, (0, -1), 2.0), "nan": NAN * np.eye(k)},
    ),
    "PositiveDiagonal": Case(
        PositiveDiagonal, 1, 1, lambda k: k, off_diagonal,
        lambda k: {"zero": with_entry(k, (0, 0), 0.0), "sign": with_entry(k, (-1, -1), -1.0), **full(k)},
    ),
    "NonzeroDiagonal": Case(
        NonzeroDiagonal, 1, 1, lambda k: k, off_diagonal,
        lambda k: {"zero": with_entry(k, (0, 0), 0.0), **full(k)},
    ),
    "ComplexDiagonal half": Case(
        ComplexDiagonal, 2, 2, lambda k: k, complex_equations("half"),
        lambda k: complex_wrong(k, "half"),
    ),
    "ComplexDiagonal interleaved": Case(
        lambda k: ComplexDiagonal(k, pairing="interleaved"), 2, 2, lambda k: k, complex_equations("interleaved"),
        lambda k: complex_wrong(k, "interleaved"),
    ),
    "Scaling": Case(
        lambda k: Scaling(), 1, 0, lambda k: 1, never,
        lambda k: {"zero": np.zeros((1, 1)), "sign": -np.ones((1, 1)), "nan": np.full((1, 1), NAN)},
    ),
    "Translation": Case(
        lambda k: Translation(k, 2), 1, 1, lambda k: 2 * k, never, lambda k: {"nan": np.full((k, 2), NAN)}, columns=2,
    ),
}  # fmt: skip


def full(k: int) -> dict[str, np.ndarray]:
    """One entry off the diagonal, where there is such a place; one that is not a number."""
    out = {"nan": with_entry(k, (0, 0), NAN)}
    return out | {"off the diagonal": with_entry(k, (0, -1), 1e-9)} if k > 1 else out


def complex_wrong(k: int, pairing: str) -> dict[str, np.ndarray]:
    """The conjugation (b, b), unequal real parts, a zero, and, where it is another one, the other pairing."""
    zero = np.eye(k // 2, dtype=complex)
    zero[0, 0] = 0.0
    flip = real_form(np.eye(k // 2), pairing)
    flip[-1, -1] = -1.0
    out = {"conjugation": flip, "unequal": with_entry(k, (0, 0), 1 + 1e-9), "zero": real_form(zero, pairing)}
    if k > 2:
        other = "half" if pairing == "interleaved" else "interleaved"
        out["other pairing"] = real_form(1j * np.eye(k // 2), other)
        mixed = np.eye(k // 2, dtype=complex)
        mixed[0, 1] = 1e-9
        out["not diagonal"] = real_form(mixed, pairing)
    return out


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def algebra_element(group: SimpleGroup, k: int, seed: int, scale: float = 1.0) -> Tensor:
    """A random combination of the basis, of that size."""
    basis = group.algebra_basis(sizes={"k": k})
    weights = torch.randn(len(basis), generator=generator(seed), dtype=torch.float64)
    return scale * torch.einsum("i,ijk->jk", weights, basis)
