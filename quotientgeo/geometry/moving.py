"""The geometry of a pair as functions of the point, too: inner product, gradient, projection and geodesics that can be
differentiated twice in points and in tangents.

``PairGeometry`` stands at fixed points: its frames are constants. Here only the gauge is a constant. Whitened by it, the point
is a function of the original one, G T_G^-1, whose value is the frame F_G. A formula that commutes with the group is the same
function of (G, H, xi) whichever gauge it is evaluated in; in this one its Gram matrices are I or diag(s) in value, so that
nothing is lost in an ill-conditioned gauge, and no derivative goes through an SVD, whose derivatives are infinite at equal
singular values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from quotientgeo.errors import NonFiniteError
from quotientgeo.geometry import flow, invariant
from quotientgeo.geometry.catalogue_code import generated_code, taylor_point
from quotientgeo.geometry.gauge import batch_names, row
from quotientgeo.geometry.pair import GeodesicName, MetricName, PairGeometry

SETTLED = 1e-10  # relative change of G H' under doubling of the steps of an exact mixed geodesic
_PASSES = 3  # of the projection: value, first and second derivative in the point


@dataclass(frozen=True, eq=False)
class MovingPair:
    """Geometry at pairs G (..., n, h), H (..., m, h); tangents are in the original gauge, results in float64.

    geometry: the geometry at these points as constants. G, H: the points in its canonical representation, functions of the
    original points. Tangents may have more leading dimensions than the points, not fewer.
    """

    geometry: PairGeometry
    G: Tensor
    H: Tensor

    @classmethod
    def at(cls, G: Tensor, H: Tensor, metric: MetricName, geodesic: GeodesicName = "exact") -> MovingPair:
        """Geometry at (G, H), which may require gradients.

        Raises:
            ShapeError, NonFiniteError, RankDeficientError: see ``canonical_frames``.
        """
        geometry = PairGeometry.at(G, H, metric=metric, geodesic=geodesic)
        return cls(geometry, *geometry.to_canonical(G, H))

    @property
    def _code(self) -> ModuleType:
        return generated_code(self.geometry.metric)

    def inner(self, xi_G: Tensor, xi_H: Tensor, eta_G: Tensor, eta_H: Tensor) -> Tensor:
        """<xi, eta>, shape (...), by the derived formula."""
        xi, eta = self.geometry.to_canonical(xi_G, xi_H), self.geometry.to_canonical(eta_G, eta_H)
        value: Tensor = self._code.inner(self.G, self.H, *xi, *eta)
        return value

    def gradient(self, dG: Tensor, dH: Tensor) -> tuple[Tensor, Tensor]:
        """The tangent grad with <grad, xi> = tr(dG' xi_G) + tr(dH' xi_H) for every xi, by the derived formula.

        It is horizontal where the function is constant along orbits.
        """
        frames, columns = self.geometry.frames, self.geometry.columns.mT
        moved = dG.double() @ (frames.T_G / columns).mT, dH.double() @ (frames.T_H / columns).mT
        return self.geometry.from_canonical(*self._code.gradient(self.G, self.H, *moved))

    def project(self, xi_G: Tensor, xi_H: Tensor) -> tuple[Tensor, Tensor]:
        """Horizontal part of a tangent, orthogonal in the metric.

        In the balanced gauge P = Q = diag(s) the momentum of vertical(X) is X times a table, entry by entry. So xi - vertical(X)
        with X = momentum(xi) / table is horizontal. Repeated, it does nothing in value but makes the table, a
        constant, exact to one more order in the point each time: the result has exact first and second derivatives.
        """
        code, root = self._code, row(self.geometry.frames.s.sqrt(), torch.float64)
        to_balanced = root / self.geometry.columns
        G, H = self.G * to_balanced, self.H * to_balanced
        X_G, X_H = (X * to_balanced for X in self.geometry.to_canonical(xi_G, xi_H))
        balanced = torch.diag_embed(root[..., 0, :])
        table = code.momentum(balanced, balanced, *code.vertical(balanced, balanced, torch.ones_like(balanced)))
        for _ in range(_PASSES):
            V_G, V_H = code.vertical(G, H, code.momentum(G, H, X_G, X_H) / table)
            X_G, X_H = X_G - V_G, X_H - V_H
        return self.geometry.from_canonical(X_G / to_balanced, X_H / to_balanced)

    def exponential(self, xi_G: Tensor, xi_H: Tensor) -> tuple[Tensor, Tensor]:
        """End point at t = 1 of the declared geodesic along any tangent, horizontal or not.

        Raises:
            NonFiniteError: the tangent holds NaN or infinity.
            GeodesicCollapseError, GeodesicAccuracyError: the exact mixed geodesic, see ``flow.settled_steps``.
        """
        for name, xi in (("G", xi_G), ("H", xi_H)):
            bad = (~xi.isfinite()).sum((-2, -1))
            if bad.any():
                raise NonFiniteError(
                    f"the tangent of {name} holds NaN or infinity (entries: {batch_names(bad > 0, bad)})"
                )
        X_G, X_H = self.geometry.to_canonical(xi_G, xi_H)
        metric, order = self.geometry.metric, self.geometry.geodesic
        if order == "exact":
            return self.geometry.from_canonical(*_EXACT[metric](self, X_G, X_H))
        return self.geometry.from_canonical(*taylor_point(metric, order, self.G, self.H, X_G, X_H))


def _orthonormal(Y: Tensor) -> tuple[Tensor, Tensor]:
    """Y (..., n, h) = F R with orthonormal F and triangular R, for Y that has nearly orthonormal columns in value."""
    R = torch.linalg.cholesky(Y.mT @ Y, upper=True)
    return torch.linalg.solve_triangular(R, Y, upper=True, left=False), R


def _invariant_exponential(pair: MovingPair, X_G: Tensor, X_H: Tensor) -> tuple[Tensor, Tensor]:
    """The closed form of ``invariant.exponential``, which wants orthonormal points: it commutes with R of each factor."""
    (F_G, R_G), (F_H, R_H) = _orthonormal(pair.G), _orthonormal(pair.H)
    frames = pair.geometry.frames._replace(F_G=F_G, F_H=F_H)
    X_G, X_H = (torch.linalg.solve_triangular(R, X, upper=True, left=False) for R, X in ((R_G, X_G), (R_H, X_H)))
    Y_G, Y_H = invariant.exponential(frames, X_G, X_H)
    return Y_G @ R_G, Y_H @ R_H


def _mixed_exponential(pair: MovingPair, X_G: Tensor, X_H: Tensor) -> tuple[Tensor, Tensor]:
    """The flow of ``flow.Reduced`` from Y = F R instead of F: coefficients [R; 0], and momenta V S Q with Q = R_H'R_H.

    As many steps as make G H' settle to ``SETTLED`` in every pair of the batch: so close that it does not matter which
    pairs share a batch.
    """
    columns = pair.geometry.columns
    V_G, V_H = X_G / columns, X_H / columns
    (F_G, R_G), (F_H, R_H) = _orthonormal(pair.G / columns), _orthonormal(pair.H / columns)
    fewest = pair.geometry.steps or flow.DEFAULT_STEPS
    steps = flow.settled_steps(pair.geometry.frames, V_G, V_H, fewest, tolerance=SETTLED)
    system, (N_G, N_H) = flow.Reduced.at(pair.geometry.frames._replace(F_G=F_G, F_H=F_H), V_G, V_H)
    R = torch.stack([R_G.expand_as(system.core[0]), R_H.expand_as(system.core[1])])
    identity = torch.eye(R.shape[-1], dtype=R.dtype, device=R.device).expand_as(R)
    point = torch.cat([R, torch.zeros_like(R)], -2)
    momentum = (torch.cat([system.core, identity], -2) * system.s) @ (R.mT @ R).flip(0)
    ends = flow.integrate(system, steps, start=(point, momentum))
    (u_G, q_G), (u_H, q_H) = (end.tensor_split(2, -2) for end in ends)
    Y_G, Y_H = F_G @ u_G + N_G @ q_G, F_H @ u_H + N_H @ q_H
    return Y_G * columns, Y_H * columns


_EXACT: dict[str, Callable[[MovingPair, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "invariant": _invariant_exponential,
    "mixed": _mixed_exponential,
}
