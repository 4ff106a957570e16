"""Blocks of one shape as one batched tensor per factor: reading, writing and the numeric group action without a loop over heads.

A *slot* is one leg position (side, role, rank) over all blocks of the stack; inside a slot the legs are grouped by parameter.
A group whose legs are evenly spaced runs of one axis is a view (narrow, unflatten, movedim); any other group is a gather
through flat positions. So the number of tensor operations is that of parameters times leg positions, never that of heads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from quotientgeo.errors import BlockError, ShapeError
from quotientgeo.model.blocks import DeclaredBlock, GroupBlock, PairBlock, Shapes, acting
from quotientgeo.model.geometries import factors_of, groups_of, module_of
from quotientgeo.model.slots import LegGroup, Params, assemble, joined, make_slots
from quotientgeo.model.views import LeadView, RunView

__all__ = ["DeclaredStack", "FactorStack", "LeadView", "PairStack", "Params", "RunView", "build_stacks"]

Element = tuple[Tensor, ...]  # of a product of groups: one matrix for each
Aliases = Mapping[str, Sequence[str]]


class FactorStack:
    """All blocks of one shape and one geometry: each factor is one tensor (B, rows, columns).

    ``blocks`` gives the order of the batch axis B; ``sides`` the factors; ``factor_shapes`` (rows, columns) of each; ``names``
    the parameters it touches.
    """

    def __init__(
        self,
        blocks: Sequence[GroupBlock],
        factor_shapes: Mapping[str, tuple[int, int]],
        shapes: Shapes,
        aliases: Aliases | None = None,
    ):
        self.blocks = tuple(blocks)
        self.factor_shapes = dict(factor_shapes)
        self.sides = tuple(self.factor_shapes)
        self.geometry = self.blocks[0].geometry
        self._aliases = dict(aliases or {})
        self._slots = make_slots(self.blocks, shapes)
        self._factor = {side: [s for s in self._slots if s.side == side and s.role == "factor"] for side in self.sides}
        self.names = tuple(dict.fromkeys(g.tensor for s in self._slots if s.role == "factor" for g in s.groups))

    def __len__(self) -> int:
        return len(self.blocks)

    def read(self, params: Params) -> tuple[Tensor, ...]:
        """The factors (B, rows, columns) in the dtype and on the device of ``params``; differentiable."""
        return tuple(joined([slot.read(params) for slot in self._factor[side]], 1) for side in self.sides)

    def read_gradient(self, gradients: Mapping[str, Tensor | None]) -> tuple[Tensor, ...] | None:
        """The adjoint of ``write``: gradients by factor (B, rows, columns) from those of the parameters.

        A parameter without gradient (None, or no entry) counts as zero; None if that is all of them.
        """
        like = next((g for g in map(gradients.get, self.names) if g is not None), None)
        if like is None:
            return None
        return tuple(
            joined([slot.read_gradient(gradients, like) for slot in self._factor[side]], 1) for side in self.sides
        )

    def write(self, params: Params, *factors: Tensor) -> dict[str, Tensor]:
        """A copy of the mapping ``params`` in which new tensors hold the factors (B, rows, columns).

        Differentiable in the factors; nothing is changed in place. New tensors have the dtype and device of the factors; entries
        that no factor leg of this stack owns keep their values, so do carried legs (zero in the canonical form of the shifts).
        """
        if len(factors) != len(self.sides):
            raise ShapeError(f"write takes the factors {', '.join(self.sides)}, got {len(factors)} tensors")
        for (side, shape), factor in zip(self.factor_shapes.items(), factors, strict=True):
            if factor.shape != (len(self), *shape):
                raise ShapeError(f"{side} must have shape {(len(self), *shape)}, got {tuple(factor.shape)}")
        return self._put(
            params, [part for side, x in zip(self.sides, factors, strict=True) for part in self._parts(side, x)]
        )

    def moved(
        self, params: Params, elements: Mapping[str, Element], sides: Collection[str] | None = None
    ) -> dict[str, Tensor]:
        """``params`` with every block that has an element moved by it, the others by the identity; ``sides``: those factors
        alone, which is no symmetry."""
        raise NotImplementedError

    def _parts(self, side: str, factor: Tensor) -> Iterable[tuple[LegGroup, Tensor]]:
        """The legs of one factor, each with its own rows."""
        start = 0
        for slot in self._factor[side]:
            yield from slot.split(factor.narrow(1, start, slot.rows))
            start += slot.rows

    def _put(self, params: Params, parts: Iterable[tuple[LegGroup, Tensor]]) -> dict[str, Tensor]:
        by_tensor: dict[str, list[tuple[LegGroup, Tensor]]] = defaultdict(list)
        for group, x in parts:
            by_tensor[group.tensor].append((group, x))
        new = dict(params)
        for tensor, pieces in by_tensor.items():
            new[tensor] = assemble(params[tensor], pieces)
            for alias in self._aliases.get(tensor, ()):
                if alias in new:
                    new[alias] = new[tensor]
        return new


class PairStack(FactorStack):
    """All blocks of one shape (n, m, h) and group as one batched pair of factors G (B, n, h), H (B, m, h).

    Made by ``build_stacks``.
    """

    blocks: tuple[PairBlock, ...]

    def __init__(self, blocks: Sequence[PairBlock], shapes: Shapes, aliases: Aliases | None = None):
        sizes = {block.sizes(shapes) for block in blocks}
        if len(sizes) != 1:
            raise BlockError(f"a stack needs blocks of one shape (n, m, h), got {sorted(sizes)}")
        self.n, self.m, self.h = sizes.pop()
        self.group = blocks[0].group
        super().__init__(blocks, {"G": (self.n, self.h), "H": (self.m, self.h)}, shapes, aliases)

    def __repr__(self) -> str:
        return f"PairStack({len(self)} blocks of {self.group}, n={self.n}, m={self.m}, h={self.h})"

    def act(self, params: Params, elements: Tensor, sides: Collection[str] = "GH") -> dict[str, Tensor]:
        """A copy of ``params`` moved by elements A (B, h, h): G -> G A^-1, H -> H A^T, carried legs with their side.

        ``sides="G"`` or ``"H"`` moves one side only, which is no symmetry (the control of a verification). Differentiable.
        """
        parts: list[tuple[LegGroup, Tensor]] = []
        for slot in self._slots:
            if slot.side not in sides:
                continue
            A, x = slot.elements(elements), slot.read(params)
            moved = torch.linalg.solve(A, x, left=False) if slot.side == "G" else x @ A.mT
            parts += slot.split(moved)
        return self._put(params, parts)

    def moved(
        self, params: Params, elements: Mapping[str, Element], sides: Collection[str] | None = None
    ) -> dict[str, Tensor]:
        identity = (torch.eye(self.h, dtype=torch.float64),)
        (A,) = _stacked(self.blocks, elements, identity, like=params[self.names[0]])
        return self.act(params, A, "GH" if sides is None else sides)


class DeclaredStack(FactorStack):
    """All blocks of one declared geometry and one set of sizes, moved by the geometry's own generated action.

    Made by ``build_stacks``. sizes: the numbers that the declaration's names of sizes stand for.
    """

    blocks: tuple[DeclaredBlock, ...]

    def __init__(self, blocks: Sequence[DeclaredBlock], shapes: Shapes, aliases: Aliases | None = None):
        self.sizes = blocks[0].sizes(shapes)
        if any(block.sizes(shapes) != self.sizes for block in blocks):
            raise BlockError(
                f"a stack needs blocks of one set of sizes, got {[block.sizes(shapes) for block in blocks]}"
            )
        factors = {name: (self._number(r), self._number(c)) for name, (r, c) in factors_of(blocks[0].geometry).items()}
        super().__init__(blocks, factors, shapes, aliases)
        self.module = module_of(self.geometry)
        self.groups = groups_of(self.geometry)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"DeclaredStack({len(self)} blocks of {self.geometry.name}, {sizes})"

    def _number(self, size: int | str) -> int:
        return size if isinstance(size, int) else self.sizes[size]

    def identity(self) -> Element:
        """The neutral element, float64."""
        return tuple(group.identity(sizes=self.sizes) for group in self.groups)

    def act(
        self, params: Params, elements: Sequence[Tensor], sides: Collection[str] | None = None
    ) -> dict[str, Tensor]:
        """A copy of ``params`` moved by one element per group, each (B, rows, columns), carried legs with their factor.

        ``sides`` moves these factors only, which in general is no symmetry. Differentiable.
        """
        factors = self.read(params)
        chosen = self.sides if sides is None else sides
        parts: list[tuple[LegGroup, Tensor]] = []
        for side, x in zip(self.sides, self.act_on(elements, factors), strict=True):
            if side in chosen:
                parts += self._parts(side, x)
        for slot in self._slots:
            if (
                slot.role == "carried" and slot.side in chosen
            ):  # a further row of its factor, which the group moves alike
                own = [slot.elements(x) for x in factors]
                own[self.sides.index(slot.side)] = slot.read(params)
                moved = self.act_on([slot.elements(e) for e in elements], own)
                parts += slot.split(moved[self.sides.index(slot.side)])
        return self._put(params, parts)

    def act_on(self, elements: Sequence[Tensor], factors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The generated action on tensors."""
        return as_factors(self.module.action(*elements, *factors))

    def moved(
        self, params: Params, elements: Mapping[str, Element], sides: Collection[str] | None = None
    ) -> dict[str, Tensor]:
        chosen = _stacked(self.blocks, elements, self.identity(), like=params[self.names[0]])
        if sides is not None:
            return self.act(params, chosen, sides)
        at = [i for i, block in enumerate(self.blocks) if block.name in elements]
        moved = self.act(params, chosen)
        if len(at) == len(self.blocks):
            return moved
        # blocks without an element stay exactly where they are: the action of the identity may round
        before, after = self.read(params), self.read(moved)
        keep = torch.ones(len(self), dtype=torch.bool)
        keep[at] = False
        keep = keep.to(before[0].device)[:, None, None]
        return self.write(moved, *(torch.where(keep, a, b) for a, b in zip(before, after, strict=True)))


