"""Arguments that all groups share: sizes as names or numbers, and what a random draw needs."""

from __future__ import annotations

import keyword
import operator
from collections.abc import Mapping
from numbers import Real

import torch
from torch import Tensor

from quotientgeo.errors import ArgumentError, DeclarationError, ShapeError

Dimension = int | str
Shape = tuple[Dimension, Dimension]

LARGEST_CONDITION = 1.0 / torch.finfo(torch.float64).eps  # cond(A) at which an inverse in float64 has no digit left


def shown(value: object) -> str:
    """What was given, on one line and not a page long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_integer(value: object) -> object:
    """Integers of other types (NumPy, torch) as int; everything else as it is."""
    if isinstance(value, (int, str)) or not hasattr(value, "__index__"):
        return value
    try:
        return operator.index(value)
    except TypeError:  # a tensor that is no integer has the method all the same
        return value


def as_dimension(signature: str, argument: str, value: object) -> Dimension:
    """A size in a declaration: a positive integer, or the name of a symbol.

    Raises:
        DeclarationError: it is neither; ``signature`` and ``argument`` say where.
    """
    size = as_integer(value)
    if isinstance(size, str) and size.isidentifier() and not keyword.iskeyword(size):
        return size
    if type(size) is int and size >= 1:
        return size
    raise DeclarationError(f"{signature}: {argument} must be a positive integer or a symbol's name, got {shown(value)}")


def as_number(group: str, name: str, value: object) -> int:
    """A size in numbers.

    Raises:
        ArgumentError: it is no positive integer.
    """
    size = as_integer(value)
    if type(size) is not int or size < 1:
        raise ArgumentError(f"{group}: {name} must be a positive integer, got {shown(value)}")
    return size


def as_sizes(group: str, symbols: tuple[str, ...], size: int | None, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """The numbers of ``symbols``, given as a mapping or, where there is only one symbol, as ``size``.

    Names in ``sizes`` that the group does not have are left alone, so that one mapping serves a whole problem.

    Raises:
        ArgumentError: a number is missing or not a positive integer, or both ways are used at once.
    """
    if sizes is not None and not isinstance(sizes, Mapping):
        raise ArgumentError(f'{group}: sizes must be a mapping such as {{"h": 4}}, got {shown(sizes)}')
    if size is not None and sizes is not None:
        raise ArgumentError(f"{group}: pass either size or sizes, not both")
    if not symbols:
        return {}
    wanted = ", ".join(f'"{name}": <int>' for name in symbols)
    if size is not None:
        if len(symbols) > 1:
            raise ArgumentError(f"{group} has {len(symbols)} symbolic sizes: pass sizes={{{wanted}}} instead of size")
        return {symbols[0]: as_number(group, "size", size)}
    missing = [name for name in symbols if name not in (sizes or {})]
    if missing:
        shorter = "size=<int> or " if len(symbols) == 1 else ""
        what = "a symbolic size" if len(symbols) == 1 else f"the symbolic sizes {', '.join(symbols)}"
        lacking = f" (sizes lacks {', '.join(missing)})" if sizes is not None else ""
        raise ArgumentError(f"{group} has {what}: pass {shorter}sizes={{{wanted}}} to work with numbers{lacking}")
    return {name: as_number(group, f"sizes[{name!r}]", (sizes or {})[name]) for name in symbols}


def check_draw(generator: object, condition: object, batch: object, dtype: object) -> None:
    """What every random element needs.

    Raises:
        ArgumentError: no generator of the CPU, a condition outside [1, LARGEST_CONDITION], a batch that is no shape, or a
            dtype that is not real floating point.
    """
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        raise ArgumentError(
            "random_element: generator must be a torch.Generator of the CPU, so that every device sees the same element, "
            f"got {shown(generator)}"
        )
    if isinstance(condition, bool) or not (isinstance(condition, Real) and 1.0 <= float(condition) < float("inf")):
        raise ArgumentError(f"random_element: condition must be a finite number >= 1, got {shown(condition)}")
    if float(condition) > LARGEST_CONDITION:
        raise ArgumentError(
            f"random_element: condition must be at most {LARGEST_CONDITION:.1e}, got {condition!r}: beyond that float64 "
            "keeps no digit of the inverse; use a smaller condition"
        )
    check_batch("random_element", batch)
    check_dtype("random_element", dtype)


def check_batch(place: str, batch: object) -> None:
    """Raise ArgumentError unless ``batch`` is a tuple of numbers >= 0."""
    if not isinstance(batch, (tuple, list)) or not all(type(n := as_integer(b)) is int and n >= 0 for b in batch):
        raise ArgumentError(f"{place}: batch must be a tuple of leading dimensions such as (8,), got {shown(batch)}")


def check_dtype(place: str, dtype: object) -> None:
    """Raise ArgumentError unless ``dtype`` is a real floating-point dtype of torch."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ArgumentError(f"{place}: dtype must be a floating-point dtype such as torch.float64, got {shown(dtype)}")


def check_matrix(group: str, shape: Shape, what: str, matrix: object) -> Tensor:
    """A tensor whose last two dimensions fit ``shape``, where a name stands for any number, the same at each place.

    Raises:
        ShapeError: it is no floating-point tensor of that shape.
    """
    expected = f"(..., {shape[0]}, {shape[1]})"
    if not isinstance(matrix, Tensor) or not matrix.is_floating_point():
        given = f"{matrix.dtype}" if isinstance(matrix, Tensor) else shown(matrix)
        raise ShapeError(f"{group}: {what} must be a floating-point tensor of shape {expected}, got {given}")
    found = dict.fromkeys(zip(shape, matrix.shape[-2:], strict=False)) if matrix.ndim >= 2 else {}
    fits = all(n == size for n, size in found if isinstance(n, int)) and len(found) == len(set(shape))
    if not fits:
        raise ShapeError(f"{group}: {what} must have shape {expected}, got {tuple(matrix.shape)}")
    return matrix
