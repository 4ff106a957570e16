"""Statements on the sharpness of diagonal networks, each compared with what was derived (the paper's 5.1 and E)."""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp

from quotientgeo.symbolic.examples.claims import Claim, prove, refute
from quotientgeo.symbolic.examples.diagonal_network import (
    BETA,
    ERROR,
    GRADIENT,
    GRAM,
    DiagonalMeasure,
    SecondOrder,
    U,
    V,
)
from quotientgeo.symbolic.examples.rescaling import RHO, RescalingPair

D = sp.diag(*BETA)
R = sp.Matrix([beta * g for beta, g in zip(BETA, GRADIENT, strict=True)])  # r = beta_0 * g
TARGET = [beta - e for beta, e in zip(BETA, ERROR, strict=True)]  # beta_*, where X'X = I


def diagonal_claims() -> tuple[Claim, ...]:
    """All of them, in the order of the page."""
    return (_symmetry(), *_invariant(), *_adaptive(), *_agreement(), *_mixed(), *_refuted())


def form_residuals(found: SecondOrder, linear: sp.Matrix, quadratic: sp.Matrix) -> list[sp.Expr]:
    """Entries of found - stated, for a rise linear'z + z' quadratic z."""
    return [*(found.linear - linear), *(found.quadratic - quadratic)]


def _symmetry() -> Claim:
    names = ("invariant", "invariant step", "mixed", "mixed step", "adaptive")
    return prove(
        "orbits",
        "The rise is the same at every point of an orbit, for both geodesics, both second-order steps and the adaptive measure.",
        *(DiagonalMeasure(name).change_along_the_orbit for name in names),
    )


def _invariant() -> Iterable[Claim]:
    exact, step = DiagonalMeasure("invariant"), DiagonalMeasure("invariant step")
    found = exact.second_order.on_beta()
    b = exact.coordinates
    delta = sp.Matrix([beta * (sp.exp(2 * z) - 1) for beta, z in zip(BETA, b, strict=True)])
    yield prove(
        "invariant, exactly",
        r"$\beta$ moves to $\beta_0 * e^{2b}$ and $|\xi|^2 = 2 |b|^2$: the sharpness is the maximum of "
        r"$2 g^\top \delta + \delta^\top M \delta$, $\delta = \beta_0 * (e^{2b} - 1)$, over $|b| \le \rho / \sqrt 2$.",
        _on_beta(exact.rise) - (2 * sp.Matrix(GRADIENT).T * delta + delta.T * GRAM * delta)[0],
        exact.squared_norm - 2 * sum(z**2 for z in b),
    )
    yield prove(
        "invariant, to second order",
        r"$\max_{|b| \le \rho / \sqrt 2} \; 4 b^\top r + 4 b^\top (\mathrm{diag}(r) + D M D) \, b$, up to $O(\rho^3)$. "
        r"The second-order step has the same expansion.",
        *form_residuals(found, 4 * R, 4 * (sp.diag(*R) + D * GRAM * D)),
        *form_residuals(step.second_order.on_beta(), found.linear, found.quadratic),
    )
    curvature = sp.diag(*(beta * (2 * beta - target) for beta, target in zip(BETA, TARGET, strict=True)))
    yield prove(
        r"invariant, orthonormal inputs",
        r"Where $X^\top X = I$: "
        r"$\max_{|b| \le \rho / \sqrt 2} \; 4 b^\top r + 4 b^\top \mathrm{diag}(\beta_0 * (2 \beta_0 - \beta_*)) \, b$.",
        *form_residuals(found.orthonormal(), 4 * _times(BETA, ERROR), 4 * curvature),
    )


def _adaptive() -> Iterable[Claim]:
    measure = DiagonalMeasure("adaptive")
    found, p_and_q = measure.second_order.on_beta(), measure.coordinates
    none = sp.zeros(2, 1)
    yield prove(
        "adaptive, to second order",
        r"With $u (1 + p + q)$, $v (1 + p - q)$ and $|\xi|^2 = 2 |p|^2 + 2 |q|^2$: the maximum over "
        r"$|(p, q)| \le \rho / \sqrt 2$ of "
        r"$4 p^\top r + p^\top (2 \, \mathrm{diag}(r) + 4 D M D) \, p - 2 q^\top \mathrm{diag}(r) \, q$, "
        r"up to $O(\rho^3)$.",
        *form_residuals(
            found, sp.Matrix([*(4 * R), *none]), sp.diag(2 * sp.diag(*R) + 4 * D * GRAM * D, -2 * sp.diag(*R))
        ),
        measure.squared_norm - 2 * sum(z**2 for z in p_and_q),
    )
    r = _times(BETA, ERROR)
    curvature = sp.diag(*(beta * (3 * beta - target) for beta, target in zip(BETA, TARGET, strict=True)))
    yield prove(
        "adaptive, orthonormal inputs",
        r"Where $X^\top X = I$: the same with "
        r"$2 p^\top \mathrm{diag}(\beta_0 * (3 \beta_0 - \beta_*)) \, p - 2 q^\top \mathrm{diag}(r) \, q$.",
        *form_residuals(found.orthonormal(), sp.Matrix([*(4 * r), *none]), sp.diag(2 * curvature, -2 * sp.diag(*r))),
    )


