"""The chart of blocks with a declared geometry."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from quotientgeo.measures.declared import BlockGeometry, GeodesicName, rescaled, search_probe
from quotientgeo.measures.movers import DifferentiatedMover
from quotientgeo.measures.tables import Table
from quotientgeo.measures.workspace import Mover, Parameters
from quotientgeo.model.fields import Fields
from quotientgeo.model.stacks import DeclaredStack

if TYPE_CHECKING:
    from quotientgeo.measures.charts import BlockChart


@dataclass(frozen=True)
class DeclaredChart:
    """All blocks of one declared geometry and one set of sizes: z (B D) in root coordinates, moved along horizontal geodesics."""

    stack: DeclaredStack
    geometry: BlockGeometry
    fields: Fields

    @classmethod
    def at(
        cls,
        stack: DeclaredStack,
        parameters: Mapping[str, Tensor],
        geodesic: GeodesicName,
        rho: float,
        dtype: torch.dtype,
    ) -> DeclaredChart:
        """The chart at ``parameters`` (float64), which computes in ``dtype``; with RK4 steps for a ball of radius ``rho``.

        Raises:
            RankDeficientError, ArgumentError: see ``metric_root``.
        """
        chart = cls(stack, BlockGeometry.at(stack, stack.read(parameters), geodesic), Fields.of(stack))
        if not chart.fields.any:
            return replace(chart, geometry=chart.geometry.to(dtype))
        probe = chart.random_direction(torch.Generator().manual_seed(0)).view(chart._shape)
        probe = search_probe(probe.to(chart.geometry.point[0]), rho)
        return replace(chart, geometry=chart.geometry.for_search(probe).to(dtype))

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.stack), self.geometry.entries

    @property
    def dimension(self) -> int:
        return self._shape[0] * self._shape[1]

    @property
    def steps(self) -> int | None:
        """Runge-Kutta steps, None for closed forms and polynomials."""
        return self.geometry.steps

    def write(self, z: Tensor, parameters: Parameters) -> Parameters:
        return self.stack.write(parameters, *self.geometry.end(z.view(self._shape)))

    def mover(self, base: Parameters, tables: Mapping[str, Table]) -> Mover:
        return DifferentiatedMover(self)

    def random_direction(self, generator: torch.Generator, gradient: Tensor | None = None) -> Tensor:
        """A random horizontal direction of length sqrt(dimension of the quotient) in every block, the same at every point of
        the orbit: the horizontal part of a Gaussian equivariant tangent (``Fields``).

        Where the geometry has no such tangents, a Gaussian multiple of the block's own part of ``gradient``, which moves with
        the point too; zero without one.
        """
        geometry = self.geometry
        if self.fields.any:
            xi = self.fields.draw(geometry.point, generator)
            z = geometry.horizontal(geometry.root.coordinates(xi))
            factor = torch.ones(len(self.stack), dtype=torch.float64)
        else:
            z = geometry.point[0].new_zeros(self._shape) if gradient is None else gradient.view(self._shape).double()
            factor = torch.randn(len(self.stack), generator=generator, dtype=torch.float64)
        lengths = (geometry.entries - geometry.orbit).clamp_min(0).double().sqrt().cpu() * factor
        return rescaled(z.cpu(), lengths).flatten()

    def shares(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        sums = (x.double() * y.double()).view(self._shape).sum(1)
        return dict(zip(self.geometry.names, sums, strict=True))

    def squared_norm(self, z: Tensor) -> Tensor:
        return self.geometry.squared_norm(z.view(self._shape)).sum()

    def require_regular(self, z: Tensor) -> None:
        """Raise GeodesicCollapseError where the geodesic along z runs out of the geometry's domain."""
        self.geometry.require_regular(z.view(self._shape))

    def settled(self, z: Tensor) -> DeclaredChart:
        """The same chart with as many integration steps as z needs; raises where none are enough."""
        return replace(self, geometry=self.geometry.settled(z.view(self._shape)))


def described(charts: Sequence[BlockChart]) -> dict[str, Any]:
    """What a result says of the declared geometries among its charts, by name: how many blocks they move, their certificate in
    one line, and a digest of the generated code, None where its text is not known."""
    found: dict[str, Any] = {}
    for chart in charts:
        if isinstance(chart, DeclaredChart):
            geometry, module = chart.stack.geometry, chart.stack.module
            source = "".join(linecache.getlines(getattr(module, "__file__", None) or ""))
            digest = hashlib.sha256(source.encode()).hexdigest() if source else None
            entry = found.setdefault(geometry.name, {"blocks": 0, "digest": digest})
            entry["blocks"] += len(chart.stack)
            entry["certificate"] = str(geometry.certificate.summary)
    return found
