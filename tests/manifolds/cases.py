"""The table of cases: a GLPair, a point in an arbitrary gauge and tangents, as they are or after a round trip."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace

import geoopt
import torch
from torch import Tensor

import quotientgeo as qg
from quotientgeo.groups import GL

METRICS = ("invariant", "mixed")
GEODESICS = ("exact", 1, 2, 3, 4)


@dataclass(frozen=True)
class Case:
    """One row of the table. ``trip``: what the parameter, with its manifold, went through before it is used."""

    metric: str = "invariant"
    geodesic: str | int = "exact"
    n: int = 6
    m: int = 4
    h: int = 2
    batch: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float64
    trip: str = ""
    gauge: float = 5.0
    seed: int = 0

    def __str__(self) -> str:
        marks = ["x".join(map(str, (*self.batch, self.n, self.m, self.h)))]
        marks += [str(self.dtype).removeprefix("torch.")] * (self.dtype != torch.float64) + [self.trip] * bool(
            self.trip
        )
        return "-".join([self.metric, str(self.geodesic), *marks])

    def generator(self, stream: int = 0) -> torch.Generator:
        return torch.Generator().manual_seed(1000 * self.seed + stream)

    def normal(self, *shape: int, stream: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator(stream), dtype=torch.float64).to(self.dtype)

    @property
    def tolerance(self) -> float:
        """Relative rounding of a result in this dtype, at the table's gauge and spectrum."""
        return 1e-11 if self.dtype == torch.float64 else 3e-5

    def group_element(self, stream: int = 9) -> Tensor:
        A = GL(self.h).random_element(self.generator(stream), condition=self.gauge, batch=self.batch)
        return A.to(self.dtype)

    def parameter(self) -> geoopt.ManifoldParameter:
        manifold = qg.GLPair(self.n, self.m, metric=self.metric, geodesic=self.geodesic)
        shape = (*self.batch, self.n + self.m, self.h)
        point = act(self.group_element(1), manifold.random(shape, dtype=self.dtype, generator=self.generator()), self.n)
        parameter = geoopt.ManifoldParameter(point, manifold=manifold)
        trips = {"": lambda p: p, "deepcopy": copy.deepcopy, "pickle": lambda p: pickle.loads(pickle.dumps(p))}
        return trips[self.trip](parameter)

    def setting(self) -> tuple[qg.GLPair, Tensor]:
        """(manifold, point): the manifold is the one that the parameter carries after its trip."""
        parameter = self.parameter()
        return parameter.manifold, parameter.detach()

    def ambient(self, x: Tensor, size: float = 0.3, stream: int = 2) -> Tensor:
        """A tangent of the total space, neither horizontal nor vertical, of about ``size`` relative to x in any gauge."""
        A = self.normal(*x.shape[:-1], self.h, stream=stream)
        G, H = x[..., : self.n, :], x[..., self.n :, :]
        R = [torch.linalg.qr(factor.double()).R.to(x.dtype) for factor in (G, H)]
        X = torch.cat([A[..., : self.n, :] @ R[0], A[..., self.n :, :] @ R[1]], -2)
        return size * X / (self.n + self.m) ** 0.5

    def horizontal(self, manifold: qg.GLPair, x: Tensor, size: float = 0.3, stream: int = 2) -> Tensor:
        return manifold.proju(x, self.ambient(x, size, stream))

    def function(self, x: Tensor, stream: int = 5) -> Tensor:
        """A generic smooth function of G H', a scalar that adds up the batch."""
        W = product(x, self.n)
        weights = self.normal(*W.shape, stream=stream).to(x.dtype)
        return ((W + 0.1 * W**2).sin() * weights).sum()

    def egrad(self, x: Tensor) -> Tensor:
        x = x.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self.function(x), x)
        return gradient


def act(A: Tensor, x: Tensor, n: int) -> Tensor:
    """(G A^-1, H A') on points and tangents."""
    return torch.cat([torch.linalg.solve(A, x[..., :n, :], left=False), x[..., n:, :] @ A.mT], -2)


def act_on_gradient(A: Tensor, g: Tensor, n: int) -> Tensor:
    """What the same element does to Euclidean gradients: the pairing with tangents is kept."""
    return torch.cat([g[..., :n, :] @ A.mT, torch.linalg.solve(A, g[..., n:, :], left=False)], -2)


def product(x: Tensor, n: int) -> Tensor:
    return x[..., :n, :] @ x[..., n:, :].mT


def relative(value: Tensor, wanted: Tensor) -> float:
    """Largest difference relative to the largest entry of ``wanted``."""
    return float((value.double() - wanted.double()).abs().max() / wanted.double().abs().max())


def _table() -> list[Case]:
    each = [Case(metric=metric, geodesic=geodesic) for metric in METRICS for geodesic in GEODESICS]
    changes = (
        {},
        {"batch": (3,)},
        {"batch": (2, 2), "n": 3, "m": 5},
        {"dtype": torch.float32},
        {"trip": "pickle"},
        {"trip": "deepcopy"},
        {"h": 1},
        {"n": 3, "m": 5, "h": 3},
        {"n": 3, "m": 3, "h": 3},
        {"n": 1, "m": 1, "h": 1},
    )
    return [replace(case, **change) for case in each for change in changes]


TABLE = _table()
