"""One quick run of the demo for all its tests: one step, three conditions."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")
pytest.importorskip("datasets")

from quotientgeo.demo import DemoResult, Loaded, Settings, load_demo, run_demo

QUICK = Settings(steps=1, seeds=1, conditions=(1.0, 10.0, 1000.0))


@pytest.fixture(scope="session")
def loaded() -> Loaded:
    return load_demo()


@pytest.fixture(scope="session")
def events() -> list[tuple[str, int, int]]:
    """Filled by ``result``."""
    return []


@pytest.fixture(scope="session")
def result(loaded: Loaded, events: list[tuple[str, int, int]]) -> DemoResult:
    return run_demo(loaded, loaded.verify(), QUICK, progress=lambda *event: events.append(event))
