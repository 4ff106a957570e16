"""Peak memory of a whole call of ``sharpness``, in copies of the parameters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.conftest import Say

LIMIT = 5.0
SIZES = ((8, 32), (32, 64))
RETURNED = str(1 << 18)
MEASURES: dict[str, dict[str, Any]] = {
    "geodesic, invariant, exact": {},
    "geodesic, mixed, exact": {"metric": "mixed"},
    "adaptive": {"measure": "adaptive"},
}


def measured(what: str, size: tuple[int, int]) -> dict[str, Any]:
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": RETURNED}
    command = [sys.executable, "-m", "benchmarks.memory", what, *map(str, size)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peaks of resident memory are read as Linux has them"
)
def test_peak_memory(say: Say) -> None:
    say()
    say(
        f"Peak memory of a whole call beyond model, gradient and activations: at most {LIMIT:g} copies of the parameters"
    )
    say(
        "  resident memory of a process after the model is loaded: its peak in sharpness(), less its peak in a forward and a"
    )
    say(
        "  backward pass of another process; a phase below that has a negative figure. glibc returns freed blocks of 256 kB and"
    )
    say(f"  more at once (MALLOC_MMAP_THRESHOLD_={RETURNED}): what it keeps for later is not in use")
    missed = []
    for size in SIZES:
        baseline = measured("pass", size)
        held = max(baseline["peaks"].values())
        say(f"  {size[0]} x {size[1]}: gradient and activations {held / baseline['parameters']:.2f} copies")
        for name, settings in MEASURES.items():
            found = measured(json.dumps(settings), size)
            extra = {phase: (peak - held) / found["parameters"] for phase, peak in found["peaks"].items()}
            phases = ", ".join(f"{phase} {copies:.1f}" for phase, copies in extra.items())
            say(f"    {name:28} {max(extra.values()):5.2f} copies   ({phases})")
            if max(extra.values()) > LIMIT:
                where = max(extra, key=lambda phase: extra[phase])
                missed.append(f"{name} at {size[0]} x {size[1]}: {extra[where]:.2f} copies, in phase {where}")
    assert not missed
