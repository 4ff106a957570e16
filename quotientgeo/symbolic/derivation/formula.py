"""A formula in its two forms: the engine's polynomial, and the SymPy expression that everything else reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import sympy as sp

from quotientgeo.symbolic.algebra import Polynomial, TracePolynomial


@dataclass(frozen=True)
class MatrixFormula:
    """A matrix-valued formula called ``name`` in the letters ``arguments``."""

    name: str
    arguments: tuple[str, ...]
    polynomial: Polynomial
    expression: sp.MatrixExpr

    @classmethod
    def derived(cls, name: str, arguments: Iterable[str], polynomial: Polynomial) -> MatrixFormula:
        """A formula that the engine derived; its SymPy form is a view of the polynomial."""
        return cls(name, tuple(arguments), polynomial, polynomial.to_sympy())

    def __str__(self) -> str:
        return f"{self.name} = {self.polynomial}"


@dataclass(frozen=True)
class ScalarFormula:
    """A scalar-valued formula called ``name`` in the letters ``arguments``."""

    name: str
    arguments: tuple[str, ...]
    polynomial: TracePolynomial
    expression: sp.Expr

    @classmethod
    def derived(cls, name: str, arguments: Iterable[str], polynomial: TracePolynomial) -> ScalarFormula:
        """A formula that the engine derived; its SymPy form is a view of the polynomial."""
        return cls(name, tuple(arguments), polynomial, polynomial.to_sympy())

    def __str__(self) -> str:
        return f"{self.name} = {self.polynomial}"


Formula: TypeAlias = MatrixFormula | ScalarFormula
