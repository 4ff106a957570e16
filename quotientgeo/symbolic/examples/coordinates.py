"""Riemannian geometry in coordinates: what follows from a matrix of functions of the point, for a handful of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp


@dataclass(frozen=True)
class Coordinates:
    """A metric g_ij in coordinates.

    point: the coordinates, one symbol each. metric: (k, k) symmetric matrix of functions of these very symbols (other symbols are
    constants).
    """

    point: tuple[sp.Symbol, ...]
    metric: sp.ImmutableDenseMatrix

    def inner(self, a: Sequence[sp.Expr], b: Sequence[sp.Expr]) -> sp.Expr:
        """<a, b> = sum_ij g_ij a_i b_j."""
        return sp.simplify((sp.Matrix([list(a)]) * self.metric * sp.Matrix(list(b)))[0])

    def christoffel(self, xi: Sequence[sp.Expr], eta: Sequence[sp.Expr]) -> list[sp.Expr]:
        """Gamma(xi, eta)^k = 1/2 sum_ijl g^kl (d_i g_jl + d_j g_il - d_l g_ij) xi_i eta_j."""
        g, q, size = self.metric, self.point, range(len(self.point))
        lowered = [
            sum(
                (g[j, k].diff(q[i]) + g[i, k].diff(q[j]) - g[i, j].diff(q[k])) * xi[i] * eta[j] / 2
                for i in size
                for j in size
            )
            for k in size
        ]
        return [sp.simplify(entry) for entry in g.inv() * sp.Matrix(lowered)]

    def geodesic_equation(self, curve: Sequence[sp.Expr], t: sp.Symbol) -> list[sp.Expr]:
        """x'' + Gamma(x', x') along a curve (one expression in t for each coordinate); zero for a geodesic."""
        velocity = [x.diff(t) for x in curve]
        names = [sp.Dummy(f"velocity_{k}") for k in range(len(self.point))]
        at = [*zip(self.point, curve, strict=True), *zip(names, velocity, strict=True)]
        gamma = self.christoffel(names, names)
        return [v.diff(t) + entry.subs(at, simultaneous=True) for v, entry in zip(velocity, gamma, strict=True)]

    def gradient(self, f: sp.Expr) -> list[sp.Expr]:
        """g^-1 df."""
        return list(self.metric.inv() * sp.Matrix([f.diff(q) for q in self.point]))

    def squared_gradient_norm(self, f: sp.Expr) -> sp.Expr:
        """<grad f, grad f> = df g^-1 df."""
        return sp.factor(self.inner(self.gradient(f), self.gradient(f)))

    def hessian(self, f: sp.Expr, xi: Sequence[sp.Expr], eta: Sequence[sp.Expr]) -> sp.Expr:
        """Hess f(xi, eta) = D^2 f[xi, eta] - Df[Gamma(xi, eta)]."""
        q, size = self.point, range(len(self.point))
        second = sum(f.diff(q[i], q[j]) * xi[i] * eta[j] for i in size for j in size)
        first = sum(f.diff(q[k]) * entry for k, entry in enumerate(self.christoffel(xi, eta)))
        return sp.factor(sp.simplify(second - first))

    def hessian_trace(self, f: sp.Expr) -> sp.Expr:
        """sum_ij g^ij Hess f(e_i, e_j), the Laplace-Beltrami operator."""
        basis = [[sp.Integer(i == k) for k in range(len(self.point))] for i in range(len(self.point))]
        inverse = self.metric.inv()
        size = range(len(self.point))
        return sp.factor(
            sp.simplify(sum(inverse[i, j] * self.hessian(f, basis[i], basis[j]) for i in size for j in size))
        )

    def derivative(self, f: sp.Expr, along: Sequence[sp.Expr]) -> sp.Expr:
        """Df[along]."""
        return sum((f.diff(q) * step for q, step in zip(self.point, along, strict=True)), sp.Integer(0))


def euclidean(point: tuple[sp.Symbol, ...]) -> Coordinates:
    """The same coordinates with g = I, in which gradients and Hessians are the ordinary ones."""
    return Coordinates(point, sp.ImmutableDenseMatrix(sp.eye(len(point))))
