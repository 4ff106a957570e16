"""Closed forms that come with the catalogue: used where their certificate covers exactly the code that is there."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from quotientgeo.geometry.derived_closed import Attached

_PACKAGE = "quotientgeo.catalogue"
_DECLARED = re.compile(r"^Declaration ([0-9a-f]{16}),", re.MULTILINE)
_STATUS = "proven for all sizes"


def shipped(module: ModuleType) -> Attached | None:
    """The catalogue's closed form of a generated module, if it has one that was proven for this very declaration.

    The module must be the catalogue's own, or made in memory from the same declaration; a copy with other functions has none.
    What is trusted is the certificate: it holds the digests of the closed form's text and of the generated code with which
    the proof and the comparison were made.
    """
    if sys.modules.get(module.__name__) is not module or not str(module.NAME).isidentifier():
        return None
    declared = _DECLARED.search(module.__doc__ or "")
    found = _trusted(module.NAME)
    if found is None or declared is None or found[1] != declared.group(1):
        return None
    return found[0]


@cache
def _trusted(name: str) -> tuple[Attached, str] | None:
    """(closed form, digest of its declaration) of a folder of the catalogue whose certificate covers its files."""
    spec = find_spec(f"{_PACKAGE}.{name}")
    if spec is None or spec.origin is None or not Path(spec.origin).with_name("closed_form.py").is_file():
        return None
    folder = Path(spec.origin).parent
    record = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    told = record.get("closed_form", {})
    proven = any(c["name"] == "closed_form" and c["status"] == _STATUS for c in record["claims"])
    files = {"closed_form.py": told.get("sha256"), "generated.py": told.get("generated_sha256")}
    covered = all(hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest for file, digest in files.items())
    if not (record["holds"] and proven and covered):
        return None
    closed = import_module(f"quotientgeo.catalogue.{name}.closed_form")
    attached = Attached(
        f"closed form of {name}", closed.exponential, None, None, None, 0, {}, getattr(closed, "lowest", None)
    )
    return attached, str(closed.DECLARATION)
