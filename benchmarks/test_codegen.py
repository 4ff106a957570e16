"""Generated code against SymPy's own torch printer and against automatic differentiation of the metric, at (8, 2000, 16)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import pytest
import torch
from sympy.printing.pytorch import TorchPrinter
from torch import Tensor

from benchmarks.clock import Compared, timed
from benchmarks.conftest import Say, load
from quotientgeo.symbolic.derivation import Geometry, derive

BATCH, ROWS, COLUMNS = 8, 2000, 16
ROUNDS = 7
PRINTED, DIFFERENTIATED = 20.0, 2.0  # least ratios

Point = tuple[Tensor, Tensor]


def printed(geometry: Geometry) -> Callable[..., Point]:
    """What SymPy 1.14 prints for the acceleration, mended only where it is no batched torch: ``permute(1 ,0)`` is ``mT``."""
    names = {"torch": torch}
    texts = [TorchPrinter().doprint(f.expression) for f in geometry.acceleration.values()]
    arguments = ", ".join(next(iter(geometry.acceleration.values())).arguments)
    source = f"def acceleration({arguments}):\n    return {', '.join(texts)}".replace(".permute(1 ,0)", ".mT")
    exec(compile(source, "<printed by SymPy>", "exec"), names)
    function: Callable[..., Point] = names["acceleration"]  # type: ignore[assignment]
    return function


def differentiated(module: ModuleType) -> Callable[..., Point]:
    """M^-1 (dL/dx - d/dt dL/dxi) for L = 1/2 <xi, xi>: all derivatives automatic, M^-1 by the generated gradient."""

    def acceleration(G: Tensor, H: Tensor, xi_G: Tensor, xi_H: Tensor) -> Point:
        point = [x.detach().requires_grad_() for x in (G, H)]
        velocity = [x.detach().requires_grad_() for x in (xi_G, xi_H)]
        energy = module.inner(*point, *velocity, *velocity).sum() / 2
        force = torch.autograd.grad(energy, point, create_graph=True)
        # d/dx of <dL/dxi, xi> with xi held fixed is d/dt dL/dxi transposed: take the directional derivative by two pullbacks
        conjugate = torch.autograd.grad(energy, velocity, create_graph=True)
        dual = [torch.zeros_like(x, requires_grad=True) for x in conjugate]
        pulled = torch.autograd.grad(conjugate, point, dual, create_graph=True)
        rate = torch.autograd.grad(pulled, dual, (xi_G, xi_H))
        out: Point = module.gradient(*point, *(f - r for f, r in zip(force, rate, strict=True)))
        return out

    return acceleration


def compared(ours: Callable[..., Point], theirs: Callable[..., Point], arguments: tuple[Tensor, ...]) -> Compared:
    """Rounds of both, one after the other, the first of them not counted."""
    rounds = [(timed(lambda: theirs(*arguments)), timed(lambda: ours(*arguments))) for _ in range(ROUNDS + 1)][1:]
    return Compared([one for one, _ in rounds], [other for _, other in rounds])


@pytest.mark.parametrize("name", ["gl_pair_invariant", "gl_pair_mixed"])
def test_acceleration(name: str, say: Say) -> None:
    module = import_module(f"quotientgeo.catalogue.{name}.generated")
    declared = import_module(f"quotientgeo.catalogue.{name}.declaration")
    generator = torch.Generator().manual_seed(0)
    arguments = tuple(torch.randn(BATCH, ROWS, COLUMNS, generator=generator, dtype=torch.float64) for _ in range(4))
    geometry = derive(declared.symmetry, declared.metric, levels="a")
    say()
    say(f"{module.NAME}: acceleration at {(BATCH, ROWS, COLUMNS)}, float64; {load()}")
    missed = []
    for rival, theirs, least in (
        ("SymPy's torch printer", printed(geometry), PRINTED),
        ("automatic differentiation", differentiated(module), DIFFERENTIATED),
    ):
        for mine, other in zip(module.acceleration(*arguments), theirs(*arguments), strict=True):
            assert torch.allclose(mine, other, rtol=1e-8, atol=1e-10 * float(other.detach().abs().max()))
        found = compared(module.acceleration, theirs, arguments)
        times = f"{found.ratio.cpu:.1f} times the CPU time of the generated code ({found.ratio.wall:.1f} wall)"
        say(f"  {rival}: {times}; at least {least:g}")
        if found.ratio.cpu < least:
            missed.append(f"{rival}: {found.ratio.cpu:.1f}, at least {least:g}")
    assert not missed
