"""Every geometry of the catalogue, found on the disk; points, tangents and group elements from its generated code alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import quotientgeo.catalogue
from quotientgeo.geometry.derived import Derived
from quotientgeo.geometry.derived_closed import admitted_sizes
from quotientgeo.geometry.derived_samples import numeric_shapes, random_factors, random_tangent
from quotientgeo.parameters import bound_module

Factors = tuple[Tensor, ...]
CATALOGUE = sorted(path.parent.name for path in Path(quotientgeo.catalogue.__file__).parent.glob("*/generated.py"))

# One of each kind of group and of each way to the formulas (closed, solved for, implicit): what is dear runs on these each time,
# on the whole catalogue where minutes may be spent.
REPRESENTATIVES = (
    "diagonal_network_mixed",
    "gl_pair_damped",
    "gl_pair_invariant",
    "gl_pair_mixed",
    "layer_rescaling_mixed",
    "linear_chain_invariant",
    "neuron_rescaling_mixed",
    "orthogonal_pair_euclidean",
    "rope_pair_mixed",
    "value_bias_flat",
)
DEAR = [name if name in REPRESENTATIVES else pytest.param(name, marks=pytest.mark.slow) for name in CATALOGUE]

VALUE = 0.3  # of every parameter
SMALL = 1e-3  # well below the entries of any tangent here


@cache
def sizes_of(name: str) -> dict[str, int]:
    return admitted_sizes(Derived(generated(name)))


def generated(name: str) -> ModuleType:
    """The generated module, at VALUE where its metric has parameters."""
    module = import_module(f"quotientgeo.catalogue.{name}.generated")
    return bound_module(module, dict.fromkeys(getattr(module, "PARAMETERS", ()), VALUE))


def with_fault(module: ModuleType, **functions: Callable[..., Any]) -> ModuleType:
    """A copy of a generated module with some functions replaced."""
    copy = ModuleType(module.__name__)
    copy.__dict__.update(module.__dict__)
    copy.__dict__.update(functions)
    return copy


@dataclass(frozen=True)
class Setting:
    """A geometry at small sizes. ``module`` replaces the catalogue's where a fault is planted."""

    name: str
    batch: tuple[int, ...] = (2,)
    seed: int = 0
    module: ModuleType | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def geometry(self) -> Derived:
        return Derived(self.module or generated(self.name))

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        return numeric_shapes(generated(self.name).FACTORS, sizes_of(self.name), self.name)

    @property
    def total(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def generator(self, stream: int) -> torch.Generator:
        return torch.Generator().manual_seed(1000 * self.seed + stream)

    def point(self, stream: int = 0) -> Factors:
        return random_factors(self.shapes, self.batch, generator=self.generator(stream))

    def tangent(self, x: Factors, length: float = 0.1, stream: int = 1) -> Factors:
        """Any tangent of a length relative to the point's own, by the catalogue's metric."""
        sound = Derived(generated(self.name))
        xi = random_tangent(self.shapes, self.batch, generator=self.generator(stream))
        return scaled(length * sound.norm(x, x) / sound.norm(x, xi), xi)

    def horizontal(self, x: Factors, length: float = 0.1, stream: int = 1) -> Factors:
        """The horizontal part of such a tangent, by the catalogue's projection."""
        return Derived(generated(self.name)).project(x, self.tangent(x, length, stream))

    def element(self, stream: int = 9) -> GroupElement:
        """exp X of a random Lie algebra element: the momentum of a tangent is one."""
        module = generated(self.name)
        single = replace(self, batch=())
        x, xi = single.point(stream), random_tangent(self.shapes, generator=self.generator(stream + 1))
        momentum = module.momentum(*x, *xi)
        momentum = (momentum,) if isinstance(momentum, Tensor) else momentum
        return GroupElement(module, tuple(0.7 * J / J.norm() for J in momentum))


@dataclass(frozen=True)
class GroupElement:
    """exp X, acting by the flow of the vertical field, which is affine in the point, as every action of the catalogue is."""

    module: ModuleType
    X: Factors

    def __call__(self, x: Factors) -> Factors:
        term = tuple(self.module.vertical(*x, *self.X))
        end = plus(x, term)
        for k in range(2, 40):
            term = scaled(1.0 / k, self.linear(term))
            end = plus(end, term)
        return end

    def tangent(self, xi: Factors) -> Factors:
        """The derivative of the action, which is the same at every point."""
        term = end = xi
        for k in range(1, 40):
            term = scaled(1.0 / k, self.linear(term))
            end = plus(end, term)
        return end

    def linear(self, xi: Factors) -> Factors:
        there = self.module.vertical(*xi, *self.X)
        zero = self.module.vertical(*(torch.zeros_like(t) for t in xi), *self.X)
        return plus(there, zero, -1.0)

    @property
    def inverse(self) -> GroupElement:
        return replace(self, X=tuple(-X for X in self.X))


def plus(a: Factors, b: Factors, factor: float = 1.0) -> Factors:
    return tuple(s + factor * t for s, t in zip(a, b, strict=True))


def scaled(factor: Any, a: Factors) -> Factors:
    factor = factor[..., None, None] if isinstance(factor, Tensor) else factor
    return tuple(factor * t for t in a)


def flat(a: Factors) -> Tensor:
    """All factors in one dimension, (..., N)."""
    return torch.cat([t.flatten(-2) for t in a], -1)


def factors(vector: Tensor, shapes: tuple[tuple[int, int], ...]) -> Factors:
    parts = vector.split([math.prod(shape) for shape in shapes], -1)
    return tuple(part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True))


def gap(a: Factors, b: Factors) -> float:
    """Largest difference relative to the largest entry of ``b``, or to SMALL where that is less: a quotient may be a point."""
    return float((flat(a) - flat(b)).abs().max() / flat(b).abs().max().clamp_min(SMALL))
