"""Symmetry + metric -> Geometry with its Certificate."""

from quotientgeo.symbolic.derivation.certificate import Certificate, Claim, Level, LevelResult, Outcome, Witness
from quotientgeo.symbolic.derivation.certify import DEFAULT_LEVELS, certify
from quotientgeo.symbolic.derivation.formula import Formula, MatrixFormula, ScalarFormula
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.pipeline import derive, derive_formulas

__all__ = [
    "DEFAULT_LEVELS",
    "Certificate",
    "Claim",
    "Formula",
    "Geometry",
    "Level",
    "LevelResult",
    "MatrixFormula",
    "Outcome",
    "ScalarFormula",
    "Witness",
    "certify",
    "derive",
    "derive_formulas",
]