def as_factors(result: Any) -> tuple[Tensor, ...]:
    """What a generated function returns, as one tensor per factor."""
    return (result,) if isinstance(result, Tensor) else tuple(result)


def _stacked(blocks: Sequence[GroupBlock], elements: Mapping[str, Element], identity: Element, like: Tensor) -> Element:
    """Elements (B, rows, columns) of each group in the order of ``blocks``, the identity where a block has none."""
    chosen = [elements.get(block.name, identity) for block in blocks]
    return tuple(torch.stack(parts).to(like) for parts in zip(*chosen, strict=True))


def build_stacks(
    blocks: Iterable[GroupBlock], shapes: Shapes, aliases: Aliases | None = None
) -> list[PairStack | DeclaredStack]:
    """Blocks grouped into stacks of equal leg rows, group, geometry and sizes, in the order of their first blocks.

    ``aliases`` lists, per parameter, other names of the same storage; ``write`` keeps them equal.
    """
    pairs: dict[Any, list[PairBlock]] = {}
    declared: dict[Any, list[DeclaredBlock]] = {}
    order: dict[Any, None] = {}
    for block in map(acting, blocks):
        rows = tuple((side, view.rows) for side, view in block.bound(shapes) if view.leg.role == "factor")
        if isinstance(block, PairBlock):
            key: Any = (rows, block.group)
            pairs.setdefault(key, []).append(block)
        else:
            key = (rows, id(module_of(block.geometry)), tuple(block.sizes(shapes).items()))
            declared.setdefault(key, []).append(block)
        order.setdefault(key)
    return [
        PairStack(pairs[key], shapes, aliases) if key in pairs else DeclaredStack(declared[key], shapes, aliases)
        for key in order
    ]
