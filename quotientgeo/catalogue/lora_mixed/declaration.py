"""Low-rank adapter of a frozen weight: the model sees W0 + B A, so any M in GL(r) may stand between B and A.

Each factor is weighed by the Gram matrix of the other. Both must have rank r: a fresh adapter (B = 0) has no geometry.
"""

from sympy import Trace

from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "lora",
    group=GL("r"),
    factors={"B": ("n", "r"), "A": ("r", "m")},
    action=lambda M, B, A: (B * M.inv(), M * A),
    preserves=lambda B, A: B * A,
)
metric = Metric(
    "mixed",
    symmetry,
    lambda p, a, b: Trace(p.A * p.A.T * a.B.T * b.B) + Trace(p.B.T * p.B * a.A * b.A.T),
)
