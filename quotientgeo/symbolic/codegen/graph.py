"""Programs as hash-consed graphs: equal operations on equal operands are one node, whatever formula they come from.

A node is one operation of the generated source. A ``Value`` is a rational multiple of a node or of its transpose; products
and solves pull coefficients and transposes out of their operands, so sub-expressions are shared up to both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

from quotientgeo.symbolic.algebra import Dimension, Shape


class Operation(StrEnum):
    """What a node does with its operands (named in the order of ``Node.operands``)."""

    ARGUMENT = "argument"  # a parameter of the function, called ``label``
    IDENTITY = "identity"
    ZERO = "zero"
    PRODUCT = "product"  # left right
    SUM = "sum"  # coefficients are those of the operands
    CHOLESKY = "cholesky"  # lower factor of a symmetric positive definite operand
    LU = "lu"  # LU factors of a square operand
    SOLVE = "solve"  # (factors, right-hand side): matrix^-1 right
    SOLVE_TRANSPOSED = "solve transposed"  # (factors, right-hand side): matrix^-T right
    ELEMENTWISE = "elementwise"  # left_ij right_ij, columns and rows spread out
    DIVISION = "division"  # left_ij / right_ij, the same
    ROW_PRODUCT = "row product"  # sum_j left_ij right_ij, a column
    ROW_SUM = "row sum"  # sum_j of a matrix, a column
    DIAGONAL = "diagonal"  # of a square matrix, as a column
    DIAGONAL_MATRIX = "diagonal matrix"  # of a column
    ONES = "ones"
    COMPLEX_PART = "complex part"  # projection on complex diagonal matrices, paired as ``label``
    SCALED = "scaled"  # (number, matrix)
    CONTRACTION = "contraction"  # sum_ij left_ij right_ij
    TRACE = "trace"
    SIZE = "size"  # the size ``label`` as a number
    ONE = "one"
    SCALAR_PRODUCT = "scalar product"
    SCALAR_INVERSE = "scalar inverse"
    ENTRY = "entry"  # the only entry of a matrix of shape (1, 1)
    ENTRIES = "entries"  # the sum of all entries


SCALAR: Shape = (1, 1)  # placeholder shape of a scalar; Node.is_scalar tells it from a 1 x 1 matrix
_SCALARS = (
    Operation.CONTRACTION,
    Operation.TRACE,
    Operation.SIZE,
    Operation.ONE,
    Operation.SCALAR_PRODUCT,
    Operation.SCALAR_INVERSE,
    Operation.ENTRY,
    Operation.ENTRIES,
)


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. Compared by identity: a Graph never makes the same node twice."""

    operation: Operation
    operands: tuple[Value, ...]
    shape: Shape
    label: Dimension = ""

    @property
    def is_scalar(self) -> bool:
        """Whether the node has no matrix axes."""
        if self.operation is Operation.SUM:
            return self.operands[0].node.is_scalar
        return self.operation in _SCALARS


@dataclass(frozen=True)
class Value:
    """``coefficient`` times a node, or times its transpose."""

    node: Node
    transposed: bool = False
    coefficient: Fraction = Fraction(1)

    @property
    def shape(self) -> Shape:
        """(rows, columns) after the transpose."""
        rows, columns = self.node.shape
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def bare(self) -> Value:
        """The same without its coefficient."""
        return replace(self, coefficient=Fraction(1))

    def times(self, factor: Fraction) -> Value:
        """``factor`` times this value."""
        return replace(self, coefficient=self.coefficient * factor)


Sizes: TypeAlias = Mapping[str, int]  # representative values of the symbolic sizes


