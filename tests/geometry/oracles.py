"""Independent references for the geometry of a pair (G, H). Nothing here imports the package or changes gauge.

* `geodesic_dop853`: the geodesic in all (n + m) h coordinates of the original point, DOP853 at rtol 1e-13 on component-wise
  Christoffel symbols, from automatic differentiation of the metric's component matrix by dual numbers. The right-hand side is
  evaluated with 40 digits: component-wise symbols lose the fourth power of a factor's condition.
* `geodesic_mpmath`: the same geodesic with 50 digits, by Taylor series of Hamilton's equations.
* `dense_projector`, `project_mpmath`: the orthogonal projection along the orbit by linear algebra on the vertical space.

A point is one vector w: the entries of G row by row, then those of H.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from torch import Tensor

Array = NDArray[np.float64]
Exact = NDArray[np.object_]  # entries are mpmath numbers


@dataclass(frozen=True)
class Sizes:
    n: int
    m: int
    h: int

    @property
    def total(self) -> int:
        return (self.n + self.m) * self.h

    def split(self, w: Tensor) -> tuple[Tensor, Tensor]:
        cut = self.n * self.h
        return w[..., :cut].reshape(*w.shape[:-1], self.n, self.h), w[..., cut:].reshape(*w.shape[:-1], self.m, self.h)


def sizes_of(G: Tensor, H: Tensor) -> Sizes:
    return Sizes(G.shape[-2], H.shape[-2], G.shape[-1])


def join(G: Tensor, H: Tensor) -> Tensor:
    return torch.cat([G.flatten(-2), H.flatten(-2)], -1)


class Dual:
    """A matrix and its derivatives along every coordinate of w (first axis), carried exactly: forward-mode differentiation."""

    def __init__(self, value: Exact, derivative: Exact) -> None:
        self.value, self.derivative = value, derivative

    def __matmul__(self, other: Dual) -> Dual:
        return Dual(self.value @ other.value, self.derivative @ other.value + self.value @ other.derivative)

    @property
    def T(self) -> Dual:
        return Dual(self.value.T, self.derivative.transpose(0, 2, 1))

    def inv(self) -> Dual:
        inverted = inverse(self.value)
        return Dual(inverted, -(inverted @ self.derivative @ inverted))


def metric_blocks(metric: str, w: Exact, sizes: Sizes) -> tuple[Dual, Dual]:
    """K_G, K_H of the metric tr(K_G a_G'b_G) + tr(K_H a_H'b_H): (G'G)^-1 and (H'H)^-1, or H'H and G'G."""
    cut, seeds = sizes.n * sizes.h, np.eye(sizes.total, dtype=int).astype(object)
    G = Dual(w[:cut].reshape(sizes.n, sizes.h), seeds[:, :cut].reshape(-1, sizes.n, sizes.h))
    H = Dual(w[cut:].reshape(sizes.m, sizes.h), seeds[:, cut:].reshape(-1, sizes.m, sizes.h))
    P, Q = G.T @ G, H.T @ H
    return (P.inv(), Q.inv()) if metric == "invariant" else (Q, P)


def metric_components(metric: str, w: Exact, sizes: Sizes) -> Dual:
    """g_ij(w) and d g_ij / d w_k (axis k first): every row of a factor has the same h x h block."""
    K_G, K_H = metric_blocks(metric, w, sizes)
    value = np.zeros((sizes.total, sizes.total), dtype=object)
    derivative = np.zeros((sizes.total, sizes.total, sizes.total), dtype=object)
    for row in range(sizes.n + sizes.m):
        here = slice(row * sizes.h, (row + 1) * sizes.h)
        K = K_G if row < sizes.n else K_H
        value[here, here], derivative[:, here, here] = K.value, K.derivative
    return Dual(value, derivative)


def inner(metric: str, G: Tensor, H: Tensor, a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> float:
    """The metric by its components, at one point."""
    g = metric_components(metric, exact(join(G, H)), sizes_of(G, H)).value
    return float(exact(join(*a)) @ g @ exact(join(*b)))


def christoffel_acceleration(metric: str, w: Exact, v: Exact, sizes: Sizes) -> Exact:
    """-Gamma^k_ij v^i v^j with Gamma^k_ij = 1/2 g^kl (d_i g_lj + d_j g_li - d_l g_ij)."""
    g = metric_components(metric, w, sizes)
    along = np.tensordot(v, g.derivative, axes=1)  # v^i d_i g_lj
    lower = along @ v - (g.derivative @ v @ v) / 2
    return -np.array(mp.lu_solve(mp.matrix(g.value.tolist()), mp.matrix(lower.tolist())).T.tolist()[0], dtype=object)


def geodesic_dop853(metric: str, G: Tensor, H: Tensor, xi_G: Tensor, xi_H: Tensor) -> tuple[Tensor, Tensor]:
    """End point at t = 1, one point at a time."""
    sizes = sizes_of(G, H)

    def rate(_: float, y: Array) -> Array:
        w, v = np.split(exact(torch.from_numpy(y)), 2)
        return np.concatenate([v, christoffel_acceleration(metric, w, v, sizes)]).astype(np.float64)

    start = torch.cat([join(G, H), join(xi_G, xi_H)]).numpy()
    with mp.workdps(40):
        found = solve_ivp(rate, (0.0, 1.0), start, method="DOP853", rtol=1e-13, atol=1e-14)
    assert found.success, f"DOP853 failed: {found.message}"
    return sizes.split(torch.from_numpy(found.y[: sizes.total, -1].copy()))


_to_mpmath = np.frompyfunc(lambda entry: mp.mpf(float(entry)), 1, 1)


def exact(x: Tensor) -> Exact:
    """A float64 tensor as an array of mpmath numbers, without rounding."""
    return _to_mpmath(x.numpy())


def inverse(x: Exact) -> Exact:
    return np.array((mp.matrix(x.tolist()) ** -1).tolist(), dtype=object)


def whitened_error(Y: Exact, reference: Exact, base: Exact) -> float:
    """|(Y - reference) R^-1|_F for the QR factor R of ``base``: the size of an error that no gauge can change."""
    difference = Y - reference
    return float(mp.sqrt(np.trace(inverse(base.T @ base) @ (difference.T @ difference))))


class Series:
    """A matrix power series in t, coefficient by coefficient."""

    def __init__(self, first: Exact) -> None:
        self.terms = [first]

    def at(self, t: mp.mpf) -> Exact:
        value = self.terms[-1]
        for term in reversed(self.terms[:-1]):
            value = value * t + term
        return value


def _product(left: Series, right: Series, order: int, transposed: bool = False) -> Exact:
    """Coefficient of the given order of left right, or of left' right."""
    pairs = ((left.terms[i], right.terms[order - i]) for i in range(order + 1))
    return sum((a.T @ b if transposed else a @ b) for a, b in pairs)


