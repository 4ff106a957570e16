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
            case sp.Transpose():
                return do.transpose(self(node.arg))
            case sp.MatPow():
                return self._power(node)
            case sp.MatMul():
                coefficient, factors = node.as_coeff_matrices()
                product = self._product(tuple(factors))
                return product if coefficient == 1 else do.scale(product, _fraction(coefficient))
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
                return self._product((node.base,) * int(node.exp)) if node.exp else do.number(Fraction(1))
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

    def _power(self, node: sp.MatPow) -> V:
        exponent = int(node.exp)
        base = self(node.base)
        base = self.arithmetic.inverse(base) if exponent < 0 else base
        out = base if exponent else self.arithmetic.identity(dimension(node.shape[0]))
        for _ in range(abs(exponent) - 1):
            out = self.arithmetic.product(out, base)
        return out


def _fraction(number: sp.Rational) -> Fraction:
    return Fraction(int(number.p), int(number.q))
