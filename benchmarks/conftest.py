"""Settings of every benchmark, and where its figures are printed.

    make bench        or, in an environment that has everything:  python -m pytest benchmarks

Threads are those of OMP_NUM_THREADS (one if it is not set). OpenMP waits passively: with its default, active waiting, a thread
that waits for others takes the core from whatever else runs there, and small steps then take many times as long.
"""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import platform
from collections.abc import Callable

import pytest
import torch

THREADS = int(os.environ["OMP_NUM_THREADS"].split(",")[0])
torch.set_num_threads(THREADS)

Say = Callable[[str], None]


def load() -> str:
    """The machine's load: processes that want a core, on average over one and five minutes."""
    one, five, _ = os.getloadavg()
    return f"load {one:.1f} (1 min), {five:.1f} (5 min) on {os.cpu_count()} cores"


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Say:
    """Print a line at once, whatever pytest captures."""
    plugins = request.config.pluginmanager
    reporter, capture = plugins.getplugin("terminalreporter"), plugins.getplugin("capturemanager")

    def line(text: str = "") -> None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(text)

    return line


@pytest.fixture(scope="session", autouse=True)
def machine(say: Say) -> None:
    say(f"torch {torch.__version__}, Python {platform.python_version()}, {_processor()}")
    say(f"{THREADS} thread(s) of torch; OMP_WAIT_POLICY={os.environ['OMP_WAIT_POLICY']}; {load()}")
    say("CPU: processor time of this process, all threads. wall: time on the clock, other processes' share included.")


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        return f"{len(names)} x {names[0]}"
    except (OSError, IndexError):
        return platform.processor() or platform.machine()
