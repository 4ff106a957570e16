"""Scalars, diagonals, elementwise operations and complex diagonals: the arithmetic of the levels against numpy.

Every expression is written twice, for SymPy and for numpy. Derivatives are those of numpy by complex steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from numpy.linalg import inv
from sympy import DiagMatrix, DiagonalOf, HadamardPower, HadamardProduct, Identity, MatrixSymbol, OneMatrix, Trace

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.parts import ComplexPart
from quotientgeo.symbolic.derivation.calculus import Calculus, Variable
from quotientgeo.symbolic.derivation.levels.autodiff import TorchCalculus
from quotientgeo.symbolic.derivation.levels.component import ComponentCalculus
from quotientgeo.symbolic.derivation.levels.points import Sizes, generator
from quotientgeo.symbolic.derivation.levels.rational import RationalCalculus
from quotientgeo.symbolic.derivation.levels.reading import Evaluation
from quotientgeo.symbolic.derivation.levels.search import _Batched
from quotientgeo.symbolic.derivation.levels.sparse import LIMIT, Quotient

Array = Any
SIZES: Sizes = {"n": 3, "d": 2, "e": 4}
KINDS = {
    "G": (("n", "d"), "general"),
    "M": (("d", "d"), "general"),
    "K": (("e", "e"), "general"),
    "D": (("d", "d"), "diagonal"),
    "Z": (("e", "e"), "complex_half"),
    "Y": (("e", "e"), "complex_interleaved"),
    "u": (("d", 1), "vector"),
    "v": (("d", 1), "vector"),
    "s": ((1, 1), "scalar"),
    "c": ((1, 1), "scalar"),  # as a plain symbol
}
n, d, e = (sp.Symbol(name, integer=True, positive=True) for name in SIZES)
SHAPE = {"n": n, "d": d, "e": e, 1: sp.S.One}
G, M, K, D, Z, Y, u, v, s = (
    MatrixSymbol(name, *(SHAPE[size] for size in shape)) for name, (shape, _) in KINDS.items() if name != "c"
)
c = sp.Symbol("c")


def diag(column: Array) -> Array:
    return np.diag(np.ravel(column))


def diagonal_of(matrix: Array) -> Array:
    return np.diag(matrix)[:, None]


def half(m: Array) -> Array:
    """By complex numbers: multiplication by z_j on coordinates (j, j + k), from the entries."""
    k = len(m) // 2
    a, b = (m[:k, :k] + m[k:, k:]) / 2, (m[k:, :k] - m[:k, k:]) / 2
    a, b = np.diag(np.diag(a)), np.diag(np.diag(b))
    return np.block([[a, -b], [b, a]])


def interleaved(m: Array) -> Array:
    order = [*range(0, len(m), 2), *range(1, len(m), 2)]
    back = np.argsort(order)
    return half(m[np.ix_(order, order)])[np.ix_(back, back)]


CASES: dict[str, tuple[Any, Callable[..., Array]]] = {
    "scalar symbol": (c * G, lambda c, G: c * G),
    "scalar coefficient": (
        3 * c**-2 * Trace(M) ** -1 * G + G / 2,
        lambda c, M, G: 3 / c**2 / np.trace(M) * G + G / 2,
    ),
    "sum as a coefficient": ((c + Trace(M)) * Identity(d), lambda c, M: (c + np.trace(M)) * np.eye(2)),
    "product of traces": (
        c * Trace(M) * Trace(D) ** 2 / Trace(u.T * u) - 1,
        lambda c, M, D, u: c * np.trace(M) * np.trace(D) ** 2 / (u.T @ u) - 1,
    ),
    "a size as a scalar": (Trace(Identity(d)).doit() * M, lambda M: 2 * M),
    "1 x 1 matrices": (
        u * s**-2 * v.T * Trace(s) + M * Trace(u * s * v.T),
        lambda u, s, v, M: u @ v.T / s + M * s * (v.T @ u),
    ),
    "inverse of a 1 x 1 product": ((u.T * u).I * u.T, lambda u: u.T / (u.T @ u)),
    "diagonal of a column": (
        DiagMatrix(u) * M + DiagMatrix(v).I * M * DiagMatrix(u) ** 2,
        lambda u, M, v: diag(u) @ M + inv(diag(v)) @ M @ diag(u * u),
    ),
    "diagonal of a row": (DiagMatrix(u.T) * M, lambda u, M: diag(u) @ M),
    "diagonal letter": (G * D * M * D.I * D.T, lambda G, D, M: G @ D @ M @ inv(D) @ D.T),
    "elementwise product": (HadamardProduct(u, v, 2 * u), lambda u, v: 2 * u * u * v),
    "elementwise power": (
        HadamardPower(u, -2) + HadamardPower(u + OneMatrix(d, 1), 3) + HadamardPower(v, 0) + HadamardPower(v, 1),
        lambda u, v: u**-2.0 + (u + 1) ** 3 + 1 + v,
    ),
    "elementwise on rows": (
        HadamardProduct(u.T, v.T) * M + HadamardPower(u.T, -1),
        lambda u, v, M: (u * v).T @ M + 1 / u.T,
    ),
    "diagonal of a matrix": (
        DiagMatrix(DiagonalOf(M * M.T)) * HadamardPower(DiagonalOf(M), -1),
        lambda M: diag(diagonal_of(M @ M.T)) @ (1 / diagonal_of(M)),
    ),
    "ones": (OneMatrix(n, d) * M + G, lambda M, G: np.ones((3, 2)) @ M + G),
    "complex part, half": (ComplexPart(K, "half") * K, lambda K: half(K) @ K),
    "complex part, interleaved": (ComplexPart(K, "interleaved") * K, lambda K: interleaved(K) @ K),
    "complex letters": (
        Z.T * Z.I * K + K * Y.I * Y.T * Y,
        lambda Z, K, Y: Z.T @ inv(Z) @ K + K @ inv(Y) @ Y.T @ Y,
    ),
    "weights of complex parts": (
        Trace(ComplexPart(K.T * K, "half").I * Z.T * K),
        lambda K, Z: np.trace(inv(half(K.T @ K)) @ Z.T @ K).reshape(1, 1),
    ),
}
HEAVY = {"weights of complex parts"}  # for polynomials in all entries

Point = dict[str, Array]


class Rational:
    """Level (d)."""

    def __init__(self) -> None:
        self.calculus: Calculus[Any] = RationalCalculus(SIZES, generator("kinds"), 9)

    def array(self, value: Any) -> Array:
        return np.array([[float(entry.real) for entry in row] for row in value])


class Float64:
    """Level (e)."""

    def __init__(self) -> None:
        self.calculus: Calculus[Any] = TorchCalculus(SIZES, 5)

    def array(self, value: Any) -> Array:
        return value.detach().numpy()


class Components:
    """Level (c): fractions of polynomials, put in numbers for their variables."""

    def __init__(self) -> None:
        self.component = ComponentCalculus(SIZES, 10**8)
        self.calculus: Calculus[Any] = self.component
        self.numbers: dict[int, int] = {}

    def array(self, value: Quotient) -> Array:
        below = Fraction(value.integer)
        for index, exponent in value.denominator.items():
            below *= self._at(self.component.field.bases[index]) ** exponent
        return np.array([[float(self._at(entry) / below) for entry in row] for row in value.entries])

    def _at(self, polynomial: Mapping[int, int]) -> Fraction:
        total = Fraction(0)
        for monomial, coefficient in polynomial.items():
            term, variable = Fraction(coefficient), 0
            while monomial:
                term *= self._number(variable) ** (monomial & LIMIT)
                monomial, variable = monomial >> LIMIT.bit_length(), variable + 1
            total += term
        return total

    def _number(self, variable: int) -> int:
        if variable not in self.numbers:
            rng = random.Random(variable)
            self.numbers[variable] = rng.randint(1, 9) * rng.choice((-1, 1))
        return self.numbers[variable]


def letters(function: Callable[..., Array]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def along(function: Callable[..., Array], at: Point, direction: Point) -> Array:
    """Directional derivative by a complex step, exact to rounding."""
    moved = {name: value + 1e-30j * direction[name] for name, value in at.items()}
    return np.imag(function(**moved)) / 1e-30


def close(one: Array, other: Array, tolerance: float = 1e-11) -> bool:
    return bool(np.abs(one - other).max() <= tolerance * max(1.0, np.abs(one).max(), np.abs(other).max()))


def bound(level: Any, function: Callable[..., Array]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A point and a direction."""
    at, direction = (
        {name: level.calculus.variable(Variable(f"{stem}{name}", *KINDS[name])) for name in letters(function)}
        for stem in ("", "moving ")
    )
    return at, direction


