"""Classical Runge-Kutta integration of states of tensors, with the number of steps doubled until the result is settled.

Steps are fixed within a run: points and velocities enter in linear combinations only, with which an affine group action
commutes, so that any number of steps gives an exactly equivariant result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from quotientgeo.errors import GeodesicAccuracyError, GeodesicCollapseError
from quotientgeo.geometry.gauge import batch_names

State = tuple[Tensor, ...]
FEWEST_STEPS = 4
MOST_STEPS = 2048


def default_tolerance(dtype: torch.dtype) -> float:
    """What a result may change by under doubling of the steps: 1e-10, or 100 units of rounding where that is more."""
    return max(1e-10, 100 * torch.finfo(dtype).eps)


def integrate(rate: Callable[[State], State], state: State, steps: int) -> State:
    """The solution of d state / dt = rate(state) at t = 1 after ``steps`` steps of classical RK4."""
    dt = 1.0 / steps
    for _ in range(steps):
        k1 = rate(state)
        k2 = rate(_ahead(state, k1, dt / 2))
        k3 = rate(_ahead(state, k2, dt / 2))
        k4 = rate(_ahead(state, k3, dt))
        state = tuple(
            y.add(a + d, alpha=dt / 6).add(b + c, alpha=dt / 3)
            for y, a, b, c, d in zip(state, k1, k2, k3, k4, strict=True)
        )
    return state


def _ahead(state: State, rates: State, dt: float) -> State:
    return tuple(torch.add(y, k, alpha=dt) for y, k in zip(state, rates, strict=True))


@torch.no_grad()
def settle(
    run: Callable[[int], State],
    change: Callable[[State, State], Tensor],
    *,
    tolerance: float,
    fewest: int = FEWEST_STEPS,
    most: int = MOST_STEPS,
    name: str,
) -> tuple[int, State]:
    """Double the steps until the result settles: (steps, run(steps)), ``steps`` being the finer of the last two.

    Args:
        run: number of steps -> result.
        change: (result, result of twice the steps) -> relative difference, shape (...).
        tolerance: largest difference that counts as settled.
        name: of the geometry, for messages.

    Raises:
        GeodesicCollapseError: the result of ``most`` steps is not finite.
        GeodesicAccuracyError: it is finite, but did not settle.
    """
    steps = fewest
    few = run(steps)
    while True:
        steps *= 2
        many = run(steps)
        error = change(few, many)
        unsettled = ~(error <= tolerance)
        if not unsettled.any():
            return steps, many
        if 2 * steps > most:
            break
        few = many
    collapsed = unsettled & ~error.isfinite()
    if collapsed.any():
        raise GeodesicCollapseError(
            f"{name}: the geodesic left the finite numbers within {steps} Runge-Kutta steps (relative change under doubling: "
            f"{batch_names(collapsed, torch.where(collapsed, math.inf, error))}): it ends on [0, 1], or the point is "
            "singular; use a shorter tangent"
        )
    raise GeodesicAccuracyError(
        f"{name}: {steps} Runge-Kutta steps leave the geodesic relatively uncertain by {batch_names(unsettled, error)} "
        f"(tolerance {tolerance:g}): use a shorter tangent, a better conditioned point of the orbit, or a larger tolerance"
    )


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole of two lengths; 0 where both vanish, infinity where it is not a number."""
    value = torch.where(part == 0, 0.0, part / whole)
    return torch.where(part.isfinite() & whole.isfinite(), value, math.inf).nan_to_num(math.inf, math.inf)


def directional(function: Callable[[State], State], at: State, direction: State, *, again: bool) -> State:
    """Derivative of ``function`` at ``at`` in ``direction``, in reverse mode only; ``again``: differentiable again.

    The product of the Jacobian with a dummy covector is linear in the covector; its gradient is the derivative. (Nested
    forward derivatives through linear solves are wrong in torch 2.13.) Only the dependence through the argument counts, not
    that of anything else inside ``function`` on the same tensors.
    """
    with torch.enable_grad():
        # a view is a new variable: what was computed from the old one does not depend on it
        leaves = tuple(t.view_as(t) if again and t.requires_grad else t.detach().requires_grad_() for t in at)
        values = tuple(function(leaves))
        covectors = tuple(torch.zeros_like(v, requires_grad=True) for v in values)
        pulled = _gradients(values, leaves, covectors, True)
        return _gradients(pulled, covectors, direction, again)


def _gradients(outputs: State, inputs: State, weights: State, again: bool) -> State:
    """Gradients of sum <outputs, weights> by inputs; zero where nothing depends on them."""
    used = [(out, weight) for out, weight in zip(outputs, weights, strict=True) if out.requires_grad]
    if not used:
        return tuple(torch.zeros_like(t) for t in inputs)
    outs, by = zip(*used, strict=True)
    return tuple(torch.autograd.grad(outs, inputs, by, create_graph=again, allow_unused=True, materialize_grads=True))
