"""The measure itself, at the original point in the original gauge: what a tangent vector is, its norm, its end point.

A tangent vector of a case is a `Tangent`:

    pairs: {pair name: (xi_G (n, h), xi_H (m, h))}   one entry per pair of case.blocks().pairs, at the factors that
                                                     `pair_factors(case)` returns (stored weights, gauge condition 100)
    rest:  {parameter name: z}                       z has the parameter's shape; w moves along w + |w| z

Parameters are case.folded(): b_V folded into b_O, b_K zero. Entries of b_V and b_K are frozen, entries of pair factors
are moved by their pair alone, an entry w = 0 stays zero; z is zero at all three. Squared norm: the metric on every
pair plus |z|^2. A pair's tangent must be horizontal.

    oracle_loss(case, metric, tangent) -> float      mean loss at Exp(tangent), geodesics by DOP853 on Christoffel symbols
    base_loss(case) -> float                         mean loss at the case itself
    tangent_norm(case, metric, tangent), vertical_residual(case, metric, tangent)
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.oracle.blocks import Pair, View
from tests.oracle.geometry import geodesic, inner, join, vertical_cosine
from tests.oracle.models import Case, Parameters, mean_loss, read_view

Factors = tuple[Tensor, Tensor]


@dataclass
class Tangent:
    """See the module's docstring."""

    pairs: dict[str, Factors] = field(default_factory=dict)
    rest: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class EndPoint:
    """Loss at Exp(tangent) and how regular the geodesics were."""

    loss: float
    smallest_singular_ratio: float
    energy_drift: float


def side_positions(parameters: Parameters, views: tuple[View, ...]) -> Tensor:
    """(rows, h) positions of a factor's entries in the concatenation of all flattened parameters."""
    numbered: Parameters = {}
    offset = 0
    for name, tensor in parameters.items():
        numbered[name] = torch.arange(offset, offset + tensor.numel()).reshape(tensor.shape)
        offset += tensor.numel()
    return torch.cat([read_view(numbered, view) for view in views])


def factors_of(parameters: Parameters, pair: Pair) -> Factors:
    """G (n, h) and H (m, h) of a pair, rows stacked in the order of its views."""
    return (
        torch.cat([read_view(parameters, view) for view in pair.G]),
        torch.cat([read_view(parameters, view) for view in pair.H]),
    )


def pair_factors(case: Case) -> dict[str, Factors]:
    """Factors of every pair at the original point."""
    folded = case.folded()
    return {pair.name: factors_of(folded, pair) for pair in case.blocks().pairs}


def rest_masks(case: Case) -> dict[str, Tensor]:
    """Which entries move by the adaptive recipe: those in no pair, not frozen and not zero."""
    folded, blocks = case.folded(), case.blocks()
    masks = {name: tensor != 0 for name, tensor in folded.items()}
    taken = [view for pair in blocks.pairs for view in pair.G + pair.H]
    for view in taken + [shift.bias for shift in blocks.shifts]:
        masks[view.tensor].movedim(view.axis, -1)[..., list(view.indices)] = False
    return {name: mask for name, mask in masks.items() if bool(mask.any())}


def end_point(case: Case, metric: str, tangent: Tangent) -> EndPoint:
    """Loss at the end of the geodesic; DOP853 pair by pair."""
    folded = case.folded()
    flat = torch.cat([tensor.reshape(-1) for tensor in folded.values()])
    for name, z in tangent.rest.items():
        folded[name] = folded[name] + folded[name].abs() * z
    moved = torch.cat([tensor.reshape(-1) for tensor in folded.values()])
    ratio, drift = 1.0, 0.0
    for pair in case.blocks().pairs:
        positions = side_positions(folded, pair.G), side_positions(folded, pair.H)
        end = geodesic(metric, flat[positions[0]], flat[positions[1]], *tangent.pairs[pair.name])
        moved[positions[0]], moved[positions[1]] = end.G, end.H
        ratio, drift = min(ratio, end.smallest_singular_ratio), max(drift, end.energy_drift)
    sizes = [tensor.numel() for tensor in folded.values()]
    named = {name: part.reshape(folded[name].shape) for name, part in zip(folded, moved.split(sizes), strict=True)}
    return EndPoint(float(mean_loss(case, named)), ratio, drift)


def oracle_loss(case: Case, metric: str, tangent: Tangent) -> float:
    """Mean loss at Exp(tangent)."""
    return end_point(case, metric, tangent).loss


def base_loss(case: Case) -> float:
    """Mean loss at the case itself."""
    return float(mean_loss(case, case.folded()))


def tangent_norm(case: Case, metric: str, tangent: Tangent) -> float:
    """Square root of the sum over pairs of g(xi, xi), plus |z|^2."""
    total = sum(float(z.square().sum()) for z in tangent.rest.values())
    for name, (G, H) in pair_factors(case).items():
        vectors = tuple(part[None] for part in tangent.pairs[name])
        total += float(inner(metric, G, H, vectors, vectors))
    return total**0.5


def vertical_residual(case: Case, metric: str, tangent: Tangent) -> float:
    """Largest |cosine| between a pair's xi and a vertical vector, in the metric: zero for a horizontal tangent."""
    factors = pair_factors(case)
    return max(vertical_cosine(metric, G, H, join(*tangent.pairs[name])) for name, (G, H) in factors.items())
