"""geoopt's optimisers see the quotient: from two points of one orbit they make the same G H'."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from dataclasses import replace

import geoopt
import pytest
import torch
from torch import Tensor

from quotientgeo.manifolds import RiemannianSGD
from tests.manifolds.cases import GEODESICS, METRICS, Case, act, product, relative

STEPS = 50
RATE = 0.03
FLOAT32_STEPS = (
    1e-5  # torch's Adam restores its count of steps as float32, and geoopt computes bias corrections from that
)
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": geoopt.optim.RiemannianSGD,
    "adam": geoopt.optim.RiemannianAdam,
    "amsgrad": lambda points, lr: geoopt.optim.RiemannianAdam(points, lr=lr, amsgrad=True, stabilize=7),
    "momentum": lambda points, lr: RiemannianSGD(points, lr=lr, momentum=0.8),
    "nesterov": lambda points, lr: RiemannianSGD(points, lr=lr, momentum=0.8, nesterov=True, stabilize=7),
}
CASES = [Case(metric=metric, geodesic=geodesic) for metric in METRICS for geodesic in GEODESICS]
VARIANTS = [
    replace(case, **change)
    for case in (Case(), Case(metric="mixed", geodesic=2))
    for change in (
        {"batch": (2,)},
        {"dtype": torch.float32},
        {"trip": "pickle"},
        {"trip": "deepcopy"},
        {"n": 3, "m": 3, "h": 3},
        {"h": 1},
    )
]


def loss_of(point: Tensor, case: Case) -> Tensor:
    return (product(point, case.n) - wanted(case)).square().mean((-2, -1)).sum()


def wanted(case: Case) -> Tensor:
    """Not far from the start: a square G H' with a determinant of the other sign is behind the singular matrices."""
    return 1.5 * product(case.parameter().detach(), case.n) + 0.3 * case.normal(*case.batch, case.n, case.m, stream=7)


def train(parameter: geoopt.ManifoldParameter, case: Case, make, steps: int = STEPS) -> tuple[Tensor, list[float]]:
    optimiser, losses = make([parameter], lr=RATE), []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = loss_of(parameter, case)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return product(parameter.detach(), case.n), losses


def on_orbit(case: Case) -> tuple[geoopt.ManifoldParameter, geoopt.ManifoldParameter]:
    here = case.parameter()
    there = act(case.group_element(), here.detach(), case.n)
    return here, geoopt.ManifoldParameter(there, manifold=here.manifold)


def orbit_gap(case: Case, make) -> float:
    here, there = on_orbit(case)
    start = product(here.detach().clone(), case.n)
    (one, losses), (two, _) = train(here, case, make), train(there, case, make)
    assert losses[-1] < 0.9 * losses[0]
    assert relative(one, start) > 0.1
    assert here.manifold.check_point_on_manifold(here)
    return relative(one, two)


RUNS = [(name, case) for name in ("sgd", "adam", "momentum") for case in CASES + VARIANTS]
RUNS += [(name, case) for name in ("amsgrad", "nesterov") for case in CASES if case.geodesic == "exact"]


def each_time(name: str, case: Case) -> bool:
    """Every geodesic by one optimiser, every variant by another; all pairs of them under slow."""
    return {"sgd": case in CASES, "adam": case in VARIANTS}.get(name, case in CASES and case.geodesic in ("exact", 2))


CHOSEN = [
    pytest.param(*run, marks=[] if each_time(*run) else pytest.mark.slow, id="-".join(map(str, run))) for run in RUNS
]


@pytest.mark.parametrize(("name", "case"), CHOSEN)
def test_two_points_of_one_orbit_make_the_same_product(name, case) -> None:
    assert orbit_gap(case, OPTIMISERS[name]) < (1e-10 if case.dtype == torch.float64 else 1e-3)


@pytest.mark.parametrize("metric", METRICS)
def test_what_is_not_invariant(metric) -> None:
    """Euclidean Adam; geoopt's own momentum, which starts from the Euclidean gradient; weight decay."""
    case = Case(metric=metric, geodesic=2)
    assert orbit_gap(case, torch.optim.Adam) > 1e-2
    assert orbit_gap(case, lambda points, lr: geoopt.optim.RiemannianSGD(points, lr=lr, momentum=0.8)) > 1e-3
    assert orbit_gap(case, lambda points, lr: RiemannianSGD(points, lr=lr, momentum=0.8, weight_decay=0.01)) > 1e-3


def test_without_momentum_ours_is_geoopt_s() -> None:
    case = Case()
    assert torch.equal(
        train(case.parameter(), case, RiemannianSGD)[0], train(case.parameter(), case, OPTIMISERS["sgd"])[0]
    )


def test_other_manifolds_keep_geoopt_s_momentum() -> None:
    ends = []
    for make in (geoopt.optim.RiemannianSGD, RiemannianSGD):
        free = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        on_sphere = geoopt.ManifoldParameter(torch.tensor([0.6, 0.8]), manifold=geoopt.Sphere())
        optimiser = make([free, on_sphere], lr=0.1, momentum=0.9)
        for _ in range(5):
            optimiser.zero_grad()
            (free.square().sum() + on_sphere[0]).backward()
            optimiser.step()
        ends.append(torch.cat([free.detach(), on_sphere.detach()]))
    assert torch.equal(*ends)


@pytest.mark.parametrize("make", [OPTIMISERS["adam"], OPTIMISERS["momentum"]], ids=["adam", "momentum"])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_scaled_manifold_is_the_same_quotient(make, scale) -> None:
    case = Case()
    here, there = (
        geoopt.ManifoldParameter(p.detach(), manifold=geoopt.Scaled(p.manifold, scale)) for p in on_orbit(case)
    )
    (one, losses), (two, _) = train(here, case, make), train(there, case, make)
    assert losses[-1] < losses[0]
    assert relative(one, two) < 1e-10
    assert relative(one, train(case.parameter(), case, make)[0]) > 1e-3


@pytest.mark.parametrize("name", OPTIMISERS)
def test_training_resumes_from_state_dicts(name) -> None:
    """A model and its optimiser saved, loaded into new objects, and continued as if nothing had happened."""
    case = Case(geodesic=2)

    def fresh() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = torch.nn.Module()
        model.pair = case.parameter()
        return model, OPTIMISERS[name](model.parameters(), lr=RATE)

    def go(model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        for _ in range(4):
            optimiser.zero_grad()
            loss_of(model.pair, case).backward()
            optimiser.step()

    model, optimiser = fresh()
    go(model, optimiser)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, file)
    stored = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    again, its_optimiser = fresh()
    assert again.load_state_dict(stored["model"]) == torch.nn.modules.module._IncompatibleKeys([], [])
    its_optimiser.load_state_dict(stored["optimiser"])
    copied, its_copy = copy.deepcopy((model, optimiser))
    pickled, its_pickle = pickle.loads(pickle.dumps((model, optimiser)))
    go(model, optimiser)
    for other, other_optimiser in ((again, its_optimiser), (copied, its_copy), (pickled, its_pickle)):
        assert repr(other.pair.manifold) == repr(model.pair.manifold)
        go(other, other_optimiser)
        assert relative(other.pair.detach(), model.pair.detach()) <= (
            FLOAT32_STEPS if name in ("adam", "amsgrad") else 0
        )
