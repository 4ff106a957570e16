"""Declarations that claim what is not so, the way a researcher gets them wrong; each fails at the claim named with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from sympy import DiagMatrix, DiagonalOf, HadamardProduct, MatrixExpr, OneMatrix, Trace

from quotientgeo.groups import (
    GL,
    ComplexDiagonal,
    NonzeroDiagonal,
    Orthogonal,
    PositiveDiagonal,
    Scaling,
    Translation,
)
from quotientgeo.symbolic.algebra.parts import ComplexPart
from quotientgeo.symbolic.declaration import Metric, Symmetry

Inner = Callable[[Any, Any, Any], Any]
PAIR = {"G": ("n", "h"), "H": ("m", "h")}
CHAIN = {"G": ("n", "h"), "W": ("h", "h"), "R": ("m", "h")}
VECTORS = {"u": ("d", 1), "v": ("d", 1)}
ONES = OneMatrix(sp.Symbol("d", integer=True, positive=True), 1)


def gram(x: MatrixExpr) -> MatrixExpr:
    return x.T * x


def moved(A: Any, G: Any, H: Any) -> tuple[Any, Any]:
    return G * A.inv(), H * A.T


def product(G: Any, H: Any) -> Any:
    return G * H.T


def score(G: Any, H: Any, R: Any) -> Any:
    """What attention with rotary positions sees, for every rotation R between two of them."""
    return G * R * H.T


def invariant(p: Any, a: Any, b: Any) -> Any:
    return Trace(gram(p.G).I * a.G.T * b.G) + Trace(gram(p.H).I * a.H.T * b.H)


def mixed(p: Any, a: Any, b: Any) -> Any:
    return Trace(gram(p.H) * a.G.T * b.G) + Trace(gram(p.G) * a.H.T * b.H)


def euclidean(p: Any, a: Any, b: Any) -> Any:
    return Trace(a.G.T * b.G) + Trace(a.H.T * b.H)


def paired(pairing: str) -> Inner:
    def inner(p: Any, a: Any, b: Any) -> Any:
        return sum(Trace(ComplexPart(gram(x), pairing).I * y.T * z) for x, y, z in ((p.G, a.G, b.G), (p.H, a.H, b.H)))

    return inner


def elementwise(p: Any, a: Any, b: Any) -> Any:
    return Trace(DiagMatrix(p.u) ** -2 * a.u * b.u.T) + Trace(DiagMatrix(p.v) ** -2 * a.v * b.v.T)


def chained(p: Any, a: Any, b: Any) -> Any:
    outer = Trace(gram(p.G).I * a.G.T * b.G) + Trace(gram(p.R).I * a.R.T * b.R)
    return outer + Trace(gram(p.G) * a.W * gram(p.R) * b.W.T)


def gained(p: Any, a: Any, b: Any) -> Any:
    return Trace(DiagMatrix(p.w + ONES) ** -2 * a.w * b.w.T) + Trace(DiagMatrix(DiagonalOf(gram(p.V))).I * a.V.T * b.V)


def pair(inner: Inner, action: Callable[..., Any] = moved, preserves: Any = product, group: Any = None) -> Metric:
    symmetry = Symmetry("pair", group or GL("h"), PAIR, action, preserves)
    return Metric("own", symmetry, inner)


def of(name: str, group: Any, factors: Any, action: Any, inner: Inner, preserves: Any = None) -> Metric:
    return Metric("own", Symmetry(name, group, factors, action, preserves), inner)


def rotary(group: Any, inner: Inner) -> Metric:
    symmetry = Symmetry("score", group, PAIR, moved, score, inputs={"R": ComplexDiagonal("h")})
    return Metric("own", symmetry, inner)


FALSE: dict[str, tuple[str, Callable[[], Metric]]] = {
    "euclidean metric under GL": ("invariance", lambda: pair(euclidean)),
    "GL where only complex numbers act": (
        "preserved",
        lambda: rotary(GL("h"), invariant),
    ),
    "wrong pairing of the group": (
        "preserved",
        lambda: rotary(ComplexDiagonal("h", "interleaved"), paired("interleaved")),
    ),
    "wrong pairing of the metric": (
        "invariance",
        lambda: rotary(ComplexDiagonal("h"), paired("interleaved")),
    ),
    "indefinite": (
        "metric_positive_definite",
        lambda: pair(lambda p, a, b: Trace(gram(p.G).I * a.G.T * b.G) - Trace(gram(p.H).I * a.H.T * b.H)),
    ),
    "indefinite by a cross term": (
        "metric_positive_definite",
        lambda: pair(lambda p, a, b: mixed(p, a, b) + 3 * (cross(p, a, b) + cross(p, b, a))),
    ),
    "degenerate: a factor without a term": (
        "metric_positive_definite",
        lambda: pair(lambda p, a, b: Trace(gram(p.G).I * a.G.T * b.G)),
    ),
    "A squared": ("action_composition", lambda: pair(mixed, lambda A, G, H: (G * A**-2, H * (A**2).T))),
    "a transpose in place of the inverse": ("preserved", lambda: pair(mixed, lambda A, G, H: (G * A.T, H * A.T))),
    "left and right mixed": ("action_composition", lambda: pair(mixed, lambda A, G, H: (G * A.inv(), H * A))),
    "no identity": (
        "action_identity",
        lambda: pair(euclidean, lambda Q, G, H: (2 * G * Q.T, H * Q.T / 2), group=Orthogonal("h")),
    ),
    "preserved is not": ("preserved", lambda: pair(mixed, preserves=lambda G, H: (G * H.T, Trace(G.T * G)))),
    "not symmetric": (
        "metric_symmetric",
        lambda: pair(lambda p, a, b: mixed(p, a, b) + Trace(a.G.T * p.G * b.H.T * p.H) / 2),
    ),
    "a metric that a translation changes": (
        "invariance",
        lambda: of(
            "shift",
            Translation("n"),
            {"b": ("n", 1)},
            lambda t, b: (b + t,),
            lambda p, a, b: Trace(p.b.T * p.b) * Trace(a.b.T * b.b),
        ),
    ),
    "a metric that scaling changes": (
        "invariance",
        lambda: of("scale", Scaling(), {"w": ("n", 1)}, lambda c, w: (c * w,), lambda p, a, b: Trace(a.w.T * b.w)),
    ),
    "one element of a product on the wrong side": (
        "preserved",
        lambda: of(
            "chain",
            GL("h") * GL("h"),
            CHAIN,
            lambda A, B, G, W, R: (G * A.inv(), B.inv() * W * A, R * B.T),
            chained,
            lambda G, W, R: G * W * R.T,
        ),
    ),
    "a wrong power of a positive diagonal": (
        "preserved",
        lambda: of(
            "net", PositiveDiagonal("d"), VECTORS, lambda A, u, v: (A * u, A**-2 * v), elementwise, HadamardProduct
        ),
    ),
    "an affine action that forgets the ones": (
        "preserved",
        lambda: of(
            "gain",
            NonzeroDiagonal("d"),
            {"w": ("d", 1), "V": ("m", "d")},
            lambda A, w, V: (A * w, V * A.inv()),
            gained,
            lambda w, V: V * DiagMatrix(w + ONES),
        ),
    ),
    "not free": (
        "action_free",
        lambda: of(
            "twice",
            Scaling() * Scaling(),
            {"w": ("n", 1)},
            lambda c, e, w: (c * e * w,),
            lambda p, a, b: Trace(a.w.T * b.w) / Trace(p.w.T * p.w),
        ),
    ),
    "invariant at size 1 only": (
        "invariance",
        lambda: pair(lambda p, a, b: Trace(a.G.T * b.G) / Trace(gram(p.G)) + Trace(a.H.T * b.H) / Trace(gram(p.H))),
    ),
    "a formula for orthogonal matrices under GL": (
        "preserved",
        lambda: pair(euclidean, lambda A, G, H: (G * A, H * A)),
    ),
}


def cross(p: Any, a: Any, b: Any) -> Any:
    return Trace(a.G.T * p.G * b.H.T * p.H)
