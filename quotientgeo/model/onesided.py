"""How strongly the outputs change when one factor of a declared block moves without the others: what a batch can tell of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from quotientgeo.model.stacks import DeclaredStack

_DRAWS = 4  # of group elements; one alone may happen to move a factor across the gradient
_CONDITION = 2.0
_STILL = 1e-12  # relative motion below which a group leaves a factor alone


def one_sided(stack: DeclaredStack, factors: Sequence[Tensor], slopes: Sequence[Tensor], seed: int) -> list[float]:
    """Per block, the least over its groups of the largest first-order change under the motion of one factor alone.

    ``slopes`` are the gradients of a combination of outputs with respect to ``factors`` (B, rows, columns). Of a group that
    moves a single factor every motion is one of the symmetry: there it is the size of the gradient times that of the factor.
    """
    generator = torch.Generator().manual_seed(seed)
    powers = []
    for j in range(len(stack.groups)):
        moves = [_motion(stack, factors, j, generator) for _ in range(_DRAWS)]
        changes, moving = [], []
        for k, (x, slope) in enumerate(zip(factors, slopes, strict=True)):
            displaced = [move[k] for move in moves]
            size = torch.stack([_norm(d) for d in displaced]).amax(0)
            moving.append(size > _STILL * _norm(x))
            changes.append(torch.stack([(slope * d).sum((-2, -1)).abs() for d in displaced]).amax(0))
        whole = torch.stack([_norm(g) * _norm(x) * m for x, g, m in zip(factors, slopes, moving, strict=True)]).amax(0)
        single = torch.stack(moving).sum(0) <= 1
        powers.append(torch.where(single, whole, torch.stack(changes).amax(0)))
    return torch.stack(powers).amin(0).tolist() if powers else [0.0] * len(stack)


def _motion(
    stack: DeclaredStack, factors: Sequence[Tensor], group: int, generator: torch.Generator
) -> tuple[Tensor, ...]:
    """Displacements of the factors under a random element of one group of the product."""
    elements = list(stack.identity())
    elements[group] = stack.groups[group].random_element(generator, condition=_CONDITION, sizes=stack.sizes)
    moved = stack.act_on([e.expand(len(stack), -1, -1).to(factors[0]) for e in elements], factors)
    return tuple(after - before for before, after in zip(factors, moved, strict=True))


def _norm(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1)
