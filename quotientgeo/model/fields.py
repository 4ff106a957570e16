"""Random tangents that do not depend on where on its orbit a point lies.

A linear map C of a factor that commutes with the group makes an equivariant tangent C x of the point x: at the moved point it is
the moved tangent. Most factors have such maps: all matrices from the left where no group acts on the rows (G -> G A^-1), from
the right where none acts on the columns, diagonal ones beside diagonal groups. Which maps commute is tried on group
elements, never assumed. Gaussian maps then give random tangents; under the invariant metric of the pair, isotropic ones.

A factor on which groups act from both sides (W -> A W B^-1) has none; its tangents are reached as horizontal parts of the
others'. Where no factor of a block has one, there is no draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from quotientgeo.model.stacks import DeclaredStack

Factors = tuple[Tensor, ...]
_SAME = 1e-9  # relative, of the moved tangent and the tangent at the moved point
_CONDITION = 3.0  # of the elements that are tried
_KINDS = ("left", "right", "diagonal left", "diagonal right")


@dataclass(frozen=True)
class Fields:
    """For each factor the largest kind of map that commutes with the group, None where none of ours does."""

    kinds: tuple[str | None, ...]

    @classmethod
    def of(cls, stack: DeclaredStack) -> Fields:
        """Found on random factors of the stack's shapes."""
        generator = torch.Generator().manual_seed(0)
        shapes = stack.factor_shapes.values()
        x = tuple(torch.randn(1, *shape, generator=generator, dtype=torch.float64) for shape in shapes)
        elements = [
            group.random_element(generator, condition=_CONDITION, sizes=stack.sizes)[None] for group in stack.groups
        ]
        moved = stack.act_on(elements, x)
        kinds: list[str | None] = []
        for k, part in enumerate(x):
            kinds.append(None)
            for kind in sorted(_KINDS, key=lambda kind: -_freedom(kind, part)):
                C = _map(kind, part, generator)
                tangent = [torch.zeros_like(y) for y in x]
                tangent[k] = _apply(kind, C, part)
                ends = stack.act_on(elements, tuple(y + t for y, t in zip(x, tangent, strict=True)))
                change = [end - start for end, start in zip(ends, moved, strict=True)]
                change[k] = change[k] - _apply(kind, C, moved[k])
                size = max(float(y.norm()) for y in (*moved, tangent[k]))
                if all(float(c.norm()) <= _SAME * size for c in change):
                    kinds[-1] = kind
                    break
        return cls(tuple(kinds))

    @property
    def any(self) -> bool:
        return any(kind is not None for kind in self.kinds)

    def draw(self, point: Factors, generator: torch.Generator) -> Factors:
        """A Gaussian equivariant tangent at each point (B, rows, columns), about as large as the point; zero in factors without
        a map."""
        drawn = []
        for kind, x in zip(self.kinds, point, strict=True):
            if kind is None:
                drawn.append(torch.zeros_like(x))
            else:  # block by block: the maps of large factors are larger than the factors
                drawn.append(torch.stack([_apply(kind, _map(kind, part, generator), part) for part in x]))
        return tuple(drawn)


def _freedom(kind: str, x: Tensor) -> int:
    """Numbers in a map of this kind."""
    size: int = x.shape[-2] if "left" in kind else x.shape[-1]
    return size if "diagonal" in kind else size**2


def _map(kind: str, x: Tensor, generator: torch.Generator) -> Tensor:
    size = x.shape[-2] if "left" in kind else x.shape[-1]
    if "diagonal" in kind:
        return torch.randn(size, generator=generator, dtype=torch.float64).to(x)
    return torch.randn(size, size, generator=generator, dtype=torch.float64).to(x) / size**0.5


def _apply(kind: str, C: Tensor, x: Tensor) -> Tensor:
    if kind == "left":
        return C @ x
    if kind == "right":
        return x @ C
    return C[:, None] * x if kind == "diagonal left" else x * C
