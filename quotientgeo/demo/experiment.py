"""One function at many weights: what changes along the orbit of a model, and what does not."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from quotientgeo.demo.assets import BATCH_SIZE, Loaded
from quotientgeo.demo.outcome import Comparison, DemoResult, Pictured, SameFunction, SweepPoint, titled
from quotientgeo.errors import ArgumentError, SymmetryError
from quotientgeo.measures.evaluate import sharpness
from quotientgeo.measures.result import SharpnessResult
from quotientgeo.model.verify import VerificationReport

# key, name, arguments of ``sharpness``
MEASURES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("adaptive", "adaptive", {"measure": "adaptive"}),
    ("invariant", "geodesic, invariant metric", {"measure": "geodesic", "metric": "invariant"}),
    ("mixed", "geodesic, mixed metric", {"measure": "geodesic", "metric": "mixed"}),
)
SAME = 1e-9  # outputs may change by so much, relative to the largest, for each unit of 1000 of the condition number
DEMO_CONDITIONS = (1.0, 10.0, 100.0, 1000.0)
PICTURED_HEAD = 0  # of the first layer

Progress = Callable[[str, int, int], None]  # what is being done, ascent steps done, ascent steps in all


@dataclass(frozen=True)
class Settings:
    """rho, steps: of every measure. seed, condition: of the move that is shown in the table.

    conditions: of the moves in the figure, each with so many ``seeds`` from ``seed`` on.
    """

    rho: float = 0.1
    steps: int = 20
    seed: int = 0
    condition: float = 10.0
    conditions: tuple[float, ...] = DEMO_CONDITIONS
    seeds: int = 2

    def __post_init__(self) -> None:
        for condition in (self.condition, *self.conditions):
            if not (math.isfinite(condition) and condition >= 1):
                raise ArgumentError(f"a condition number must be finite and >= 1, got {condition!r}")
        for name, least in (("steps", 1), ("seed", 0), ("seeds", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise ArgumentError(f"{name} must be an int >= {least}, got {getattr(self, name)!r}")
        if not (math.isfinite(self.rho) and self.rho > 0):
            raise ArgumentError(f"rho must be a finite number > 0, got {self.rho!r}")

    @property
    def moves(self) -> list[tuple[float, int]]:
        """(condition, seed) of every point of the figure."""
        return [(condition, self.seed + k) for condition in self.conditions for k in range(self.seeds)]

    @property
    def shown(self) -> tuple[float, int]:
        return (self.condition, self.seed)


class _Run:
    """Counts ascent steps for the progress bar."""

    def __init__(self, loaded: Loaded, settings: Settings, progress: Progress | None) -> None:
        self.loaded, self.settings, self.progress = loaded, settings, progress
        fresh = sum(move != settings.shown for move in settings.moves)
        calls = len(MEASURES) * (2 * len(loaded.batches) + fresh)
        self.done, self.total = 0, calls * settings.steps

    def say(self, what: str) -> None:
        self._what = what
        if self.progress is not None:
            self.progress(what, self.done, self.total)

    def measure(self, model: nn.Module, batches: list[Any], arguments: dict[str, Any]) -> SharpnessResult:
        def tell(event: dict[str, Any]) -> None:
            if self.progress is not None:
                step = event["batch"] * event["steps"] + event["step"]
                self.progress(self._what, self.done + step, self.total)

        s = self.settings
        result = sharpness(
            model, self.loaded.task.loss, batches, **arguments, rho=s.rho, steps=s.steps, seed=s.seed, progress=tell
        )
        self.done += len(batches) * s.steps
        known = dict(self.loaded.definitions)
        if model is not self.loaded.model:  # moved weights are written as they were measured, under their own digest
            del known["model_digest"], known["stored_dtypes"]
        return replace(result, definitions=result.definitions | known)


def run_demo(
    loaded: Loaded, verified: VerificationReport, settings: Settings | None = None, *, progress: Progress | None = None
) -> DemoResult:
    """Move the loaded model along its orbit and measure it before and after, and at further points of the orbit.

    verified: what ``loaded.verify()`` gave. Raises SymmetryError where a move changes the function.
    """
    settings = settings or Settings()
    began = time.perf_counter()
    run = _Run(loaded, settings, progress)
    moved = moved_model(loaded, *settings.shown)
    same, pictured = compare(loaded, moved)
    comparisons = tuple(_comparisons(run, moved))
    sweep = tuple(_sweep(run, comparisons))
    coverage = loaded.graph.coverage()
    model = {"class": type(loaded.model).__name__, "kinds": coverage.kinds, "digits": BATCH_SIZE * len(loaded.batches)}
    model |= {name: getattr(coverage, name) for name in ("total", "block", "frozen", "rest", "redundant")}
    return DemoResult(
        settings=asdict(settings),
        model=model,
        verification=verified.summary(),
        same=same,
        comparisons=comparisons,
        sweep=sweep,
        pictured=pictured,
        moved_state=moved.state_dict(),
        seconds=time.perf_counter() - began,
    )


def moved_model(loaded: Loaded, condition: float, seed: int) -> nn.Module:
    """The same function at other weights. Raises SymmetryError where its outputs on the held-out digits are not the same."""
    moved = copy.deepcopy(loaded.model)
    moved.load_state_dict(loaded.graph.move(seed=seed, condition=condition))
    before, after = outputs(loaded.model, loaded.held_out), outputs(moved, loaded.held_out)
    change = float((after - before).abs().max() / before.abs().max())
    if not change <= SAME * max(1.0, condition / 1000):
        raise SymmetryError(
            f"the move with condition {condition:g} and seed {seed} changes the outputs by {change:.1e}"
        )
    return moved


def outputs(model: nn.Module, batches: list[Any]) -> Tensor:
    """Logits (images, classes)."""
    with torch.no_grad():
        return torch.cat([model(pixel_values=batch["pixel_values"]).logits for batch in batches])


def compare(loaded: Loaded, moved: nn.Module) -> tuple[SameFunction, Pictured]:
    """Both models as functions, and what of them is drawn."""
    models = (loaded.model, moved)
    held, digits = ([outputs(model, batches) for model in models] for batches in (loaded.held_out, loaded.batches))
    labels, classes = (torch.cat([b["labels"] for b in batches]) for batches in (loaded.held_out, loaded.batches))
    accuracy = [float((logits.argmax(1) == labels).double().mean()) for logits in held]
    loss = [float(nn.functional.cross_entropy(logits, classes)) for logits in digits]
    parameters, new = loaded.graph.parameters, dict(moved.named_parameters())
    masks = {name: loaded.graph.factor_mask(name) for name in parameters}
    old_weights, new_weights = (
        torch.cat([source[name].detach()[mask] for name, mask in masks.items()]) for source in (parameters, new)
    )
    same = SameFunction(
        logit_difference=max(float((b - a).abs().max()) for a, b in (held, digits)),
        logit_size=max(float(a.abs().max()) for a, _ in (held, digits)),
        loss=(loss[0], loss[1]),
        accuracy=(accuracy[0], accuracy[1]),
        held_out=len(labels),
        weight_change=float((new_weights - old_weights).norm() / old_weights.norm()),
    )
    block = next(b for b in loaded.graph.blocks if b.kind == "attention_qk" and b.head == PICTURED_HEAD)
    _, leg = block.legs[0]
    name, rows = leg.tensor, list(leg.indices or range(len(parameters[leg.tensor])))
    weights = [source[name].detach()[rows].numpy() for source in (parameters, new)]
    shown = Pictured(name, (weights[0], weights[1]), (held[0].numpy(), held[1].numpy()))
    return same, shown


def _comparisons(run: _Run, moved: nn.Module) -> Iterator[Comparison]:
    for key, name, arguments in MEASURES:
        found = []
        for where, model in (("the stored weights", run.loaded.model), ("the moved weights", moved)):
            run.say(f"{titled(name)}, at {where}")
            found.append(run.measure(model, run.loaded.batches, arguments))
        yield Comparison(key, name, *found)


def _sweep(run: _Run, comparisons: tuple[Comparison, ...]) -> Iterator[SweepPoint]:
    """The first batch at every point of the figure; the one in the table is not measured twice."""
    for condition, seed in run.settings.moves:
        shown = (condition, seed) == run.settings.shown
        model = run.loaded.model if shown else moved_model(run.loaded, condition, seed)
        for (key, _, arguments), known in zip(MEASURES, comparisons, strict=True):
            reference = _first(known.before)
            if shown:
                yield SweepPoint(key, condition, seed, _first(known.after), reference)
                continue
            run.say(f"further points of the orbit: condition {condition:g}, seed {seed}")
            found = run.measure(model, run.loaded.batches[:1], arguments)
            yield SweepPoint(key, condition, seed, _first(found), reference)


def _first(result: SharpnessResult) -> float:
    return result.per_batch[0] if result.ok else math.nan
