"""Charts: a flat coordinate vector z, whose Euclidean norm is the measure's norm, to parameter tensors.

A chart owns some entries of the parameters and a stretch of z. ``Atlas`` joins charts: one z for the whole model, the ball
|z| <= rho for all of them together, and an account of who used how much of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from quotientgeo.geometry.coordinates import Horizontal, draw_start
from quotientgeo.geometry.first_order import FirstOrder, Stored
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.measures.movers import DifferentiatedMover, ElementwiseMover, PairMover
from quotientgeo.measures.tables import Table
from quotientgeo.measures.workspace import Mover, Parameters, Workspace
from quotientgeo.model.stacks import FactorStack, PairStack


class Chart(Protocol):
    """One way to move some of the parameters."""

    @property
    def dimension(self) -> int:
        """Length of this chart's stretch of z."""

    def write(self, z: Tensor, parameters: Parameters) -> Parameters:
        """New tensors for the names this chart moves; nothing is changed in place. Differentiable in z."""

    def mover(self, base: Parameters, tables: Mapping[str, Table]) -> Mover:
        """The same map in place, with its pullback; an embedding in ``tables`` is handed on as its read rows alone."""

    def random_direction(self, generator: torch.Generator, gradient: Tensor | None = None) -> Tensor:
        """A Gaussian direction in the chart's tangent space, independent of the gauge, on the CPU in float64; isotropic where
        that can be. ``gradient`` (d,) is that at z = 0, for charts that know no other direction."""

    def shares(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Sum of x y, float64, over the coordinates of each block or tensor, by its name; x and y of shape (d,)."""

    def squared_norm(self, z: Tensor) -> Tensor:
        """|xi|^2 of the displacement that z stands for, by the metric's own formula in float64, not by |z|^2."""


class BlockChart(Chart, Protocol):
    """A chart of a stack of blocks, moved along geodesics."""

    @property
    def stack(self) -> FactorStack: ...

    @property
    def steps(self) -> int | None:
        """Runge-Kutta steps of its geodesics, None where nothing is integrated."""

    def require_regular(self, z: Tensor) -> None:
        """Raise GeodesicCollapseError where the geodesic along z runs out of the domain of the geometry."""

    def settled(self, z: Tensor) -> BlockChart:
        """The same chart with as many steps as its geodesic along z needs.

        Raises:
            GeodesicAccuracyError, GeodesicCollapseError: there is no such number.
        """


@dataclass(frozen=True)
class PairChart:
    """All pair blocks of one shape: z = (c, N_G, N_H) in the canonical frames, moved along horizontal geodesics."""

    stack: PairStack
    geometry: PairGeometry  # computes in the dtype of the ascent; norms, draws and diagnostics are float64 in any

    @property
    def _shapes(self) -> tuple[torch.Size, torch.Size, torch.Size]:
        """Of c, N_G' and N_H', as stored."""
        F_G, F_H, s = self.geometry.frames.F_G, self.geometry.frames.F_H, self.geometry.frames.s
        return torch.Size((*s.shape, s.shape[-1])), F_G.mT.shape, F_H.mT.shape

    @property
    def dimension(self) -> int:
        return sum(shape.numel() for shape in self._shapes)

    def stored(self, z: Tensor) -> Stored:
        """Views c (B, h, h), N_G' (B, h, n), N_H' (B, h, m) of this chart's stretch of z."""
        parts = z.split([shape.numel() for shape in self._shapes])
        return Stored(*(part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)))

    def unflatten(self, z: Tensor) -> Horizontal:
        c, N_G, N_H = self.stored(z)
        return Horizontal(c, N_G.mT, N_H.mT)

    def flatten(self, z: Horizontal) -> Tensor:
        """The inverse of ``unflatten``."""
        return torch.cat([part.flatten() for part in (z.c, z.N_G.mT, z.N_H.mT)])

    def write(self, z: Tensor, parameters: Parameters) -> Parameters:
        return self.stack.write(parameters, *self.geometry.exp(self.unflatten(z)))

    def mover(self, base: Parameters, tables: Mapping[str, Table]) -> Mover:
        return PairMover(self) if FirstOrder.suits(self.geometry) else DifferentiatedMover(self)

    def random_direction(self, generator: torch.Generator, gradient: Tensor | None = None) -> Tensor:
        return self.flatten(draw_start(self.geometry.frames, generator)).cpu()

    def shares(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        parts = zip(self.stored(x), self.stored(y), strict=True)
        c, N_G, N_H = ((a.double() * b.double()).sum((-2, -1)) for a, b in parts)
        return dict(zip((block.name for block in self.stack.blocks), c + N_G + N_H, strict=True))

    def squared_norm(self, z: Tensor) -> Tensor:
        return self.geometry.squared_norm(self.unflatten(z.double())).sum()

    @property
    def steps(self) -> int | None:
        return self.geometry.steps

    @property
    def _names(self) -> list[str]:
        return [block.name for block in self.stack.blocks]

    def require_regular(self, z: Tensor) -> None:
        self.geometry.require_regular(self.unflatten(z.double()), self._names)

    def settled(self, z: Tensor) -> PairChart:
        at = self.unflatten(z.double())
        self.geometry.require_regular(at, self._names)
        return replace(self, geometry=self.geometry.with_steps(self.geometry.settled_steps(at, self._names)))


@dataclass(frozen=True)
class Stretch:
    """One parameter tensor in an elementwise chart: w + scale z, on some of its rows only where ``rows`` is given."""

    name: str
    scale: Tensor
    rows: Tensor | None = None


@dataclass(frozen=True)
class ElementwiseChart:
    """w + scale * z on a straight line, entry by entry.

    scale = |w| is the adaptive recipe (norm |xi/|w||_2, a weight of exactly zero stays zero), scale = 1 the Euclidean one;
    scale = 0 leaves an entry to another chart or frozen. Entries with scale 0 have no coordinate: their z is never moved.
    """

    stretches: tuple[Stretch, ...]
    dimension: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", sum(stretch.scale.numel() for stretch in self.stretches))

    def _pieces(self, z: Tensor) -> Sequence[Tensor]:
        return z.split([stretch.scale.numel() for stretch in self.stretches])

    def write(self, z: Tensor, parameters: Parameters) -> Parameters:
        moved = {}
        for stretch, piece in zip(self.stretches, self._pieces(z), strict=True):
            step, base = stretch.scale * piece.view(stretch.scale.shape), parameters[stretch.name]
            moved[stretch.name] = base + step if stretch.rows is None else base.index_add(0, stretch.rows, step)
        return moved

    def mover(self, base: Parameters, tables: Mapping[str, Table]) -> Mover:
        return ElementwiseMover(self.stretches, base, tables)

    def random_direction(self, generator: torch.Generator, gradient: Tensor | None = None) -> Tensor:
        parts = []
        for stretch in self.stretches:
            draw = torch.randn(stretch.scale.shape, generator=generator, dtype=torch.float64)
            parts.append((draw * (stretch.scale.cpu() != 0)).flatten())
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)

    def shares(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        parts = zip(self.stretches, self._pieces(x), self._pieces(y), strict=True)
        return {stretch.name: (a.double() * b.double()).sum() for stretch, a, b in parts}

    def squared_norm(self, z: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64, device=z.device)
        for stretch, piece in zip(self.stretches, self._pieces(z), strict=True):
            scale = stretch.scale.double().flatten()
            displacement = scale * piece.double()
            total = (
                total + torch.where(scale != 0, displacement / torch.where(scale != 0, scale, 1.0), 0.0).square().sum()
            )
        return total


@dataclass(frozen=True)
class Atlas:
    """Charts joined over one flat z. ``base`` holds the parameters that the charts move, in the dtype of the ascent."""

    charts: tuple[Chart, ...]
    base: Parameters

    @property
    def dimension(self) -> int:
        return sum(chart.dimension for chart in self.charts)

    @property
    def _like(self) -> Tensor:
        """A tensor of the dtype and on the device of the ascent."""
        return next(tensor for tensor in self.base.values() if tensor.is_floating_point())

    @property
    def dtype(self) -> torch.dtype:
        return self._like.dtype

    def pieces(self, z: Tensor) -> Sequence[Tensor]:
        return z.split([chart.dimension for chart in self.charts])

    def parameters(self, z: Tensor) -> Parameters:
        """Every parameter of the model at the point z; chart by chart, so that two charts may own parts of one tensor."""
        current = dict(self.base)
        for chart, piece in zip(self.charts, self.pieces(z), strict=True):
            current.update(chart.write(piece, current))
        return current

    def workspace(self, tables: Mapping[str, Table] | None = None) -> Workspace:
        """The map of ``parameters`` in place, for first-order work; embeddings in ``tables`` consist of their read rows alone.

        Elementwise charts come first in it: charts of blocks then write their own entries over what those copied.
        """
        order = sorted(range(len(self.charts)), key=lambda i: not isinstance(self.charts[i], ElementwiseChart))
        movers = [self.charts[i].mover(self.base, tables or {}) for i in range(len(self.charts))]
        return Workspace(movers, [chart.dimension for chart in self.charts], self.base, order)

    def zero(self) -> Tensor:
        return torch.zeros(self.dimension, dtype=self._like.dtype, device=self._like.device)

    def random_point(self, generator: torch.Generator, radius: float, gradient: Tensor | None = None) -> Tensor:
        """A point on the sphere |z| = radius in a random direction that does not depend on the gauge; ``gradient`` (d,) at
        z = 0 helps charts that know no other."""
        own = [None] * len(self.charts) if gradient is None else self.pieces(gradient)
        parts = zip(self.charts, own, strict=True)
        direction = torch.cat([chart.random_direction(generator, piece) for chart, piece in parts])
        length = torch.linalg.vector_norm(direction).clamp_min(torch.finfo(torch.float64).tiny)
        return (direction * (radius / length)).to(device=self._like.device, dtype=self._like.dtype)

    def shares(self, x: Tensor, y: Tensor) -> dict[str, float]:
        """Sums of x y by block and tensor; float64."""
        sums: dict[str, float] = {}
        for chart, a, b in zip(self.charts, self.pieces(x), self.pieces(y), strict=True):
            for name, total in chart.shares(a, b).items():
                sums[name] = sums.get(name, 0.0) + float(total)
        return sums

    def achieved_norm(self, z: Tensor) -> float:
        """|xi|_w at the original point, by the metrics' own formulas."""
        total = sum(
            (chart.squared_norm(piece) for chart, piece in zip(self.charts, self.pieces(z), strict=True)),
            torch.zeros(()),
        )
        return float(total) ** 0.5
