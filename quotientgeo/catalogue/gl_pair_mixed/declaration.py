"""A pair of factors that enters a model only through G H', with the metric that weighs each factor by the other's Gram.

Source: da Silva, Dangel, Oore, "Hide & Seek" (ICML 2025), Definition 3.1 and equation (10).
"""

from sympy import Trace

from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "gl_pair",
    group=GL("h"),
    factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda A, G, H: (G * A.inv(), H * A.T),
    preserves=lambda G, H: G * H.T,
)
metric = Metric(
    "mixed",
    symmetry,
    lambda p, a, b: Trace(p.H.T * p.H * a.G.T * b.G) + Trace(p.G.T * p.G * a.H.T * b.H),
)
