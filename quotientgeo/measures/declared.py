"""A declared geometry on a batch of blocks: orthonormal root coordinates, the horizontal projection in them, and geodesics.

At a well-conditioned point x of each orbit, xi = R P z with R R' the inverse metric and P the orthogonal projection on the
horizontal space in root coordinates; so |P z| is the metric norm of xi and the ball is |z| <= rho. A different root R Q with
orthogonal Q turns z and nothing else, so an ascent along gradients does not see which root, or which point of the orbit, it has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from quotientgeo.errors import GeodesicAccuracyError, GeodesicCollapseError
from quotientgeo.geometry.derived import Derived, require_invariant
from quotientgeo.geometry.gauge import batch_names
from quotientgeo.measures.balancing import balanced
from quotientgeo.measures.roots import Factors, Root, metric_root
from quotientgeo.model.stacks import DeclaredStack

GeodesicName = Literal["exact", 1, 2, 3, 4]
SETTLED = 1e-8  # length of the change of an end point under doubling of the steps, relative to that of the tangent
ASCENT_STEPS = 8  # of RK4, where nothing better is known
MOST_ASCENT_STEPS = 64
_ASCENT_SETTLED = 1e-7  # the same while a maximum is only searched
_STEP_CAP = 2048
_COLLAPSED = 1e-6  # of an eigenvalue of the metric along the way, relative to the start
_WATCHED = 8  # points of a geodesic at which the metric is looked at
_DENSE_PROJECTION = 1 << 26  # entries of the orthonormal bases of vertical spaces that are kept
_RANK = 1e-10  # ratio of singular values of the vertical space, in root coordinates, that counts as zero


@dataclass(frozen=True, eq=False)
class BlockGeometry:
    """Horizontal geodesics of a batch of blocks from fixed points, in root coordinates z (B, D).

    point: factors (B, rows, columns) in float64, at which everything is computed. root: of the metric there. normal: an
    orthonormal basis (B, D, k) of the vertical space in root coordinates, padded with zeros; None where that would be too
    large, and the geometry's own projection is used. names: of the blocks. steps: of RK4 for an exact geodesic without
    closed form, else None. dtype: in which ``end`` computes; norms and diagnostics are float64.
    """

    derived: Derived
    names: tuple[str, ...]
    point: Factors
    root: Root
    normal: Tensor | None
    orbit: Tensor  # dimension of the orbits, (B,)
    geodesic: GeodesicName
    steps: int | None = None
    dtype: torch.dtype = torch.float64
    _cast: dict[torch.dtype, tuple[Factors, Root, Tensor | None]] = field(default_factory=dict, repr=False)

    @classmethod
    def at(cls, stack: DeclaredStack, factors: Factors, geodesic: GeodesicName) -> BlockGeometry:
        """The geometry of a stack at its factors, moved along their orbits to a well-conditioned point.

        Raises:
            RankDeficientError, ArgumentError: see ``metric_root``.
            AbsentOperationError: the geodesic is a Taylor polynomial that does not move with the group.
        """
        derived = Derived(stack.geometry)
        require_invariant(derived, geodesic)
        names = tuple(block.name for block in stack.blocks)
        point = balanced(stack, tuple(x.double() for x in factors))
        derived.attached = getattr(stack.geometry, "attached", None) or derived.attached
        root = metric_root(stack.module, point, names)
        normal, orbit = _vertical_basis(stack, point, root)
        integrated = geodesic == "exact" and derived.attached is None
        return cls(derived, names, point, root, normal, orbit, geodesic, ASCENT_STEPS if integrated else None)

    @property
    def entries(self) -> int:
        """D: entries of a block's factors."""
        return sum(x[0].numel() for x in self.point)

    def to(self, dtype: torch.dtype) -> BlockGeometry:
        return replace(self, dtype=dtype)

    def _in(self, dtype: torch.dtype) -> tuple[Factors, Root, Tensor | None]:
        if dtype not in self._cast:
            normal = None if self.normal is None else self.normal.to(dtype)
            self._cast[dtype] = (tuple(x.to(dtype) for x in self.point), self.root.to(dtype), normal)
        return self._cast[dtype]

    def horizontal(self, z: Tensor) -> Tensor:
        """P z, in the dtype of z."""
        point, root, normal = self._in(z.dtype)
        if normal is not None:
            return z - (normal @ (normal.mT @ z[..., None]))[..., 0]
        return root.coordinates(self.derived.project(point, root.lift(z)))

    def tangent(self, z: Tensor) -> Factors:
        """xi = R P z, factors (B, rows, columns)."""
        return self._in(z.dtype)[1].lift(self.horizontal(z))

    def end(self, z: Tensor) -> Factors:
        """Where the geodesic along z ends, factors (B, rows, columns) in the dtype of z; differentiable."""
        return self._end(z, self.steps)

    def _end(self, z: Tensor, steps: int | None) -> Factors:
        point, xi, closed = self._in(z.dtype)[0], self.tangent(z), self.derived.attached
        if (
            self.geodesic == "exact" and steps is None and closed is not None
        ):  # not a number where the geodesic has ended
            return tuple(closed.exponential(*point, *xi))
        return self.derived.exponential(point, xi, self.geodesic, steps=steps)

    def squared_norm(self, z: Tensor) -> Tensor:
        """<xi, xi> by the metric's own generated formula, (B,), float64."""
        xi = self.tangent(z.double())
        return self.derived.inner(self.point, xi)

    @torch.no_grad()
    def step_error(self, z: Tensor, steps: int) -> Tensor:
        """Length of the change of the end point under doubling of the steps, relative to that of the tangent; (B,).

        Both lengths are taken in the metric at the start, so that no group element changes the number.
        """
        few, many = (self._end(z.double(), count) for count in (steps, 2 * steps))
        change = self.derived.inner(self.point, tuple(a - b for a, b in zip(few, many, strict=True)))
        error = (change.clamp_min(0.0) / self.squared_norm(z)).sqrt()
        still = self.squared_norm(z) == 0
        return torch.where(still, 0.0, torch.where(error.isfinite(), error, torch.inf))

    def for_search(self, z: Tensor) -> BlockGeometry:
        """The same geometry with as many steps as a search needs along tangents such as z, at most ``MOST_ASCENT_STEPS``."""
        if self.steps is None:
            return self
        steps = 2
        while 2 * steps <= MOST_ASCENT_STEPS and bool((self.step_error(z, steps) > _ASCENT_SETTLED).any()):
            steps *= 2
        return replace(self, steps=steps)

    def settled(self, z: Tensor) -> BlockGeometry:
        """The same geometry with its steps doubled until the end point along z is settled in every block.

        Raises:
            GeodesicCollapseError: a finer integration runs out of the geometry's domain.
            GeodesicAccuracyError: it stays inside, and does not settle.
        """
        if self.steps is None:
            self.require_regular(z)
            return self
        steps = self.steps
        while True:
            error = self.step_error(z, steps)
            unsettled = ~(error <= SETTLED)
            if not bool(unsettled.any()):
                return replace(self, steps=steps)
            if 2 * steps > _STEP_CAP:
                break
            steps *= 2
        replace(self, steps=steps).require_regular(z)
        raise GeodesicAccuracyError(
            f"{self.derived.name}: {steps} Runge-Kutta steps leave the end of the geodesic relatively uncertain by "
            f"{batch_names(unsettled, error, self.names)} (tolerance {SETTLED:g}): use a smaller rho"
        )

    @torch.no_grad()
    def require_regular(self, z: Tensor) -> None:
        """Raise GeodesicCollapseError where the exact geodesic along z runs out of the geometry's domain.

        A closed form says where; an integral has left it where it is not finite, or not settled while the metric nearly
        degenerates on the way.
        """
        z = z.double()
        if self.steps is None:
            if self.geodesic == "exact" and self.derived.attached is not None:
                self.derived.attached.require_inside(self.point, self.tangent(z), self.names)
            return
        lowest = torch.ones_like(self.point[0][:, 0, 0])
        for k in range(1, _WATCHED + 1):
            ends = self._end(z * (k / _WATCHED), self.steps)
            ratio = self.root.smallest_ratio(self.derived.module, ends)
            finite = torch.stack([x.isfinite().flatten(1).all(1) for x in ends]).all(0) & ratio.isfinite()
            lowest = torch.minimum(lowest, torch.where(finite, ratio, 0.0))
        unsettled = ~(self.step_error(z, self.steps) <= SETTLED)
        collapsed = (lowest == 0.0) | (unsettled & (lowest < _COLLAPSED))
        if bool(collapsed.any()):
            raise GeodesicCollapseError(
                f"the geodesic of {self.derived.name} leaves the domain of its geometry: the smallest eigenvalue of the metric "
                f"falls to this fraction of its start (0: not finite): {batch_names(collapsed, lowest, self.names)}. Use a "
                "smaller rho, or a metric that is complete"
            )


