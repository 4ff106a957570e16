"""The declared metrics of ``declarations`` once more, in torch and by hand, and what follows from them by differentiation."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

Factors = tuple[Tensor, ...]
EPS = 0.3
SIZES = {
    "turned": {"n": 4, "h": 3},
    "folded": {"h": 3, "m": 4},
    "scaled": {"n": 3, "k": 4},
    "pair": {"n": 5, "m": 4, "h": 2},
    "weighted": {"n": 4, "h": 3},
    "family": {"n": 5, "m": 4, "h": 2},
}


def pairing(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((-2, -1))


def _turned(p: Factors, a: Factors, b: Factors) -> Tensor:
    (G,), (x,), (y,) = p, a, b
    return 2 * pairing(x, y) + pairing(x @ G.mT, y @ G.mT) + pairing(G.mT @ x, G.mT @ y)


def _weighted(p: Factors, a: Factors, b: Factors) -> Tensor:
    (G,), (x,), (y,) = p, a, b
    return EPS * pairing(x, y) + pairing(x @ G.mT, y @ G.mT) + pairing(G.mT @ x, G.mT @ y)


def _folded(p: Factors, a: Factors, b: Factors) -> Tensor:
    bias, _, W = p
    moved, other = (x[1] + W @ x[0] + x[2] @ bias for x in (a, b))
    rest = pairing(a[0], b[0]) + pairing(W @ a[0], W @ b[0]) + pairing(a[2], b[2])
    rest = rest + pairing(a[2] @ W.mT, b[2] @ W.mT) + pairing(W.mT @ a[2], W.mT @ b[2])
    return pairing(moved, other) + rest


def _scaled(p: Factors, a: Factors, b: Factors) -> Tensor:
    (w,), (x,), (y,) = p, a, b
    square = pairing(w, w)
    return pairing(x, y) / square + pairing(x, w) * pairing(y, w) / square**2


def _pair(p: Factors, a: Factors, b: Factors) -> Tensor:
    G, H = p
    P, Q = G.mT @ G, H.mT @ H
    first = pairing(a[0] @ torch.linalg.inv(P), b[0]) + pairing(Q @ G.mT @ a[0], G.mT @ b[0] @ Q)
    return first + pairing(a[1] @ torch.linalg.inv(Q), b[1])


def _family(p: Factors, a: Factors, b: Factors) -> Tensor:
    G, H = p
    P, Q = G.mT @ G, H.mT @ H
    first = pairing(a[0] @ (Q + EPS * torch.linalg.inv(P)), b[0])
    return first + pairing(a[1] @ (P + EPS * torch.linalg.inv(Q)), b[1])


INNER: dict[str, Callable[[Factors, Factors, Factors], Tensor]] = {
    "turned": _turned,
    "folded": _folded,
    "scaled": _scaled,
    "pair": _pair,
    "weighted": _weighted,
    "family": _family,
}


def along(function: Callable[..., Any], at: Factors, direction: Factors) -> Any:
    """The directional derivative, by automatic differentiation."""
    return torch.autograd.functional.jvp(function, at, direction, create_graph=True)[1]


def euler_lagrange(name: str, p: Factors, xi: Factors, acc: Factors) -> list[Tensor]:
    """d/dt dL/dxi - dL/dp of L = 1/2 <xi, xi>, where the velocity moves with ``acc``."""
    count = len(p)

    def impulse(*state: Tensor) -> Factors:
        with torch.enable_grad():
            velocity = tuple(x if x.requires_grad else x.clone().requires_grad_() for x in state[count:])
            energy = INNER[name](state[:count], velocity, velocity).sum() / 2
            return torch.autograd.grad(energy, velocity, create_graph=True)

    point = tuple(x.clone().requires_grad_() for x in p)
    energy = INNER[name](point, xi, xi).sum() / 2
    force = torch.autograd.grad(energy, point, allow_unused=True, materialize_grads=True)
    rate = along(impulse, (*p, *xi), (*xi, *acc))
    return [a - b for a, b in zip(rate, force, strict=True)]


def close_to(found: Factors, wanted: Factors, tolerance: float = 1e-10) -> bool:
    """Up to rounding of a chain of solves and of two derivatives, relative to the largest entry."""
    scale = max(1.0, *(float(x.detach().abs().max()) for x in wanted))
    pairs = zip(found, wanted, strict=True)
    return all(float((a - b).detach().abs().max()) <= tolerance * scale for a, b in pairs)


def drawn(module: ModuleType, name: str, *batches: tuple[int, ...], seed: int = 3) -> list[Factors]:
    """A point, and then tangents or gradients, of moderate condition, one batch shape for each."""
    generator, sizes = torch.Generator().manual_seed(seed), SIZES[name]
    shapes = [tuple(sizes.get(str(size), size) for size in shape) for shape in module.FACTORS.values()]
    out = []
    for i, batch in enumerate(batches):
        values = [torch.randn(*batch, *shape, generator=generator, dtype=torch.float64) for shape in shapes]
        if i == 0:
            values = [torch.linalg.qr(x)[0] + 0.2 * x if x.shape[-2] > x.shape[-1] else x for x in values]
        out.append(tuple(values))
    return out


def numbers(module: ModuleType) -> Factors:
    """Values of the metric's parameters, as generated functions take them."""
    return tuple(torch.full((1, 1), EPS, dtype=torch.float64) for _ in getattr(module, "PARAMETERS", ()))


def elements(groups: tuple[Any, ...], name: str) -> list[Tensor]:
    """One element of each group."""
    generator = torch.Generator().manual_seed(5)
    return [group.random_element(generator, condition=2.0, sizes=SIZES[name]) for group in groups]


def geodesic(module: ModuleType, p: Factors, xi: Factors, steps: int = 64) -> Factors:
    """The end point at t = 1, by RK4 of the generated acceleration."""
    count, extra = len(p), numbers(module)

    def rate(state: Factors) -> Factors:
        return (*state[count:], *module.acceleration(*state, *extra))

    def moved(state: Factors, change: Factors, by: float) -> Factors:
        return tuple(a + by * b for a, b in zip(state, change, strict=True))

    state, h = (*p, *xi), 1.0 / steps
    for _ in range(steps):
        k1 = rate(state)
        k2 = rate(moved(state, k1, h / 2))
        k3 = rate(moved(state, k2, h / 2))
        k4 = rate(moved(state, k3, h))
        total = tuple(a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
        state = moved(state, total, h / 6)
    return state[:count]
