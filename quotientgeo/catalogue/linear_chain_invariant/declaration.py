"""Three linear layers G W R in a row: an invertible matrix may be put between any two of them.

The outer layers are weighed by their own Gram matrices, the inner one by how much its change moves the product.
"""

from sympy import Trace

from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "linear_chain",
    group=GL("h") * GL("k"),
    factors={"G": ("n", "h"), "W": ("h", "k"), "R": ("k", "m")},
    action=lambda A, B, G, W, R: (G * A.inv(), A * W * B.inv(), B * R),
    preserves=lambda G, W, R: G * W * R,
)
outer = lambda p, a, b: Trace((p.G.T * p.G).I * a.G.T * b.G) + Trace((p.R * p.R.T).I * a.R * b.R.T)
metric = Metric("invariant", symmetry, lambda p, a, b: outer(p, a, b) + Trace(p.R * p.R.T * a.W.T * p.G.T * p.G * b.W))
