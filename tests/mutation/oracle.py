"""Whether a declaration is true, by torch alone: the declared expressions at random points, their Jacobians, eigenvalues, ranks.

It shares no code with the engine or the certificate, so what it says of a mutant is a second opinion.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp
import torch
from torch import Tensor
from torch.func import jacrev

from quotientgeo.symbolic.algebra import Alphabet
from quotientgeo.symbolic.declaration import Metric, Symmetry
from tests.mutation.numbers import value

Point = dict[str, Tensor]
TOLERANCE = 1e-8
SCALES = (1.0, 0.2, 3.0, 1.0)  # of the factors, at the points that are looked at


class Numbers:
    """A declaration's expressions as functions of tensors, at sizes that all differ."""

    def __init__(self, symmetry: Symmetry, metric: Metric, seed: int, scale: float) -> None:
        self.symmetry, self.metric = symmetry, metric
        of_groups = symmetry.group_sizes
        free = iter(range(6, 20))
        self.sizes = {s: 4 if s in of_groups else next(free) for s in symmetry.sizes if isinstance(s, str)}
        self.rng = torch.Generator().manual_seed(seed)
        alphabet = symmetry.alphabet()
        self.moved = {factor: expression for factor, (expression, _) in symmetry.read_action(alphabet).items()}
        self.preserved = [expression for expression, _ in symmetry.read_preserved(alphabet)]
        self.inner = metric.read_inner(symmetry.alphabet())[0]
        self.parameters = {name: torch.rand((), generator=self.rng).double() + 0.5 for name in metric.parameters}
        self.point = {f: scale * self._normal(shape) for f, shape in symmetry.factors.items()}
        self.inputs = {
            name: self._normal(given)
            if isinstance(given, tuple)
            else given.random_element(self.rng, condition=4.0, sizes=self.sizes)
            for name, given in symmetry.inputs.items()
        }

    def _normal(self, shape: tuple[str | int, str | int]) -> Tensor:
        rows, columns = (s if isinstance(s, int) else self.sizes[s] for s in shape)
        return torch.randn(rows, columns, generator=self.rng, dtype=torch.float64)

    def element(self) -> Point:
        return {
            name: group.random_element(self.rng, condition=4.0, sizes=self.sizes)  # type: ignore[attr-defined]
            for name, group in zip(self.symmetry.names.elements, self.symmetry.groups, strict=True)
        }

    def neutral(self) -> Point:
        return {
            name: group.identity(sizes=self.sizes)  # type: ignore[attr-defined]
            for name, group in zip(self.symmetry.names.elements, self.symmetry.groups, strict=True)
        }

    def product(self, left: Point, right: Point) -> Point:
        groups = zip(self.symmetry.names.elements, self.symmetry.groups, strict=True)
        return {name: left[name] + right[name] if g.law == "add" else left[name] @ right[name] for name, g in groups}

    def act(self, element: Point, point: Point) -> Point:
        return {f: value(e, {**element, **point, **self.inputs}, self.sizes) for f, e in self.moved.items()}

    def flat(self, point: Point) -> Tensor:
        return torch.cat([x.reshape(-1) for x in point.values()])

    def unflat(self, entries: Tensor) -> Point:
        shapes = [self.point[f].shape for f in self.symmetry.factors]
        parts = entries.split([rows * columns for rows, columns in shapes])
        return {f: part.reshape(shape) for f, part, shape in zip(self.symmetry.factors, parts, shapes, strict=True)}

    def gram(self, point: Point) -> Tensor:
        """The matrix of the metric in the entries of all factors."""
        names = self.symmetry.names

        def inner(a: Tensor, b: Tensor) -> Tensor:
            tangents = {names.tangent(f): x for f, x in self.unflat(a).items()}
            tangents |= {names.second_tangent(f): x for f, x in self.unflat(b).items()}
            return value(self.inner, {**point, **tangents, **self.parameters}, self.sizes)

        zero = torch.zeros_like(self.flat(point))
        return jacrev(jacrev(inner, 1), 0)(zero, zero)

    def pushing(self, element: Point, point: Point) -> Tensor:
        """The Jacobian of the action of one element."""
        return jacrev(lambda entries: self.flat(self.act(element, self.unflat(entries))))(self.flat(point))


def _differ(left: Tensor, right: Tensor) -> bool:
    return bool((left - right).abs().max() > TOLERANCE * (1 + right.abs().max()))


def _false_at(n: Numbers) -> Iterator[str]:
    p, a, b = n.point, n.element(), n.element()
    if _differ(n.flat(n.act(n.neutral(), p)), n.flat(p)):
        yield "identity"
    twice = n.flat(n.act(a, n.act(b, p)))
    sides = ["left"] * (not _differ(n.flat(n.act(n.product(a, b), p)), twice))
    sides += ["right"] * (not _differ(n.flat(n.act(n.product(b, a), p)), twice))
    if not sides:
        yield "composition"
    for expression in n.preserved:
        there, here = ({**point, **n.inputs} for point in (n.act(a, p), p))
        if _differ(value(expression, there, n.sizes), value(expression, here, n.sizes)):
            yield "preserved"
    gram, pushing = n.gram(p), n.pushing(a, p)
    if _differ(gram, gram.mT):
        yield "symmetric"
    eigenvalues = torch.linalg.eigvalsh((gram + gram.mT) / 2)
    if eigenvalues[0] < 1e-12 * eigenvalues.abs().max():
        yield "positive definite"
    if _differ(pushing.mT @ n.gram(n.act(a, p)) @ pushing, gram):
        yield "invariance"
    directions = [
        jacrev(lambda x, name=name: n.flat(n.act({**n.neutral(), name: x}, p)))(one).reshape(len(n.flat(p)), -1)
        @ group.algebra_basis(sizes=n.sizes).reshape(-1, one.numel()).mT  # type: ignore[attr-defined]
        for (name, one), group in zip(n.neutral().items(), n.symmetry.groups, strict=True)
    ]
    orbit = torch.cat(directions, dim=1)
    if int(torch.linalg.matrix_rank(orbit)) < orbit.shape[1]:
        yield "free"


def falsehoods(symmetry: Symmetry, metric: Metric) -> list[str]:
    """Which properties of a declaration fail at some of the points; none where it is true."""
    found: dict[str, None] = {}
    for seed, scale in enumerate(SCALES):
        try:
            found |= dict.fromkeys(_false_at(Numbers(symmetry, metric, seed, scale)))
        except torch.linalg.LinAlgError:  # an inverse that does not exist
            found["defined"] = None
    return list(found)


def letters(alphabet: Alphabet, names: tuple[str, ...]) -> list[sp.MatrixSymbol]:
    """Matrix symbols of the problem, those that a slip of the pen may take for another."""
    from quotientgeo.symbolic.algebra import sympy_symbol

    symbols = [sympy_symbol(alphabet, name) for name in names]
    return [symbol for symbol in symbols if isinstance(symbol, sp.MatrixSymbol)]
