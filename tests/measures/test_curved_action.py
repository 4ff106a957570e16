"""A group that bends coordinates: exact geodesics move with it, their Taylor polynomials do not, and are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from sympy import DiagMatrix, Trace
from torch import nn

import quotientgeo as qg
from quotientgeo.catalogue.gl_pair_mixed.declaration import metric, symmetry
from quotientgeo.errors import AbsentOperationError
from quotientgeo.symbolic.codegen.exposition import derivation_page

# c + V (w * b), what a model sees, with the shift t of b weighed by w: c - V diag(w) t is quadratic in (V, w)
FOLDED = qg.Symmetry(
    "weighed",
    group=qg.Translation("d"),
    factors={"w": ("d", 1), "b": ("d", 1), "V": ("m", "d"), "c": ("m", 1)},
    action=lambda t, w, b, V, c: (w, b + t, V, c - V * DiagMatrix(w) * t),
    preserves=lambda w, b, V, c: (w, V, c + V * DiagMatrix(w) * b),
)


def inner(p: Any, x: Any, y: Any) -> Any:
    """Flat in w, b, V and what the model sees."""
    seen, other = (
        u.c + u.V * DiagMatrix(p.w) * p.b + p.V * DiagMatrix(p.b) * u.w + p.V * DiagMatrix(p.w) * u.b for u in (x, y)
    )
    return sum((Trace(x[f].T * y[f]) for f in "wbV"), Trace(seen.T * other))


@pytest.fixture(scope="module")
def geometry() -> Any:
    return qg.derive(FOLDED, qg.Metric("flat", FOLDED, inner))


class Folded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for name, shape in (("w", (3,)), ("b", (3,)), ("V", (4, 3)), ("c", (4,))):
            self.register_parameter(
                name, nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64) + 1)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.V * self.w).T + self.c + self.V @ (self.w * self.b)


def graph_of(model: nn.Module, geometry: Any) -> Any:
    graph = qg.SymmetryGraph(model)
    legs = {"w": qg.Leg("w"), "b": qg.Leg("b"), "V": qg.Leg("V", axis=1), "c": qg.Leg("c")}
    graph.add(qg.DeclaredBlock("folded", geometry, legs))
    return graph


def loss(model: nn.Module, batch: torch.Tensor) -> tuple[torch.Tensor, int]:
    return model(batch).tanh().square().sum(), len(batch)


def test_it_is_known_that_the_action_is_not_affine(geometry: Any) -> None:
    assert not geometry.affine_action
    assert geometry.module().AFFINE_ACTION is False
    assert qg.derive(symmetry, metric, levels="a").affine_action
    page = derivation_page(geometry, "a test").split("**Geodesics move with the group.**")[1]
    (row,) = (line for line in page.splitlines() if line.startswith(r"\dot{\xi}_{c} &\longmapsto"))
    assert re.search(r"- 2 .*\\xi_\{[Vw]\}.*\\xi_\{[Vw]\}", row)  # the second differential of the action
    assert "is *not* equivariant when it is cut off" in page


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_taylor_polynomials_are_refused_where_invariance_is_promised(geometry: Any, order: Any) -> None:
    with pytest.raises(AbsentOperationError, match=r"not affine in the point.*use geodesic=\"exact\""):
        qg.QuotientManifold(geometry, sizes={"d": 3, "m": 4}, geodesic=order)
    model = Folded().eval()
    batch = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with pytest.raises(AbsentOperationError, match="not affine in the point"):
        qg.sharpness(model, loss, [batch], graph=graph_of(model, geometry), geodesic=order, steps=2)


def test_exact_geodesics_do_not_see_the_orbit(geometry: Any) -> None:
    model, moved = Folded().eval(), Folded().eval()
    t = torch.tensor([0.7, -1.3, 2.0], dtype=torch.float64)
    with torch.no_grad():
        moved.b += t
        moved.c -= model.V @ (model.w * t)
    batch = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(batch), moved(batch), rtol=1e-12, atol=1e-12)
    here, there = (
        qg.sharpness(one, loss, [batch], graph=graph_of(one, geometry), rho=0.2, steps=8) for one in (model, moved)
    )
    assert here.value == pytest.approx(there.value, rel=1e-7)
    plain = [qg.sharpness(one, loss, [batch], measure="euclidean", rho=0.2, steps=8).value for one in (model, moved)]
    assert abs(plain[0] / plain[1] - 1) > 1e-3
