"""The run-time geometry of any generated module: projection, geodesics and transports for factors of any number and shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from quotientgeo.errors import AbsentOperationError, ArgumentError, ShapeError
from quotientgeo.geometry import derived_flow as flow
from quotientgeo.geometry.derived_closed import Attached, Exponential, certified
from quotientgeo.geometry.derived_flow import ratio
from quotientgeo.geometry.derived_module import module_address, module_at
from quotientgeo.geometry.derived_point import Factors, PointGeometry
from quotientgeo.geometry.derived_shipped import shipped
from quotientgeo.parameters import BoundModule

GeodesicName = Literal["exact", 1, 2, 3, 4]
GEODESICS: tuple[GeodesicName, ...] = ("exact", 1, 2, 3, 4)


class Moved(NamedTuple):
    """Where a geodesic ends, and what arrives there."""

    point: Factors
    velocity: Factors
    tangent: Factors


class Derived(PointGeometry):
    """Geometry of a generated module on tensors.

    A point x, a tangent xi and a Euclidean gradient are tuples of tensors (..., rows, columns), one per factor of the
    module's FACTORS, in its order; leading dimensions broadcast. Results have the dtype and device of the arguments, and
    can be differentiated. Everything commutes with the group: at the moved point, with moved tangents, results are the moved
    results, and numbers are the same.

    Nothing here improves the condition of a point: generated code forms Gram matrices of the factors as they are.

    Args:
        geometry: what ``quotientgeo.derive`` returned, or a generated module.
        parameters: values of the metric's parameters, such as {"eps": 0.1}.

    Raises:
        ArgumentError: it is neither, or a parameter has no value, or no positive one.
    """

    def __init__(self, geometry: Any, parameters: Mapping[str, float] | None = None) -> None:
        super().__init__(geometry, parameters)
        self.attached: Attached | None = shipped(self.module)

    def __repr__(self) -> str:
        attached = f", attached={self.attached.name!r}" if self.attached else ""
        return f"Derived({self.name!r}{attached})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Derived:
        """Itself: modules hold no state, and a closed form is attached for good."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.module, BoundModule):
            return _restored, (*module_address(self.module.source), self.attached, self.module.values)
        return _restored, (*module_address(self.module), self.attached)

    # --- geodesics ---

    def exponential(
        self,
        point: Sequence[Tensor],
        xi: Sequence[Tensor],
        order: GeodesicName = "exact",
        *,
        tolerance: float | None = None,
        steps: int | None = None,
    ) -> Factors:
        """End point at t = 1 of the geodesic from ``point`` along any tangent, horizontal or not.

        Args:
            order: 1 to 4: the generated Taylor polynomial of that order. "exact": the closed form that is attached, which for
                geometries of the catalogue that have one is the proven one; where there is none, or a tolerance or steps
                are given, classical RK4 of the generated acceleration.
            tolerance: RK4 steps are doubled until the end point changes by at most this relative length in the metric, in
                every member of the batch (the length of the change, over that of end point and velocity there, which no
                linear group action changes). Default: 1e-10, or 100 units of rounding of the dtype where that is more.
            steps: that many RK4 steps instead, whatever the error; nothing is checked then, and nothing waits for a device.

        Raises:
            GeodesicAccuracyError, GeodesicCollapseError: see ``derived_flow.settle``, and ``Attached.require_inside`` for a
                closed form.
            AbsentOperationError: the module has no Taylor polynomial of this order.
        """
        x, v = self._aligned(point, xi)
        if order == "exact":
            if self.attached is not None and steps is None and tolerance is None:
                self.attached.require_inside(x, v)
                return tuple(self.attached.exponential(*x, *v))
            return self._flow(x, v, (), None, 1, tolerance, steps)[0]
        require_geodesic(self, order)
        return tuple(getattr(self.module, f"taylor_{order}")(*x, *v))

    def velocity(
        self,
        point: Sequence[Tensor],
        xi: Sequence[Tensor],
        *,
        tolerance: float | None = None,
        steps: int | None = None,
    ) -> tuple[Factors, Factors]:
        """(end point, velocity there) of the exact geodesic at t = 1, by RK4; the velocity is settled, too."""
        x, v = self._aligned(point, xi)
        end, speed, _ = self._flow(x, v, (), None, 2, tolerance, steps)
        return end, speed

    def trajectory(
        self,
        point: Sequence[Tensor],
        xi: Sequence[Tensor],
        times: Sequence[float] | Tensor,
        order: GeodesicName = "exact",
        *,
        tolerance: float | None = None,
        steps: int | None = None,
    ) -> Factors:
        """Points of the geodesic at ``times`` (T,), any real numbers: factors (T, ..., rows, columns); arguments as for
        ``exponential``. All times are one batch: x(t) is the end point along t xi."""
        x, v = self._aligned(point, xi)
        t = torch.as_tensor(times, dtype=x[0].dtype, device=x[0].device)
        if t.ndim != 1:
            raise ShapeError(f"{self.name}: times must be one list of numbers, got shape {tuple(t.shape)}")
        along = tuple(t.reshape(-1, *[1] * part.ndim) * part for part in v)
        return self.exponential(x, along, order, tolerance=tolerance, steps=steps)

    def settled_steps(
        self,
        point: Sequence[Tensor],
        xi: Sequence[Tensor],
        *,
        tolerance: float | None = None,
        fewest: int | None = None,
    ) -> int:
        """The RK4 steps that ``exponential`` takes to settle, at least twice ``fewest``; raises what it raises."""
        x, v = (tuple(t.detach() for t in part) for part in self._aligned(point, xi))
        return self._settled(x, v, (), None, 1, tolerance, fewest or flow.FEWEST_STEPS)[0]

    def transport(
        self,
        point: Sequence[Tensor],
        xi: Sequence[Tensor],
        eta: Sequence[Tensor],
        *,
        space: Literal["quotient", "total"] = "quotient",
        tolerance: float | None = None,
        steps: int | None = None,
    ) -> Moved:
        """Parallel transport of eta along the exact geodesic from ``point`` along xi, to t = 1; with end point and velocity.

        space="quotient": the parallel transport of the quotient (with the metric that makes the projection a Riemannian
        submersion), on horizontal lifts. xi and eta are made horizontal first. Along the horizontal geodesic x(t), eta(t) stays
        horizontal and the *horizontal part* of its covariant derivative vanishes (O'Neill: the horizontal lift of the
        quotient's covariant derivative). With P(x) the horizontal projection these two conditions are the equation

            eta' = -P(x) Gamma(x', eta) + (d/dt P(x(t))) eta,

        whose last term is vertical. Horizontality and inner products of transported tangents are preserved; x' is
        transported to x'. Transport in the total space followed by projection is another map, and shortens.

        space="total": eta' = -Gamma(x', eta), the parallel transport of the metric on the factors themselves, along any
        geodesic and for any eta. It preserves all inner products, but not horizontality.

        Both are linear in eta and commute with the group. They are settled as ``exponential`` is, the result being
        end point, velocity and transported tangent together.
        """
        if space not in ("quotient", "total"):
            raise ArgumentError(f'{self.name}: space must be "quotient" or "total", got {space!r}')
        x, v, e = self._aligned(point, xi, eta)
        rate = self._parallel_in_total
        if space == "quotient":
            v, e, rate = self._project(x, v), self._project(x, e), self._parallel_in_quotient
        return Moved(*self._flow(x, v, e, rate, 3, tolerance, steps))

    def _parallel_in_total(self, x: Factors, v: Factors, eta: Factors) -> Factors:
        return tuple(-g for g in self._christoffel(x, v, eta))

    def _parallel_in_quotient(self, x: Factors, v: Factors, eta: Factors) -> Factors:
        """The equation of ``transport``, or in other words: -Gamma(x', eta) plus the vertical tangent that keeps J(eta) = 0."""
        again, bending = _differentiated(x, v, eta), self._christoffel(x, v, eta)
        if self._projection_is_a_formula:
            turning = flow.directional(lambda at: self._project(at, eta), x, v, again=again)
            return tuple(t - b for t, b in zip(turning, self._project(x, bending), strict=True))
        turning = flow.directional(lambda at: self._momentum(at, eta), x, v, again=again)
        excess = tuple(b - t for b, t in zip(self._momentum(x, bending), turning, strict=True))
        return tuple(c - b for c, b in zip(self._vertical_of(x, excess), bending, strict=True))

    # --- integration ---

    def _flow(
        self,
        x: Factors,
        v: Factors,
        eta: Factors,
        parallel: Callable[[Factors, Factors, Factors], Factors] | None,
        settled: int,
        tolerance: float | None,
        steps: int | None,
    ) -> tuple[Factors, Factors, Factors]:
        """(x, v, eta) at t = 1; of these, the first ``settled`` are held to the tolerance."""
        if steps is None:
            fixed = [tuple(t.detach() for t in part) for part in (x, v, eta)]
            steps, ends = self._settled(fixed[0], fixed[1], fixed[2], parallel, settled, tolerance, flow.FEWEST_STEPS)
            if not _differentiated(x, v, eta):
                return ends
        elif isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ArgumentError(f"{self.name}: steps must be a whole number of at least 1, got {steps!r}")
        return self._integrate(x, v, eta, parallel, steps)

    def _integrate(
        self,
        x: Factors,
        v: Factors,
        eta: Factors,
        parallel: Callable[[Factors, Factors, Factors], Factors] | None,
        steps: int,
    ) -> tuple[Factors, Factors, Factors]:
        k = len(x)

        def rate(state: Factors) -> Factors:
            at, moving, carried = state[:k], state[k : 2 * k], state[2 * k :]
            turning = parallel(at, moving, carried) if parallel is not None else ()
            return (*moving, *self.module.acceleration(*at, *moving), *turning)

        state = flow.integrate(rate, (*x, *v, *eta), steps)
        return state[:k], state[k : 2 * k], state[2 * k :]

    def _settled(
        self,
        x: Factors,
        v: Factors,
        eta: Factors,
        parallel: Callable[[Factors, Factors, Factors], Factors] | None,
        settled: int,
        tolerance: float | None,
        fewest: int,
    ) -> tuple[int, tuple[Factors, Factors, Factors]]:
        k = len(x)

        def run(steps: int) -> Factors:
            return tuple(t for part in self._integrate(x, v, eta, parallel, steps) for t in part)

        def change(few: Factors, many: Factors) -> Tensor:
            at, moving = many[:k], many[k : 2 * k]
            scales = [self._length(at, at) + self._length(at, moving), self._length(at, moving)]
            scales += [self._length(at, many[2 * k :])] if eta else []
            differences = tuple(a - b for a, b in zip(few, many, strict=True))
            parts = [differences[i * k : (i + 1) * k] for i in range(settled)]
            errors = [ratio(self._length(at, d), s) for d, s in zip(parts, scales[:settled], strict=True)]
            return torch.stack(errors).amax(0)

        steps, ends = flow.settle(
            run,
            change,
            tolerance=flow.default_tolerance(x[0].dtype) if tolerance is None else tolerance,
            fewest=fewest,
            name=self.name,
        )
        return steps, (ends[:k], ends[k : 2 * k], ends[2 * k :])

    # --- closed forms ---

    def attach(self, name: str, exponential: Exponential, *, sizes: Mapping[str, int] | None = None) -> Attached:
        """Use a hand-made closed form for ``exponential(..., "exact")`` from now on, if it is the geodesic.

        exponential(*point, *xi) returns the factors of the end point at t = 1, for any tangent and any leading dimensions. It is
        compared with the settled integral of the generated acceleration at random points, along tangents of several lengths,
        horizontal and not, in several batch shapes, in float64: the distance of the end points, in the metric, is at
        most 1e-8 of the tangent's length. The same closed form along 1.01 xi has to fail, or the comparison says nothing.

        Args:
            name: of the closed form, for messages.
            sizes: symbolic size -> value to compare at; chosen where it is not given.

        Raises:
            CertificateError: it is not the geodesic; the message carries the witness. The geometry stays as it was.
        """
        self.attached = certified(self, name, exponential, sizes)
        return self.attached


