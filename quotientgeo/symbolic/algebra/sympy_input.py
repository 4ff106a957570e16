"""From SymPy expressions to the algebra. Whatever is not understood is refused by name, with what to write instead."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

import sympy as sp
from sympy.matrices.expressions.matexpr import MatrixElement

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra.cyclic import trace
from quotientgeo.symbolic.algebra.letters import SCALARS, Dimension, Kind
from quotientgeo.symbolic.algebra.parts import ComplexPart
from quotientgeo.symbolic.algebra.trace import TracePolynomial, one_over, scalar

if TYPE_CHECKING:
    from quotientgeo.symbolic.algebra.alphabet import Alphabet
    from quotientgeo.symbolic.algebra.polynomial import Polynomial

LARGEST_POWER = 64

_ADVICE: tuple[tuple[type, str], ...] = (
    (sp.Adjoint, "matrices are real here: write X.T"),
    (sp.BlockMatrix, "write each block as a factor of its own"),
    (sp.KroneckerProduct, "write the two-sided product L*X*R itself"),
    (sp.Determinant, "determinants are not supported: write traces of products"),
    (sp.MatrixBase, "explicit matrices are not supported: write matrix symbols, for formulas that hold at all sizes"),
    (MatrixElement, "single entries are not supported: write Trace(...) of a product"),
    (sp.Sum, "sums over indices are not supported: write a trace of a product"),
    (sp.Pow, "only integer powers of scalars are supported"),
    (sp.Function, "only sums, products and integer powers of Trace(...) and of scalar symbols are supported"),
)


def dimension(size: sp.Expr) -> Dimension:
    """A SymPy size as a name or a number."""
    if isinstance(size, sp.Integer):
        return int(size)
    if isinstance(size, sp.Symbol):
        return str(size.name)
    raise DeclarationError(f"size {size} is neither a symbol nor an integer: give each size a name of its own")


def _refuse(node: object, whole: object) -> NoReturn:
    place = "" if node is whole else f" in {whole}"
    if isinstance(node, sp.Symbol):
        raise DeclarationError(
            f"plain scalar symbol {node}{place}: it would be silently treated as a constant. Only symbols that were declared, "
            "and rational numbers, may appear; write a scalar as a trace of the matrices it depends on"
        )
    if isinstance(node, sp.Float | float):
        raise DeclarationError(
            f"floating-point number {node}{place}: write sympy.Rational(p, q), so that proofs are exact"
        )
    advice = next(
        (text for kind, text in _ADVICE if isinstance(node, kind)), "use +, *, .T, .inv(), Identity and Trace"
    )
    raise DeclarationError(f"cannot read {type(node).__name__} {node}{place}: {advice}")


def polynomial_from_sympy(expression: sp.MatrixExpr, alphabet: Alphabet) -> Polynomial:
    """A SymPy matrix expression over the alphabet's symbols as a polynomial in normal form.

    Understood: MatrixSymbol, Transpose, Inverse, integer MatPow, MatMul and MatAdd (coefficients are scalars as in
    ``trace_from_sympy``), Identity, ZeroMatrix, OneMatrix, DiagMatrix, DiagonalOf, HadamardProduct and HadamardPower of columns,
    ComplexPart. Anything else is a DeclarationError that names the node.
    """
    return _matrix(expression, alphabet, expression)


def _symbol(node: sp.MatrixSymbol, alphabet: Alphabet) -> Polynomial:
    name = str(node.name)
    if name not in alphabet:
        raise DeclarationError(f"unknown matrix symbol {name}; declared here: {', '.join(alphabet)}")
    shape = (dimension(node.shape[0]), dimension(node.shape[1]))
    if shape != alphabet.shape(name):
        raise DeclarationError(f"matrix symbol {name} has shape {shape} here but is declared as {alphabet.shape(name)}")
    return alphabet[name]


def _matrix(node: sp.Basic, alphabet: Alphabet, whole: object) -> Polynomial:
    match node:
        case sp.MatrixSymbol():
            return _symbol(node, alphabet)
        case sp.Transpose():
            return _matrix(node.arg, alphabet, whole).T
        case sp.MatPow():  # Inverse is a MatPow
            return _power(node, alphabet, whole)
        case sp.MatAdd():
            first, *others = (_matrix(part, alphabet, whole) for part in node.args)
            for other in others:
                first = first + other
            return first
        case sp.MatMul():
            coefficient, factors = node.as_coeff_matrices()
            first, *others = (_matrix(factor, alphabet, whole) for factor in factors)
            for other in others:
                first = first * other
            if isinstance(coefficient, sp.Rational):
                return first * Fraction(int(coefficient.p), int(coefficient.q))
            return first.scaled(_scalar(coefficient, alphabet, whole))
        case sp.OneMatrix():
            return alphabet.ones(dimension(node.shape[0]), dimension(node.shape[1]))
        case sp.DiagMatrix():
            return _column(node.args[0], alphabet, whole, "DiagMatrix").diagonal()
        case sp.DiagonalOf():
            return _matrix(node.args[0], alphabet, whole).part(Kind.DIAGONAL) * alphabet.ones(dimension(node.shape[0]))
        case sp.HadamardProduct():
            if node.shape[0] == 1 and node.shape[1] != 1:
                return _matrix(sp.HadamardProduct(*map(sp.Transpose, node.args)), alphabet, whole).T
            *others, last = (_column(part, alphabet, whole, "HadamardProduct") for part in node.args)
            for other in others:
                last = other.diagonal() * last
            return last
        case sp.HadamardPower():
            return _elementwise_power(node, alphabet, whole)
        case ComplexPart():
            return _matrix(node.arg, alphabet, whole).part(Kind(f"complex_{node.pairing}"))
        case sp.Identity():
            return alphabet.identity(dimension(node.shape[0]))
        case sp.ZeroMatrix():
            return alphabet.zero((dimension(node.shape[0]), dimension(node.shape[1])))
        case _:
            _refuse(node, whole)


def _column(node: sp.Basic, alphabet: Alphabet, whole: object, operation: str) -> Polynomial:
    """An operand of an elementwise operation, which must be a column."""
    value = _matrix(node, alphabet, whole)
    if value.shape[1] != 1:
        raise DeclarationError(
            f"{operation} of {node} of shape {value.shape} in {whole}: elementwise operations take columns (d, 1); "
            "flatten a matrix into one, or write a product with DiagMatrix"
        )
    return value


def _elementwise_power(node: sp.HadamardPower, alphabet: Alphabet, whole: object) -> Polynomial:
    if node.shape[0] == 1 and node.shape[1] != 1:
        return _elementwise_power(sp.HadamardPower(sp.Transpose(node.base), node.exp), alphabet, whole).T
    base = _column(node.base, alphabet, whole, "HadamardPower").diagonal()
    if not isinstance(node.exp, sp.Integer):
        raise DeclarationError(f"power {node}: only integer powers are supported")
    out = alphabet.ones(base.shape[0])
    for _ in range(abs(int(node.exp))):
        out = (base.inverse() if node.exp < 0 else base) * out
    return out


def _power(node: sp.MatPow, alphabet: Alphabet, whole: object) -> Polynomial:
    base = _matrix(node.base, alphabet, whole)
    if not isinstance(node.exp, sp.Integer):
        raise DeclarationError(f"power {node}: only integer powers of matrices are supported")
    exponent = int(node.exp)
    if abs(exponent) > LARGEST_POWER:
        raise DeclarationError(f"power {node}: exponents are at most {LARGEST_POWER}, since powers are written out")
    factor = base.inverse() if exponent < 0 else base
    out = alphabet.identity(base.shape[0])
    for _ in range(abs(exponent)):
        out = out * factor
    return out


def trace_from_sympy(expression: sp.Expr, alphabet: Alphabet) -> TracePolynomial:
    """A SymPy scalar made of Trace(...), scalar symbols of the alphabet, rational numbers, sums, products, integer powers."""
    return _scalar(sp.sympify(expression), alphabet, expression)


def _scalar(node: sp.Basic, alphabet: Alphabet, whole: object) -> TracePolynomial:
    match node:
        case sp.Rational():
            return scalar(alphabet, Fraction(int(node.p), int(node.q)))
        case sp.Trace():
            return trace(_matrix(node.arg, alphabet, whole))
        case sp.Symbol() if node.name in alphabet and alphabet.kind(node.name) in SCALARS:
            return alphabet[node.name].scalar()
        case sp.Symbol() if node.is_integer and node.name in alphabet.sizes:
            return trace(alphabet.identity(node.name))
        case sp.Add():
            out = scalar(alphabet, 0)
            for part in node.args:
                out = out + _scalar(part, alphabet, whole)
            return out
        case sp.Mul():
            out = scalar(alphabet, 1)
            for part in node.args:
                out = out * _scalar(part, alphabet, whole)
            return out
        case sp.Pow() if isinstance(node.exp, sp.Integer):
            base = _scalar(node.base, alphabet, whole)
            if base.is_zero and node.exp < 0:
                raise DeclarationError(f"division by zero: {node.base} in {whole} is zero")
            factor = one_over(base) if node.exp < 0 else base
            out = scalar(alphabet, 1)
            for _ in range(abs(int(node.exp))):
                out = out * factor
            return out
        case sp.MatrixExpr() | sp.MatrixBase():
            raise DeclarationError(
                f"{node} is a matrix of shape {node.shape}, but a scalar is needed: wrap it in Trace(...)"
            )
        case _:
            _refuse(node, whole)
