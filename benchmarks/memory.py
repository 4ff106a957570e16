"""One process whose peak memory is measured: ``python -m benchmarks.memory WHAT EXAMPLES LENGTH`` prints it as JSON.

WHAT is "pass", a forward and a backward pass, or JSON with arguments of ``sharpness``. Peaks are resident memory (VmHWM of Linux,
begun anew for each phase of the call), in bytes above what the process held before: the model is loaded by then, and a tiny
model has been measured, so that code that is loaded on demand is there.
"""

from __future__ import annotations

import functools
import gc
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import quotientgeo as qg
from benchmarks.minilm import Case

STEPS = 6
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PHASES = {
    "first pass": "quotientgeo.measures.evaluate.first_observation",
    "verification": "quotientgeo.measures.evaluate.verify_before_use",
    "canonical gauge": "quotientgeo.measures.geodesic.build",
    "search": "quotientgeo.measures.ascent.BatchAscent.run",
}
REST = "otherwise"


def resident(field: str) -> int:
    """VmRSS, or VmHWM, its largest value since the last reset, in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


class Peaks:
    """The largest resident memory in each phase, above that at the beginning."""

    def __init__(self) -> None:
        gc.collect()
        self.bytes: dict[str, int] = {}
        CLEAR.write_text("5")
        self._before = resident("VmRSS")

    def close(self, phase: str) -> None:
        """Count the peak since the last call to ``phase``, and begin anew."""
        peak = resident("VmHWM") - self._before
        self.bytes[phase] = max(peak, self.bytes.get(phase, peak))
        CLEAR.write_text("5")

    def watched(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            self.close(REST)
            try:
                return function(*args, **kwargs)
            finally:
                self.close(phase)

        return inside


def tiny() -> Case:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=20, num_labels=2, **sizes)).eval()
    ids = torch.randint(20, (2, 6))
    return Case(model, {"input_ids": ids, "labels": torch.tensor([0, 1])})


def measure(case: Case, settings: dict[str, Any]) -> None:
    result = qg.sharpness(case.model, case.loss, [case.batch], steps=STEPS, **settings)
    assert result.ok, result.detail


def peaks(case: Case, what: str) -> dict[str, int]:
    found = Peaks()
    if what == "pass":
        case.forward_backward()
    else:
        with ExitStack() as stack:
            for phase, target in PHASES.items():
                owner, name = target.rsplit(".", 1)
                function = getattr(_resolved(owner), name)
                stack.enter_context(mock.patch(target, found.watched(phase, function)))
            measure(case, json.loads(what))
    found.close(REST)
    return found.bytes


def _resolved(dotted: str) -> Any:
    """A module, or a class in one."""
    from pkgutil import resolve_name

    return resolve_name(dotted)


def main() -> None:
    what, examples, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    measure(tiny(), {} if what == "pass" else json.loads(what))
    case = Case.of(examples, length)
    print(json.dumps({"parameters": case.bytes, "peaks": peaks(case, what)}))


if __name__ == "__main__":
    main()