def _invariant_step(Y: Exact, V: Exact, order: int) -> tuple[Series, Series]:
    """One factor: H = 1/2 tr(Pi P Pi'), so dY/dt = Pi P and dPi/dt = -Y Pi'Pi; polynomial, no inverse after the start."""
    point, momentum = Series(Y), Series(V @ inverse(Y.T @ Y))
    velocity, gram, square = Series(V), Series(Y.T @ Y), Series(momentum.terms[0].T @ momentum.terms[0])
    for k in range(order):
        if k > 0:
            gram.terms.append(_product(point, point, k, transposed=True))
            square.terms.append(_product(momentum, momentum, k, transposed=True))
            velocity.terms.append(_product(momentum, gram, k))
        bend = -_product(point, square, k)
        point.terms.append(velocity.terms[k] / (k + 1))
        momentum.terms.append(bend / (k + 1))
    return point, velocity


def _mixed_step(Y: list[Exact], V: list[Exact], order: int) -> tuple[list[Series], list[Series]]:
    """Both factors: H = 1/2 tr(Pi_G Q^-1 Pi_G') + 1/2 tr(Pi_H P^-1 Pi_H'); dG/dt = Pi_G Q^-1, dPi_G/dt = G (dH/dt)'(dH/dt).

    The inverse is an unknown series: P J = I gives J_k = -J_0 sum_(i>=1) P_i J_(k-i).
    """
    point, velocity = [Series(y) for y in Y], [Series(v) for v in V]
    gram = [Series(y.T @ y) for y in Y]
    inverted = [Series(inverse(p.terms[0])) for p in gram]
    momentum = [Series(V[side] @ gram[1 - side].terms[0]) for side in (0, 1)]
    for k in range(order):
        for side in (0, 1) if k > 0 else ():
            p, j = gram[side], inverted[side]
            p.terms.append(_product(point[side], point[side], k, transposed=True))
            j.terms.append(-j.terms[0] @ sum(p.terms[i] @ j.terms[k - i] for i in range(1, k + 1)))
        for side in (0, 1) if k > 0 else ():
            velocity[side].terms.append(_product(momentum[side], inverted[1 - side], k))
        square = [_square(velocity[side], k) for side in (0, 1)]
        for side in (0, 1):
            bend = sum(point[side].terms[i] @ square[1 - side][k - i] for i in range(k + 1))
            point[side].terms.append(velocity[side].terms[k] / (k + 1))
            momentum[side].terms.append(bend / (k + 1))
    return point, velocity


