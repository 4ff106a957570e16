"""Closed forms of exponential maps, accepted only where they agree with the generated geodesic equation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quotientgeo.errors import (
    CertificateError,
    GeodesicAccuracyError,
    GeodesicCollapseError,
    NonFiniteError,
    first_line,
)
from quotientgeo.geometry.derived_flow import ratio
from quotientgeo.geometry.derived_samples import candidate_sizes, numeric_shapes, random_factors, random_tangent
from quotientgeo.geometry.gauge import batch_names

if TYPE_CHECKING:
    from quotientgeo.geometry.derived import Derived

Factors = tuple[Tensor, ...]
Exponential = Callable[..., Factors]
TOLERANCE = 1e-8  # distance of the end points in the metric, relative to the length of the tangent
LENGTHS = (0.01, 0.1, 0.3)  # of tangents, relative to that of the point itself
BATCHES = ((), (3,), (2, 2))
_SETTLED = 1e-10  # of the integral that is compared with
_CONTROL = 1.01  # of the velocity


@dataclass(frozen=True)
class Attached:
    """A closed form and how far it was from the generated geodesic at worst.

    residual, control: largest relative distance of the closed form, and smallest of the same along 1.01 xi; None for a closed
    form of the catalogue, which a certificate proves.
    lowest: of point and tangent, the least fraction of its start that something reaches on [0, 1], shape (...), without which
    the geodesic ends; None where all geodesics exist for all times, or nothing is known.
    """

    name: str
    exponential: Exponential
    residual: float | None
    control: float | None
    tolerance: float | None
    draws: int
    sizes: Mapping[str, int]
    lowest: Callable[..., Tensor] | None = None

    def require_inside(self, point: Factors, tangent: Factors, names: Sequence[str] | None = None) -> None:
        """Raise GeodesicCollapseError where the geodesic does not reach t = 1, to the rounding of the dtype.

        ``names``: of the members of a flat batch, for the message.
        """
        if self.lowest is None:
            return
        with torch.no_grad():
            fraction = self.lowest(*point, *tangent)
            least = torch.finfo(fraction.dtype).eps ** 0.5
            ended = fraction <= least  # a point that is not a number says so in the result
        if ended.any():
            raise GeodesicCollapseError(
                f"{self.name}: the geodesic ends at or before t = 1, at the apex of the cone that the metric is: the product of "
                f"the factors' lengths falls to this fraction of its start (at most {least:.1g}): "
                f"{batch_names(ended, fraction, names)}. "
                "Use a shorter tangent, a smaller rho, or a metric that is complete, such as the invariant one"
            )


@dataclass(frozen=True)
class _Draw:
    """A point, a tangent and where the geodesic ends."""

    label: str
    point: Factors
    tangent: Factors
    end: Factors


def certified(geometry: Derived, name: str, exponential: Exponential, sizes: Mapping[str, int] | None) -> Attached:
    """The closed form, where it is the geodesic; see ``Derived.attach``."""
    chosen = admitted_sizes(geometry) if sizes is None else dict(sizes)
    worst, control, count = 0.0, float("inf"), 0
    for draw in _draws(geometry, chosen):
        residual = _residual(geometry, name, exponential, draw, 1.0)
        if not residual <= TOLERANCE:
            raise CertificateError(
                f"{geometry.name}: the closed form {name!r} is not the geodesic: it ends at a relative distance of "
                f"{residual:.3g} (tolerance {TOLERANCE:g}) from where the generated acceleration leads, {draw.label}. "
                f"{_witness(geometry, draw)}"
            )
        worst, count = max(worst, residual), count + 1
        control = min(control, _residual(geometry, name, exponential, draw, _CONTROL))
    if count == 0 or control <= TOLERANCE:
        what = "no geodesic could be integrated" if count == 0 else "a velocity that is wrong by 1 % passes as well"
        raise CertificateError(f"{geometry.name}: the closed form {name!r} cannot be judged at sizes {chosen}: {what}")
    return Attached(name, exponential, worst, control, TOLERANCE, count, chosen)


def admitted_sizes(geometry: Derived) -> dict[str, int]:
    """The first small sizes at which everything generated is finite at a random point.

    Raises:
        CertificateError: there are none.
    """
    for sizes in candidate_sizes(geometry.factors):
        shapes = numeric_shapes(geometry.factors, sizes, geometry.name)
        generator = torch.Generator().manual_seed(0)
        point, tangent = random_factors(shapes, generator=generator), random_tangent(shapes, generator=generator)
        try:
            found = [
                geometry.inner(point, tangent),
                *geometry.project(point, tangent),
                *geometry.gradient(point, tangent),
                *geometry.acceleration(point, tangent),
            ]
        except (RuntimeError, NonFiniteError):  # shapes that do not multiply, or a projection that does not converge
            continue
        if all(bool(value.isfinite().all()) for value in found):
            return sizes
    raise CertificateError(
        f"{geometry.name}: the geometry is not finite at random points of the sizes {candidate_sizes(geometry.factors)}: "
        "pass sizes"
    )


def _draws(geometry: Derived, sizes: Mapping[str, int]) -> Iterator[_Draw]:
    generator = torch.Generator().manual_seed(0)
    shapes = numeric_shapes(geometry.factors, sizes, geometry.name)
    for batch in BATCHES:
        for length in LENGTHS:
            for horizontal in (False, True):
                point = random_factors(shapes, batch, generator=generator)
                tangent = random_tangent(shapes, batch, generator=generator)
                tangent = geometry.project(point, tangent) if horizontal else tangent
                wanted = length * geometry.norm(point, point)
                scale = (wanted / geometry.norm(point, tangent))[..., None, None]
                tangent = tuple(scale * t for t in tangent)
                try:
                    end, _ = geometry.velocity(point, tangent, tolerance=_SETTLED)
                except (GeodesicCollapseError, GeodesicAccuracyError):
                    continue  # a metric that is not complete, along a tangent that is too long
                kind = "horizontal" if horizontal else "not horizontal"
                label = f"at sizes {dict(sizes)}, batch {batch}, along a tangent of {length:g} of the point's length ({kind})"
                yield _Draw(label, point, tangent, end)


def _residual(geometry: Derived, name: str, exponential: Exponential, draw: _Draw, factor: float) -> float:
    """Largest distance of end points in the metric, relative to the tangent's length."""
    tangent = tuple(factor * t for t in draw.tangent)
    try:
        found = tuple(exponential(*draw.point, *tangent))
    except Exception as error:
        raise CertificateError(
            f"{geometry.name}: the closed form {name!r} fails {draw.label}: {type(error).__name__}: {first_line(error)}"
        ) from error
    shapes, wanted = [getattr(f, "shape", None) for f in found], [e.shape for e in draw.end]
    if shapes != wanted:
        raise CertificateError(
            f"{geometry.name}: the closed form {name!r} returns factors of shapes {[s and tuple(s) for s in shapes]} "
            f"{draw.label}, wanted {[tuple(s) for s in wanted]}"
        )
    distance = geometry.norm(draw.end, tuple(a - b for a, b in zip(found, draw.end, strict=True)))
    return float(ratio(distance, geometry.norm(draw.point, draw.tangent)).max())


def _witness(geometry: Derived, draw: _Draw) -> str:
    """The first member of the batch, written out."""
    names = [*geometry.factors, *(f"xi_{name}" for name in geometry.factors)]
    first = [t.reshape(-1, *t.shape[-2:])[0].tolist() for t in (*draw.point, *draw.tangent)]
    return "First of the batch: " + "; ".join(
        f"{name} = {[[round(entry, 6) for entry in row] for row in rows]}"
        for name, rows in zip(names, first, strict=True)
    )
