"""Sparse integer polynomials and matrices of fractions of them, for level (c). No greatest common divisors are taken.

A monomial is one integer: ten bits of exponent per variable, so that monomials multiply by addition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import or_

BITS = 10
LIMIT = (1 << BITS) - 1  # total degree, so that no exponent can carry into the next variable

Poly = dict[int, int]  # packed monomial -> coefficient; treated as immutable
PolyMatrix = list[list[Poly]]
Denominator = Mapping[int, int]  # index of a base polynomial -> exponent, which may be negative


class TooLargeError(ArithmeticError):
    """The computation went beyond its budget of monomial products."""


@dataclass(frozen=True)
class Quotient:
    """A matrix ``entries / (integer * product of bases^exponent)``.

    ``variables`` names the variables of a generic matrix of the linear space ``kind`` where they lead, None elsewhere.
    """

    entries: PolyMatrix
    integer: int = 1
    denominator: Denominator = field(default_factory=dict)
    variables: list[list[int | None]] | None = None
    kind: str = "general"


def plus(a: Poly, b: Poly, factor: int = 1) -> Poly:
    """a + factor b."""
    out = dict(a)
    for monomial, c in b.items():
        total = out.get(monomial, 0) + factor * c
        if total:
            out[monomial] = total
        else:
            del out[monomial]
    return out


def times(a: Poly, factor: int) -> Poly:
    """Integer multiple."""
    return {monomial: c * factor for monomial, c in a.items()} if factor else {}


def partial(a: Poly, variable: int) -> Poly:
    """Partial derivative."""
    shift = BITS * variable
    out = {}
    for monomial, c in a.items():
        exponent = (monomial >> shift) & LIMIT
        if exponent:
            out[monomial - (1 << shift)] = c * exponent
    return out


def at_constants(a: Poly, values: Mapping[int, int]) -> Poly:
    """Some variables replaced by integers."""
    out: Poly = {}
    for monomial, c in a.items():
        for variable, value in values.items():
            exponent = (monomial >> (BITS * variable)) & LIMIT
            if exponent:
                c *= value**exponent
                monomial -= exponent << (BITS * variable)
        out = plus(out, {monomial: c}) if c else out
    return out


def degree(a: Poly) -> int:
    """Total degree."""
    best = 0
    for monomial in a:
        total = 0
        while monomial:
            total += monomial & LIMIT
            monomial >>= BITS
        best = max(best, total)
    return best


class Field:
    """Arithmetic of Quotients over one growing set of variables and denominators, within a budget."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.variables = 0
        self.bases: list[Poly] = []
        self._index: dict[frozenset[tuple[int, int]], int] = {}

    def new_variable(self) -> int:
        """Index of a new variable."""
        self.variables += 1
        return self.variables - 1

    def multiply(self, a: Poly, b: Poly, into: Poly | None = None) -> Poly:
        """Product, added to ``into`` if given."""
        self.budget -= len(a) * len(b)
        if self.budget < 0:
            raise TooLargeError
        out = {} if into is None else into
        get, inner = out.get, list(b.items())
        for m, c in a.items():
            for n, d in inner:
                monomial = m + n
                out[monomial] = get(monomial, 0) + c * d
        return out

    def _clean(self, a: Poly) -> Poly:
        return {monomial: c for monomial, c in a.items() if c}

    def product(self, left: PolyMatrix, right: PolyMatrix) -> PolyMatrix:
        """Matrix product; refuses degrees that would overflow the packing."""
        _require_room(left, right)
        columns = list(zip(*right, strict=True))
        out = []
        for row in left:
            line = []
            for column in columns:
                entry: Poly = {}
                for a, b in zip(row, column, strict=True):
                    self.multiply(a, b, entry)
                line.append(self._clean(entry))
            out.append(line)
        return out

    def scaled(self, matrix: PolyMatrix, factor: Poly) -> PolyMatrix:
        """Every entry times a polynomial."""
        if factor == {0: 1}:
            return matrix
        _require_room(matrix, [[factor]])
        return [[self._clean(self.multiply(entry, factor)) for entry in row] for row in matrix]

    def base(self, polynomial: Poly) -> int:
        """Index of a denominator."""
        key = frozenset(polynomial.items())
        if key not in self._index:
            self._index[key] = len(self.bases)
            self.bases.append(polynomial)
        return self._index[key]

    def power(self, exponents: Denominator) -> Poly:
        """Product of bases^exponent for exponents >= 0."""
        out: Poly = {0: 1}
        for index, exponent in exponents.items():
            for _ in range(exponent):
                out = self._clean(self.multiply(out, self.bases[index]))
        return out

    def aligned(self, left: Quotient, right: Quotient) -> tuple[Quotient, Quotient]:
        """The same two values over one common denominator."""
        indices = sorted({*left.denominator, *right.denominator})
        common = {i: max(left.denominator.get(i, 0), right.denominator.get(i, 0)) for i in indices}
        out = []
        for value, other in ((left, right), (right, left)):
            missing = {i: common[i] - value.denominator.get(i, 0) for i in indices}
            entries = self.scaled(value.entries, times(self.power(missing), other.integer))
            out.append(Quotient(entries, left.integer * right.integer, common))
        return out[0], out[1]

    def add(self, left: Quotient, right: Quotient) -> Quotient:
        """Sum."""
        if left.integer != right.integer or left.denominator != right.denominator:
            left, right = self.aligned(left, right)
        entries = [
            [plus(a, b) for a, b in zip(x, y, strict=True)] for x, y in zip(left.entries, right.entries, strict=True)
        ]
        return Quotient(entries, left.integer, left.denominator)

    def scale(self, value: Quotient, factor: Fraction) -> Quotient:
        """Rational multiple."""
        entries = [[times(entry, factor.numerator) for entry in row] for row in value.entries]
        return Quotient(entries, value.integer * factor.denominator, value.denominator)

    def matmul(self, left: Quotient, right: Quotient) -> Quotient:
        """Product."""
        entries = self.product(left.entries, right.entries)
        return Quotient(entries, left.integer * right.integer, combine(left.denominator, right.denominator))

    def inverse(self, value: Quotient) -> Quotient:
        """adj(N) d / det(N) for N / d."""
        determinant = self.determinant(value.entries)
        if not determinant:
            raise ZeroDivisionError("singular matrix")
        entries = [[times(entry, value.integer) for entry in row] for row in self._adjugate(value.entries)]
        flipped = {index: -exponent for index, exponent in value.denominator.items()}
        return Quotient(entries, 1, combine(flipped, {self.base(determinant): 1}))

    def determinant(self, matrix: PolyMatrix) -> Poly:
        """Expansion along the first row."""
        if len(matrix) == 1:
            return matrix[0][0]
        out: Poly = {}
        for j, entry in enumerate(matrix[0]):
            minor = self.determinant([[*row[:j], *row[j + 1 :]] for row in matrix[1:]])
            out = plus(out, self._clean(self.multiply(entry, minor)), (-1) ** j)
        return out

    def _adjugate(self, matrix: PolyMatrix) -> PolyMatrix:
        size = len(matrix)
        if size == 1:
            return [[{0: 1}]]
        out = []
        for j in range(size):
            line = []
            for i in range(size):
                minor = [[*row[:j], *row[j + 1 :]] for k, row in enumerate(matrix) if k != i]
                line.append(times(self.determinant(minor), (-1) ** (i + j)))
            out.append(line)
        return out


def combine(left: Denominator, right: Denominator) -> Denominator:
    """Exponents of a product."""
    out = {i: left.get(i, 0) + right.get(i, 0) for i in sorted({*left, *right})}
    return {i: exponent for i, exponent in out.items() if exponent}


def _require_room(left: PolyMatrix, right: PolyMatrix) -> None:
    """Refuses a product whose degrees would overflow the packing; a bound that one pass of bits gives is tried first."""
    if _bound(left) + _bound(right) > LIMIT and _matrix_degree(left) + _matrix_degree(right) > LIMIT:
        raise TooLargeError


def _bound(matrix: PolyMatrix) -> int:
    """At least the degree: in each exponent all bits that any monomial has there."""
    bits = reduce(or_, (monomial for row in matrix for entry in row for monomial in entry), 0)
    return degree({bits: 1})


def _matrix_degree(matrix: PolyMatrix) -> int:
    return max((degree(entry) for row in matrix for entry in row), default=0)
