"""Which declared geometry moves which blocks of a graph, in one measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from quotientgeo.errors import BlockError
from quotientgeo.model.geometries import Geometry, factors_of, group_text, groups_of, module_of
from quotientgeo.model.stacks import DeclaredStack, PairStack, as_factors, build_stacks

Stack = PairStack | DeclaredStack
_SAME = 1e-9  # relative
_CONDITION = 3.0


def with_metric(
    stacks: Sequence[Stack],
    metric: object,
    shapes: Mapping[str, tuple[int, ...]],
    aliases: Mapping[str, Sequence[str]],
) -> list[Stack]:
    """The stacks of a measure with this ``metric``.

    The name of a metric is for pairs alone, and blocks with a geometry of their own keep it. A declared geometry takes the
    pairs, and the declared blocks of the same symmetry (factors, groups and action); other declared blocks keep their own.

    Raises:
        BlockError: the geometry moves none of the blocks, or not all pairs.
    """
    if isinstance(metric, str):
        return list(stacks)
    geometry: Geometry = metric  # type: ignore[assignment]
    chosen: list[Stack] = []
    taken = 0
    for stack in stacks:
        if isinstance(stack, PairStack):
            _require_pair(geometry, stack, shapes)
            blocks = [block.declared(geometry) for block in stack.blocks]
        elif same_symmetry(stack.geometry, geometry):
            blocks = [block.with_geometry(geometry) for block in stack.blocks]
        else:
            chosen.append(stack)
            continue
        chosen += build_stacks(blocks, shapes, aliases)
        taken += 1
    if stacks and not taken:
        named = ", ".join(dict.fromkeys(stack.geometry.name for stack in stacks))
        raise BlockError(
            f"metric={geometry.name} has the symmetry of no block of the graph: their geometries are {named}; give it to blocks "
            "as DeclaredBlock(geometry=), or leave metric= out"
        )
    return chosen


def same_symmetry(one: Geometry, other: Geometry) -> bool:
    """Whether factors, groups and the action on random factors of small sizes are the same, metric aside."""
    if one is other:
        return True
    factors = factors_of(one)
    if factors != factors_of(other) or groups_of(one) != groups_of(other):
        return False
    names = dict.fromkeys(size for shape in factors.values() for size in shape if isinstance(size, str))
    sizes = {name: 2 * (i + 1) for i, name in enumerate(names)}
    generator = torch.Generator().manual_seed(0)
    elements = [g.random_element(generator, condition=_CONDITION, sizes=sizes) for g in groups_of(one)]
    shapes = [[int(sizes.get(str(size), size)) for size in shape] for shape in factors.values()]
    point = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    ends = [as_factors(module_of(geometry).action(*elements, *point)) for geometry in (one, other)]
    return all(bool((a - b).norm() <= _SAME * b.norm()) for a, b in zip(*ends, strict=True))


def _require_pair(geometry: Geometry, stack: PairStack, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """``BlockError`` unless the geometry's orbits are those of G -> G A^-1, H -> H A' on these blocks.

    A free action of GL(h) on (n, h) and (m, h) that leaves G H' alone has these orbits, however its element is written.
    """
    example = stack.blocks[0].name
    factors, groups = factors_of(geometry), groups_of(geometry)
    what = f"metric={geometry.name} does not fit block {example!r}"
    if len(factors) != 2 or len(groups) != 1 or groups[0].element_kind != "invertible":
        raise BlockError(
            f"{what}, a pair G ({stack.n}, {stack.h}), H ({stack.m}, {stack.h}) of {stack.group}: the geometry has the factors "
            f"{', '.join(factors)} of {group_text(geometry)}"
        )
    declared = build_stacks([stack.blocks[0].declared(geometry)], shapes)[0]
    assert isinstance(declared, DeclaredStack)
    generator = torch.Generator().manual_seed(0)
    (shape,) = (group.numeric_shape(sizes=declared.sizes) for group in groups)
    A = groups[0].random_element(generator, condition=_CONDITION, sizes=declared.sizes) * 1.5
    G, H = (torch.randn(rows, stack.h, generator=generator, dtype=torch.float64) for rows in (stack.n, stack.m))
    ends = declared.act_on([A], (G, H))
    W = G @ H.mT
    kept = bool((ends[0] @ ends[1].mT - W).norm() <= _SAME * W.norm())
    if shape != (stack.h, stack.h) or not kept or bool(torch.allclose(ends[0], G)):
        raise BlockError(
            f"{what}: its action does not move G and H by {stack.group} with G H' unchanged; a pair's symmetry is "
            "G -> G A^-1, H -> H A'"
        )
