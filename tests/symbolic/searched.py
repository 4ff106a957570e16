"""Symmetries whose invariant metrics are searched for in tests."""

from __future__ import annotations

from sympy import DiagMatrix, MatrixExpr, OneMatrix

from quotientgeo.groups import GL, ComplexDiagonal, NonzeroDiagonal, Orthogonal, Scaling, Translation
from quotientgeo.symbolic.declaration import Symmetry

PAIR = Symmetry(
    "gl_pair", group=GL("h"), factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda A, G, H: (G * A.inv(), H * A.T), preserves=lambda G, H: G * H.T,
)  # fmt: skip
ORTHOGONAL = Symmetry(
    "orthogonal", group=Orthogonal("h"), factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda R, G, H: (G * R.T, H * R.T), preserves=lambda G, H: G * H.T,
)  # fmt: skip
DIAGONAL = Symmetry(
    "diagonal", group=NonzeroDiagonal("d"), factors={"u": ("d", 1), "v": ("d", 1)},
    action=lambda A, u, v: (A * u, A.inv() * v),
)  # fmt: skip
ROPE = Symmetry(
    "rope", group=ComplexDiagonal("h"), factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda A, G, H: (G * A.inv(), H * A.T),
)  # fmt: skip
SCALE = Symmetry("scale", group=Scaling(), factors={"W": ("n", "m")}, action=lambda c, W: c * W)
NEURON = Symmetry(
    "neuron", group=Scaling(), factors={"g": ("n", 1), "h": ("m", 1)}, action=lambda c, g, h: (g / c, c * h)
)
SHIFT = Symmetry(
    "shift", group=Translation("n"), factors={"b": ("n", 1), "w": ("n", "m")}, action=lambda t, b, w: (b + t, w)
)
CHAIN = Symmetry(
    "chain", group=GL("h") * GL("k"), factors={"G": ("n", "h"), "W": ("h", "k"), "R": ("k", "m")},
    action=lambda A, B, G, W, R: (G * A.inv(), A * W * B.inv(), B * R), preserves=lambda G, W, R: G * W * R,
)  # fmt: skip
SHEAR = Symmetry(  # mixes the tangents of its factors
    "shear",
    group=Translation("n", "n"),
    factors={"G": ("n", "h"), "H": ("n", "h")},
    action=lambda T, G, H: (G + T * H, H),
)
VECTOR = Symmetry("vector", group=GL("h"), factors={"x": ("h", 1)}, action=lambda A, x: A * x)


def gain() -> Symmetry:
    def one(w: MatrixExpr) -> MatrixExpr:
        return OneMatrix(w.shape[0], 1)

    return Symmetry(
        "gain", group=NonzeroDiagonal("d"), factors={"w": ("d", 1), "V": ("m", "d")},
        action=lambda A, w, V: (A * (w + one(w)) - one(w), V * A.inv()), preserves=lambda w, V: V * DiagMatrix(w + one(w)),
    )  # fmt: skip


GAIN = gain()
