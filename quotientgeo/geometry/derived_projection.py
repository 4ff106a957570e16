"""Lie algebra elements of a given momentum, for generated modules that do not solve for them: by conjugate gradients.

With V(X) the vertical tangent of the Lie algebra element X and J the momentum, <xi, V(X)> = tr(J(xi)' X), so that J V is
self-adjoint and positive semidefinite, and xi - V(X) with J V(X) = J(xi) is horizontal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from quotientgeo.errors import AbsentOperationError, NonFiniteError

Elements = tuple[Tensor, ...]  # one (..., rows, columns) per group
Operator = Callable[[Elements], Elements]
PASSES = 3  # value, first and second derivative in the point
_SLACK = 4  # rounding may cost more steps than there are unknowns


def algebra_element(operator: Operator, constant: Operator, momentum: Elements) -> Elements:
    """The X with J V(X) = momentum, with exact first and second derivatives in the point.

    Args:
        operator: J V at the point.
        constant: the same at the point as a constant.

    The inverse enters as a constant. The first pass gives the value; each further one changes nothing in value, but makes the
    result exact to one more order in the point.

    Raises:
        NonFiniteError: conjugate gradients do not converge.
    """
    X: Elements = _Solve.apply(constant, True, *momentum)
    for _ in range(PASSES - 1):
        image = operator(X)
        rest = tuple(m - i for m, i in zip(momentum, image, strict=True))
        if not any(part.requires_grad for part in rest):
            break
        X = tuple(x + d for x, d in zip(X, _Solve.apply(constant, False, *rest), strict=True))
    return X


class _Solve(torch.autograd.Function):
    """S^-1 b for a constant self-adjoint S; 0 where the value is known to be rounding, with the derivative all the same."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, has_value: bool, *b: Tensor) -> Elements:
        ctx.operator = operator
        if not has_value:
            return tuple(torch.zeros_like(part) for part in b)
        return conjugate_gradients(operator, tuple(part.detach() for part in b))

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Any, ...]:
        try:
            solved = _Solve.apply(ctx.operator, True, *gradient)
        except NonFiniteError as error:
            raise AbsentOperationError(
                "derivatives of a projection by conjugate gradients need a group whose Lie algebra holds all matrices: "
                "generate the module again, with a function `horizontal`"
            ) from error
        return (None, None, *solved)


@torch.no_grad()
def conjugate_gradients(operator: Operator, b: Elements) -> Elements:
    """x with operator(x) = b for a self-adjoint positive semidefinite operator with b in its range; batched.

    Stops where every residual is at rounding; what has converged stays as it is.

    Raises:
        NonFiniteError: a residual is above the square root of rounding after as many steps as rounding can cost.
    """
    eps = torch.finfo(b[0].dtype).eps
    x, r = tuple(torch.zeros_like(part) for part in b), b
    p, rr = r, _dot(r, r)
    start, best = rr, x
    lowest = rr
    for _ in range(_SLACK * sum(part.shape[-2] * part.shape[-1] for part in b) + _SLACK):
        active = lowest > (eps / 4) ** 2 * start
        if not active.any():
            break
        Sp = operator(p)
        step = _quotient(rr, _dot(p, Sp))
        x, r = _plus(x, step, p), _plus(r, -step, Sp)
        fresh = _dot(r, r)
        better = fresh < lowest
        best = tuple(torch.where(better[..., None, None], new, old) for new, old in zip(x, best, strict=True))
        lowest = torch.where(better, fresh, lowest)
        p, rr = _plus(r, _quotient(fresh, rr), p), fresh
    failed = ~(lowest <= eps * start)
    if failed.any():
        raise NonFiniteError(
            "the horizontal projection by conjugate gradients did not converge: the point is singular or not finite, or the "
            "action is degenerate there"
        )
    return best


def _dot(a: Elements, b: Elements) -> Tensor:
    return sum(((s * t).sum((-2, -1)) for s, t in zip(a, b, strict=True)), torch.zeros(()).to(a[0]))


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    zero = b == 0
    return torch.where(zero, 0.0, a / torch.where(zero, 1.0, b))


def _plus(a: Elements, factor: Tensor, b: Elements) -> Elements:
    return tuple(s + factor[..., None, None] * t for s, t in zip(a, b, strict=True))