def _agreement() -> Iterable[Claim]:
    interpolating = dict.fromkeys(GRADIENT, 0)
    invariant, adaptive = (DiagonalMeasure(name).second_order.on_beta() for name in ("invariant", "adaptive"))
    yield prove(
        "interpolation",
        r"Where $X \beta_0 = y$, so $g = 0$, the invariant and the adaptive measure agree to second order: "
        r"$q$ has no effect, both are the maximum of $4 b^\top D M D \, b$ over $|b| \le \rho / \sqrt 2$, "
        r"which is $2 \rho^2 \lambda_{\max}(D M D)$.",
        *invariant.linear.subs(interpolating),
        *adaptive.linear.subs(interpolating),
        *(invariant.quadratic.subs(interpolating) - 4 * D * GRAM * D),
        *(adaptive.quadratic.subs(interpolating) - sp.diag(4 * D * GRAM * D, sp.zeros(2, 2))),
    )


def _mixed() -> Iterable[Claim]:
    measure = DiagonalMeasure("mixed")
    b = measure.coordinates
    delta = sp.Matrix(sp.symbols("delta_i delta_j", real=True))
    straight = {z: d / (2 * beta) for z, d, beta in zip(b, delta, BETA, strict=True)}
    yield prove(
        "mixed, exactly",
        r"$\beta$ moves on the straight line $\beta_0 + \delta$, $\delta = 2 \beta_0 * b$, with $|\xi|^2 = \tfrac12 |\delta|^2$: "
        r"the maximum of $2 g^\top \delta + \delta^\top M \delta$ over $|\delta| \le \sqrt 2 \, \rho$, a trust-region problem.",
        _on_beta(measure.rise).subs(straight) - (2 * sp.Matrix(GRADIENT).T * delta + delta.T * GRAM * delta)[0],
        _on_beta(measure.squared_norm).subs(straight) - (delta.T * delta)[0] / 2,
    )
    e = sp.Matrix(ERROR)
    length = sp.sqrt((e.T * e)[0])
    best = sp.sqrt(2) * RHO * e / length
    yield prove(
        "mixed, orthonormal inputs",
        r"Where $X^\top X = I$: exactly $2 \sqrt 2 \, \rho |e| + 2 \rho^2$, $e = \beta_0 - \beta_*$. It is reached at "
        r"$\delta = \sqrt 2 \, \rho \, e / |e|$, and nothing exceeds it by Cauchy and Schwarz: "
        r"$|e|^2 |\delta|^2 - (e^\top \delta)^2$ is the sum of $(e_i \delta_j - e_j \delta_i)^2$ over pairs.",
        (2 * e.T * best + best.T * best)[0] - 2 * sp.sqrt(2) * RHO * length - 2 * RHO**2,
        (best.T * best)[0] - 2 * RHO**2,
        (e.T * e)[0] * (delta.T * delta)[0] - (e.T * delta)[0] ** 2 - (e[0] * delta[1] - e[1] * delta[0]) ** 2,
    )
    pair = RescalingPair("mixed")
    yield prove(
        "mixed, domain",
        r"The geodesic $\sqrt{1 + 2 b t}$ of a coordinate reaches $t = 1$ for every displacement of the ball exactly when "
        r"$\rho < |\beta_0| / \sqrt 2$: the measure is defined for $\rho < \min |\beta_0| / \sqrt 2$.",
        pair.radius - sp.Abs(pair.point[0] * pair.point[1]) / sp.sqrt(2),
    )
    step = sp.Poly(_on_beta(DiagonalMeasure("mixed step").rise).subs(b[1], 0), b[0])
    yield prove(
        "mixed, second-order step",
        r"The step $u (1 + b - b^2 / 2)$ exists everywhere, but its rise grows like $\tfrac1{16} M_{ii} \beta_i^2 b_i^8$, "
        r"and the ball holds $b_i = \rho / (\sqrt 2 |\beta_i|)$: "
        r"at small $\beta_i$ it is as large as $\rho^8 M_{ii} / (256 \, \beta_i^6)$.",
        step.coeff_monomial(b[0] ** 8) - GRAM[0, 0] * BETA[0] ** 2 / 16,
        sp.Integer(step.degree() - 8),
        (GRAM[0, 0] * BETA[0] ** 2 * b[0] ** 8 / 16).subs(b[0], RHO / (sp.sqrt(2) * BETA[0]))
        - RHO**8 * GRAM[0, 0] / (256 * BETA[0] ** 6),
    )


def _refuted() -> Iterable[Claim]:
    measure = DiagonalMeasure("euclidean")
    first, only = measure.coordinates[0], dict.fromkeys(measure.coordinates[1:], 0)
    yield refute(
        "Euclidean ball",
        r"The rise under $(u + p + q, v + p - q)$ is the same at every point of an orbit (here: to first order in $p_i$).",
        measure.change_along_the_orbit.subs(only).diff(first).subs(first, 0),
    )


def _on_beta(expression: sp.Expr) -> sp.Expr:
    """In beta = u * v instead of u."""
    return sp.expand(expression.subs({u: beta / v for u, v, beta in zip(U, V, BETA, strict=True)}))


def _times(a: Iterable[sp.Expr], b: Iterable[sp.Expr]) -> sp.Matrix:
    return sp.Matrix([x * y for x, y in zip(a, b, strict=True)])
