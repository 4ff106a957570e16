"""The arguments of one ``sharpness`` call, checked before any work is done."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, get_args

from quotientgeo.errors import ArgumentError
from quotientgeo.geometry.pair import GeodesicName, MetricName
from quotientgeo.measures.ascent import Settings
from quotientgeo.model.geometries import Geometry, require_geometry
from quotientgeo.model.graph import SYMMETRIES, SymmetriesName

MEASURES = ("geodesic", "adaptive", "euclidean")
METRICS = get_args(MetricName)
GEODESICS = get_args(GeodesicName)
LARGEST_RHO = 1e18  # its square still fits a float32
UNVERIFIED = ("refuse", "exclude")
_PLAIN = ("invariant", "exact", "attention")  # defaults of metric, geodesic, symmetries


@dataclass(frozen=True)
class Call:
    """What was asked for. ``metric``, ``geodesic`` and ``symmetries`` only mean something where blocks are used."""

    measure: str
    metric: MetricName | Geometry
    geodesic: GeodesicName
    symmetries: SymmetriesName
    unverified: str
    micro_batch_size: int | None
    allow_training_mode: bool
    settings: Settings

    def __post_init__(self) -> None:
        _one_of("measure", self.measure, MEASURES)
        if hasattr(self.metric, "certificate"):
            require_geometry(self.metric, "metric")
        else:
            _one_of("metric", self.metric, METRICS)
        _one_of("geodesic", self.geodesic, GEODESICS)
        _one_of("symmetries", self.symmetries, SYMMETRIES)
        _one_of("unverified", self.unverified, UNVERIFIED)
        rho = self.settings.rho
        if not (isinstance(rho, Real) and not isinstance(rho, bool) and math.isfinite(rho) and 0 < rho < LARGEST_RHO):
            raise ArgumentError(
                f"rho must be a number > 0 and < {LARGEST_RHO:g}, got {rho!r}: it is the radius of the ball that is searched"
            )
        object.__setattr__(self, "settings", replace(self.settings, rho=float(rho)))
        _whole("steps", self.settings.steps, least=1)
        _whole("starts", self.settings.starts, least=1)
        _whole("seed", self.settings.seed, least=0)
        if self.micro_batch_size is not None:
            _whole("micro_batch_size", self.micro_batch_size, least=1)

    @property
    def metric_name(self) -> str:
        return self.metric if isinstance(self.metric, str) else self.metric.name

    @property
    def uses_blocks(self) -> bool:
        return self.measure == "geodesic" and self.symmetries != "none"

    def without_effect(self) -> list[str]:
        """A note for each argument that was given another value than its default, and changes nothing here."""
        if self.uses_blocks:
            return []
        given: dict[str, Any] = {"metric": self.metric_name, "geodesic": self.geodesic}
        why = "symmetries='none' declares no block"
        if self.measure != "geodesic":
            given |= {"symmetries": self.symmetries}
            why = f"measure={self.measure!r} divides nothing out"
        changed = [f"{name}={value!r}" for name, value in given.items() if value not in (*_PLAIN, "none")]
        return [f"without effect: {', '.join(changed)}; {why}"] if changed else []


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if not any(type(value) is type(choice) and value == choice for choice in allowed):
        raise ArgumentError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")


def _whole(name: str, value: Any, least: int) -> None:
    if type(value) is not int or value < least:
        raise ArgumentError(f"{name} must be an int >= {least}, got {value!r} of type {type(value).__name__}")
