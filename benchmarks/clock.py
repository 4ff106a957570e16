"""Two clocks at once, and medians of what they read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Time:
    """Seconds: ``cpu`` of this process, all threads together, and ``wall``."""

    cpu: float
    wall: float

    @classmethod
    def now(cls) -> Time:
        return cls(time.process_time(), time.perf_counter())

    def __sub__(self, other: Time) -> Time:
        return Time(self.cpu - other.cpu, self.wall - other.wall)

    def __mul__(self, factor: float) -> Time:
        return Time(factor * self.cpu, factor * self.wall)

    def __truediv__(self, other: Time) -> Time:
        """Ratios, clock by clock."""
        return Time(self.cpu / other.cpu, self.wall / other.wall)

    def __str__(self) -> str:
        return f"{1e3 * self.cpu:,.0f} ms CPU ({1e3 * self.wall:,.0f} wall)"


def timed(work: Callable[[], object]) -> Time:
    before = Time.now()
    work()
    return Time.now() - before


def typical(times: Sequence[Time]) -> Time:
    """Medians, clock by clock."""
    return Time(median(t.cpu for t in times), median(t.wall for t in times))


@dataclass(frozen=True)
class Compared:
    """Steps and, after each of them, the baseline: both saw the same machine."""

    steps: list[Time]
    baseline: list[Time]

    @property
    def ratio(self) -> Time:
        return typical(self.steps) / typical(self.baseline)
