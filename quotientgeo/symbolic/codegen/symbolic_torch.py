"""A stand-in for torch whose tensors are polynomials: generated source can be run on symbols."""

from __future__ import annotations

import builtins
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.algebra import (
    Alphabet,
    Dimension,
    Kind,
    Polynomial,
    TracePolynomial,
    is_positive_definite,
    one_over,
    scalar,
    trace,
)


class SymbolicTensor:
    """A polynomial that answers to the tensor operations that generated code uses; its leading dimensions are ``...``."""

    dtype = device = None

    def __init__(self, value: Polynomial) -> None:
        self.value = value

    @property
    def shape(self) -> tuple[Any, ...]:
        return (..., *(_size(self.value.alphabet, size) for size in self.value.shape))

    @property
    def mT(self) -> SymbolicTensor:
        return SymbolicTensor(self.value.T)

    def __matmul__(self, other: SymbolicTensor) -> SymbolicTensor:
        return SymbolicTensor(self.value * other.value)

    def __add__(self, other: SymbolicTensor | int) -> SymbolicTensor:
        return SymbolicTensor(self.value + self._read(other))

    __radd__ = __add__

    def __sub__(self, other: SymbolicTensor | int) -> SymbolicTensor:
        return SymbolicTensor(self.value - self._read(other))

    def __rsub__(self, other: int) -> SymbolicTensor:
        return SymbolicTensor(self._read(other) - self.value)

    def __neg__(self) -> SymbolicTensor:
        return SymbolicTensor(-self.value)

    def __mul__(self, other: SymbolicTensor | int) -> Any:
        if isinstance(other, SymbolicTensor):
            if self.value.shape == other.value.shape and 1 not in self.value.shape:
                return _Elementwise(self.value, other.value)
            return _spread(self.value, other.value)
        return SymbolicTensor(self.value * _rational(other))

    __rmul__ = __mul__

    def __truediv__(self, other: SymbolicTensor | int) -> SymbolicTensor:
        if isinstance(other, SymbolicTensor):
            return _spread(self.value, (1 / other).value)
        return SymbolicTensor(self.value * (1 / Fraction(other)))

    def __rtruediv__(self, other: int) -> SymbolicTensor:
        """Entry by entry, of a column or a row."""
        column = self.value if self.value.shape[1] == 1 else self.value.T
        _expect(column.shape[1] == 1, "division by columns and rows only")
        inverse = column.diagonal().inverse() * column.alphabet.ones(column.shape[0]) * Fraction(other)
        return SymbolicTensor(inverse if column is self.value else inverse.T)

    def _read(self, other: SymbolicTensor | int) -> Polynomial:
        """The other summand; a number is added to every entry."""
        if isinstance(other, SymbolicTensor):
            return other.value
        return self.value.alphabet.ones(*self.value.shape) * _rational(other)

    def __getitem__(self, index: Any) -> SymbolicScalar:
        _expect(index == (..., 0, 0) and self.value.shape == (1, 1), "the only entry of a matrix of shape (1, 1)")
        return SymbolicScalar(self.value.scalar())

    def sum(self, dim: Any, keepdim: bool = False) -> Any:
        if dim == (-2, -1):
            rows, columns = self.value.shape
            ones = self.value.alphabet.ones
            return SymbolicScalar((ones(1, rows) * self.value * ones(columns)).scalar())
        _expect(dim == -1 and keepdim, "a sum along rows that keeps the axis")
        return SymbolicTensor(self.value * self.value.alphabet.ones(self.value.shape[1]))

    def diagonal(self, *, dim1: int, dim2: int) -> _Diagonal:
        _expect((dim1, dim2) == (-2, -1), "diagonal of the matrix axes")
        return _Diagonal(self.value)

    def squeeze(self, dim: int) -> _Diagonal:
        _expect(dim == -1 and self.value.shape[1] == 1, "the axis of a column dropped")
        return _Diagonal(self.value.diagonal())

    def expand(self, *shape: Any) -> SymbolicTensor:
        _expect(shape == (..., -1, -1), "expansion of the leading dimensions")
        return self

    def new_zeros(self, batch: Any, rows: Any, columns: Any) -> SymbolicTensor:
        _expect(batch is ..., "zeros with the leading dimensions of the arguments")
        return SymbolicTensor(self.value.alphabet.zero((_dimension(rows), _dimension(columns))))

    def new_ones(self, rows: Any, columns: Any) -> SymbolicTensor:
        return SymbolicTensor(self.value.alphabet.ones(_dimension(rows), _dimension(columns)))

    def new_full(self, batch: Any, value: Any) -> SymbolicScalar:
        _expect(batch == (...,), "a constant with the leading dimensions of the arguments")
        return (
            value
            if isinstance(value, SymbolicScalar)
            else SymbolicScalar(scalar(self.value.alphabet, _rational(value)))
        )


