"""Metrics with positive parameters at given values: generated modules whose functions no longer take them.

A generated module says in ``PARAMETERS`` which numbers its functions take last, as tensors of shape (..., 1, 1). Models,
measures and manifolds call functions of points and tangents only, so they work with the module at values of these.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from quotientgeo.errors import ArgumentError


class BoundModule(ModuleType):
    """A generated module at values of its metric's parameters: ``source`` with ``values`` put in."""

    def __init__(self, source: ModuleType, values: Mapping[str, float]) -> None:
        super().__init__(source.__name__, source.__doc__)
        self.source = source
        self.values = dict(values)
        for name, found in vars(source).items():
            if not name.startswith("__"):
                setattr(self, name, _bound(found, values) if inspect.isfunction(found) else found)
        self.PARAMETERS: tuple[str, ...] = ()
        self.__file__ = getattr(source, "__file__", None)


def _bound(function: Callable[..., Any], values: Mapping[str, float]) -> Callable[..., Any]:
    """The function without its last arguments, where these are the parameters."""
    if tuple(inspect.signature(function).parameters)[-len(values) :] != tuple(values):
        return function

    def bound(*tensors: Any) -> Any:
        return function(*tensors, *(tensors[0].new_full((1, 1), value) for value in values.values()))

    bound.__name__, bound.__doc__ = function.__name__, function.__doc__
    return bound


def bound_module(module: ModuleType, parameters: Mapping[str, float] | None) -> ModuleType:
    """The module at these values; the same object for the same values. A module without parameters as it is.

    Raises:
        ArgumentError: a value is missing, unknown, or no positive number.
    """
    wanted: tuple[str, ...] = getattr(module, "PARAMETERS", ())
    given = dict(parameters or {})
    name = getattr(module, "NAME", module.__name__)
    if set(given) != set(wanted):
        has = f"the metric of {name} has {'the parameters ' + ', '.join(wanted) if wanted else 'no parameters'}"
        example = f"give parameters={{{', '.join(f'{x!r}: 0.1' for x in wanted)}}}" if wanted else "give none"
        raise ArgumentError(f"{has}, got {given or 'none'}: {example}")
    for parameter, value in given.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or value <= 0:
            raise ArgumentError(f"{name}: the parameter {parameter} must be a positive number, got {value!r:.80}")
    return _known(module, tuple((x, float(given[x])) for x in wanted)) if wanted else module


@cache
def _known(module: ModuleType, values: tuple[tuple[str, float], ...]) -> BoundModule:
    return BoundModule(module, dict(values))


class AtParameters:
    """A derived geometry at values of its metric's parameters; what takes a derived geometry takes this.

    Raises:
        ArgumentError: a value is missing, unknown, or no positive number.
    """

    def __init__(self, geometry: Any, parameters: Mapping[str, float]) -> None:
        self.geometry = geometry
        self.parameters = dict(parameters)
        self.symmetry = geometry.symmetry
        self.certificate = geometry.certificate
        values = ", ".join(f"{name}={value:g}" for name, value in self.parameters.items())
        self.name = f"{geometry.name}({values})"
        self.module()

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def module(self) -> ModuleType:
        """The generated module at these values, the same one at every call."""
        return bound_module(self.geometry.module(), self.parameters)
