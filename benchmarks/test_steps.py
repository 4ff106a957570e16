"""What one step of the search costs, in passes forward and backward through the model."""

from __future__ import annotations

from typing import Any

import pytest

import quotientgeo as qg
from benchmarks.clock import Compared, Time, timed, typical
from benchmarks.conftest import THREADS, Say, load
from benchmarks.minilm import Case
from benchmarks.standard import StandardEvaluator

RHO, STEPS = 0.05, 20  # the defaults of sharpness()
MEASURES: dict[str, dict[str, Any]] = {
    "geodesic, invariant, exact": {"metric": "invariant", "geodesic": "exact"},
    "geodesic, invariant, order 2": {"metric": "invariant", "geodesic": 2},
    "geodesic, mixed, exact": {"metric": "mixed", "geodesic": "exact"},
    "adaptive": {"measure": "adaptive"},
}
STANDARD = "standard evaluator (adaptive)"
# examples, length -> steps timed of each measure and of the standard evaluator, limits of the ratio by metric
SIZES = {
    (32, 64): (6, 3, {"invariant": 1.15, "mixed": 1.35}),
    (8, 32): (12, 6, {"invariant": 1.7, "mixed": 2.5}),
}


class _Enough(Exception):
    pass


def compare(case: Case, settings: dict[str, Any], count: int) -> tuple[Compared, Time]:
    """``count`` steps of a search, a forward and a backward pass after each; and what came before the first step."""
    found, marks = Compared([], []), [Time.now()]
    set_up: list[Time] = []

    def after_a_step(_: dict[str, Any]) -> None:
        step = Time.now() - marks[-1]
        if set_up:
            found.steps.append(step)
            found.baseline.append(timed(case.forward_backward))
        else:
            set_up.append(step)  # with loading on demand, verification, the canonical gauge and the first step
            timed(case.forward_backward)
        if len(found.steps) == count:
            raise _Enough
        marks.append(Time.now())

    with pytest.raises(_Enough):
        qg.sharpness(case.model, case.loss, [case.batch], rho=RHO, steps=STEPS, progress=after_a_step, **settings)
    case.model.zero_grad(set_to_none=True)
    return found, set_up[0]


def compare_standard(case: Case, count: int) -> tuple[Compared, float]:
    """The same of the standard evaluator, and its bisections in a step."""
    evaluator, found = StandardEvaluator(case.model, case.mean, RHO), Compared([], [])
    evaluator.step()
    evaluator.bisections = 0
    for _ in range(count):
        found.steps.append(timed(evaluator.step))
        found.baseline.append(timed(case.forward_backward))
    evaluator.restore()
    return found, evaluator.bisections / count


@pytest.mark.parametrize(("examples", "length"), SIZES)
def test_steps(examples: int, length: int, say: Say) -> None:
    count, standard_count, limits = SIZES[examples, length]
    clock = "CPU" if THREADS == 1 else "wall"
    case = Case.of(examples, length)
    case.forward_backward()
    say()
    say(f"One step at {examples} x {length} tokens, in units of one forward and backward pass; {load()}")
    say(
        f"  MiniLM, {case.parameters / 1e6:.1f} M parameters, float32, evaluation mode, attention {case.attention!r}; medians"
    )
    baseline, missed = [], []
    for name, settings in MEASURES.items():
        found, set_up = compare(case, settings, count)
        baseline += found.baseline
        limit = limits.get(settings.get("metric", ""))
        say(_line(name, found, f"at most {limit}" if limit else "") + f"   before the first step: {set_up}")
        if limit and getattr(found.ratio, clock.lower()) > limit:
            missed.append(f"{name}: {getattr(found.ratio, clock.lower()):.2f}, at most {limit}")
    found, bisections = compare_standard(case, standard_count)
    say(_line(STANDARD, found, "") + f"   {bisections:.0f} bisections a step")
    say(f"  one forward and backward pass: {typical(baseline + found.baseline)}; limits are held against {clock} time")
    assert not missed


def _line(name: str, found: Compared, limit: str) -> str:
    ratio = found.ratio
    return f"  {name:30} {ratio.cpu:6.2f} CPU  {ratio.wall:6.2f} wall  {limit:12}"


def test_the_standard_evaluator_finds_what_the_adaptive_measure_finds(say: Say) -> None:
    """A yardstick has to do the work: from the same point, in the same ball, both reach about the same loss.

    Not quite: it steps along |w| g, where the steepest ascent in its norm is w^2 g, and here it never halves its step.
    """
    case = Case.of(4, 16)
    start = case.mean().item()
    ours = qg.sharpness(case.model, case.loss, [case.batch], measure="adaptive", rho=RHO, steps=STEPS).value
    evaluator = StandardEvaluator(case.model, case.mean, RHO)
    for _ in range(STEPS):
        evaluator.step()
    evaluator.restore()
    say()
    say(
        f"The standard evaluator raises the loss by {evaluator.best - start:.6f} in {STEPS} steps, quotientgeo by {ours:.6f}"
    )
    assert 0.8 * ours < evaluator.best - start < 1.001 * ours
    assert case.mean().item() == start
