"""Root coordinates of a declared metric at one point: xi = R z with |z| the metric norm of xi, R R' the inverse metric.

A metric that is a sum over factors of one term tr(L xi K xi') each is recognised by evaluating ``inner``; its root is that of two
small matrices per factor, whatever the size of the factor. Any other metric has one Gram matrix of all entries of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError, RankDeficientError

Factors = tuple[Tensor, ...]
Shapes = tuple[tuple[int, int], ...]
LARGEST_DENSE = 4096  # entries of a block whose Gram matrix is formed
_SAME = 1e-8  # relative difference between a metric and its supposed form
_CHUNK = 1 << 23  # entries of tangents that are evaluated at a time


class Root(Protocol):
    """Coordinates z (..., B, D) of tangents at the points of a batch of B blocks, D the entries of all factors."""

    def lift(self, z: Tensor) -> Factors:
        """xi = R z, factors (..., B, rows, columns)."""

    def coordinates(self, xi: Factors) -> Tensor:
        """z (..., B, D) with xi = R z."""

    def to(self, dtype: torch.dtype) -> Root: ...

    def smallest_ratio(self, module: ModuleType, point: Factors) -> Tensor:
        """The smallest eigenvalue, per block, of the metric at another point relative to the metric here; (B,)."""


class Pair(NamedTuple):
    """Lower Cholesky factor C (B, d, d) of a Gram matrix, and its inverse."""

    C: Tensor
    inverse: Tensor

    def to(self, dtype: torch.dtype) -> Pair:
        return Pair(self.C.to(dtype), self.inverse.to(dtype))


class Term(NamedTuple):
    """<xi, xi> = tr(L xi K xi') in one factor: L (B, rows, rows), None for the identity, and K (B, columns, columns)."""

    L: Tensor | None
    K: Tensor


def metric_root(module: ModuleType, point: Factors, names: Sequence[str]) -> Root:
    """The root at ``point``, factors (B, rows, columns) in float64; ``names`` of the blocks, for messages.

    Raises:
        RankDeficientError: the metric is not positive definite at a point, or not finite: a factor has lost rank.
        ArgumentError: the metric has not the form of one term per factor, and a block is too large for its Gram matrix.
    """
    shapes = _shapes(point)
    for two_sided in (False, True):
        terms = one_sided_terms(module, point, two_sided)
        if terms is not None:
            left = tuple(None if term.L is None else _root(term.L, names, module.NAME) for term in terms)
            found = KroneckerRoot(left, tuple(_root(term.K, names, module.NAME) for term in terms), shapes)
            if _is_isometry(found, module, point):
                return found
    entries = sum(rows * columns for rows, columns in shapes)
    if entries > LARGEST_DENSE:
        raise ArgumentError(
            f"{module.NAME}: its metric is not one term tr(L a K b') per factor, so a block needs the Gram matrix of its "
            f"{entries} entries, more than {LARGEST_DENSE}: use a metric of that form for blocks like {names[0]!r}"
        )
    return DenseRoot(_root(gram(module, point), names, module.NAME), shapes)


@dataclass(frozen=True)
class KroneckerRoot:
    """z = C_L' xi C_K in every factor, from the Cholesky factors of its term (``left`` None: the identity)."""

    left: tuple[Pair | None, ...]
    right: tuple[Pair, ...]
    shapes: Shapes

    def lift(self, z: Tensor) -> Factors:
        parts = zip(unflatten(z, self.shapes), self.left, self.right, strict=True)
        return tuple((x if left is None else left.inverse.mT @ x) @ right.inverse for x, left, right in parts)

    def coordinates(self, xi: Factors) -> Tensor:
        parts = zip(xi, self.left, self.right, strict=True)
        return flatten(tuple((x if left is None else left.C.mT @ x) @ right.C for x, left, right in parts))

    def pulled_back(self, covector: Factors) -> Tensor:
        """R' applied to a linear form, (B, D)."""
        parts = zip(covector, self.left, self.right, strict=True)
        return flatten(tuple((y if left is None else left.inverse @ y) @ right.inverse.mT for y, left, right in parts))

    def to(self, dtype: torch.dtype) -> KroneckerRoot:
        left = tuple(None if pair is None else pair.to(dtype) for pair in self.left)
        return replace(self, left=left, right=tuple(pair.to(dtype) for pair in self.right))

    def smallest_ratio(self, module: ModuleType, point: Factors) -> Tensor:
        terms = one_sided_terms(module, point)
        if terms is None:  # not finite there
            return point[0].new_full(point[0].shape[:1], torch.nan)
        found = []
        for term, left, right in zip(terms, self.left, self.right, strict=True):
            ratio = _smallest(right.inverse @ term.K @ right.inverse.mT)
            if term.L is not None:
                ratio = ratio * _smallest(term.L if left is None else left.inverse @ term.L @ left.inverse.mT)
            elif left is not None:
                ratio = ratio * _smallest(left.inverse @ left.inverse.mT)
            found.append(ratio)
        return torch.stack(found).amin(0)


@dataclass(frozen=True)
class DenseRoot:
    """z = C' xi with the Cholesky factor C of the Gram matrix of all entries of a block."""

    root: Pair
    shapes: Shapes

    def lift(self, z: Tensor) -> Factors:
        return unflatten((self.root.inverse.mT @ z[..., None])[..., 0], self.shapes)

    def coordinates(self, xi: Factors) -> Tensor:
        return (self.root.C.mT @ flatten(xi)[..., None])[..., 0]

    def to(self, dtype: torch.dtype) -> DenseRoot:
        return replace(self, root=self.root.to(dtype))

    def smallest_ratio(self, module: ModuleType, point: Factors) -> Tensor:
        return _smallest(self.root.inverse @ gram(module, point) @ self.root.inverse.mT)


def covector(module: ModuleType, point: Factors, eta: Factors) -> Factors:
    """The linear form <., eta> by factor, for eta with more leading dimensions: the gradient of a function that is linear."""
    with torch.enable_grad():
        xi = tuple(torch.zeros_like(x).requires_grad_() for x in eta)
        value = module.inner(*(x.detach() for x in point), *xi, *eta).sum()
        return tuple(torch.autograd.grad(value, xi, allow_unused=True, materialize_grads=True))


def gram(module: ModuleType, point: Factors) -> Tensor:
    """<e_i, e_j> of all entries of a block, factor by factor and row by row, (B, D, D)."""
    shapes, batch = _shapes(point), point[0].shape[0]
    entries = sum(rows * columns for rows, columns in shapes)
    unit = torch.eye(entries, dtype=point[0].dtype, device=point[0].device)
    rows = []
    for some in unit.split(max(1, _CHUNK // (batch * entries))):
        eta = unflatten(some[:, None].expand(-1, batch, -1), shapes)
        rows.append(flatten(covector(module, point, eta)))
    return torch.cat(rows).movedim(0, 1)


def _is_isometry(root: KroneckerRoot, module: ModuleType, point: Factors) -> bool:
    """Whether R' M R is the identity: what a comparison of M with its supposed form may miss in its smallest entries."""
    z = flatten(_gaussian(point))
    return _close(z[:, None], root.pulled_back(covector(module, point, root.lift(z)))[:, None])


def one_sided_terms(module: ModuleType, point: Factors, two_sided: bool = False) -> tuple[Term, ...] | None:
    """The metric at ``point`` as one term tr(L xi K xi') per factor; None where it has another form or is not finite.

    ``two_sided``: L is never taken to be the identity.
    """
    terms = []
    test = _gaussian(point)
    found = covector(module, point, test)
    for k in range(len(point)):
        K = _responses(module, point, k, columns=True)
        if not two_sided and _close(test[k] @ K, found[k]):
            terms.append(Term(None, K))
            continue
        if bool((K[:, 0, 0] == 0).any()):
            return None
        L = _responses(module, point, k, columns=False) / K[:, :1, :1]
        if not _close(L @ test[k] @ K, found[k]):
            return None
        terms.append(Term(L, K))
    return tuple(terms)


def _responses(module: ModuleType, point: Factors, k: int, *, columns: bool) -> Tensor:
    """<e_0j, e_0l> of the first row of factor k, (B, columns, columns), or <e_i0, e_l0> of its first column."""
    rows, width = point[k].shape[-2:]
    count = width if columns else rows
    unit = torch.eye(count, dtype=point[k].dtype, device=point[k].device)
    parts = []
    for some in unit.split(max(1, _CHUNK // sum(x.numel() for x in point))):
        eta = [x.new_zeros(len(some), *x.shape) for x in point]
        if columns:
            eta[k][:, :, 0, :] = some[:, None]
        else:
            eta[k][:, :, :, 0] = some[:, None]
        answer = covector(module, point, tuple(eta))[k]
        parts.append(answer[:, :, 0, :] if columns else answer[:, :, :, 0])
    return torch.cat(parts).movedim(0, 1)


def flatten(factors: Factors) -> Tensor:
    """(..., D) of factors (..., rows, columns), row by row."""
    return torch.cat([x.flatten(-2) for x in factors], dim=-1)


def unflatten(z: Tensor, shapes: Shapes) -> Factors:
    """The inverse of ``flatten``: views."""
    pieces = z.split([rows * columns for rows, columns in shapes], dim=-1)
    return tuple(piece.unflatten(-1, shape) for piece, shape in zip(pieces, shapes, strict=True))


def _shapes(point: Factors) -> Shapes:
    return tuple((int(x.shape[-2]), int(x.shape[-1])) for x in point)


def _gaussian(point: Factors) -> Factors:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x) for x in point)


def _close(supposed: Tensor, found: Tensor) -> bool:
    error = (supposed - found).flatten(1).norm(dim=1)
    return bool((error <= _SAME * found.flatten(1).norm(dim=1)).all())


def _root(matrix: Tensor, names: Sequence[str], geometry: str) -> Pair:
    """Brought to unit diagonal first: entries of very different weight are no loss of rank."""
    lengths = torch.diagonal(matrix, dim1=-2, dim2=-1).sqrt()
    positive = (lengths > 0).all(-1) & lengths.isfinite().all(-1)
    lengths = torch.where(positive[:, None], lengths, 1.0)
    scaled = (matrix + matrix.mT) / (2 * lengths[:, :, None] * lengths[:, None])
    C, failed = torch.linalg.cholesky_ex(torch.where(scaled.isfinite(), scaled, 0.0))
    smallest = torch.diagonal(C, dim1=-2, dim2=-1).amin(-1)
    bad = ~positive | (failed != 0) | ~(smallest.square() > 4 * torch.finfo(matrix.dtype).eps)
    if bool(bad.any()):
        named = [names[i] for i in bad.nonzero().flatten().tolist()]
        raise RankDeficientError(
            f"the metric of {geometry} is not positive definite to working precision at the weights of {', '.join(named[:5])}"
            f"{f' and {len(named) - 5} more' if len(named) > 5 else ''}: a factor has lost rank, or is not finite"
        )
    one = torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)
    inverse = torch.linalg.solve_triangular(C, one.expand_as(C), upper=False)
    return Pair(lengths[:, :, None] * C, inverse / lengths[:, None])


def _smallest(symmetric: Tensor) -> Tensor:
    """The smallest eigenvalue, NaN where the matrix is not finite; (B,)."""
    finite = symmetric.isfinite().all(-1).all(-1)
    safe = torch.where(finite[:, None, None], (symmetric + symmetric.mT) / 2, 0.0)
    return torch.where(finite, torch.linalg.eigvalsh(safe)[:, 0], torch.nan)
