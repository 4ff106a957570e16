"""A declaration: the pair G H' with an invariant metric that the catalogue does not have.

    quotientgeo derive examples/cubic_metric.py --out derived

writes its torch code, the certificate of every claim, and the derivation. The weights are of third degree in the Gram matrices
P = G'G and Q = H'H. Under G -> G A^-1, H -> H A' they become A^-T P A^-1 and A Q A', so that Q P Q becomes A (Q P Q) A' and
P Q P becomes A^-T (P Q P) A^-1: what each tangent needs for its own change to cancel in the trace.
"""

from sympy import Trace

import quotientgeo as qg

symmetry = qg.Symmetry(
    "gl_pair",
    group=qg.GL("h"),
    factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda A, G, H: (G * A.inv(), H * A.T),
    preserves=lambda G, H: G * H.T,
)


def inner(p, a, b):
    """<a, b> = tr(Q P Q a_G' b_G) + tr(P Q P a_H' b_H)."""
    P, Q = p.G.T * p.G, p.H.T * p.H
    return Trace(Q * P * Q * a.G.T * b.G) + Trace(P * Q * P * a.H.T * b.H)


metric = qg.Metric("cubic", symmetry, inner)
