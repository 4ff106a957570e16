"""The small vocabulary in which every claim is stated once, and which each level interprets in its own arithmetic.

A level implements ``Calculus``: how a formula is evaluated and how a function is differentiated. ``Reading`` gives the
statements readable words (act, inner, acceleration, along). Nothing here computes anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from quotientgeo.symbolic.algebra import Dimension, Shape
from quotientgeo.symbolic.derivation.formula import Formula, MatrixFormula
from quotientgeo.symbolic.derivation.geometry import Geometry

V = TypeVar("V")  # a level's matrix; scalars are matrices of shape (1, 1), or the level's own scalars
Values = dict[str, V]  # keyed by letter
Blocks = dict[str, V]  # keyed by factor, or by element letter: a point, a tangent, a group element
Side = tuple[Any, Any]  # (left, right) of one equation of a claim
ORDERS = {f"x{k}": k for k in range(2, 5)}  # roles of time derivatives


@dataclass(frozen=True)
class Variable:
    """A letter over which a claim is quantified."""

    name: str
    shape: Shape
    kind: str
    positive: bool = False  # a diagonal matrix of positive numbers, where a witness should be one


class Calculus(ABC, Generic[V]):
    """Arithmetic of one level."""

    @abstractmethod
    def variable(self, variable: Variable) -> V:
        """A generic or random value; the same for the same name."""

    @abstractmethod
    def identity(self, size: Dimension) -> V:
        """Identity matrix."""

    @abstractmethod
    def zero(self, rows: Dimension, columns: Dimension) -> V:
        """Zero matrix."""

    @abstractmethod
    def apply(self, formula: Formula, values: Mapping[str, V]) -> V:
        """Value of a formula at the given values of its arguments."""

    @abstractmethod
    def derivative(self, function: Callable[[Values[V]], Values[V]], at: Values[V], direction: Values[V]) -> Values[V]:
        """d/dt at t = 0 of function(at + t direction), for a function that depends on ``at`` through its argument only."""

    @abstractmethod
    def add(self, left: V, right: V) -> V:
        """Sum."""

    @abstractmethod
    def scale(self, value: V, factor: Fraction) -> V:
        """Rational multiple."""

    @abstractmethod
    def product(self, left: V, right: V) -> V:
        """Matrix product."""

    @abstractmethod
    def pair(self, left: V, right: V) -> V:
        """The scalar tr(left' right)."""

    def inverse_of(self, operator: Callable[[Values[V]], Values[V]], like: Values[V]) -> V:
        """The inverse of a linear operator on values shaped as ``like``, as a matrix on all their entries."""
        raise NotImplementedError(f"{type(self).__name__} solves nothing: it takes statements in their weak form")

    def apply_inverse(self, inverse: V, given: Values[V]) -> Values[V]:
        """The matrix of ``inverse_of`` applied to values."""
        raise NotImplementedError(f"{type(self).__name__} solves nothing: it takes statements in their weak form")


def variables_of(geometry: Geometry, role: str) -> dict[str, Variable]:
    """The letters of one role, keyed by factor, or by element letter for group elements and the Lie algebra.

    Roles: p (point), xi, eta, zeta (tangents), d (Euclidean gradient), A, B (group elements), X (Lie algebra), parameters,
    and x2, x3, x4 (time derivatives of a curve) where the geometry has letters for them.
    """
    names = geometry.names
    per_factor: dict[str, Callable[[str], str]] = {
        "p": str,
        "xi": names.tangent,
        "eta": names.second_tangent,
        "zeta": names.third_tangent,
        "d": names.euclidean,
    }
    if role in per_factor:
        rename = per_factor[role]
        return {f: Variable(rename(f), shape, geometry.kind(rename(f))) for f, shape in geometry.factors.items()}
    if role in ORDERS:
        letters = geometry.rates[ORDERS[role]]
        return {f: Variable(letters[f], shape, geometry.kind(letters[f])) for f, shape in geometry.factors.items()}
    if role == "inputs":
        return {
            x: Variable(x, geometry.alphabet.shape(x), geometry.kind(x), getattr(given, "positive", False))
            for x, given in geometry.symmetry.inputs.items()
        }
    if role == "parameters":
        return {x: Variable(x, (1, 1), geometry.kind(x)) for x in geometry.metric.parameters}
    if role == "X":
        return {x: Variable(x, geometry.alphabet.shape(x), geometry.kind(x)) for x in names.algebra}
    rename = names.other_element if role == "B" else str
    groups = dict(zip(names.elements, geometry.symmetry.groups, strict=True))
    return {
        e: Variable(rename(e), geometry.alphabet.shape(e), geometry.kind(e), getattr(group, "positive", False))
        for e, group in groups.items()
    }


class Reading(Generic[V]):
    """A geometry's formulas as functions of points, tangents and group elements, in the arithmetic of one level."""

    def __init__(self, calculus: Calculus[V], geometry: Geometry) -> None:
        self.calculus = calculus
        self.geometry = geometry
        self._solved: tuple[tuple[V, ...], V] | None = None  # the last point at which M was inverted, and its inverse

    def bind(self, roles: Iterable[str]) -> list[Blocks[V]]:
        """Values of the letters of each role."""
        return [
            {key: self.calculus.variable(variable) for key, variable in variables_of(self.geometry, role).items()}
            for role in roles
        ]

    # formulas

    def _letters(self, p: Blocks[V] | None = None, **roles: Blocks[V]) -> Values[V]:
        names = self.geometry.names
        rename: dict[str, Callable[[str], str]] = {
            "xi": names.tangent,
            "eta": names.second_tangent,
            "d": names.euclidean,
            "A": str,
            "X": str,
        }
        out = dict(p or {})
        for name, variable in variables_of(self.geometry, "parameters").items():
            out[name] = self.calculus.variable(variable)
        for role, blocks in roles.items():
            out.update({rename[role](key): value for key, value in blocks.items()})
        return out

    def _apply_all(self, formulas: Mapping[str, MatrixFormula], values: Values[V]) -> Blocks[V]:
        return {key: self.calculus.apply(formula, values) for key, formula in formulas.items()}

    def act(self, element: Blocks[V], p: Blocks[V]) -> Blocks[V]:
        """The point moved by a group element."""
        return self._apply_all(self.geometry.action, self._letters(p, A=element))

    def preserved(self, p: Blocks[V]) -> Blocks[V]:
        """What the action is claimed to leave unchanged."""
        letters = self._letters(p)
        for name, variable in variables_of(self.geometry, "inputs").items():
            letters[name] = self.calculus.variable(variable)
        return {str(i): self.calculus.apply(f, letters) for i, f in enumerate(self.geometry.preserved)}

    def inner(self, p: Blocks[V], xi: Blocks[V], eta: Blocks[V]) -> V:
        """The metric."""
        return self.calculus.apply(self.geometry.inner, self._letters(p, xi=xi, eta=eta))

    def vertical(self, p: Blocks[V], x: Blocks[V]) -> Blocks[V]:
        """The derived vertical vector."""
        return self._apply_all(self.geometry.vertical, self._letters(p, X=x))

    def momentum(self, p: Blocks[V], xi: Blocks[V]) -> Blocks[V]:
        """The derived momentum."""
        return self._apply_all(self.geometry.momentum, self._letters(p, xi=xi))

    def gradient(self, p: Blocks[V], d: Blocks[V]) -> Blocks[V]:
        """The derived Riemannian gradient."""
        if self.geometry.equations is not None:
            return self.raised(p, d)
        return self._apply_all(self.geometry.gradient, self._letters(p, d=d))

    def order(self, k: int, p: Blocks[V], xi: Blocks[V]) -> Blocks[V]:
        """The derived k-th time derivative of the geodesic; k = 1 is the velocity."""
        if not self.geometry.rates:
            return xi if k == 1 else self.stage(k, p, [xi])
        chain = [xi]
        for j in range(2, k + 1):
            value = self.stage(j, p, chain)
            chain.append(value if self.geometry.equations is None else self.raised(p, value))
        return chain[k - 1]

    def stage(self, k: int, p: Blocks[V], derivatives: Sequence[Blocks[V]]) -> Blocks[V]:
        """What the derived formula of order k says of a curve with the derivatives xi, x_2, ..., x_(k-1): x_k, or M(x_k)."""
        values = self._letters(p, xi=derivatives[0])
        for j in range(2, k) if self.geometry.rates else ():
            values |= {self.geometry.rates[j][f]: value for f, value in derivatives[j - 1].items()}
        return self._apply_all(self.geometry.staged[k], values)

    def acceleration(self, p: Blocks[V], xi: Blocks[V]) -> Blocks[V]:
        """The derived acceleration."""
        if self.geometry.equations is not None:
            return self.order(2, p, xi)
        return self._apply_all(self.geometry.acceleration, self._letters(p, xi=xi))

    def christoffel(self, p: Blocks[V], xi: Blocks[V], eta: Blocks[V]) -> Blocks[V]:
        """The derived Gamma(xi, eta)."""
        if self.geometry.equations is not None:
            return self.raised(p, self.lowered_christoffel(p, xi, eta))
        return self._apply_all(self.geometry.christoffel, self._letters(p, xi=xi, eta=eta))

    # what stands in place of closed forms

    def lowered(self, p: Blocks[V], xi: Blocks[V]) -> Blocks[V]:
        """The derived M(xi), the coefficient of eta in <xi, eta>."""
        assert self.geometry.equations is not None
        return self._apply_all(self.geometry.equations.lowered, self._letters(p, xi=xi))

    def lowered_christoffel(self, p: Blocks[V], xi: Blocks[V], eta: Blocks[V]) -> Blocks[V]:
        """The derived M(Gamma(xi, eta))."""
        assert self.geometry.equations is not None
        return self._apply_all(self.geometry.equations.christoffel, self._letters(p, xi=xi, eta=eta))

    def raised(self, p: Blocks[V], given: Blocks[V]) -> Blocks[V]:
        """The tangent xi with M(xi) = given, solved for at the point in the arithmetic of the level."""
        point = tuple(p.values())
        if self._solved is None or any(x is not y for x, y in zip(self._solved[0], point, strict=True)):
            self._solved = (point, self.calculus.inverse_of(lambda xi: self.lowered(p, xi), given))
        return self.calculus.apply_inverse(self._solved[1], given)

    def vertical_gram(self, p: Blocks[V], x: Blocks[V]) -> Blocks[V]:
        """The derived momentum of the vertical vector."""
        return self._apply_all(self.geometry.vertical_gram, self._letters(p, X=x))

    def projector(self, p: Blocks[V], xi: Blocks[V]) -> Blocks[V]:
        """The derived X whose vertical vector is the vertical part of xi."""
        assert self.geometry.projector is not None
        return self._apply_all(self.geometry.projector, self._letters(p, xi=xi))

    def horizontal(self, p: Blocks[V], xi: Blocks[V]) -> Blocks[V]:
        """The derived horizontal part."""
        assert self.geometry.horizontal is not None
        return self._apply_all(self.geometry.horizontal, self._letters(p, xi=xi))

    # calculus on blocks

    def identity(self) -> Blocks[V]:
        """The identity of the group: the identity matrix, or zero where elements are added."""
        shape, c = self.geometry.alphabet.shape, self.calculus
        return {e: c.zero(*shape(e)) if added else c.identity(shape(e)[0]) for e, added in self._added().items()}

    def _added(self) -> dict[str, bool]:
        """Element -> whether its group's law is the sum."""
        groups = self.geometry.symmetry.groups
        return {
            element: getattr(group, "law", "multiply") == "add"
            for element, group in zip(self.geometry.names.elements, groups, strict=True)
        }

    def add(self, left: Blocks[V], right: Blocks[V], factor: int | Fraction = 1) -> Blocks[V]:
        """left + factor right."""
        c = self.calculus
        return {key: c.add(left[key], c.scale(right[key], Fraction(factor))) for key in left}

    def product(self, left: Blocks[V], right: Blocks[V]) -> Blocks[V]:
        """Product in the group: the matrix product, or the sum where elements are added."""
        c = self.calculus
        return {e: (c.add if added else c.product)(left[e], right[e]) for e, added in self._added().items()}

    def pair(self, left: Blocks[V], right: Blocks[V]) -> V:
        """Sum over blocks of tr(left' right); the keys of the two must come in the same order."""
        pairs = [self.calculus.pair(x, y) for x, y in zip(left.values(), right.values(), strict=True)]
        total = pairs[0]
        for value in pairs[1:]:
            total = self.calculus.add(total, value)
        return total

    def along(self, function: Callable[[Blocks[V]], Blocks[V]], at: Blocks[V], direction: Blocks[V]) -> Blocks[V]:
        """Directional derivative of a block-valued function."""
        return self.calculus.derivative(function, at, direction)

    def along_orbit(self, p: Blocks[V], x: Blocks[V]) -> Blocks[V]:
        """The differential of the declared action at the identity, where the group moves with velocity x."""
        directions = dict(zip(self.identity(), x.values(), strict=True))
        return self.along(lambda element: self.act(element, p), self.identity(), directions)

    def along_scalar(self, function: Callable[[Blocks[V]], V], at: Blocks[V], direction: Blocks[V]) -> V:
        """Directional derivative of a scalar function."""
        return self.calculus.derivative(lambda values: {"": function(values)}, at, direction)[""]

    def along_flow(
        self, function: Callable[[Blocks[V], Blocks[V]], Blocks[V]], p: Blocks[V], xi: Blocks[V]
    ) -> Blocks[V]:
        """d/dt of function(point, velocity) along the derived geodesic, where the velocity moves with the acceleration."""
        return self.along_curve(function, p, [xi, self.acceleration(p, xi)])

    def along_curve(
        self, function: Callable[..., Blocks[V]], p: Blocks[V], derivatives: Sequence[Blocks[V]]
    ) -> Blocks[V]:
        """d/dt of function(x, x', ..., x^(k-1)) along a curve through p with the derivatives x', ..., x^(k)."""
        names, rates = self.geometry.names, self.geometry.rates
        chain = [p, *derivatives]
        letters: list[dict[str, str]] = [{f: f for f in names.factors}, {f: names.tangent(f) for f in names.factors}]
        letters += [dict(rates[j]) for j in range(2, len(derivatives))]
        state: Values[V] = {}
        velocity: Values[V] = {}
        for j, of_order in enumerate(letters):
            state |= {letter: chain[j][f] for f, letter in of_order.items()}
            velocity |= {letter: chain[j + 1][f] for f, letter in of_order.items()}

        def at(values: Values[V]) -> Blocks[V]:
            return function(*({f: values[letter] for f, letter in of_order.items()} for of_order in letters))

        return self.calculus.derivative(at, state, velocity)
