"""Assemble a SharpnessResult from what the batches found, or from what stopped them."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from quotientgeo import __version__
from quotientgeo.errors import (
    GeodesicAccuracyError,
    GeodesicCollapseError,
    NonFiniteError,
    NonFiniteLossError,
    QuotientgeoError,
    RankDeficientError,
)
from quotientgeo.measures import adaptive, euclidean, geodesic
from quotientgeo.measures.ascent import Found
from quotientgeo.measures.batches import Batch, batch_size, data_digest
from quotientgeo.measures.call import Call
from quotientgeo.measures.declared_chart import DeclaredChart, described
from quotientgeo.measures.problem import Problem, working_dtype
from quotientgeo.measures.result import SharpnessResult
from quotientgeo.measures.verification import Verified
from quotientgeo.model.blocks import GroupBlock, PairBlock
from quotientgeo.model.checkpoint import model_digest

# What can go wrong in the mathematics, as opposed to in the call: a named outcome, not an exception.
OUTCOMES: dict[type[QuotientgeoError], str] = {
    NonFiniteLossError: "non_finite_loss",
    NonFiniteError: "non_finite_weights",
    RankDeficientError: "rank_deficient",
    GeodesicCollapseError: "geodesic_collapsed",
    GeodesicAccuracyError: "geodesic_inaccurate",
}
NORMS = {"geodesic": geodesic.NORM, "adaptive": adaptive.NORM, "euclidean": euclidean.NORM}
UNUSED = "no gradient of the loss reaches it"
RESOLUTION_WARNING = 100  # a value below this many rounding errors of the loss is named as such


@dataclass
class Report:
    """Collects while the call runs; ``result`` closes it."""

    call: Call
    model: nn.Module
    sample: Sequence[Batch]
    notes: list[str]
    given_graph: bool = False
    verified: Verified = field(default_factory=Verified)
    problem: Problem | None = None
    found: list[Found] = field(default_factory=list)
    failure: QuotientgeoError | None = None

    def result(self, seconds: float) -> SharpnessResult:
        ok = self.failure is None
        problem = self.problem
        batches = [found.result for found in self.found]
        outcome = "ok" if self.failure is None else OUTCOMES[type(self.failure)]
        where = "" if ok or problem is None else f"batch {len(self.found)}: "
        return SharpnessResult(
            value=sum(batch.value for batch in batches) / len(batches) if ok else math.nan,
            outcome=outcome,
            detail="" if ok else f"{where}{self.failure}",
            batches=batches,
            per_block=self._per_block(),
            definitions=self._definitions(),
            frozen={} if problem is None else dict(problem.frozen),
            left_out=({} if problem is None else dict(problem.left_out)) | self._unused() | self.verified.excluded,
            verification=self.verified.summary,
            notes=[
                *self.notes,
                *self.call.without_effect(),
                *self._untrained_notes(),
                *self._stationary_notes(),
                *self._resolution_notes(),
            ],
            seconds=seconds,
            peak_memory_bytes=peak_memory(next(self.model.parameters()).device),
        )

    def _per_block(self) -> dict[str, dict[str, float]]:
        shares: dict[str, dict[str, float]] = {}
        for found in self.found:
            for key, part in (("norm_share", found.norm_shares), ("gain_share", found.gain_shares)):
                for name, value in part.items():
                    entry = shares.setdefault(name, {"norm_share": 0.0, "gain_share": 0.0})
                    entry[key] += value / len(self.found)
        return shares

    def _unused(self) -> dict[str, str]:
        """Tensors that no batch's loss used; one that some batch used has taken part there."""
        if not self.found:
            return {}
        unused = frozenset.intersection(*(found.unused for found in self.found))
        known = set() if self.problem is None else set(self.problem.frozen) | set(self.problem.left_out)
        return dict.fromkeys(sorted(unused - known), UNUSED)

    def _definitions(self) -> dict[str, Any]:
        call, settings = self.call, self.call.settings
        sizes = list(dict.fromkeys(batch_size(batch) for batch in self.sample))
        parameters = list(self.model.parameters())
        definitions = {
            "measure": call.measure,
            "rho": float(settings.rho),
            "norm": self._norm(),
            "aggregation": "mean over batches of the maximum over the ball",
            "maximiser": "Auto-PGD (Croce and Hein 2020; success: a new best value), momentum 0.75, first step 2 rho",
            "steps": settings.steps,
            "starts": settings.starts,
            "seed": settings.seed,
            "symmetries": self._symmetries(),
            "training_mode": any(module.training for module in self.model.modules()),
            "batches": len(self.sample),
            "examples_per_batch": sizes[0] if len(sizes) == 1 else sizes,
            "micro_batch_size": call.micro_batch_size,
            "dtype": str(working_dtype(self.model)[0]).removeprefix("torch."),
            "autocast": _autocast(parameters[0].device.type),
            "stored_dtypes": sorted({str(p.dtype).removeprefix("torch.") for p in parameters}),
            "device": str(parameters[0].device),
            "model_class": type(self.model).__name__,
            "model_digest": model_digest(self.model),
            "data_digest": data_digest(self.sample),
            "versions": {"quotientgeo": __version__, "torch": torch.__version__, "python": platform.python_version()},
        }
        if call.uses_blocks:
            definitions |= {
                "metric": " and ".join(self._metrics()),
                "geodesic": call.geodesic,
                "integrator_steps": self._integrator_steps(),
                "unverified": call.unverified,
                "blocks": self._blocks(),
            }
            declared = described([] if self.problem is None else self.problem.blocks)
            definitions |= {"geometries": declared} if declared else {}
        return definitions

    def _norm(self) -> str:
        if self.call.measure == "geodesic" and not self.call.uses_blocks:
            return NORMS["adaptive"]
        metrics = self._metrics()
        named = f"the {metrics[0]} metric" if len(metrics) == 1 else f"their metrics ({', '.join(metrics)})"
        return NORMS[self.call.measure].format(metrics=named)

    def _metrics(self) -> list[str]:
        """Of the blocks that move: what was asked for, unless all of them have geometries of their own."""
        charts = [] if self.problem is None else self.problem.blocks
        own = {chart.stack.geometry.name: None for chart in charts if isinstance(chart, DeclaredChart)}
        asked = any(not isinstance(chart, DeclaredChart) for chart in charts)
        return [*([self.call.metric_name] if asked or not own else []), *own]

    def _symmetries(self) -> str:
        if self.call.measure != "geodesic":
            return "none"
        return "those of the given graph" if self.given_graph and self.call.uses_blocks else self.call.symmetries

    def _blocks(self) -> dict[str, Any]:
        """How many blocks moved along geodesics, and a digest of what they are made of."""
        blocks = [] if self.problem is None else [b for chart in self.problem.blocks for b in chart.stack.blocks]
        digest = hashlib.sha256("\n".join(sorted(map(_spelled, blocks))).encode())
        return {"count": len(blocks), "digest": digest.hexdigest()}

    def _integrator_steps(self) -> int | None:
        """Runge-Kutta steps of exact geodesics without closed form, the largest over blocks and batches; None for none."""
        steps = [chart.steps for found in self.found for chart in found.problem.blocks]
        return max((s for s in steps if s is not None), default=None)

    def _untrained_notes(self) -> list[str]:
        """Frozen parameters change what is measured: it is said, not only listed."""
        frozen = [p for p in self.model.parameters() if not p.requires_grad]
        if not frozen:
            return []
        entries = sum(p.numel() for p in frozen)
        return [
            f"{len(frozen)} parameters with {entries:,} entries have requires_grad=False and were not moved; a symmetry that "
            "needs one of them was not used"
        ]

    def _resolution_notes(self) -> list[str]:
        poor = [i for i, f in enumerate(self.found) if f.result.value <= RESOLUTION_WARNING * f.result.resolution]
        if not poor:
            return []
        return [
            f"batch(es) {poor}: the value is within {RESOLUTION_WARNING} rounding errors of the loss; "
            "use float64, a larger rho or more starts"
        ]

    def _stationary_notes(self) -> list[str]:
        stationary = [i for i, f in enumerate(self.found) if f.stationary]
        if not stationary:
            return []
        return [
            f"batch(es) {stationary}: the gradient at the weights is exactly zero, so the first start was random as well"
        ]


def _spelled(block: GroupBlock) -> str:
    """What a block is made of."""
    if isinstance(block, PairBlock):
        return f"{block.name} {block.group} {block.G} {block.H}"
    return f"{block.name} {block.geometry.name} {block.legs}"


def _autocast(device: str) -> str | None:
    """The dtype in which the caller lets forward passes compute, None outside of autocast."""
    if not torch.is_autocast_enabled(device):
        return None
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.")


def reset_peak_memory(device: torch.device) -> None:
    """Start a new peak where the device keeps one."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int | None:
    """Bytes: peak allocation on a GPU, peak resident size of this process on the CPU; None where the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