class Graph:
    """The nodes of one function, in the order of their creation."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[tuple[object, ...], Node] = {}
        self._symmetry: dict[Node, int] = {}

    def node(self, operation: Operation, operands: tuple[Value, ...], shape: Shape, label: Dimension = "") -> Node:
        """The node for an operation, made on first use."""
        key = (operation, operands, shape, label)
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = Node(operation, operands, shape, label)
            self.nodes.append(node)
        return node

    def transpose(self, value: Value) -> Value:
        """The transpose; a symmetric or skew node has none of its own."""
        sign = self._symmetry.get(value.node)
        return replace(value, transposed=not value.transposed) if sign is None else value.times(Fraction(sign))

    def declare_symmetry(self, node: Node, sign: int) -> None:
        """Note that the node equals ``sign`` times its transpose."""
        self._symmetry[node] = sign

    # operations

    def argument(self, name: str, shape: Shape) -> Value:
        """A parameter of the generated function."""
        return Value(self.node(Operation.ARGUMENT, (), shape, name))

    def constant(self, operation: Operation, shape: Shape, label: Dimension = "") -> Value:
        """An identity, a zero, the number one or a size."""
        return Value(self.node(operation, (), shape, label))

    def product(self, left: Value, right: Value) -> Value:
        """left right."""
        shape = (left.shape[0], right.shape[1])
        mirrored = (self.transpose(right.bare), self.transpose(left.bare))
        factor = left.coefficient * right.coefficient
        scale = mirrored[0].coefficient * mirrored[1].coefficient
        twin = self._known.get((Operation.PRODUCT, tuple(v.bare for v in mirrored), (shape[1], shape[0]), ""))
        if twin is not None:
            return self.transpose(Value(twin)).times(factor * scale)
        return Value(self.node(Operation.PRODUCT, (left.bare, right.bare), shape), coefficient=factor)

    def sum(self, terms: tuple[Value, ...], shape: Shape) -> Value:
        """Sum of the terms, which keep their coefficients."""
        return terms[0] if len(terms) == 1 else Value(self.node(Operation.SUM, terms, shape))

    def factorisation(self, value: Value, definite: bool) -> tuple[Node, bool]:
        """(factors of the value's node, whether the value is its transpose)."""
        operation = Operation.CHOLESKY if definite else Operation.LU
        return self.node(operation, (Value(value.node),), value.node.shape), value.transposed

    def solve(self, matrix: Value, definite: bool, right: Value) -> Value:
        """matrix^-1 right."""
        factors, transposed = self.factorisation(matrix, definite)
        operation = Operation.SOLVE_TRANSPOSED if transposed and not definite else Operation.SOLVE
        node = self.node(operation, (Value(factors), right.bare), right.shape)
        return Value(node, coefficient=right.coefficient / matrix.coefficient)

    def elementwise(self, left: Value, right: Value) -> Value:
        """left_ij right_ij; a column or a row is spread over the other's shape."""
        return self._entrywise(Operation.ELEMENTWISE, left, right).times(left.coefficient * right.coefficient)

    def divide(self, left: Value, right: Value) -> Value:
        """left_ij / right_ij."""
        return self._entrywise(Operation.DIVISION, left, right).times(left.coefficient / right.coefficient)

    def _entrywise(self, operation: Operation, left: Value, right: Value) -> Value:
        shape = (
            left.shape[0] if left.shape[0] != 1 else right.shape[0],
            left.shape[1] if left.shape[1] != 1 else right.shape[1],
        )
        return Value(self.node(operation, (left.bare, right.bare), shape))

    def row_product(self, left: Value, right: Value) -> Value:
        """sum_j left_ij right_ij."""
        node = self.node(Operation.ROW_PRODUCT, (left.bare, right.bare), (left.shape[0], 1))
        return Value(node, coefficient=left.coefficient * right.coefficient)

    def row_sum(self, value: Value) -> Value:
        """sum_j of a matrix."""
        return Value(self.node(Operation.ROW_SUM, (value.bare,), (value.shape[0], 1)), coefficient=value.coefficient)

    def diagonal(self, value: Value) -> Value:
        """The diagonal of a square matrix, as a column."""
        node = self.node(Operation.DIAGONAL, (Value(value.node),), (value.shape[0], 1))
        return Value(node, coefficient=value.coefficient)

    def diagonal_matrix(self, column: Value) -> Value:
        """The diagonal matrix of a column."""
        node = self.node(Operation.DIAGONAL_MATRIX, (column.bare,), (column.shape[0], column.shape[0]))
        self.declare_symmetry(node, 1)
        return Value(node, coefficient=column.coefficient)

    def complex_part(self, value: Value, pairing: str) -> Value:
        """The projection on complex diagonal matrices."""
        node = self.node(Operation.COMPLEX_PART, (Value(value.node),), value.node.shape, pairing)
        return Value(node, value.transposed, value.coefficient)

    def scaled(self, number: Value, value: Value) -> Value:
        """number times matrix."""
        coefficient = number.coefficient * value.coefficient
        if number.node.operation is Operation.ONE:
            return value.bare.times(coefficient)
        node = self.node(Operation.SCALED, (number.bare, Value(value.node)), value.node.shape)
        sign = self._symmetry.get(value.node)
        if sign is not None:
            self.declare_symmetry(node, sign)
        return Value(node, value.transposed, coefficient)

    def scalar_inverse(self, value: Value) -> Value:
        """1 / number."""
        return Value(self.node(Operation.SCALAR_INVERSE, (value.bare,), SCALAR), coefficient=1 / value.coefficient)

    def entry(self, value: Value) -> Value:
        """The number in a matrix of shape (1, 1)."""
        return Value(self.node(Operation.ENTRY, (Value(value.node),), SCALAR), coefficient=value.coefficient)

    def entries(self, value: Value) -> Value:
        """The sum of all entries."""
        return Value(self.node(Operation.ENTRIES, (Value(value.node),), SCALAR), coefficient=value.coefficient)

    def contraction(self, left: Value, right: Value) -> Value:
        """Sum of the elementwise product, tr(left' right)."""
        if left.transposed and right.transposed:
            left, right = self.transpose(left), self.transpose(right)
        node = self.node(Operation.CONTRACTION, (left.bare, right.bare), SCALAR)
        return Value(node, coefficient=left.coefficient * right.coefficient)

    def trace(self, value: Value) -> Value:
        """Sum of the diagonal."""
        return Value(self.node(Operation.TRACE, (Value(value.node),), SCALAR), coefficient=value.coefficient)

    def scalar_product(self, factors: tuple[Value, ...]) -> Value:
        """Product of scalars."""
        if len(factors) == 1:
            return factors[0]
        coefficient = Fraction(1)
        for factor in factors:
            coefficient *= factor.coefficient
        return Value(
            self.node(Operation.SCALAR_PRODUCT, tuple(f.bare for f in factors), SCALAR), coefficient=coefficient
        )

    # reading

    def reachable(self, outputs: tuple[Value, ...]) -> list[Node]:
        """The nodes that the outputs need, operands first."""
        needed: set[Node] = set()
        stack = [value.node for value in outputs]
        while stack:
            node = stack.pop()
            if node not in needed:
                needed.add(node)
                stack.extend(operand.node for operand in node.operands)
        return [node for node in self.nodes if node in needed]

    def cost(self, outputs: tuple[Value, ...], sizes: Sizes) -> int:
        """Multiplications and additions that the outputs need at these sizes."""
        return sum(_cost(node, sizes) for node in self.reachable(outputs))


def extent(size: Dimension, sizes: Sizes) -> int:
    """A size as a number."""
    return size if isinstance(size, int) else sizes[size]


def _cost(node: Node, sizes: Sizes) -> int:
    if node.is_scalar:
        return sum(_entries(operand.node.shape, sizes) for operand in node.operands)
    rows, columns = (extent(size, sizes) for size in node.shape)
    match node.operation:
        case Operation.PRODUCT:
            return rows * extent(node.operands[0].shape[1], sizes) * columns
        case Operation.SOLVE | Operation.SOLVE_TRANSPOSED:
            return rows * rows * columns
        case Operation.CHOLESKY | Operation.LU:
            return rows**3
        case Operation.SUM:
            return rows * columns * len(node.operands)
        case Operation.ROW_PRODUCT | Operation.ROW_SUM:
            return _entries(node.operands[0].shape, sizes)
        case Operation.ELEMENTWISE | Operation.DIVISION | Operation.SCALED:
            return rows * columns
    return 0


def _entries(shape: Shape, sizes: Sizes) -> int:
    return extent(shape[0], sizes) * extent(shape[1], sizes)
