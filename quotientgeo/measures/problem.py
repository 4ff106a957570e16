"""What a measure needs to know before the first step: the point it starts from, its charts, and what it leaves out.

``build`` turns a model into a ``Problem`` once; ``Problem.atlas`` then gives the charts for one batch, whose embedding rows
and unused tensors may differ from the next one's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from quotientgeo.errors import LossError
from quotientgeo.measures.charts import Atlas, BlockChart, ElementwiseChart, Parameters, Stretch
from quotientgeo.measures.objective import REENTRANT, Objective
from quotientgeo.measures.tables import Reads, Table
from quotientgeo.model.inventory import inventory, untied_embeddings
from quotientgeo.model.structure import in_dtype

_SAME = 1e-12  # relative; the same rows go through the same operations, so the loss is the same number


@dataclass(frozen=True)
class Problem:
    """A point, and the ways to move from it.

    base: every parameter at the starting point, in the dtype of the ascent. free: the tensors of the rest, each with a mask of
    the entries that move on straight lines (None: all of them). scale: of such a tensor w, the factors of these lines, |w| or 1.
    """

    base: Parameters
    free: Mapping[str, Tensor | None]
    scale: Callable[[Tensor], Tensor]
    blocks: tuple[BlockChart, ...] = ()
    frozen: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def atlas(self, seen: Observation) -> Atlas:
        """Charts for one batch: tensors that its loss does not use have no coordinates, embedding tables only the rows that
        it reads."""
        moving = [name for name in self.free if name not in seen.unused]
        stretches = tuple(self._stretch(name, seen.rows.get(name)) for name in moving)
        return Atlas((*self.blocks, ElementwiseChart(stretches)), self.base)

    def _stretch(self, name: str, rows: Tensor | None) -> Stretch:
        """Made for each batch: factors for a whole vocabulary would be kept for the few rows that a batch reads."""
        w, mask = self.base[name], self.free[name]
        scale = self.scale(w if rows is None else w[rows])
        if mask is not None:
            scale = scale * (mask if rows is None else mask[rows])
        return Stretch(name, scale, rows)

    def with_blocks(self, charts: Sequence[BlockChart]) -> Problem:
        """The same problem with other integrator settings in the charts of its blocks."""
        return replace(self, blocks=tuple(charts))


@dataclass(frozen=True)
class Observation:
    """One pass at the model's own weights: the loss, what the loss does not use, the embedding rows that it reads."""

    loss: Tensor
    unused: frozenset[str]
    rows: dict[str, Tensor]
    tables: Mapping[str, Table] = field(default_factory=dict)


def working_dtype(model: nn.Module) -> tuple[torch.dtype, str | None]:
    """float64 if a parameter is float64, else float32; and a note where weights of a narrower dtype are raised to it."""
    found = {p.dtype for p in model.parameters() if p.is_floating_point()}
    dtype = torch.float64 if torch.float64 in found else torch.float32
    narrower = sorted(str(other).removeprefix("torch.") for other in found - {dtype})
    if not narrower:
        return dtype, None
    why = "they cannot hold the displacement" if dtype == torch.float32 else "other weights of the model are float64"
    return dtype, f"{', '.join(narrower)} weights were raised to {str(dtype).removeprefix('torch.')}, since {why}"


def raised(tensors: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Floating tensors in ``dtype``; the others as they are."""
    return {name: in_dtype(tensor.detach(), dtype) for name, tensor in tensors.items()}


def observe(objective: Objective, model: nn.Module, parameters: Parameters) -> Observation:
    """Loss and gradient at the given parameters, watching the embedding tables that only nn.Embedding reads."""
    embeddings = untied_embeddings(model)
    reads = Reads(embeddings)
    try:
        with warnings.catch_warnings():
            # reentrant checkpoints of inputs without gradient: their parameters would seem to be unused
            warnings.filterwarnings("error", message="None of the inputs have requires_grad")
            with objective.watched(reads):
                loss, gradient = objective.value_and_gradient(parameters)
            objective.require_separable(parameters)
    except UserWarning as warning:
        if "None of the inputs have requires_grad" not in str(warning):
            raise
        raise LossError(REENTRANT) from warning
    rows = {}
    for name, ids in reads.rows.items():
        touched, g = torch.unique(torch.cat(ids)), gradient.get(name)
        # a table that is also used otherwise may have gradient elsewhere: it keeps all its coordinates
        if g is not None and name not in reads.around and _zero_outside(g, touched):
            rows[name] = touched
    unused = frozenset(name for name, g in gradient.items() if g is None)
    made = {name: Table.of(embeddings[name], touched) for name, touched in rows.items()}
    tables = {name: table for name, table in made.items() if table is not None}
    return Observation(loss, unused, rows, tables if _hold(objective, parameters, tables, loss) else {})


def _hold(objective: Objective, parameters: Parameters, tables: Mapping[str, Table], loss: Tensor) -> bool:
    """Whether compact tables change nothing: a model that reads a weight around its embedding needs the whole of it."""
    if not tables:
        return False
    compact = {name: parameters[name][table.rows] for name, table in tables.items()}
    try:
        with objective.reading(tables):
            again = objective.value({**parameters, **compact})
    except Exception:  # an index or a shape that only the whole table has
        return False
    return bool((again - loss).abs() <= _SAME * loss.abs())


def _zero_outside(gradient: Tensor, rows: Tensor) -> bool:
    outside = torch.ones(gradient.shape[0], dtype=torch.bool, device=gradient.device)
    outside[rows] = False
    return not bool((gradient[outside] != 0).any())


def untrained(model: nn.Module) -> dict[str, str]:
    """Parameters that the user froze (memory held twice: under either name), and those that are no real numbers."""
    known = inventory(model)
    reasons = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            reasons[known.one_name[name]] = "requires_grad is False"
        if not p.is_floating_point():
            reasons[known.one_name[name]] = f"its entries are {str(p.dtype).removeprefix('torch.')}, not real numbers"
    return reasons


def elementwise(model: nn.Module, dtype: torch.dtype, scale: Callable[[Tensor], Tensor]) -> Problem:
    """Every trainable parameter on a straight line; no block, nothing folded."""
    base = raised(dict(inventory(model).parameters), dtype)
    left_out = untrained(model)
    return Problem(base, {name: None for name in base if name not in left_out}, scale, left_out=left_out)
