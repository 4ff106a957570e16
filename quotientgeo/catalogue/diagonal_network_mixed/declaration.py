"""Diagonal network x -> x'(u * v): only the elementwise product counts, so each coordinate has a scale of its own.

Source: da Silva, Dangel, Oore, "Hide & Seek" (ICML 2025), section 5.1. Each coordinate is weighed by the other's square.
"""

from sympy import DiagMatrix, Trace

from quotientgeo.groups import NonzeroDiagonal
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "diagonal_network",
    group=NonzeroDiagonal("d"),
    factors={"u": ("d", 1), "v": ("d", 1)},
    action=lambda A, u, v: (A * u, A.inv() * v),
    preserves=lambda u, v: DiagMatrix(u) * v,
)
metric = Metric(
    "mixed",
    symmetry,
    lambda p, a, b: Trace(DiagMatrix(p.v) ** 2 * a.u * b.u.T) + Trace(DiagMatrix(p.u) ** 2 * a.v * b.v.T),
)
