"""Is there another invariant combination? Excluded by exact ranks: values of what the group element changes, modulo a prime.

A combination that is invariant for all sizes is so at these sizes and at every point, also modulo the prime. So where the
changed parts of the other forms have values of full rank at random points, no combination of them is invariant.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from quotientgeo.symbolic.algebra import Dimension, Shape, TracePolynomial
from quotientgeo.symbolic.algebra.parts import coordinate_pairs
from quotientgeo.symbolic.derivation.levels.kinds import PARTED, basis
from quotientgeo.symbolic.derivation.levels.points import Sizes, generator, number, numbers
from quotientgeo.symbolic.derivation.levels.reading import Evaluation
from quotientgeo.symbolic.metric_search.invariance import pushed_forward
from quotientgeo.symbolic.metric_search.places import Problem

PRIME = 2**31 - 1  # products of two residues fit into 64 bits
_SPARE = 8  # points more than there are forms

Residues = NDArray[np.int64]  # (points, rows, columns), or (rows, columns) where it is the same at all points


class SingularError(ArithmeticError):
    """A matrix to be inverted is singular at one of the points."""


class ResidueArithmetic:
    """Stacks of matrices modulo the prime."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes

    def number(self, value: Fraction) -> Residues:
        return np.full((1, 1), value.numerator * pow(value.denominator, -1, PRIME) % PRIME, dtype=np.int64)

    def identity(self, size: Dimension) -> Residues:
        return np.eye(number(size, self.sizes), dtype=np.int64)

    def zero(self, rows: Dimension, columns: Dimension) -> Residues:
        return np.zeros(numbers((rows, columns), self.sizes), dtype=np.int64)

    def add(self, left: Residues, right: Residues) -> Residues:
        return (left + right) % PRIME

    def scale(self, value: Residues, factor: Fraction) -> Residues:
        return value * self.number(factor) % PRIME

    def product(self, left: Residues, right: Residues) -> Residues:
        total = left[..., :, :1] * right[..., :1, :] % PRIME
        for k in range(1, left.shape[-1]):
            total = (total + left[..., :, k : k + 1] * right[..., k : k + 1, :]) % PRIME
        return total

    def transpose(self, value: Residues) -> Residues:
        return np.swapaxes(value, -1, -2)

    def trace(self, value: Residues) -> Residues:
        return (np.trace(value, axis1=-2, axis2=-1) % PRIME)[..., None, None]

    def multiply(self, scalar: Residues, value: Residues) -> Residues:
        return scalar * value % PRIME

    def ones(self, rows: Dimension, columns: Dimension) -> Residues:
        return np.ones(numbers((rows, columns), self.sizes), dtype=np.int64)

    def diagonal(self, column: Residues) -> Residues:
        return column * np.eye(column.shape[-2], dtype=np.int64)

    def diagonal_of(self, value: Residues) -> Residues:
        return np.diagonal(value, axis1=-2, axis2=-1)[..., None]

    def complex_part(self, value: Residues, pairing: str) -> Residues:
        out, half = np.zeros_like(value), pow(2, -1, PRIME)
        for p, q in coordinate_pairs(value.shape[-1], pairing):
            out[..., p, p] = out[..., q, q] = (value[..., p, p] + value[..., q, q]) % PRIME * half % PRIME
            out[..., q, p] = (value[..., q, p] - value[..., p, q]) % PRIME * half % PRIME
            out[..., p, q] = -out[..., q, p] % PRIME
        return out

    def inverse(self, value: Residues) -> Residues:
        """Gauss-Jordan elimination; a leading minor that is zero is taken for a singular matrix."""
        size = value.shape[-1]
        unit = np.broadcast_to(np.eye(size, dtype=np.int64), value.shape)
        work = np.concatenate([value, unit], axis=-1)
        for c in range(size):
            if not work[..., c, c].all():
                raise SingularError
            row = work[..., c, :] * _reciprocal(work[..., c, c])[..., None] % PRIME
            work = (work - work[..., :, c, None] * row[..., None, :]) % PRIME
            work[..., c, :] = row
        return work[..., size:]


def _reciprocal(value: Residues) -> Residues:
    """value^(p - 2): the inverse of a number other than zero."""
    out, power, exponent = np.ones_like(value), value, PRIME - 2
    while exponent:
        out = out * power % PRIME if exponent & 1 else out
        power, exponent = power * power % PRIME, exponent >> 1
    return out


def rank(rows: Residues) -> int:
    """Rank modulo the prime."""
    work, found = rows.copy(), 0
    for c in range(work.shape[1]):
        nonzero = np.flatnonzero(work[found:, c])
        if not len(nonzero):
            continue
        pivot = found + int(nonzero[0])
        work[[found, pivot]] = work[[pivot, found]]
        row = work[found, c:] * _reciprocal(work[found, c]) % PRIME
        work[found + 1 :, c:] = (work[found + 1 :, c:] - work[found + 1 :, c, None] * row) % PRIME
        found += 1
        if found == len(work):
            break
    return found


def changed_rank(problem: Problem, values: Sequence[TracePolynomial], sizes: Sizes) -> int:
    """The number of independent ones among the changes of forms under a group element, at these sizes.

    Raises:
        SingularError: an inverse does not exist there.
    """
    points = len(values) + _SPARE
    arithmetic = ResidueArithmetic(sizes)
    here = _random_point(problem, arithmetic, points)
    there = dict(here)
    for name, moved in pushed_forward(problem).items():
        there[name] = Evaluation(arithmetic, here)(moved.to_sympy())
    before, after = Evaluation(arithmetic, here), Evaluation(arithmetic, there)
    columns = []
    for value in values:
        expression = value.to_sympy()
        change = (after(expression) - before(expression)) % PRIME
        columns.append(np.broadcast_to(change[..., 0, 0], (points,)))
    return rank(np.stack(columns))


def _random_point(problem: Problem, arithmetic: ResidueArithmetic, points: int) -> dict[str, Residues]:
    rng = np.random.default_rng(generator("search_metrics", problem.symmetry.name, points).getrandbits(32))
    alphabet, names = problem.alphabet, problem.symmetry.names
    letters = (*names.factors, *names.tangents, *map(names.second_tangent, names.factors), *names.elements)
    return {name: _random(alphabet.shape(name), alphabet.kind(name).value, arithmetic, points, rng) for name in letters}


def _random(shape: Shape, kind: str, arithmetic: ResidueArithmetic, points: int, rng: np.random.Generator) -> Residues:
    rows, columns = numbers(shape, arithmetic.sizes)
    entries = rng.integers(1, PRIME, (points, rows, columns), dtype=np.int64)
    if kind in PARTED:
        out = np.zeros_like(entries)
        for unit, value in zip(basis(kind, rows, columns), entries.reshape(points, -1).T, strict=False):
            for (i, j), sign in unit.items():
                out[:, i, j] = sign * value % PRIME
        return out
    if kind == "orthogonal":  # Cayley transform of a skew matrix
        skew = (entries - np.swapaxes(entries, -1, -2)) % PRIME
        one = np.eye(rows, dtype=np.int64)
        return arithmetic.product((one - skew) % PRIME, arithmetic.inverse((one + skew) % PRIME))
    return entries
