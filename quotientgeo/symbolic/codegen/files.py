"""The public way to write a geometry's code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quotientgeo.symbolic.codegen.module import module_source
from quotientgeo.symbolic.codegen.proof import check_source
from quotientgeo.symbolic.derivation import Geometry


def generate(geometry: Geometry, path: str | Path, *, sizes: Mapping[str, int] | None = None) -> Path:
    """Write the batched torch source of ``geometry`` to ``path`` and return the path.

    The module imports torch only and defines, for factors called G and H,
    ``inner, gradient, vertical, momentum, acceleration, taylor_1, ..., taylor_4`` and the constants ``NAME`` and
    ``FACTORS``. Before anything is written, the source is run on symbols: each function returns the normal form of its
    formula.

    Args:
        geometry: what ``derive`` gave.
        path: the file to write.
        sizes: typical values of the symbolic sizes, such as {"n": 768, "m": 768, "h": 64}; they decide in which order
            products are evaluated, never what is computed.

    Raises:
        CertificateError: a claim about the geometry does not hold (with its witness); nothing is written.
    """
    geometry.certificate.require()
    source = module_source(geometry, f"quotientgeo.generate from the declaration of {geometry.name}", sizes)
    check_source(source, geometry)
    target = Path(path)
    target.write_text(source, encoding="utf-8")
    return target
