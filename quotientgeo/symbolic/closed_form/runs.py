"""The text of a closed form, run against an integral of the generated acceleration."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from quotientgeo.errors import CertificateError

_SIZES, _STEPS, _TOLERANCE = (2, 4), 256, 1e-8  # what Runge-Kutta leaves is near 1e-10
_LENGTHS = (0.2, 0.1, 0.05, 0.02)  # of tangents, relative to the point: the first along which the integral has settled
Factors = tuple[Tensor, ...]


def check_text(name: str, closed: ModuleType, generated: ModuleType) -> None:
    """Compare printed end points with Runge-Kutta integrals of the generated acceleration, at random points of two sizes.

    Along tangents for which the integral with half the steps ends elsewhere, as where a geodesic ends before t = 1, nothing can
    be told: shorter ones are taken.

    Raises:
        CertificateError: they differ, or no integral settles.
    """
    for size in _SIZES:
        random = torch.Generator().manual_seed(size)
        symbols = dict.fromkeys(s for shape in generated.FACTORS.values() for s in shape if isinstance(s, str))
        numbers = {symbol: size + 2 * (i % 2) for i, symbol in enumerate(symbols)}  # even: columns may come in pairs
        shapes = [tuple(numbers.get(s, s) for s in shape) for shape in generated.FACTORS.values()]
        options: Any = {"dtype": torch.float64, "generator": random}
        point = tuple(torch.rand(3, *shape, **options) + 1.0 for shape in shapes)
        tangent = tuple(torch.randn(3, *shape, **options) for shape in shapes)
        short, wanted = _settled(name, generated, point, tangent)
        found = closed.exponential(*point, *short)
        for factor, error in zip(generated.FACTORS, _distances(found, wanted), strict=True):
            if not error < _TOLERANCE:
                raise CertificateError(
                    f"{name}: the printed closed form of {factor} ends at a relative distance of {error:.1e} from the integral "
                    f"of the generated acceleration at {numbers} (allowed {_TOLERANCE:g}), although it was proven. That is a "
                    f"defect of this package, not of the declaration: please report it. The geometry's own claims and code do "
                    f"not rest on it: generate(geometry, path, closed_form=False) writes them without the closed form"
                )


def _settled(name: str, module: ModuleType, point: Factors, tangent: Factors) -> tuple[Factors, Factors]:
    """(tangent, end point) of the longest tangents along which halving the steps changes nothing."""
    for length in _LENGTHS:
        short = tuple(length * x for x in tangent)
        end = _integral(module, point, short, _STEPS)
        if all(error < _TOLERANCE for error in _distances(_integral(module, point, short, _STEPS // 2), end)):
            return short, end
    raise CertificateError(
        f"{name}: the closed form cannot be judged: no integral of the generated acceleration settles along tangents of "
        f"{_LENGTHS[-1]:g} of the point or more. generate(geometry, path, closed_form=False) writes the rest without it"
    )


def _distances(found: Factors, wanted: Factors) -> list[float]:
    return [float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, wanted, strict=True)]


def _integral(module: ModuleType, point: Factors, tangent: Factors, steps: int) -> Factors:
    """End point at t = 1 by classical Runge-Kutta."""
    count, dt = len(point), 1.0 / steps

    def rate(state: Factors) -> Factors:
        return (*state[count:], *module.acceleration(*state))

    def ahead(state: Factors, slope: Factors, step: float) -> Factors:
        return tuple(x + step * k for x, k in zip(state, slope, strict=True))

    state = (*point, *tangent)
    for _ in range(steps):
        first = rate(state)
        second = rate(ahead(state, first, dt / 2))
        third = rate(ahead(state, second, dt / 2))
        last = rate(ahead(state, third, dt))
        parts = zip(first, second, third, last, strict=True)
        state = ahead(state, tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in parts), dt)
    return state[:count]
