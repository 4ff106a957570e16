"""The public way to write a geometry's code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from quotientgeo.symbolic.codegen.exposition import derivation_page
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
        path: the .py file to write; any other path is a folder for generated.py, certificate.json (every claim, with the
            digest of the source) and derivation.md (the derivation for a reader). The same declaration gives the same bytes.
        sizes: typical values of the symbolic sizes, such as {"n": 768, "m": 768, "h": 64}; they decide in which order
            products are evaluated, never what is computed.

    Raises:
        CertificateError: a claim about the geometry does not hold (with its witness); nothing is written.
    """
    geometry.certificate.require()
    origin = f"quotientgeo.generate from the declaration of {geometry.name}"
    source = module_source(geometry, origin, sizes)
    checked = check_source(source, geometry)
    target = Path(path)
    if target.suffix == ".py":
        target.write_text(source, encoding="utf-8")
        return target
    texts = {
        "generated.py": source,
        "certificate.json": certificate_json(geometry, source, checked),
        "derivation.md": derivation_page(geometry, origin, links=False),
    }
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (target / name).write_bytes(text.encode())
    return target


def certificate_json(geometry: Geometry, source: str, checked: Mapping[str, str]) -> str:
    """The certificate, with the digest of the source it covers and how that source was checked."""
    record = json.loads(geometry.certificate.to_json())
    record["generated"] = {
        "file": "generated.py",
        "sha256": hashlib.sha256(source.encode()).hexdigest(),
        "method": "the source is run on symbols; each function returns the normal form of its formula",
        "functions": dict(checked),
    }
    return json.dumps(record, indent=1, ensure_ascii=True) + "\n"
