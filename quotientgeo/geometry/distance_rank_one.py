"""Rank h = 1: distance and logarithm of the quotient in closed form."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from quotientgeo.geometry.coordinates import Horizontal, split
from quotientgeo.geometry.gauge import Frames
from quotientgeo.geometry.pair import MetricName


def rank_one_distance(first: Frames, second: Frames, metric: MetricName) -> Tensor:
    """The distance d (...) of pairs of rank h = 1, W = s u v', exactly.

    theta^2 = theta_u^2 + theta_v^2 for the angles of u_1 to u_2 and of v_1 to v_2, the smaller over the joint sign of (u_2,
    v_2): invariant d^2 = 1/2 log^2(s_1/s_2) + theta^2, mixed d^2 = 1/2 (s_1^2 + s_2^2) - s_1 s_2 cos(min(sqrt(2) theta,
    pi)), a cone. At sqrt(2) theta >= pi d is an infimum: paths come as close to it as one likes past W = 0, and no geodesic
    attains it. On a line (n = 1 or m = 1) u and -u are not connected: d is infinite where no sign joins both.
    """
    theta = torch.linalg.vector_norm(rank_one_angles(first, second)[0], dim=-1)
    s_1, s_2 = first.s[..., 0], second.s[..., 0]
    if metric == "invariant":
        return torch.hypot((s_1.log() - s_2.log()) / math.sqrt(2.0), theta)
    half = (theta / math.sqrt(2.0)).clamp_max(
        math.pi / 2
    )  # 1/2 (s_1 - s_2)^2 + 2 s_1 s_2 sin^2(half) loses nothing near 0
    d = torch.hypot((s_1 - s_2) / math.sqrt(2.0), math.sqrt(2.0) * (s_1 * s_2).sqrt() * half.sin())
    return torch.where(theta.isinf(), math.inf, d)


def rank_one_angles(first: Frames, second: Frames) -> tuple[Tensor, Tensor]:
    """(theta_u, theta_v) (..., 2) of the better joint sign, and that sign (...), for h = 1; infinite where a line would turn."""
    sides = ((first.F_G, second.F_G), (first.F_H, second.F_H))
    plus, minus = torch.stack([_signed_angles(F_1, F_2) for F_1, F_2 in sides], -1)
    better = torch.linalg.vector_norm(minus, dim=-1) < torch.linalg.vector_norm(plus, dim=-1)
    return torch.where(better[..., None], minus, plus), torch.where(better, -1.0, 1.0)


def _signed_angles(u_1: Tensor, u_2: Tensor) -> Tensor:
    """Angles (2, ...) of u_1 to u_2 and to -u_2, unit columns (..., n, 1)."""
    core, normal = split(u_1, u_2)
    cosine, sine = core[..., 0, 0], torch.linalg.vector_norm(normal[..., 0], dim=-1)
    if u_1.shape[-2] == 1:
        return torch.stack([torch.where(sign * cosine > 0, 0.0, math.inf) for sign in (1, -1)])
    return torch.stack([torch.atan2(sine, cosine), torch.atan2(sine, -cosine)])


def rank_one_tangent(first: Frames, second: Frames, metric: MetricName) -> tuple[Horizontal, Tensor]:
    """(z, exists (...)): coordinates at the first pairs of the shortest tangent with Exp(z) on the orbit of the second, for
    h = 1.

    u and v turn on great circles by theta_u and theta_v. Invariant: c = log(s_2/s_1) / sqrt(2), |N_G| = theta_u. Mixed, on
    the cone of radius s and angle phi = sqrt(2) theta < pi: c = (s_2 cos phi - s_1) / sqrt(2), |N_G| = s_2 sin(phi) theta_u
    / phi; none exists at phi >= pi. Where none exists z is zero.
    """
    angles, sign = rank_one_angles(first, second)
    theta = torch.linalg.vector_norm(angles, dim=-1)
    s_1, s_2 = first.s[..., 0], second.s[..., 0]
    phi = math.sqrt(2.0) * theta
    exists = theta.isfinite() if metric == "invariant" else phi < math.pi
    angles, phi = torch.where(exists[..., None], angles, 0.0), torch.where(exists, phi, 0.0)
    if metric == "invariant":
        c, stretch = (s_2.log() - s_1.log()) / math.sqrt(2.0), torch.ones_like(phi)
    else:
        # s_2 cos(phi) - s_1 without cancellation
        c = ((s_2 - s_1) - 2.0 * s_2 * (phi / 2).sin().square()) / math.sqrt(2.0)
        stretch = s_2 * torch.sinc(phi / math.pi)
    c = torch.where(exists, c, 0.0)
    normals = []
    for side, (F_1, F_2) in enumerate(((first.F_G, second.F_G), (first.F_H, second.F_H))):
        towards = split(F_1, F_2 * sign[..., None, None])[1]
        length = torch.linalg.vector_norm(towards, dim=(-2, -1), keepdim=True)
        unit = towards / torch.where(length > 0, length, 1.0)
        # opposite vectors: every direction is as short; any one normal to the frame
        other = split(F_1, _least(F_1))[1]
        other = other / torch.linalg.vector_norm(other, dim=(-2, -1), keepdim=True).clamp_min(1e-300)
        unit = torch.where((length > 0) | (angles[..., side, None, None] == 0), unit, other)
        normals.append(unit * (angles[..., side] * stretch)[..., None, None])
    return Horizontal(c[..., None, None], *normals), exists


def _least(F: Tensor) -> Tensor:
    """The unit vector of the coordinate in which F (..., n, 1) is smallest."""
    return torch.zeros_like(F).scatter(-2, F.abs().argmin(-2, keepdim=True), 1.0)
