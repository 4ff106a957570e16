"""Auto-PGD on a Euclidean ball: the maximiser behind every worst-case measure.

Croce and Hein (2020), Algorithm 1, as da Silva, Dangel and Oore (ICML 2025) use it: steps along the normalised gradient,
momentum 0.75, check points at shrinking intervals, at which the step is halved and the search restarted from the best
point. A step counts as a success if it raised the best value (Croce and Hein: the previous value), and a restart forgets
the momentum. It runs in coordinates in which the metric ball is a Euclidean ball, so that projecting onto it is a radial scaling.

Every decision is taken by tensor operations on the device of the coordinates: no step waits for the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

MOMENTUM = 0.75
FIRST_PERIOD, PERIOD_DECREASE, SHORTEST_PERIOD = 0.22, 0.03, 0.06
SUCCESS_FRACTION = 0.75

ValueAndGradient = Callable[[Tensor], tuple[Tensor, Tensor]]
Value = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Ascent:
    """What one start of the maximiser found.

    ``best_point`` (d,), ``best_value`` () and ``best_step`` () are those of the largest value seen; ``values``
    (evaluations,) is the loss at every point visited, in order; ``finite`` () is False if one of them was not a finite
    number, and ``first_bad_point`` (d,) is then the point that gave it.
    """

    best_point: Tensor
    best_value: Tensor
    best_step: Tensor
    values: Tensor
    finite: Tensor
    first_bad_point: Tensor


def check_points(steps: int) -> frozenset[int]:
    """Iterations at which the step size is reconsidered: ceil(p_j steps), p_0 = 0, p_1 = 0.22, then
    p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06)."""
    fractions = [0.0, FIRST_PERIOD]
    while fractions[-1] < 1.0:
        fractions.append(fractions[-1] + max(fractions[-1] - fractions[-2] - PERIOD_DECREASE, SHORTEST_PERIOD))
    # rounded first: 0.57 * 100 is a little more than 57 in floating point
    return frozenset(math.ceil(round(p * steps, 9)) for p in fractions[1:] if p < 1.0)


def norm(z: Tensor) -> Tensor:
    """|z|_2, accumulated in float64: a float32 sum over millions of squares is off by more than a ball's tolerance."""
    return torch.linalg.vector_norm(z, dtype=torch.float64)


def project_ball(z: Tensor, radius: float) -> Tensor:
    """Nearest point of the ball |z| <= radius: z min(1, radius/|z|)."""
    shrink = (radius / norm(z).clamp_min(torch.finfo(torch.float64).tiny)).clamp_max(1.0)
    return z * shrink.to(z.dtype)


def _unit(g: Tensor) -> Tensor:
    """g/|g|, and 0 where g = 0 (a stationary point moves nowhere). Scaled by the largest entry first, so that no square
    over- or underflows."""
    largest = torch.linalg.vector_norm(g, ord=math.inf)
    scaled = g / torch.where(largest > 0, largest, torch.ones_like(largest))
    return scaled / norm(scaled).clamp_min(1.0).to(g.dtype)


def auto_pgd(
    value_and_gradient: ValueAndGradient,
    value: Value,
    start: Tensor,
    *,
    radius: float,
    steps: int,
    known: tuple[Tensor, Tensor] | None = None,
    on_step: Callable[[int], None] | None = None,
) -> Ascent:
    """Maximise over |z| <= radius from ``start`` (d,) with ``steps`` moves.

    Costs one value-and-gradient at each of the points 0 .. steps-1 and one value at the last; ``known`` is the value and
    gradient at the start, if the caller has them. The first step length is 2 radius.
    """
    state = _State(project_ball(start, radius), known, value_and_gradient, radius)
    marks, period_start = check_points(steps), 0
    for k in range(1, steps + 1):
        candidate = project_ball(state.z + state.step_length * _unit(state.gradient), radius)
        if k > 1:
            mixed = state.z + MOMENTUM * (candidate - state.z) + (1 - MOMENTUM) * (state.z - state.previous)
            candidate = project_ball(mixed, radius)
        if k == steps:
            state.visit(candidate, value(candidate), None)
        else:
            state.visit(candidate, *value_and_gradient(candidate))
            if k in marks:
                state.reconsider(period=k - period_start)
                period_start = k
        if on_step is not None:
            on_step(k)
    values = torch.stack(state.values)
    return Ascent(state.best_point, state.best_value, state.best_step, values, state.finite, state.bad_point)


class _State:
    """Point, gradient, best point and step length of one ascent, all on the device."""

    def __init__(
        self, start: Tensor, known: tuple[Tensor, Tensor] | None, evaluate: ValueAndGradient, radius: float
    ) -> None:
        value, gradient = known if known is not None else evaluate(start)
        self.z, self.gradient, self.previous = start, gradient, start
        self.best_point, self.best_value, self.best_gradient = start, value, gradient
        self.best_step = torch.zeros((), dtype=torch.int64, device=start.device)
        self.values = [value]
        self.finite, self.bad_point = torch.isfinite(value), start
        self.step_length = torch.full((), 2.0 * radius, dtype=start.dtype, device=start.device)
        self.successes = torch.zeros((), dtype=torch.int64, device=start.device)
        self.best_at_mark = value
        self.halved_at_mark = torch.zeros((), dtype=torch.bool, device=start.device)

    def visit(self, z: Tensor, value: Tensor, gradient: Tensor | None) -> None:
        better = value > self.best_value
        self.bad_point = torch.where(self.finite, z, self.bad_point)  # follows z up to the first bad value
        self.finite = self.finite & torch.isfinite(value)
        self.previous, self.z = self.z, z
        self.best_point = torch.where(better, z, self.best_point)
        self.best_value = torch.where(better, value, self.best_value)
        self.best_step = torch.where(better, len(self.values), self.best_step)
        if gradient is not None:
            self.gradient = gradient
            self.best_gradient = torch.where(better, gradient, self.best_gradient)
        self.successes = self.successes + better
        self.values.append(value)

    def reconsider(self, period: int) -> None:
        """Halve the step and go back to the best point if too few steps since the last mark raised the best value, or if
        neither the step nor the best value changed since then."""
        too_few = self.successes < SUCCESS_FRACTION * period
        stalled = ~self.halved_at_mark & (self.best_value == self.best_at_mark)
        halve = too_few | stalled
        self.step_length = torch.where(halve, self.step_length / 2, self.step_length)
        self.z = torch.where(halve, self.best_point, self.z)
        self.gradient = torch.where(halve, self.best_gradient, self.gradient)
        self.previous = torch.where(halve, self.z, self.previous)  # no momentum across a restart
        self.halved_at_mark, self.best_at_mark = halve, self.best_value
        self.successes = torch.zeros_like(self.successes)
