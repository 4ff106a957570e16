"""Geodesics of the mixed metric as a flow of 2h x 2h matrices: integration, its watch, and its number of steps.

In the balanced gauge write G = Y_G s^1/2, H = Y_H s^1/2, so that Y_G(0) = F_G, Y_H(0) = F_H; S = diag(s), Q = Y_H'Y_H, and the
momentum E_G = (dY_G/dt) S Q. Then, and likewise with G and H exchanged,

    dY_G/dt = E_G Q^-1 S^-1,    dE_G/dt = Y_G S (dY_H/dt)' (dY_H/dt).

Y_G and E_G stay in the span of F_G and N_G, the part of the initial velocity V_G that is normal to F_G: Y_G = [F_G, N_G] x with
x of shape (2h, h), from x = [I; 0] and the momentum [F_G'V_G; I] S, and only N_G'N_G enters. S may be divided by s_1. The Grams
start at I whatever the spectrum is, so the one inverse is benign. Fixed-step RK4 of this system commutes with the group
exactly, since the group acts linearly on points and momenta: a value from few steps is as invariant as an exact one.

Geodesics exist on [0, 1] while |xi| < s_h / sqrt(2), horizontal or not. For |xi|^2 = |xi_G H'|^2 + |G xi_H'|^2 is constant and
dW/dt = xi_G H' + G xi_H', so |dW/dt| <= sqrt(2) |xi|, and by Weyl s_h(W(t)) >= s_h - sqrt(2) |xi| t =: sigma(t) > 0. The
gauge cannot run away: |xi| >= |xi_G| s_h(H) and s_h(H) >= s_h(W) / |G|_2 give |dG/dt|_2 <= |xi| |G|_2 / sigma, so |G|_2 stays
bounded, likewise |H|_2; then s_h(G) and s_h(H) stay positive, all in a compact set of full rank. No larger multiple of s_h
will do: along c = -|xi| e_h e_h', N = 0 in the balanced gauge the pair stays diagonal and s_h falls as s_h - sqrt(2) |xi| t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from quotientgeo.errors import GeodesicAccuracyError, GeodesicCollapseError
from quotientgeo.geometry.coordinates import split
from quotientgeo.geometry.gauge import Frames, batch_names, row

DEFAULT_STEPS = 16
STEP_TOLERANCE = 1e-6  # relative change of G H' under doubling of the steps, for a value that is reported
ASCENT_TOLERANCE = 1e-5  # the same while a maximum is only searched: the number of steps is fixed there
# Steps of the search are dear and need not be exact: any number of them is exactly equivariant, and the value is taken at
# the result with as many as it needs. Four left 5e-5 on a 12-layer BERT at rho 0.3.
MOST_ASCENT_STEPS = 4
_FEWEST_STEPS = 2
_DIRECTIONS = 8
COLLAPSE_FRACTION = 1e-3  # s_h below this fraction of its start: the geodesic ran into the singular set
_STEP_CAP = 1024


class _GramInverse(torch.autograd.Function):
    """P^-1 of a positive definite P (..., h, h) by Cholesky, NaN where P is singular or indefinite; differentiable twice."""

    @staticmethod
    def forward(ctx: Any, P: Tensor) -> Tensor:
        factor, failed = torch.linalg.cholesky_ex(P)
        inverse = torch.where((failed != 0)[..., None, None], math.nan, torch.cholesky_inverse(factor))
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, d_inverse: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return -(inverse @ d_inverse @ inverse)


def relative_spectrum(frames: Frames, dtype: torch.dtype) -> Tensor:
    """s / s_1 as a row (..., 1, h)."""
    return row(frames.s / frames.s[..., :1], dtype)


class Reduced(NamedTuple):
    """The reduced system of both factors, stacked on the first axis (G, then H)."""

    core: Tensor  # F'V, (2, ..., h, h)
    gram: Tensor  # N'N, (2, ..., h, h)
    s: Tensor  # s / s_1 as a row, (..., 1, h)

    @classmethod
    def at(cls, frames: Frames, V_G: Tensor, V_H: Tensor) -> tuple[Reduced, tuple[Tensor, Tensor]]:
        """The system with initial velocities V_G (..., n, h), V_H (..., m, h) of Y_G, Y_H, frames in their dtype; and (N_G, N_H),
        the parts of the velocities that are normal to the frames."""
        (core_G, N_G), (core_H, N_H) = split(frames.F_G, V_G), split(frames.F_H, V_H)
        gram = torch.stack([N_G.mT @ N_G, N_H.mT @ N_H])
        return cls(torch.stack([core_G, core_H]), gram, relative_spectrum(frames, V_G.dtype)), (N_G, N_H)

    def start(self) -> tuple[Tensor, Tensor]:
        """Coefficients of points and momenta at t = 0, both (2, ..., 2h, h)."""
        identity = torch.eye(self.core.shape[-1], dtype=self.core.dtype, device=self.core.device).expand_as(self.core)
        point = torch.cat([identity, torch.zeros_like(self.core)], -2)
        return point, torch.cat([self.core, identity], -2) * self.s

    def own_gram(self, x: Tensor) -> Tensor:
        """Y'Y of coefficients x, (2, ..., h, h)."""
        h = x.shape[-1]
        top, bottom = (part.reshape(-1, h, h) for part in x.tensor_split(2, -2))
        gram = self.gram.expand(*x.shape[:-2], h, h).reshape(-1, h, h)
        own: Tensor = torch.baddbmm(top.mT @ top, bottom.mT, gram @ bottom).view(*x.shape[:-2], h, h)
        return own

    def rate(self, x: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Time derivatives of coefficients and momenta. A singular Gram gives NaN, not an error: no wait for the device."""
        velocity = e @ (_GramInverse.apply(self.own_gram(x)).flip(0) / self.s)
        return velocity, x @ (self.s.mT * self.own_gram(velocity).flip(0))


def integrate(
    system: Reduced,
    steps: int,
    watch: Callable[[Tensor], None] | None = None,
    start: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Coefficients (2, ..., 2h, h) at t = 1 after ``steps`` steps of classical RK4; ``watch`` sees those of every stage.

    ``start``: coefficients of points and momenta at t = 0, where those are not ``system.start()``.
    """
    x, e = start or system.start()
    dt = 1.0 / steps

    def stage(x: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        if watch is not None:
            watch(x)
        return system.rate(x, e)

    for _ in range(steps):
        x1, e1 = stage(x, e)
        x2, e2 = stage(torch.add(x, x1, alpha=dt / 2), torch.add(e, e1, alpha=dt / 2))
        x3, e3 = stage(torch.add(x, x2, alpha=dt / 2), torch.add(e, e2, alpha=dt / 2))
        x4, e4 = stage(torch.add(x, x3, alpha=dt), torch.add(e, e3, alpha=dt))
        x = x.add(x1 + x4, alpha=dt / 6).add(x2 + x3, alpha=dt / 3)
        e = e.add(e1 + e4, alpha=dt / 6).add(e2 + e3, alpha=dt / 3)
    if watch is not None:
        watch(x)
    return x


@torch.no_grad()
def smallest_singular_ratio(frames: Frames, V_G: Tensor, V_H: Tensor, steps: int) -> Tensor:
    """min over all Runge-Kutta stages of s_h(G H') / s_h at the start, shape (...), in float64; 0 where not finite."""
    system, normal = Reduced.at(frames.to(torch.float64), V_G.double(), V_H.double())
    _, h = system.s.shape[-2:]
    R = torch.stack([torch.linalg.qr(torch.nan_to_num(N), mode="r").R for N in normal])
    lowest = torch.full(system.core.shape[1:-2], math.inf, dtype=torch.float64, device=R.device)

    def watch(x: Tensor) -> None:
        nonlocal lowest
        whitened = torch.cat([x[..., :h, :], R @ x[..., h:, :]], -2)
        finite = whitened.isfinite().all(-1).all(-1).all(0)
        triangles = torch.linalg.qr(torch.where(finite[..., None, None], whitened, 0.0), mode="r").R
        s = torch.linalg.svdvals((triangles[0] * system.s) @ triangles[1].mT)
        lowest = torch.minimum(lowest, s[..., -1] / system.s[..., 0, -1])

    integrate(system, steps, watch)
    return lowest


@torch.no_grad()
def choose_steps(frames: Frames, rho: float, tolerance: float = ASCENT_TOLERANCE, most: int = MOST_ASCENT_STEPS) -> int:
    """Runge-Kutta steps for tangents of norm up to ``rho`` in a block, from the spectrum alone: at least 2, at most ``most``.

    A heuristic, made before an ascent and checked by ``settled_steps`` at its result. A tangent spread evenly over r
    singular directions moves direction j at the relative speed rho / (s_j sqrt(2 r)), and k steps of RK4 then err in W,
    relatively, by about 0.1 |(s_j speed_j^5)_j| / |s| / k^4. (Measured at r = h on the spectra 1, j^-1/2, 1/j, j^-2 and
    geometric, h = 4 to 64: the constant is between 0.01 and 0.14 wherever the error is below 1e-4.) Gradients are less even,
    so r = min(h, 8) here, which fits tangents of rank about 4.
    """
    s = frames.s / frames.s[..., :1]
    spread = min(s.shape[-1], _DIRECTIONS)
    speed = rho / frames.s / math.sqrt(2 * spread)
    constant = 0.1 * torch.linalg.vector_norm(s * speed**5, dim=-1) / torch.linalg.vector_norm(s, dim=-1)
    wanted = (constant / tolerance) ** 0.25
    largest = float(wanted.max()) if wanted.numel() else 0.0
    return most if not largest < most else max(_FEWEST_STEPS, math.ceil(largest))


@torch.no_grad()
def step_error(frames: Frames, V_G: Tensor, V_H: Tensor, steps: int) -> Tensor:
    """|W(steps) - W(2 steps)|_F / |W(2 steps)|_F of W = G H' at t = 1, shape (...), in float64; inf where not finite."""
    system, _ = Reduced.at(frames.to(torch.float64), V_G.double(), V_H.double())
    return _change(system, _product(system, steps), _product(system, 2 * steps))


def _change(system: Reduced, few: Tensor, many: Tensor) -> Tensor:
    error = _frobenius(system, few - many) / _frobenius(system, many)
    return torch.where(error.isfinite(), error, math.inf)


def _product(system: Reduced, steps: int) -> Tensor:
    """W in the bases [F_G, N_G], [F_H, N_H]: x_G S x_H', shape (..., 2h, 2h)."""
    x_G, x_H = integrate(system, steps)
    return (x_G * system.s) @ x_H.mT


def _frobenius(system: Reduced, core: Tensor) -> Tensor:
    """|B_G core B_H'|_F for the bases B = [F, N], whose Grams are diag(I, C)."""
    h = core.shape[-1] // 2
    left = torch.cat([core[..., :h, :], system.gram[0] @ core[..., h:, :]], -2)
    both = torch.cat([left[..., :h], left[..., h:] @ system.gram[1]], -1)
    return (both * core).sum((-2, -1)).clamp_min(0.0).sqrt()


def require_regular(
    frames: Frames,
    V_G: Tensor,
    V_H: Tensor,
    steps: int,
    *,
    fraction: float = COLLAPSE_FRACTION,
    names: Sequence[str] | None = None,
) -> None:
    """Raise GeodesicCollapseError where a stage takes s_h below ``fraction`` of its start."""
    ratio = smallest_singular_ratio(frames, V_G, V_H, steps)
    collapsed = ~(ratio >= fraction)
    if collapsed.any():
        raise GeodesicCollapseError(
            "the mixed metric's geodesic ran into the singular set: s_h(G H') fell to this fraction of its start "
            f"(limit {fraction:g}): {batch_names(collapsed, ratio, names)}. "
            "The mixed metric is not complete: use a smaller rho, or the invariant metric"
        )


@torch.no_grad()
def settled_steps(
    frames: Frames,
    V_G: Tensor,
    V_H: Tensor,
    steps: int,
    *,
    tolerance: float = STEP_TOLERANCE,
    cap: int = _STEP_CAP,
    names: Sequence[str] | None = None,
) -> int:
    """Double ``steps`` until ``step_error`` is at most ``tolerance`` in every block; the number of steps that passed.

    Raises:
        GeodesicAccuracyError: ``cap`` steps do not reach the tolerance.
        GeodesicCollapseError: and the reason is that a finer integration runs into the singular set.
    """
    system, _ = Reduced.at(frames.to(torch.float64), V_G.double(), V_H.double())
    few = _product(system, steps)
    while True:
        many = _product(system, 2 * steps)
        error = _change(system, few, many)
        unsettled = ~(error <= tolerance)
        if not unsettled.any():
            return steps
        if 2 * steps > cap:
            require_regular(frames, V_G, V_H, steps, names=names)
            raise GeodesicAccuracyError(
                f"{steps} Runge-Kutta steps leave G H' relatively uncertain by {batch_names(unsettled, error, names)} "
                f"(tolerance {tolerance:g}, cap {cap}): use a smaller rho"
            )
        few, steps = many, 2 * steps
