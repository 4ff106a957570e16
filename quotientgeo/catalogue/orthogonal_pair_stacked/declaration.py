"""A pair that is read through G H' and also through what only rotations leave alone (weight decay, the stream itself).

Both factors are weighed by the Gram matrix of the stacked pair, so a common factor of scale drops out too.
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
    "stacked",
    symmetry,
    lambda p, a, b: Trace((p.G.T * p.G + p.H.T * p.H).I * (a.G.T * b.G + a.H.T * b.H)),
)
