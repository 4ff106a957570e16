"""Random expressions through the engine and the code generator, held to their torch twins: values, traces, gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from random import Random
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from quotientgeo.symbolic.algebra import Alphabet, Polynomial, TracePolynomial, polynomial_from_sympy, trace
from quotientgeo.symbolic.codegen.functions import Function
from quotientgeo.symbolic.codegen.grams import Gram
from quotientgeo.symbolic.codegen.module import IMPORTS, SourceWriter, assembled
from quotientgeo.symbolic.codegen.proof import check_functions
from tests.symbolic.algebra import expressions, special
from tests.symbolic.algebra.expressions import Pair, Values

TOLERANCE = 1e-9  # relative
BATCHES: list[tuple[int, ...]] = [(), (), (3,), (1,), (2, 1), (1, 3), (2, 3)]
Projection = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class World:
    """A family of random expressions: its letters, their values, and the space in which a letter's gradient lies."""

    module: ModuleType
    letters: tuple[str, ...]
    typical: dict[str, int]
    points: tuple[dict[str, int], ...]
    grams: dict[str, Gram]
    inside: Mapping[str, Projection]

    def alphabet(self) -> Alphabet:
        return self.module.alphabet()  # type: ignore[no-any-return]

    def values(self, seed: int) -> Values:
        return self.module.values(seed)  # type: ignore[no-any-return]


PLAIN = World(
    expressions,
    tuple(expressions.SHAPES),
    {"n": 512, "m": 512, "h": 32},
    ({"n": 3, "m": 4, "h": 2}, {"n": 4, "m": 5, "h": 3}),
    {"G": Gram("P"), "H": Gram("PH")},
    {"S": lambda x: (x + x.T) / 2, "Z": lambda x: (x - x.T) / 2},
)
SPECIAL = World(
    special,
    (*special.SHAPES, "c"),
    {"d": 32},
    ({"d": 4}, {"d": 6}),
    {},
    {"B": special.diagonal, "C": special.complex_part},
)


def by_torch(world: World, pair: Pair, v: Values, by: str) -> dict[str, Tensor]:
    """Value, trace and gradient of the trace, by the twin and automatic differentiation."""
    v = {**v, by: v[by].detach().clone().requires_grad_()}
    value = pair.function(v)
    total = torch.trace(value)
    slope = torch.autograd.grad(total, v[by], allow_unused=True)[0] if total.requires_grad else None
    slope = torch.zeros_like(v[by]) if slope is None else slope
    gradient = world.inside.get(by, lambda x: x)(slope)
    return {"value": value.detach(), "total": total.detach(), "slope": gradient.detach()}


def by_engine(letters: Alphabet, pair: Pair, by: str) -> dict[str, Polynomial | TracePolynomial]:
    """The same in the algebra."""
    value = polynomial_from_sympy(pair.expression, letters)
    return {"value": value, "total": trace(value), "slope": trace(value).gradient(by)}


def assert_close(found: Tensor, wanted: Tensor, what: str) -> None:
    assert found.shape == wanted.shape, f"{what}: shape {tuple(found.shape)}, expected {tuple(wanted.shape)}"
    error = float(((found - wanted).abs() / (1 + wanted.abs().max())).max())
    assert error < TOLERANCE, f"{what}: relative error {error:.1e}"


def check_engine(world: World, pair: Pair, by: str, seed: int) -> None:
    """The normal forms, walked with torch, give what the twin gives."""
    v = world.values(seed)
    wanted = by_torch(world, pair, v, by)
    for name, formula in by_engine(world.alphabet(), pair, by).items():
        walk = world.module.evaluate if isinstance(formula, Polynomial) else world.module.evaluate_trace
        assert_close(walk(formula, v), wanted[name], f"engine, {name} by {by} of {pair}")


def source_of(world: World, letters: Alphabet, function: Function) -> str:
    return assembled(IMPORTS, [SourceWriter(letters, world.typical, world.grams).function(function)])


def check_code(world: World, pair: Pair, by: str, seed: int) -> None:
    """Generated code gives the same at every place of a batch, whose leading dimensions differ from letter to letter."""
    letters = world.alphabet()
    function = Function("f", world.letters, by_engine(letters, pair, by), "Random.")
    source = source_of(world, letters, function)
    check_functions(source, letters, [function], "random", world.points)
    rng = Random(seed)
    shapes = {name: rng.choice(BATCHES) for name in world.letters}
    batch = torch.broadcast_shapes(*shapes.values())
    drawn = [world.values(s) for s in range(6)]
    values = {name: _stacked([v[name] for v in drawn], shape) for name, shape in shapes.items()}
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    found = namespace["f"](*(values[name] for name in world.letters))
    for place in product(*map(range, batch)):
        here = {name: value.expand(*batch, *value.shape[-2:])[place] for name, value in values.items()}
        wanted = by_torch(world, pair, here, by)
        for value, (name, expected) in zip(found, wanted.items(), strict=True):
            assert value.shape[: len(batch)] == batch, f"code, {name} of {pair}: shape {tuple(value.shape)} for {batch}"
            assert value.dtype == torch.float64
            assert_close(value[place], expected, f"code, {name} by {by} of {pair} in a batch {batch}\n{source}")


def _stacked(values: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    count = 1
    for size in shape:
        count *= size
    return torch.stack(values[:count]).reshape(*shape, *values[0].shape)
