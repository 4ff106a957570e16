"""``sharpness`` on trained diagonal networks with a declared geometry, against values that were solved to convergence.

The symmetry (u, v) -> (A u, A^-1 v), A diagonal, is declared here in a dozen lines; the reference is tests/oracle/diagonal.py.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
import torch
from sympy import DiagMatrix, HadamardProduct, Trace
from torch import Tensor, nn

import quotientgeo as qg
from tests.oracle.diagonal import MEASURES, RADII, SETS, maximise, networks, reference, trust_region

AGREE = 1e-6
ATTEMPTS = 10  # seeds at most
SOME = (0,)  # networks that are measured in every way each time; the others are left to slow tests

symmetry = qg.Symmetry(
    "diagonal",
    group=qg.NonzeroDiagonal("d"),
    factors={"u": ("d", 1), "v": ("d", 1)},
    action=lambda A, u, v: (A * u, A.inv() * v),
    preserves=HadamardProduct,
)
METRICS = {
    "invariant": lambda p, a, b: (
        Trace(DiagMatrix(p.u) ** -2 * a.u * b.u.T) + Trace(DiagMatrix(p.v) ** -2 * a.v * b.v.T)
    ),
    "mixed": lambda p, a, b: Trace(DiagMatrix(p.v) ** 2 * a.u * b.u.T) + Trace(DiagMatrix(p.u) ** 2 * a.v * b.v.T),
}


@cache
def geometry(metric: str) -> Any:
    return qg.derive(symmetry, qg.Metric(metric, symmetry, METRICS[metric]))


class DiagonalNetwork(nn.Module):
    """x -> x'(u * v); u, v (d,)."""

    def __init__(self, u: np.ndarray, v: np.ndarray) -> None:
        super().__init__()
        self.u, self.v = nn.Parameter(torch.tensor(u)), nn.Parameter(torch.tensor(v))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.u * self.v)


