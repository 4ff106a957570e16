"""Adaptive sharpness against references of the test's own, and what happens to zeros."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

import quotientgeo as qg


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double().eval()


def examples():
    generator = torch.Generator().manual_seed(5)
    return {"x": torch.randn(9, 3, generator=generator).double(), "y": torch.randint(3, (9,), generator=generator)}


@pytest.fixture
def model():
    return network()


@pytest.fixture
def batch():
    return examples()


def loss(model, batch):
    return nn.functional.cross_entropy(model(batch["x"]), batch["y"], reduction="sum"), len(batch["y"])


@cache
def reference_maximum(rho, scale):
    """max over |z| <= rho of L(w + scale z) - L(w) by scipy's SLSQP from 12 starts, the network written out in numpy."""
    W1, b1, W2, b2 = (p.detach().numpy() for p in network().parameters())
    w = np.concatenate([W1.ravel(), b1, W2.ravel(), b2])
    x, y = (part.numpy() for part in examples().values())

    def value_and_gradient(v):
        A1, c1, A2, c2 = v[:12].reshape(4, 3), v[12:16], v[16:28].reshape(3, 4), v[28:]
        hidden = np.tanh(x @ A1.T + c1)
        logits = hidden @ A2.T + c2
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        value = -np.log(p[np.arange(len(y)), y]).mean()
        delta = p.copy()
        delta[np.arange(len(y)), y] -= 1
        delta /= len(y)
        back = (delta @ A2) * (1 - hidden**2)
        return value, np.concatenate([(back.T @ x).ravel(), back.sum(0), (delta.T @ hidden).ravel(), delta.sum(0)])

    s = np.abs(w) if scale == "adaptive" else np.ones_like(w)

    def objective(u):  # u = z / rho
        value, gradient = value_and_gradient(w + s * rho * u)
        return -value, -gradient * s * rho

    ball = {"type": "ineq", "fun": lambda u: 1 - u @ u, "jac": lambda u: -2 * u}
    rng = np.random.default_rng(0)
    best = -np.inf
    for k in range(12):
        start = -objective(0 * w)[1] if k == 0 else rng.standard_normal(w.size)
        start = start / np.linalg.norm(start)
        found = minimize(objective, start, jac=True, constraints=[ball], options={"maxiter": 500, "ftol": 1e-15})
        if np.linalg.norm(found.x) <= 1 + 1e-9:
            best = max(best, -found.fun)
    return best - value_and_gradient(w)[0]


@pytest.mark.xdist_group("independent maximum")  # of one process: each maximum serves several tests
@pytest.mark.parametrize("rho", [0.01, 0.1, 0.5])
@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        ({"measure": "adaptive"}, "adaptive"),
        ({"measure": "geodesic", "symmetries": "none", "geodesic": 1}, "adaptive"),
        ({"measure": "euclidean"}, "euclidean"),
    ],
)
def test_agrees_with_an_independent_maximum(model, batch, rho, settings, scale):
    expected = reference_maximum(rho, scale)
    result = qg.sharpness(model, loss, [batch], rho=rho, steps=100, starts=4, **settings)
    assert result.value <= expected * (1 + 1e-6)
    assert result.value >= expected * 0.995
    other = reference_maximum(rho, "euclidean" if scale == "adaptive" else "adaptive")
    assert abs(other - expected) > 0.05 * expected  # the comparison can tell the two norms apart


def test_the_first_order_term_is_rho_times_the_weighted_gradient(model, batch):
    total, count = loss(model, batch)
    gradient = torch.autograd.grad(total / count, list(model.parameters()))
    slope = math.sqrt(
        sum(float((g * w.detach().abs()).square().sum()) for g, w in zip(gradient, model.parameters(), strict=True))
    )
    ratios = [
        qg.sharpness(model, loss, [batch], measure="adaptive", rho=rho, steps=20).value / (rho * slope) - 1
        for rho in (1e-3, 1e-4)
    ]
    assert abs(ratios[1]) < 1e-3
    assert ratios[0] / ratios[1] == pytest.approx(10, rel=0.05)  # what is left is of second order


def test_the_value_is_the_mean_over_batches(model, batch):
    other = {"x": batch["x"] * 2, "y": batch["y"]}
    settings = {"measure": "adaptive", "rho": 0.1, "steps": 10}
    both = qg.sharpness(model, loss, [batch, other], **settings)
    single = [qg.sharpness(model, loss, [b], **settings).value for b in (batch, other)]
    assert both.per_batch == pytest.approx(single, rel=1e-12)
    assert both.value == pytest.approx(sum(single) / 2, rel=1e-12)


def test_zero_weights_stay_zero_and_take_no_radius(model, batch):
    with torch.no_grad():
        model[0].bias.zero_()
        model[2].weight[1].zero_()
    seen: list[torch.Tensor] = []

    def watching(model, batch):
        seen.append(torch.cat([model[0].bias.detach(), model[2].weight[1].detach()]))
        return loss(model, batch)

    result = qg.sharpness(model, watching, [batch], measure="adaptive", rho=0.3, steps=12, starts=3)
    assert result.ok
    assert all(torch.equal(entries, torch.zeros_like(entries)) for entries in seen)
    for b in result.batches:
        assert b.achieved_norm <= 0.3 * (1 + 1e-5)
        assert b.achieved_norm > 0.29  # nor is radius lost on coordinates that move nothing


def test_all_weights_zero_is_a_value_of_zero(batch):
    model = nn.Linear(3, 3).double().eval()
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    result = qg.sharpness(model, loss, [batch], measure="adaptive", rho=0.3, steps=3, starts=2)
    assert result.ok
    assert result.value == 0.0


def test_an_embedding_has_coordinates_only_where_the_batch_reads():
    """Random starts must not waste radius on rows that do nothing, and the value must not depend on how many there are."""

    class Model(nn.Module):
        def __init__(self, rows: int) -> None:
            super().__init__()
            self.table = nn.Embedding(rows, 4)
            self.head = nn.Linear(4, 3)

        def forward(self, ids):
            return self.head(self.table(ids).mean(1))

    def text_loss(model, batch):
        return nn.functional.cross_entropy(model(batch["ids"]), batch["y"], reduction="sum"), len(batch["y"])

    generator = torch.Generator().manual_seed(0)
    batch = {"ids": torch.randint(5, (6, 3), generator=generator), "y": torch.randint(3, (6,), generator=generator)}
    torch.manual_seed(0)
    small = Model(5).double().eval()
    large = Model(500).double().eval()
    with torch.no_grad():
        large.table.weight[:5] = small.table.weight
        large.head.load_state_dict(small.head.state_dict())
    values = [
        qg.sharpness(m, text_loss, [batch], measure="adaptive", rho=0.5, steps=10, starts=3).value
        for m in (small, large)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "notes"),
    [
        ({"measure": "adaptive"}, []),
        ({"measure": "adaptive", "symmetries": "none"}, []),
        ({"measure": "adaptive", "metric": "mixed"}, ["without effect: metric='mixed'; measure='adaptive' divides nothing out"]),
        (
            {"measure": "euclidean", "metric": "mixed", "geodesic": 2, "symmetries": "paper"},
            ["without effect: metric='mixed', geodesic=2, symmetries='paper'; measure='euclidean' divides nothing out"],
        ),
        ({"symmetries": "none", "geodesic": 2}, ["without effect: geodesic=2; symmetries='none' declares no block"]),
    ],
)  # fmt: skip
def test_arguments_without_effect_are_noted(model, batch, arguments, notes):
    assert qg.sharpness(model, loss, [batch], steps=1, **arguments).notes == notes
