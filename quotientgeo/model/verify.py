"""Does a declared symmetry hold on this model? Random group elements, in float64, with a control that shows the test has power.

All blocks and shifts move at once, each by its own random element. If the outputs change, halving finds the culprits. A block
whose one-sided motion (G alone) does not change the outputs either was not tested by this batch at all.

This is done at the model's weights and again at weights close by, where no bias is zero and no gain is one: a measure uses
the symmetry in a ball, and a wrong leg on a zero bias, say, does no harm at the centre of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from quotientgeo.errors import ArgumentError, SymmetryError
from quotientgeo.model.hints import hints
from quotientgeo.model.orbit import checked_seed, raised
from quotientgeo.model.probe import Forward, Probe, require_evaluation_mode
from quotientgeo.model.scales import TOLERANCE
from quotientgeo.model.trial import NEARBY, Trial

if TYPE_CHECKING:
    from quotientgeo.model.graph import SymmetryGraph

__all__ = ["TOLERANCE", "BlockVerification", "Forward", "VerificationReport", "run_verification"]

MOST_LISTED = 5  # failures in a message
POWER = 1e3  # a one-sided motion must change the outputs this many times more than the symmetry does
ROUNDING = 1e-13  # below this a residual is rounding

Status = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True)
class BlockVerification:
    """One block or shift. residual: relative change of the outputs under a random element, the larger of the model's weights and
    those close by. control: relative rate of change under a one-sided motion (close by), None where there is no such motion.
    joint: tested together with so many others, 0 for alone. special: it fails close by only.
    """

    name: str
    kind: str
    residual: float
    control: float | None
    status: Status
    joint: int
    special: bool = False

    @property
    def reason(self) -> str:
        """Why the block may not be used; empty for one that passed."""
        if self.status == "failed":
            change = f"the outputs change by {self.residual:.1e} (relative) under a random element of its group"
            return (
                f"at weights {NEARBY:.0%} away from the given ones, though not at them, {change}"
                if self.special
                else change
            )
        if self.status == "inconclusive" and not self.control:
            return (
                "this batch cannot tell: its outputs do not depend on these weights at all; use a batch of sequences with "
                "several different, unmasked tokens that reaches them, unless they have lost rank (a dead head)"
            )
        if self.status == "inconclusive":
            return (
                f"this batch cannot tell: moving one side alone changes the outputs by {self.control:.1e} only (residual "
                f"{self.residual:.1e}); use a batch of sequences with several different, unmasked tokens that reaches this block"
            )
        return ""


@dataclass(frozen=True)
class VerificationReport:
    """What ``verify`` found, block by block. ``str()`` is a table; ``require()`` raises where a block did not pass.

    outputs: names of the compared tensors. noise: relative difference of two runs at the same parameters. hints: what may be
    behind failures.
    """

    entries: tuple[BlockVerification, ...]
    tolerance: float
    outputs: tuple[str, ...]
    noise: float
    hints: tuple[str, ...] = ()

    def with_status(self, status: Status) -> tuple[BlockVerification, ...]:
        return tuple(entry for entry in self.entries if entry.status == status)

    @property
    def passed(self) -> bool:
        return all(entry.status == "passed" for entry in self.entries)

    @property
    def residual(self) -> float:
        """The largest residual of a block that passed."""
        return max((entry.residual for entry in self.with_status("passed")), default=0.0)

    def failures(self) -> dict[str, str]:
        """Blocks that failed or could not be tested, each with its reason."""
        return {entry.name: entry.reason for entry in self.entries if entry.status != "passed"}

    def require(self) -> None:
        """``SymmetryError`` naming blocks that did not pass, with their residuals; the first few of many."""
        failures = self.failures()
        if failures:
            raise SymmetryError(
                f"{len(failures)} of {len(self.entries)} declared symmetries do not hold on this model, or this batch cannot "
                "tell (to measure without them: unverified='exclude', or graph.restricted_to(names)):\n"
                + "\n".join([*_listed(failures), *(f"  {hint}" for hint in self.hints)])
            )

    def summary(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        return {
            "symmetries": len(self.entries),
            "passed": len(self.with_status("passed")),
            "residual": self.residual,
            "tolerance": self.tolerance,
            "outputs": list(self.outputs),
            "failures": self.failures(),
        }

    def __str__(self) -> str:
        groups: dict[tuple[str, str], list[BlockVerification]] = {}
        for entry in self.entries:
            groups.setdefault((entry.kind or "unnamed kind", entry.status), []).append(entry)
        lines = [f"{'kind':<24} {'number':>6} {'status':<13} {'residual':>9} {'control':>9}"]
        for (kind, status), entries in groups.items():
            controls = [entry.control for entry in entries if entry.control is not None]
            control = f"{min(controls):9.1e}" if controls else f"{'none':>9}"
            worst = max(entry.residual for entry in entries)
            lines.append(f"{kind:<24} {len(entries):>6} {status:<13} {worst:9.1e} {control}")
        lines += [*_listed(self.failures()), *(f"  {hint}" for hint in self.hints)]
        lines.append(f"compared: {', '.join(self.outputs)}; tolerance {self.tolerance:g} relative, float64")
        return "\n".join(lines)


def _listed(failures: dict[str, str], most: int = MOST_LISTED) -> list[str]:
    lines = [f"  {name}: {reason}" for name, reason in list(failures.items())[:most]]
    return lines + ([f"  and {len(failures) - most} more"] if len(failures) > most else [])


def run_verification(
    graph: SymmetryGraph,
    batch: Any,
    forward: Forward | None,
    *,
    tolerance: float,
    seed: int,
    allow_training_mode: bool,
) -> VerificationReport:
    """See ``SymmetryGraph.verify``."""
    if not (isinstance(tolerance, Real) and 0 < tolerance < 1):
        raise ArgumentError(
            f"tolerance must be a number between 0 and 1, a relative change of the outputs, got {tolerance!r}"
        )
    if forward is not None and not callable(forward):
        raise ArgumentError(f"forward must be a function forward(model, batch), got {forward!r}")
    seed = checked_seed(seed)
    if not allow_training_mode:
        require_evaluation_mode(graph.model)
    probe = Probe(graph.model, batch, forward)
    here = Trial(graph, probe, seed, raised(dict(graph.parameters)))
    noise = here.noise(random_forward=allow_training_mode)
    if noise > 0.1 * TOLERANCE:
        raise SymmetryError(
            f"two runs at the same parameters differ by {noise:.1e} (relative): the forward pass is random (dropout "
            "that ignores eval mode?) or keeps state"
        )
    outputs, kinds = tuple(here.reference), here.kinds
    found = {name: _Found(*at) for name, at in here.residuals(list(kinds), tolerance).items()}
    if kinds:
        near = here.nearby()
        del here  # its copy of the weights
        _test_nearby(near, found, tolerance)
    entries = tuple(_entry(name, kinds[name], each, tolerance) for name, each in found.items())
    return VerificationReport(entries, tolerance, outputs, noise, hints(graph, _failed(entries)))


def _failed(entries: Iterable[BlockVerification]) -> set[str]:
    return {entry.name for entry in entries if entry.status == "failed"}


def confirmed(
    report: VerificationReport,
    graph: SymmetryGraph,
    batch: Any,
    forward: Forward | None = None,
    *,
    seed: int = 0,
    allow_training_mode: bool = False,
) -> VerificationReport:
    """``report`` and what another batch adds: blocks that fail on it, and verdicts on those that no batch could test so far."""
    if report.with_status("inconclusive"):
        again = graph.verify(
            batch, forward, tolerance=report.tolerance, seed=seed, allow_training_mode=allow_training_mode
        )
        new = {entry.name: entry for entry in again.entries}
    else:
        trial = Trial(graph, Probe(graph.model, batch, forward), seed, raised(dict(graph.parameters)))
        held = {entry.name: entry for entry in report.with_status("passed")}
        new = {
            name: replace(held[name], residual=r, joint=joint, status="passed" if r <= report.tolerance else "failed")
            for name, (r, joint) in trial.residuals(list(held), report.tolerance).items()
        }
    entries = tuple(_of_two(entry, new.get(entry.name, entry)) for entry in report.entries)
    return replace(report, entries=entries, hints=hints(graph, _failed(entries)))


def _of_two(one: BlockVerification, other: BlockVerification) -> BlockVerification:
    """The verdict of two batches: a failure counts, a batch that could not tell does not, and the larger residual is kept."""
    order: tuple[Status, ...] = ("failed", "passed", "inconclusive")
    return min(one, other, key=lambda entry: (order.index(entry.status), -entry.residual))


@dataclass
class _Found:
    """What is known of a block so far: at the model's own weights, then also close by."""

    residual: float
    joint: int
    control: float | None = None
    special: bool = False


def _test_nearby(trial: Trial, found: dict[str, _Found], tolerance: float) -> None:
    """The same at weights close by for all that held, and the controls of all."""
    for name, control in trial.controls().items():
        found[name].control = control
    held = [name for name, each in found.items() if each.residual <= tolerance]
    for name, (residual, joint) in trial.residuals(held, tolerance).items():
        each = found[name]
        if joint and _hidden(max(residual, each.residual), each.control, tolerance):
            each.residual, each.joint = trial.residual([name]), 0
        elif not residual <= each.residual:
            each.residual, each.joint = residual, joint
        each.special = not residual <= tolerance


def _hidden(residual: float, control: float | None, tolerance: float) -> bool:
    """A weak block whose own failure could hide below the residual of all blocks together."""
    return control is not None and residual <= tolerance and POWER * ROUNDING <= control < POWER * residual


def _entry(name: str, kind: str, found: _Found, tolerance: float) -> BlockVerification:
    status: Status = "passed"
    if not found.residual <= tolerance:
        status = "failed"
    elif found.control is not None and not found.control >= POWER * max(found.residual, ROUNDING):
        status = "inconclusive"
    return BlockVerification(name, kind, found.residual, found.control, status, found.joint, found.special)
