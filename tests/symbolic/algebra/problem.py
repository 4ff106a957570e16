"""A small problem in an alphabet of its own; imports no torch, so a fresh interpreter runs it fast."""

from __future__ import annotations

from quotientgeo.symbolic.algebra import Alphabet


def solve_something(kind: str) -> str:
    """The same names mean different kinds in different alphabets."""
    mine = Alphabet()
    mine.declare("G", ("n", "h"))
    a = mine.declare("A", ("h", "h"), kind)
    gram = mine["G"].T * mine["G"]
    out = mine.identity("h")
    for _ in range(3):
        out = (a.T * gram * a + out).inverse() * a * a.T
    return f"{out} {out.trace()} {a.inverse().T}"
