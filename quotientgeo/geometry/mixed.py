"""The mixed metric <xi, eta> = tr(H'H xi_G' eta_G) + tr(G'G xi_H' eta_H) on the pair.

Canonical representation: the balanced gauge G = F_G s^1/2, H = F_H s^1/2, where G'G = H'H = diag(s); a tangent (X_G, X_H) has
the squared norm |X_G s^1/2|^2 + |X_H s^1/2|^2 there. (da Silva, Dangel, Oore, ICML 2025, eq. 10 and 12; the paper gives no exact
Exp.) The metric is not complete: geodesics exist while |xi| < s_h / sqrt(2), and no larger bound holds for all (see ``flow``).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from quotientgeo.geometry import flow
from quotientgeo.geometry.catalogue_code import taylor_point
from quotientgeo.geometry.coordinates import Horizontal, embed, extract
from quotientgeo.geometry.gauge import Frames, row
from quotientgeo.geometry.span import Span


def canonical_columns(frames: Frames) -> Tensor:
    """d (..., h) of the canonical representation F diag(d): s^1/2."""
    return frames.s.sqrt()


def weights(frames: Frames, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """w_G = w_H = 1/sqrt(2), shape (..., h, h).

    Horizontal means G' xi_G H'H = G'G xi_H' H: in the balanced gauge the whitened cores F_G' X_G s^1/2 and F_H' X_H s^1/2 are
    each other's transposes.
    """
    half = torch.full_like(frames.T_G, math.sqrt(0.5), dtype=dtype)
    return half, half


def lift(frames: Frames, z: Horizontal) -> tuple[Tensor, Tensor]:
    """Horizontal tangent (X_G (..., n, h), X_H (..., m, h)) in the balanced gauge with coordinates z.

    X_G = (F_G c / sqrt(2) + N_G) s^-1/2, X_H = (F_H c' / sqrt(2) + N_H) s^-1/2; its squared metric norm is |z|^2.
    """
    frames = frames.to(z.c.dtype)
    columns = row(canonical_columns(frames).reciprocal(), z.c.dtype)
    Z_G, Z_H = embed(frames, z, *weights(frames, z.c.dtype))
    return Z_G * columns, Z_H * columns


def coordinates(frames: Frames, X_G: Tensor, X_H: Tensor) -> Horizontal:
    """Inverse of ``lift`` on horizontal tangents; the coordinates of the horizontal part of any other."""
    frames = frames.to(X_G.dtype)
    columns = row(canonical_columns(frames), X_G.dtype)
    return extract(frames, X_G * columns, X_H * columns, *weights(frames, X_G.dtype))


def project(frames: Frames, X_G: Tensor, X_H: Tensor) -> tuple[Tensor, Tensor]:
    """Horizontal part of a tangent, orthogonal in the mixed metric."""
    return lift(frames, coordinates(frames, X_G, X_H))


def exponential(
    frames: Frames, X_G: Tensor, X_H: Tensor, steps: int | None = None, rho: float | None = None
) -> tuple[Tensor, Tensor]:
    """End points (Y_G, Y_H) at t = 1 of the geodesic from the balanced gauge along any tangent.

    The 2h x 2h system of ``flow`` by ``steps`` steps of RK4 (``flow.DEFAULT_STEPS`` unless told): its cost hardly depends on
    n and m. Never waits for the device and never raises: a geodesic that ran into the singular set shows in
    ``flow.smallest_singular_ratio``, an inaccurate one in ``flow.step_error``. Smooth in X wherever it is finite. ``rho``
    has no effect.
    """
    frames = frames.to(X_G.dtype)
    columns = canonical_columns(frames)
    whitening = row(columns.reciprocal(), X_G.dtype)
    system, (N_G, N_H) = flow.Reduced.at(frames, X_G * whitening, X_H * whitening)
    u, q = flow.integrate(system, steps or flow.DEFAULT_STEPS).tensor_split(2, -2)
    scale = row(columns, X_G.dtype)
    return (frames.F_G @ u[0] + N_G @ q[0]) * scale, (frames.F_H @ u[1] + N_H @ q[1]) * scale


def taylor(frames: Frames, X_G: Tensor, X_H: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """End points at t = 1 of the Taylor polynomial of order 1-4 of the geodesic, by the catalogue's generated code.

    Evaluated with the singular values divided by the largest (the polynomial is homogeneous in points and tangents
    together), so that G'G and H'H stay inside the range of float32 at any scale of the weights.
    """
    frames = frames.to(X_G.dtype)
    size = frames.s[..., :1].sqrt()
    columns, scale = row(canonical_columns(frames) / size, X_G.dtype), row(size, X_G.dtype)
    end_G, end_H = taylor_point("mixed", order, frames.F_G * columns, frames.F_H * columns, X_G / scale, X_H / scale)
    return end_G * scale, end_H * scale


def coefficients(
    frames: Frames, core: Tensor, gram: Tensor, geodesic: int | str, steps: int | None, rho: float | None
) -> tuple[Tensor, Tensor]:
    """(u, q), both (2, ..., h, h): the end point at t = 1 in the balanced gauge is F u + N q, factor by factor.

    ``core`` (2, ..., h, h) and ``gram`` = N'N (2, ..., h, h) describe the whitened tangent F core + N of both factors (see
    ``coordinates``); the canonical representation of that tangent is (F core + N) s^-1/2.
    """
    columns = row(canonical_columns(frames), core.dtype)
    if geodesic == "exact":
        inverse = row(frames.s.reciprocal(), core.dtype)
        system = flow.Reduced(core * inverse, inverse.mT * gram * inverse, flow.relative_spectrum(frames, core.dtype))
        u, q = flow.integrate(system, steps or flow.DEFAULT_STEPS).tensor_split(2, -2)
        return u * columns, inverse.mT * q * columns
    size = row(frames.s[..., :1].sqrt(), core.dtype)  # as in ``taylor``
    identity = torch.eye(core.shape[-1], dtype=core.dtype, device=core.device)
    point, velocity = identity * (columns / size), 1 / (columns * size)
    points = [Span(point, torch.zeros_like(point), one) for one in gram]
    tangents = [Span(a * velocity, identity * velocity, one) for a, one in zip(core, gram, strict=True)]
    end_G, end_H = taylor_point("mixed", int(geodesic), *points, *tangents)
    return torch.stack([end_G.u, end_H.u]) * size, torch.stack([end_G.q, end_H.q]) * size