@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, name) for k in (Components, Rational, Float64) for name in CASES if k is not Components or name not in HEAVY],
)
def test_expressions_against_numpy(kind: type[Any], name: str) -> None:
    """Values, first and second derivatives; a letter that is wrong by one per cent is noticed in each."""
    expression, function = CASES[name]
    level = kind()
    formula: Any = SimpleNamespace(expression=expression)
    at, direction = bound(level, function)

    def first(values: dict[str, Any]) -> dict[str, Any]:
        return level.calculus.derivative(lambda w: {"": level.calculus.apply(formula, w)}, values, direction)

    point = {key: level.array(value) for key, value in at.items()}
    velocity = {key: level.array(value) for key, value in direction.items()}
    value, slope = level.array(level.calculus.apply(formula, at)), level.array(first(at)[""])
    assert close(value, function(**point))
    assert close(slope, along(function, point, velocity))
    bend = level.array(level.calculus.derivative(first, at, direction)[""])
    step = 1e-5
    ahead, behind = ({k: x + sign * step * velocity[k] for k, x in point.items()} for sign in (1, -1))
    expected = (along(function, ahead, velocity) - along(function, behind, velocity)) / (2 * step)
    assert close(bend, expected, 1e-5)
    for key in point:
        wrong = {**point, key: 1.01 * point[key]}
        assert not close(value, function(**wrong)) or not close(slope, along(function, wrong, velocity))


