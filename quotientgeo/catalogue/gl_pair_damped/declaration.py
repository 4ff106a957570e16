"""A pair of factors that enters a model only through G H', with a family of metrics between invariant and mixed.

Weights (P + eps Q^-1)^-1 = Q (P Q + eps I)^-1 and, for H, with P = G'G and Q = H'H exchanged. At eps = 0 this is the
invariant metric, for large eps it is 1/eps times the mixed one; it is invariant at every eps, as P + eps I is not.
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
weight = lambda F, K, eps: (F.T * F + eps * (K.T * K).I).I
inner = lambda p, a, b, eps: Trace(weight(p.G, p.H, eps) * a.G.T * b.G) + Trace(weight(p.H, p.G, eps) * a.H.T * b.H)
metric = Metric("damped", symmetry, inner, parameters=("eps",))
