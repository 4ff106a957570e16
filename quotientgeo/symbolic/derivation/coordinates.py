"""A geometry in explicit coordinates, for small sizes: the textbook's Christoffel symbols of the declared metric.

Works in the field of rational functions of the entries of the factors, where every value is in lowest terms and equality is
equality of what is written. Reads the declared metric only: nothing that the engine derived enters. The coordinates are the
generators of that field, so a derivative in one of them cannot be taken for that of a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import sympy as sp
from sympy.polys.matrices import DomainMatrix
from sympy.polys.matrices.exceptions import DMNonInvertibleMatrixError

from quotientgeo.errors import ArgumentError
from quotientgeo.symbolic.algebra import Dimension
from quotientgeo.symbolic.algebra.parts import coordinate_pairs
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.points import Sizes, number, numbers
from quotientgeo.symbolic.derivation.levels.reading import Evaluation

LIMIT = 16  # entries of all factors together: seconds; beyond, the symbols have more terms than anyone reads
Element: TypeAlias = Any  # an element of SymPy's field of rational functions, which has no public type


Matrices: TypeAlias = dict[str, DomainMatrix]


def checked_sizes(geometry: Geometry, sizes: Mapping[str, int]) -> Sizes:
    """The sizes, one positive integer for each symbolic size."""
    wanted = [size for size in geometry.sizes if isinstance(size, str)]
    if set(sizes) != set(wanted) or any(type(value) is not int or value < 1 for value in sizes.values()):
        given = ", ".join(f"{name} = {value!r}" for name, value in sizes.items()) or "none"
        raise ArgumentError(
            f"{geometry.name}: sizes must be a positive integer for each of {', '.join(wanted)}, got {given:.80}"
        )
    return {size: sizes[size] for size in wanted}


def coordinates(geometry: Geometry, sizes: Mapping[str, int]) -> tuple[sp.Symbol, ...]:
    """The entries of all factors as symbols, factor by factor and row by row."""
    checked = checked_sizes(geometry, sizes)
    names = []
    for factor, shape in geometry.factors.items():
        rows, columns = numbers(shape, checked)
        names += [f"{factor}_{i}_{j}" for i in range(rows) for j in range(columns)]
    return tuple(map(sp.Symbol, names))


def metric_matrix(geometry: Geometry, sizes: Mapping[str, int]) -> sp.ImmutableDenseMatrix:
    """g_ij = <e_i, e_j>, each entry in lowest terms."""
    return sp.ImmutableDenseMatrix(_Chart(geometry, sizes).metric().to_Matrix())


def christoffel_symbols(geometry: Geometry, sizes: Mapping[str, int]) -> sp.ImmutableDenseNDimArray:
    """Gamma[k, i, j] = 1/2 g^kl (d_i g_jl + d_j g_il - d_l g_ij), each entry in lowest terms."""
    chart = _Chart(geometry, sizes)
    metric = chart.metric()
    count = len(chart.generators)
    try:
        inverse = metric.inv().to_list()
    except DMNonInvertibleMatrixError as error:
        raise ArgumentError(f"{geometry.name}: the metric is singular everywhere at {sizes_text(sizes)}") from error
    rows = metric.to_list()
    slopes = [
        [[value.diff(x) for value in row] for row in rows] for x in chart.generators
    ]  # slopes[l][i][j] = d_l g_ij
    entries: dict[tuple[int, int, int], sp.Expr] = {}
    for i in range(count):
        for j in range(i, count):
            lowered = [slopes[i][j][q] + slopes[j][i][q] - slopes[q][i][j] for q in range(count)]
            for k in range(count):
                total = chart.field.zero
                for weight, value in zip(inverse[k], lowered, strict=True):
                    if weight and value:
                        total += weight * value
                entries[k, i, j] = entries[k, j, i] = chart.field.to_sympy(total / 2)
    flat = [entries[k, i, j] for k in range(count) for i in range(count) for j in range(count)]
    return sp.ImmutableDenseNDimArray(flat, (count, count, count))


class _Chart:
    """Arithmetic in the rational functions of the entries, and the metric there."""

    def __init__(self, geometry: Geometry, sizes: Mapping[str, int]) -> None:
        self.geometry = geometry
        self.sizes = checked_sizes(geometry, sizes)
        symbols = coordinates(geometry, sizes)
        if len(symbols) > LIMIT:
            raise ArgumentError(
                f"{geometry.name}: at {sizes_text(sizes)} the factors have {len(symbols)} entries, and explicit symbols are "
                f"written for at most {LIMIT}: choose smaller sizes"
            )
        self.field = sp.QQ.frac_field(*symbols)
        self.generators: list[Element] = list(self.field.gens)

    def metric(self) -> DomainMatrix:
        """The Gram matrix of the unit tangents."""
        units, zeros, point = self._units()
        try:
            shared = self._shared(point)
            rows = [[self._pairing(point, zeros | xi, zeros | eta, shared) for eta in units] for xi in units]
        except (DMNonInvertibleMatrixError, ZeroDivisionError) as error:
            raise _no_inverse(self.geometry, self.sizes) from error
        return DomainMatrix(rows, (len(rows), len(rows)), self.field)

    def _shared(self, point: Matrices) -> dict[Any, DomainMatrix]:
        """Values of the parts of the metric that hold no tangent: the same for all pairs of them."""
        names = self.geometry.names
        tangents = {*names.tangents, *map(names.second_tangent, names.factors)}
        evaluation = Evaluation(self, point)
        for node in sp.preorder_traversal(self.geometry.inner.expression):
            if isinstance(node, sp.MatrixExpr | sp.Trace) and not tangents & {str(s) for s in node.free_symbols}:
                evaluation(node)
        return evaluation.memo

    def _pairing(self, point: Matrices, xi: Matrices, eta: Matrices, shared: Mapping[Any, DomainMatrix]) -> Element:
        names = self.geometry.names
        tangents = {names.tangent(f): x for f, x in xi.items()} | {names.second_tangent(f): y for f, y in eta.items()}
        evaluation = Evaluation(self, point | tangents)
        evaluation.memo = dict(shared)
        return evaluation(self.geometry.inner.expression).to_list()[0][0]

    def _units(self) -> tuple[list[Matrices], Matrices, Matrices]:
        """(unit tangents as the one factor that is not zero, zero tangents, the point)."""
        units, zeros, point = [], {}, {}
        generators = iter(self.generators)
        for factor, shape in self.geometry.factors.items():
            rows, columns = numbers(shape, self.sizes)
            places = [(i, j) for i in range(rows) for j in range(columns)]
            units += [{factor: self._matrix(rows, columns, lambda i, j, p=p: int((i, j) == p))} for p in places]
            zeros[factor] = self.zero(rows, columns)
            entries = {place: next(generators) for place in places}
            point[factor] = self._matrix(rows, columns, lambda i, j, e=entries: e[i, j])
        return units, zeros, point

    def _matrix(self, rows: int, columns: int, entry: Any) -> DomainMatrix:
        values = [[self.field.convert(entry(i, j)) for j in range(columns)] for i in range(rows)]
        return DomainMatrix(values, (rows, columns), self.field)

    # the operations of an expression

    def number(self, value: Fraction) -> DomainMatrix:
        """A 1 x 1 matrix."""
        return self._matrix(1, 1, lambda i, j: sp.QQ(value.numerator, value.denominator))

    def identity(self, size: Dimension) -> DomainMatrix:
        """The identity."""
        n = number(size, self.sizes)
        return self._matrix(n, n, lambda i, j: int(i == j))

    def zero(self, rows: Dimension, columns: Dimension) -> DomainMatrix:
        """Zeros."""
        return self._matrix(number(rows, self.sizes), number(columns, self.sizes), lambda i, j: 0)

    def ones(self, rows: Dimension, columns: Dimension) -> DomainMatrix:
        """Ones."""
        return self._matrix(number(rows, self.sizes), number(columns, self.sizes), lambda i, j: 1)

    def add(self, left: DomainMatrix, right: DomainMatrix) -> DomainMatrix:
        """Sum."""
        return left + right

    def scale(self, value: DomainMatrix, factor: Fraction) -> DomainMatrix:
        """Rational multiple."""
        return value * self.field.convert(sp.QQ(factor.numerator, factor.denominator))

    def multiply(self, scalar: DomainMatrix, value: DomainMatrix) -> DomainMatrix:
        """A 1 x 1 matrix times a matrix."""
        return value * scalar.to_list()[0][0]

    def product(self, left: DomainMatrix, right: DomainMatrix) -> DomainMatrix:
        """Matrix product."""
        return left * right

    def transpose(self, value: DomainMatrix) -> DomainMatrix:
        """Transpose."""
        return value.transpose()

    def inverse(self, value: DomainMatrix) -> DomainMatrix:
        """Inverse."""
        return value.inv()

    def trace(self, value: DomainMatrix) -> DomainMatrix:
        """Sum of the diagonal, as a 1 x 1 matrix."""
        entries = value.to_list()
        total = sum((entries[i][i] for i in range(len(entries))), self.field.zero)
        return self._matrix(1, 1, lambda i, j: total)

    def diagonal(self, column: DomainMatrix) -> DomainMatrix:
        """The diagonal matrix of a column."""
        entries = column.to_list()
        return self._matrix(len(entries), len(entries), lambda i, j: entries[i][0] if i == j else 0)

    def diagonal_of(self, value: DomainMatrix) -> DomainMatrix:
        """The diagonal as a column."""
        entries = value.to_list()
        return self._matrix(len(entries), 1, lambda i, j: entries[i][i])

    def complex_part(self, value: DomainMatrix, pairing: str) -> DomainMatrix:
        """The nearest matrix of blocks [[a, -b], [b, a]] on the pairs of coordinates."""
        entries, size = value.to_list(), value.shape[0]
        out: dict[tuple[int, int], Element] = {}
        for p, q in coordinate_pairs(size, pairing):
            real, imaginary = (entries[p][p] + entries[q][q]) / 2, (entries[q][p] - entries[p][q]) / 2
            out |= {(p, p): real, (q, q): real, (q, p): imaginary, (p, q): -imaginary}
        return self._matrix(size, size, lambda i, j: out.get((i, j), 0))


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Values of symbolic sizes, for messages."""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items()) or "the declared sizes"


def _no_inverse(geometry: Geometry, sizes: Mapping[Any, int]) -> ArgumentError:
    return ArgumentError(f"{geometry.name}: an inverse in the metric exists nowhere at {sizes_text(sizes)}")
