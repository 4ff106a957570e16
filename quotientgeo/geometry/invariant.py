"""The invariant metric <xi, eta> = tr((G'G)^-1 xi_G' eta_G) + tr((H'H)^-1 xi_H' eta_H) on the pair.

Canonical representation: the frames (F_G, F_H) themselves. The metric and its geodesics treat the factors apart and commute
with any right factor of each, so G = F_G T_G, xi_G = X_G T_G moves a statement about (G, xi_G) to (F_G, X_G), where the metric
is the Frobenius norm. (da Silva, Dangel, Oore, ICML 2025, eq. 9 and 11; the paper gives no closed form of Exp.)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from quotientgeo.geometry.catalogue_code import taylor_point
from quotientgeo.geometry.coordinates import Horizontal, embed, extract, split
from quotientgeo.geometry.gauge import Frames, row
from quotientgeo.geometry.span import Span

LARGEST_SERIES = 1.5  # beyond this radius terms grow before they fall, and the matrix exponential's scaling is better


def canonical_columns(frames: Frames) -> Tensor:
    """d (..., h) of the canonical representation F diag(d): ones."""
    return torch.ones_like(frames.s)


def weights(frames: Frames, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """w_G = s_j / sqrt(s_i^2 + s_j^2), w_H = s_i / sqrt(s_i^2 + s_j^2), shape (..., h, h).

    Horizontal means xi_G' G H'H = G'G H' xi_H: with the cores a = F_G' X_G, b = F_H' X_H it reads a_ij s_i = b_ji s_j.
    """
    ratio = frames.s / frames.s[..., :1]
    row, column = ratio[..., :, None], ratio[..., None, :]
    length = torch.hypot(row, column)
    return (column / length).to(dtype), (row / length).to(dtype)


def lift(frames: Frames, z: Horizontal) -> tuple[Tensor, Tensor]:
    """Horizontal tangent (X_G (..., n, h), X_H (..., m, h)) at (F_G, F_H) with coordinates z; |X_G|^2 + |X_H|^2 = |z|^2."""
    frames = frames.to(z.c.dtype)
    return embed(frames, z, *weights(frames, z.c.dtype))


def coordinates(frames: Frames, X_G: Tensor, X_H: Tensor) -> Horizontal:
    """Inverse of ``lift`` on horizontal tangents; the coordinates of the horizontal part of any other."""
    frames = frames.to(X_G.dtype)
    return extract(frames, X_G, X_H, *weights(frames, X_G.dtype))


def project(frames: Frames, X_G: Tensor, X_H: Tensor) -> tuple[Tensor, Tensor]:
    """Horizontal part of a tangent, orthogonal in the invariant metric."""
    return lift(frames, coordinates(frames, X_G, X_H))


def exponential(
    frames: Frames, X_G: Tensor, X_H: Tensor, steps: int | None = None, rho: float | None = None
) -> tuple[Tensor, Tensor]:
    """End points (Y_G, Y_H) at t = 1 of the geodesic from (F_G, F_H) along any tangent, in closed form.

    Each factor by itself: the metric is the submersion metric of a right-invariant metric on GL(n), so with A = X F',
    Y(t) = exp(t (A - A')) exp(t A') F. With a = F'X, N = X - F a, C = N'N and Omega = a - a', the plane of F and N is kept:
    (A - A') F = F Omega + N and (A - A') N = -F C, hence

        Y(1) = (F u + N q) exp(a'),   [u; q] = exp([[Omega, -C], [I, 0]]) [I; 0],

    one 2h x 2h exponential whatever n is. The metric is complete: every tangent has an end point. Smooth in X everywhere.
    Where ``rho`` is known to bound the norm of the tangent, u and q come from a power series in h x h matrices of a degree
    that is exact to rounding there, at a fraction of the cost. ``steps`` has no effect.
    """
    frames = frames.to(X_G.dtype)
    (core_G, N_G), (core_H, N_H) = split(frames.F_G, X_G), split(frames.F_H, X_H)
    core = torch.stack([core_G, core_H])
    gram = torch.stack([N_G.mT @ N_G, N_H.mT @ N_H])
    u, q = _within_plane(core, gram, rho)
    return frames.F_G @ u[0] + N_G @ q[0], frames.F_H @ u[1] + N_H @ q[1]


def _within_plane(core: Tensor, gram: Tensor, rho: float | None) -> tuple[Tensor, Tensor]:
    """(u exp(a'), q exp(a')) of ``exponential`` for cores a and normal Grams C, both (..., h, h)."""
    degree = None if rho is None else series_degree(rho, core.dtype)
    return _plane(core, gram) if degree is None else _plane_series(core, gram, degree)


def _plane(core: Tensor, gram: Tensor) -> tuple[Tensor, Tensor]:
    """What ``_within_plane`` gives, by matrix exponentials."""
    h = core.shape[-1]
    identity = torch.eye(h, dtype=core.dtype, device=core.device).expand_as(core)
    top = torch.cat([core - core.mT, -gram], -1)
    bottom = torch.cat([identity, torch.zeros_like(core)], -1)
    flow = torch.linalg.matrix_exp(torch.cat([top, bottom], -2))[..., :h] @ torch.linalg.matrix_exp(core.mT)
    return flow[..., :h, :], flow[..., h:, :]


def series_degree(rho: float, dtype: torch.dtype) -> int | None:
    """Degree at which the series of ``exponential`` is exact to rounding for |z| <= rho; None where rho is too large for one.

    With |a|^2 + |N|^2 <= rho^2 the generator [[Omega, -C], [I, 0]] has growth rate at most lambda = sqrt(2) rho (the larger
    root of x^2 = |Omega| x + |C| with |Omega| <= sqrt(2) |a|, |C| <= |N|^2, at its worst split), so what degree m leaves out
    is at most lambda^(m+1) / (m+1)! times a number below 2. It has to be below a quarter of a rounding error of a
    displacement of size lambda.
    """
    if rho > LARGEST_SERIES:
        return None
    growth, allowed = math.sqrt(2.0) * rho, torch.finfo(dtype).eps / 4
    degree, left_out = 1, growth / 2  # relative to the displacement
    while left_out > allowed / 2:
        degree += 1
        left_out *= growth / (degree + 1)
    return degree


def _plane_series(core: Tensor, gram: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """What ``_plane`` gives, from the Taylor series of q'' = Omega q' - C q, q(0) = 0, q'(0) = I, and u = q'."""
    shape, h = core.shape, core.shape[-1]
    core, gram = core.reshape(-1, h, h), gram.reshape(-1, h, h)
    omega = core - core.mT
    identity = torch.eye(h, dtype=core.dtype, device=core.device).expand_as(core)
    before, derivative, factorial = identity, omega, 1.0  # derivatives of q of order k and k + 1 at 0, and k!
    u, q = identity + omega, torch.add(identity, omega, alpha=0.5)
    for k in range(2, degree + 1):
        square = gram if k == 2 else gram @ before
        before, derivative = derivative, torch.baddbmm(square, omega, derivative, beta=-1)
        factorial *= k
        u = torch.add(u, derivative, alpha=1 / factorial)
        q = torch.add(q, derivative, alpha=1 / (factorial * (k + 1)))
    turn = torch.add(identity, core.mT, alpha=1 / degree)
    for k in range(degree - 1, 0, -1):
        turn = torch.baddbmm(identity, core.mT, turn, alpha=1 / k)
    return (u @ turn).view(shape), (q @ turn).view(shape)


def taylor(frames: Frames, X_G: Tensor, X_H: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """End points at t = 1 of the Taylor polynomial of order 1-4 of the geodesic, by the catalogue's generated code."""
    frames = frames.to(X_G.dtype)
    return taylor_point("invariant", order, frames.F_G, frames.F_H, X_G, X_H)


def coefficients(
    frames: Frames, core: Tensor, gram: Tensor, geodesic: int | str, steps: int | None, rho: float | None
) -> tuple[Tensor, Tensor]:
    """(u, q), both (2, ..., h, h): the end point at t = 1 in the balanced gauge is F u + N q, factor by factor.

    ``core`` (2, ..., h, h) and ``gram`` = N'N (2, ..., h, h) describe the tangent F core + N of both factors in the canonical
    representation. ``steps`` has no effect.
    """
    if geodesic == "exact":
        u, q = _within_plane(core, gram, rho)
    else:
        identity = torch.eye(core.shape[-1], dtype=core.dtype, device=core.device).expand_as(core)
        points = [Span(one, torch.zeros_like(one), N) for one, N in zip(identity, gram, strict=True)]
        tangents = [Span(a, one, N) for a, one, N in zip(core, identity, gram, strict=True)]
        end_G, end_H = taylor_point("invariant", int(geodesic), *points, *tangents)
        u, q = torch.stack([end_G.u, end_H.u]), torch.stack([end_G.q, end_H.q])
    balance = row(frames.s.sqrt(), core.dtype)
    return u * balance, q * balance