def _differentiated(*parts: Factors) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for part in parts for t in part)


def require_geodesic(geometry: Derived, order: Any) -> None:
    """Raise where there is no such geodesic: ArgumentError, or AbsentOperationError where only this module lacks it."""
    if isinstance(order, bool) or order not in GEODESICS:
        raise ArgumentError(f"geodesic must be one of {', '.join(map(repr, GEODESICS))}, got {order!r}")
    if order != "exact" and not hasattr(geometry.module, f"taylor_{order}"):
        raise AbsentOperationError(
            f'{geometry.name}: the generated module has no taylor_{order}; use geodesic="exact" or a lower order'
        )


def require_invariant(geometry: Derived, order: Any) -> None:
    """AbsentOperationError where the end point of such a geodesic depends on the point of the orbit: a Taylor polynomial in
    coordinates that the group bends."""
    require_geodesic(geometry, order)
    if order != "exact" and not getattr(geometry.module, "AFFINE_ACTION", True):
        raise AbsentOperationError(
            f"{geometry.name}: its group acts by maps that are not affine in the point, so Taylor polynomials do not move with "
            f'it and would measure the point of the orbit, too: geodesic={order!r} is not there, use geodesic="exact"'
        )


def _restored(
    name: str, source: str | None, attached: Attached | None, parameters: Mapping[str, float] | None = None
) -> Derived:
    geometry = Derived(module_at(name, source), parameters)
    geometry.attached = attached
    return geometry
