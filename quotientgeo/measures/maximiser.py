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

from quotientgeo.measures.vectors import ball_factor, copy_where_, inner_products, is_tame, tame_

MOMENTUM = 0.75
FIRST_PERIOD, PERIOD_DECREASE, SHORTEST_PERIOD = 0.22, 0.03, 0.06
SUCCESS_FRACTION = 0.75
_TINY = torch.finfo(torch.float64).tiny

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
    gradient at the start, if the caller has them. The first step length is 2 radius. ``start`` and the known gradient become
    buffers of the ascent; points handed to the callables, and gradients they return, may be overwritten by the next step.
    """
    state = _State(start, known, value_and_gradient, radius)
    marks, period_start = check_points(steps), 0
    for k in range(1, steps + 1):
        state.advance(first=k == 1)
        if k == steps:
            state.visit(value(state.z), None)
        else:
            state.visit(*value_and_gradient(state.z))
            if k in marks:
                state.reconsider(period=k - period_start)
                period_start = k
        if on_step is not None:
            on_step(k)
    values = torch.stack(state.values)
    return Ascent(state.best_point, state.best_value, state.best_step, values, state.finite, state.bad_point)


class _State:
    """Point, gradient, best point and step length of one ascent, all on the device, in five buffers of d coordinates.

    A step is one linear combination of z, the gradient g and the previous point, whose coefficients follow from inner
    products: no other pass over the coordinates is made.
    """

    def __init__(
        self, start: Tensor, known: tuple[Tensor, Tensor] | None, evaluate: ValueAndGradient, radius: float
    ) -> None:
        self.radius = radius
        start.mul_(ball_factor(start, radius))
        self.z, self.previous = start, start.clone()
        value, gradient = known if known is not None else evaluate(self.z)
        self.gradient = gradient
        self.best_point, self.best_value, self.best_gradient = start.clone(), value, gradient.clone()
        self.best_step = torch.zeros((), dtype=torch.int64, device=start.device)
        self.values = [value]
        self.finite = torch.isfinite(value)
        self.bad_point = self.z.clone() if self.bad_point_needed(self.finite) else self.best_point
        self.step_length = torch.full((), 2.0 * radius, dtype=torch.float64, device=start.device)
        (self.z_previous,) = (self.previous_square,) = inner_products(start, [start])
        self.successes = torch.zeros((), dtype=torch.int64, device=start.device)
        self.best_at_mark = value
        self.halved_at_mark = torch.zeros((), dtype=torch.bool, device=start.device)

    def advance(self, first: bool) -> None:
        """Move z: candidate = proj(z + step g/|g|), then proj(z + 0.75 (candidate - z) + 0.25 (z - previous)); the first
        time the candidate itself."""
        gg, gz, gp = self._gradient_products()
        (zz,) = inner_products(self.z, [self.z])
        zp, pp = self.z_previous, self.previous_square
        t = torch.where(gg > 0, self.step_length / gg.clamp_min(_TINY).sqrt(), gg)  # a NaN stays one
        f = self._shrink(zz + 2 * t * gz + t * t * gg)
        a, b, c = f, f * t, torch.zeros_like(f)
        if not first:
            a, b, c = MOMENTUM * (a - 1) + 2 - MOMENTUM, MOMENTUM * b, c - (1 - MOMENTUM)
        e = self._shrink(a * a * zz + b * b * gg + c * c * pp + 2 * (a * b * gz + a * c * zp + b * c * gp))
        a, b, c = e * a, e * b, e * c
        self.previous.mul_(c.to(self.z.dtype))
        self.previous.addcmul_(self.z, a.to(self.z.dtype)).addcmul_(self.gradient, b.to(self.z.dtype))
        self.z, self.previous = self.previous, self.z
        self.z_previous, self.previous_square = a * zz + b * gz + c * zp, zz

    def _gradient_products(self) -> list[Tensor]:
        """g'g, g'z, g'p, with g scaled where its squares leave the range of floating point: its direction is all that counts.

        On a device always: asking whether it is needed would wait for the answer.
        """
        others, on_cpu = [self.gradient, self.z, self.previous], self.gradient.device.type == "cpu"
        if on_cpu:
            products = inner_products(self.gradient, others)
            if is_tame(products[0], self.gradient.dtype):
                return products
        tame_(self.gradient)
        return inner_products(self.gradient, others)

    def _shrink(self, square: Tensor) -> Tensor:
        """min(1, radius / |x|) from |x|^2."""
        return (self.radius / square.clamp_min(_TINY).sqrt()).clamp_max(1.0)

    def visit(self, value: Tensor, gradient: Tensor | None) -> None:
        better = value > self.best_value
        finite = torch.isfinite(value)
        if self.bad_point_needed(finite):
            self.bad_point = torch.where(self.finite & ~finite, self.z, self.bad_point)
        self.finite = self.finite & finite
        copy_where_(better, self.z, self.best_point)
        self.best_value = torch.where(better, value, self.best_value)
        self.best_step = torch.where(better, len(self.values), self.best_step)
        if gradient is not None:
            self.gradient = gradient
            copy_where_(better, gradient, self.best_gradient)
        self.successes = self.successes + better
        self.values.append(value)

    def bad_point_needed(self, finite: Tensor) -> bool:
        """On a CPU only where the value is not finite; on a device always, rather than wait for the answer."""
        return finite.device.type != "cpu" or not bool(finite)

    def reconsider(self, period: int) -> None:
        """Halve the step and go back to the best point if too few steps since the last mark raised the best value, or if
        neither the step nor the best value changed since then."""
        too_few = self.successes < SUCCESS_FRACTION * period
        stalled = ~self.halved_at_mark & (self.best_value == self.best_at_mark)
        halve = too_few | stalled
        self.step_length = torch.where(halve, self.step_length / 2, self.step_length)
        copy_where_(halve, self.best_point, self.z)
        copy_where_(halve, self.best_gradient, self.gradient)
        copy_where_(halve, self.best_point, self.previous)  # no momentum across a restart
        (square,) = inner_products(self.z, [self.z])
        self.z_previous = torch.where(halve, square, self.z_previous)
        self.previous_square = torch.where(halve, square, self.previous_square)
        self.halved_at_mark, self.best_at_mark = halve, self.best_value
        self.successes = torch.zeros_like(self.successes)
