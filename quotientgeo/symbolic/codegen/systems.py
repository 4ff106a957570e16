"""Linear equations that generated code solves at run time, and how: which have two definite terms, which are coupled.

Two are met: K_X = J(xi), for the vertical part of a tangent, and M(xi) = y, where the metric has no one-sided solution. Both
operators are symmetric and positive in the inner product tr(X' Y).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.algebra import (
    InverseLetter,
    Kind,
    Polynomial,
    SymbolLetter,
    Word,
    solve_linear,
    word_key,
)
from quotientgeo.symbolic.codegen.functions import LOWERED, Function, local, momentum_names
from quotientgeo.symbolic.derivation import Geometry
from quotientgeo.symbolic.derivation.implicit import coupled
from quotientgeo.symbolic.derivation.levels.assumed import assumed
from quotientgeo.symbolic.derivation.levels.forms import is_semidefinite

_SIDED = (Kind.GENERAL, Kind.INVERTIBLE, Kind.SKEW, Kind.SYMMETRIC)  # kinds whose letters stand for all their entries


@dataclass(frozen=True)
class Pencil:
    """Two weights of one side: ``fixed``, or its inverse, is definite and becomes the identity; ``other`` diagonal."""

    fixed: Polynomial
    other: Polynomial
    inverted: bool
    first: bool  # whether ``fixed`` belongs to the first term

    @property
    def helper(self) -> str:
        """The function that diagonalises both."""
        return "_pencil_inverse" if self.inverted else "_pencil"


@dataclass(frozen=True)
class Sylvester:
    """L_1 X R_1 + L_2 X R_2 with definite weights."""

    letter: str
    left: Pencil
    right: Pencil


@dataclass(frozen=True)
class System:
    """operator(X) = given, to be solved for X at each point.

    ``operator`` takes the factors, the ``letters`` and the metric's parameters, and returns one image per letter.
    """

    geometry: Geometry
    solver: str  # names of generated functions
    operator: Function
    weights: str
    letters: tuple[str, ...]
    given: tuple[str, ...]  # what the right side of each letter is called
    role: str  # of X, for the docstring of the solver
    definite: bool  # whether the operator takes no direction to zero

    @property
    def point(self) -> tuple[str, ...]:
        """The factors."""
        return self.geometry.names.factors

    @property
    def parameters(self) -> tuple[str, ...]:
        """The metric's parameters, which come last."""
        return self.geometry.metric.parameters

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of the solver."""
        return (*self.point, *self.given, *self.parameters)

    @property
    def one(self) -> bool:
        """Whether the solver returns its only solution itself."""
        return len(self.letters) == 1

    def sylvester(self) -> Sylvester | None:
        """The operator as two products with definite weights, or None where it is not of this form."""
        if not self.one or self.geometry.alphabet.kind(self.letters[0]) not in _SIDED:
            return None
        (letter,), (image,) = self.letters, self.operator.outputs.values()
        assert isinstance(image, Polynomial)
        terms = _two_terms(image, letter)
        if terms is None or not all(is_semidefinite(weight) for term in terms for weight in term):
            return None
        (left_1, right_1), (left_2, right_2) = terms
        definite = _definiteness(self.geometry)
        left, right = _pencil(left_1, left_2, definite), _pencil(right_1, right_2, definite)
        return None if left is None or right is None else Sylvester(letter, left, right)


def vertical_system(geometry: Geometry) -> System | None:
    """K_X = J(xi), or None where the horizontal part is a formula."""
    if geometry.horizontal is not None:
        return None
    names, momenta = geometry.names, momentum_names(geometry)
    letters = ", ".join(names.algebra)
    operator = Function(
        "_vertical_gram",
        (*names.factors, *names.algebra, *geometry.metric.parameters),
        {local(momenta[x], geometry): f.polynomial for x, f in geometry.vertical_gram.items()},
        f"Momentum of the vertical tangent of {letters}.",
        one=len(names.algebra) == 1,
    )
    given = tuple(momenta.values())
    what = "whose vertical tangent has this momentum"
    return System(geometry, "_vertical_part", operator, "_vertical_weights", names.algebra, given, what, False)


def metric_systems(geometry: Geometry) -> list[System | Function]:
    """What solves M(xi) = y on each group of factors that the metric couples: a system, or a formula where there is one."""
    if geometry.equations is None:
        return []
    names, images = geometry.names, {f: x.polynomial for f, x in geometry.equations.lowered.items()}
    groups = coupled(names, images)
    return [_of_group(geometry, group, images, len(groups) == 1) for group in groups]


def _of_group(
    geometry: Geometry, group: tuple[str, ...], images: Mapping[str, Polynomial], alone: bool
) -> System | Function:
    names, parameters = geometry.names, geometry.metric.parameters
    suffix = "" if alone else "_" + "_".join(group)
    given, letters = tuple(map(names.euclidean, group)), tuple(map(names.tangent, group))
    right = given[0] if len(given) == 1 else f"({', '.join(given)})"
    what = f"with {LOWERED if alone else f'_{LOWERED}{suffix}'} = {right}"
    if len(group) == 1:
        (factor,) = group
        try:
            solution = solve_linear(images[factor] - geometry.alphabet[given[0]], letters[0])
            summary = f"The part {letters[0]} of the tangent {what}."
            arguments = (*names.factors, *given, *parameters)
            return Function(
                f"_raised{suffix}", arguments, {local(f"raised_{factor}", geometry): solution}, summary, True
            )
        except NotDerivableError:
            pass
    operator = Function(
        LOWERED if alone else f"_{LOWERED}{suffix}",
        (*names.factors, *letters, *parameters),
        {local(f"lowered_{f}", geometry): images[f] for f in group},
        f"What pairs with the tangent in the part of the metric on {', '.join(letters)}.",
        one=not alone and len(group) == 1,
    )
    return System(geometry, f"_raised{suffix}", operator, f"_weights{suffix}", letters, given, what, True)


# two terms


def _two_terms(operator: Polynomial, letter: str) -> list[tuple[Polynomial, Polynomial]] | None:
    """[(L_1, R_1), (L_2, R_2)], gathering words that share their left, or their right, side."""
    alphabet = operator.alphabet
    rows, columns = alphabet.shape(letter)
    here = alphabet.symbol_letter(letter)
    sides: dict[tuple[Word, Word], Fraction] = {}
    for word, coefficient in operator:
        places = [i for i, x in enumerate(word) if isinstance(x, SymbolLetter) and x.name == letter]
        if len(places) != 1 or word[places[0]] is not here:
            return None
        sides[word[: places[0]], word[places[0] + 1 :]] = coefficient
    turned = {(right, left): c for (left, right), c in sides.items()}
    for found, swapped in ((_gathered(sides), False), (_gathered(turned), True)):
        if len(found) == 2:
            pairs = [pair[::-1] if swapped else pair for pair in found]
            return [
                (Polynomial(alphabet, left, (rows, rows)), Polynomial(alphabet, right, (columns, columns)))
                for left, right in pairs
            ]
    return None


def _gathered(sides: Mapping[tuple[Word, Word], Fraction]) -> list[tuple[dict[Word, Fraction], dict[Word, Fraction]]]:
    """Sums (l, r) with sum of c L x R = sum of l x r: what stands left of proportional right sides is added up."""
    rights: dict[Word, dict[Word, Fraction]] = {}
    for (left, right), c in sides.items():
        rights.setdefault(left, {})[right] = c
    found: dict[frozenset[tuple[Word, Fraction]], tuple[dict[Word, Fraction], dict[Word, Fraction]]] = {}
    for left, sums in rights.items():
        lead = sums[min(sums, key=word_key)]
        shape = {right: c / lead for right, c in sums.items()}
        found.setdefault(frozenset(shape.items()), ({}, shape))[0][left] = lead
    return list(found.values())


def _pencil(first: Polynomial, second: Polynomial, definite: Callable[[Polynomial], bool]) -> Pencil | None:
    """With a weight that is certainly invertible as ``fixed``; a bare inverse is never formed where there is another way."""
    choices = [(fixed, other, leads) for fixed, other, leads in ((first, second, True), (second, first, False))]
    choices = [choice for choice in choices if definite(choice[0])]
    for fixed, other, leads in choices:
        inverse = _argument(fixed)
        if inverse is not None:
            return Pencil(inverse, other, True, leads)
    return next((Pencil(fixed, other, False, leads) for fixed, other, leads in choices), None)


def _argument(weight: Polynomial) -> Polynomial | None:
    """M where the weight is M^-1."""
    if len(weight) != 1:
        return None
    ((word, coefficient),) = weight
    if len(word) != 1 or not isinstance(word[0], InverseLetter):
        return None
    return word[0].argument * (1 / coefficient)


def _definiteness(geometry: Geometry) -> Callable[[Polynomial], bool]:
    """Tells of a semi-definite weight whether it is definite by its form, under what the certificate assumes already."""
    return assumed(geometry).is_definite
