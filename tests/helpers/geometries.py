"""Geometries of the catalogue's generated modules, without the wait for a derivation; and one that claims too much."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from torch import Tensor

import quotientgeo as qg
from quotientgeo.errors import CertificateError


@dataclass(frozen=True)
class Certificate:
    """As much of a certificate as a block asks for."""

    broken: str = ""
    summary: str = "all claims hold"

    def require(self) -> None:
        if self.broken:
            raise CertificateError(self.broken)


@dataclass(frozen=True, eq=False)
class Loaded:
    """A generated module with the groups that its declaration names."""

    code: ModuleType
    groups: tuple[Any, ...]
    certificate: Certificate = Certificate()

    @property
    def name(self) -> str:
        return str(self.code.NAME)

    @property
    def symmetry(self) -> SimpleNamespace:
        return SimpleNamespace(groups=self.groups)

    def module(self) -> ModuleType:
        return self.code


@cache
def pair_geometry(metric: str) -> Loaded:
    """The GL pair of the catalogue with the metric "invariant" or "mixed"."""
    code = import_module(f"quotientgeo.catalogue.gl_pair_{metric}.generated")
    return Loaded(with_action(code), (qg.GL("h"),))


def with_action(code: ModuleType) -> ModuleType:
    """A module whose action was not generated yet, with that of the pair."""
    if hasattr(code, "action"):
        return code
    copy = ModuleType(code.__name__)
    copy.__dict__.update(vars(code))
    copy.action = pair_action  # type: ignore[attr-defined]
    return copy


def pair_action(A: Tensor, G: Tensor, H: Tensor) -> tuple[Tensor, Tensor]:
    """(G A^-1, H A')."""
    return G @ A.inverse(), H @ A.mT
