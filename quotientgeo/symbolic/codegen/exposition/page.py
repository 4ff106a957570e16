"""The readable derivation of one geometry: prose from a template, formulas from the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from quotientgeo.symbolic.codegen.exposition.geodesics import GeodesicSection
from quotientgeo.symbolic.codegen.exposition.implicit import ImplicitSection
from quotientgeo.symbolic.codegen.exposition.metric import MetricSection
from quotientgeo.symbolic.codegen.exposition.projector import ProjectorSection
from quotientgeo.symbolic.codegen.exposition.spelling import Spelling
from quotientgeo.symbolic.codegen.exposition.symmetry import SymmetrySection
from quotientgeo.symbolic.codegen.module import GENERATOR_VERSION, declaration_digest, function_names
from quotientgeo.symbolic.derivation import Certificate, Geometry
from quotientgeo.symbolic.derivation.certificate import METHOD, Claim, Level


def derivation_page(geometry: Geometry, origin: str, links: bool = True) -> str:
    """The derivation as GitHub-flavoured Markdown.

    Args:
        geometry: what was derived, with its certificate.
        origin: how the page came about, for its first lines.
        links: link to the declaration and the generated files of the catalogue.

    Raises:
        CertificateError: a claim does not hold, so the page would tell a falsehood.
    """
    geometry.certificate.require()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    spelling = Spelling(geometry)
    metric = MetricSection(spelling)
    return environment.get_template("derivation.md.j2").render(
        geometry=geometry,
        origin=origin,
        links=links,
        digest=declaration_digest(geometry),
        version=GENERATOR_VERSION,
        s=spelling,
        symmetry=SymmetrySection(spelling),
        metric=metric,
        projector=ProjectorSection(spelling, metric),
        geodesics=GeodesicSection(spelling, metric),
        implicit=ImplicitSection(spelling),
        functions=function_names(geometry),
        certificate=_certificate(geometry.certificate),
    )


def _certificate(certificate: Certificate) -> dict[str, Any]:
    """Rows of the table of claims, the levels that were run, and the status of each claim."""
    levels = {result.level for claim in certificate for result in claim.levels}
    return {
        "rows": [_row(claim) for claim in certificate],
        "levels": [(level.value, METHOD[level]) for level in Level if level in levels],
        "assumptions": [_cell(text) for text in certificate.assumptions],
        "status": {claim.name: claim.status for claim in certificate},
        "holds": certificate.holds,
    }


def _row(claim: Claim) -> dict[str, str]:
    results = [result for result in claim.levels if result.level in claim.confirmed_by]
    by_residual: dict[str, list[str]] = {}
    for result in results:
        by_residual.setdefault(result.residual, []).append(result.level.value)
    return {
        "name": claim.name,
        "statement": _cell(claim.statement),
        "status": claim.status,
        "confirmed": ", ".join(result.level.value for result in results),
        "residual": _cell("; ".join(f"{', '.join(letters)}: {text}" for text, letters in by_residual.items() if text)),
    }


def _cell(text: str) -> str:
    """Text that a Markdown table may hold."""
    for mark, replacement in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|"), ("_", "\\_"), ("*", "\\*")):
        text = text.replace(mark, replacement)
    return text
