"""The distance of two models modulo their symmetries.

Among the measures, since it needs the numbers of ``geometry`` and the blocks of ``model``, which do not know each other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Real

import torch
from torch import Tensor, nn

from quotientgeo.errors import ArgumentError, NonFiniteError, RankDeficientError, some_of
from quotientgeo.geometry.distances import Distance, quotient_distance
from quotientgeo.geometry.gauge import Frames, canonical_frames, rank_resolution
from quotientgeo.geometry.pair import MetricName, require_declared
from quotientgeo.measures.problem import raised
from quotientgeo.measures.result import plain
from quotientgeo.model.graph import SymmetriesName, SymmetryGraph, symmetry_graph
from quotientgeo.model.inventory import inventory
from quotientgeo.model.stacks import PairStack

SCHEMA = 1
TOLERANCE = 1e-9  # of a geodesic's end point; what is left of it is in the upper bound, to first order
_NAMED = 4


@dataclass(frozen=True)
class BlockDistance:
    """One block: ``lower`` <= d <= ``upper``, in the metric's unit.

    outcome: "geodesic": a connecting geodesic was found (or h = 1, a closed form), and the upper bound is its length, with the
    gap at its end accounted for to first order;
    "path": none was, or none that is shorter than an explicit path, whose length is then the upper bound; "apart": the two orbits
    are not connected, both bounds are infinite; "rank_deficient": in one of the models (``detail``) the block has lost rank,
    there is no distance, and the bounds are 0 and infinity.
    """

    lower: float
    upper: float
    outcome: str
    detail: str = ""

    @property
    def converged(self) -> bool:
        return self.outcome == "geodesic"


@dataclass(frozen=True)
class DistanceResult:
    """What ``quotientgeo.distance`` returns.

    lower, upper: bounds of the distance of all blocks together, roots of the sums of squares over ``per_block``. rest: Euclidean
    distance of the entries that no block covers, after translations were brought to their canonical form (b_V folded into b_O,
    b_K dropped); it has another unit, so it is not part of the total. not_converged: names of the blocks whose upper bound is
    no geodesic.
    """

    lower: float
    upper: float
    rest: float
    per_block: dict[str, BlockDistance]
    metric: str
    symmetries: str
    uncovered: list[str] = field(default_factory=list)

    @property
    def not_converged(self) -> list[str]:
        return [name for name, block in self.per_block.items() if not block.converged]

    @property
    def converged(self) -> bool:
        return not self.not_converged

    def to_json(self, indent: int | None = None) -> str:
        """Strict JSON: an infinite bound becomes null."""
        record = {"schema": SCHEMA, **asdict(self), "converged": self.converged, "not_converged": self.not_converged}
        return json.dumps(plain(record), indent=indent, sort_keys=True, allow_nan=False)

    def __str__(self) -> str:
        told = f"{self.metric} distance of {len(self.per_block)} blocks: between {self.lower:.6g} and {self.upper:.6g}"
        lines = [told, f"Euclidean distance of the rest: {self.rest:.6g}"]
        reasons: dict[str, list[str]] = {}
        for name in self.not_converged:
            reasons.setdefault(self.per_block[name].outcome, []).append(name)
        told_of = {
            "path": "upper bound is an explicit path, not a geodesic",
            "apart": "not connected: infinitely far",
            "rank_deficient": "rank lost, so no distance (bounds 0 and infinity)",
        }
        lines += [f"{told_of[outcome]}: {some_of(names, _NAMED)}" for outcome, names in reasons.items()]
        if self.uncovered:
            lines.append(f"attention that no rule describes, in the rest: {some_of(self.uncovered, _NAMED)}")
        return "\n".join(lines)


@torch.no_grad()
def distance(
    model_a: nn.Module,
    model_b: nn.Module,
    metric: MetricName = "invariant",
    symmetries: SymmetriesName = "attention",
    *,
    graph: SymmetryGraph | None = None,
    tolerance: float = TOLERANCE,
) -> DistanceResult:
    """Distance of two models of one structure modulo the symmetries of their blocks, between bounds.

    Every block is a pair (G, H) modulo GL(h), and its distance that of two orbits in the quotient by that group, with the metric
    "invariant" or "mixed". No model is changed; all is computed in float64.

    lower^2 of a block: 1/2 |log s_1 - log s_2|^2 + the squared principal angles of the column spaces of G and of H (invariant);
    |W_1 - W_2|_F^2 / 2 for W = G H' (mixed). upper: the length of the shortest path that was found (``BlockDistance``). Blocks of
    h = 1 are exact. Models on one orbit have lower = 0 and upper about rounding: for every block eps h s_1/s_h (invariant).

    graph: the blocks to use, of ``model_a`` (default: ``symmetry_graph(model_a, symmetries)``). Heads are compared in their
    order: a permutation of heads is no block's symmetry. tolerance: of a geodesic's end point, relative to |W|_F (mixed).

    Raises:
        ArgumentError: the models differ in structure (the first difference is named), or an argument is no model, no metric or no
            tolerance.
        NonFiniteError: a parameter, which is named, holds NaN or infinity.
        UnknownArchitectureError: no rule describes the blocks; give a graph.
    """
    require_declared(metric, "exact")
    for name, model in (("model_a", model_a), ("model_b", model_b)):
        if not isinstance(model, nn.Module):
            raise ArgumentError(f"{name} must be a torch.nn.Module, got a {type(model).__name__}")
        for parameter, p in model.named_parameters():
            if not bool(p.isfinite().all()):
                raise NonFiniteError(f"{name}: the parameter {parameter!r} holds NaN or infinity")
    if isinstance(tolerance, bool) or not isinstance(tolerance, Real) or not 0.0 < tolerance < 1.0:
        raise ArgumentError(f"tolerance must be a number between 0 and 1, got {tolerance!r}")
    _require_one_structure(model_a, model_b)
    if graph is None:
        graph, used = symmetry_graph(model_a, symmetries), str(symmetries)
    elif graph.model is model_a:
        used = "those of the given graph"
    else:
        raise ArgumentError("graph must be a graph of model_a: its block names and views are looked up there")
    points = [graph.canonicalise_shifts(_parameters(model, graph)) for model in (model_a, model_b)]
    per_block: dict[str, BlockDistance] = {}
    for stack in _pair_stacks(graph):
        per_block |= _of_stack(stack, points, metric, tolerance, _resolution(stack, graph.model, model_b))
    blocks = {block.name: per_block[block.name] for block in graph.blocks}
    lower, upper = (math.hypot(*(getattr(block, side) for block in blocks.values())) for side in ("lower", "upper"))
    return DistanceResult(lower, upper, _rest(graph, *points), blocks, metric, used, list(graph.uncovered))


def _parameters(model: nn.Module, graph: SymmetryGraph) -> dict[str, Tensor]:
    """The parameters under the names of the graph, float64 and on one device."""
    named = dict(model.named_parameters(remove_duplicate=False))
    device = next(iter(graph.parameters.values())).device if graph.parameters else None
    return {name: p.to(device) for name, p in raised({n: named[n] for n in graph.parameters}, torch.float64).items()}


def _require_one_structure(model_a: nn.Module, model_b: nn.Module) -> None:
    """The same parameters with the same shapes, tied in the same way."""
    first = dict(model_a.named_parameters(remove_duplicate=False))
    second = dict(model_b.named_parameters(remove_duplicate=False))
    for name, p in first.items():
        if name not in second:
            raise ArgumentError(f"the models differ in structure: model_b has no parameter {name!r}")
        if second[name].shape != p.shape:
            raise ArgumentError(
                f"the models differ in structure: {name!r} has shape {tuple(p.shape)} in model_a and "
                f"{tuple(second[name].shape)} in model_b"
            )
    for name in second:
        if name not in first:
            raise ArgumentError(f"the models differ in structure: model_a has no parameter {name!r}")
    names = inventory(model_b).one_name
    for name, one in inventory(model_a).one_name.items():
        if names[name] != one:
            tied, model = (name, "model_a") if one != name else (name, "model_b")
            raise ArgumentError(
                f"the models differ in structure: {tied!r} is tied to another parameter in {model} only"
            )
    heads = [getattr(getattr(model, "config", None), "num_attention_heads", None) for model in (model_a, model_b)]
    if heads[0] != heads[1]:
        raise ArgumentError(
            f"the models differ in structure: {heads[0]} attention heads in model_a, {heads[1]} in model_b"
        )


def _resolution(stack: PairStack, *models: nn.Module) -> float:
    """s_h / s_1 at or below which the stored weights cannot tell a rank; half types have few digits, but theirs are exact."""
    stored = [dict(model.named_parameters(remove_duplicate=False)) for model in models]
    dtypes = {weights[name].dtype for weights in stored for name in stack.names}
    eps = torch.finfo(torch.float64 if dtypes == {torch.float64} else torch.float32).eps
    return rank_resolution(stack.n, stack.m, eps)


def _of_stack(
    stack: PairStack, points: list[dict[str, Tensor]], metric: MetricName, tolerance: float, resolution: float
) -> dict[str, BlockDistance]:
    names = [block.name for block in stack.blocks]
    pairs = [stack.read(point) for point in points]
    lost: dict[int, str] = {}
    for where, pair in zip(("model_a", "model_b"), pairs, strict=True):
        for i in _deficient(pair[0], pair[1], resolution):
            lost[i] = f"{lost[i]} and {where}" if i in lost else f"rank lost in {where}"
    found = {names[i]: BlockDistance(0.0, math.inf, "rank_deficient", detail) for i, detail in lost.items()}
    kept = [i for i in range(len(names)) if i not in lost]
    if kept:
        frames = [canonical_frames(G[kept], H[kept], rank_tolerance=resolution) for G, H in pairs]
        bounds = quotient_distance(frames[0], frames[1], metric, tolerance=tolerance)
        found |= {names[i]: _block(bounds, at) for at, i in enumerate(kept)}
    return found


def _block(bounds: Distance, at: int) -> BlockDistance:
    lower, upper = float(bounds.lower[at]), float(bounds.upper[at])
    outcome = "geodesic" if bool(bounds.converged[at]) else "path" if math.isfinite(upper) else "apart"
    return BlockDistance(lower, upper, outcome)


def _deficient(G: Tensor, H: Tensor, resolution: float) -> list[int]:
    """Blocks of a flat batch that have no canonical frames: tried together, and one by one only where that fails."""

    def frames(some: slice) -> Frames | None:
        try:
            return canonical_frames(G[some], H[some], rank_tolerance=resolution)
        except RankDeficientError:
            return None

    if G.shape[-2] >= G.shape[-1] <= H.shape[-2] and frames(slice(None)) is not None:
        return []
    return [i for i in range(len(G)) if frames(slice(i, i + 1)) is None]


def _pair_stacks(graph: SymmetryGraph) -> list[PairStack]:
    """All stacks of the graph, where they are pairs modulo GL(h) and no other geometry was declared for them."""
    stacks = graph.stacks()
    pairs = [stack for stack in stacks if isinstance(stack, PairStack) and stack.geometry is None]
    if len(pairs) < len(stacks):
        named = [block.name for stack in stacks if stack not in pairs for block in stack.blocks]
        raise ArgumentError(
            f"distance knows pairs modulo GL(h) only, and these blocks have a geometry of their own: "
            f"{some_of(named, _NAMED)}; leave them out with graph.restricted_to(names)"
        )
    return pairs


def _rest(graph: SymmetryGraph, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
    total = 0.0
    for name in graph.parameters:
        if first[name].is_floating_point():
            difference = (first[name] - second[name])[graph.rest_mask(name).to(first[name].device)]
            total = math.hypot(total, float(torch.linalg.vector_norm(difference)))
    return total
