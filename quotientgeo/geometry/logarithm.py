"""The logarithm of the quotient: the horizontal tangent whose geodesic ends on the orbit of a given second pair.

There is no search over the group: a pair is reached when G H' is. Let W be the product at the end of the geodesic along z
and W_2 the wanted one. The step is

    z <- z + lift(P_T(W_2 - W)),

with P_T the projection on the tangent space of the matrices of rank h and lift the horizontal lift of such a tangent. For the
mixed metric, in which W moves straight inside its column and row spaces, both are taken at the start. For the invariant
metric they are taken at the end and the result is carried back by the group (``Shooting._carried_back``), which reaches
twice as far. Anderson's mixing of the last steps makes up for what neither knows of the derivative of Exp. All of it happens
in the 2h dimensions that hold both column spaces: the cost does not depend on n and m.

A solution is a geodesic that connects the two orbits; that none is shorter is not certified, beyond what the bounds in
``distances`` say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from quotientgeo.errors import ShapeError
from quotientgeo.geometry import anderson
from quotientgeo.geometry.coordinates import Horizontal
from quotientgeo.geometry.distance_paths import principal_angles
from quotientgeo.geometry.distance_rank_one import rank_one_tangent
from quotientgeo.geometry.gauge import Frames, row
from quotientgeo.geometry.pair import METRICS, MetricName, PairGeometry, require_declared

TOLERANCE = 1e-11  # of the gap; relative to |W_2|_F for the mixed metric, whose lengths scale with W
MOST_ITERATIONS = 120
_FIRST_STEPS, _MOST_STEPS = 16, 512
_ROUNDING = 8.0  # rounding errors of an entry of W, times its largest singular value
_ENTRIES = 1 << 23  # of the history that is held at a time


class Logarithm(NamedTuple):
    """What ``logarithm`` found, block by block; all tensors but ``z`` have the batch shape (...), float64.

    z: coordinates of the tangent at the first pair's frames. length: |z|, its metric norm. gap: length, to first order, of
    the path from the end of the geodesic to the orbit of the second pair; infinite where the geodesic has no end.
    converged: whether the gap is at the tolerance, or at rounding where that is larger. Where it is false, z is the best
    tangent seen and no logarithm. iterations: geodesics that were shot.
    """

    z: Horizontal
    length: Tensor
    gap: Tensor
    converged: Tensor
    iterations: Tensor


@torch.no_grad()
def logarithm(
    first: Frames,
    second: Frames,
    metric: MetricName,
    *,
    start: Horizontal | None = None,
    tolerance: float = TOLERANCE,
    most: int = MOST_ITERATIONS,
) -> Logarithm:
    """Horizontal tangent z at the first pairs with Exp(z) on the orbits of the second, in float64.

    first, second: canonical frames of two batches of pairs of one shape. start: where to begin (default: the lift of
    P_T(W_2 - W_1)). most: iterations for one number of integrator steps. For h = 1 the tangent is a closed form.

    A converged z has gap <= max(tolerance u, r): u = 1 (invariant) or |W_2|_F (mixed), and r the rounding of W as the metric
    sees it, 8 eps h s_1/s_h (invariant) or 8 eps h s_1 (mixed). The gap is d(Exp z, orbit) to first order in the miss W_2 - W:
    an estimate whose error is of second order in itself, not a proven bound. The integrator's steps for the mixed metric are
    doubled until G H' changes by no more than a relative ``tolerance``, and the last change, which estimates what is left, is
    part of the gap. Where that fails, or the iteration does, ``converged`` is false.

    Raises:
        ShapeError: the two batches differ in shape.
    """
    require_declared(metric, "exact")
    if first.F_G.shape != second.F_G.shape or first.F_H.shape != second.F_H.shape:
        raise ShapeError(
            f"logarithm: the pairs must have one shape, got G {tuple(first.F_G.shape)} and {tuple(second.F_G.shape)}, "
            f"H {tuple(first.F_H.shape)} and {tuple(second.F_H.shape)}"
        )
    batch = first.s.shape[:-1]
    one, two = (_flat(frames.to(torch.float64)) for frames in (first, second))
    z = None if start is None else Horizontal(*(part.double().reshape(-1, *part.shape[-2:]) for part in start))
    count, h = one.s.shape
    if h == 1:
        return _rank_one(first, second, metric)
    chunk = max(1, _ENTRIES // (3 * h * h * anderson.MEMORY))
    parts = []
    for begin in range(0, max(count, 1), chunk):
        some = slice(begin, begin + chunk)
        ends = [Frames(*(p[some] for p in frames)) for frames in (one, two)]
        problem = Shooting.between(ends[0], ends[1], metric)
        parts.append(_solve(problem, z and Horizontal(*(p[some] for p in z)), tolerance, most))
    joined = [torch.cat(some) for some in zip(*((*p.z, *p[1:]) for p in parts), strict=True)]
    shaped = [part.reshape((*batch, *part.shape[1:])) for part in joined]
    return Logarithm(Horizontal(*shaped[:3]), *shaped[3:])


def _rank_one(first: Frames, second: Frames, metric: MetricName) -> Logarithm:
    z, exists = rank_one_tangent(first, second, metric)
    gap = torch.where(exists, 0.0, math.inf).double()
    return Logarithm(z, z.squared_norm().sqrt(), gap, exists, torch.zeros_like(exists, dtype=torch.int64))


def _flat(frames: Frames) -> Frames:
    trailing = [2, 2, 1, 2, 2, 2, 2]
    return Frames(*(part.reshape(-1, *part.shape[part.ndim - k :]) for part, k in zip(frames, trailing, strict=True)))


@dataclass(frozen=True, eq=False)
class Shooting:
    """Geodesics from the first pairs, aimed at the second, in bases of both column spaces; flat batches of B blocks.

    geometry: at the first pairs, whose frames are [I; 0] in the bases. C_G, C_H (B, h + p, h): the second pairs' frames in the
    bases, with p = min(h, n - h) and likewise for m. s: their singular values. B_G (B, n, p), B_H: the normal parts of the
    bases.
    """

    geometry: PairGeometry
    C_G: Tensor
    C_H: Tensor
    s: Tensor
    B_G: Tensor
    B_H: Tensor

    @classmethod
    def between(cls, first: Frames, second: Frames, metric: MetricName) -> Shooting:
        """The reduced problem of two flat batches of frames."""
        C_G, B_G = _basis(first.F_G, second.F_G)
        C_H, B_H = _basis(first.F_H, second.F_H)
        E_G, E_H = (torch.eye(*C.shape[-2:], dtype=C.dtype, device=C.device).expand_as(C) for C in (C_G, C_H))
        reduced = first._replace(F_G=E_G, F_H=E_H)
        return cls(PairGeometry(reduced, metric, steps=_FIRST_STEPS), C_G, C_H, second.s, B_G, B_H)

    @property
    def wanted(self) -> Tensor:
        """W_2 in the bases."""
        return (self.C_G * self.s[:, None, :]) @ self.C_H.mT

    @property
    def unit(self) -> Tensor:
        """1, or |W_2|_F where lengths scale with W; (B,)."""
        if self.geometry.metric == "invariant":
            return torch.ones_like(self.s[:, 0])
        return torch.linalg.vector_norm(self.s, dim=-1)

    def allowed(self, tolerance: float) -> Tensor:
        """The largest gap of a logarithm, (B,); see ``logarithm``."""
        eps, h = torch.finfo(torch.float64).eps, self.s.shape[-1]
        lowest = self.s[:, -1] if self.geometry.metric == "invariant" else torch.ones_like(self.s[:, -1])
        return torch.maximum(tolerance * self.unit, _ROUNDING * eps * h * self.s[:, 0] / lowest)

    def shoot(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """(step (B, D), gap (B,)) at flat coordinates z (B, D)."""
        metric, frames, tangent = self.geometry.metric, self.geometry.frames, self.unpack(z)
        end_G, end_H = self.geometry.exp(tangent)
        miss = self.wanted - end_G @ end_H.mT
        lost = ~miss.isfinite().all(-1).all(-1)
        miss, end_G, end_H = (torch.where(lost[:, None, None], 0.0, part) for part in (miss, end_G, end_H))
        gap = lifted_length(metric, self.C_G, self.C_H, self.s, miss)
        if metric == "invariant":
            step = self._carried_back(tangent, end_G, end_H, miss, lost)
        else:
            step = lift_product(metric, frames.F_G, frames.F_H, frames.s, miss)
        vector = self.pack(step)
        lost |= ~vector.isfinite().all(-1)
        return torch.where(lost[:, None], 0.0, vector), torch.where(lost, math.inf, gap)

    def _carried_back(
        self, tangent: Horizontal, end_G: Tensor, end_H: Tensor, miss: Tensor, lost: Tensor
    ) -> Horizontal:
        """The lift of the miss at the end of the geodesic, carried back to its start by the group of the invariant metric.

        Each factor is acted on by GL(n) from the left, and the velocity Y' = A Y of its geodesic is A = X F' at the start. So
        the rotations of the column spaces that ``_travelled`` gives are undone, the miss is lifted where W is then, and the
        lift's A is the step.
        """
        metric, frames, h = self.geometry.metric, self.geometry.frames, self.s.shape[-1]
        back_G, back_H = (_travelled(X) for X in METRICS[metric].lift(frames, tangent))
        core = (back_G.mT @ end_G)[:, :h] @ (back_H.mT @ end_H)[:, :h].mT
        U, s, Vt = torch.linalg.svd(torch.where(lost[:, None, None], torch.diag_embed(frames.s), core))
        at = frames._replace(F_G=_column(U, end_G), F_H=_column(Vt.mT, end_H), s=s)
        lifted = lift_product(metric, at.F_G, at.F_H, s, back_G.mT @ miss @ back_H)
        X_G, X_H = METRICS[metric].lift(at, lifted)
        return METRICS[metric].coordinates(frames, X_G @ U.mT, X_H @ Vt)

    def guess(self) -> Tensor:
        """Where to begin (B, D): the Grassmann logarithm of both column spaces; inside them, the straight way of W."""
        frames, metric = self.geometry.frames, self.geometry.metric
        (back_G, N_G), (back_H, N_H) = _grassmann(self.C_G), _grassmann(self.C_H)
        h = self.s.shape[-1]
        miss = (back_G.mT @ self.wanted @ back_H)[:, :h, :h] - torch.diag_embed(frames.s)
        lengths, k = product_weights(metric, frames.s)
        whitening = frames.s[:, None, :] / k  # of a whitened tangent: 1 (invariant), s (mixed)
        return self.pack(Horizontal(miss / lengths, N_G * whitening, N_H * whitening))

    def pack(self, z: Horizontal) -> Tensor:
        """Coordinates in the bases as vectors (B, D): what lies in the frames is zero and left out."""
        h = self.s.shape[-1]
        return torch.cat([z.c.flatten(1), z.N_G[:, h:].flatten(1), z.N_H[:, h:].flatten(1)], 1)

    def unpack(self, vector: Tensor) -> Horizontal:
        """Inverse of ``pack``."""
        h, p, q = self.s.shape[-1], self.B_G.shape[-1], self.B_H.shape[-1]
        c, N_G, N_H = vector.split([h * h, p * h, q * h], 1)
        zero = c.reshape(-1, h, h).new_zeros(vector.shape[0], h, h)
        return Horizontal(
            c.reshape(-1, h, h),
            torch.cat([zero, N_G.reshape(len(zero), p, h)], 1),
            torch.cat([zero, N_H.reshape(len(zero), q, h)], 1),
        )

    def enter(self, z: Horizontal) -> Tensor:
        """Coordinates at the full frames as vectors; what points out of the two column spaces is dropped."""
        return torch.cat([z.c.flatten(1), (self.B_G.mT @ z.N_G).flatten(1), (self.B_H.mT @ z.N_H).flatten(1)], 1)

    def leave(self, vector: Tensor) -> Horizontal:
        """Coordinates at the full frames of the first pairs."""
        h, z = self.s.shape[-1], self.unpack(vector)
        return Horizontal(z.c, self.B_G @ z.N_G[:, h:], self.B_H @ z.N_H[:, h:])

    def at(self, blocks: Tensor) -> Shooting:
        """The same problem of some blocks (an index tensor)."""
        frames = Frames(*(part[blocks] for part in self.geometry.frames))
        geometry = PairGeometry(frames, self.geometry.metric, steps=self.geometry.steps)
        return Shooting(geometry, *(part[blocks] for part in (self.C_G, self.C_H, self.s, self.B_G, self.B_H)))

    def with_steps(self, steps: int) -> Shooting:
        parts = (self.C_G, self.C_H, self.s, self.B_G, self.B_H)
        return Shooting(self.geometry.with_steps(steps), *parts)


def _basis(F_1: Tensor, F_2: Tensor) -> tuple[Tensor, Tensor]:
    """(C, B): F_2 = [F_1, B] C for B (B, n, p) orthonormal and normal to F_1, p = min(h, n - h)."""
    h = F_1.shape[-1]
    Q, R = torch.linalg.qr(torch.cat([F_1, F_2], -1))
    signs = torch.where(torch.diagonal(R[..., :h], dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    head = Q[..., :h] * signs[..., None, :]
    return torch.cat([head.mT @ F_2, R[..., h:, h:]], -2), Q[..., h:]


def _travelled(X: Tensor) -> Tensor:
    """exp(A - A') (B, h + p, h + p) for A = X F', F = [I; 0]: the rotation that the invariant geodesic along X makes of F."""
    A = torch.cat([X, X.new_zeros(*X.shape[:-1], X.shape[-2] - X.shape[-1])], -1)
    rotation: Tensor = torch.linalg.matrix_exp(A - A.mT)
    return rotation


def _turned(Y: Tensor) -> Tensor:
    """The rotation of least angles that takes the span of [I; 0] to that of Y (B, h + p, h).

    With Y's orthonormal columns turned so that they are [C; D] with symmetric C >= 0, it is [[C, -D'], [D, I - D (I + C)^-1
    D']].
    """
    h = Y.shape[-1]
    Q = torch.linalg.qr(Y).Q
    A, cosines, Bt = torch.linalg.svd(Q[:, :h])
    C, D = (A * cosines[:, None, :]) @ A.mT, Q[:, h:] @ (Bt.mT @ A.mT)
    identity = torch.eye(h, dtype=Y.dtype, device=Y.device)
    corner = torch.eye(D.shape[-2], dtype=Y.dtype, device=Y.device) - D @ torch.linalg.solve(identity + C, D.mT)
    return torch.cat([torch.cat([C, -D.mT], -1), torch.cat([D, corner], -1)], -2)


def _grassmann(Y: Tensor) -> tuple[Tensor, Tensor]:
    """``_turned(Y)``, and the initial velocity N (B, h + p, h) of that turn at [I; 0]."""
    h = Y.shape[-1]
    rotation = _turned(Y)
    U, _, Vt = torch.linalg.svd(rotation[:, h:, :h], full_matrices=False)
    angles = principal_angles(_column(torch.eye(h, dtype=Y.dtype, device=Y.device).expand(len(Y), h, h), Y), Y)
    k = Vt.shape[-2]
    N = (U * angles.flip(-1)[:, None, :k]) @ Vt
    return rotation, torch.cat([N.new_zeros(len(N), h, h), N], 1)


def _column(top: Tensor, like: Tensor) -> Tensor:
    """[top; 0] of the shape of ``like``."""
    return torch.cat([top, torch.zeros_like(like[:, top.shape[-2] :])], 1)


def product_weights(metric: MetricName, s: Tensor) -> tuple[Tensor, Tensor]:
    """(l (..., h, h), k (..., 1, h)): a horizontal z = (c, N_G, N_H) moves W = F_G diag(s) F_H' by
    F_G (l * c) F_H' + N_G diag(k) F_H' + F_G diag(k) N_H'.

    With whitened tangents Z_G = F_G (w_G * c) + N_G, dW = Z_G diag(k) F_H' + F_G diag(k) Z_H' for k = s (invariant) or 1
    (mixed), so l_ij = w_G k_j + w_H k_i: sqrt(s_i^2 + s_j^2) and sqrt(2).
    """
    k = s if metric == "invariant" else torch.ones_like(s)
    length = torch.hypot(s[..., :, None], s[..., None, :])
    lengths = length if metric == "invariant" else torch.full_like(length, math.sqrt(2.0))
    return lengths, row(k, s.dtype)


def lift_product(metric: MetricName, F_G: Tensor, F_H: Tensor, s: Tensor, dW: Tensor) -> Horizontal:
    """Coordinates of the horizontal lift of P_T dW at W = F_G diag(s) F_H', for any dW (..., n, m).

    P_T dW drops (I - F_G F_G') dW (I - F_H F_H'), the part that leaves the matrices of rank h.
    """
    lengths, k = product_weights(metric, s)
    right, left = dW @ F_H, dW.mT @ F_G
    core = F_G.mT @ right
    return Horizontal(core / lengths, (right - F_G @ core) / k, (left - F_H @ core.mT) / k)


def lifted_length(metric: MetricName, F_G: Tensor, F_H: Tensor, s: Tensor, dW: Tensor) -> Tensor:
    """Metric length of ``lift_product``, with what P_T drops counted as if it were moved by the smallest singular direction."""
    z = lift_product(metric, F_G, F_H, s, dW)
    _, k = product_weights(metric, s)
    outside = dW - F_G @ (F_G.mT @ dW)
    outside = torch.linalg.matrix_norm(outside - (outside @ F_H) @ F_H.mT) / k[..., 0, -1]
    return (z.squared_norm() + outside.square()).sqrt()


def _finer(steps: int, excess: float) -> int:
    """Steps, by powers of two, that should bring a change ``excess`` times too large below its limit: RK4 is of order 4."""
    doublings = math.ceil(math.log2(max(excess, 1.0)) / 4) if math.isfinite(excess) else 1
    return min(steps << max(doublings, 1), _MOST_STEPS)


def _solve(problem: Shooting, start: Horizontal | None, tolerance: float, most: int) -> Logarithm:
    """Shoot at the coarsest integration that serves, doubling its steps for the blocks that are not settled."""
    z = problem.guess() if start is None else problem.enter(start)
    allowed = problem.allowed(tolerance)
    gap = torch.full_like(allowed, math.inf)
    converged = torch.zeros_like(allowed, dtype=torch.bool)
    iterations = torch.zeros_like(allowed, dtype=torch.int64)
    alive, steps = torch.arange(len(allowed), device=z.device), _FIRST_STEPS
    while alive.numel():
        part = problem.at(alive).with_steps(steps)
        found = anderson.solve(part.shoot, z[alive], allowed[alive], most)
        change = part.geometry.step_error(part.unpack(found.z))  # 0 where nothing is integrated
        settled = change <= tolerance
        z[alive], gap[alive] = found.z, found.gap + part.unit * change
        converged[alive] = found.converged & settled
        iterations[alive] += found.iterations
        if part.geometry.steps is None or steps >= _MOST_STEPS:
            break
        more = found.converged & ~settled
        finer = _finer(steps, torch.where(more, change, 0.0).amax(0).item() / tolerance)
        alive, steps = alive[more], finer
    return Logarithm(problem.leave(z), torch.linalg.vector_norm(z, dim=1), gap, converged, iterations)
