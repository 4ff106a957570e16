"""Geodesics of the invariant metric by other means: scipy's DOP853 on the matrix ODE, and a reference in extended precision.

Neither shares a formula with the package: the ODE is the geodesic equation itself, and the reference is the flow of two n x n
matrices, of which the package only ever forms h x h parts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

Array = NDArray[np.floating]
DIGITS = 1e-19  # of the terms left out by the reference, beside the displacement: below the rounding of 80 bits
SMALLEST_TOLERANCE = 100 * np.finfo(float).eps  # scipy raises a smaller rtol to this


def integrate(Y: Array, xi: Array, tolerance: float) -> Array:
    """End point at t = 1 from Y (n, h) along xi (n, h).

    Y'' = V P^-1 (V'Y + Y'V) - Y P^-1 V'V with V = Y' the velocity and P = Y'Y the Gram matrix.
    """
    shape = Y.shape

    def velocity_and_acceleration(_: float, state: Array) -> Array:
        point, V = state.reshape(2, *shape)
        cross = V.T @ point
        both = np.linalg.solve(point.T @ point, np.concatenate([cross + cross.T, V.T @ V], axis=1))
        h = shape[1]
        return np.concatenate([V, V @ both[:, :h] - point @ both[:, h:]]).reshape(-1)

    start = np.concatenate([Y, xi]).reshape(-1)
    found = solve_ivp(velocity_and_acceleration, (0.0, 1.0), start, method="DOP853", rtol=tolerance, atol=tolerance)
    assert found.success, found.message
    return found.y[:, -1].reshape(2, *shape)[0]


def reference(F: Array, X: Array) -> Array:
    """exp(A - A') exp(A') F for A = X F', F (n, h) with orthonormal columns; in extended precision, (n, h).

    The metric is the submersion metric of a right-invariant metric on GL(n), whose geodesics these are. The exponentials act
    on n x h matrices by their Taylor series; A is never formed.
    """
    F, X = F.astype(np.longdouble), X.astype(np.longdouble)
    turned = _exponential(lambda Z: F @ (X.T @ Z), F)
    return _exponential(lambda Z: X @ (F.T @ Z) - F @ (X.T @ Z), turned)


def _exponential(generator, Z: Array) -> Array:  # type: ignore[no-untyped-def]
    total, term, order = Z, Z, 0
    while np.linalg.norm(term.astype(float)) > DIGITS * np.linalg.norm(Z.astype(float)):
        order += 1
        term = generator(term) / order
        total = total + term
    return total


def error(Y: Array, exact: Array, start: Array) -> float:
    """|Y - exact| / |exact - start|, Frobenius: relative to the displacement."""
    exact = exact.astype(np.longdouble)
    return float(np.sqrt(((Y - exact) ** 2).sum() / ((exact - start) ** 2).sum()))
