"""The end point of every geodesic and the pullback of gradients to z, by hand and in place: the step of a first-order ascent.

In coordinates z = (c, N_G, N_H) with normal N the end point is F u + N q, where u and q are h x h and depend on c and C = N'N
alone, whatever the metric and the geodesic. Tall operands therefore enter in three products forward and five backward,
and only the h x h part is left to automatic differentiation:

    du = F'dY,  dq = N'dY,  dN = dY q' + N (dC + dC') - F (du q'),

the last term being the projection onto normal directions, for which F'dY is known already. First derivatives only;
``PairGeometry.exp`` is the same map, differentiable twice, and its reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from quotientgeo.geometry.pair import PairGeometry

# Beyond this range of singular values products of three small factors leave the range of float32.
_ORDINARY = 1e12
# Entries of h x h matrices that a CPU works on at a time: the graph of a pullback stays small, and its operands in the cache.
_CHUNK_ENTRIES = 1 << 15


class Stored(NamedTuple):
    """Coordinates or their gradients as stored: c (B, h, h), and N_G (B, h, n), N_H (B, h, m) transposed and contiguous.

    Rows of a transposed factor are rows of a weight of nn.Linear, so that neither reading nor writing weights moves data.
    """

    c: Tensor
    N_G: Tensor
    N_H: Tensor


class FirstOrder:
    """Exp of a batch of B pairs and its pullback, in buffers made once. One evaluation at a time: ``move``, then ``pull``."""

    def __init__(self, geometry: PairGeometry) -> None:
        frames, dtype = geometry.frames, geometry.dtype
        if frames.s.ndim != 2:
            raise ValueError(
                f"FirstOrder needs one batch dimension, got singular values of shape {tuple(frames.s.shape)}"
            )
        self._F = (frames.F_G.mT.to(dtype).contiguous(), frames.F_H.mT.to(dtype).contiguous())
        self._Y = (torch.empty_like(self._F[0]), torch.empty_like(self._F[1]))
        blocks, h = frames.s.shape
        size = max(1, _CHUNK_ENTRIES // (h * h)) if frames.s.device.type == "cpu" else blocks
        self._chunks = [_Chunk.of(geometry, slice(a, a + size)) for a in range(0, blocks, size)]
        self._seen: tuple[Stored, Tensor, Tensor] | None = None

    @staticmethod
    def suits(geometry: PairGeometry) -> bool:
        """Whether the spectrum is ordinary: with weights of 1e19, say, h x h products of this path leave float32."""
        s = geometry.frames.s
        return geometry.dtype == torch.float64 or bool(((s < _ORDINARY) & (s > 1 / _ORDINARY)).all())

    @torch.no_grad()
    def move(self, z: Stored) -> tuple[Tensor, Tensor]:
        """(G (B, n, h), H (B, m, h)) at t = 1 in the balanced gauge, as views of buffers that the next ``move`` overwrites.

        N_G and N_H must be normal to the frames (every gradient of ``pull`` and every random start is), and z must stay as it is
        until the ``pull``.
        """
        gram = torch.stack([z.N_G @ z.N_G.mT, z.N_H @ z.N_H.mT])
        parts = [chunk.coefficients(z.c[chunk.some], gram[:, chunk.some]) for chunk in self._chunks]
        u, q = (torch.cat(part, 1) for part in zip(*parts, strict=True))
        self._seen = (z, gram, q)
        for F, N, Y, u_side, q_side in zip(self._F, (z.N_G, z.N_H), self._Y, u, q, strict=True):
            torch.bmm(u_side.mT, F, out=Y)
            torch.baddbmm(Y, q_side.mT, N, out=Y)
        return self._Y[0].mT, self._Y[1].mT

    @torch.no_grad()
    def pull(self, dG: Tensor, dH: Tensor, out: Stored) -> None:
        """Write dL/dz into ``out`` for gradients dG (B, n, h), dH (B, m, h) at the end points of the last ``move``."""
        if self._seen is None:
            raise RuntimeError("pull needs a move before it, and each move one pull")
        (z, gram, q), self._seen = self._seen, None
        du, dq = torch.empty_like(q), torch.empty_like(q)
        sides = list(zip(self._F, (z.N_G, z.N_H), (dG.mT, dH.mT), (out.N_G, out.N_H), strict=True))
        for i, (F, N, dY, dN) in enumerate(sides):
            torch.bmm(F, dY.mT, out=du[i])
            torch.bmm(N, dY.mT, out=dq[i])
            torch.bmm(q[i], dY, out=dN)
        d_gram = torch.empty_like(gram)
        for chunk in self._chunks:
            some, at = chunk.some, (slice(None), chunk.some)
            chunk.pull(z.c[some], gram[at], (du[at], dq[at]), (out.c[some], d_gram[at]))
        for i, (F, N, _, dN) in enumerate(sides):
            torch.baddbmm(dN, d_gram[i] + d_gram[i].mT, N, out=dN)
            torch.baddbmm(dN, q[i] @ du[i].mT, F, alpha=-1, out=dN)


class _Chunk(NamedTuple):
    """Some of the blocks: which, their geometry, and w_G, w_H of their cores."""

    some: slice
    geometry: PairGeometry
    weights: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, geometry: PairGeometry, some: slice) -> _Chunk:
        part = geometry.blocks(some)
        return cls(some, part, part.weights())

    def coefficients(self, c: Tensor, gram: Tensor) -> tuple[Tensor, Tensor]:
        """u, q (2, B, h, h) of the end points F u + N q."""
        w_G, w_H = self.weights
        return self.geometry.coefficients(torch.stack([w_G * c, (w_H * c).mT]), gram)

    def pull(self, c: Tensor, gram: Tensor, d_ends: tuple[Tensor, Tensor], out: tuple[Tensor, Tensor]) -> None:
        """Write (dc, dC) into ``out`` for gradients (du, dq). The coefficients are computed again: a graph kept from ``move``
        would be in memory together with all activations of the model."""
        with torch.enable_grad():
            c, gram = c.detach().requires_grad_(), gram.detach().requires_grad_()
            ends = self.coefficients(c, gram)
        # q is constant at order 1
        moving = [(end, d_end) for end, d_end in zip(ends, d_ends, strict=True) if end.requires_grad]
        found = torch.autograd.grad([end for end, _ in moving], (c, gram), [d for _, d in moving], allow_unused=True)
        for target, gradient in zip(out, found, strict=True):
            if gradient is None:
                target.zero_()
            else:
                target.copy_(gradient)