class SymbolicScalar:
    """A scalar. The size of a symbolic axis is the trace of its identity, and no tensor but a ``number`` of Python's."""

    def __init__(self, value: TracePolynomial, size: Dimension = "", number: bool = False) -> None:
        self.value = value
        self.size = size
        self.number = number

    def _with(self, value: TracePolynomial, other: object = 1) -> SymbolicScalar:
        """A result: a tensor as soon as one of the operands is."""
        return SymbolicScalar(value, number=self.number and getattr(other, "number", True))

    def __add__(self, other: SymbolicScalar | int) -> SymbolicScalar:
        return self._with(self.value + self._read(other), other)

    __radd__ = __add__

    def __sub__(self, other: SymbolicScalar | int) -> SymbolicScalar:
        return self._with(self.value - self._read(other), other)

    def __rsub__(self, other: int) -> SymbolicScalar:
        return self._with(self._read(other) - self.value)

    def __neg__(self) -> SymbolicScalar:
        return self._with(-self.value)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, SymbolicTensor):
            _expect(self.number, "a tensor of numbers to get the axes of a matrix before it multiplies one")
            return SymbolicTensor(other.value.scaled(self.value))
        return self._with(self.value * self._read(other), other)

    __rmul__ = __mul__

    def __truediv__(self, other: int) -> SymbolicScalar:
        return self._with(self.value * (1 / Fraction(other)))

    def __rtruediv__(self, other: int) -> SymbolicScalar:
        return self._with(one_over(self.value) * _rational(other))

    def __getitem__(self, index: Any) -> _Multiplier:
        _expect(index == (..., None, None) and not self.number, "a tensor of numbers with the axes of a matrix")
        return _Multiplier(self.value)

    def expand(self, batch: Any) -> SymbolicScalar:
        _expect(batch == (...,) and not self.number, "expansion of a tensor to the leading dimensions")
        return self

    def _read(self, other: SymbolicScalar | int) -> TracePolynomial:
        return other.value if isinstance(other, SymbolicScalar) else scalar(self.value.alphabet, _rational(other))


class _Multiplier:
    """A number with the axes of a matrix, waiting for the matrix."""

    def __init__(self, value: TracePolynomial) -> None:
        self.value = value

    def __mul__(self, other: SymbolicTensor) -> SymbolicTensor:
        return SymbolicTensor(other.value.scaled(self.value))


class _Diagonal:
    """The entries of a diagonal matrix without a second axis."""

    def __init__(self, matrix: Polynomial) -> None:
        self.matrix = matrix

    def sum(self, dim: int) -> SymbolicScalar:
        _expect(dim == -1, "the sum of a diagonal")
        return SymbolicScalar(trace(self.matrix))

    def unsqueeze(self, dim: int) -> SymbolicTensor:
        _expect(dim == -1, "a diagonal as a column")
        return SymbolicTensor(self.matrix.part(Kind.DIAGONAL) * self.matrix.alphabet.ones(self.matrix.shape[0]))


def _spread(left: Polynomial, right: Polynomial) -> SymbolicTensor:
    """left * right entry by entry, where one is a column or a row that is spread over the other."""
    if left.shape[1] == 1 and left.shape[0] == right.shape[0]:
        return SymbolicTensor(left.diagonal() * right)
    if right.shape[1] == 1 and left.shape[0] == right.shape[0]:
        return SymbolicTensor(right.diagonal() * left)
    if right.shape[0] == 1 and left.shape[1] == right.shape[1]:
        return SymbolicTensor(left * right.T.diagonal())
    _expect(
        left.shape[0] == 1 and left.shape[1] == right.shape[1],
        f"shapes that spread, not {left.shape} and {right.shape}",
    )
    return SymbolicTensor(right * left.T.diagonal())


class _Elementwise:
    """left * right entry by entry, waiting to be summed."""

    def __init__(self, left: Polynomial, right: Polynomial) -> None:
        _expect(left.shape == right.shape, f"elementwise product of equal shapes, not {left.shape} and {right.shape}")
        self._left, self._right = left, right

    def sum(self, dim: Any, keepdim: bool = False) -> Any:
        if dim == (-2, -1):
            return SymbolicScalar(trace(self._left.T * self._right))
        _expect(dim == -1 and keepdim, "a sum over the matrix axes, or along rows")
        product = self._left * self._right.T
        return SymbolicTensor(product.part(Kind.DIAGONAL) * product.alphabet.ones(product.shape[0]))


