"""Gain of a normalisation stored as w, used as 1 + w, before the layer V that reads it: V sees V diag(1 + w) only.

A step of the gain is measured relative to it, a step of V by what reaches the output. Fold several readers by stacking rows.
"""

from sympy import DiagMatrix, OneMatrix, Trace

from quotientgeo.groups import NonzeroDiagonal
from quotientgeo.symbolic.declaration import Metric, Symmetry

gain = lambda w: w + OneMatrix(w.shape[0], 1)
symmetry = Symmetry(
    "norm_gain_affine",
    group=NonzeroDiagonal("d"),
    factors={"w": ("d", 1), "V": ("m", "d")},
    action=lambda A, w, V: (A * gain(w) - OneMatrix(w.shape[0], 1), V * A.inv()),
    preserves=lambda w, V: V * DiagMatrix(gain(w)),
)
metric = Metric(
    "invariant",
    symmetry,
    lambda p, a, b: Trace(DiagMatrix(gain(p.w)) ** -2 * a.w * b.w.T) + Trace(DiagMatrix(gain(p.w)) ** 2 * a.V.T * b.V),
)
