"""What ``import quotientgeo`` takes beyond ``import torch``, in interpreters of their own."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.clock import Time, typical
from benchmarks.conftest import Say

LIMIT = 0.5  # seconds
ROUNDS = 5
CODE = """
import json, sys, time
cpu, wall = time.process_time(), time.perf_counter()
{statement}
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall, [m for m in ("sympy", "geoopt") if m in sys.modules]]))
"""
TORCH = "import torch"
CASES = ("import quotientgeo", "import torch, quotientgeo", "import quotientgeo; quotientgeo.sharpness")


def fresh(statement: str) -> tuple[Time, list[str]]:
    """Time of a statement, and which of sympy and geoopt it loaded."""
    command = [sys.executable, "-c", CODE.format(statement=statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cpu, wall, loaded = json.loads(done.stdout)
    return Time(cpu, wall), loaded


def test_import(say: Say) -> None:
    times: dict[str, list[Time]] = {statement: [] for statement in (TORCH, *CASES)}
    loaded: set[str] = set()
    for _ in range(ROUNDS):
        for statement, found in times.items():
            time, heavy = fresh(statement)
            found.append(time)
            loaded |= set(heavy)
    torch = typical(times[TORCH])
    say()
    say(f"Imports: {TORCH} takes {torch}; beyond it, at most {1e3 * LIMIT:.0f} ms CPU:")
    for statement in CASES:
        say(f"  {statement:42} {typical(times[statement]) - torch}")
    assert max(typical(times[statement]).cpu for statement in CASES) - torch.cpu <= LIMIT
    assert not loaded
