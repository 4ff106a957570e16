"""A symmetry of one's own: a layer tanh(G W H' x), which two groups can move without a change of what it computes.

Derive and prove the geometry, say which parameters are its factors, verify, measure, and move the model along its orbit:
the geodesic value stays, the Euclidean one does not.
"""

import torch
from sympy import Trace
from torch import nn

import quotientgeo as qg

symmetry = qg.Symmetry(
    "bilinear",
    group=(qg.GL("h"), qg.GL("k")),
    factors={"G": ("n", "h"), "W": ("h", "k"), "H": ("m", "k")},
    action=lambda A, B, G, W, H: (G * A.inv(), A * W * B.inv(), H * B.T),
    preserves=lambda G, W, H: G * W * H.T,
)


def inner(p, a, b):
    """tr(P^-1 a_G' b_G) + tr(P a_W Q b_W') + tr(Q^-1 a_H' b_H) with P = G'G, Q = H'H: a sum of traces, each invariant."""
    P, Q = p.G.T * p.G, p.H.T * p.H
    return Trace(P.I * a.G.T * b.G) + Trace(P * a.W * Q * b.W.T) + Trace(Q.I * a.H.T * b.H)


class Net(nn.Module):
    """12 inputs, 10 hidden units, 3 classes; the hidden weight is G W H' with G (10, 3), W (3, 2), H (12, 2)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.core, self.right = (nn.Linear(i, o, bias=False) for i, o in ((3, 10), (2, 3), (12, 2)))
        self.readout = nn.Linear(10, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.readout(torch.tanh(self.left(self.core(self.right(x)))))


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, int]:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="sum"), len(batch[1])


def graph_of(model: nn.Module, geometry: object) -> qg.SymmetryGraph:
    """A leg says which axis of its parameter is the factor's columns: axis 0 is the transpose, H = right.weight'."""
    legs = {"G": qg.Leg("left.weight", axis=1), "W": qg.Leg("core.weight", axis=1), "H": qg.Leg("right.weight", axis=0)}
    graph = qg.SymmetryGraph(model)
    graph.add(qg.DeclaredBlock("hidden", geometry, legs, kind="bilinear"))
    return graph


def main() -> list[tuple[str, float, float]]:
    x = torch.randn(64, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    batch = (x, (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long())
    model = Net().double().eval()
    optimiser = torch.optim.Rprop(model.parameters())
    for _ in range(30):
        optimiser.zero_grad()
        loss(model, batch)[0].backward()
        optimiser.step()
    geometry = qg.derive(symmetry, qg.Metric("weighted", symmetry, inner))
    print(geometry.certificate.summary)
    graph = graph_of(model, geometry)
    print(graph.verify(batch, lambda model, batch: model(batch[0])))
    rows = []
    states = {"as trained": model.state_dict()} | {f"moved, condition {c:g}": graph.move(1, c) for c in (10.0, 1e3)}
    for name, state in states.items():
        point = Net().double().eval()
        point.load_state_dict(state)
        geodesic = qg.sharpness(point, loss, [batch], graph=graph_of(point, geometry), rho=0.1, starts=2)
        euclidean = qg.sharpness(point, loss, [batch], measure="euclidean", rho=0.1, starts=2)
        print(f"{name:<22} geodesic {geodesic.value:.12f}   euclidean {euclidean.value:.6f}")
        rows.append((name, geodesic.value, euclidean.value))
    return rows


if __name__ == "__main__":
    main()
