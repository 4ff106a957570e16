"""Write derivations/analytic_examples.md.

python -m quotientgeo.symbolic.examples            write it
python -m quotientgeo.symbolic.examples --check    write nothing; exit with 1 if it is stale
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from quotientgeo.symbolic.examples.page import PAGE, analytic_page


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m quotientgeo.symbolic.examples", description="Write the analytic examples."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository (default: the current directory)")
    options = parser.parse_args(arguments)
    target = options.root / PAGE
    if not target.parent.is_dir():
        parser.error(f"{options.root} has no folder {PAGE.parent}: run this from the repository, or pass --root")
    text = analytic_page().encode()
    if target.exists() and target.read_bytes() == text:
        return 0
    if options.check:
        print(f"stale: {PAGE} (run `make derive`)", file=sys.stderr)
        return 1
    target.write_bytes(text)
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
