"""Level (b): identity test modulo the prime 2^61 - 1.

Walks the engine's polynomials word by word with matrices of integers modulo p, each carried as a truncated power series in
nilpotent directions, so that derivatives are taken here and not by the engine. A false identity between rational functions
of degree d passes one random point with probability at most d / p.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from quotientgeo.symbolic.algebra import (
    Dimension,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    Polynomial,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    TracePolynomial,
    Word,
    split_scalars,
)
from quotientgeo.symbolic.algebra.parts import coordinate_pairs
from quotientgeo.symbolic.derivation.calculus import Calculus, Reading, Values, Variable
from quotientgeo.symbolic.derivation.certificate import Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.formula import Formula, MatrixFormula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.kinds import PARTED, Unit, basis
from quotientgeo.symbolic.derivation.levels.points import (
    Sizes,
    assign_sizes,
    generator,
    no_inverse,
    number,
    numbers,
    sizes_text,
)
from quotientgeo.symbolic.derivation.statements import Statement

PRIME = 2**61 - 1
Matrix = list[list[int]]


class SingularError(ArithmeticError):
    """A matrix to be inverted is singular modulo the prime."""


def _multiply(a: Matrix, b: Matrix) -> Matrix:
    columns = list(zip(*b, strict=True))
    return [[sum(x * y for x, y in zip(row, column, strict=True)) % PRIME for column in columns] for row in a]


def _invert(a: Matrix) -> Matrix:
    size = len(a)
    work = [[*row, *(int(i == j) for j in range(size))] for i, row in enumerate(a)]
    for c in range(size):
        pivot = next((r for r in range(c, size) if work[r][c]), None)
        if pivot is None:
            raise SingularError
        work[c], work[pivot] = work[pivot], work[c]
        scale = pow(work[c][c], -1, PRIME)
        work[c] = [x * scale % PRIME for x in work[c]]
        for r in range(size):
            if r != c and work[r][c]:
                factor = work[r][c]
                work[r] = [(x - factor * y) % PRIME for x, y in zip(work[r], work[c], strict=True)]
    return [row[size:] for row in work]


@dataclass(frozen=True)
class Jet:
    """A matrix sum over bit masks of e_mask M_mask with e_i^2 = 0: value (mask 0) and mixed first derivatives."""

    parts: dict[int, Matrix]

    def __add__(self, other: Jet) -> Jet:
        out = dict(self.parts)
        for mask, b in other.parts.items():
            a = out.get(mask)
            out[mask] = b if a is None else [
                [(x + y) % PRIME for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)
            ]  # fmt: skip
        return Jet(out)

    def scaled(self, factor: int) -> Jet:
        return Jet({mask: [[x * factor % PRIME for x in row] for row in m] for mask, m in self.parts.items()})

    def __matmul__(self, other: Jet) -> Jet:
        out = Jet({})
        for i, a in self.parts.items():
            for j, b in other.parts.items():
                if not i & j:
                    out = out + Jet({i | j: _multiply(a, b)})
        return out

    @property
    def T(self) -> Jet:
        return Jet({mask: [list(column) for column in zip(*m, strict=True)] for mask, m in self.parts.items()})

    def inverse(self) -> Jet:
        """(M + N)^-1 = M^-1 - M^-1 N M^-1 + ... with nilpotent N."""
        base = Jet({0: _invert(self.parts[0])})
        rest = Jet({mask: m for mask, m in self.parts.items() if mask})
        step = (base @ rest).scaled(PRIME - 1)
        directions = 0
        for mask in rest.parts:
            directions |= mask
        term = out = base
        for _ in range(directions.bit_count()):  # more factors of N than directions make zero
            term = step @ term
            out = out + term
        return out

    def coefficient(self, bit: int) -> Jet:
        """What multiplies e_bit."""
        zero = [[0] * len(row) for row in self.parts[0]]
        return Jet({0: zero} | {mask ^ bit: m for mask, m in self.parts.items() if mask & bit})

    def times(self, matrix: Jet) -> Jet:
        """This number, of shape (1, 1), times a matrix."""
        out = Jet({})
        for i, a in self.parts.items():
            for j, b in matrix.parts.items():
                if not i & j:
                    out = out + Jet({i | j: b}).scaled(a[0][0])
        return out

    def mapped(self, function: Callable[[Matrix], Matrix]) -> Jet:
        """A linear map of matrices, in every direction."""
        return Jet({mask: function(m) for mask, m in self.parts.items()})

    def trace(self) -> Jet:
        return Jet({mask: [[sum(m[i][i] for i in range(len(m))) % PRIME]] for mask, m in self.parts.items()})


def _identity(size: int) -> Jet:
    return Jet({0: [[int(i == j) for j in range(size)] for i in range(size)]})


def _residue(value: Fraction) -> int:
    return value.numerator * pow(value.denominator, -1, PRIME) % PRIME


class ModularCalculus(Calculus[Jet]):
    """Values are jets of matrices modulo p at given sizes; scalars are 1 x 1."""

    def __init__(self, sizes: Sizes, rng: random.Random) -> None:
        self.sizes = sizes
        self.rng = rng
        self.variables: dict[str, Jet] = {}
        self.depth = 0

    def variable(self, variable: Variable) -> Jet:
        if variable.name not in self.variables:
            self.variables[variable.name] = Jet({0: self._random(variable)})
        return self.variables[variable.name]

    def _random(self, variable: Variable) -> Matrix:
        rows, columns = numbers(variable.shape, self.sizes)
        if variable.kind in PARTED:
            return self._random_parted(basis(variable.kind, rows, columns), rows, columns)
        entries = [[self.rng.randrange(PRIME) for _ in range(columns)] for _ in range(rows)]
        if variable.kind in ("general", "invertible", "scalar", "positive", "vector"):
            return entries
        sign = 1 if variable.kind == "symmetric" else -1
        folded = [[(entries[i][j] + sign * entries[j][i]) % PRIME for j in range(rows)] for i in range(rows)]
        if variable.kind != "orthogonal":
            return folded
        skew, one = Jet({0: folded}), _identity(rows)  # Cayley transform
        return ((one + skew.scaled(PRIME - 1)) @ (one + skew).inverse()).parts[0]

    def _random_parted(self, units: list[Unit], rows: int, columns: int) -> Matrix:
        out = [[0] * columns for _ in range(rows)]
        for unit in units:
            value = self.rng.randrange(PRIME)
            for (i, j), sign in unit.items():
                out[i][j] = sign * value % PRIME
        return out

    def identity(self, size: Dimension) -> Jet:
        return _identity(number(size, self.sizes))

    def zero(self, rows: Dimension, columns: Dimension) -> Jet:
        return Jet({0: [[0] * number(columns, self.sizes) for _ in range(number(rows, self.sizes))]})

    def add(self, left: Jet, right: Jet) -> Jet:
        return left + right

    def scale(self, value: Jet, factor: Fraction) -> Jet:
        return value.scaled(_residue(factor))

    def product(self, left: Jet, right: Jet) -> Jet:
        return left @ right

    def pair(self, left: Jet, right: Jet) -> Jet:
        return (left.T @ right).trace()

    def inverse_of(self, operator: Callable[[Values[Jet]], Values[Jet]], like: Values[Jet]) -> Jet:
        shapes = {key: (len(value.parts[0]), len(value.parts[0][0])) for key, value in like.items()}
        parts: dict[int, Matrix] = {}
        count = sum(rows * columns for rows, columns in shapes.values())
        for i in range(count):
            unit = _parted([int(i == j) for j in range(count)], shapes)
            image = operator({key: Jet({0: matrix}) for key, matrix in unit.items()})
            for mask in {mask for value in image.values() for mask in value.parts}:
                row = parts.setdefault(mask, [[0] * count for _ in range(count)])
                row[i] = _listed(image, shapes, mask)
        return Jet(parts).T.inverse()

    def apply_inverse(self, inverse: Jet, given: Values[Jet]) -> Values[Jet]:
        shapes = {key: (len(value.parts[0]), len(value.parts[0][0])) for key, value in given.items()}
        masks = {0} | {mask for value in given.values() for mask in value.parts}
        found = inverse @ Jet({mask: [[x] for x in _listed(given, shapes, mask)] for mask in masks})
        out: dict[str, dict[int, Matrix]] = {key: {} for key in given}
        for mask, column in found.parts.items():
            for key, matrix in _parted([x for (x,) in column], shapes).items():
                out[key][mask] = matrix
        return {key: Jet(parts) for key, parts in out.items()}

    def derivative(
        self, function: Callable[[Values[Jet]], Values[Jet]], at: Values[Jet], direction: Values[Jet]
    ) -> Values[Jet]:
        bit = 1 << self.depth
        self.depth += 1
        moved = {
            name: value + Jet({mask | bit: m for mask, m in direction[name].parts.items()})
            if name in direction
            else value
            for name, value in at.items()
        }
        result = function(moved)
        self.depth -= 1
        return {key: value.coefficient(bit) for key, value in result.items()}

    def apply(self, formula: Formula, values: Mapping[str, Jet]) -> Jet:
        walk = _Walk(self, values)
        if isinstance(formula, MatrixFormula):
            return walk.polynomial(formula.polynomial)
        return walk.number(formula.polynomial)


def _listed(values: Values[Jet], shapes: Mapping[str, tuple[int, int]], mask: int) -> list[int]:
    """All entries of one direction, row by row."""
    out: list[int] = []
    for key, (rows, columns) in shapes.items():
        matrix = values[key].parts.get(mask)
        out += [0] * (rows * columns) if matrix is None else [x for row in matrix for x in row]
    return out


def _parted(entries: list[int], shapes: Mapping[str, tuple[int, int]]) -> dict[str, Matrix]:
    rest = iter(entries)
    return {key: [[next(rest) for _ in range(columns)] for _ in range(rows)] for key, (rows, columns) in shapes.items()}


class _Walk:
    """Evaluation of polynomials at one point; equal prefixes of words are multiplied once."""

    def __init__(self, calculus: ModularCalculus, values: Mapping[str, Jet]) -> None:
        self.sizes = calculus.sizes
        self.values = values
        self.letters: dict[Letter, Jet] = {}
        self.prefixes: dict[Word, Jet] = {}

    def polynomial(self, polynomial: Polynomial) -> Jet:
        rows, columns = numbers(polynomial.shape, self.sizes)
        total = Jet({0: [[0] * columns for _ in range(rows)]})
        for word, coefficient in polynomial:
            scalars, matrices = split_scalars(word)
            value = self.word(matrices, polynomial.shape[0]).scaled(_residue(coefficient))
            for letter in scalars:
                value = self.letter(letter).times(value)
            total = total + value
        return total

    def number(self, value: TracePolynomial) -> Jet:
        total = Jet({0: [[0]]})
        for monomial, coefficient in value:
            term = Jet({0: [[_residue(coefficient)]]})
            for factor in monomial:
                term = term @ self.letter(factor)
            total = total + term
        return total

    def word(self, word: Word, size: Dimension) -> Jet:
        if not word:
            return _identity(number(size, self.sizes))
        if len(word) == 1:
            return self.letter(word[0])
        if word not in self.prefixes:
            self.prefixes[word] = self.word(word[:-1], size) @ self.letter(word[-1])
        return self.prefixes[word]

    def letter(self, letter: Letter) -> Jet:
        if letter not in self.letters:
            self.letters[letter] = self._value(letter)
        return self.letters[letter]

    def _value(self, letter: Letter) -> Jet:
        match letter:
            case InverseLetter(argument=argument):
                return self.polynomial(argument).inverse()
            case TraceLetter():
                return self.word(letter.letters, letter.size).trace()
            case ScalarSymbol(name=name):
                return self.values[name]
            case InverseScalar(argument=argument):
                return self.number(argument).inverse()
            case OnesLetter():
                rows, columns = numbers(letter.shape, self.sizes)
                return Jet({0: [[1] * columns for _ in range(rows)]})
            case PartLetter(word=word):
                assert letter.family is not None
                value, family = self.word(word, word[0].rows), letter.family
                return value.mapped(lambda matrix: _part(matrix, family))
        assert isinstance(letter, SymbolLetter)
        value = self.values[letter.name]
        value = value.mapped(_diagonal_matrix) if letter.kind is Kind.VECTOR else value
        value = value.inverse() if letter.inverted else value
        return value.T if letter.transposed else value


def _diagonal_matrix(column: Matrix) -> Matrix:
    size = len(column)
    return [[column[i][0] if i == j else 0 for j in range(size)] for i in range(size)]


def _part(matrix: Matrix, family: Kind) -> Matrix:
    """The diagonal of a matrix, or the mean of each pair's block and of that block turned by a quarter."""
    size = len(matrix)
    out = [[0] * size for _ in range(size)]
    if family is Kind.DIAGONAL:
        for i in range(size):
            out[i][i] = matrix[i][i]
        return out
    half = pow(2, -1, PRIME)
    for p, q in coordinate_pairs(size, family.value.removeprefix("complex_")):
        a = (matrix[p][p] + matrix[q][q]) * half % PRIME
        b = (matrix[q][p] - matrix[p][q]) * half % PRIME
        out[p][p], out[q][q], out[q][p], out[p][q] = a, a, b, -b % PRIME
    return out


def check_modular(geometry: Geometry, statement: Statement) -> LevelResult:
    """Tested at one random point for each of two assignments of sizes; false as soon as the sides differ."""
    scopes = []
    for sizes in (assign_sizes(geometry, 2, 3), assign_sizes(geometry, 3, 4)):
        scopes.append(sizes_text(sizes))
        calculus = ModularCalculus(sizes, generator("modular", geometry.name, statement.name, scopes[-1]))
        reading = Reading(calculus, geometry)
        try:
            pairs = statement.sides(reading, *reading.bind(statement.roles))
        except SingularError:
            return no_inverse(geometry, Level.MODULAR, scopes[-1])
        for left, right in pairs:
            difference = (left + right.scaled(PRIME - 1)).parts[0]
            if any(map(any, difference)):
                return LevelResult(Level.MODULAR, Outcome.FALSE, scopes[-1], "the sides differ")
    return LevelResult(Level.MODULAR, Outcome.TESTED, " and ".join(dict.fromkeys(scopes)), "difference 0")
