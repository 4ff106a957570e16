"""Any derived geometry as a geoopt manifold: a thin cover of ``geometry.derived``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import geoopt
import torch
from torch import Tensor

from quotientgeo.errors import AbsentOperationError, ArgumentError, NonFiniteError, ShapeError
from quotientgeo.geometry.derived import Derived, Factors, GeodesicName, require_invariant
from quotientgeo.geometry.derived_closed import Attached, Exponential
from quotientgeo.geometry.derived_samples import numeric_shapes, random_factors, size_names
from quotientgeo.manifolds.horizontal import Check, HorizontalManifold, common_dtype, whole_number

_SINGULAR = 1e10  # beyond what a metric gives at a point whose singular values are about 1


class QuotientManifold(HorizontalManifold):
    """Factors of a derived geometry modulo its group, with the geometry's own metric.

    A point holds all factors in the order of their declaration. Where all are declared with the same columns, as in G (n, h)
    and H (m, h), it is the stacked factor x = [G; H], shape (..., n + m, h), with ``ndim`` 2; otherwise the flattened factors
    one after the other, shape (..., N), with ``ndim`` 1. ``pack_point`` and ``unpack_tensor`` convert. Leading dimensions are a
    batch of independent points. Tangents have the shape of points and are horizontal: orthogonal to the orbit in the metric.

    Every operation commutes with the group that was declared: at the moved point, with moved tangents, it gives the same
    numbers, the same points of the quotient, and the moved tangents.

    * ``expmap`` and ``retr`` are one map, the horizontal geodesic that ``geodesic`` declares: "exact" (the attached closed form;
      where there is none, RK4 of the generated acceleration with steps doubled until the end point is settled to a relative
      1e-10), or the order 1, 2, 3, 4 of its generated Taylor polynomial.
    * ``expmap_transp``, ``retr_transp`` (which geoopt's optimisers use) and ``transp_follow_*``: with geodesic="exact" the
      parallel transport of the quotient along that geodesic, on horizontal lifts (``Derived.transport``; it preserves lengths
      and angles, settled to the same accuracy). With a Taylor polynomial, which is no geodesic, the projection transport.
    * ``transp(x, y, v)``, which is not told the geodesic from x to y, is the projection transport: the matrix v itself, made
      horizontal at y. Linear, smooth, equivariant; preserves neither lengths nor angles. y must be in the gauge of x, as what
      ``expmap`` and ``retr`` return is.
    * ``proju`` is the generated horizontal projection; ``egrad2rgrad`` the generated gradient followed by it.
    * ``projx`` returns x: being regular is an open condition, and a point that is not has no nearest one.
    * ``dist``, ``dist2`` and ``logmap`` raise ``AbsentOperationError``.

    All is computed in float64 and returned in the dtype and on the device of the arguments; all can be differentiated in points
    and tangents. Generated code forms Gram matrices of the factors as they are: unlike ``GLPair``, which knows its group,
    nothing moves an ill-conditioned point of an orbit to a good one first.

    With momentum use ``quotientgeo.manifolds.RiemannianSGD`` (see there). ``geoopt.ManifoldParameter(x, ...)`` shares its
    storage with x: clone x if you want to keep it.

    >>> import geoopt, torch
    >>> import quotientgeo as qg
    >>> from quotientgeo.catalogue.gl_pair_mixed import generated
    >>> manifold = qg.QuotientManifold(generated, sizes={"n": 6, "m": 5}, geodesic=2)
    >>> random = torch.Generator().manual_seed(0)
    >>> wanted, start = (manifold.random(11, 2, dtype=torch.float64, generator=random) for _ in range(2))
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
        geometry: what ``quotientgeo.derive`` returned, a generated module, or a ``Derived``.
        sizes: symbolic size -> positive whole number. The columns of stacked factors may be left open where no factor has
            them as rows: then every point decides.
        geodesic: "exact", or 1, 2, 3, 4.
        parameters: values of the metric's parameters, such as {"eps": 0.1}.

    Raises:
        ArgumentError: no such geometry or geodesic; a size is missing, unknown, or no positive whole number.
        AbsentOperationError: the geometry has no Taylor polynomial of this order, or none that moves with the group.
    """

    __scaling__ = geoopt.Manifold.__scaling__.copy()
    name = "QuotientManifold"

    def __init__(
        self,
        geometry: Any,
        sizes: Mapping[str, int] | None = None,
        geodesic: GeodesicName = "exact",
        parameters: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(geometry, Derived) and parameters:
            raise ArgumentError(f"{geometry.name}: a Derived has the values of its parameters already")
        self.geometry = geometry if isinstance(geometry, Derived) else Derived(geometry, parameters)
        require_invariant(self.geometry, geodesic)
        self.geodesic = geodesic
        factors = self.geometry.factors
        columns = {shape[1] for shape in factors.values()}
        self.stacked = len(columns) == 1
        self.ndim = 2 if self.stacked else 1
        (shared,) = columns if self.stacked else (None,)
        open_size = shared if isinstance(shared, str) and all(s[0] != shared for s in factors.values()) else None
        self.sizes = _checked_sizes(self.geometry, dict(sizes or {}), open_size)
        self._possible: dict[int, bool] = {}  # columns -> whether the metric has a value there
        if (open_size is None or open_size in self.sizes) and not self._has_points(0):
            raise ArgumentError(
                f"{self._title}: at the sizes {self.sizes} its metric has no value, or is degenerate: an inverse does not exist, "
                "as of the Gram matrix of a factor with fewer rows than columns, or coordinates do not come in pairs"
            )

    def _has_points(self, columns: int) -> bool:
        """Whether metric, gradient and projection are finite at a random point of these sizes."""
        if columns not in self._possible:
            generator = torch.Generator().manual_seed(0)
            point, xi = (random_factors(self._shapes(columns), generator=generator) for _ in range(2))
            try:
                values = [self.geometry.inner(point, xi), *self.geometry.project(point, xi)]
                values += self.geometry.gradient(point, xi)
            except RuntimeError:  # of torch: shapes that do not fit
                values = [torch.tensor(float("nan"))]
            # all singular values of the point are about 1: what is singular shows as NaN, or by rounding as a huge number
            self._possible[columns] = all(bool((value.abs() < _SINGULAR).all()) for value in values)
        return self._possible[columns]

    def extra_repr(self) -> str:
        attached = f", attached={self.geometry.attached.name!r}" if self.geometry.attached else ""
        return f"{self.geometry.name}, sizes={self.sizes}, geodesic={self.geodesic!r}{attached}"

    def attach(self, name: str, exponential: Exponential) -> Attached:
        """Use a closed form for "exact" geodesics, if it agrees with the generated geodesic equation: see ``Derived.attach``."""
        complete = all(size in self.sizes for size in size_names(self.geometry.factors))
        return self.geometry.attach(name, exponential, sizes=self.sizes if complete else None)

    @property
    def _title(self) -> str:
        return f"{self.name} of {self.geometry.name}"

    # --- packed points ---

    def _shapes(self, columns: int | None = None) -> tuple[tuple[int, int], ...]:
        """Shapes of the factors; ``columns`` where that size is open."""
        missing = {name: columns or 0 for name in size_names(self.geometry.factors) if name not in self.sizes}
        return numeric_shapes(self.geometry.factors, {**self.sizes, **missing}, self.name)

    @property
    def _lengths(self) -> list[int]:
        """Of the factors along the packed dimension."""
        return [rows if self.stacked else rows * columns for rows, columns in self._shapes()]

    def unpack_tensor(self, tensor: Tensor) -> Factors:
        """The factors (..., rows, columns) of a point or tangent: views of it where it is stacked."""
        self._assert_check_shape(tensor.shape, "tensor")
        if self.stacked:
            return tuple(tensor.split(self._lengths, -2))
        parts = tensor.split(self._lengths, -1)
        return tuple(part.unflatten(-1, shape) for part, shape in zip(parts, self._shapes(), strict=True))

    def pack_point(self, *tensors: Tensor) -> Tensor:
        """The point of factors (..., rows, columns), which have the same leading dimensions."""
        found = self.geometry.sizes(tensors)
        wrong = [f"{name} = {found[name]}" for name, size in self.sizes.items() if found[name] != size]
        if wrong or len({t.shape[:-2] for t in tensors}) > 1:
            shapes = ", ".join(f"{n} {tuple(t.shape)}" for n, t in zip(self.geometry.factors, tensors, strict=True))
            raise ShapeError(f"{self} packs factors of its sizes with equal leading dimensions, got {shapes}")
        return torch.cat(tensors, -2) if self.stacked else torch.cat([t.flatten(-2) for t in tensors], -1)

    def _check_shape(self, shape: Sequence[int], name: str) -> Check:
        total, names = sum(self._lengths), ", ".join(self.geometry.factors)
        found = f"got {tuple(shape)}"
        if not self.stacked:
            if len(shape) < 1 or shape[-1] != total:
                return False, f"'{name}' must hold the flattened factors {names}, shape (..., {total}), {found}"
            return True, None
        wanted = next(iter(self._shapes()))[1] or next(iter(self.geometry.factors.values()))[1]
        if len(shape) < 2 or shape[-2] != total or shape[-1] < 1 or (isinstance(wanted, int) and shape[-1] != wanted):
            return False, f"'{name}' must hold the stacked factors {names}, shape (..., {total}, {wanted}), {found}"
        if not self._has_points(shape[-1]):
            return False, f"'{name}' has a number of columns at which the metric has no value, {found}"
        return True, None

    def _factors(self, x: Tensor, *tangents: Tensor) -> list[Factors]:
        """The factors of a point and of tangents there, in float64."""
        for u in tangents:
            if u.shape[-self.ndim :] != x.shape[-self.ndim :] or u.device != x.device:
                raise ShapeError(
                    f"{self._title}: a tangent of shape {tuple(u.shape)} on {u.device} at a point of "
                    f"shape {tuple(x.shape)} on {x.device}"
                )
        return [tuple(t.double() for t in self.unpack_tensor(tensor)) for tensor in (x, *tangents)]

    def _pack(self, factors: Factors, *like: Tensor) -> Tensor:
        return self.pack_point(*factors).to(common_dtype(*like))

    # --- checks ---

    def _require_point(self, x: Tensor) -> None:
        """Metric, projection and acceleration are finite, and the metric is positive."""
        (point,) = self._factors(x)
        for name, factor in zip(self.geometry.factors, point, strict=True):
            if not factor.isfinite().all():
                raise NonFiniteError(f"the factor {name} holds NaN or infinity")
        probe = random_factors(
            [(f.shape[-2], f.shape[-1]) for f in point], device=x.device, generator=_seeded(x.device)
        )
        squared, at = self.geometry.inner(point, probe), self.geometry
        moving = [*at.gradient(point, probe), *at.project(point, probe), *at.acceleration(point, probe)]
        if not (squared > 0).all() or not all(bool(t.isfinite().all()) for t in moving):
            raise NonFiniteError(
                f"the geometry {self.geometry.name} is singular here: its metric is not positive, or its gradient, projection or "
                "acceleration is not finite (a factor that has lost rank, a vanishing entry)"
            )

    def _lengths_of(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        point, xi = self._factors(x, u)
        part = tuple(a - b for a, b in zip(xi, self.geometry.project(point, xi), strict=True))
        return self.geometry.norm(point, xi), self.geometry.norm(point, part)

    # --- operations ---

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        """<u, v> in the metric, or <u, u>; shape (...), with ``keepdim`` also (1, 1) or (1,) for the packed dimensions."""
        point, xi, eta = self._factors(x, u, u if v is None else v)
        return self._scalar(self.geometry.inner(point, xi, eta), x, u, keepdim)

    def norm(self, x: Tensor, u: Tensor, *, keepdim: bool = False) -> Tensor:
        """sqrt <u, u>, with the derivative 0 at u = 0."""
        point, xi = self._factors(x, u)
        return self._scalar(self.geometry.norm(point, xi), x, u, keepdim)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        """Horizontal part of u, orthogonal in the metric."""
        return self._pack(self.geometry.project(*self._factors(x, u)), x, u)

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        """Horizontal gradient of a function with Euclidean gradient u: its product with any horizontal xi is the sum of u xi."""
        point, egrad = self._factors(x, u)
        return self._pack(self.geometry.project(point, self.geometry.gradient(point, egrad)), x, u)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        """End point at t = 1 of the declared geodesic from x along u, in the gauge of x.

        Raises:
            GeodesicCollapseError, GeodesicAccuracyError: an exact geodesic does not reach t = 1.
        """
        point, xi = self._factors(x, u)
        return self._pack(self.geometry.exponential(point, xi, self.geodesic), x, u)

    def expmap_transp(self, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """(expmap(x, u), v carried there): parallel in the quotient for "exact" geodesics, projected for Taylor polynomials."""
        if self.geodesic != "exact":
            y = self.expmap(x, u)
            return y, self.transp(x, y, v)
        moved = self.geometry.transport(*self._factors(x, u, v))
        y = self.expmap(x, u) if self.geometry.attached else self._pack(moved.point, x, u)
        return y, self._pack(moved.tangent, x, u, v)

    def retr_transp(self, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The same as ``expmap_transp``."""
        return self.expmap_transp(x, u, v)

    def transp_follow_expmap(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """v carried along the declared geodesic, as by ``expmap_transp``."""
        return self.expmap_transp(x, u, v)[1]

    def transp_follow_retr(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """The same as ``transp_follow_expmap``."""
        return self.expmap_transp(x, u, v)[1]

    def logmap(self, x: Tensor, y: Tensor) -> NoReturn:
        self._absent("logmap")

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> NoReturn:
        self._absent("dist")

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> NoReturn:
        self._absent("dist2")

    def _absent(self, operation: str) -> NoReturn:
        raise AbsentOperationError(
            f"{self.name} has no {operation}: the logarithm of a quotient minimises over a whole orbit, which no derivation "
            "gives; lengths of tangents are in norm(x, u)"
        )

    # --- points ---

    def random(
        self, *size: Any, dtype: Any = None, device: Any = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """A random point of the given shape, well-conditioned factor by factor (``derived_samples.random_factors``).

        ``generator`` must live on ``device``.
        """
        shape = tuple(geoopt.utils.size2shape(*size))
        self._assert_check_shape(shape, "x")
        factors = random_factors(
            self._shapes(shape[-1]), shape[: len(shape) - self.ndim], generator=generator, device=device
        )
        return self.pack_point(*factors).to(dtype or torch.get_default_dtype())

    def origin(self, *size: Any, dtype: Any = None, device: Any = None, seed: int | None = 42) -> Tensor:
        """Every factor with ones on the diagonal and zeros elsewhere, a single column with ones; ``seed`` has no effect."""
        shape = tuple(geoopt.utils.size2shape(*size))
        self._assert_check_shape(shape, "x")
        options = {"dtype": dtype, "device": device}
        factors = [
            torch.ones(rows, 1, **options) if columns == 1 else torch.eye(rows, columns, **options)
            for rows, columns in self._shapes(shape[-1])
        ]
        return self.pack_point(*factors).expand(shape).clone()


def _checked_sizes(geometry: Derived, sizes: dict[str, Any], open_size: str | None) -> dict[str, int]:
    names = size_names(geometry.factors)
    unknown, missing = [n for n in sizes if n not in names], [n for n in names if n not in sizes and n != open_size]
    if unknown:
        raise ArgumentError(
            f"QuotientManifold: {geometry.name} has no size {unknown[0]!r}; its sizes are {', '.join(names) or 'all numbers'}"
        )
    if missing:
        raise ArgumentError(
            f"QuotientManifold: {geometry.name} needs a value of {', '.join(missing)}: pass sizes="
            + "{" + ", ".join(f'"{name}": ...' for name in missing) + "}"
        )  # fmt: skip
    numbers = {name: whole_number("QuotientManifold", name, value) for name, value in sizes.items()}
    return {name: numbers[name] for name in names if name in numbers}


def _seeded(device: torch.device) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(0)
