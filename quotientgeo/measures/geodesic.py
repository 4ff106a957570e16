"""Geodesic sharpness: max over horizontal |xi|_w <= rho of L(Exp_w(xi)) - L(w) (da Silva, Dangel, Oore, ICML 2025, (4)).

Every verified pair block moves along horizontal geodesics of its quotient; biases that a translation removes are folded or
frozen first; everything else follows the adaptive recipe.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import torch
from torch import nn

from quotientgeo.errors import RankDeficientError
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.measures.charts import PairChart
from quotientgeo.measures.problem import Problem, raised, untrained
from quotientgeo.model.graph import SymmetryGraph

MetricName = Literal["invariant", "mixed"]
GeodesicName = Literal["exact", 1, 2, 3, 4]

NORM = (
    "sqrt(sum over blocks of the {metric} metric + |xi / |w||_2^2 over the rest; a weight of exactly zero stays zero)"
)


def build(
    model: nn.Module,
    dtype: torch.dtype,
    graph: SymmetryGraph,
    *,
    metric: MetricName,
    geodesic: GeodesicName,
    rho: float,
    excluded: Collection[str] = (),
) -> Problem:
    """Fold, move every block to its canonical gauge in float64, and put charts on blocks and rest.

    A block or shift named in ``excluded`` is treated as if it were not declared. A block of which the user froze only a part
    is no symmetry of what is trained, and a block of which all is frozen does not move: both are left out, and reported.
    """
    left_out = untrained(model)
    usable, dropped = _trainable(graph, left_out, excluded)
    part = graph.restricted_to(usable)
    float64 = part.canonicalise_shifts(raised(dict(model.named_parameters()), torch.float64))
    base = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in float64.items()}
    pairs = []
    for stack in part.stacks():
        G, H = stack.read(float64)
        try:
            exact = PairGeometry.at(G, H, metric=metric, geodesic=geodesic, rho=rho)
        except RankDeficientError as error:
            raise RankDeficientError(f"{', '.join(_named(error, stack.blocks))}: {error}") from error
        pairs.append(PairChart(stack, exact.to(dtype), exact))
    scale = {}
    for name, w in base.items():
        if name in left_out:
            continue
        free = part.rest_mask(name)
        if bool(free.any()):
            scale[name] = w.abs() * free.to(device=w.device, dtype=w.dtype)
    return Problem(base, scale, tuple(pairs), frozen=part.frozen_reasons(), left_out=left_out | dropped)
