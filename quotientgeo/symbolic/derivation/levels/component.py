"""Level (c): both sides written out in the entries of all matrices, as fractions of polynomials with integer coefficients.

Equality of the cross-multiplied numerators is a proof for the sizes at which it was computed. Derivatives are partial
derivatives of polynomials. Reads the SymPy expressions; shares nothing with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from quotientgeo.symbolic.algebra import Dimension
from quotientgeo.symbolic.algebra.parts import coordinate_pairs
from quotientgeo.symbolic.derivation.calculus import Calculus, Reading, Values, Variable
from quotientgeo.symbolic.derivation.certificate import Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.formula import Formula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.kinds import basis
from quotientgeo.symbolic.derivation.levels.points import Sizes, assign_sizes, no_inverse, number, numbers, sizes_text
from quotientgeo.symbolic.derivation.levels.reading import Evaluation
from quotientgeo.symbolic.derivation.levels.sparse import (
    BITS,
    Field,
    Poly,
    PolyMatrix,
    Quotient,
    TooLargeError,
    at_constants,
    combine,
    partial,
    plus,
    times,
)
from quotientgeo.symbolic.derivation.statements import Statement

BUDGET = 300_000  # monomial products for one claim at one assignment of sizes: well under a second


class ComponentCalculus(Calculus[Quotient]):
    """Values are matrices of fractions of polynomials in the entries of generic matrices."""

    def __init__(self, sizes: Sizes, budget: int = BUDGET) -> None:
        self.sizes = sizes
        self.field = Field(budget)
        self.variables: dict[str, Quotient] = {}

    # values

    def variable(self, variable: Variable) -> Quotient:
        if variable.name not in self.variables:
            self.variables[variable.name] = self._generic(*numbers(variable.shape, self.sizes), variable.kind)
        return self.variables[variable.name]

    def _generic(self, rows: int, columns: int, kind: str) -> Quotient:
        if kind == "orthogonal":
            one, skew = self._identity(rows), self._generic(rows, columns, "skew")  # Cayley transform
            inverse = self.field.inverse(self.add(one, skew))
            return self.product(self.add(one, self.scale(skew, Fraction(-1))), inverse)
        names: list[list[int | None]] = [[None] * columns for _ in range(rows)]
        leading: PolyMatrix = [[{} for _ in range(columns)] for _ in range(rows)]
        for i, j in map(min, basis(kind, rows, columns)):
            names[i][j] = variable = self.field.new_variable()
            leading[i][j] = _monomial(variable)
        return Quotient(_spanned(kind, leading), variables=names, kind=kind)

    def _identity(self, size: int) -> Quotient:
        return Quotient([[{0: 1} if i == j else {} for j in range(size)] for i in range(size)])

    def identity(self, size: Dimension) -> Quotient:
        return self._identity(number(size, self.sizes))

    def zero(self, rows: Dimension, columns: Dimension) -> Quotient:
        return Quotient([[{}] * number(columns, self.sizes) for _ in range(number(rows, self.sizes))])

    def number(self, value: Fraction) -> Quotient:
        return Quotient([[{0: value.numerator} if value else {}]], value.denominator)

    # arithmetic

    def add(self, left: Quotient, right: Quotient) -> Quotient:
        return self.field.add(left, right)

    def scale(self, value: Quotient, factor: Fraction) -> Quotient:
        return self.field.scale(value, factor)

    def product(self, left: Quotient, right: Quotient) -> Quotient:
        return self.field.matmul(left, right)

    def transpose(self, value: Quotient) -> Quotient:
        return Quotient([list(column) for column in zip(*value.entries, strict=True)], value.integer, value.denominator)

    def inverse(self, value: Quotient) -> Quotient:
        return self.field.inverse(value)

    def trace(self, value: Quotient) -> Quotient:
        total: Poly = {}
        for i, row in enumerate(value.entries):
            total = plus(total, row[i])
        return Quotient([[total]], value.integer, value.denominator)

    def multiply(self, scalar: Quotient, value: Quotient) -> Quotient:
        entries = self.field.scaled(value.entries, scalar.entries[0][0])
        return Quotient(entries, scalar.integer * value.integer, combine(scalar.denominator, value.denominator))

    def ones(self, rows: Dimension, columns: Dimension) -> Quotient:
        return Quotient([[{0: 1}] * number(columns, self.sizes) for _ in range(number(rows, self.sizes))])

    def diagonal(self, column: Quotient) -> Quotient:
        size = len(column.entries)
        entries = [[entry if i == j else {} for j in range(size)] for i, (entry,) in enumerate(column.entries)]
        return Quotient(entries, column.integer, column.denominator)

    def diagonal_of(self, value: Quotient) -> Quotient:
        return Quotient([[row[i]] for i, row in enumerate(value.entries)], value.integer, value.denominator)

    def complex_part(self, value: Quotient, pairing: str) -> Quotient:
        given, size = value.entries, len(value.entries)
        entries: PolyMatrix = [[{} for _ in range(size)] for _ in range(size)]
        for p, q in coordinate_pairs(size, pairing):
            entries[p][p] = entries[q][q] = plus(given[p][p], given[q][q])
            entries[q][p] = plus(given[q][p], given[p][q], -1)
            entries[p][q] = times(entries[q][p], -1)
        return Quotient(entries, 2 * value.integer, value.denominator)

    def pair(self, left: Quotient, right: Quotient) -> Quotient:
        return self.trace(self.product(self.transpose(left), right))

    def apply(self, formula: Formula, values: Mapping[str, Quotient]) -> Quotient:
        return Evaluation(self, values)(formula.expression)

    # derivatives

    def derivative(
        self,
        function: Callable[[Values[Quotient]], Values[Quotient]],
        at: Values[Quotient],
        direction: Values[Quotient],
    ) -> Values[Quotient]:
        """Partial derivatives by the entries of generic matrices; a constant point is put in afterwards."""
        generic, constants = dict(at), {}
        for name, velocity in direction.items():
            if at[name].variables is None:
                generic[name], values = self._around(at[name], velocity)
                constants.update(values)
            elif velocity.entries != _spanned(at[name].kind, velocity.entries):
                raise ValueError(f"the direction of {name} leaves the matrices of kind {at[name].kind}")
        out = {}
        for key, value in function(dict(generic)).items():
            moved = self.scale(value, Fraction(0))
            for name, velocity in direction.items():
                moved = self.add(moved, self._along(value, generic[name].variables or [], velocity))
            out[key] = self._substitute(moved, constants) if constants else moved
        return out

    def _around(self, point: Quotient, velocity: Quotient) -> tuple[Quotient, dict[int, int]]:
        """A constant matrix with variables for the entries that move, and the constants that these stand for."""
        if point.integer != 1 or point.denominator:
            raise ValueError("level (c) differentiates at generic points and at constant ones of whole numbers only")
        entries, constants = [list(row) for row in point.entries], {}
        names: list[list[int | None]] = [[None] * len(row) for row in entries]
        for i, speeds in enumerate(velocity.entries):
            for j, speed in enumerate(speeds):
                if speed:
                    names[i][j] = variable = self.field.new_variable()
                    constants[variable] = _constant(entries[i][j])
                    entries[i][j] = _monomial(variable)
        return Quotient(entries, variables=names), constants

    def _along(self, value: Quotient, names: list[list[int | None]], velocity: Quotient) -> Quotient:
        """Derivative of ``value`` when the named variables move with ``velocity``: the quotient rule."""
        variables = [
            (v, speed)
            for line, speeds in zip(names, velocity.entries, strict=True)
            for v, speed in zip(line, speeds, strict=True)
            if v is not None and speed
        ]
        entries = [[self._moved(entry, variables) for entry in row] for row in value.entries]
        integer = value.integer * velocity.integer
        out = Quotient(entries, integer, combine(value.denominator, velocity.denominator))
        for index, exponent in value.denominator.items():
            change = self._moved(self.field.bases[index], variables)
            if change:
                product = self.field.scaled(value.entries, times(change, -exponent))
                denominator = combine(combine(value.denominator, velocity.denominator), {index: 1})
                out = self.add(out, Quotient(product, integer, denominator))
        return out

    def _moved(self, polynomial: Poly, variables: list[tuple[int, Poly]]) -> Poly:
        out: Poly = {}
        for variable, speed in variables:
            slope = partial(polynomial, variable)
            if slope:
                self.field.multiply(slope, speed, out)
        return {monomial: c for monomial, c in out.items() if c}

    def _substitute(self, value: Quotient, constants: Mapping[int, int]) -> Quotient:
        out = Quotient([[at_constants(entry, constants) for entry in row] for row in value.entries], value.integer)
        for index, exponent in value.denominator.items():
            base = at_constants(self.field.bases[index], constants)
            if not base:
                raise ZeroDivisionError("a denominator vanishes at the point")
            out = Quotient(out.entries, out.integer, combine(out.denominator, {self.field.base(base): exponent}))
        return out


def _spanned(kind: str, leading: PolyMatrix) -> PolyMatrix:
    """The matrix of a kind that has the given entries where its basis leads."""
    rows, columns = len(leading), len(leading[0])
    if kind == "general":
        return leading
    out: PolyMatrix = [[{} for _ in range(columns)] for _ in range(rows)]
    for unit in basis(kind, rows, columns):
        i, j = min(unit)
        for (k, m), sign in unit.items():
            out[k][m] = times(leading[i][j], sign)
    return out


def _monomial(variable: int) -> Poly:
    return {1 << (BITS * variable): 1}


def _constant(entry: Poly) -> int:
    if set(entry) - {0}:
        raise ValueError("level (c) differentiates at generic or constant points only")
    return entry.get(0, 0)


def _sizes(geometry: Geometry) -> list[tuple[Sizes, bool]]:
    """From the smallest up, with whether they are narrow; the last ones have non-commuting entries, more rows than columns."""
    choices = [
        (1, 1, 0, True),
        (1, 1, 0, False),
        (1, 2, 1, False),
        (2, 2, 0, False),
        (2, 3, -1, False),
        (2, 3, 1, False),
    ]
    out: list[tuple[Sizes, bool]] = []
    for group, first, step, narrow in choices:
        sizes = assign_sizes(geometry, group, first, step, narrow=narrow)
        narrow = narrow and sizes != assign_sizes(geometry, group, first, step)
        if (sizes, narrow) not in out and all(size >= group for size in sizes.values()):
            out.append((sizes, narrow))
    return out


def check_component(geometry: Geometry, statement: Statement, budget: int = BUDGET) -> LevelResult:
    """Proven for the sizes whose polynomials fit the budget; false where they differ."""
    proven: list[str] = []
    said = statement.provable
    for sizes, narrow in _sizes(geometry):
        calculus = ComponentCalculus(sizes, budget)
        reading = Reading(calculus, geometry)
        scope = sizes_text(sizes)
        try:
            for left, right in said.sides(reading, *reading.bind(said.roles)):
                one, other = calculus.field.aligned(left, right)
                if one.entries != other.entries:
                    return LevelResult(Level.COMPONENT, Outcome.FALSE, scope, "the numerators differ")
        except TooLargeError:
            break
        except ZeroDivisionError:
            if narrow:  # fewer rows than columns: a Gram matrix has no inverse
                continue
            return no_inverse(geometry, Level.COMPONENT, scope)
        proven.append(scope)
    if not proven:
        return LevelResult(
            Level.COMPONENT, Outcome.NOT_APPLICABLE, residual="polynomials too large at the smallest sizes"
        )
    names, values = _common(proven)
    how = f", {statement.weak.text}" if statement.weak else ""
    return LevelResult(Level.COMPONENT, Outcome.PROVEN, f"sizes {names}{values}", f"numerators equal{how}")


def _common(scopes: list[str]) -> tuple[str, str]:
    """``(n, m, h) = (1, 1, 1), (2, 3, 1)``: the names once, then the values."""
    parts = [scope.partition(" = ") for scope in scopes]
    if len(scopes) == 1 or not parts[0][2]:
        return "", scopes[0]
    return f"{parts[0][0]} = ", ", ".join(values for _, _, values in parts)
