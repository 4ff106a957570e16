"""What a generated module says at one point: shapes, inner product, gradient, projection, acceleration, Christoffel symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from quotientgeo.errors import ShapeError
from quotientgeo.geometry.derived_module import generated_module

Factors = tuple[Tensor, ...]
Size = str | int


class PointGeometry:
    """The functions of a generated module on tuples of factors, with checked and broadcast shapes: see ``Derived``."""

    def __init__(self, geometry: Any, parameters: Mapping[str, float] | None = None) -> None:
        self.module = generated_module(geometry, parameters)
        self.name: str = self.module.NAME
        self.factors: Mapping[str, tuple[Size, Size]] = dict(self.module.FACTORS)

    # --- shapes ---

    def sizes(self, point: Sequence[Tensor], what: str = "point") -> dict[str, int]:
        """Symbolic size -> its value in these factors.

        Raises:
            ShapeError: a factor is missing, has too few dimensions, or contradicts FACTORS or another factor.
        """
        if len(point) != len(self.factors):
            raise ShapeError(
                f"{self.name}: a {what} has the factors {', '.join(self.factors)}, got {len(point)} tensors"
            )
        sizes: dict[str, int] = {}
        for (factor, declared), tensor in zip(self.factors.items(), point, strict=True):
            if tensor.ndim < 2:
                raise ShapeError(
                    f"{self.name}: {factor} of a {what} must have shape (..., {declared[0]}, {declared[1]}), "
                    f"got {tuple(tensor.shape)}"
                )
            for size, found in zip(declared, tensor.shape[-2:], strict=True):
                wanted = sizes.setdefault(size, found) if isinstance(size, str) else size
                if found != wanted:
                    raise ShapeError(
                        f"{self.name}: {factor} of a {what} must have shape (..., {declared[0]}, {declared[1]}) with "
                        f"{size} = {wanted}, got {tuple(tensor.shape)}"
                    )
        return sizes

    def _aligned(self, *parts: Sequence[Tensor]) -> list[Factors]:
        """Points and tangents with all leading dimensions of all of them.

        Raises:
            ShapeError: shapes, dtypes or devices do not fit.
        """
        sizes = self.sizes(parts[0])
        for tangent in parts[1:]:
            if self.sizes(tangent, "tangent") != sizes:
                raise ShapeError(
                    f"{self.name}: a tangent of shapes {_shapes(tangent)} at a point of shapes {_shapes(parts[0])}"
                )
        tensors = [t for part in parts for t in part]
        if len({(t.dtype, t.device) for t in tensors}) > 1:
            found = sorted({f"{t.dtype} on {t.device}" for t in tensors})
            raise ShapeError(f"{self.name}: points and tangents must agree in dtype and device, got {', '.join(found)}")
        try:
            batch = torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))
        except RuntimeError as error:
            raise ShapeError(
                f"{self.name}: leading dimensions do not broadcast: {', '.join(map(_shapes, parts))}"
            ) from error
        return [tuple(t.expand(*batch, *t.shape[-2:]) for t in part) for part in parts]

    # --- at one point ---

    def inner(self, point: Sequence[Tensor], xi: Sequence[Tensor], eta: Sequence[Tensor] | None = None) -> Tensor:
        """<xi, eta> in the metric at the point, or <xi, xi>; shape (...)."""
        x, a, b = self._aligned(point, xi, xi if eta is None else eta)
        value: Tensor = self.module.inner(*x, *a, *b)
        return value.expand(x[0].shape[:-2])

    def norm(self, point: Sequence[Tensor], xi: Sequence[Tensor]) -> Tensor:
        """sqrt <xi, xi>, shape (...), with the derivative 0 at xi = 0."""
        squared = self.inner(point, xi)
        zero = squared == 0
        return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())

    def gradient(self, point: Sequence[Tensor], egrad: Sequence[Tensor]) -> Factors:
        """The tangent grad with <grad, xi> = sum over factors of tr(egrad' xi), for every tangent xi.

        It is horizontal where the function is constant along orbits.
        """
        x, g = self._aligned(point, egrad)
        return tuple(self.module.gradient(*x, *g))

    def vertical(self, point: Sequence[Tensor], *algebra: Tensor) -> Factors:
        """Velocity at the point of the orbit under Lie algebra elements, one per group, shaped as ``momentum`` returns them."""
        (x,) = self._aligned(point)
        return tuple(self.module.vertical(*x, *algebra))

    def momentum(self, point: Sequence[Tensor], xi: Sequence[Tensor]) -> Factors:
        """J(xi), one tensor per group, with <xi, vertical(X)> = sum of tr(J' X): zero exactly for horizontal tangents."""
        return self._momentum(*self._aligned(point, xi))

    def _momentum(self, x: Factors, xi: Factors) -> Factors:
        return _as_tuple(self.module.momentum(*x, *xi))

    def project(self, point: Sequence[Tensor], xi: Sequence[Tensor]) -> Factors:
        """Horizontal part of a tangent, orthogonal in the metric."""
        return self._project(*self._aligned(point, xi))

    def _project(self, x: Factors, xi: Factors) -> Factors:
        return tuple(self.module.horizontal(*x, *xi))

    @property
    def _projection_is_a_formula(self) -> bool:
        """Whether ``horizontal`` solves nothing at run time, so that its derivative costs little more than itself."""
        return not hasattr(self.module, "_vertical_part")

    def _vertical_of(self, x: Factors, momentum: Factors) -> Factors:
        """The vertical tangent of this momentum, one tensor per group, by the solve that ``horizontal`` makes."""
        return tuple(self.module.vertical(*x, *_as_tuple(self.module._vertical_part(*x, *momentum))))

    def acceleration(self, point: Sequence[Tensor], xi: Sequence[Tensor]) -> Factors:
        """-Gamma(xi, xi): second time derivative of the geodesic through the point with velocity xi."""
        x, v = self._aligned(point, xi)
        return tuple(self.module.acceleration(*x, *v))

    def christoffel(self, point: Sequence[Tensor], xi: Sequence[Tensor], eta: Sequence[Tensor]) -> Factors:
        """Gamma(xi, eta), symmetric and bilinear; the covariant derivative of a field along a curve is eta' + Gamma(x', eta)."""
        return self._christoffel(*self._aligned(point, xi, eta))

    def _christoffel(self, x: Factors, xi: Factors, eta: Factors) -> Factors:
        return tuple(self.module.christoffel(*x, *xi, *eta))

    def _length(self, x: Factors, xi: Factors) -> Tensor:
        """Length of a tangent as a constant."""
        with torch.no_grad():
            squared: Tensor = self.module.inner(*x, *xi, *xi)
            return squared.expand(x[0].shape[:-2]).clamp_min(0.0).sqrt()

    def covariant_derivative(
        self, point: Sequence[Tensor], velocity: Sequence[Tensor], field: Sequence[Tensor], rate: Sequence[Tensor]
    ) -> Factors:
        """rate + Gamma(velocity, field): covariant derivative of a field with d field / dt = rate along a curve."""
        x, v, eta, change = self._aligned(point, velocity, field, rate)
        return tuple(d + g for d, g in zip(change, self._christoffel(x, v, eta), strict=True))


def _as_tuple(value: Tensor | Sequence[Tensor]) -> Factors:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _shapes(tensors: Sequence[Tensor]) -> str:
    return " ".join(str(tuple(t.shape)) for t in tensors)
