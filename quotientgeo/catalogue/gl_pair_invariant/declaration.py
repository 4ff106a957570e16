"""A pair of factors that enters a model only through G H', with the metric that weighs each factor by its own Gram matrix.

Source: da Silva, Dangel, Oore, "Hide & Seek" (ICML 2025), Definition 3.1 and equation (9).
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
    "invariant",
    symmetry,
    lambda p, a, b: Trace((p.G.T * p.G).I * a.G.T * b.G) + Trace((p.H.T * p.H).I * a.H.T * b.H),
)
