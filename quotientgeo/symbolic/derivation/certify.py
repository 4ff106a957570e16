"""Run the certificate levels over all statements about a geometry."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quotientgeo.symbolic.derivation.certificate import Certificate, Claim, Level, LevelResult
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.normal_form import check_normal_form
from quotientgeo.symbolic.derivation.statements import Statement, statements

DEFAULT_LEVELS = "a"

_CHECKS: dict[Level, Callable[[Geometry, Statement], LevelResult]] = {Level.NORMAL_FORM: check_normal_form}


def certify(geometry: Geometry, levels: Iterable[Level | str] = DEFAULT_LEVELS) -> Certificate:
    """The certificate of a geometry by the given levels."""
    chosen = [Level(level) for level in levels]
    claims = []
    for s in statements(geometry):
        results = tuple(_CHECKS[level](geometry, s) for level in chosen)
        claims.append(Claim(s.name, s.text, s.formula(geometry), results))
    return Certificate(geometry.name, (), tuple(claims))
