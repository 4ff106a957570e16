"""The maximum over one batch: all starts, the checks at the maximiser, and the account of who gained what."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from quotientgeo.errors import LossError, NonFiniteLossError, SymmetryError
from quotientgeo.measures.charts import Atlas
from quotientgeo.measures.maximiser import Ascent, auto_pgd
from quotientgeo.measures.objective import Objective
from quotientgeo.measures.problem import Observation, Problem, observe
from quotientgeo.measures.result import BatchResult
from quotientgeo.measures.vectors import norm

NORM_TOLERANCE = 1e-5  # the achieved norm never exceeds rho by more than this, relatively
# How far the loss at the canonical gauge may lie from the loss at the given weights: the two are the same function evaluated
# at different, equally valid, parameters. Relatively to the loss, to the first-order gain in the ball, and to 1.
GAUGE_TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-3}
HARMLESS = 1e-2
ROUNDING = 10
NEARLY_EVEN = (
    0.5  # least share of the first start's rise that its opposite must have, to be where the second one begins
)

Progress = Callable[[int, int], None]  # start, step


@dataclass(frozen=True)
class Settings:
    """The budget of one ascent."""

    rho: float
    steps: int
    starts: int
    seed: int


@dataclass(frozen=True)
class Found:
    """Result of one batch, with the problem as refined for it (integrator steps) and what the batch left unused."""

    result: BatchResult
    problem: Problem
    norm_shares: dict[str, float]
    gain_shares: dict[str, float]
    unused: frozenset[str]
    stationary: bool = False  # the gradient at the weights is exactly zero


class BatchAscent:
    """Maximise the loss of one batch over the ball of a problem's charts."""

    def __init__(
        self,
        problem: Problem,
        objective: Objective,
        model: nn.Module,
        parameters: dict[str, Tensor],
        seen: Observation | None = None,
    ) -> None:
        """``parameters`` are the model's own weights in the dtype of the ascent: the loss is checked against theirs. ``seen``
        is what ``observe`` found there, if that is known."""
        self.problem, self.objective = problem, objective
        self.seen: Observation = observe(objective, model, parameters) if seen is None else seen
        self.atlas: Atlas = problem.atlas(self.seen)
        self.workspace = self.atlas.workspace(self.seen.tables)

    def value(self, z: Tensor) -> Tensor:
        with torch.no_grad(), full_precision(z.device):
            parameters = self.workspace.move(z)
        with self.objective.reading(self.seen.tables):
            return self.objective.value(parameters)

    def value_and_gradient(self, z: Tensor, same_as_seen: bool = False) -> tuple[Tensor, Tensor]:
        """Loss and dL/dz, the latter in a buffer that the next call overwrites. However many micro-batches the loss takes, its
        gradient is pulled back to z once. With ``same_as_seen`` the loss must use what it used when it was observed."""
        with torch.no_grad(), full_precision(z.device):
            parameters = self.workspace.move(z)
        with self.objective.reading(self.seen.tables):
            value, gradient = self.objective.value_and_gradient(parameters, self.workspace.names)
        lost = sorted(name for name, g in gradient.items() if g is None and name not in self.seen.unused)
        if same_as_seen and lost:
            raise LossError(
                f"the loss used {', '.join(lost[:3])} in a first pass and not in a second one: the model keeps results between "
                "calls (a cache, parametrize.cached()); turn that off"
            )
        with torch.no_grad(), full_precision(z.device):
            return value, self.workspace.pull(gradient)

    def run(self, settings: Settings, batch_index: int, progress: Progress | None = None) -> Found:
        loss, gradient = self.value_and_gradient(self.atlas.zero(), same_as_seen=True)
        reference = (loss, gradient.clone())
        self._check_reference(loss, settings.rho * float(norm(gradient)))
        stationary = not bool(gradient.any())
        best: Ascent | None = None
        best_start, traces = 0, []
        for start in range(settings.starts):
            if start == 0 and not stationary:
                begin, known = self.atlas.zero(), reference
            else:
                begin, known = self._beginning(settings, batch_index, start, best, reference), None
            ascent = auto_pgd(
                self.value_and_gradient,
                self.value,
                begin,
                radius=settings.rho,
                steps=settings.steps,
                known=known,
                on_step=None if progress is None else partial(progress, start),
            )
            traces.append(ascent.values.tolist())
            if not bool(ascent.finite):
                self._diagnose(ascent, start)
            if best is None or float(ascent.best_value) > float(best.best_value):
                best, best_start = ascent, start
        assert best is not None
        return replace(self._conclude(settings, reference, best, best_start, traces), stationary=stationary)

    def _beginning(
        self, settings: Settings, batch_index: int, start: int, best: Ascent | None, reference: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Where a start that does not follow the gradient from w begins: the second opposite to the maximiser of the first, where
        the loss rises nearly alike on both sides, as it does about a minimum; the others at random on the sphere."""
        loss, gradient = reference
        if start == 1 and best is not None and bool(best.best_point.any()):
            opposite = best.best_point.neg()
            if float(self.value(opposite) - loss) >= NEARLY_EVEN * float(best.best_value - loss):
                return opposite
        generator = torch.Generator().manual_seed(start_seed(settings.seed, batch_index, start))
        # some charts know no other direction than that of the gradient
        return self.atlas.random_point(generator, settings.rho, gradient)

    def _check_reference(self, loss: Tensor, gain: float) -> None:
        """``gain`` is rho |dL/dz|, the size of what is measured: what is small beside it does no harm."""
        given, here = float(self.seen.loss), float(loss)
        if not (torch.isfinite(self.seen.loss) and torch.isfinite(loss)):
            raise NonFiniteLossError(
                f"the loss at the model's own weights is {given} (and {here} in the canonical gauge): "
                "check the batch for labels that are all masked, and the weights for NaN"
            )
        dtype = self.atlas.dtype
        allowed = max(GAUGE_TOLERANCE[dtype] * abs(given), HARMLESS * gain, ROUNDING * torch.finfo(dtype).eps)
        if abs(here - given) > allowed:
            raise SymmetryError(
                f"the loss is {given!r} at the model's own weights but {here!r} at the equivalent ones in the canonical gauge: "
                "either the loss is not deterministic (dropout, sampling), or a symmetry does not hold on this batch"
            )

    def _diagnose(self, ascent: Ascent, start: int) -> None:
        """Name the reason of a non-finite loss: a collapsing geodesic where one is found, else the loss itself."""
        step = int((~torch.isfinite(ascent.values)).nonzero()[0])
        for chart, piece in zip(self.problem.blocks, self.atlas.pieces(ascent.first_bad_point), strict=False):
            chart.require_regular(piece)
        raise NonFiniteLossError(
            f"the loss became {float(ascent.values[step])} at step {step} of start {start} (inside the ball): "
            "the model overflows there; use a smaller rho or a wider dtype"
        )

    def _conclude(
        self,
        settings: Settings,
        reference: tuple[Tensor, Tensor],
        best: Ascent,
        best_start: int,
        traces: list[list[float]],
    ) -> Found:
        z, loss = best.best_point, float(reference[0])
        maximum = self._refined_maximum(z, float(best.best_value))
        achieved = self.atlas.achieved_norm(z)
        if achieved > settings.rho * (1 + NORM_TOLERANCE):
            raise AssertionError(
                f"the maximiser left its ball: |xi| = {achieved} > rho = {settings.rho}; please report this"
            )
        if maximum < loss:  # the starting point itself is in the ball
            maximum, z, achieved = loss, torch.zeros_like(z), 0.0
        result = BatchResult(
            value=maximum - loss,
            loss=loss,
            maximum=maximum,
            achieved_norm=achieved,
            best_start=best_start,
            best_step=int(best.best_step),
            trace=traces,
            # the loss at the given weights and in the canonical gauge differ by rounding alone: of a forward pass in half
            # precision this is the only sign
            resolution=max(torch.finfo(z.dtype).eps * abs(loss), abs(loss - float(self.seen.loss))),
        )
        norm_shares = _normalised(self.atlas.shares(z, z))
        gain_shares = _normalised(self.atlas.shares(reference[1], z))
        return Found(result, self.problem, norm_shares, gain_shares, self.seen.unused)

    def _refined_maximum(self, z: Tensor, maximum: float) -> float:
        """Double the integrator's steps until the end point at the maximiser is settled; the loss there is the value."""
        charts = self.problem.blocks
        refined = [chart.settled(piece) for chart, piece in zip(charts, self.atlas.pieces(z), strict=False)]
        if all(new.steps == chart.steps for new, chart in zip(refined, charts, strict=True)):
            return maximum
        self.problem = self.problem.with_blocks(refined)
        self.atlas = self.problem.atlas(self.seen)
        self.workspace = self.atlas.workspace(self.seen.tables)
        settled = float(self.value(z))
        if not math.isfinite(settled):
            raise NonFiniteLossError(
                f"the loss at the maximiser became {settled} when its geodesic was integrated with more steps: "
                "the model overflows there; use a smaller rho or a wider dtype"
            )
        return settled


def _normalised(sums: dict[str, float]) -> dict[str, float]:
    total = sum(sums.values())
    return {name: (value / total if total else 0.0) for name, value in sums.items()}


def start_seed(seed: int, batch: int, start: int) -> int:
    """A 63-bit hash of (seed, batch, start), the same on every machine."""
    digest = hashlib.sha256(f"{seed}/{batch}/{start}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """The geometry keeps its dtype, whatever the caller chose for the forward pass: no autocast, no TF32."""
    matmul = torch.backends.cuda.matmul
    tf32 = matmul.allow_tf32
    if tf32:
        matmul.allow_tf32 = False
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        if tf32:
            matmul.allow_tf32 = True