@pytest.mark.parametrize("name", CASES)
def test_stacks_give_the_values_of_their_members(name: str) -> None:
    expression, function = CASES[name]
    members = [bound(SimpleNamespace(calculus=TorchCalculus(SIZES, seed)), function)[0] for seed in range(6)]
    stacks = {key: torch.stack([member[key] for member in members]) for key in members[0]}
    stacks = {key: value.reshape(2, 3, *value.shape[1:]) for key, value in stacks.items()}
    found = Evaluation(_Batched(SIZES), stacks)(expression)
    found = found.expand(2, 3, *found.shape[-2:]).reshape(6, *found.shape[-2:])
    for one, member in zip(found, members, strict=True):
        assert close(one.numpy(), function(**{key: value.numpy() for key, value in member.items()}))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (HadamardProduct(M, M.T), "columns or rows"),
        (HadamardPower(M, 2), "columns or rows"),
        (HadamardPower(M, -1), "neither a column nor a row"),
        (HadamardPower(u, sp.Rational(1, 2)), "exponents are integers"),
        (Trace(M) ** sp.Rational(1, 2), "exponents are integers"),
        (sp.exp(Trace(M)), "cannot evaluate exp"),
        (sp.Determinant(M), "cannot evaluate Determinant"),
    ],
    ids=str,
)
def test_what_has_no_meaning_here_is_refused(expression: Any, message: str) -> None:
    level = Rational()
    values = {name: level.calculus.variable(Variable(name, *KINDS[name])) for name in ("M", "u")}
    with pytest.raises(DeclarationError, match=message):
        level.calculus.apply(SimpleNamespace(expression=expression), values)  # type: ignore[arg-type]
