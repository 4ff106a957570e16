"""Value bias b of attention: its shift t reaches the stream as W t, because attention weights add up to 1.

The output bias c compensates that. The metric is the flat one in the coordinates W, b and W b + c, what the model sees.
"""

from sympy import Trace

from quotientgeo.groups import Translation
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "value_bias",
    group=Translation("h"),
    factors={"W": ("n", "h"), "b": ("h", 1), "c": ("n", 1)},
    action=lambda t, W, b, c: (W, b + t, c - W * t),
    preserves=lambda W, b, c: (W, W * b + c),
)
out = lambda p, x: x.W * p.b + p.W * x.b + x.c  # velocity of W b + c
metric = Metric(
    "flat", symmetry, lambda p, x, y: Trace(x.W.T * y.W) + Trace(x.b.T * y.b) + Trace(out(p, x).T * out(p, y))
)
