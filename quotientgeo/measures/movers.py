"""Charts in place: straight lines entry by entry, and horizontal geodesics of stacks of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quotientgeo.geometry.first_order import FirstOrder
from quotientgeo.measures.tables import Table
from quotientgeo.measures.workspace import Gradients, Parameters

if TYPE_CHECKING:
    from quotientgeo.measures.charts import BlockChart, PairChart, Stretch


class ElementwiseMover:
    """w + scale z into one buffer per parameter. Of an embedding table only the read rows are rewritten; one in ``tables``
    consists of these alone."""

    def __init__(self, stretches: Sequence[Stretch], base: Parameters, tables: Mapping[str, Table]) -> None:
        self._stretches = tuple(stretches)
        self.names = tuple(stretch.name for stretch in stretches)
        self._sizes = [stretch.scale.numel() for stretch in stretches]
        self._start: list[Tensor] = []  # w, on the rows that move
        self._rows: list[Tensor] = []  # where w + scale z is computed
        self._whole: list[Tensor] = []  # what the model gets
        self._places: list[Tensor | None] = []  # of the rows in the whole
        for stretch in stretches:
            w, table, places = base[stretch.name], tables.get(stretch.name), stretch.rows
            start = w if places is None else w[places]
            rows = torch.empty_like(start)
            whole = rows if places is None else w.clone() if table is None else w[table.rows]
            if table is not None and places is not None:
                places = table.places[places]
            self._start.append(start)
            self._rows.append(rows)
            self._whole.append(whole)
            self._places.append(places)

    def move(self, z: Tensor, parameters: Parameters) -> Parameters:
        moved = dict(parameters)
        pieces = z.split(self._sizes)
        parts = zip(self._stretches, pieces, self._start, self._rows, self._whole, self._places, strict=True)
        for stretch, piece, start, rows, whole, places in parts:
            torch.addcmul(start, stretch.scale, piece.view(start.shape), out=rows)
            if places is not None:
                whole.index_copy_(0, places, rows)
            moved[stretch.name] = whole
        return moved

    def pull(self, gradients: Gradients, out: Tensor) -> None:
        for stretch, piece, places in zip(self._stretches, out.split(self._sizes), self._places, strict=True):
            gradient = gradients.get(stretch.name)
            if gradient is None:
                piece.zero_()
            else:
                rows = gradient if places is None else gradient[places]
                torch.mul(rows, stretch.scale, out=piece.view(stretch.scale.shape))


class PairMover:
    """Exp of a stack of pair blocks, written into the parameters of all its heads without moving data where layouts allow."""

    def __init__(self, chart: PairChart) -> None:
        self._chart = chart
        self._exp = FirstOrder(chart.geometry)
        self.names = chart.stack.names

    def move(self, z: Tensor, parameters: Parameters) -> Parameters:
        return self._chart.stack.write(parameters, *self._exp.move(self._chart.stored(z)))

    def pull(self, gradients: Gradients, out: Tensor) -> None:
        found = self._chart.stack.read_gradient(gradients)
        if found is None:
            out.zero_()
        else:
            dG, dH = found
            self._exp.pull(dG, dH, self._chart.stored(out))


class DifferentiatedMover:
    """Any chart by automatic differentiation: for what the formulas by hand do not cover."""

    def __init__(self, chart: BlockChart) -> None:
        self._chart = chart
        self.names = chart.stack.names
        self._leaf: Tensor | None = None
        self._ends: Parameters = {}

    def move(self, z: Tensor, parameters: Parameters) -> Parameters:
        self._leaf = z.detach().clone().requires_grad_()
        with torch.enable_grad():
            moved = self._chart.write(self._leaf, parameters)
        self._ends = {name: moved[name] for name in self.names}
        return {name: tensor.detach() for name, tensor in moved.items()}

    def pull(self, gradients: Gradients, out: Tensor) -> None:
        seen = [(self._ends[name], g) for name, g in gradients.items() if name in self._ends and g is not None]
        leaf, self._leaf, self._ends = self._leaf, None, {}
        if not seen or leaf is None:
            out.zero_()
            return
        (dz,) = torch.autograd.grad([end for end, _ in seen], leaf, [g for _, g in seen])
        out.copy_(dz)