def _vertical_basis(stack: DeclaredStack, point: Factors, root: Root) -> tuple[Tensor | None, Tensor]:
    """Orthonormal vertical vectors in root coordinates (B, D, k), zero beyond the rank; and the ranks (B,).

    None where they would be too large; the ranks are then the dimension of the group.
    """
    dimension = sum(group.dimension(sizes=stack.sizes) for group in stack.groups)
    entries = sum(x[0].numel() for x in point)
    if len(stack) * entries * dimension > _DENSE_PROJECTION:
        return None, torch.full((len(stack),), dimension)
    columns = []
    for j, group in enumerate(stack.groups):
        basis = group.algebra_basis(sizes=stack.sizes).to(point[0])
        zeros = [g.numeric_shape(sizes=stack.sizes) for g in stack.groups]
        X: list[Any] = [basis.new_zeros(len(basis), 1, *shape) for shape in zeros]
        X[j] = basis[:, None]
        vertical = stack.module.vertical(*point, *X)
        vertical = (vertical,) if isinstance(vertical, Tensor) else tuple(vertical)
        columns.append(root.coordinates(vertical))
    U, s, _ = torch.linalg.svd(torch.cat(columns).movedim(0, -1), full_matrices=False)
    kept = s > _RANK * s[:, :1]
    return U * kept[:, None], kept.sum(1)


def rescaled(z: Tensor, lengths: Tensor) -> Tensor:
    """z (B, D) with these lengths (B,); zero stays zero."""
    size = z.norm(dim=1)
    return z * (lengths / torch.where(size > 0, size, 1.0))[:, None]


def search_probe(directions: Tensor, rho: float) -> Tensor:
    """z of length rho in every block, along the directions."""
    return rescaled(directions, torch.full_like(directions[:, 0], rho))
