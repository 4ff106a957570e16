"""Seeded pairs of a chosen spectrum and gauge, and horizontal tangents of a chosen size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from quotientgeo.geometry.coordinates import Horizontal, draw_start
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.groups import GL

METRICS = ("invariant", "mixed")


@dataclass(frozen=True)
class Case:
    """A pair G = F_G s^1/2 A^-1, H = F_H s^1/2 A' with singular values 1 .. 1/spectrum of G H' and cond(A) = gauge."""

    n: int
    m: int
    h: int
    spectrum: float = 10.0
    gauge: float = 10.0
    seed: int = 0
    batch: tuple[int, ...] = ()

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def factors(self) -> tuple[Tensor, Tensor]:
        generator = self.generator()
        root = self.spectrum ** torch.linspace(0.0, -0.5, self.h, dtype=torch.float64)
        F_G, F_H = (
            torch.linalg.qr(torch.randn((*self.batch, rows, self.h), generator=generator, dtype=torch.float64)).Q
            for rows in (self.n, self.m)
        )
        A = GL(self.h).random_element(generator, condition=self.gauge, batch=self.batch)
        return torch.linalg.solve(A, F_G * root, left=False), F_H * root @ A.mT

    def geometry(self, metric: str, **options: object) -> PairGeometry:
        return PairGeometry.at(*self.factors(), metric=metric, **options)


def admissible_size(metric: str, geometry: PairGeometry, fraction: float = 0.5) -> Tensor:
    """``fraction`` of 1 (invariant), or of the bound s_h / sqrt(2) below which mixed geodesics surely exist; shape (...)."""
    if metric == "invariant":
        return fraction * torch.ones_like(geometry.frames.s[..., -1])
    return fraction * geometry.frames.s[..., -1] / 2**0.5


def horizontal(geometry: PairGeometry, size: Tensor | float, seed: int = 0) -> Horizontal:
    """A seeded horizontal tangent with |z| = size in every block."""
    z = draw_start(geometry.frames, torch.Generator().manual_seed(1000 + seed))
    return z.scale(size / z.squared_norm().sqrt())


def whitened(geometry: PairGeometry, Y_G: Tensor, Y_H: Tensor) -> tuple[Tensor, Tensor]:
    """Points or tangents of the original gauge as seen from the frames: Y T^-1."""
    return (
        torch.linalg.solve(geometry.frames.T_G, Y_G, left=False),
        torch.linalg.solve(geometry.frames.T_H, Y_H, left=False),
    )


def gap(first: tuple[Tensor, ...], second: tuple[Tensor, ...]) -> float:
    """Largest absolute difference of two tuples of tensors."""
    return max(float((a - b).abs().max()) for a, b in zip(first, second, strict=True) if a.numel())