def _square(series: Series, order: int) -> list[Exact]:
    if not hasattr(series, "square"):
        series.square = []
    while len(series.square) <= order:
        series.square.append(_product(series, series, len(series.square), transposed=True))
    return series.square


def geodesic_mpmath(
    metric: str, G: Exact, H: Exact, xi_G: Exact, xi_H: Exact, *, steps: int = 2, order: int = 32
) -> tuple[Exact, Exact]:
    """End point at t = 1 with 50 digits (60 in the working), by ``steps`` Taylor steps of the given order.

    Fails unless the last term of every step is below 1e-25 of the point: far below what float64 can see.
    """
    with mp.workdps(60):
        Y, V = [G, H], [xi_G, xi_H]
        t = mp.mpf(1) / steps
        for _ in range(steps):
            if metric == "invariant":
                series = [_invariant_step(y, v, order) for y, v in zip(Y, V, strict=True)]
                points, velocities = [s[0] for s in series], [s[1] for s in series]
            else:
                points, velocities = _mixed_step(Y, V, order)
            for y, point in zip(Y, points, strict=True):
                tail = whitened_error(point.terms[-1] * t**order, 0 * y, y)
                assert tail < 1e-25, f"Taylor step of order {order} leaves {tail}"
            Y, V = [p.at(t) for p in points], [v.at(t) for v in velocities]
        return Y[0], Y[1]


def vertical_basis(G: Exact, H: Exact) -> Exact:
    """Columns: the tangents (-G E, H E') for the h^2 matrix units E, as component vectors (w first axis)."""
    h = G.shape[1]
    columns = []
    for i in range(h):
        for j in range(h):
            unit = np.zeros((h, h), dtype=object)
            unit[i, j] = 1
            columns.append(np.concatenate([-(G @ unit).ravel(), (H @ unit.T).ravel()]))
    return np.stack(columns, axis=1)


def project_mpmath(metric: str, G: Tensor, H: Tensor, xi_G: Tensor, xi_H: Tensor) -> tuple[Exact, Exact]:
    """Horizontal part: xi minus its least-squares fit by vertical tangents, with 60 digits."""
    sizes = sizes_of(G, H)
    with mp.workdps(60):
        vertical = vertical_basis(exact(G), exact(H))
        g = metric_components(metric, exact(join(G, H)), sizes).value
        xi = exact(join(xi_G, xi_H))
        weighed = vertical.T @ g
        fit = mp.lu_solve(mp.matrix((weighed @ vertical).tolist()), mp.matrix((weighed @ xi).tolist()))
        rest = xi - vertical @ np.array(fit.T.tolist()[0], dtype=object)
        cut = sizes.n * sizes.h
        return rest[:cut].reshape(sizes.n, sizes.h), rest[cut:].reshape(sizes.m, sizes.h)
