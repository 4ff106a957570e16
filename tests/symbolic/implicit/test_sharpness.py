"""An implicit metric end to end: a layer's own symmetry, verified, measured, and the value unchanged along the orbit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from tests.symbolic.implicit.declarations import geometry

Batch = tuple[Tensor, Tensor]


class Layer(nn.Module):
    """tanh(o + W (b + x)): a shift of b is compensated in o."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.b, self.o, self.W = (
            nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64) / 2)
            for shape in ((3,), (4,), (4, 3))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.o + (x + self.b) @ self.W.mT)


class Product(nn.Module):
    """x G H'."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.G, self.H = (
            nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64) / 2)
            for shape in ((5, 2), (4, 2))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.G @ self.H.mT)


CASES = {
    "folded": (Layer, {"b": qg.Leg("b"), "o": qg.Leg("o"), "W": qg.Leg("W", axis=1)}, 3, None),
    "pair": (Product, {"G": qg.Leg("G", axis=1), "H": qg.Leg("H", axis=1)}, 5, None),
    "family": (Product, {"G": qg.Leg("G", axis=1), "H": qg.Leg("H", axis=1)}, 5, {"eps": 0.3}),
}


def loss(model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
    return (model(batch[0]) - batch[1]).square().sum(), len(batch[0])


@pytest.mark.parametrize("name", CASES)
def test_sharpness_is_the_same_on_the_whole_orbit(name: str) -> None:
    make, legs, width, parameters = CASES[name]
    generator = torch.Generator().manual_seed(2)
    batch = tuple(torch.randn(16, k, generator=generator, dtype=torch.float64) for k in (width, 4))

    def graph_of(model: nn.Module) -> qg.SymmetryGraph:
        graph = qg.SymmetryGraph(model)
        graph.add(qg.DeclaredBlock("own", geometry(name), legs, parameters=parameters))
        return graph

    model = make().eval()
    graph = graph_of(model)
    graph.verify(batch, lambda model, batch: model(batch[0])).require()
    values, euclidean = [], []
    for state in (model.state_dict(), graph.move(1, 5.0)):
        point = make().eval()
        point.load_state_dict(state)
        found = qg.sharpness(point, loss, [batch], graph=graph_of(point), rho=0.05, starts=2, geodesic=3)
        values.append(found.value)
        euclidean.append(qg.sharpness(point, loss, [batch], measure="euclidean", rho=0.05, starts=2).value)
    assert values[1] == pytest.approx(values[0], rel=1e-6)
    assert values[0] > 0
    assert euclidean[1] != pytest.approx(euclidean[0], rel=1e-2)
