"""Matrix products in about twice float64's precision, from exact float64 products (Ozaki's splitting).

The gauge of a checkpoint is arbitrary, and whitening divides by it, so that rounding errors of QR would enter with its
condition. Residuals computed here undo that.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_MANTISSA = 53
_SLICES = 3


def multiply_add(C: Tensor, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """C + A B as an unevaluated sum high + low, for float64 C (..., n, k), A (..., n, h), B (..., h, k).

    A and B are cut into slices of so few bits that products of slices are exact in float64 in any order of summation;
    their sum is compensated. The error is about 2^-66 of |A| |B|, and no cancellation with C adds to it.
    """
    bits = (_MANTISSA - math.ceil(math.log2(max(2, A.shape[-1])))) // 2
    slices_A, slices_B = _slices(A, -1, bits), _slices(B, -2, bits)
    high, low = C, torch.zeros_like(C)
    for level in range(2 * _SLICES - 1):  # large terms first
        for i in range(max(0, level - _SLICES + 1), min(level, _SLICES - 1) + 1):
            high, error = _two_sum(high, slices_A[i] @ slices_B[level - i])
            low = low + error
    return _two_sum(high, low)


def _slices(A: Tensor, axis: int, bits: int) -> list[Tensor]:
    """A = sum of slices; each holds multiples of one unit per row (or column), at most 2^bits of them."""
    slices = []
    for _ in range(_SLICES - 1):
        largest = A.abs().amax(axis, keepdim=True)
        exponent = torch.where(largest > 0, largest, 1.0).log2().ceil()
        shift = torch.exp2(exponent + (_MANTISSA - bits))
        top = (A + shift) - shift
        slices.append(top)
        A = A - top
    return [*slices, A]


def _two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a + b = sum + error exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
