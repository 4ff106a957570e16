"""Declarations of groups beyond GL, with no formula beyond the declaration itself: shared by tests of levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from sympy import DiagMatrix, DiagonalOf, HadamardProduct, OneMatrix, Trace

from quotientgeo.groups import GL, ComplexDiagonal, NonzeroDiagonal, PositiveDiagonal, Scaling, Translation
from quotientgeo.symbolic.algebra.parts import ComplexPart
from quotientgeo.symbolic.declaration import Metric, Symmetry
from tests.symbolic.derivation.declarations import gram

Inner = Callable[[Any, Any, Any], Any]
ONES = OneMatrix(sp.Symbol("d", integer=True, positive=True), 1)
PAIR = {"G": ("n", "h"), "H": ("m", "h")}

DIAGONAL = Symmetry(
    "diagonal",
    NonzeroDiagonal("d"),
    {"u": ("d", 1), "v": ("d", 1)},
    lambda A, u, v: (A * u, A.inv() * v),
    HadamardProduct,
)
ROPE = Symmetry("rope", ComplexDiagonal("h"), PAIR, lambda Z, G, H: (G * Z.inv(), H * Z.T))
TURNED = Symmetry("turned", ComplexDiagonal("h", "interleaved"), PAIR, lambda Z, G, H: (G * Z.inv(), H * Z.T))
SCALE = Symmetry("scale", Scaling(), {"w": ("n", 1)}, lambda c, w: (c * w,))
NEURON = Symmetry(
    "neuron",
    Scaling(),
    {"g": ("n", 1), "k": ("m", 1)},
    lambda c, g, k: (g / c, c * k),
    lambda g, k: g * k.T,
)
SHIFT = Symmetry("shift", Translation("n"), {"b": ("n", 1)}, lambda t, b: (b + t,))
ROWS = Symmetry(
    "rows",
    PositiveDiagonal("d"),
    {"W": ("d", "n"), "V": ("m", "d")},
    lambda A, W, V: (A * W, V * A.inv()),
    lambda W, V: V * W,
)
AFFINE = Symmetry(
    "affine",
    NonzeroDiagonal("d"),
    {"w": ("d", 1), "V": ("m", "d")},
    lambda A, w, V: (A * (w + ONES) - ONES, V * A.inv()),
    lambda w, V: V * DiagMatrix(w + ONES),
)
PRODUCT = Symmetry(
    "product",
    GL("h") * Scaling() * Translation("m"),
    {**PAIR, "w": ("n", 1), "b": ("m", 1)},
    lambda A, c, t, G, H, w, b: (G * A.inv(), H * A.T, c * w, b + t),
)


def column(point: Any, a: Any, b: Any) -> Any:
    """<a, b> / |point|^2 for columns."""
    return Trace(a.T * b) / Trace(point.T * point)


def paired(p: Any, a: Any, b: Any, pairing: str = "half") -> Any:
    """The invariant metric with the complex diagonal parts of the Gram matrices."""
    return sum(Trace(ComplexPart(gram(x), pairing).I * y.T * z) for x, y, z in ((p.G, a.G, b.G), (p.H, a.H, b.H)))


def crossed(p: Any, a: Any, b: Any) -> Any:
    """The mixed metric with complex diagonal parts."""
    return sum(Trace(ComplexPart(gram(x), "half") * y.T * z) for x, y, z in ((p.H, a.G, b.G), (p.G, a.H, b.H)))


def elementwise(p: Any, a: Any, b: Any, power: int = -2) -> Any:
    return Trace(DiagMatrix(p.u) ** power * a.u * b.u.T) + Trace(DiagMatrix(p.v) ** power * a.v * b.v.T)


def exchanged(p: Any, a: Any, b: Any, power: int = 2) -> Any:
    return Trace(DiagMatrix(p.v) ** power * a.u * b.u.T) + Trace(DiagMatrix(p.u) ** power * a.v * b.v.T)


def by_rows(p: Any, a: Any, b: Any) -> Any:
    lengths = DiagMatrix(DiagonalOf(p.W * p.W.T))
    return Trace(lengths.I * a.W * b.W.T) + Trace(DiagMatrix(DiagonalOf(gram(p.V))).I * a.V.T * b.V)


def gained(p: Any, a: Any, b: Any) -> Any:
    return Trace(DiagMatrix(p.w + ONES) ** -2 * a.w * b.w.T) + Trace(DiagMatrix(DiagonalOf(gram(p.V))).I * a.V.T * b.V)


def gained_squared(p: Any, a: Any, b: Any) -> Any:
    gain = DiagMatrix(p.w + ONES)
    return Trace(gain**-2 * a.w * b.w.T) + Trace(gain**2 * a.V.T * b.V)


def of_product(p: Any, a: Any, b: Any) -> Any:
    pair = sum(Trace(gram(x).I * y.T * z) for x, y, z in ((p.G, a.G, b.G), (p.H, a.H, b.H)))
    return pair + column(p.w, a.w, b.w) + Trace(a.b.T * b.b)


TRUE: dict[str, tuple[Symmetry, Inner]] = {
    "diagonal invariant": (DIAGONAL, elementwise),
    "diagonal mixed": (DIAGONAL, exchanged),
    "rope invariant": (ROPE, paired),
    "rope mixed": (ROPE, crossed),
    "rope interleaved": (TURNED, lambda p, a, b: paired(p, a, b, "interleaved")),
    "scale": (SCALE, lambda p, a, b: column(p.w, a.w, b.w)),
    "neuron": (NEURON, lambda p, a, b: column(p.g, a.g, b.g) + column(p.k, a.k, b.k)),
    "shift": (SHIFT, lambda p, a, b: Trace(a.b.T * b.b)),
    "rows": (ROWS, by_rows),
    "affine": (AFFINE, gained),
    "affine squared": (AFFINE, gained_squared),
    "product": (PRODUCT, of_product),
}


def declared(symmetry: Symmetry, inner: Inner) -> tuple[Symmetry, Metric]:
    return symmetry, Metric("own", symmetry, inner)
