"""A weight before a normalisation: scaling all of W leaves what the normalisation puts out as it was.

The metric measures a step relative to the length of W, so geodesics that are horizontal run on a sphere.
"""

from sympy import Trace

from quotientgeo.groups import Scaling
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "normalised_weight",
    group=Scaling(),
    factors={"W": ("n", "m")},
    action=lambda c, W: c * W,
    preserves=lambda W, X, Y: Trace(X.T * W) * Trace(Y.T * W) / Trace(W.T * W),  # W / |W| up to its sign
    inputs={"X": ("n", "m"), "Y": ("n", "m")},
)
metric = Metric("invariant", symmetry, lambda p, a, b: Trace(a.W.T * b.W) / Trace(p.W.T * p.W))
