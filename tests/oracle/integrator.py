"""A differentiable geodesic integrator of our own, batched over blocks, in original coordinates.

Not an exponential in closed form, not reduced, not stepped: Gauss collocation over the whole interval, solved by Picard
sweeps from the straight line. Tested against DOP853 on Christoffel symbols (geometry.py).
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

NODES = 4
SWEEPS = 6


@cache
def collocation(nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gauss-Legendre nodes c on [0, 1], S[i, j] = integral of the j-th Lagrange polynomial to c_i, and to 1."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    points, weights = (points + 1) / 2, weights / 2
    vandermonde = np.polynomial.legendre.legvander(2 * points - 1, nodes - 1)
    integrals = np.empty((nodes, nodes))
    for degree in range(nodes):
        antiderivative = np.polynomial.legendre.legint([0.0] * degree + [1.0], lbnd=-1)
        integrals[:, degree] = np.polynomial.legendre.legval(2 * points - 1, antiderivative) / 2
    matrix = integrals @ np.linalg.inv(vandermonde)
    return torch.from_numpy(points), torch.from_numpy(matrix), torch.from_numpy(weights)


def acceleration(metric: str, Y: Tensor, V: Tensor) -> Tensor:
    """Second derivative along a geodesic, worked out by hand from the Euler-Lagrange equation (tested against it).

    Y and V: (..., 2, blocks, rows, h), index 0 of the third-last-but-one axis G, index 1 H; rows may be padded by zeros.
    """
    if metric == "invariant":  # L = 1/2 tr((Y'Y)^-1 V'V) per factor
        inverse = torch.linalg.inv(Y.mT @ Y)
        cross = V.mT @ Y
        return V @ (inverse @ (cross + cross.mT)) - Y @ (inverse @ (V.mT @ V))
    partner_Y, partner_V = Y.flip(-4), V.flip(-4)  # L = 1/2 tr(Q V_G'V_G) + 1/2 tr(P V_H'V_H)
    cross = partner_V.mT @ partner_Y
    inverse = torch.linalg.inv(partner_Y.mT @ partner_Y)
    return (Y @ (partner_V.mT @ partner_V) - V @ (cross + cross.mT)) @ inverse


def collocate(metric: str, Y: Tensor, V: Tensor, nodes: int = NODES, sweeps: int = SWEEPS) -> Tensor:
    """End point at t = 1: Gauss collocation of order 2 * nodes over the whole interval, solved by Picard sweeps.

    All nodes are one batch; `sweeps` Picard iterations leave an error of about (|xi| / s)^sweeps / sweeps!.
    """
    points, matrix, weights = collocation(nodes)
    time = points.reshape(-1, *[1] * Y.dim())
    path, speed = Y + time * V, V.expand(nodes, *V.shape)
    for _ in range(sweeps):
        bend = acceleration(metric, path, speed)
        gain = torch.tensordot(matrix, bend, dims=1)
        speed, path = V + gain, Y + time * V + torch.tensordot(matrix, gain, dims=1)
    final = acceleration(metric, path, speed)
    return Y + V + torch.tensordot(weights * (1 - points), final, dims=1)
