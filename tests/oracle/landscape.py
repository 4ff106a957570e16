"""Sharpness as a function of flat coordinates y on the unit ball, batched and differentiable.

xi = rho * basis @ y on every pair (basis: `geometry.horizontal_basis`, at the stored factors) and z = rho * y on the
rest, so |xi| = rho |y|. Geodesics by integrator.py, gradients by autograd.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tests.oracle.blocks import Pair
from tests.oracle.geometry import Shape, horizontal_basis, shape_of
from tests.oracle.integrator import collocate
from tests.oracle.measure import Tangent, factors_of, rest_masks, side_positions
from tests.oracle.models import Case, LossModule, Parameters


@dataclass(frozen=True)
class Group:
    """All pairs with one h, rows padded by zeros to a common number."""

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    Y: Tensor  # (2, blocks, rows, h)
    basis: Tensor  # (2 * blocks * rows * h, dimension): coordinates y of this group -> xi
    positions: Tensor  # entries of the flat parameter vector ...
    sources: Tensor  # ... and the entries of Y, flattened, that go there


class Landscape:
    """sharpness(y) = L(Exp(rho * y)) - L for one case, metric and rho; batched over leading dimensions of y."""

    def __init__(self, case: Case, metric: str, rho: float) -> None:
        self.case, self.metric, self.rho = case, metric, rho
        folded = case.folded()
        self.names, self.sizes = list(folded), [tensor.numel() for tensor in folded.values()]
        self.shapes = [tensor.shape for tensor in folded.values()]
        self.flat = torch.cat([tensor.reshape(-1) for tensor in folded.values()])
        pairs = case.blocks().pairs
        widths = sorted({len(pair.G[0].indices) for pair in pairs})
        self.groups = [self._group([p for p in pairs if len(p.G[0].indices) == h], folded) for h in widths]
        masks = rest_masks(case)
        empty = torch.zeros((), dtype=torch.bool)
        mask = torch.cat([masks.get(name, empty.expand(shape)).reshape(-1) for name, shape in self._named_shapes()])
        self.rest = mask.nonzero()[:, 0]
        self.dimensions = [group.basis.shape[1] for group in self.groups] + [len(self.rest)]
        self.dimension = sum(self.dimensions)
        self.module, self.batch = LossModule(case, case.module()), case.batch()
        self.base = float(self._loss(self.flat))
        self.evaluations = 0

    def _named_shapes(self) -> list[tuple[str, torch.Size]]:
        return list(zip(self.names, self.shapes, strict=True))

    def _group(self, pairs: list[Pair], folded: Parameters) -> Group:
        factors = [factors_of(folded, pair) for pair in pairs]
        shapes = tuple(shape_of(*sides) for sides in factors)
        h, rows = shapes[0].h, max(max(shape.n, shape.m) for shape in shapes)
        numbers = torch.arange(2 * len(pairs) * rows * h).reshape(2, len(pairs), rows, h)
        Y = torch.zeros(numbers.shape, dtype=torch.float64)
        basis = torch.zeros(numbers.numel(), sum(s.horizontal_dimension() for s in shapes), dtype=torch.float64)
        positions, sources, column = [], [], 0
        for index, (pair, sides, shape) in enumerate(zip(pairs, factors, shapes, strict=True)):
            entries = []
            for side, views in enumerate((pair.G, pair.H)):
                Y[side, index, : sides[side].shape[0]] = sides[side]
                entries.append(numbers[side, index, : sides[side].shape[0]].reshape(-1))
                positions.append(side_positions(folded, views).reshape(-1))
            sources += entries
            dimension = shape.horizontal_dimension()
            basis[torch.cat(entries), column : column + dimension] = horizontal_basis(self.metric, *sides)
            column += dimension
        names = tuple(pair.name for pair in pairs)
        return Group(names, shapes, Y, basis, torch.cat(positions), torch.cat(sources))

    def _loss(self, flat: Tensor) -> Tensor:
        parts = zip(self._named_shapes(), flat.split(self.sizes), strict=True)
        named = {f"model.{name}": part.reshape(shape) for (name, shape), part in parts}
        return torch.func.functional_call(self.module, named, (self.batch,))

    def parameters(self, y: Tensor) -> Tensor:
        """(..., dimension) -> (..., P) flat parameters at Exp(rho * y)."""
        *blocks, rest = (self.rho * y).split(self.dimensions, dim=-1)
        flat = self.flat.expand(*y.shape[:-1], -1)
        flat = flat.index_add(-1, self.rest, self.flat[self.rest].abs() * rest)
        for group, part in zip(self.groups, blocks, strict=True):
            V = (part @ group.basis.T).reshape(*y.shape[:-1], *group.Y.shape)
            end = collocate(self.metric, group.Y.expand_as(V), V).flatten(-4)
            flat = flat.index_copy(-1, group.positions, end[..., group.sources])
        return flat

    def sharpness(self, y: Tensor) -> Tensor:
        """(..., dimension) -> (...): loss at Exp(rho * y) minus the loss at the case."""
        flat = self.parameters(y)
        return (self._loss(flat) if y.dim() == 1 else torch.vmap(self._loss)(flat)) - self.base

    def value_and_gradient(self, y: np.ndarray) -> tuple[float, np.ndarray]:
        """sharpness and its gradient in y."""
        point = torch.from_numpy(np.array(y)).requires_grad_()
        value = self.sharpness(point)
        self.evaluations += 1
        return float(value.detach()), torch.autograd.grad(value.sum(), point)[0].numpy()

    def tangent(self, y: np.ndarray) -> Tangent:
        """The original-gauge tangent vector rho * y stands for."""
        *blocks, rest = (self.rho * torch.from_numpy(np.array(y))).split(self.dimensions)
        tangent = Tangent()
        for group, part in zip(self.groups, blocks, strict=True):
            V = (group.basis @ part).reshape(group.Y.shape)
            for index, (name, shape) in enumerate(zip(group.names, group.shapes, strict=True)):
                tangent.pairs[name] = V[0, index, : shape.n].clone(), V[1, index, : shape.m].clone()
        z = torch.zeros_like(self.flat)
        z[self.rest] = rest
        for (name, shape), part in zip(self._named_shapes(), z.split(self.sizes), strict=True):
            if bool(part.any()):
                tangent.rest[name] = part.reshape(shape).clone()
        return tangent
