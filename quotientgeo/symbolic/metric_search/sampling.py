"""A cheap look at a form's sign at random points, before the certificate's search: most forms that can be negative are so here.

Candidates are found in floating point; exact numbers decide.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from quotientgeo.symbolic.derivation.certificate import Witness
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.autodiff import TorchArithmetic
from quotientgeo.symbolic.derivation.levels.points import (
    Rows,
    Sizes,
    assign_sizes,
    generator,
    has_full_rank,
    named_sizes,
    numbers,
)
from quotientgeo.symbolic.derivation.levels.rational import Dual, Entries, RationalCalculus
from quotientgeo.symbolic.derivation.levels.search import gram_matrices

_POINTS = 48  # for each assignment of sizes
_NEGATIVE = -1e-9  # an eigenvalue below this, relative to the largest, is looked at exactly
_ZERO = 1e-12  # and one below this is taken for zero
_DIGITS = (1, 2, 4)  # of a tangent: few for a witness that is easily read


class Sample(NamedTuple):
    """Exact points of full rank, and the eigenvalues and eigenvectors of the Gram matrix of one factor's tangents at each."""

    sizes: Sizes
    points: list[dict[str, Rows]]
    values: Tensor  # (points, entries), ascending
    vectors: Tensor  # (points, entries, entries)


def samples(geometry: Geometry, factor: str) -> Iterator[Sample]:
    """Random points at a few sizes, the smallest first: every factor that no group acts on is square, wide and tall in turn.

    The Gram matrix is that of the tangents of ``factor`` alone.
    """
    falling = assign_sizes(geometry, 2, 2 + len(geometry.sizes), -1)
    choices = (assign_sizes(geometry, 1, 1, 0), assign_sizes(geometry, 2, 2, 0), assign_sizes(geometry, 2, 3), falling)
    return (_sample(geometry, factor, sizes) for i, sizes in enumerate(choices) if sizes not in choices[:i])


def _sample(geometry: Geometry, factor: str, sizes: Sizes) -> Sample:
    rng = generator("signs", geometry.symmetry.name, sizes)
    points: list[dict[str, Rows]] = []
    while len(points) < _POINTS:
        point = {f: _random_rows(*numbers(shape, sizes), rng) for f, shape in geometry.factors.items()}
        if all(map(has_full_rank, point.values())):
            points.append(point)
    stacks = {
        f: torch.tensor([[[float(x) for x in row] for row in point[f]] for point in points], dtype=torch.float64)
        for f in geometry.factors
    }
    gram = gram_matrices(geometry, TorchArithmetic(sizes), stacks)
    start = 0
    for name, shape in geometry.factors.items():
        rows, columns = numbers(shape, sizes)
        if name == factor:
            gram = gram[:, start : start + rows * columns, start : start + rows * columns]
            break
        start += rows * columns
    values, vectors = torch.linalg.eigh(gram)
    return Sample(sizes, points, values, vectors)


def _random_rows(rows: int, columns: int, rng: random.Random) -> Rows:
    """Integers with random signs; columns of different lengths."""
    scales = [rng.choice((1, 1, 10)) for _ in range(columns)]
    return [[Fraction(rng.randint(1, 9) * rng.choice((-1, 1)) * scale) for scale in scales] for _ in range(rows)]


def negative_witness(geometry: Geometry, factor: str) -> Witness | None:
    """A point and a tangent of ``factor`` with <xi, xi> < 0, exactly; the smallest sizes first."""
    for sample in samples(geometry, factor):
        ratios = sample.values[:, 0] / sample.values.abs().amax(-1).clamp_min(torch.finfo(torch.float64).tiny)
        at = int(torch.argmin(ratios))
        if not ratios[at] < _NEGATIVE:
            continue
        vector = sample.vectors[at, :, 0]
        vector = vector / vector.abs().max()
        for digits in _DIGITS:
            witness = _exact(geometry, factor, sample, at, [Fraction(f"{x:.{digits}f}") for x in vector.tolist()])
            if witness is not None:
                return witness
    return None


def _exact(geometry: Geometry, factor: str, sample: Sample, at: int, entries: list[Fraction]) -> Witness | None:
    names, sizes = geometry.names, sample.sizes
    exact: dict[str, Rows] = dict(sample.points[at])
    for name, shape in geometry.factors.items():
        rows, columns = numbers(shape, sizes)
        given = iter(entries)
        exact[names.tangent(name)] = [
            [next(given) if name == factor else Fraction(0) for _ in range(columns)] for _ in range(rows)
        ]
    values: dict[str, Entries] = {
        name: [[Dual({0: x} if x else {}) for x in row] for row in rows] for name, rows in exact.items()
    }
    values |= {names.second_tangent(f): values[names.tangent(f)] for f in geometry.factors}
    ((square,),) = RationalCalculus(sizes, generator()).apply(geometry.inner, values)
    if square.real >= 0:
        return None
    text = {name: [[str(x) for x in row] for row in rows] for name, rows in exact.items()}
    return Witness(named_sizes(sizes), text, f"<xi, xi> = {square.real}", "> 0")


def mostly_definite(found: Iterable[Sample]) -> bool:
    """Whether the form is positive definite at most of the points: where it is not so by its form, it is so nowhere."""
    return all(((s.values[:, 0] > _ZERO * s.values.abs().amax(-1)).double().mean() > 0.5).item() for s in found)
