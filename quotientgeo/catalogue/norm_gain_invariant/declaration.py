"""Gain w of a normalisation before the layer V that reads it: the model sees V diag(w) only.

A step of the gain is measured relative to it, a step of V by what reaches the output. Fold several readers by stacking rows.
"""

from sympy import DiagMatrix, Trace

from quotientgeo.groups import NonzeroDiagonal
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "norm_gain",
    group=NonzeroDiagonal("d"),
    factors={"w": ("d", 1), "V": ("m", "d")},
    action=lambda A, w, V: (A * w, V * A.inv()),
    preserves=lambda w, V: V * DiagMatrix(w),
)
metric = Metric(
    "invariant",
    symmetry,
    lambda p, a, b: Trace(DiagMatrix(p.w) ** -2 * a.w * b.w.T) + Trace(DiagMatrix(p.w) ** 2 * a.V.T * b.V),
)
