"""The demo: one shipped checkpoint, the same function at other weights, and what each measure says of the two."""

from quotientgeo.demo.assets import CHECKPOINT, DIGITS, HELD_OUT, Loaded, load_demo
from quotientgeo.demo.experiment import Settings, run_demo
from quotientgeo.demo.files import writable, write_demo
from quotientgeo.demo.outcome import Comparison, DemoResult, SameFunction, SweepPoint

__all__ = [
    "CHECKPOINT",
    "DIGITS",
    "HELD_OUT",
    "Comparison",
    "DemoResult",
    "Loaded",
    "SameFunction",
    "Settings",
    "SweepPoint",
    "load_demo",
    "run_demo",
    "writable",
    "write_demo",
]
