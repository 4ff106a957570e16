"""Does a declared symmetry hold on this model? Random group elements, in float64, with a control that shows the test has power.

All blocks and shifts move at once, each by its own random element. If the outputs change, halving finds the culprits. A block
whose one-sided motion (G alone) does not change the outputs either was not tested by this batch at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from quotientgeo.errors import NonFiniteLossError, SymmetryError
from quotientgeo.model.orbit import act, raised, random_elements
from quotientgeo.model.probe import Forward, Probe, change, require_evaluation_mode, scale

if TYPE_CHECKING:
    from quotientgeo.model.graph import SymmetryGraph

__all__ = ["TOLERANCE", "BlockVerification", "Forward", "VerificationReport", "run_verification"]

TOLERANCE = 1e-9  # relative change of the outputs; exact symmetries show 1e-16 to 1e-13, broken ones 1e-4 and more
CONDITION = 10.0  # of the random elements
POWER = 1e3  # a one-sided motion must change the outputs this many times more than the symmetry does
ROUNDING = 1e-13  # below this a residual is rounding

Status = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True)
class BlockVerification:
    """One block or shift. residual: relative change of the outputs under a random element. control: relative rate of change
    under a one-sided motion, None where there is no such motion. joint: tested together with so many others, 0 for alone.
    """

    name: str
    kind: str
    residual: float
    control: float | None
    status: Status
    joint: int

    @property
    def reason(self) -> str:
        """Why the block may not be used; empty for one that passed."""
        if self.status == "failed":
            return f"the outputs change by {self.residual:.1e} (relative) under a random element of its group"
        if self.status == "inconclusive":
            return (
                f"this batch cannot tell: moving one side alone changes the outputs by {self.control:.1e} only (residual "
                f"{self.residual:.1e}); use a batch of sequences with several different, unmasked tokens that reaches this block"
            )
        return ""


@dataclass(frozen=True)
class VerificationReport:
    """What ``verify`` found, block by block. ``str()`` is a table; ``require()`` raises where a block did not pass.

    outputs: names of the compared tensors. noise: relative difference of two runs at the same parameters.
    """

    entries: tuple[BlockVerification, ...]
    tolerance: float
    outputs: tuple[str, ...]
    noise: float

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
        """``SymmetryError`` naming every block that did not pass, with its residual."""
        failures = self.failures()
        if failures:
            raise SymmetryError(
                f"{len(failures)} of {len(self.entries)} declared symmetries do not hold on this model, or this batch cannot "
                "tell (to measure without them: unverified='exclude', or graph.restricted_to(names)):\n"
                + "\n".join(_listed(failures, most=len(failures)))
            )

    def summary(self) -> dict[str, Any]:
        """Plain numbers for a result file."""
        return {
            "blocks": len(self.entries),
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
        lines = [f"{'kind':<24} {'blocks':>6} {'status':<13} {'residual':>9} {'control':>9}"]
        for (kind, status), entries in groups.items():
            controls = [entry.control for entry in entries if entry.control is not None]
            control = f"{min(controls):9.1e}" if controls else f"{'none':>9}"
            worst = max(entry.residual for entry in entries)
            lines.append(f"{kind:<24} {len(entries):>6} {status:<13} {worst:9.1e} {control}")
        lines += _listed(self.failures())
        lines.append(f"compared: {', '.join(self.outputs)}; tolerance {self.tolerance:g} relative, float64")
        return "\n".join(lines)


def _listed(failures: dict[str, str], most: int = 10) -> list[str]:
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
    if not allow_training_mode:
        require_evaluation_mode(graph.model)
    trial = _Trial(graph, Probe(graph.model, batch, forward), seed, random_forward=allow_training_mode)
    kinds = {b.name: b.kind for b in graph.blocks} | {s.name: s.kind for s in graph.shifts}
    names = list(kinds)
    residuals = trial.residuals(names, tolerance)
    controls = trial.controls() if names else {}
    weak = [n for n, (r, joint) in residuals.items() if joint and _hidden(r, controls[n], tolerance)]
    residuals |= {name: (trial.residual([name]), 0) for name in weak}
    entries = []
    for name, (residual, joint) in residuals.items():
        control = controls[name]
        status: Status = "passed"
        if not residual <= tolerance:
            status = "failed"
        elif control is not None and not control >= POWER * max(residual, ROUNDING):
            status = "inconclusive"
        entries.append(BlockVerification(name, kinds[name], residual, control, status, joint))
    return VerificationReport(tuple(entries), tolerance, tuple(trial.reference), trial.noise)


def _hidden(residual: float, control: float | None, tolerance: float) -> bool:
    """A weak block whose own failure could hide below the residual of all blocks together."""
    return control is not None and residual <= tolerance and POWER * ROUNDING <= control < POWER * residual


class _Trial:
    """One set of random elements for all blocks and shifts, and the outputs where chosen ones of them have acted."""

    def __init__(self, graph: SymmetryGraph, probe: Probe, seed: int, *, random_forward: bool):
        self.graph, self.probe, self.seed = graph, probe, seed
        self.base = raised(dict(graph.parameters))
        generator = torch.Generator().manual_seed(seed)
        self.elements = random_elements(graph.blocks, generator, CONDITION)
        self.amounts = {
            name: torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
            for name, value in sorted(graph.translations.amounts(self.base).items())
        }
        with torch.no_grad():
            self.reference = self._outputs(self.base)
            # a forward pass that may draw numbers gets the same ones each time; otherwise other numbers must not matter
            again = self.probe(self.graph.with_aliases(self.base), seed if random_forward else seed + 1)
            self.noise = change(again, self.reference)
        self._check_reference()

    def _outputs(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        return self.probe(self.graph.with_aliases(params), self.seed)

    def _check_reference(self) -> None:
        bad = [name for name, tensor in self.reference.items() if bool(torch.isnan(tensor).any())]
        if bad:
            raise NonFiniteLossError(
                f"the model returns NaN on this batch ({', '.join(bad)}), in float64 and before any move: look for NaN in its "
                "weights and inputs, and for a loss over no labels at all"
            )
        if self.noise > 0.1 * TOLERANCE:
            raise SymmetryError(
                f"two runs at the same parameters differ by {self.noise:.1e} (relative): the forward pass is random (dropout "
                "that ignores eval mode?) or keeps state"
            )

    def residuals(self, names: Sequence[str], tolerance: float) -> dict[str, tuple[float, int]]:
        """Per block its residual and how many others moved with it: all at once, then halves of what does not pass."""
        if not names:
            return {}
        residual = self.residual(names)
        if residual <= tolerance or len(names) == 1:
            return dict.fromkeys(names, (residual, len(names) - 1))
        half = len(names) // 2
        return self.residuals(names[:half], tolerance) | self.residuals(names[half:], tolerance)

    def residual(self, names: Sequence[str]) -> float:
        """Relative change of the outputs when these blocks and shifts move by their elements."""
        with torch.no_grad():
            params = act(self.graph, self.base, {n: self.elements[n] for n in names if n in self.elements})
            params = self.graph.translations.apply(params, {n: self.amounts[n] for n in names if n in self.amounts})
            return change(self._outputs(params), self.reference)

    def controls(self) -> dict[str, float | None]:
        """Per block, |d outputs / d A| at A = I of the motion of G alone, relative to the outputs; from one backward pass of a
        random combination of them. Of a shift with compensators the uncompensated one; without, that of its carrying block.
        """
        stacks = self.graph.stacks()
        moves = [torch.eye(s.h).expand(len(s), -1, -1).to(self.base[s.names[0]]).clone() for s in stacks]
        amounts = {name: torch.zeros_like(t) for name, t in self.amounts.items()}
        inputs = [t.requires_grad_() for t in (*moves, *amounts.values())]
        params = self.base
        for stack, elements in zip(stacks, moves, strict=True):
            params = stack.act(params, elements, sides="G")
        params = self.graph.translations.apply(params, amounts, compensate=False)
        combination = self._combination(self._outputs(params))
        if not combination.requires_grad:
            return self._finite_controls()
        gradients = torch.autograd.grad(combination, inputs, allow_unused=True)
        found: dict[str, float | None] = {}
        for stack, g in zip(stacks, gradients, strict=False):
            norms = [0.0] * len(stack) if g is None else g.flatten(1).norm(dim=1).tolist()
            found |= {block.name: norm for block, norm in zip(stack.blocks, norms, strict=True)}
        for name, g in zip(amounts, gradients[len(stacks) :], strict=True):
            found[name] = 0.0 if g is None else float(g.norm())
        return found | self._borrowed(found)

    def _combination(self, outputs: dict[str, Tensor]) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed + 1)
        total = torch.zeros((), dtype=torch.float64)
        for name, tensor in outputs.items():
            norm = self.reference[name].where(torch.isfinite(tensor), torch.zeros_like(tensor)).norm()
            if scale(self.reference[name]) and tensor.requires_grad:
                weights = torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.device)
                kept = torch.where(torch.isfinite(tensor), tensor, torch.zeros_like(tensor))
                total = total.to(tensor.device) + (weights * kept).sum() / norm
        return total

    def _finite_controls(self) -> dict[str, float | None]:
        """The same from finite one-sided motions, one forward pass each, where the outputs carry no gradient."""
        found: dict[str, float | None] = {}
        with torch.no_grad():
            for stack in self.graph.stacks():
                for i, block in enumerate(stack.blocks):
                    elements = torch.eye(stack.h).expand(len(stack), -1, -1).to(self.base[stack.names[0]]).clone()
                    elements[i] = self.elements[block.name]
                    found[block.name] = change(self._outputs(stack.act(self.base, elements, sides="G")), self.reference)
            for name, t in self.amounts.items():
                params = self.graph.translations.apply(self.base, {name: t}, compensate=False)
                found[name] = change(self._outputs(params), self.reference)
        return found | self._borrowed(found)

    def _borrowed(self, found: dict[str, float | None]) -> dict[str, float | None]:
        borrowed: dict[str, float | None] = {}
        for shift in self.graph.shifts:
            if not shift.compensators:
                carried = [found[name] or 0.0 for name in self.graph.carriers(shift)]
                borrowed[shift.name] = max(carried) if carried else None
        return borrowed