def squared_error(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return ((model(x) - y) ** 2).sum(), len(y)


def measured(
    name: str,
    net: int,
    rho: float,
    metric: str | None = None,
    kind: str = "geodesic",
    stretch: Tensor | None = None,
    **options: Any,
) -> Any:
    """The sharpness of one network, moved along its orbit where ``stretch`` (d,) is given. metric None: no symmetry is used."""
    nets = networks(name)
    model = DiagonalNetwork(nets.u[net], nets.v[net]).eval()
    if stretch is not None:
        with torch.no_grad():
            model.u.mul_(stretch)
            model.v.div_(stretch)
    if metric is not None:
        graph = qg.symmetry_graph(model, symmetries="none")
        graph.add(qg.DeclaredBlock("weights", geometry(metric), {"u": qg.Leg("u"), "v": qg.Leg("v")}))
        options |= {"graph": graph, "metric": geometry(metric)}
    batch = (torch.tensor(nets.X), torch.tensor(nets.y))
    return qg.sharpness(model, squared_error, [batch], measure=kind, rho=rho, **options)


def stated(name: str, net: int, rho: str, measure: str) -> float:
    return reference()["sets"][name]["rho"][rho]["values"][measure][net]


def solved(name: str, net: int, rho: str, measure: str, metric: str | None = None, **options: Any) -> float:
    """The best value of several seeds, until the reference is reached.

    Where a network fits its data the rise is even in the displacement to second order: maxima come in opposite pairs, of which
    the gradient start finds one, and not always the higher. The second start begins opposite to it; in a large ball there are
    more, which random starts find.
    """
    best = -np.inf
    for seed in range(ATTEMPTS):
        best = max(best, measured(name, net, float(rho), metric, starts=4 if seed else 2, seed=seed, **options).value)
        if best == pytest.approx(stated(name, net, rho, measure), rel=AGREE):
            break
    return best


def some_and_all(*measures: str) -> list[Any]:
    """(measure, set, radius, networks): a few of each at one radius, and all of them where minutes may be spent."""
    cases = [(m, s, r) for m in measures for s in SETS for r in RADII]
    few = [pytest.param(*case, SOME, id="-".join((*case, "some"))) for case in cases if case[2] == RADII[1]]
    return few + [pytest.param(*case, range(50), id="-".join((*case, "all")), marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(("measure", "name", "rho", "chosen"), some_and_all("inv", "inv2"))
def test_geodesic_sharpness_with_the_declared_geometry(measure: str, name: str, rho: str, chosen: Any) -> None:
    order: Literal["exact", 2] = "exact" if measure == "inv" else 2
    for net in chosen:
        found = solved(name, net, rho, measure, "invariant", geodesic=order, steps=50)
        assert found == pytest.approx(stated(name, net, rho, measure), rel=AGREE), net


@pytest.mark.parametrize(("measure", "name", "rho", "chosen"), some_and_all("adaptive", "euclid"))
def test_measures_without_a_symmetry(measure: str, name: str, rho: str, chosen: Any) -> None:
    kind = {"adaptive": "adaptive", "euclid": "euclidean"}[measure]
    for net in chosen:
        found = solved(name, net, rho, measure, kind=kind, steps=150)
        assert found == pytest.approx(stated(name, net, rho, measure), rel=AGREE), net


@pytest.mark.parametrize("name", SETS)
def test_the_second_start_finds_the_higher_of_two_opposite_maxima(name: str) -> None:
    missed = 0
    for net in range(8):
        one, two = (measured(name, net, 0.1, "invariant", geodesic=2, steps=50, starts=k).value for k in (1, 2))
        assert two == pytest.approx(stated(name, net, "0.1", "inv2"), rel=AGREE), net
        missed += one != pytest.approx(two, rel=AGREE)
    assert missed, "networks of which one start finds the lower maximum"


@pytest.mark.parametrize("name", SETS)
def test_other_measures_would_not_pass(name: str) -> None:
    """The values that are compared are far enough apart: a mistaken order or metric is seen."""
    step = measured(name, 0, 0.1, "invariant", geodesic=2, steps=50).value
    first = measured(name, 0, 0.1, "invariant", geodesic=1, steps=50).value
    exact = stated(name, 0, "0.1", "inv")
    assert abs(step / exact - 1) > 1e3 * AGREE
    assert abs(first / exact - 1) > 1e3 * AGREE
    assert measured(name, 0, 0.1 / np.sqrt(2), "invariant", steps=50).value != pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("net", [0, pytest.param(7, marks=pytest.mark.slow)])
def test_mixed_inside_its_domain_is_the_trust_region_value(name: str, net: int) -> None:
    nets = networks(name)
    rho = 0.5 * float(np.abs(nets.beta[net]).min()) / np.sqrt(2)
    expected = trust_region(nets.gram, nets.slope[net], np.sqrt(2) * rho).value
    found = measured(name, net, rho, "mixed", steps=100)
    assert found.outcome == "ok"
    assert found.value == pytest.approx(expected, rel=AGREE)


@pytest.mark.parametrize("name", [SETS[0], pytest.param(SETS[1], marks=pytest.mark.slow)])
def test_mixed_beyond_its_domain_has_no_value(name: str) -> None:
    found = measured(name, 0, 0.01, "mixed", steps=2)
    assert np.isnan(found.value)
    assert found.outcome == "geodesic_collapsed"


@pytest.mark.parametrize("metric", METRICS)
def test_the_value_is_that_of_the_orbit(metric: str) -> None:
    """Weights (a_i u_i, v_i / a_i) with a_i of either sign and four powers of ten; the Euclidean measure tells them apart."""
    rng = np.random.default_rng(2)
    stretch = torch.tensor(10 ** rng.uniform(-2, 2, 200) * rng.choice([-1.0, 1.0], 200))
    rho = 0.1 if metric == "invariant" else 0.5 * float(np.abs(networks("a0").beta[1]).min()) / np.sqrt(2)
    here = measured("a0", 1, rho, metric, steps=30).value
    there = measured("a0", 1, rho, metric, stretch=stretch, steps=30).value
    assert there == pytest.approx(here, rel=1e-9)
    plain = [measured("a0", 1, 0.1, kind="euclidean", steps=10, stretch=s).value for s in (None, stretch)]
    assert abs(plain[1] / plain[0] - 1) > 0.1


def test_pairs_of_single_numbers_give_the_same() -> None:
    """A diagonal network is also d pairs G H' with n = m = h = 1, for which a closed form is used."""
    nets = networks("a0")
    model = DiagonalNetwork(nets.u[2], nets.v[2]).eval()
    graph = qg.symmetry_graph(model, symmetries="none")
    for i in range(nets.u.shape[1]):
        sides = {"G": (qg.Leg("u", 0, (i,)),), "H": (qg.Leg("v", 0, (i,)),)}
        graph.add(qg.PairBlock(f"coordinate {i}", qg.GL(1), **sides))
    batch = (torch.tensor(nets.X), torch.tensor(nets.y))
    found = qg.sharpness(model, squared_error, [batch], graph=graph, rho=0.1, steps=50).value
    assert found == pytest.approx(stated("a0", 2, "0.1", "inv"), rel=AGREE)
    assert found == pytest.approx(float(maximise(nets, MEASURES["inv"], 0.1).value[2]), rel=AGREE)
