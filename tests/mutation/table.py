"""The kill table: kinds of mutation against the checks that rejected them. ``python -m tests.mutation.table`` writes it.

The same mutants, in the same order, every time: the file is made, and a test holds it to what is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.declarations import action_mutants, formula_mutants, metric_mutants
from tests.mutation.source import source_mutants
from tests.mutation.subjects import entries
from tests.mutation.verdicts import COLUMNS, EQUAL, SAME, TRUE, Verdict

FILE = Path(__file__).with_name("kill_table.md")
HEAD = """# Kill table

Made by `python -m tests.mutation.table`; do not edit. Each mutant is one change of one place in an entry of the catalogue: of a
derived formula, of the declared action, of the declared metric, or of the generated source. A number says how many mutants of the
kind the check rejected; several checks may reject the same one.

- declaration: refused when it is declared, or when the changed formula is read. derive: refused by `derive`.
- a, b, e: levels of the certificate. (a) counts where it no longer proves, which alone rejects nothing; level (c) proves small
  sizes only, (d) repeats (b) in other numbers and (f) takes seconds per claim: they are not run here.
- symbols: refused before code is written (the source run on symbols, and the checks of what is solved for at run time).
- numbers: for comparison, whether the values of the function differ in float64; it rejects nothing.
- harmless: mutants that are no fault, not counted as mutants. Same normal form: the change is no change. True: torch alone,
  without the engine, finds action, preserved quantity, metric and invariance in order at its points, as where one term is
  scaled. Same values: the source computes the same by another way, or a formula that is solved in stages differs only in a factor
  of something that is zero along geodesics (there (a), which looks at all curves, no longer proves it).
"""


@dataclass(frozen=True)
class Amount:
    """How many mutants of each part of an entry are tried."""

    formulas: int
    actions: int
    metrics: int
    sources: int
    levels: str
    longest: int  # terms of a formula


SAMPLE = Amount(4, 3, 4, 4, "abe", 40)
FULL = Amount(7, 4, 5, 7, "abe", 60)


def verdicts(entry: str, amount: Amount) -> list[Verdict]:
    """What became of the mutants of one entry."""
    return [
        *formula_mutants(entry, amount.formulas, amount.levels, amount.longest),
        *action_mutants(entry, amount.actions, amount.levels),
        *metric_mutants(entry, amount.metrics, amount.levels),
        *source_mutants(entry, amount.sources),
    ]


def table(found: Iterable[Verdict]) -> str:
    """The kinds as rows of a Markdown table, and a row of sums."""
    found = list(found)
    heads = ("part", "kind", "mutants", *COLUMNS, "rejected", "SURVIVED", "same normal form", "true", "same values")
    rows = ["| " + " | ".join(heads) + " |", "|---|---|" + "---:|" * (len(heads) - 2)]
    for part, kind in [*sorted({(v.part, v.kind) for v in found}), ("all", "")]:
        of_kind = [v for v in found if part == "all" or (v.part, v.kind) == (part, kind)]
        faults = [v for v in of_kind if not v.harmless]
        kills = Counter(check for v in faults for check in v.killed_by)
        harmless = Counter(v.harmless for v in of_kind)
        survived = sum(v.survived for v in faults)
        numbers = [len(faults), *(kills[c] for c in COLUMNS), len(faults) - survived, survived]
        numbers += [harmless[reason] for reason in (SAME, TRUE, EQUAL)]
        rows.append("| " + " | ".join([part, kind, *(str(n) if n else "" for n in numbers)]) + " |")
    return "\n".join(rows)


def page(by_entry: dict[str, list[Verdict]]) -> str:
    """The whole file."""
    found = [v for some in by_entry.values() for v in some]
    survivors = [f"- {v}" for v in found if v.survived] or ["None."]
    alarms = [f"- {v}" for v in found if v.false_alarm] or ["None."]
    rows = ["| entry | mutants | rejected | harmless |", "|---|---:|---:|---:|"]
    for entry, some in by_entry.items():
        faults = [v for v in some if not v.harmless]
        rejected = sum(not v.survived for v in faults)
        rows.append(f"| {entry} | {len(faults)} | {rejected} | {len(some) - len(faults)} |")
    parts = [HEAD, table(found), "\n## Survivors\n", *survivors]
    parts += ["\n## Rejected, although torch alone finds nothing wrong\n", *alarms, "\n## Entries\n", *rows]
    return "\n".join(parts) + "\n"


def main() -> None:
    by_entry = {}
    for entry in entries():
        by_entry[entry] = verdicts(entry, FULL)
        print(f"{entry}: {len(by_entry[entry])} mutants", flush=True)
    FILE.write_bytes(page(by_entry).encode())


if __name__ == "__main__":
    main()
