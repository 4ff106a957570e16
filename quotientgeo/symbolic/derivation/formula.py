"""A formula in its two forms: the engine's polynomial, and the SymPy expression that everything else reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import sympy as sp

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra import Polynomial, TracePolynomial


@dataclass(frozen=True)
class MatrixFormula:
    """A matrix-valued formula called ``name`` in the letters ``arguments``."""

    name: str
    arguments: tuple[str, ...]
    polynomial: Polynomial
    expression: sp.MatrixExpr

    def __post_init__(self) -> None:
        _check_letters(self.name, self.arguments, self.polynomial)

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

    def __post_init__(self) -> None:
        _check_letters(self.name, self.arguments, self.polynomial)

    @classmethod
    def derived(cls, name: str, arguments: Iterable[str], polynomial: TracePolynomial) -> ScalarFormula:
        """A formula that the engine derived; its SymPy form is a view of the polynomial."""
        return cls(name, tuple(arguments), polynomial, polynomial.to_sympy())

    def __str__(self) -> str:
        return f"{self.name} = {self.polynomial}"


def block(name: str, arguments: Iterable[str], values: Mapping[str, Polynomial]) -> dict[str, MatrixFormula]:
    """{key: the derived formula ``name_key``} of the same arguments."""
    arguments = tuple(arguments)
    return {key: MatrixFormula.derived(f"{name}_{key}", arguments, value) for key, value in values.items()}


def _check_letters(name: str, arguments: tuple[str, ...], polynomial: Polynomial | TracePolynomial) -> None:
    strange = sorted(set(polynomial.symbols()) - set(arguments))
    if strange:
        raise DeclarationError(f"{name} contains {', '.join(strange)}, but may only depend on {', '.join(arguments)}")


Formula: TypeAlias = MatrixFormula | ScalarFormula
