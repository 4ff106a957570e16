"""Does the action keep what proofs assume of a point? Yes where its form shows it: factors between invertible matrices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from quotientgeo.symbolic.algebra import (
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    Polynomial,
    SymbolLetter,
    TraceLetter,
    TracePolynomial,
    Word,
    split_scalars,
)
from quotientgeo.symbolic.algebra.letters import words_inside
from quotientgeo.symbolic.algebra.polynomial import symbols_of
from quotientgeo.symbolic.derivation.formula import Formula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.ranks import WHOLE, Ranks


def keeps_assumptions(geometry: Geometry, ranks: Ranks) -> bool:
    """Whether points that meet what ``ranks`` assumes, and at which all inverses exist, are moved to such points by the form."""
    wanted = {*((f"{rank} rank", factor) for factor, rank in ranks.full.items()), *ranks.nonzero}
    factors = all(_keeps(geometry, ranks, what, factor) for what, factor in wanted)
    return factors and all(_exists_after(geometry, ranks, letter) for letter in inverses_of(formulas_of(geometry)))


def _keeps(geometry: Geometry, ranks: Ranks, what: str, factor: str) -> bool:
    """Whether the moved factor is the factor between matrices that keep what is assumed of it."""
    shifts = ranks.shifts
    moved = geometry.action[factor].polynomial + shifts.point(factor) - geometry.alphabet[factor]
    sides = _sides(geometry, shifts.shifted(moved), factor)
    if sides is None:
        return False
    left, right = sides
    moves_entries = (*left, *right) if "entr" in what else right if "column" in what else left
    if what == WHOLE or what.endswith("rank"):
        return True
    families = {letter.family for letter in moves_entries}
    return families <= {Kind.DIAGONAL} or ("pair" in what and len(families) == 1 and None not in families)


def _sides(geometry: Geometry, moved: Polynomial, factor: str) -> tuple[Word, Word] | None:
    """(l, r) with l F r the moved factor, both made of invertible letters of the group; None where it is not of that form."""
    if len(moved) != 1:
        return None
    ((word, _),) = moved
    scalars, matrices = split_scalars(word)
    places = [i for i, x in enumerate(matrices) if isinstance(x, SymbolLetter) and x.name == factor]
    if len(places) != 1 or matrices[places[0]] is not geometry.alphabet.symbol_letter(factor):
        return None
    left, right = matrices[: places[0]], matrices[places[0] + 1 :]
    if matrices[places[0]].family is not None:  # a vector: its diagonal matrix times a column of ones
        right = tuple(letter for letter in right if not isinstance(letter, OnesLetter))
    return (left, right) if _of_group(geometry, (*scalars, *left, *right)) else None


def _of_group(geometry: Geometry, letters: Iterable[Letter]) -> bool:
    """Whether all are letters of the group that have inverses."""
    elements = set(geometry.names.elements)
    return all(set(symbols_of(letter)) <= elements and _has_inverse(geometry, letter) for letter in letters)


def _has_inverse(geometry: Geometry, letter: Letter) -> bool:
    alphabet = geometry.alphabet
    if isinstance(letter, InverseScalar | InverseLetter):
        return True
    if not isinstance(letter, TraceLetter) and split_scalars((letter,))[0]:
        return all(alphabet.kind(name) is Kind.POSITIVE for name in symbols_of(letter))
    return alphabet.local_inverse(letter) is not None


def inverses_of(formulas: Iterable[Formula]) -> set[Letter]:
    """The inverses in formulas, those inside others too."""
    found: set[Letter] = set()
    for formula in formulas:
        for word, _ in formula.polynomial:
            _collect(word, found)
    return found


def _collect(word: Word, found: set[Letter]) -> None:
    for letter in word:
        if letter in found:
            continue
        if isinstance(letter, InverseLetter | InverseScalar) or (isinstance(letter, SymbolLetter) and letter.inverted):
            found.add(letter)
        for inner in words_inside(letter):
            _collect(inner, found)


def formulas_of(geometry: Geometry) -> Iterator[Formula]:
    """The metric, what is preserved, and all that is derived."""
    yield geometry.inner
    yield from geometry.preserved
    per_factor = [geometry.vertical, geometry.momentum, geometry.gradient, geometry.acceleration, geometry.christoffel]
    per_factor += [geometry.vertical_gram, geometry.projector or {}, *geometry.derivatives.values()]
    if geometry.equations is not None:
        per_factor += [geometry.equations.lowered, geometry.equations.christoffel, *geometry.equations.forces.values()]
    for formulas in per_factor:
        yield from formulas.values()


def _exists_after(geometry: Geometry, ranks: Ranks, letter: Letter) -> bool:
    """Whether an inverse exists wherever the rest is met, or at the moved point is that at the point between group letters."""
    alphabet = geometry.alphabet
    if isinstance(letter, InverseLetter) and ranks.is_definite(letter.argument):
        return True
    if isinstance(letter, InverseScalar) and ranks.is_positive(letter.argument):
        return True
    moved = {factor: formula.polynomial for factor, formula in geometry.action.items()}
    number = isinstance(letter, InverseScalar)
    value = TracePolynomial(alphabet, {(letter,): Fraction(1)}) if number else alphabet.monomial((letter,))
    image = value.substitute(moved)
    if len(image) != 1:
        return False
    ((word, _),) = image
    rest = list(word)
    if letter not in rest:
        return not set(symbols_of(letter)) & set(moved)
    rest.remove(letter)
    return _of_group(geometry, rest)
