"""What became of a mutant: which check rejected it, or why it is no fault at all."""

from __future__ import annotations

from dataclasses import dataclass

DECLARED, DERIVED = "declaration", "derive"
LEVELS = ("a", "b", "e")
SYMBOLS, NUMBERS = "symbols", "numbers"
COLUMNS = (DECLARED, DERIVED, *LEVELS, SYMBOLS, NUMBERS)

SAME = "the same normal form"
TRUE = "another true declaration"
EQUAL = "the same values"


@dataclass(frozen=True)
class Verdict:
    """One mutant: where and how it differs, the checks that rejected it, or why it counts for nothing (``harmless``).

    A mutant that no check rejects and that is not harmless has survived; that (a) no longer proves it rejects nothing.
    """

    entry: str
    part: str  # formula, action, metric or source
    kind: str
    text: str
    killed_by: tuple[str, ...] = ()
    harmless: str = ""
    false_alarm: bool = False  # rejected, although torch alone finds nothing wrong

    @property
    def survived(self) -> bool:
        return not set(self.killed_by) - {"a"} and not self.harmless

    def __str__(self) -> str:
        fate = ", ".join(self.killed_by) or self.harmless or "SURVIVED"
        return f"{self.entry}: {self.part}, {self.kind}: {self.text} -> {fate}"
