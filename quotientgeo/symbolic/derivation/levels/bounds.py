"""Which sizes let what is inverted be invertible: a product has at most the rank of its narrowest place, a sum that of all terms.

Necessary only: at sizes that meet this an inverse may still not exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from quotientgeo.symbolic.algebra import Dimension, InverseLetter, Letter, split_scalars
from quotientgeo.symbolic.derivation.formula import Formula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.assumed import assumed
from quotientgeo.symbolic.derivation.levels.kept import formulas_of, inverses_of


class Need(NamedTuple):
    """``size`` <= the sum over terms of the least number in each; ``text``: of what, ``places``: the sizes in each term."""

    size: Dimension
    places: tuple[tuple[Dimension, ...], ...]
    text: str

    @property
    def sizes(self) -> set[Dimension]:
        """All that it is about."""
        return {self.size, *(size for places in self.places for size in places)}

    def met(self, value: Callable[[Dimension], int]) -> bool:
        """Whether it is, with a number for every size."""
        return value(self.size) <= sum(min(map(value, places)) for places in self.places)


class Needs(NamedTuple):
    """Of the declared metric, of all formulas, and of the points at which proofs hold (full ranks)."""

    metric: tuple[Need, ...]
    formulas: tuple[Need, ...]
    points: tuple[Need, ...]


def needs_of(geometry: Geometry) -> Needs:
    """All of a geometry; of points where it has been derived, since before nothing is proven."""
    metric = _of_inverses([geometry.inner])
    every = _of_inverses((*formulas_of(geometry), *geometry.action.values()))
    return Needs(metric, every, _of_ranks(geometry) if geometry.gradient or geometry.equations else ())


def size_conditions(geometry: Geometry) -> tuple[str, ...]:
    """("h <= n", ...): the inequalities between sizes in words, without what others imply; "h <= n + m" of a sum of terms."""
    single: dict[tuple[Dimension, Dimension], None] = {}
    sums: dict[tuple[Dimension, tuple[str, ...]], None] = {}
    for need in (*geometry.needs.formulas, *geometry.needs.points):
        others = [tuple(place for place in places if place != need.size) for places in need.places]
        if len(others) == 1:
            single |= dict.fromkeys((need.size, place) for place in others[0])
        elif all(others) and not all(isinstance(size, int) for size in need.sizes):
            told = tuple(sorted(str(t[0]) if len(t) == 1 else f"min({', '.join(map(str, t))})" for t in others))
            sums |= {(need.size, told): None}
    pairs = [pair for pair in single if not all(isinstance(size, int) for size in pair)]
    said = {f"{size} <= {place}" for size, place in pairs}
    for size, told in sums:
        if not any(f"{size} <= {place}" in said for place in told):
            terms = (place if count == 1 else f"{count} {place}" for place, count in Counter(told).items())
            said.add(f"{size} <= {' + '.join(terms)}")
    return tuple(sorted(said))


def _of_inverses(formulas: Iterable[Formula]) -> tuple[Need, ...]:
    found = (_of_inverse(letter) for letter in inverses_of(formulas) if isinstance(letter, InverseLetter))
    return tuple(sorted({need for need in found if need is not None}, key=str))


def _of_inverse(letter: InverseLetter) -> Need | None:
    """What the argument's sizes must be, if its form says anything."""
    size = letter.shape[0]
    places = [_sizes(split_scalars(word)[1], size) for word, _ in letter.argument]
    return (
        None
        if any(set(inside) == {size} for inside in places)
        else Need(size, tuple(sorted(places, key=str)), str(letter))
    )


def _sizes(word: tuple[Letter, ...], size: Dimension) -> tuple[Dimension, ...]:
    return tuple(sorted({size, *(letter.shape[1] for letter in word)}, key=str))


def _of_ranks(geometry: Geometry) -> tuple[Need, ...]:
    out = []
    for factor, rank in assumed(geometry).full.items():
        rows, columns = geometry.factors[factor] if rank == "column" else geometry.factors[factor][::-1]
        out += [Need(columns, ((rows,),), f"full {rank} rank of {factor}")] if rows != columns else []
    return tuple(out)
