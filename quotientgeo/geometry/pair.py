"""One geometry on a batch of pairs: the methods that measures and manifolds use, whatever the metric and the geodesic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, cast

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError
from quotientgeo.geometry import flow, invariant, mixed
from quotientgeo.geometry.catalogue_code import ORDERS, generated_code
from quotientgeo.geometry.compensated import multiply_add
from quotientgeo.geometry.coordinates import Horizontal, zeros
from quotientgeo.geometry.gauge import Frames, canonical_frames, row

MetricName = Literal["invariant", "mixed"]
GeodesicName = Literal["exact", 1, 2, 3, 4]


class MetricFunctions(Protocol):
    """What a metric's module offers, in its canonical representation (F_G diag(d), F_H diag(d))."""

    def canonical_columns(self, frames: Frames) -> Tensor:
        """d, shape (..., h)."""

    def lift(self, frames: Frames, z: Horizontal) -> tuple[Tensor, Tensor]: ...

    def coordinates(self, frames: Frames, X_G: Tensor, X_H: Tensor) -> Horizontal: ...

    def project(self, frames: Frames, X_G: Tensor, X_H: Tensor) -> tuple[Tensor, Tensor]: ...

    def exponential(
        self, frames: Frames, X_G: Tensor, X_H: Tensor, steps: int | None = None, rho: float | None = None
    ) -> tuple[Tensor, Tensor]: ...

    def taylor(self, frames: Frames, X_G: Tensor, X_H: Tensor, order: int) -> tuple[Tensor, Tensor]: ...

    def weights(self, frames: Frames, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """w_G, w_H (..., h, h) of the cores w_G * c and (w_H * c)' of a horizontal tangent."""

    def coefficients(
        self, frames: Frames, core: Tensor, gram: Tensor, geodesic: int | str, steps: int | None, rho: float | None
    ) -> tuple[Tensor, Tensor]:
        """u, q (2, ..., h, h) of the end point F u + N q in the balanced gauge."""


METRICS: dict[str, MetricFunctions] = {
    "invariant": cast(MetricFunctions, invariant),
    "mixed": cast(MetricFunctions, mixed),
}
_INTEGRATED = frozenset({"mixed"})  # metrics whose exact geodesic is a Runge-Kutta flow


def require_declared(metric: object, geodesic: object) -> None:
    """Raise ArgumentError unless ``metric`` and ``geodesic`` name something that exists; 1.0 and True are no orders."""
    if not isinstance(metric, str) or metric not in METRICS:
        raise ArgumentError(f"metric must be one of {sorted(METRICS)}, got {metric!r}")
    if geodesic != "exact" and (type(geodesic) is not int or geodesic not in ORDERS):
        raise ArgumentError(f"geodesic must be 'exact' or an order in {ORDERS}, got {geodesic!r}")


@dataclass(frozen=True, eq=False)
class PairGeometry:
    """Horizontal geodesics of a batch of pairs from fixed points, in orthonormal coordinates z (see ``Horizontal``).

    frames: canonical frames of the points, float64. metric: "invariant" or "mixed". geodesic: "exact", or the order 1-4 of its
    Taylor polynomial. steps: Runge-Kutta steps of the exact mixed geodesic (``flow.DEFAULT_STEPS`` if not given); None otherwise.
    rho: a bound of |z| in every block, where one is known; ``exp`` may then use what is exact to rounding in that
    ball only (None: any tangent).
    dtype: of ``base`` and ``zero``, and the one in which ``exp`` is fast; whatever it is, diagnostics, norms and tangents at the
    original point are computed in float64 from float64 frames.
    """

    frames: Frames
    metric: MetricName = "invariant"
    geodesic: GeodesicName = "exact"
    steps: int | None = None
    dtype: torch.dtype = torch.float64
    rho: float | None = None

    def __post_init__(self) -> None:
        require_declared(self.metric, self.geodesic)
        steps = (flow.DEFAULT_STEPS if self.steps is None else self.steps) if self.integrated else None
        if steps is not None and steps < 1:
            raise ArgumentError(f"steps must be at least 1, got {steps}")
        object.__setattr__(self, "steps", steps)

    @classmethod
    def at(
        cls,
        G: Tensor,
        H: Tensor,
        *,
        metric: MetricName = "invariant",
        geodesic: GeodesicName = "exact",
        rho: float | None = None,
        steps: int | None = None,
        rank_tolerance: float | None = None,
        names: Sequence[str] | None = None,
    ) -> PairGeometry:
        """Geometry at the points G (..., n, h), H (..., m, h), in float64.

        ``rho`` promises a bound of |z|, and picks ``steps`` where the user does not; ``rank_tolerance`` and
        ``names`` of the blocks (a flat batch) as in ``canonical_frames``.

        Raises:
            ShapeError, NonFiniteError, RankDeficientError: see ``canonical_frames``.
        """
        frames = canonical_frames(G, H, rank_tolerance=rank_tolerance, names=names)
        geometry = cls(frames, metric, geodesic, steps, rho=rho)
        if geometry.integrated and steps is None and rho is not None:
            geometry = geometry.with_steps(flow.choose_steps(frames, rho))
        return geometry

    @property
    def integrated(self) -> bool:
        """Whether the geodesic is integrated in steps (else it is a closed form or a polynomial)."""
        return self.geodesic == "exact" and self.metric in _INTEGRATED

    @property
    def _functions(self) -> MetricFunctions:
        return METRICS[self.metric]

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> PairGeometry:
        """The same geometry for computing in ``dtype`` on ``device``; nothing is lost on the way to float32 and back."""
        return replace(self, frames=self.frames.to(device=device), dtype=dtype or self.dtype)

    @cached_property
    def _working_frames(self) -> Frames:
        return self.frames.to(self.dtype)

    def _frames_in(self, dtype: torch.dtype) -> Frames:
        return self._working_frames if dtype == self.dtype else self.frames.to(dtype)

    def with_steps(self, steps: int | None) -> PairGeometry:
        """The same geometry with another number of Runge-Kutta steps (no effect where nothing is integrated)."""
        return replace(self, steps=steps)

    def blocks(self, some: slice) -> PairGeometry:
        """The same geometry of some of the points, along the first batch dimension."""
        return replace(self, frames=Frames(*(part[some] for part in self.frames)))

    def zero(self) -> Horizontal:
        """z = 0."""
        return zeros(self.frames, self.dtype)

    def base(self) -> tuple[Tensor, Tensor]:
        """(G, H) at z = 0 in the balanced gauge: exactly (F_G s^1/2, F_H s^1/2), where G'G = H'H = diag(s)."""
        frames, root = self._working_frames, row(self.frames.s.sqrt(), self.dtype)
        return frames.F_G * root, frames.F_H * root

    def exp(self, z: Horizontal) -> tuple[Tensor, Tensor]:
        """End point (G, H) at t = 1 of the geodesic along z, moved by one group element for all z: ``base`` at z = 0.

        Differentiable twice in z, also at z = 0 and at equal singular values. Reads nothing back from the device (torch's own
        matrix_exp, in the closed form, does so inside on a GPU).
        """
        frames = self._frames_in(z.c.dtype)
        Y_G, Y_H = self._end(frames, *self._functions.lift(frames, z), rho=self.rho)
        balance = row(self.frames.s.sqrt() / self._functions.canonical_columns(self.frames), z.c.dtype)
        return Y_G * balance, Y_H * balance

    def weights(self) -> tuple[Tensor, Tensor]:
        """w_G, w_H (..., h, h) in ``dtype``: the whitened cores of z are w_G * c and (w_H * c)'."""
        return self._functions.weights(self.frames, self.dtype)

    def coefficients(self, core: Tensor, gram: Tensor) -> tuple[Tensor, Tensor]:
        """u, q (2, ..., h, h) such that ``exp`` of the whitened tangent F core + N, with N'N = gram, is F u + N q."""
        return self._functions.coefficients(self.frames, core, gram, self.geodesic, self.steps, self.rho)

    def _end(self, frames: Frames, X_G: Tensor, X_H: Tensor, rho: float | None = None) -> tuple[Tensor, Tensor]:
        if self.geodesic == "exact":
            return self._functions.exponential(frames, X_G, X_H, self.steps, rho)
        return self._functions.taylor(frames, X_G, X_H, self.geodesic)

    def exponential(self, xi_G: Tensor, xi_H: Tensor) -> tuple[Tensor, Tensor]:
        """End point at t = 1 of the geodesic along any tangent, horizontal or not, in the original gauge and in float64."""
        return self.from_canonical(*self._end(self.frames, *self.to_canonical(xi_G, xi_H)))

    @property
    def columns(self) -> Tensor:
        """d (..., 1, h) of the metric's canonical representation (F_G diag(d), F_H diag(d)) of the point, float64."""
        return row(self._functions.canonical_columns(self.frames), torch.float64)

    def to_canonical(self, xi_G: Tensor, xi_H: Tensor) -> tuple[Tensor, Tensor]:
        """A point or a tangent of the original gauge in the metric's canonical representation: xi T^-1 diag(d), float64."""
        frames, columns = self.frames, self.columns
        return (
            _whiten(xi_G.double(), frames.T_G, frames.T_G_low) * columns,
            _whiten(xi_H.double(), frames.T_H, frames.T_H_low) * columns,
        )

    def from_canonical(self, X_G: Tensor, X_H: Tensor) -> tuple[Tensor, Tensor]:
        """Inverse of ``to_canonical``: a point or a tangent in the original gauge, in float64."""
        columns = self.columns
        return self._from_whitened(X_G / columns, X_H / columns)

    def _from_whitened(self, Y_G: Tensor, Y_H: Tensor) -> tuple[Tensor, Tensor]:
        """(Y_G T_G, Y_H T_H): from the gauge of the frames to the original one."""
        return _coloured(Y_G, self.frames.T_G, self.frames.T_G_low), _coloured(
            Y_H, self.frames.T_H, self.frames.T_H_low
        )

    def project(self, xi_G: Tensor, xi_H: Tensor) -> tuple[Tensor, Tensor]:
        """Horizontal part of a tangent at the original point and gauge, orthogonal in the metric, in float64."""
        return self.displacement(self.coordinates(xi_G, xi_H))

    def original(self, Y_G: Tensor, Y_H: Tensor) -> tuple[Tensor, Tensor]:
        """Points in the gauge of ``exp`` moved to the gauge of the original point, in float64: (G, H) from ``base``."""
        root = row(self.frames.s.sqrt(), torch.float64)
        return self._from_whitened(Y_G.double() / root, Y_H.double() / root)

    def displacement(self, z: Horizontal) -> tuple[Tensor, Tensor]:
        """(xi_G (..., n, h), xi_H (..., m, h)): the horizontal tangent z at the original point and gauge, in float64."""
        return self.from_canonical(*self._functions.lift(self.frames, _double(z)))

    def coordinates(self, xi_G: Tensor, xi_H: Tensor) -> Horizontal:
        """Inverse of ``displacement``, in float64; of any other tangent, the coordinates of its horizontal part."""
        return self._functions.coordinates(self.frames, *self.to_canonical(xi_G, xi_H))

    def squared_norm(self, z: Horizontal) -> Tensor:
        """Squared norm of the tangent z by the metric's own derived formula, shape (...), in float64.

        Evaluated in the canonical representation, which the metric cannot tell from the original point: there no Gram
        matrix is ill-conditioned. Equals |z|^2 when N_G and N_H are normal to the frames.
        """
        X_G, X_H = self._functions.lift(self.frames, _double(z))
        columns = self.columns
        G, H = self.frames.F_G * columns, self.frames.F_H * columns
        value: Tensor = generated_code(self.metric).inner(G, H, X_G, X_H, X_G, X_H)
        return value

    def step_error(self, z: Horizontal) -> Tensor:
        """Relative change |W(steps) - W(2 steps)|_F / |W(2 steps)|_F of W = G H', shape (...); 0 where nothing is integrated."""
        if self.steps is None:
            return torch.zeros(z.c.shape[:-2], dtype=torch.float64, device=z.c.device)
        return flow.step_error(self.frames, *self._velocity(z), self.steps)

    @torch.no_grad()
    def smallest_singular_ratio(self, z: Horizontal) -> Tensor:
        """min of s_h(G H') / s_h at the start over all Runge-Kutta stages, or at the end where nothing is integrated; (...)."""
        if self.steps is not None:
            return flow.smallest_singular_ratio(self.frames, *self._velocity(z), self.steps)
        ends = self.exp(_double(z))
        R_G, R_H = (
            torch.linalg.qr(end / row(self.frames.s[..., :1].sqrt(), torch.float64), mode="r").R for end in ends
        )
        ratio = torch.linalg.svdvals(R_G @ R_H.mT)[..., -1] / (self.frames.s[..., -1] / self.frames.s[..., 0])
        return ratio.clamp_max(1.0)

    def require_regular(self, z: Horizontal, names: Sequence[str] | None = None) -> None:
        """Raise GeodesicCollapseError where the integrated geodesic along z runs into the singular set."""
        if self.steps is not None:
            flow.require_regular(self.frames, *self._velocity(z), self.steps, names=names)

    def settled_steps(self, z: Horizontal, names: Sequence[str] | None = None) -> int | None:
        """Steps, doubled from ``steps`` until ``step_error`` at z is at most 1e-6; None where nothing is integrated.

        Raises:
            GeodesicAccuracyError, GeodesicCollapseError: see ``flow.settled_steps``.
        """
        if self.steps is None:
            return None
        return flow.settled_steps(self.frames, *self._velocity(z), self.steps, names=names)

    @torch.no_grad()
    def _velocity(self, z: Horizontal) -> tuple[Tensor, Tensor]:
        """Initial velocities of the whitened points, in float64."""
        X_G, X_H = self._functions.lift(self.frames, _double(z))
        columns = self.columns
        return X_G / columns, X_H / columns


def _coloured(Y: Tensor, T: Tensor, T_low: Tensor) -> Tensor:
    """Y (T + T_low), rounded once."""
    high, low = multiply_add(Y @ T_low, Y, T)
    return high + low


def _whiten(xi: Tensor, T: Tensor, T_low: Tensor) -> Tensor:
    """xi (T + T_low)^-1, refined once: its error does not grow with the condition of T."""
    first = torch.linalg.solve(T, xi, left=False)
    high, low = multiply_add(xi, -first, T)
    return first + torch.linalg.solve(T, high + (low - first @ T_low), left=False)


def _double(z: Horizontal) -> Horizontal:
    return Horizontal(*(part.double() for part in z))
