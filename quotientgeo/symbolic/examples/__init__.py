"""The paper's analytic examples in SymPy: the scalar toy and diagonal linear networks, derived and proven."""

from quotientgeo.symbolic.examples.claims import Claim, prove, refute
from quotientgeo.symbolic.examples.diagonal_claims import diagonal_claims
from quotientgeo.symbolic.examples.diagonal_network import DiagonalMeasure, SecondOrder
from quotientgeo.symbolic.examples.rescaling import RescalingPair, general_invariant_geodesic
from quotientgeo.symbolic.examples.scalar_toy import ScalarToy, euclidean_claims

__all__ = [
    "Claim",
    "DiagonalMeasure",
    "RescalingPair",
    "ScalarToy",
    "SecondOrder",
    "diagonal_claims",
    "euclidean_claims",
    "general_invariant_geodesic",
    "prove",
    "refute",
]
