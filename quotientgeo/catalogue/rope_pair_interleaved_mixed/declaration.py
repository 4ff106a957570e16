"""Query G and key H under rotary positions, which turn the columns 2j and 2j + 1 together, by an angle per pair.

As complex numbers z_G, z_H: only a complex number c per pair commutes with every rotation R, and leaves the score G R H'
alone at every relative position: z_G / c, z_H conj(c). Each factor is weighed by the |z|^2 of the other's pairs.
"""

from sympy import Trace

from quotientgeo.groups import ComplexDiagonal
from quotientgeo.symbolic.algebra import ComplexPart
from quotientgeo.symbolic.declaration import Metric, Symmetry

sizes = lambda F: ComplexPart(F.T * F, "interleaved")  # |z|^2 of each pair, summed over the rows
symmetry = Symmetry(
    "rope_pair_interleaved",
    group=ComplexDiagonal("h", pairing="interleaved"),
    factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda A, G, H: (G * A.inv(), H * A.T),
    preserves=lambda G, H, R: G * R * H.T,
    inputs={"R": ComplexDiagonal("h", pairing="interleaved")},  # the rotation between two positions
)
metric = Metric("mixed", symmetry, lambda p, a, b: Trace(sizes(p.H) * a.G.T * b.G) + Trace(sizes(p.G) * a.H.T * b.H))
