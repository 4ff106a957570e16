"""SymPy matrix expressions in float64 with torch: node by node, sharing no code with the package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import sympy as sp
import torch
from torch import Tensor

from quotientgeo.symbolic.algebra.parts import ComplexPart

Values = Mapping[str, Tensor]


def count(size: sp.Expr, sizes: Mapping[str, int]) -> int:
    """A size as a number."""
    return int(size) if isinstance(size, sp.Integer) else sizes[str(size)]


def complex_part(matrix: Tensor, pairing: str) -> Tensor:
    """The nearest matrix that multiplies each pair of coordinates by a complex number."""
    half = len(matrix) // 2
    first = torch.arange(half) if pairing == "half" else torch.arange(0, len(matrix), 2)
    turn = torch.zeros_like(matrix)  # the number i
    second = first + (half if pairing == "half" else 1)
    turn[first, second], turn[second, first] = -1.0, 1.0
    pairs = torch.eye(len(matrix), dtype=matrix.dtype) + turn.abs()  # which entries belong to a pair
    inside = matrix * pairs
    return (inside + turn @ inside @ turn.mT) / 2


def value(node: sp.Basic, values: Values, sizes: Mapping[str, int]) -> Tensor:
    """A matrix (rows, columns), or of a scalar expression a number without axes."""

    def of(part: sp.Basic) -> Tensor:
        return value(part, values, sizes)

    def shape(matrix: sp.MatrixExpr) -> tuple[int, int]:
        return count(matrix.shape[0], sizes), count(matrix.shape[1], sizes)

    match node:
        case sp.MatrixSymbol():
            return values[str(node.name)]
        case sp.Transpose():
            return of(node.arg).mT
        case sp.MatPow():  # Inverse is a MatPow
            return torch.linalg.matrix_power(of(node.base), int(node.exp))
        case sp.MatAdd() | sp.Add():
            return sum((of(part) for part in node.args[1:]), of(node.args[0]))
        case sp.MatMul():
            return reduce(lambda x, y: x * y if min(x.ndim, y.ndim) == 0 else x @ y, map(of, node.args))
        case sp.Mul():
            return torch.stack([of(part) for part in node.args]).prod()
        case sp.Pow():
            return of(node.base) ** int(node.exp)
        case sp.Trace():
            return of(node.arg).trace()
        case sp.OneMatrix():
            return torch.ones(shape(node), dtype=torch.float64)
        case sp.ZeroMatrix():
            return torch.zeros(shape(node), dtype=torch.float64)
        case sp.Identity():
            return torch.eye(count(node.shape[0], sizes), dtype=torch.float64)
        case sp.DiagMatrix():
            return torch.diag_embed(of(node.args[0])[:, 0])
        case sp.DiagonalOf():
            return of(node.args[0]).diagonal()[:, None]
        case sp.HadamardProduct():
            return torch.stack([of(part) for part in node.args]).prod(0)
        case sp.HadamardPower():
            return of(node.args[0]) ** int(node.args[1])
        case ComplexPart():
            return complex_part(of(node.arg), node.pairing)
        case sp.Rational():
            return torch.tensor(int(node.p) / int(node.q), dtype=torch.float64)
        case sp.Symbol() if node.name in values:
            return values[node.name].reshape(())
        case sp.Symbol():
            return torch.tensor(float(sizes[node.name]), dtype=torch.float64)
    raise TypeError(f"no value of {type(node).__name__} {node}")
