"""A layer of k neurons with a positively homogeneous activation (ReLU, or the up and down of a gated layer).

Row i of U comes into neuron i, column i of V goes out of it; each neuron has a scale c_i > 0 of its own. Rows and columns
are weighed by each other's squared lengths.
"""

from sympy import DiagMatrix, DiagonalOf, Trace

from quotientgeo.groups import PositiveDiagonal
from quotientgeo.symbolic.declaration import Metric, Symmetry

lengths = lambda F: DiagMatrix(DiagonalOf(F * F.T))  # squared lengths of the rows
symmetry = Symmetry(
    "layer_rescaling",
    group=PositiveDiagonal("k"),
    factors={"U": ("k", "n"), "V": ("m", "k")},
    action=lambda A, U, V: (A * U, V * A.inv()),
    preserves=lambda U, V, D: V * D * U,
    inputs={"D": PositiveDiagonal("k")},  # which neurons are on, or what gates them
)
metric = Metric(
    "mixed", symmetry, lambda p, a, b: Trace(lengths(p.V.T) * a.U * b.U.T) + Trace(lengths(p.U) * a.V.T * b.V)
)
