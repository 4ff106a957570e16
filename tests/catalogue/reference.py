"""The pair's two metrics of the paper and one more, typed in plain torch; shares no code with the package.

Source: da Silva, Dangel, Oore, "Hide & Seek" (ICML 2025), equations (9)-(12), and for QPQ the formula itself.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import grad, jvp

Pair = tuple[Tensor, Tensor]


def trace(x: Tensor) -> Tensor:
    return x.diagonal(dim1=-2, dim2=-1).sum(-1)


def _grams(G: Tensor, H: Tensor) -> Pair:
    return torch.einsum("...ij,...ik->...jk", G, G), torch.einsum("...ij,...ik->...jk", H, H)


def _weighted(left: Tensor, right: Tensor, a: Pair, b: Pair) -> Tensor:
    return trace(left @ a[0].mT @ b[0]) + trace(right @ a[1].mT @ b[1])


def inner_invariant(x: Pair, a: Pair, b: Pair) -> Tensor:
    P, Q = _grams(*x)
    return _weighted(torch.linalg.inv(P), torch.linalg.inv(Q), a, b)


def inner_mixed(x: Pair, a: Pair, b: Pair) -> Tensor:
    P, Q = _grams(*x)
    return _weighted(Q, P, a, b)


def inner_qpq(x: Pair, a: Pair, b: Pair) -> Tensor:
    P, Q = _grams(*x)
    return _weighted(Q @ P @ Q, P @ Q @ P, a, b)


def gradient_invariant(x: Pair, d: Pair) -> Pair:
    P, Q = _grams(*x)
    return d[0] @ P, d[1] @ Q


def gradient_mixed(x: Pair, d: Pair) -> Pair:
    P, Q = _grams(*x)
    return d[0] @ torch.linalg.inv(Q), d[1] @ torch.linalg.inv(P)


def acceleration_invariant(x: Pair, v: Pair) -> Pair:
    """Minus the G part and the H part of (11)."""

    def one(G: Tensor, xi: Tensor) -> Tensor:
        S = torch.linalg.inv(G.mT @ G)
        return xi @ S @ (xi.mT @ G + G.mT @ xi) - G @ S @ xi.mT @ xi

    return one(x[0], v[0]), one(x[1], v[1])


def acceleration_mixed(x: Pair, v: Pair) -> Pair:
    """Minus (12)."""

    def one(G: Tensor, xi: Tensor, H: Tensor, other: Tensor) -> Tensor:
        S = torch.linalg.inv(H.mT @ H)
        return G @ other.mT @ other @ S - xi @ (other.mT @ H + H.mT @ other) @ S

    return one(x[0], v[0], x[1], v[1]), one(x[1], v[1], x[0], v[0])


def momentum_invariant(x: Pair, v: Pair) -> Tensor:
    """Zero exactly when x_G' G H'H = G'G H' x_H, after multiplying by the inverses."""
    P, Q = _grams(*x)
    return torch.linalg.inv(Q) @ v[1].mT @ x[1] - x[0].mT @ v[0] @ torch.linalg.inv(P)


def momentum_mixed(x: Pair, v: Pair) -> Tensor:
    """Zero exactly when G' x_G H'H = G'G x_H' H."""
    P, Q = _grams(*x)
    return P @ v[1].mT @ x[1] - x[0].mT @ v[0] @ Q


def christoffel(acceleration: Callable[[Pair, Pair], Pair], x: Pair, v: Pair, w: Pair) -> Pair:
    """Minus half the derivative of the acceleration in its velocity at v along w: the acceleration is quadratic."""
    out = jvp(lambda u: acceleration(x, u), (v,), (w,))[1]
    return -out[0] / 2, -out[1] / 2


def horizontal(inner: Callable[[Pair, Pair, Pair], Tensor], x: Pair, v: Pair) -> Pair:
    """v minus its least-squares projection on the vertical vectors (-G X, H X'), in the metric; unbatched."""
    h = x[0].shape[-1]
    units = torch.eye(h * h, dtype=x[0].dtype).reshape(-1, h, h)
    vertical = [(-(x[0] @ X), x[1] @ X.mT) for X in units]
    gram = torch.stack([torch.stack([inner(x, a, b) for b in vertical]) for a in vertical])
    weights = torch.linalg.solve(gram, torch.stack([inner(x, a, v) for a in vertical]))
    parts = [v[i] - sum(c * a[i] for c, a in zip(weights, vertical, strict=True)) for i in (0, 1)]
    return parts[0], parts[1]


def euler_lagrange_residual(inner: Callable[[Pair, Pair, Pair], Tensor], x: Pair, v: Pair, a: Pair) -> float:
    """max |d/dt dL/dv - dL/dx| / max |dL/dx|, for unbatched arguments, by automatic differentiation of the metric only."""

    def lagrangian(point: Pair, velocity: Pair) -> Tensor:
        return inner(point, velocity, velocity) / 2

    force = grad(lagrangian, 0)(x, v)
    _, rate = jvp(grad(lagrangian, 1), (x, v), (v, a))
    difference = max(float((r - f).abs().max()) for r, f in zip(rate, force, strict=True))
    return difference / max(float(f.abs().max()) for f in force)


def taylor_end(acceleration: Callable[[Pair, Pair], Pair], x: Pair, v: Pair, order: int) -> Pair:
    """End point at t = 1 of the Taylor polynomial, higher derivatives by nested forward differentiation along the flow."""
    terms: list[Callable[[Pair, Pair], Pair]] = [lambda p, w: p, lambda p, w: w, acceleration]
    while len(terms) <= order:
        last = terms[-1]
        terms.append(lambda p, w, last=last: jvp(last, (p, w), (w, acceleration(p, w)))[1])  # type: ignore[misc]
    out, factor = [torch.zeros_like(part) for part in x], 1.0
    for k, term in enumerate(terms[: order + 1]):
        factor = factor * max(k, 1)
        out = [total + part / factor for total, part in zip(out, term(x, v), strict=True)]
    return out[0], out[1]
