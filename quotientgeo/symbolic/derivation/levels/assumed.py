"""What the certificate of a geometry assumes of a point besides inverses: the least by which its proofs go through."""

from __future__ import annotations

from collections.abc import Callable

from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.freeness import fixing_steps, vertical_steps
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.squares import sum_of_squares


def assumed(geometry: Geometry) -> Ranks:
    """What makes the metric definite and the action free, of what is proven; either is looked at first, as less is assumed."""
    ranks = Ranks(geometry)
    start = ranks.state()
    _definite(geometry, ranks)
    of_metric = ranks.state()
    _free(geometry, ranks)
    if ranks.state() in (of_metric, start):
        return ranks

    def again(*proofs: Callable[[Geometry, Ranks], None]) -> bool:
        for proof in proofs:
            proof(geometry, ranks)
        return True

    ranks.back(start)
    ranks.weakest((lambda: again(_definite, _free), lambda: again(_free, _definite)))
    return ranks


def _definite(geometry: Geometry, ranks: Ranks) -> None:
    before = ranks.state()
    found = sum_of_squares(geometry, ranks)
    if found is None or found.undecided:
        ranks.back(before)


def _free(geometry: Geometry, ranks: Ranks) -> None:
    if vertical_steps(geometry, ranks) is not None:
        fixing_steps(geometry, ranks)
