"""The package's answer to an oracle case: its blocks declared to the package, and its coordinates as oracle tangents."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.geometry.coordinates import Horizontal
from quotientgeo.measures import geodesic
from quotientgeo.measures.ascent import BatchAscent
from quotientgeo.measures.charts import ElementwiseChart, PairChart
from quotientgeo.measures.objective import Objective
from quotientgeo.measures.problem import raised
from tests.oracle.blocks import Blocks, View
from tests.oracle.measure import Tangent
from tests.oracle.models import Case


def leg(view: View, role: str = "factor") -> qg.Leg:
    return qg.Leg(view.tensor, view.axis, view.indices, role=role)


def declared(model: nn.Module, blocks: Blocks) -> qg.SymmetryGraph:
    """The oracle's description of a model, told to the package as a user would."""
    graph = qg.SymmetryGraph(model)
    for pair in blocks.pairs:
        sides = [
            (*(leg(view) for view in rows), *(leg(view, "carried") for view in carried))
            for rows, carried in ((pair.G, pair.carried_G), (pair.H, pair.carried_H))
        ]
        size = len(pair.G[0].indices)
        graph.add(qg.PairBlock(pair.name, qg.GL(size), *sides, kind=pair.kind, layer=pair.layer, head=pair.head))
    for shift in blocks.shifts:
        compensators = () if shift.compensator is None else ((leg(shift.compensator[0]), shift.compensator[1]),)
        graph.add(qg.ShiftBlock(shift.name, (leg(shift.bias),), compensators, kind=shift.kind))
    return graph


@dataclass(frozen=True)
class Problem:
    """One case in the package's coordinates."""

    case: Case
    ascent: BatchAscent

    @classmethod
    def of(cls, case: Case, metric: str, rho: float) -> Problem:
        model = case.module()
        problem = geodesic.build(
            model, torch.float64, declared(model, case.blocks()), metric=metric, geodesic="exact", rho=rho
        )
        parameters = raised(dict(model.named_parameters()), torch.float64)
        objective = Objective(model, case.loss, case.batch())
        return cls(case, BatchAscent(problem, objective, model, parameters))

    def tangent(self, z: Tensor) -> Tangent:
        """z as a tangent at the original point and gauge."""
        found = Tangent()
        for chart, piece in zip(self.ascent.atlas.charts, self.ascent.atlas.pieces(z), strict=True):
            if isinstance(chart, PairChart):
                xi_G, xi_H = chart.geometry.displacement(chart.unflatten(piece))
                for i, block in enumerate(chart.stack.blocks):
                    found.pairs[block.name] = (xi_G[i], xi_H[i])
            else:
                found.rest.update(self._rest(chart, piece))
        return found

    def _rest(self, chart: ElementwiseChart, piece: Tensor) -> dict[str, Tensor]:
        rest = {}
        for stretch, values in zip(chart.stretches, chart._pieces(piece), strict=True):
            z = torch.where(stretch.scale != 0, values.view(stretch.scale.shape), 0.0)
            if stretch.rows is not None:
                whole = torch.zeros_like(self.ascent.atlas.base[stretch.name])
                z = whole.index_copy(0, stretch.rows, z)
            rest[stretch.name] = z
        return rest

    def coordinates(self, tangent: Tangent) -> Tensor:
        """The inverse: a horizontal tangent as z."""
        pieces = []
        for chart in self.ascent.atlas.charts:
            if isinstance(chart, PairChart):
                sides = [torch.stack([tangent.pairs[b.name][k] for b in chart.stack.blocks]) for k in (0, 1)]
                z: Horizontal = chart.geometry.coordinates(*sides)
                pieces.append(chart.flatten(z))
            else:
                for stretch in chart.stretches:
                    value = tangent.rest.get(stretch.name, torch.zeros_like(self.ascent.atlas.base[stretch.name]))
                    pieces.append((value if stretch.rows is None else value[stretch.rows]).flatten())
        return torch.cat(pieces)
