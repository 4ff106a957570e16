"""Torch text of what closed forms call: functions of time at t = 1, finite with all derivatives, and blocks of factors."""

from __future__ import annotations

from functools import cache

import sympy as sp

from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.closed_form.functions import Scale, definition

_TERMS = 14  # of a series, each below rounding with its second derivative where the series is used
_NEAR = 32  # the arc tangent by its series below 1/32
_X = sp.Symbol("x")
_SERIES = {
    "_COSINE": sp.cos(sp.sqrt(_X)),
    "_SINE": sp.sin(sp.sqrt(_X)) / sp.sqrt(_X),
    "_ARC": sp.atan(sp.sqrt(_X)) / sp.sqrt(_X),
}
_DOCUMENTED = {
    "_COSINE": "cos(sqrt(x))",
    "_SINE": "sin(sqrt(x)) / sqrt(x)",
    "_ARC": "atan(sqrt(x)) / sqrt(x)",
}

SERIES = '''def _series(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """The polynomial with these coefficients, lowest first."""
    value = torch.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value'''
COSINE = '''def _cosine(x: Tensor) -> Tensor:
    """cos(sqrt(x)), which is cosh(sqrt(-x)) for negative x: entire, and so are its derivatives."""
    up, down = torch.where(x > 1, x, 1.0).sqrt(), torch.where(x < -1, -x, 1.0).sqrt()
    near = _series(_COSINE, torch.where(x.abs() > 1, 0.0, x))
    return torch.where(x > 1, up.cos(), torch.where(x < -1, down.cosh(), near))'''
SINE = '''def _sine(x: Tensor) -> Tensor:
    """sin(sqrt(x)) / sqrt(x), which is sinh(sqrt(-x)) / sqrt(-x) for negative x: entire, and so are its derivatives."""
    up, down = torch.where(x > 1, x, 1.0).sqrt(), torch.where(x < -1, -x, 1.0).sqrt()
    near = _series(_SINE, torch.where(x.abs() > 1, 0.0, x))
    return torch.where(x > 1, up.sin() / up, torch.where(x < -1, down.sinh() / down, near))'''
TIME = '''def _time(turning: Tensor, ahead: Tensor) -> Tensor:
    """atan2(w, ahead) / w with w = sqrt(turning), which is 1 / ahead for turning = 0 and ahead > 0: analytic there."""
    near = (ahead > 0) & (_NEAR * turning < ahead * ahead)
    straight = torch.where(near, ahead, 1.0)
    close = _series(_ARC, torch.where(near, turning, 0.0) / (straight * straight)) / straight
    w = torch.where(near, 1.0, turning).sqrt()
    return torch.where(near, close, torch.atan2(w, torch.where(near, 1.0, ahead)) / w)'''.replace("_NEAR", str(_NEAR))
HALVES = '''def _blocks(x: Tensor) -> Tensor:
    """The columns j and j + k of 2k, one below the other, as row j: (..., rows, 2 k) to (..., k, 2 rows)."""
    return x.mT.unflatten(-2, (2, -1)).transpose(-3, -2).flatten(-2)


def _columns(x: Tensor) -> Tensor:
    """The inverse of _blocks."""
    return x.unflatten(-1, (2, -1)).transpose(-3, -2).flatten(-3, -2).mT'''
NEIGHBOURS = '''def _blocks(x: Tensor) -> Tensor:
    """The columns 2 j and 2 j + 1, one below the other, as row j: (..., rows, 2 k) to (..., k, 2 rows)."""
    return x.mT.unflatten(-2, (-1, 2)).flatten(-2)


def _columns(x: Tensor) -> Tensor:
    """The inverse of _blocks."""
    return x.unflatten(-1, (2, -1)).flatten(-3, -2).mT'''


@cache
def lowest() -> str:
    """Least Scale(turning, growth, t) for 0 <= t <= 1, with the time and value of the minimum as SymPy finds them.

    Raises:
        CertificateError: it is not the minimum that is written below.
    """
    k, b, t = sp.symbols("turning growth t", real=True)
    scale = definition(Scale(k, b, t))
    (when,) = sp.solve(scale.diff(t), t)
    value = sp.simplify(scale.subs(t, when))
    if sp.simplify(when + b / (b**2 + k)) != 0 or sp.simplify(value - k / (b**2 + k)) != 0:
        raise CertificateError(f"the least value of {scale} is {value} at {when}")
    return '''def _lowest(turning: Tensor, growth: Tensor) -> Tensor:
    """Least (1 + growth t)^2 + turning t^2 for 0 <= t <= 1: at t = -growth / (growth^2 + turning), or at an end."""
    bend = growth * growth + turning
    inside = (growth < 0) & (-growth < bend)
    end = (1 + growth) ** 2 + turning
    return torch.where(inside, turning / torch.where(inside, bend, 1.0), torch.where(growth < 0, end, 1.0))'''


@cache
def constants(name: str) -> str:
    """The coefficients of a power series at 0, by SymPy."""
    root = sp.Symbol("root", positive=True)
    series = sp.series(_SERIES[name].subs(_X, root**2), root, 0, 2 * _TERMS + 2).removeO()
    values = [series.coeff(root, 2 * i) for i in range(_TERMS + 1)]
    lines = "\n".join(f"    {float(value)!r}," for value in values)
    return f"{name} = (  # of {_DOCUMENTED[name]}\n{lines}\n)"
