"""Grouped queries: the query heads G1 and G2 share the key head H, so one element of GL(h) moves all three.

The queries are weighed by the Gram matrix of the key, the key by that of the stacked rows of the queries.
"""

from sympy import Trace

from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "grouped_queries",
    group=GL("h"),
    factors={"G1": ("n", "h"), "G2": ("n", "h"), "H": ("m", "h")},
    action=lambda A, G1, G2, H: (G1 * A.inv(), G2 * A.inv(), H * A.T),
    preserves=lambda G1, G2, H: (G1 * H.T, G2 * H.T),
)
metric = Metric(
    "mixed",
    symmetry,
    lambda p, a, b: (
        Trace(p.H.T * p.H * (a.G1.T * b.G1 + a.G2.T * b.G2)) + Trace((p.G1.T * p.G1 + p.G2.T * p.G2) * a.H.T * b.H)
    ),
)
