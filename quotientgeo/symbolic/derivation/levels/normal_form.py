"""Level (a): both sides of a claim in the non-commutative algebra; a difference that reduces to zero is a proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from quotientgeo.symbolic.algebra import (
    Alphabet,
    Dimension,
    Polynomial,
    TraceLetter,
    TracePolynomial,
    Word,
    vanishes,
)
from quotientgeo.symbolic.algebra.rewriting import add_term
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
    left_over, counted = _difference(geometry, statement.provable)
    pairs = statement.name != "momentum_conserved" or _momenta_lie_in_the_algebra(
        geometry
    )  # what is said weakly says it all
    if statement.weak and not pairs:
        return LevelResult(
            Level.NORMAL_FORM, Outcome.UNDECIDED, residual="the momentum is not in the dual of the Lie algebra"
        )
    if left_over is None:
        how = "".join(
            f", {text}" for text in (statement.weak.text if statement.weak else "", COUNTED if counted else "") if text
        )
        return LevelResult(Level.NORMAL_FORM, Outcome.PROVEN, scope="all sizes", residual=f"normal form 0{how}")
    solution = as_solution(geometry) if statement.name in SAID_OF_EQUATIONS and pairs else None
    weak = None if solution is None else weakly(solution, statement).weak
    if solution is not None and weak is not None and _difference(solution, weak) == (None, False):
        how = f"normal form 0, {weak.text}; the formula is the gradient's at that right side, which solves for it"
        return LevelResult(Level.NORMAL_FORM, Outcome.PROVEN, scope="all sizes", residual=how)
    text = str(left_over)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ... ({len(left_over)} terms)"
    return LevelResult(Level.NORMAL_FORM, Outcome.UNDECIDED, residual=f"normal form of the difference: {text}")


def _momenta_lie_in_the_algebra(geometry: Geometry) -> bool:
    """Whether tr(J' X) = 0 for every X of the Lie algebra says that J is zero: J is the gradient of that pairing."""
    momenta = ((x, formula.polynomial) for x, formula in geometry.momentum.items())
    return all(vanishes(J - (J.T * geometry.alphabet[x]).trace().gradient(x)) for x, J in momenta)


def _difference(geometry: Geometry, said: Statement | Weak) -> tuple[Value | None, bool]:
    """(the first difference of two sides that does not reduce to zero, whether some did by counting: tr(I_16) = 16)."""
    reading, counted = Reading(SymbolicCalculus(geometry.alphabet), geometry), False
    for left, right in said.sides(reading, *reading.bind(said.roles)):
        difference = left - right
        if vanishes(difference):
            continue
        if not vanishes(_counted(difference)):
            return difference, counted
        counted = True
    return None, counted


def _counted(value: Value) -> Value:
    """With tr(I) of declared sizes as numbers."""
    terms: dict[Word, Fraction] = {}
    for word, coefficient in value.terms.items():
        rest = []
        for letter in word:
            if isinstance(letter, TraceLetter) and not letter.letters and isinstance(letter.size, int):
                coefficient *= letter.size
            else:
                rest.append(letter)
        add_term(terms, tuple(rest), coefficient)
    return (
        Polynomial(value.alphabet, terms, value.shape)
        if isinstance(value, Polynomial)
        else TracePolynomial(value.alphabet, terms)
    )
