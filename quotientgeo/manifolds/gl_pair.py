"""Pairs of factors modulo GL(h) as a geoopt manifold: a thin cover of ``geometry.moving``."""

from __future__ import annotations

from typing import Any

import geoopt
import torch
from torch import Tensor

from quotientgeo.errors import LogarithmError, ShapeError
from quotientgeo.geometry.distances import quotient_distance
from quotientgeo.geometry.gauge import batch_names
from quotientgeo.geometry.logarithm import logarithm
from quotientgeo.geometry.moving import MovingPair
from quotientgeo.geometry.pair import GeodesicName, MetricName, require_declared
from quotientgeo.manifolds.horizontal import Check, HorizontalManifold, common_dtype, whole_number


class GLPair(HorizontalManifold):
    """Pairs G (n, h), H (m, h) of full rank with G H' of rank h, modulo (G, H) -> (G A^-1, H A') for invertible A.

    A point is the stacked factor x = [G; H], shape (..., n + m, h), for any h up to min(n, m); leading dimensions are a batch of
    independent pairs. A tangent u = [xi_G; xi_H] has the same shape and is horizontal: orthogonal to the orbit. With P = G'G and
    Q = H'H the inner product of u = [a_G; a_H] and v = [b_G; b_H] is

        metric="invariant": tr(P^-1 a_G' b_G) + tr(Q^-1 a_H' b_H)
        metric="mixed":     tr(Q a_G' b_G) + tr(P a_H' b_H)

    (da Silva, Dangel, Oore, ICML 2025, eq. 9 and 10). Every operation commutes with the group: at [G A^-1; H A'], with tangents
    moved the same way, it gives the same numbers, the same points of the quotient, and the moved tangents. What an optimiser does
    to G H' therefore depends on G H' alone.

    * ``expmap`` and ``retr`` are one map, the horizontal geodesic that ``geodesic`` declares: "exact" (in closed form for the
      invariant metric; integrated until G H' is settled to a relative 1e-10 for the mixed one, which is not complete), or the
      order 1, 2, 3, 4 of its Taylor polynomial.
    * ``transp``, and with it every ``*_transp``, is the projection transport: the matrix v itself, made horizontal at y. It is
      linear, smooth and commutes with the group; it preserves horizontality, and neither lengths nor angles (nor is it
      parallel). y must be in the gauge of x, as what ``expmap`` and ``retr`` return is.
    * ``proju`` is the horizontal projection; ``egrad2rgrad`` the derived gradient followed by it, which for a function of G H'
      changes rounding errors only.
    * ``projx`` returns x: full rank is an open condition, and a point that has lost it has no nearest one.
    * ``logmap(x, y)`` is a horizontal tangent at x whose exact geodesic ends on the orbit of y, whatever ``geodesic`` is, found
      by iteration; ``LogarithmError`` where none was. That no other one is shorter is not certified.
    * ``dist`` is an upper bound of the distance of the orbits, attained by a path, and the distance itself where the geodesic of
      ``logmap`` is the shortest, which it is for near orbits, and always for h = 1. ``geometry.distances`` gives a lower bound
      with it. ``dist2`` is its square. The results of these three are constants: nothing differentiates through them.

    All is computed in float64, in a gauge where nothing is ill-conditioned, and returned in the dtype and on the device of
    the arguments; all can be differentiated in points and tangents, twice. Operations raise ``RankDeficientError`` or
    ``NonFiniteError`` where a point has no tangent space.

    geoopt's RiemannianAdam and RiemannianSGD work as they are, except that geoopt's momentum begins with the Euclidean
    gradient, which depends on the gauge: with momentum use ``quotientgeo.manifolds.RiemannianSGD``. Weight decay depends on
    the gauge in any of them. ``geoopt.ManifoldParameter(x, ...)`` shares its storage with x: clone x if you want to keep it.

    >>> import geoopt, torch
    >>> import quotientgeo as qg
    >>> generator = torch.Generator().manual_seed(0)
    >>> manifold = qg.GLPair(6, 5, metric="invariant", geodesic=2)
    >>> wanted, start = (manifold.random(11, 2, dtype=torch.float64, generator=generator) for _ in range(2))
    >>> G, H = manifold.unpack_tensor(wanted)
    >>> W = G @ H.mT
    >>> point = geoopt.ManifoldParameter(start, manifold=manifold)
    >>> optimizer = geoopt.optim.RiemannianSGD([point], lr=0.1)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     G, H = manifold.unpack_tensor(point)
    ...     loss = (G @ H.mT - W).square().sum()
    ...     loss.backward()
    ...     optimizer.step()
    >>> bool(loss < 1e-10)
    True

    Args:
        n, m: rows of G and H.
        metric: "invariant" or "mixed".
        geodesic: "exact", or 1, 2, 3, 4.

    Raises:
        ArgumentError: n or m is not a positive whole number, or there is no such metric or geodesic.
    """

    __scaling__ = geoopt.Manifold.__scaling__.copy()
    name = "GLPair"
    ndim = 2

    def __init__(self, n: int, m: int, metric: MetricName = "invariant", geodesic: GeodesicName = "exact") -> None:
        super().__init__()
        self.n, self.m = whole_number(self.name, "n", n), whole_number(self.name, "m", m)
        require_declared(metric, geodesic)
        self.metric, self.geodesic = metric, geodesic

    def extra_repr(self) -> str:
        return f"n={self.n}, m={self.m}, metric={self.metric!r}, geodesic={self.geodesic!r}"

    @property
    def _title(self) -> str:
        return self.name

    # --- stacked points ---

    def unpack_tensor(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """(G (..., n, h), H (..., m, h)): views of a point or tangent (..., n + m, h)."""
        self._require_shape(tensor, "tensor")
        return tensor[..., : self.n, :], tensor[..., self.n :, :]

    def pack_point(self, *tensors: Tensor) -> Tensor:
        """The stacked factor (..., n + m, h) of G (..., n, h) and H (..., m, h)."""
        if len(tensors) != 2 or [t.shape[-2:-1] for t in tensors] != [(self.n,), (self.m,)]:
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
            raise ShapeError(
                f"{self.name} packs G (..., {self.n}, h) and H (..., {self.m}, h), got {shapes or 'nothing'}"
            )
        return torch.cat(tensors, -2)

    def _check_shape(self, shape: tuple[int, ...], name: str) -> Check:
        if len(shape) < 2 or shape[-2] != self.n + self.m:
            return False, f"'{name}' must have shape (..., {self.n} + {self.m}, h), got {tuple(shape)}"
        if not 1 <= shape[-1] <= min(self.n, self.m):
            return False, f"'{name}' must have 1 to {min(self.n, self.m)} columns to have full rank, got {tuple(shape)}"
        return True, None

    def _require_shape(self, tensor: Tensor, name: str) -> None:
        self._assert_check_shape(tensor.shape, name)

    def _at(self, x: Tensor) -> MovingPair:
        return MovingPair.at(*self.unpack_tensor(x), self.metric, self.geodesic)

    def _tangent(self, x: Tensor, u: Tensor, name: str = "u") -> tuple[Tensor, Tensor]:
        """The factors of a tangent, with at least the leading dimensions of x."""
        self._require_shape(u, name)
        if u.shape[-1] != x.shape[-1] or u.device != x.device:
            raise ShapeError(
                f"{self.name}: '{name}' of shape {tuple(u.shape)} on {u.device} is no tangent at a point of shape "
                f"{tuple(x.shape)} on {x.device}"
            )
        batch = torch.broadcast_shapes(x.shape[:-2], u.shape[:-2])
        return self.unpack_tensor(u.expand(*batch, *u.shape[-2:]))

    def _pack(self, factors: tuple[Tensor, Tensor], *like: Tensor) -> Tensor:
        return torch.cat(factors, -2).to(common_dtype(*like))

    # --- checks ---

    def _require_point(self, x: Tensor) -> None:
        """Full rank, judged by s_h / s_1 of G H' against the resolution of x's dtype."""
        self._at(x)

    def _lengths_of(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        return self.norm(x, u), self.norm(x, u - self.proju(x, u))

    # --- operations ---

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        """<u, v> in the metric, or <u, u>; shape (...), or (..., 1, 1) with ``keepdim``."""
        xi = self._tangent(x, u)
        eta = xi if v is None else self._tangent(x, v, "v")
        return self._scalar(self._at(x).inner(*xi, *eta), x, u, keepdim)

    def norm(self, x: Tensor, u: Tensor, *, keepdim: bool = False) -> Tensor:
        """sqrt <u, u>, with the derivative 0 at u = 0."""
        squared = self.inner(x, u, keepdim=keepdim)
        zero = squared == 0
        return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        """Horizontal part of u, orthogonal in the metric."""
        return self._pack(self._at(x).project(*self._tangent(x, u)), x, u)

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        """Horizontal gradient of a function with Euclidean gradient u: <egrad2rgrad(x, u), xi> = tr(u' xi) for horizontal xi."""
        at = self._at(x)
        return self._pack(at.project(*at.gradient(*self._tangent(x, u))), x, u)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        """End point at t = 1 of the declared geodesic from x along u, in the gauge of x.

        Raises:
            GeodesicCollapseError, GeodesicAccuracyError: an exact mixed geodesic leaves the pairs of full rank.
        """
        return self._pack(self._at(x).exponential(*self._tangent(x, u)), x, u)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        """Horizontal tangent u at x such that the exact geodesic along u ends on the orbit of y.

        Raises:
            LogarithmError: in some pair of the batch no connecting geodesic was found.
        """
        x, y = self._both(x, y)
        start, end = self._at(x).geometry, self._at(y).geometry
        found = logarithm(start.frames, end.frames, self.metric)
        missed = ~found.converged
        if missed.any():
            raise LogarithmError(
                f"{self.name}.logmap: no geodesic from x to the orbit of y was found; what is left to go: "
                f"{batch_names(missed, found.gap)}. dist(x, y) still has an upper bound; take points in between"
            )
        return self._pack(start.displacement(found.z), x, y)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Upper bound of the distance of the orbits of x and y, shape (...), or (..., 1, 1) with ``keepdim``."""
        x, y = self._both(x, y)
        upper = quotient_distance(self._at(x).geometry.frames, self._at(y).geometry.frames, self.metric).upper
        return self._scalar(upper, x, y, keepdim)

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """dist(x, y)^2."""
        return self.dist(x, y, keepdim=keepdim).square()

    def _both(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Two points with one batch shape, as constants."""
        self._require_shape(x, "x")
        self._require_shape(y, "y")
        if x.shape[-1] != y.shape[-1] or x.device != y.device:
            raise ShapeError(
                f"{self.name}: x and y must have one number of columns and one device, got {tuple(x.shape)} on {x.device} and "
                f"{tuple(y.shape)} on {y.device}"
            )
        batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        x, y = (p.detach().expand(*batch, *p.shape[-2:]) for p in (x, y))
        return x, y

    # --- points ---

    def random(
        self, *size: Any, dtype: Any = None, device: Any = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """A random point of the given shape (..., n + m, h).

        G H' = F_G diag(s) F_H' with frames of Gaussian matrices and s log-uniform between 1/2 and 2, in the balanced gauge
        G'G = H'H: well-conditioned whatever n, m and h are (a product of square Gaussian factors is singular to float32
        too often). ``generator`` must live on ``device``.
        """
        shape = geoopt.utils.size2shape(*size)
        self._assert_check_shape(shape, "x")
        *batch, _, h = shape
        options = {"dtype": torch.float64, "device": device, "generator": generator}
        F_G, F_H, R = (torch.linalg.qr(torch.randn(*batch, rows, h, **options)).Q for rows in (self.n, self.m, h))
        root = torch.exp2(torch.rand(*batch, 1, h, **options) - 0.5)
        return torch.cat([F_G * root @ R, F_H * root @ R], -2).to(dtype or torch.get_default_dtype())

    def origin(self, *size: Any, dtype: Any = None, device: Any = None, seed: int | None = 42) -> Tensor:
        """G and H with ones on the diagonal and zeros elsewhere; ``seed`` has no effect."""
        shape = geoopt.utils.size2shape(*size)
        self._assert_check_shape(shape, "x")
        G, H = (torch.eye(rows, shape[-1], dtype=dtype, device=device) for rows in (self.n, self.m))
        return torch.cat([G, H]).expand(shape).clone()
