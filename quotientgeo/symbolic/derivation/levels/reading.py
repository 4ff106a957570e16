"""Reads a SymPy expression in the arithmetic of a level. Knows nothing of the engine: this is what makes levels independent.

The only code that levels (c), (d) and (e) share: one function that maps the nodes of a tree to the operations of an
``Arithmetic``. What sums, products, inverses and derivatives are is each level's own affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar

import sympy as sp

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra import Dimension, dimension
from quotientgeo.symbolic.algebra.parts import ComplexPart

V = TypeVar("V")


class Arithmetic(Protocol[V]):
    """Matrices of one level; a scalar is a 1 x 1 matrix."""

    def number(self, value: Fraction) -> V: ...
    def identity(self, size: Dimension) -> V: ...
    def zero(self, rows: Dimension, columns: Dimension) -> V: ...
    def add(self, left: V, right: V) -> V: ...
    def scale(self, value: V, factor: Fraction) -> V: ...
    def product(self, left: V, right: V) -> V: ...
    def transpose(self, value: V) -> V: ...
    def inverse(self, value: V) -> V: ...
    def trace(self, value: V) -> V: ...
    def multiply(self, scalar: V, value: V) -> V: ...
    def ones(self, rows: Dimension, columns: Dimension) -> V: ...
    def diagonal(self, column: V) -> V: ...
    def diagonal_of(self, value: V) -> V: ...
    def complex_part(self, value: V, pairing: str) -> V: ...


class Evaluation(Generic[V]):
    """Evaluates expressions at one point; equal sub-trees and equal prefixes of products are computed once."""

    def __init__(self, arithmetic: Arithmetic[V], values: Mapping[str, V]) -> None:
        self.arithmetic = arithmetic
        self.values = values
        self.memo: dict[Any, V] = {}

    def __call__(self, node: sp.Basic) -> V:
        """Value of a node."""
        if node not in self.memo:
            self.memo[node] = self._value(node)
        return self.memo[node]

    def _value(self, node: sp.Basic) -> V:
        do = self.arithmetic
        match node:
            case sp.MatrixSymbol():
                return self.values[str(node.name)]
            case sp.Symbol():
                name = str(node.name)  # of a scalar letter, or of a size: then tr(I), as SymPy evaluates it
                return self.values[name] if name in self.values else do.trace(do.identity(name))
            case sp.Transpose():
                return do.transpose(self(node.arg))
            case sp.MatPow():
                return self._power(node)
            case sp.MatMul():
                return self._multiple(*node.as_coeff_matrices())
            case sp.MatAdd() | sp.Add():
                return self._sum(node)
            case sp.Identity():
                return do.identity(dimension(node.shape[0]))
            case sp.ZeroMatrix():
                return do.zero(dimension(node.shape[0]), dimension(node.shape[1]))
            case sp.Trace():
                return do.trace(self(node.arg))
            case sp.Rational():
                return do.number(_fraction(node))
            case sp.Mul():
                return self._product(node.args)
            case sp.Pow():
                return self._scalar_power(node)
        return self._part(node)

    def _part(self, node: sp.Basic) -> V:
        """Diagonals, their complex kin, and elementwise operations on columns (or rows)."""
        do = self.arithmetic
        match node:
            case sp.OneMatrix():
                return do.ones(dimension(node.shape[0]), dimension(node.shape[1]))
            case sp.DiagMatrix():
                return self._diagonal(node.args[0])
            case sp.DiagonalOf():
                return do.diagonal_of(self(node.arg))
            case ComplexPart():
                return do.complex_part(self(node.arg), node.pairing)
            case sp.HadamardProduct():
                return self._elementwise(node.args, node)
            case sp.HadamardPower():
                exponent = _integer(node.exp, node)
                if exponent <= 0:  # by way of a diagonal matrix, which has an inverse and a zeroth power
                    power = self._repeated(self._diagonal(node.base), exponent, node.shape[0])
                    column = do.diagonal_of(power)
                    return column if node.shape[1] == 1 else do.transpose(column)
                return self._elementwise((node.base,) * exponent, node)
        raise DeclarationError(f"cannot evaluate {type(node).__name__} {node}")

    def _sum(self, node: sp.Basic) -> V:
        first, *others = node.args
        total = self(first)
        for other in others:
            total = self.arithmetic.add(total, self(other))
        return total

    def _product(self, factors: tuple[sp.Basic, ...]) -> V:
        if len(factors) == 1:
            return self(factors[0])
        if factors not in self.memo:
            self.memo[factors] = self.arithmetic.product(self._product(factors[:-1]), self(factors[-1]))
        return self.memo[factors]

    def _multiple(self, coefficient: sp.Expr, matrices: list[sp.Basic]) -> V:
        """A scalar times a product of matrices; a product of scalars only is a 1 x 1 matrix."""
        product = self._product(tuple(matrices))
        if coefficient == 1:
            return product
        if isinstance(coefficient, sp.Rational):
            return self.arithmetic.scale(product, _fraction(coefficient))
        return self.arithmetic.multiply(self(coefficient), product)

    def _diagonal(self, vector: sp.MatrixExpr) -> V:
        if 1 not in vector.shape:
            raise DeclarationError(f"{vector} of shape {vector.shape} is neither a column nor a row")
        column = self(vector)
        return self.arithmetic.diagonal(column if vector.shape[1] == 1 else self.arithmetic.transpose(column))

    def _elementwise(self, factors: tuple[sp.MatrixExpr, ...], node: sp.Basic) -> V:
        """Elementwise product of columns, or of rows."""
        do, (first, *others) = self.arithmetic, factors
        if 1 not in first.shape:
            raise DeclarationError(f"cannot evaluate {node}: elementwise operations on columns or rows only")
        out = self(first)
        for other in others:
            diagonal = self._diagonal(other)
            out = do.product(diagonal, out) if first.shape[1] == 1 else do.product(out, diagonal)
        return out

    def _power(self, node: sp.MatPow) -> V:
        return self._repeated(self(node.base), int(node.exp), node.shape[0])

    def _scalar_power(self, node: sp.Pow) -> V:
        exponent = _integer(node.exp, node)
        if exponent < 0:
            return self._repeated(self(node.base), exponent, sp.S.One)
        return self._product((node.base,) * exponent) if exponent else self.arithmetic.number(Fraction(1))

    def _repeated(self, base: V, exponent: int, size: sp.Expr) -> V:
        base = self.arithmetic.inverse(base) if exponent < 0 else base
        out = base if exponent else self.arithmetic.identity(dimension(size))
        for _ in range(abs(exponent) - 1):
            out = self.arithmetic.product(out, base)
        return out


def _fraction(number: sp.Rational) -> Fraction:
    return Fraction(int(number.p), int(number.q))


def _integer(exponent: sp.Expr, node: sp.Basic) -> int:
    if not isinstance(exponent, sp.Integer):
        raise DeclarationError(f"cannot evaluate {node}: exponents are integers")
    return int(exponent)
