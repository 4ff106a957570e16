"""Does a closed form of a geodesic satisfy the derived geodesic equation?

The tests hold every closed form of ``invariant`` and ``mixed`` to this check, in every gauge they are used in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quotientgeo.errors import CertificateError

Factors = tuple[Tensor, ...]  # one tensor (n_i, h_i) per declared factor


@dataclass(frozen=True)
class ExponentialCertificate:
    """Largest relative residual of an exponential map against a geodesic equation, and where it was found."""

    residual: float
    witness: str
    draws: int
    times: tuple[float, ...]
    tolerance: float


def random_draws(
    shapes: Sequence[tuple[int, int]], *, count: int = 4, seed: int = 0, size: float = 0.3
) -> list[tuple[Factors, Factors]]:
    """``count`` pairs (point, tangent) of float64 factors of these shapes.

    Points have singular values between 1 and 2, so that the derived acceleration, which may form Gram matrices, keeps its
    digits along the curve; tangents are Gaussian with entries of ``size``.
    """
    generator = torch.Generator().manual_seed(seed)

    def gaussian() -> Factors:
        return tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)

    def conditioned(factor: Tensor) -> Tensor:
        U, s, Vt = torch.linalg.svd(factor, full_matrices=False)
        return (U * (1.0 + s / s[..., :1])) @ Vt

    return [
        (tuple(conditioned(part) for part in gaussian()), tuple(size * part for part in gaussian()))
        for _ in range(count)
    ]


def certify_exponential(
    exponential: Callable[..., Factors],
    acceleration: Callable[..., Factors],
    draws: Iterable[tuple[Factors, Factors]],
    *,
    times: Sequence[float] = (0.4, 1.0),
    tolerance: float = 1e-9,
) -> ExponentialCertificate:
    """Check that y(t) = exponential(*point, *(t tangent)) is the geodesic from ``point`` along ``tangent``.

    exponential(*point, *tangent) returns the end point at t = 1, acceleration(*point, *velocity) the second derivative
    -Gamma(velocity, velocity) that the metric's geodesic equation demands, both one tensor per factor. At every draw
    y(0) = point, y'(0) = tangent, and y''(t) = acceleration(y(t), y'(t)) at all ``times``, with time derivatives by automatic
    differentiation; residuals are relative to the largest of |y''|, |acceleration| and |y'|^2 / |y|, factor by factor.

    Raises:
        CertificateError: a residual is above ``tolerance`` or not finite; the message is a witness. Also if there is no draw.
    """
    worst, witness, count = -1.0, "", 0
    for count, (point, tangent) in enumerate(draws, start=1):
        for residual, where in _residuals(exponential, acceleration, point, tangent, times):
            residual = residual if math.isfinite(residual) else math.inf
            if residual > worst:
                worst, witness = residual, f"draw {count - 1}, {where}"
    if count == 0:
        raise CertificateError("certify_exponential: no draw to check at")
    if worst > tolerance:
        raise CertificateError(
            f"this exponential map is not the geodesic of the given acceleration: relative residual {worst:.3g} "
            f"(tolerance {tolerance:g}) at {witness}"
        )
    return ExponentialCertificate(worst, witness, count, tuple(times), tolerance)


def _residuals(
    exponential: Callable[..., Factors],
    acceleration: Callable[..., Factors],
    point: Factors,
    tangent: Factors,
    times: Sequence[float],
) -> Iterable[tuple[float, str]]:
    sizes = [part.numel() for part in point]

    def curve(t: Tensor) -> Tensor:
        return torch.cat([part.flatten() for part in exponential(*point, *(t * part for part in tangent))])

    def split(flat: Tensor) -> Factors:
        return tuple(p.view(like.shape) for p, like in zip(flat.detach().split(sizes), point, strict=True))

    velocity = _time_derivative(curve)
    second = _time_derivative(velocity)
    start = torch.zeros((), dtype=point[0].dtype, device=point[0].device, requires_grad=True)
    for name, found, given in (("y(0)", curve(start), point), ("y'(0)", velocity(start), tangent)):
        for i, (a, b) in enumerate(zip(split(found), given, strict=True)):
            yield _relative(a - b, b), f"factor {i}: {name}"
    for time in times:
        t = torch.full_like(start, time, requires_grad=True)
        at, moving, bending = split(curve(t)), split(velocity(t)), split(second(t))
        if not all(bool(part.isfinite().all()) for part in (*at, *moving)):
            yield math.inf, f"y({time:g}) is not finite"
            continue
        for i, (y, v, a, b) in enumerate(zip(at, moving, bending, acceleration(*at, *moving), strict=True)):
            natural = torch.linalg.vector_norm(v) ** 2 / torch.linalg.vector_norm(y)
            yield _relative(a - b, a, b, natural), f"factor {i}: y''({time:g})"


def _relative(difference: Tensor, *scales: Tensor) -> float:
    scale = max(float(torch.linalg.vector_norm(scale)) for scale in scales)
    return float(torch.linalg.vector_norm(difference)) / max(scale, torch.finfo(difference.dtype).tiny)


def _time_derivative(curve: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """d/dt of a vector-valued curve, in reverse mode only and differentiable again.

    The product of the Jacobian with a dummy covector is linear in the covector; its gradient is the derivative. Forward mode is
    avoided: in torch 2.13 nested forward derivatives through linalg.solve are wrong, which would reject right maps.
    """

    def derivative(t: Tensor) -> Tensor:
        value = curve(t)
        if not value.requires_grad:  # constant in t
            return torch.zeros_like(value)
        covector = torch.zeros_like(value, requires_grad=True)
        (pulled,) = torch.autograd.grad(value, t, covector, create_graph=True)
        (result,) = torch.autograd.grad(pulled, covector, create_graph=True)
        return result

    return derivative
