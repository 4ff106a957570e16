"""HTML pages from jinja2 templates: one file, style and figures inside, nothing fetched."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parent / "templates"  # base.html.j2: the look that all pages share
MINUS = "\u2212"


def render(template: Path, context: Mapping[str, Any]) -> str:
    """The page of a template, which may extend "base.html.j2". Text is escaped; a name without a value is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([template.parent, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": number, "change": change, "percent": percent}
    return environment.get_template(template.name).render(**context)


def image_source(svg: str) -> str:
    """An SVG document as the source of an <img>: a part of the page, with identifiers of its own."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def number(value: float, digits: int = 4) -> str:
    """Significant digits; powers of ten as 1.2 × 10⁻⁵."""
    if not math.isfinite(value):
        return "no value"
    text = f"{value:.{digits}g}"
    if "e" not in text and (value == 0 or abs(value) >= 1e-3):
        return text.replace("-", MINUS)
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa} × 10{raised}".replace("-", MINUS)


def change(value: float) -> str:
    """A relative change as a signed number: one unit for large ones and for rounding, so that a column can be compared."""
    return f"+{number(value, 2)}" if math.isfinite(value) and value > 0 else number(value, 2)


def percent(value: float) -> str:
    """A share, in percent."""
    if not math.isfinite(value):
        return "no value"
    return f"{100 * value:,.0f} %" if abs(value) >= 10 else f"{100 * value:.3g} %"
