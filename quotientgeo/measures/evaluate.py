"""``sharpness``: one call from a model, a loss and batches to a number with all that defines it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import nn

from quotientgeo.errors import BlockError
from quotientgeo.measures import adaptive, euclidean
from quotientgeo.measures import geodesic as geodesic_measure
from quotientgeo.measures.ascent import BatchAscent, Progress, Settings
from quotientgeo.measures.batches import Batch, fixed_batches
from quotientgeo.measures.call import Call
from quotientgeo.measures.fitting import first_observation, require_fitting
from quotientgeo.measures.objective import Loss, Objective
from quotientgeo.measures.problem import Observation, Problem, raised, working_dtype
from quotientgeo.measures.report import OUTCOMES, Report, reset_peak_memory
from quotientgeo.measures.result import SharpnessResult
from quotientgeo.measures.verification import Verified, verify_before_use
from quotientgeo.model.checkpoint import load_notes
from quotientgeo.model.exclusive import exclusive
from quotientgeo.model.geometries import Geometry
from quotientgeo.model.graph import SymmetriesName, SymmetryGraph, symmetry_graph
from quotientgeo.model.inventory import Inventory, inventory
from quotientgeo.model.probe import require_evaluation_mode
from quotientgeo.model.structure import all_in_dtype


def sharpness(
    model: nn.Module,
    loss: Loss | None,
    batches: Iterable[Batch],
    *,
    measure: Literal["geodesic", "adaptive", "euclidean"] = "geodesic",
    metric: Literal["invariant", "mixed"] | Geometry = "invariant",
    geodesic: Literal["exact", 1, 2, 3, 4] = "exact",
    rho: float = 0.05,
    steps: int = 20,
    starts: int = 1,
    seed: int = 0,
    symmetries: SymmetriesName = "attention",
    graph: SymmetryGraph | None = None,
    micro_batch_size: int | None = None,
    unverified: Literal["refuse", "exclude"] = "refuse",
    allow_training_mode: bool = False,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> SharpnessResult:
    """Worst-case sharpness: mean over batches S of max_{|xi| <= rho} L_S(Exp_w(xi)) - L_S(w).

    model: any torch module in evaluation mode; its weights are never changed. Calls from several threads wait for one
        another; do nothing else with the model meanwhile.
    loss: ``loss(model, batch)`` returning ``(sum, count)`` or a mean scalar; None for a Hugging Face model with labels in
        dict batches. Only (sum, count) can be split by ``micro_batch_size``.
    batches: a list of batches (dicts, tuples or tensors); a DataLoader that shuffles is refused.
    measure: "geodesic" (horizontal geodesics on verified pair blocks, the adaptive recipe on the rest), "adaptive" (norm
        |xi/|w||_2 on everything) or "euclidean" (|xi|_2).
    metric: "invariant" or "mixed" (da Silva, Dangel, Oore 2025, (9) and (10)) for pair blocks, or what ``derive`` returned:
        it moves every pair block (its symmetry must be theirs) and every declared block of the same symmetry. Blocks with
        another geometry of their own keep it. For "geodesic" only.
    geodesic: "exact" (a closed form where there is one, else integrated until the end point is settled), or the order 1 to 4 of
        its Taylor approximation.
    rho: radius of the ball in the measure's norm, dimensionless for invariant and adaptive.
    steps, starts, seed: budget of Auto-PGD. The first start follows the gradient from w; the second begins opposite to
        what it found, if the loss there rises at least half as much (about a minimum it is nearly even, with two maxima that
        differ); the others at seeded random points of the sphere, drawn independently of the gauge.
    symmetries: "attention" (GL(h) per head for query-key and value-output; key biases frozen, value biases folded into the
        output bias), "paper" (the same groups, query, key and value biases as rows of the factors, nothing frozen: another
        measure) or "none".
    graph: the model's ``symmetry_graph``, if it was built or extended by hand.
    unverified: what to do with a declared symmetry that does not hold on this model: "refuse" or "exclude" (its parameters
        join the rest; named in the result).
    allow_training_mode: measure a model in training mode, with one dropout mask drawn from ``seed``; refused otherwise.
    progress: called with a dict after every step.

    Returns a ``SharpnessResult``. A non-finite loss, a block without full rank and a collapsing or unsettled mixed geodesic
    are named outcomes with value NaN; everything wrong with the call itself raises.
    """
    began = time.perf_counter()
    settings = Settings(rho, steps, starts, seed)
    call = Call(measure, metric, geodesic, symmetries, unverified, micro_batch_size, allow_training_mode, settings)
    require_fitting(call, model, loss, graph)
    sample = fixed_batches(batches)
    with exclusive(model):
        known = _checked_inventory(model, call)
        given = graph is not None and call.uses_blocks
        used = _graph_of(model, graph, call.symmetries, known) if call.uses_blocks else None
        report = Report(call, model, sample, load_notes(model), given)
        try:
            _measure(report, used, known, loss, progress)
        except tuple(OUTCOMES) as error:
            report.failure = error
        return report.result(time.perf_counter() - began)


def _measure(
    report: Report,
    graph: SymmetryGraph | None,
    known: Inventory,
    loss: Loss | None,
    progress: Callable[[dict[str, Any]], None] | None,
) -> None:
    """Try the loss, verify, build the problem once, and maximise batch by batch; what is found is in the report at once."""
    call, model, sample = report.call, report.model, report.sample
    reset_peak_memory(next(model.parameters()).device)
    dtype, raised_note = working_dtype(model)
    report.notes += [raised_note] if raised_note else []
    parameters = raised(dict(known.parameters), dtype)
    constants = raised(dict(model.named_buffers()), dtype) if raised_note else {}
    training_seed = call.settings.seed if any(module.training for module in model.modules()) else None

    def objective(batch: Batch) -> Objective:
        batch = all_in_dtype(batch, dtype) if raised_note else batch
        return Objective(model, loss, batch, call.micro_batch_size, constants, training_seed, known.aliases)

    # before any symmetry is tested: of a loss that cannot be used the user wants to hear that, not what it did to a test
    first = objective(sample[0])
    seen: Observation | None = first_observation(first, model, parameters, sample[0])
    if graph is not None:
        report.verified = verify_before_use(graph, loss, sample, call)
    report.problem = problem = _build(call, model, dtype, graph, report.verified)
    for index, batch in enumerate(sample):
        ascent = BatchAscent(problem, objective(batch) if index else first, model, parameters, seen)
        seen = None
        report.found.append(ascent.run(call.settings, index, _progress(progress, index, len(sample), call.settings)))


def _checked_inventory(model: nn.Module, call: Call) -> Inventory:
    known = inventory(model)
    if not known.parameters:
        raise BlockError(f"{type(model).__name__} has no parameters: there is nothing to move")
    if not call.allow_training_mode:
        require_evaluation_mode(model)
    return known


def _graph_of(
    model: nn.Module, graph: SymmetryGraph | None, symmetries: SymmetriesName, known: Inventory
) -> SymmetryGraph:
    if graph is None:
        return symmetry_graph(model, symmetries=symmetries)
    if graph.model is not model:
        raise BlockError("graph belongs to another model object: build it with symmetry_graph(model) from this one")
    replaced = [name for name, p in known.parameters.items() if graph.parameters.get(name) is not p]
    if replaced or len(known.parameters) != len(graph.parameters):
        raise BlockError(
            f"the model's parameters were replaced after graph was built ({', '.join(replaced[:3]) or 'some are gone'}): "
            "build the graph again"
        )
    return graph


def _build(
    call: Call, model: nn.Module, dtype: torch.dtype, graph: SymmetryGraph | None, verified: Verified
) -> Problem:
    if call.measure == "euclidean":
        return euclidean.build(model, dtype)
    if graph is None or not call.uses_blocks:
        return adaptive.build(model, dtype)
    return geodesic_measure.build(
        model,
        dtype,
        graph,
        metric=call.metric,
        geodesic=call.geodesic,
        rho=call.settings.rho,
        excluded=verified.excluded,
    )


def _progress(
    callback: Callable[[dict[str, Any]], None] | None, batch: int, batches: int, settings: Settings
) -> Progress | None:
    if callback is None:
        return None

    def tell(start: int, step: int) -> None:
        callback(
            {"batch": batch, "batches": batches, "start": start, "starts": settings.starts, "step": step}
            | {"steps": settings.steps}
        )

    return tell
