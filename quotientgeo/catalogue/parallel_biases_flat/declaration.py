"""Two writers of a residual stream side by side (attention and MLP of a parallel block): only the sum of their biases counts.

A shift t of one bias is compensated by -t on the other.
"""

from sympy import Trace

from quotientgeo.groups import Translation
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "parallel_biases",
    group=Translation("d"),
    factors={"b": ("d", 1), "c": ("d", 1)},
    action=lambda t, b, c: (b + t, c - t),
    preserves=lambda b, c: b + c,
)
metric = Metric("flat", symmetry, lambda p, x, y: Trace(x.b.T * y.b) + Trace(x.c.T * y.c))
