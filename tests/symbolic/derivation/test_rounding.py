"""A difference that rounding makes is told from one that is there: the first changes as a whole where the point hardly moves."""

from __future__ import annotations

import dataclasses
from typing import Any

from sympy import DiagMatrix, Trace

from quotientgeo.groups import Translation
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Outcome, certify, derive_formulas
from quotientgeo.symbolic.derivation.levels.autodiff import check_autodiff
from quotientgeo.symbolic.derivation.statements import statements

SHEAR = Symmetry(
    "shear",
    Translation("d"),
    {"x": ("d", 1), "y": ("d", 1), "z": ("d", 1)},
    lambda t, x, y, z: (x, y, z + DiagMatrix(x) * DiagMatrix(y) * t),
    lambda x, y, z: (x, y),
)


def inner(p: Any, a: Any, b: Any) -> Any:
    """Flat in x, y and z / (x y): the fourth derivative of a geodesic is zero, as the sum of large terms."""
    i, j, k = DiagMatrix(p.x).inv(), DiagMatrix(p.y).inv(), DiagMatrix(p.z)
    first, second = (i * j * u.z - i * i * j * k * u.x - i * j * j * k * u.y for u in (a, b))
    return Trace(a.x.T * b.x) + Trace(a.y.T * b.y) + Trace(first.T * second)


def test_rounding_refutes_nothing_and_what_is_wrong_is_refuted() -> None:
    geometry = derive_formulas(SHEAR, Metric("m", SHEAR, inner))
    claim = certify(geometry, "abde", ["taylor_4"])["taylor_4"]
    assert claim.holds
    assert not [result for result in claim.levels if result.outcome is Outcome.FALSE]
    (statement,) = (s for s in statements(geometry) if s.name == "invariance")
    wrong = dataclasses.replace(
        SHEAR, action=lambda t, x, y, z: (x, y, z + DiagMatrix(x) * DiagMatrix(x) * t), preserves=None
    )
    found = check_autodiff(derive_formulas(wrong, Metric("m", wrong, inner)), statement)
    assert found.outcome is Outcome.FALSE
