"""Goals settled one after another under the weakest assumptions, in whatever order factors are declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from quotientgeo.symbolic.derivation.levels.ranks import Ranks, State

P = TypeVar("P")
Attempt = tuple[str, P, Callable[[], bool]]  # (goal, what settles it, whether it does: this may assume something)
Attempts = Callable[[Mapping[str, P]], Iterable[Attempt[P]]]  # given what is settled
Path = tuple[dict[str, P], State]

_KEPT = 24  # ways that are followed at once


def least(ranks: Ranks, attempts: Attempts[P], *, fixed: bool = False) -> dict[str, P]:
    """{goal: what settled it}, in order, as many as can be; ``ranks`` then holds the weakest assumptions that were found for it.

    What assumes nothing new is done first; every other attempt is followed on its own, as long as no way with the same goals
    assumes less. ``fixed``: what can settle a goal does not depend on the others, so that their order does not matter.
    """
    ways: list[Path[P]] = [({}, ranks.state())]
    best: Path[P] | None = None
    while ways:
        ways = [_without_new(ranks, attempts, way) for way in ways]
        best = min(ways if best is None else [best, *ways], key=lambda way: _rating(ranks, way))
        ways = _weakest(ranks, [after for way in ways for after in _extended(ranks, attempts, way, fixed)])
    assert best is not None
    ranks.back(best[1])
    return best[0]


def _without_new(ranks: Ranks, attempts: Attempts[P], way: Path[P]) -> Path[P]:
    """The way with all that needs no further assumption."""
    settled, state = dict(way[0]), way[1]
    ranks.back(state)
    while True:
        for goal, how, succeeds in attempts(settled):
            if succeeds() and ranks.state() == state:
                settled[goal] = how
                break
            ranks.back(state)
        else:
            return settled, state


def _extended(ranks: Ranks, attempts: Attempts[P], way: Path[P], fixed: bool) -> list[Path[P]]:
    """The way with one goal more, by every attempt that succeeds; where the order does not matter, of the first goal alone."""
    settled, state = way
    found: dict[str, list[Path[P]]] = {}
    for goal, how, succeeds in attempts(settled):
        ranks.back(state)
        if succeeds():
            found.setdefault(goal, []).append(({**settled, goal: how}, ranks.state()))
    return [path for goal in (sorted(found)[:1] if fixed else sorted(found)) for path in found[goal]]


def _weakest(ranks: Ranks, ways: list[Path[P]]) -> list[Path[P]]:
    """Those that no other with the same goals does with less."""
    out: list[Path[P]] = []
    for way in sorted(ways, key=lambda way: _rating(ranks, way)):  # weaker ones come first
        if not any(other[0].keys() == way[0].keys() and ranks.implied(other[1], way[1]) for other in out):
            out.append(way)
    return out[:_KEPT]


def _rating(ranks: Ranks, way: Path[P]) -> tuple[object, ...]:
    return -len(way[0]), ranks.strength(way[1]), sorted(way[0])
