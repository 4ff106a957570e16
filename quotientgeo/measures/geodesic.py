"""Geodesic sharpness: max over horizontal |xi|_w <= rho of L(Exp_w(xi)) - L(w) (da Silva, Dangel, Oore, ICML 2025, (4)).

Every verified block moves along horizontal geodesics of its quotient: a pair by formulas made for it, a declared block by those
generated for its geometry. Biases that a translation removes are folded or frozen first; everything else follows the adaptive
recipe.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import torch
from torch import Tensor, nn

from quotientgeo.geometry.gauge import rank_resolution
from quotientgeo.geometry.pair import GeodesicName, MetricName, PairGeometry
from quotientgeo.measures.charts import BlockChart, PairChart
from quotientgeo.measures.declared_chart import DeclaredChart
from quotientgeo.measures.matching import with_metric
from quotientgeo.measures.problem import Problem, raised, untrained
from quotientgeo.model.blocks import ShiftBlock
from quotientgeo.model.geometries import Geometry
from quotientgeo.model.graph import SymmetryGraph
from quotientgeo.model.stacks import PairStack
from quotientgeo.model.structure import in_dtype

NORM = "sqrt(sum over blocks of {metrics} + |xi / |w||_2^2 over the rest; a weight of exactly zero stays zero)"


def build(
    model: nn.Module,
    dtype: torch.dtype,
    graph: SymmetryGraph,
    *,
    metric: MetricName | Geometry,
    geodesic: GeodesicName,
    rho: float,
    excluded: Collection[str] = (),
) -> Problem:
    """Fold, move every block to its canonical gauge in float64, and put charts on blocks and rest.

    A block or shift named in ``excluded`` is treated as if it were not declared. A block of which the user froze only a part
    is no symmetry of what is trained, and a block of which all is frozen does not move: both are left out, and reported.
    """
    left_out = untrained(model)
    part, dropped = _usable(graph, left_out, excluded)
    stacks = with_metric(part.stacks(), metric, part.shapes, part.aliases)
    # only what a symmetry reads is worth the memory of float64; nothing is written into the rest, the model's own tensors
    read = {name for stack in stacks for name in stack.names}
    for shift in part.shifts:
        read |= _touched(shift) | {weight.tensor for weight, _ in shift.compensators}
    own = {name: in_dtype(w.detach(), torch.float64 if name in read else dtype) for name, w in graph.parameters.items()}
    float64 = part.canonicalise_shifts(own)
    charts: list[BlockChart] = []
    for stack in stacks:
        if isinstance(stack, PairStack):
            charts.append(_pair_chart(stack, float64, cast(MetricName, metric), geodesic, rho, dtype))
        else:
            charts.append(DeclaredChart.at(stack, float64, geodesic, rho, dtype))
    # what factors fill is written anew at every point: the model's own tensor holds its place
    filled = {name for stack in stacks for name in stack.names if bool(part.factor_mask(name).all())}
    base = raised({name: graph.parameters[name] if name in filled else w for name, w in float64.items()}, dtype)
    free: dict[str, Tensor | None] = {}
    for name, w in base.items():
        mask = part.rest_mask(name)
        if name not in left_out and w.is_floating_point() and bool(mask.any()):
            free[name] = None if bool(mask.all()) else mask.to(w.device)
    return Problem(base, free, torch.abs, tuple(charts), part.frozen_reasons(), left_out | dropped)


def _pair_chart(
    stack: PairStack,
    float64: dict[str, Tensor],
    metric: MetricName,
    geodesic: GeodesicName,
    rho: float,
    dtype: torch.dtype,
) -> PairChart:
    # the precision of the ascent decides what counts as rank, though frames are computed in float64
    tolerance = rank_resolution(stack.n, stack.m, torch.finfo(dtype).eps)
    G, H = stack.read(float64)
    names = [block.name for block in stack.blocks]
    exact = PairGeometry.at(G, H, metric=metric, geodesic=geodesic, rho=rho, rank_tolerance=tolerance, names=names)
    return PairChart(stack, exact.to(dtype))


def _usable(
    graph: SymmetryGraph, left_out: Collection[str], excluded: Collection[str]
) -> tuple[SymmetryGraph, dict[str, str]]:
    """The graph of the blocks and shifts that act on trained parameters only, and the reasons of the others.

    A shift of one vector without compensators has no effect on the function, trained or not; any other trades parameters.
    """
    dropped: dict[str, str] = {}
    kept = []
    for shift in graph.shifts:
        touched = _touched(shift)
        trades = bool(shift.compensators) or len(shift.legs) > 1
        if trades and touched & set(left_out):
            dropped[shift.name] = _untrained_reason(touched & set(left_out))
        else:
            kept.append(shift.name)
    names = [name for name in (*(block.name for block in graph.blocks), *kept) if name not in excluded]
    part = graph if len(names) == len(graph.blocks) + len(graph.shifts) else graph.restricted_to(names)
    for block in part.blocks:
        touched = {leg.tensor for _, leg in block.legs if leg.role == "factor"}
        if touched & set(left_out):
            dropped[block.name] = _untrained_reason(touched & set(left_out))
    usable = [name for name in names if name not in dropped]
    return part if len(usable) == len(names) else part.restricted_to(usable), dropped


def _touched(shift: ShiftBlock) -> set[str]:
    """The parameters that a translation changes."""
    return {leg.tensor for leg in shift.legs} | {bias for _, bias in shift.compensators}


def _untrained_reason(names: Collection[str]) -> str:
    return f"moves parameters that are not trained (requires_grad is False): {', '.join(sorted(names))}"
