"""A pair that is read through G H' and also through what only rotations leave alone (weight decay, the stream itself).

The Euclidean metric is invariant under rotations: flat above, curved below.
"""

from sympy import Trace

from quotientgeo.groups import Orthogonal
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "orthogonal_pair",
    group=Orthogonal("h"),
    factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda R, G, H: (G * R.T, H * R.T),
    preserves=lambda G, H: (G * H.T, Trace(G.T * G) + Trace(H.T * H)),
)
metric = Metric(
    "euclidean",
    symmetry,
    lambda p, a, b: Trace(a.G.T * b.G) + Trace(a.H.T * b.H),
)
