"""The two metrics of the GL(h) pair in components, at any point and in any gauge.

A point of a block is (G, H), G of shape (n, h), H of shape (m, h); in components it is one vector q of length
(n + m) h: G row by row, then H row by row. The metrics, as they are defined:

    invariant: tr((G'G)^-1 a_G' b_G) + tr((H'H)^-1 a_H' b_H)
    mixed:     tr(H'H a_G' b_G) + tr(G'G a_H' b_H)

Nothing but `inner` below and automatic differentiation goes into Christoffel symbols, geodesics and horizontal spaces.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor
from torch.func import grad, hessian, jacfwd

METRICS = ("invariant", "mixed")


class Shape(NamedTuple):
    """Sizes of a block; also splits component vectors."""

    n: int
    m: int
    h: int

    def split(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """(..., (n + m) h) components -> G (..., n, h), H (..., m, h)."""
        G, H = q.split((self.n * self.h, self.m * self.h), dim=-1)
        return G.unflatten(-1, (self.n, self.h)), H.unflatten(-1, (self.m, self.h))

    def horizontal_dimension(self) -> int:
        """n h + m h - h^2."""
        return (self.n + self.m - self.h) * self.h


def join(G: Tensor, H: Tensor) -> Tensor:
    """G, H -> components."""
    return torch.cat((G.flatten(-2), H.flatten(-2)), dim=-1)


def shape_of(G: Tensor, H: Tensor) -> Shape:
    return Shape(G.shape[0], H.shape[0], G.shape[1])


def inner(metric: str, G: Tensor, H: Tensor, a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> Tensor:
    """Inner products of two stacks of tangent vectors at (G, H): a (k, n, h), (k, m, h) and b (l, ...) -> (k, l).

    tr(V V' a' b) is the elementwise product of a V and b V. For the invariant metric V = R^-1 with G = Q R by QR: that
    is (G'G)^-1 = V V' without squaring the condition of a skewed gauge. (inv, not solve: in torch 2.13 nested
    forward-over-reverse derivatives through torch.linalg.solve are wrong.)
    """
    if metric == "invariant":
        V_G, V_H = (torch.linalg.inv(torch.linalg.qr(factor)[1]) for factor in (G, H))
    elif metric == "mixed":
        V_G, V_H = H.T, G.T
    else:
        raise ValueError(f"metric must be one of {METRICS}, not {metric!r}")
    return (a[0] @ V_G).flatten(-2) @ (b[0] @ V_G).flatten(-2).T + (a[1] @ V_H).flatten(-2) @ (b[1] @ V_H).flatten(-2).T


def metric_tensor(metric: str, q: Tensor, shape: Shape, basis: Tensor | None = None) -> Tensor:
    """g_ij(q): `inner` on every pair of basis vectors, the columns of `basis` (default: the components themselves)."""
    vectors = shape.split(torch.eye(len(q), dtype=q.dtype) if basis is None else basis.T)
    return inner(metric, *shape.split(q), vectors, vectors)


def christoffel(metric: str, q: Tensor, shape: Shape, basis: Tensor | None = None) -> Tensor:
    """Christoffel symbols of the first kind at q, in the linear coordinates u of q + basis @ u:

    Gamma_l,ij = 1/2 (d_i g_lj + d_j g_li - d_l g_ij), by automatic differentiation of the metric tensor.
    """
    basis = torch.eye(len(q), dtype=q.dtype) if basis is None else basis
    zero = torch.zeros(len(q), dtype=q.dtype)
    derivative = jacfwd(lambda u: metric_tensor(metric, q + basis @ u, shape, basis))(zero)  # [l, j, i] = d_i g_lj
    return 0.5 * (derivative.permute(0, 2, 1) + derivative - derivative.permute(2, 0, 1))


def christoffel_acceleration(
    metric: str, q: Tensor, velocity: Tensor, shape: Shape, basis: Tensor | None = None
) -> Tensor:
    """-g^kl Gamma_l,ij v^i v^j, in the same coordinates as the velocity; the index is raised last to lose no digits."""
    lowered = torch.einsum("lij,i,j->l", christoffel(metric, q, shape, basis), velocity, velocity)
    return -torch.linalg.inv(metric_tensor(metric, q, shape, basis)) @ lowered


def lagrange_acceleration(metric: str, q: Tensor, velocity: Tensor, shape: Shape) -> Tensor:
    """The second derivative that solves the Euler-Lagrange equation of L = 1/2 g(v, v), all by reverse mode.

    d/dt dL/dv = dL/dq, where dL/dv changes with t through q at fixed v, and through v by the metric tensor.
    """

    def lagrangian(point: Tensor, v: Tensor) -> Tensor:
        vectors = shape.split(v[None])
        return 0.5 * inner(metric, *shape.split(point), vectors, vectors)[0, 0]

    def momentum(point: Tensor) -> Tensor:
        return grad(lagrangian, argnums=1)(point, velocity)

    drift = torch.autograd.functional.jacobian(momentum, q) @ velocity
    force = grad(lagrangian, argnums=0)(q, velocity) - drift
    return torch.linalg.inv(hessian(lambda v: lagrangian(q, v))(velocity)) @ force


def orthonormal_frame(metric: str, q: Tensor, shape: Shape) -> Tensor:
    """Columns: a basis of the whole tangent space at q, orthonormal in the metric (inverse Cholesky factor)."""
    lower = torch.linalg.cholesky(metric_tensor(metric, q, shape))
    return torch.linalg.solve_triangular(lower, torch.eye(len(q), dtype=q.dtype), upper=False).T


@dataclass(frozen=True)
class Geodesic:
    """End point of a geodesic and what was seen on the way."""

    G: Tensor
    H: Tensor
    smallest_singular_ratio: float  # min over steps of s_h(G H') / s_h at the start
    energy_drift: float  # relative change of g(v, v)
    evaluations: int


def geodesic(metric: str, G: Tensor, H: Tensor, xi_G: Tensor, xi_H: Tensor, rtol: float = 1e-13) -> Geodesic:
    """Exp_(G, H)(xi_G, xi_H): DOP853 on the component-wise Christoffel symbols, t from 0 to 1.

    The solver's unknown is u in q = q(0) + frame @ u, with the frame orthonormal at the start. The point itself stays
    where it is, in its own gauge; only the solver's error control gets sane units at gauge condition 100.
    """
    shape, start = shape_of(G, H), join(G, H)
    size = len(start)
    frame = orthonormal_frame(metric, start, shape)

    def right_hand_side(_: float, state: np.ndarray) -> np.ndarray:
        u, velocity = torch.from_numpy(state[:size].copy()), torch.from_numpy(state[size:].copy())
        acceleration = christoffel_acceleration(metric, start + frame @ u, velocity, shape, frame)
        return np.concatenate((state[size:], acceleration.numpy()))

    velocity = torch.linalg.inv(frame) @ join(xi_G, xi_H)
    state = torch.cat((torch.zeros_like(start), velocity)).numpy()
    solution = solve_ivp(right_hand_side, (0.0, 1.0), state, method="DOP853", rtol=rtol, atol=1e-2 * rtol)
    if not solution.success:
        raise RuntimeError(f"DOP853 stopped on the {metric} geodesic: {solution.message}")
    trajectory = torch.from_numpy(solution.y.T.copy())
    points = [start + frame @ state[:size] for state in trajectory]
    smallest = torch.stack([_smallest_singular_value(*shape.split(q)) for q in points])
    energies = []
    for q, state in ((points[0], trajectory[0]), (points[-1], trajectory[-1])):
        vectors = shape.split((frame @ state[size:])[None])
        energies.append(float(inner(metric, *shape.split(q), vectors, vectors)))
    drift = abs(energies[1] - energies[0]) / energies[0] if energies[0] > 0 else 0.0
    return Geodesic(*shape.split(points[-1]), float((smallest / smallest[0]).min()), drift, solution.nfev)


def _smallest_singular_value(G: Tensor, H: Tensor) -> Tensor:
    return torch.linalg.svdvals(G @ H.T)[G.shape[1] - 1]


def vertical_vectors(G: Tensor, H: Tensor) -> Tensor:
    """(h^2, (n + m) h): the vectors (-G L, H L') along the orbit, for L over the basis of h x h matrices."""
    h = G.shape[1]
    basis = torch.eye(h * h, dtype=G.dtype).reshape(h * h, h, h)
    return join(-G @ basis, H @ basis.transpose(1, 2))


def horizontal_constraint(metric: str, G: Tensor, H: Tensor) -> Tensor:
    """(h^2, (n + m) h): its null space is the horizontal space; rows are g(vertical vector, .), of unit length."""
    rows = vertical_vectors(G, H) @ metric_tensor(metric, join(G, H), shape_of(G, H))
    return rows / rows.norm(dim=1, keepdim=True)


def vertical_cosine(metric: str, G: Tensor, H: Tensor, xi: Tensor) -> float:
    """Largest |cosine| in the metric between xi and the vectors of `vertical_vectors`: zero for a horizontal xi."""
    tensor, vertical = metric_tensor(metric, join(G, H), shape_of(G, H)), vertical_vectors(G, H)
    squares = torch.einsum("ki,ij,kj->k", vertical, tensor, vertical) * (xi @ tensor @ xi)
    return float(((vertical @ tensor @ xi) / squares.sqrt().clamp_min(1e-300)).abs().max())


def horizontal_basis(metric: str, G: Tensor, H: Tensor) -> Tensor:
    """((n + m) h, k), k = n h + m h - h^2: columns span the horizontal space and are orthonormal in the metric.

    So xi = basis @ y has metric norm |y|. The null space comes from an SVD, the orthonormalisation from the Cholesky
    factor of the reduced Gram matrix.
    """
    tensor = metric_tensor(metric, join(G, H), shape_of(G, H))
    _, singular, right = torch.linalg.svd(horizontal_constraint(metric, G, H))
    rank = int((singular > 1e-9 * singular[0]).sum())
    null = right[rank:].T
    lower = torch.linalg.cholesky(null.T @ tensor @ null)
    return torch.linalg.solve_triangular(lower, null.T, upper=False).T
