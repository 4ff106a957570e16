"""Search for a tangent of length <= 0: wide and cheap in float64, over the scales and the shapes of the factors.

Only candidates are found here; an exact evaluation decides about each (``positivity``), so rounding refutes nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.autodiff import TorchArithmetic
from quotientgeo.symbolic.derivation.levels.points import Rows, Sizes, assign_sizes, generator, numbers
from quotientgeo.symbolic.derivation.levels.reading import Evaluation

POINTS = 8_000  # per assignment of sizes at most
_ENTRIES = 400_000  # of all Gram matrices at once
_ROUNDS, _KEPT = 4, 8  # refinements around the worst points, and how many of these are kept
_SUSPICIOUS = 1e-7  # eigenvalue of the Gram matrix, scaled to a unit diagonal, below which a point is looked at exactly
_DIGITS = (3, 12)  # of a candidate: few for a witness that is easily read, many where the window is narrow
_MARGIN, _FARTHEST = 6.0, 60.0  # decades

Point = dict[str, Tensor]  # factor -> (points, rows, columns)


class _Batched(TorchArithmetic):
    """Stacks of float64 matrices; a singular one gives infinities instead of an error."""

    def inverse(self, value: Tensor) -> Tensor:
        return torch.linalg.inv_ex(value).inverse


def decades(geometry: Geometry) -> float:
    """How far to scale the factors: past every scale at which two terms of the metric balance."""
    logarithms = [math.log10(abs(c.numerator)) - math.log10(c.denominator) for _, c in geometry.inner.polynomial]
    return min(_MARGIN + max(logarithms) - min(logarithms), _FARTHEST)


def suspects(geometry: Geometry) -> list[tuple[Sizes, dict[str, Rows]]]:
    """Points at which the metric may not be positive definite, worst first, as exact numbers."""
    out: list[tuple[float, int, Sizes, dict[str, Rows]]] = []
    falling = assign_sizes(
        geometry, 2, 2 + len(geometry.sizes), -1
    )  # what is definite may depend on which size is larger
    choices = (assign_sizes(geometry, 1, 1, 0), assign_sizes(geometry, 2, 2, 0), assign_sizes(geometry, 2, 3), falling)
    for i, sizes in enumerate(choices):
        if sizes in choices[:i]:
            continue
        for score, point in _worst(geometry, sizes):
            if score < _SUSPICIOUS:
                for digits in _DIGITS:
                    rounded = {f: _rounded(value, digits) for f, value in point.items()}
                    out.append((score, len(out), sizes, rounded))
    return [(sizes, point) for _, _, sizes, point in sorted(out, key=lambda entry: entry[:2])]


def _worst(geometry: Geometry, sizes: Sizes) -> list[tuple[float, Point]]:
    """The points of lowest score that random search and refinement find at these sizes."""
    rng = torch.Generator().manual_seed(generator("search", geometry.name, sizes).getrandbits(32))
    entries = sum(math.prod(numbers(shape, sizes)) for shape in geometry.factors.values()) ** 2
    count = min(POINTS, max(64, _ENTRIES // entries))
    points = _draw(geometry, sizes, count, rng)
    scores = _scores(geometry, sizes, points)
    for step in range(_ROUNDS):
        best = torch.argsort(scores)[:_KEPT]
        kept = {f: value[best] for f, value in points.items()}
        near = {f: _nearby(value, max(1, count // (4 * _KEPT)), 0.5**step, rng) for f, value in kept.items()}
        near |= {x: near[x].abs() for x in geometry.metric.parameters}
        points = {f: torch.cat([kept[f], near[f]]) for f in kept}
        scores = torch.cat([scores[best], _scores(geometry, sizes, near)])
    order = torch.argsort(scores)[:_KEPT].tolist()
    return [(float(scores[i]), {f: value[i] for f, value in points.items()}) for i in order]


def _draw(geometry: Geometry, sizes: Sizes, count: int, rng: torch.Generator) -> Point:
    """Gaussian matrices, each factor at a scale of its own, half of them with columns of very different lengths."""
    reach, out = decades(geometry), {}
    for factor, shape in geometry.factors.items():
        rows, columns = numbers(shape, sizes)
        value = torch.randn(count, rows, columns, generator=rng, dtype=torch.float64)
        scale = reach * (2 * torch.rand(count, 1, 1, generator=rng, dtype=torch.float64) - 1)
        spread = 2 * torch.rand(count, 1, columns, generator=rng, dtype=torch.float64) - 1
        spread[::2] = 0.0
        turn = torch.linalg.qr(torch.randn(count, columns, columns, generator=rng, dtype=torch.float64)).Q
        out[factor] = (value * 10.0 ** (scale + spread)) @ turn
    for parameter in geometry.metric.parameters:
        out[parameter] = 10.0 ** (reach * (2 * torch.rand(count, 1, 1, generator=rng, dtype=torch.float64) - 1))
    return out


def _nearby(value: Tensor, copies: int, step: float, rng: torch.Generator) -> Tensor:
    """Each point many times, with its scale and its entries disturbed."""
    value = value.repeat(copies, 1, 1)
    scale = 0.5 * step * torch.randn(len(value), 1, 1, generator=rng, dtype=torch.float64)
    noise = torch.randn(value.shape, generator=rng, dtype=torch.float64)
    size = value.abs().amax(dim=(-2, -1), keepdim=True)
    return (value + 0.3 * step * size * noise) * 10.0**scale


def _scores(geometry: Geometry, sizes: Sizes, points: Point) -> Tensor:
    """The smallest eigenvalue of each Gram matrix after scaling to a unit diagonal; infinite where there is none."""
    gram = gram_matrices(geometry, _Batched(sizes), points)
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    finite = gram.isfinite().all(-1).all(-1) & diagonal.isfinite().all(-1)
    positive = (diagonal > 0).all(-1)
    root = torch.where(diagonal > 0, diagonal, 1.0).sqrt()
    scaled = gram / (root[:, :, None] * root[:, None, :])
    usable = finite & positive & scaled.isfinite().all(-1).all(-1)
    identity = torch.eye(gram.shape[-1], dtype=torch.float64)
    lowest = torch.linalg.eigvalsh(torch.where(usable[:, None, None], scaled, identity))[:, 0]
    return torch.where(usable, lowest, torch.where(finite & ~positive, -math.inf, math.inf))


def gram_matrices(geometry: Geometry, arithmetic: TorchArithmetic, points: Point) -> Tensor:
    """Symmetric parts of the Gram matrices of the entries of a tangent, (points, entries, entries)."""
    names, sizes = geometry.names, arithmetic.sizes
    values = {f: value[:, None, None] for f, value in points.items()}
    units = sum(math.prod(numbers(shape, sizes)) for shape in geometry.factors.values())
    first = 0
    for factor, shape in geometry.factors.items():
        rows, columns = numbers(shape, sizes)
        basis = torch.zeros(units, rows * columns, dtype=torch.float64)
        basis[first : first + rows * columns] = torch.eye(rows * columns, dtype=torch.float64)
        first += rows * columns
        basis = basis.reshape(units, rows, columns)
        values[names.tangent(factor)] = basis[:, None]
        values[names.second_tangent(factor)] = basis[None]
    found = Evaluation(arithmetic, values)(geometry.inner.expression)[..., 0, 0]
    count = len(next(iter(points.values())))
    found = found.expand(count, units, units)
    return (found + found.mT) / 2


def _rounded(value: Tensor, digits: int) -> Rows:
    return [[Fraction(f"{entry:.{digits}g}") for entry in row] for row in value.tolist()]
