"""Key bias of attention without rotary positions: it adds to all scores of a query the same number, which softmax removes.

Weights H and bias b of the key; nothing has to compensate a shift of b, so the quotient is that of H alone.
"""

from sympy import Trace

from quotientgeo.groups import Translation
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "key_bias",
    group=Translation("h"),
    factors={"H": ("m", "h"), "b": ("h", 1)},
    action=lambda t, H, b: (H, b + t),
    preserves=lambda H, b: H,
)
metric = Metric("flat", symmetry, lambda p, a, b: Trace(a.H.T * b.H) + Trace(a.b.T * b.b))
