"""Generated modules as objects: found in what a derivation gave, and found again after a round trip through pickle."""

from __future__ import annotations

import linecache
import pickle
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from quotientgeo.errors import ArgumentError
from quotientgeo.parameters import bound_module

_NEEDED = ("NAME", "FACTORS", "inner", "gradient", "vertical", "momentum", "horizontal", "acceleration", "christoffel")


def generated_module(geometry: Any, parameters: Mapping[str, float] | None = None) -> ModuleType:
    """The generated module of what ``derive`` gave, or the module itself, at values of its metric's parameters.

    Raises:
        ArgumentError: it is neither, or a parameter has no value, or no positive one.
    """
    module = geometry.module() if callable(getattr(geometry, "module", None)) else geometry
    missing = [name for name in _NEEDED if not hasattr(module, name)]
    if missing:
        raise ArgumentError(
            f"{geometry!r} is neither a derived geometry nor a generated module (it has no {missing[0]}): pass what derive() "
            "returned, or import what was generated from it"
        )
    return bound_module(module, parameters)


def module_address(module: ModuleType) -> tuple[str, str | None]:
    """(name, None) of a module that can be imported, (name, source) of one that was made in memory.

    Raises:
        pickle.PicklingError: it is neither.
    """
    name = module.__name__
    if getattr(module, "__spec__", None) is not None:  # not so for what was made in memory, even if it is registered
        return name, None
    source = getattr(module, "__source__", None) or "".join(linecache.getlines(getattr(module, "__file__", None) or ""))
    if not source:
        raise pickle.PicklingError(
            f"the generated module {name} cannot be imported by its name, and its source is not known: write it to a file with "
            "quotientgeo.generate and import that"
        )
    return name, str(source)


def module_at(name: str, source: str | None) -> ModuleType:
    """The module of an address."""
    if source is None:
        return import_module(name)
    module = ModuleType(name)
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    module.__dict__["__source__"] = source
    return module
