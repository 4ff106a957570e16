"""Implicit metrics for tests: no product from one side solves their equations. Declarations only."""

from __future__ import annotations

from functools import cache
from typing import Any

from sympy import Identity, Trace

from quotientgeo.groups import Orthogonal, Scaling, Translation
from quotientgeo.symbolic.codegen.module import module_source
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry, derive, derive_formulas
from tests.symbolic.derivation.declarations import PAIR, gram

TURNED = Symmetry(
    "turned",
    group=Orthogonal("h"),
    factors={"G": ("n", "h")},
    action=lambda Q, G: G * Q.T,
    preserves=lambda G: G * G.T,
)


def two_sided(p: Any, a: Any, b: Any) -> Any:
    """Weights on both sides of one factor: M(xi) = xi (1 + P) + (1 + G G') xi."""
    G = p.G
    left = a.G.T * (Identity(G.shape[0]) + G * G.T) * b.G
    return Trace((Identity(G.shape[1]) + gram(G)) * a.G.T * b.G) + Trace(left)


FOLDED = Symmetry(
    "folded",
    group=Translation("h"),
    factors={"b": ("h", 1), "o": ("m", 1), "W": ("m", "h")},
    action=lambda t, b, o, W: (b + t, o - W * t, W),
    preserves=lambda b, o, W: (o + W * b, W),
)


def folding(p: Any, a: Any, b: Any) -> Any:
    """|motion of o + W b|^2 beside |xi_b|^2 + |W xi_b|^2 and weights on both sides of W: coupled, curved, not eliminated."""
    moved, other = (x.o + p.W * x.b + x.W * p.b for x in (a, b))
    weight = Identity(p.b.shape[0]) + gram(p.W)
    return (
        Trace(moved.T * other)
        + Trace(a.b.T * weight * b.b)
        + Trace(weight * a.W.T * b.W)
        + Trace(a.W.T * p.W * p.W.T * b.W)
    )


SCALED = Symmetry(
    "scaled",
    group=Scaling(),
    factors={"w": ("n", "k")},
    action=lambda c, w: c * w,
    preserves=lambda w: w * (1 / Trace(w.T * w)) * w.T,
)


def radial(p: Any, a: Any, b: Any) -> Any:
    """The scale-invariant metric, and the radial part twice: a term of rank one."""
    square = Trace(p.w.T * p.w)
    return Trace(a.w.T * b.w) / square + Trace(a.w.T * p.w) * Trace(b.w.T * p.w) / square**2


def paired(p: Any, a: Any, b: Any) -> Any:
    """Of Sylvester type in G and of one side in H; invariant under GL(h)."""
    P, Q = gram(p.G), gram(p.H)
    first = Trace(P.I * a.G.T * b.G) + Trace(a.G.T * p.G * Q * p.G.T * b.G * Q)
    return first + Trace(Q.I * a.H.T * b.H)


def weighted(p: Any, a: Any, b: Any, eps: Any) -> Any:
    """As ``two_sided``, with a parameter."""
    G = p.G
    left = a.G.T * (eps * Identity(G.shape[0]) + G * G.T) * b.G
    return Trace(gram(G) * a.G.T * b.G) + Trace(left)


def family(p: Any, a: Any, b: Any, eps: Any) -> Any:
    """Not implicit: between the mixed metric and the invariant one, with long time derivatives."""
    P, Q = gram(p.G), gram(p.H)
    return Trace((Q + eps * P.I) * a.G.T * b.G) + Trace((P + eps * Q.I) * a.H.T * b.H)


FAMILY = Metric("family", PAIR, family, ("eps",))
METRICS: dict[str, Metric] = {
    "turned": Metric("two_sided", TURNED, two_sided),
    "folded": Metric("folding", FOLDED, folding),
    "scaled": Metric("radial", SCALED, radial),
    "pair": Metric("paired", PAIR, paired),
    "weighted": Metric("weighted", TURNED, weighted, ("eps",)),
}


@cache
def formulas(name: str) -> Geometry:
    """Derived, not certified."""
    metric = METRICS[name]
    return derive_formulas(metric.symmetry, metric)


@cache
def geometry(name: str) -> Geometry:
    """Derived, and certified by normal forms."""
    metric = FAMILY if name == "family" else METRICS[name]
    return derive(metric.symmetry, metric, levels="a")


@cache
def source(name: str) -> str:
    """Generated code."""
    return module_source(geometry(name), "a test")