class _Factors:
    """A factorisation stands for its matrix; it may be solved with once NaN has been put where it failed."""

    def __init__(self, matrix: Polynomial, guarded: bool = False) -> None:
        self.matrix = matrix
        self.guarded = guarded

    def masked_fill(self, mask: _Failed, value: float) -> _Factors:
        right = isinstance(mask, _Failed) and mask.factors is self and mask.stage == "mask" and value != value
        _expect(right, "NaN exactly where a factorisation failed")
        return _Factors(self.matrix, guarded=True)


class _Failed:
    """How each factorisation ended: a number, then whether it is not zero, then that with the axes of a matrix."""

    def __init__(self, factors: _Factors, stage: str = "number") -> None:
        self.factors = factors
        self.stage = stage

    def __ne__(self, other: object) -> Any:
        _expect(self.stage == "number" and other == 0, "a factorisation's outcome compared with 0")
        return _Failed(self.factors, "flag")

    def __eq__(self, other: object) -> Any:
        _expect(False, "a factorisation's outcome compared by !=")

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> _Failed:
        _expect(self.stage == "flag" and index == (..., None, None), "a flag per matrix")
        return _Failed(self.factors, "mask")


def _cholesky_ex(matrix: SymbolicTensor) -> tuple[_Factors, _Failed]:
    _expect(is_positive_definite(matrix.value), f"Cholesky of a positive definite matrix, not of {matrix.value}")
    factors = _Factors(matrix.value)
    return factors, _Failed(factors)


def _cholesky_solve(right: SymbolicTensor, factors: _Factors) -> SymbolicTensor:
    _expect(factors.guarded, "NaN exactly where a factorisation failed")
    return SymbolicTensor(factors.matrix.inverse() * right.value)


def _lu_factor_ex(matrix: SymbolicTensor) -> tuple[_Factors, None, _Failed]:
    factors = _Factors(matrix.value)
    return factors, None, _Failed(factors)


def _lu_solve(factors: _Factors, pivots: None, right: SymbolicTensor, *, adjoint: bool = False) -> SymbolicTensor:
    _expect(factors.guarded, "NaN exactly where a factorisation failed")
    matrix = factors.matrix.T if adjoint else factors.matrix
    return SymbolicTensor(matrix.inverse() * right.value)


def _symbolic_torch(alphabet: Alphabet) -> SimpleNamespace:
    """The part of torch that generated code uses."""
    return SimpleNamespace(
        Tensor=SymbolicTensor,
        cholesky_solve=_cholesky_solve,
        linalg=SimpleNamespace(cholesky_ex=_cholesky_ex, lu_factor_ex=_lu_factor_ex, lu_solve=_lu_solve),
        eye=lambda size, dtype, device: SymbolicTensor(alphabet.identity(_dimension(size))),
        broadcast_shapes=lambda *shapes: (...,),
        diag_embed=lambda diagonal: SymbolicTensor(diagonal.matrix),
        autograd=SimpleNamespace(Function=object),
    )


def run_on_symbols(source: str, alphabet: Alphabet) -> dict[str, Any]:
    """The names that generated source defines, its functions taking and giving symbolic tensors."""
    torch = _symbolic_torch(alphabet)

    def import_torch(name: str, *args: Any) -> SimpleNamespace:
        _expect(name == "torch", f"an import of torch only, not of {name}")
        return torch

    namespace: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": import_torch}}
    exec(compile(source, "<generated>", "exec"), namespace)
    for kind in (Kind.COMPLEX_HALF, Kind.COMPLEX_INTERLEAVED):  # helpers of fixed text, held to their formula by tests
        if f"_{kind}" in namespace:
            namespace[f"_{kind}"] = lambda matrix, kind=kind: SymbolicTensor(matrix.value.part(kind))
    return namespace


def _size(alphabet: Alphabet, size: Dimension) -> Any:
    value = trace(alphabet.identity(size))
    return SymbolicScalar(value, size, number=True) if any(value.terms) else size  # a small size is a number


def _dimension(size: Any) -> Dimension:
    return size.size if isinstance(size, SymbolicScalar) else size


def _rational(number: float) -> Fraction:
    """The simplest rational that rounds to a Python number: 5 / 7 in source is the number nearest to it."""
    simple = Fraction(number).limit_denominator(10**6)
    return simple if float(simple) == number else Fraction(number)


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise CertificateError(f"generated code: expected {what}")
