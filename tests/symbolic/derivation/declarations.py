"""Declarations for tests, with no formula beyond the declaration itself, and their derivations (made once per process)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from sympy import MatrixExpr, Trace

from quotientgeo.groups import GL, Orthogonal
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry, derive, derive_formulas

Inner = Callable[[Any, Any, Any], Any]


PAIR = Symmetry(
    "gl_pair",
    group=GL("h"),
    factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda A, G, H: (G * A.inv(), H * A.T),
    preserves=lambda G, H: G * H.T,
)


def gram(x: MatrixExpr) -> MatrixExpr:
    return x.T * x


def invariant(p: Any, a: Any, b: Any) -> Any:
    return Trace(gram(p.G).I * a.G.T * b.G) + Trace(gram(p.H).I * a.H.T * b.H)


def mixed(p: Any, a: Any, b: Any) -> Any:
    return Trace(gram(p.H) * a.G.T * b.G) + Trace(gram(p.G) * a.H.T * b.H)


def third(p: Any, a: Any, b: Any) -> Any:
    """Weights Q P Q for G and P Q P for H."""
    P, Q = gram(p.G), gram(p.H)
    return Trace(Q * P * Q * a.G.T * b.G) + Trace(P * Q * P * a.H.T * b.H)


def euclidean(p: Any, a: Any, b: Any) -> Any:
    return Trace(a.G.T * b.G) + Trace(a.H.T * b.H)


METRICS: dict[str, Inner] = {"invariant": invariant, "mixed": mixed, "third": third, "euclidean": euclidean}


@cache
def metric(name: str) -> Metric:
    return Metric(name, PAIR, METRICS[name])


@cache
def formulas(name: str) -> Geometry:
    return derive_formulas(PAIR, metric(name))


@cache
def geometry(name: str) -> Geometry:
    return derive(PAIR, metric(name))


CHAIN = Symmetry(
    "chain",
    group=(GL("h"), GL("k")),
    factors={"G": ("n", "h"), "W": ("h", "k"), "R": ("m", "k")},
    action=lambda A, B, G, W, R: (G * A.inv(), A * W * B.inv(), R * B.T),
    preserves=lambda G, W, R: G * W * R.T,
)


def chain_inner(p: Any, a: Any, b: Any) -> Any:
    return (
        Trace(gram(p.G).I * a.G.T * b.G) + Trace(gram(p.G) * a.W * gram(p.R) * b.W.T) + Trace(gram(p.R).I * a.R.T * b.R)
    )


ROTATED = Symmetry(
    "rotated",
    group=Orthogonal("h"),
    factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda Q, G, H: (G * Q.T, H * Q.T),
    preserves=lambda G, H: (G * H.T, Trace(G.T * G)),
)
