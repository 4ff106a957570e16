"""A well-conditioned point of the orbit: where a measure of a declared geometry is computed.

The value of a measure does not depend on the point of the orbit, but rounding does: generated code forms Gram matrices of the
factors, and moves of condition 1e3 make those of condition 1e6 and more. Where a group GL(h) acts on columns (or rows) of factors
that no other group moves, those factors are brought to orthonormal columns, or balanced against each other where it acts on
some by A^-1 and on others by A'. What is left of the group are rotations, which condition nothing. No other group is moved:
the numbers of diagonal groups and of scalings are not inverted as matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from quotientgeo.model.stacks import DeclaredStack

Factors = tuple[Tensor, ...]
_SAME = 1e-9  # relative, of two ways to move a factor
_SINGULAR = 1e-12  # ratio of singular values beyond which a factor gives no gauge
_CONDITION = 3.0  # of the elements that tell how a group acts


def balanced(stack: DeclaredStack, point: Factors) -> Factors:
    """The factors (B, rows, columns), float64, moved by a group element each; unchanged where no factor gives one."""
    elements = [e.expand(len(stack), -1, -1).to(point[0]) for e in stack.identity()]
    for j, group in enumerate(stack.groups):
        if group.element_kind == "invertible":
            elements[j] = _element(stack, point, j, elements[j])
    return stack.act_on(elements, point)


def _element(stack: DeclaredStack, point: Factors, j: int, identity: Tensor) -> Tensor:
    """A (B, h, h) that makes Y A^-1 of the contravariant factors Y and Y A' of the covariant ones alike."""
    ways = [_way(stack, point, j, k) for k in range(len(point))]
    sides: dict[str, list[Tensor]] = {}
    for way, x in zip(ways, point, strict=True):
        if way is not None:
            sides.setdefault(way[1], []).append(x if way[0] == "columns" else x.mT)
    inverse = not ({"A^-1", "A'"} & set(sides))  # then A stands for the inverse of the group's element
    contra = sides.get("A" if inverse else "A^-1", [])
    co = sides.get("A^-T" if inverse else "A'", [])
    if not contra and not co:
        return identity
    B = _balancing(contra, co, identity.shape[-1])
    if B is None:
        return identity
    moved = torch.linalg.inv(B) if inverse else B
    usable = moved.isfinite().all(-1).all(-1)[:, None, None]
    return torch.where(usable, moved, identity)


def _balancing(contra: Sequence[Tensor], co: Sequence[Tensor], h: int) -> Tensor | None:
    """B with (Y B^-1)'(Y B^-1) = (Z B')'(Z B') of the stacked rows Y and Z, or one of them orthonormal where it is alone."""
    R, S = (torch.linalg.qr(torch.cat(list(rows), -2), mode="r").R if rows else None for rows in (contra, co))
    if any(r is not None and r.shape[-2] < h for r in (R, S)):
        return None
    if R is not None and S is not None:
        U, s, _ = torch.linalg.svd(R @ S.mT)
        regular = s[:, -1] > _SINGULAR * s[:, 0]
        return torch.where(regular[:, None, None], (U / s.sqrt()[:, None]).mT @ R, torch.nan)
    if R is not None:
        return torch.where(_regular(R), R, torch.nan)
    assert S is not None
    return torch.where(_regular(S), torch.linalg.inv_ex(S).inverse.mT, torch.nan)


def _regular(R: Tensor) -> Tensor:
    s = torch.linalg.svdvals(R)
    return (s[:, -1] > _SINGULAR * s[:, 0])[:, None, None]


def _way(stack: DeclaredStack, point: Factors, j: int, k: int) -> tuple[str, str] | None:
    """How group j moves factor k, if it alone does: ("columns" or "rows", "A", "A^-1", "A'" or "A^-T"), acting on Y = X or X'
    from the right. Seen on random factors of the same shapes."""
    generator = torch.Generator().manual_seed(0)
    factors = tuple(torch.randn(1, *x.shape[-2:], generator=generator, dtype=torch.float64) for x in point)
    own, others = list(stack.identity()), list(stack.identity())
    for i, group in enumerate(stack.groups):
        drawn = group.random_element(generator, condition=_CONDITION, sizes=stack.sizes)
        if i == j:
            own[i] = drawn
        else:
            others[i] = drawn
    x, A = factors[k], own[j]
    if not _same(stack.act_on([e[None] for e in others], factors)[k], x):
        return None
    moved = stack.act_on([e[None] for e in own], factors)[k]
    inverse = torch.linalg.inv(A)
    candidates = {"A": A, "A^-1": inverse, "A'": A.mT, "A^-T": inverse.mT}
    for side, y, z in (("columns", x, moved), ("rows", x.mT, moved.mT)):
        for name, matrix in candidates.items():
            if y.shape[-1] == matrix.shape[-1] and _same(y @ matrix, z):
                return side, name
    return None


def _same(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).norm() <= _SAME * b.norm())
