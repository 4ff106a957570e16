"""One neuron with a positively homogeneous activation: weights g come in (with the bias), weights h go out.

relu(c x) = c relu(x) for c > 0, so (c g, h / c) is the same neuron. Each vector is weighed by the other's squared length.
"""

from sympy import Trace

from quotientgeo.groups import Scaling
from quotientgeo.symbolic.declaration import Metric, Symmetry

symmetry = Symmetry(
    "neuron_rescaling",
    group=Scaling(),
    factors={"g": ("n", 1), "h": ("m", 1)},
    action=lambda c, g, h: (c * g, h / c),
    preserves=lambda g, h: g * h.T,
)
metric = Metric(
    "mixed",
    symmetry,
    lambda p, a, b: Trace(p.h.T * p.h) * Trace(a.g.T * b.g) + Trace(p.g.T * p.g) * Trace(a.h.T * b.h),
)
