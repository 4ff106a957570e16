"""What is mutated: every entry of the catalogue, discovered when the tests run."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

import quotientgeo.catalogue
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry, derive_formulas

FOLDER = Path(quotientgeo.catalogue.__path__[0])


def entries() -> list[str]:
    """Names of the catalogue's folders that declare a geometry."""
    return sorted(path.parent.name for path in FOLDER.glob("*/declaration.py"))


@cache
def declared(entry: str) -> tuple[Symmetry, Metric]:
    module = import_module(f"quotientgeo.catalogue.{entry}.declaration")
    return module.symmetry, module.metric


@cache
def geometry(entry: str) -> Geometry:
    return derive_formulas(*declared(entry))


@cache
def source(entry: str) -> str:
    """The generated module; made here where the entry has not been generated yet."""
    from quotientgeo.symbolic.codegen.module import CATALOGUE_ORIGIN, module_source

    path = FOLDER / entry / "generated.py"
    return path.read_text(encoding="utf-8") if path.exists() else module_source(geometry(entry), CATALOGUE_ORIGIN)
