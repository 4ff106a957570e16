"""Level (a): both sides of a claim in the non-commutative algebra; a difference that reduces to zero is a proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod
from typing import TypeAlias

from quotientgeo.symbolic.algebra import (
    Alphabet,
    Dimension,
    Kind,
    Polynomial,
    TraceLetter,
    TracePolynomial,
    Word,
    vanishes,
)
from quotientgeo.symbolic.algebra.letters import COMMUTING
from quotientgeo.symbolic.derivation.calculus import Calculus, Reading, Values, Variable
from quotientgeo.symbolic.derivation.certificate import Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.formula import Formula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.solved import as_solution
from quotientgeo.symbolic.derivation.statements import Statement, Weak
from quotientgeo.symbolic.derivation.weak import SAID_OF_EQUATIONS, weakly

Value: TypeAlias = Polynomial | TracePolynomial
COUNTED = "with tr(I) of declared sizes as numbers"
_SHOWN = 300  # characters of a residual worth reading


class SymbolicCalculus(Calculus[Value]):
    """Values are polynomials, scalars are trace polynomials; everything holds for all sizes."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet

    def variable(self, variable: Variable) -> Polynomial:
        return self.alphabet.declare(variable.name, variable.shape, variable.kind)

    def identity(self, size: Dimension) -> Polynomial:
        return self.alphabet.identity(size)

    def zero(self, rows: Dimension, columns: Dimension) -> Polynomial:
        return self.alphabet.zero((rows, columns))

    def apply(self, formula: Formula, values: Mapping[str, Value]) -> Value:
        return formula.polynomial.substitute({name: _matrix(values[name]) for name in formula.arguments})

    def derivative(
        self, function: Callable[[Values[Value]], Values[Value]], at: Values[Value], direction: Values[Value]
    ) -> Values[Value]:
        """Differentiate at new letters and then put the point in their place, so nothing else is differentiated."""
        letters, kinds = {}, self.alphabet
        for name, value in at.items():
            kind = kinds.kind(name) if name in kinds else "general"
            letters[name] = kinds.declare_fresh(f"at_{name}", _matrix(value).shape, kind)
        result = function(dict(letters))
        moving = {_name(letters[name]): _matrix(value) for name, value in direction.items()}
        back = {_name(letters[name]): _matrix(value) for name, value in at.items()}
        return {key: value.differential(moving).substitute(back) for key, value in result.items()}

    def add(self, left: Value, right: Value) -> Value:
        return left + right  # type: ignore[operator]

    def scale(self, value: Value, factor: Fraction) -> Value:
        return value * factor

    def product(self, left: Value, right: Value) -> Value:
        return _matrix(left) * _matrix(right)

    def pair(self, left: Value, right: Value) -> TracePolynomial:
        return (_matrix(left).T * _matrix(right)).trace()


def _name(letter: Polynomial) -> str:
    (name,) = letter.symbols()
    return name


def _matrix(value: Value) -> Polynomial:
    assert isinstance(value, Polynomial)
    return value


def check_normal_form(geometry: Geometry, statement: Statement) -> LevelResult:
    """Proven for all sizes, or undecided: a difference that does not reduce to zero is no disproof."""
    said = statement.provable
    left_over = _difference(geometry, said)
    pairs = statement.name != "momentum_conserved" or _momenta_lie_in_the_algebra(
        geometry
    )  # what is said weakly says it all
    if statement.weak and not pairs:
        return LevelResult(
            Level.NORMAL_FORM, Outcome.UNDECIDED, residual="the momentum is not in the dual of the Lie algebra"
        )
    how = f", {statement.weak.text}" if statement.weak else ""
    if left_over is None:
        return LevelResult(Level.NORMAL_FORM, Outcome.PROVEN, scope="all sizes", residual=f"normal form 0{how}")
    if _difference(geometry, said, counted=True) is None:
        return LevelResult(
            Level.NORMAL_FORM, Outcome.PROVEN, scope="all sizes", residual=f"normal form 0{how}, {COUNTED}"
        )
    solution = as_solution(geometry) if statement.name in SAID_OF_EQUATIONS else None
    weak = None if solution is None else weakly(solution, statement).weak
    if solution is not None and weak is not None and pairs and _difference(solution, weak) is None:
        how = f"normal form 0, {weak.text}; the formula is the gradient's at that right side, which solves for it"
        return LevelResult(Level.NORMAL_FORM, Outcome.PROVEN, scope="all sizes", residual=how)
    text = str(left_over)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ... ({len(left_over)} terms)"
    return LevelResult(Level.NORMAL_FORM, Outcome.UNDECIDED, residual=f"normal form of the difference: {text}")


def _momenta_lie_in_the_algebra(geometry: Geometry) -> bool:
    """Whether tr(J' X) = 0 for every X of the Lie algebra says that J is zero: J has the kind of X itself."""

    def projected(J: Polynomial, kind: Kind) -> Polynomial:
        if kind in COMMUTING:
            return J.part(kind)
        if kind in (Kind.SKEW, Kind.SYMMETRIC):
            return (J + J.T * (1 if kind is Kind.SYMMETRIC else -1)) * Fraction(1, 2)
        return J

    momenta = ((formula.polynomial, Kind(geometry.kind(x))) for x, formula in geometry.momentum.items())
    return all(vanishes(J - projected(J, kind)) for J, kind in momenta)


def _difference(geometry: Geometry, said: Statement | Weak, *, counted: bool = False) -> Value | None:
    """The first difference of two sides that does not reduce to zero; ``counted``: with tr(I) of declared sizes as numbers."""
    reading = Reading(SymbolicCalculus(geometry.alphabet), geometry)
    differences = (left - right for left, right in said.sides(reading, *reading.bind(said.roles)))
    return next((d for d in differences if not vanishes(_counted(d) if counted else d)), None)


def _counted(value: Value) -> Value:
    terms: dict[Word, Fraction] = {}
    for word, coefficient in value.terms.items():
        sizes = [x.size for x in word if isinstance(x, TraceLetter) and not x.letters and isinstance(x.size, int)]
        rest = tuple(x for x in word if not (isinstance(x, TraceLetter) and not x.letters and isinstance(x.size, int)))
        terms[rest] = terms.get(rest, Fraction(0)) + coefficient * prod(sizes)
    terms = {word: coefficient for word, coefficient in terms.items() if coefficient}
    if isinstance(value, Polynomial):
        return Polynomial(value.alphabet, terms, value.shape)
    return TracePolynomial(value.alphabet, terms)
