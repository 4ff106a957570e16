"""What went wrong for others with tensors on manifolds: one named test for each public report (see tests/test_traps.py).

Every test runs its check twice: on the package as it is, and with the reported fault planted, which the check must notice.
"""

from __future__ import annotations

import copy
import io
import pickle

import geoopt
import pytest
import torch
from torch import nn

import quotientgeo as qg
from quotientgeo import manifolds
from quotientgeo.errors import ShapeError
from quotientgeo.manifolds import RiemannianSGD


def notices(check, *trouble) -> bool:
    """Whether a check fails."""
    try:
        check()
    except (AssertionError, *trouble):
        return True
    return False


def manifold_setting(optimiser=geoopt.optim.RiemannianAdam):
    """A model with a parameter on a GLPair, its optimiser, and a function that trains both for some steps."""
    model = nn.Module()
    manifold = qg.GLPair(5, 4, metric="mixed", geodesic=2)
    start = manifold.random(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    model.pair = geoopt.ManifoldParameter(start, manifold=manifold)

    def train(model, optimiser, steps=3):
        for _ in range(steps):
            optimiser.zero_grad()
            G, H = model.pair.manifold.unpack_tensor(model.pair)
            (G @ H.mT - 1).square().mean().backward()
            optimiser.step()

    return model, optimiser(model.parameters(), lr=0.01), train


class TestGeoopt188:
    """deepcopy loses the manifold."""

    @pytest.mark.parametrize("again", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
    def test_copies_of_a_parameter_are_on_the_manifold(self, again, monkeypatch):
        model, _, _ = manifold_setting()

        def check():
            for one in (again(model.pair), again(model).pair):
                assert type(one) is geoopt.ManifoldParameter
                assert repr(one.manifold) == repr(model.pair.manifold)
                assert one.manifold.check_point_on_manifold(one)
                assert torch.equal(one.detach(), model.pair.detach())
                assert one.requires_grad
                assert one.data_ptr() != model.pair.data_ptr()

        check()
        monkeypatch.setattr(geoopt.ManifoldTensor, "__deepcopy__", nn.Parameter.__deepcopy__)
        monkeypatch.setattr(geoopt.ManifoldTensor, "__reduce_ex__", nn.Parameter.__reduce_ex__)
        assert notices(check, AttributeError, TypeError, ValueError)


class TestGeoopt226:
    """KeyError from an optimiser's state_dict."""

    def test_model_and_optimiser_make_round_trips(self, monkeypatch):
        model, optimiser, train = manifold_setting()
        train(model, optimiser)

        def check():
            copied, its_optimiser = copy.deepcopy((model, optimiser))
            stored = io.BytesIO()
            torch.save([copied.state_dict(), its_optimiser.state_dict()], stored)
            new, new_optimiser, _ = manifold_setting()
            weights, state = torch.load(io.BytesIO(stored.getvalue()), weights_only=True)
            new.load_state_dict(weights)
            new_optimiser.load_state_dict(state)
            train(new, new_optimiser)
            train(copied, its_optimiser)
            assert torch.equal(new.pair.detach(), copied.pair.detach())
            assert not torch.equal(new.pair.detach(), model.pair.detach())

        check()
        real = geoopt.optim.RiemannianAdam.step

        def step(self, closure=None):  # planted: state under a tensor that no group of parameters has
            real(self, closure)
            for point in list(self.state):
                self.state[point.detach().clone()] = self.state.pop(point)

        monkeypatch.setattr(geoopt.optim.RiemannianAdam, "step", step)
        train(model, optimiser)
        assert notices(check, KeyError)


class TestPymanopt300Geomstats1082:
    """Tensors on the wrong device: a manifold that lives on the CPU, constants made on the default device."""

    @pytest.mark.parametrize("metric", ["invariant", "mixed"])
    @pytest.mark.parametrize("geodesic", ["exact", 2])
    def test_everything_is_where_its_arguments_are(self, metric, geodesic, monkeypatch):
        """With another default device (one that holds no data), every constant of a wrong device is an error."""
        manifold = qg.GLPair(5, 4, metric=metric, geodesic=geodesic)

        def check():
            with torch.device("meta"):
                x, y = (manifold.random(2, 9, 3, dtype=torch.float64, device="cpu") for _ in range(2))
                u = manifold.proju(x, 0.1 * y)
                results = [
                    manifold.inner(x, u),
                    manifold.norm(x, u),
                    manifold.egrad2rgrad(x, u),
                    *manifold.retr_transp(x, u, u),
                    manifold.origin(9, 3, device="cpu"),
                ]
                assert {result.device.type for result in results} == {"cpu"}
                assert manifold.check_vector_on_tangent(x, u)
                assert manifold.random(9, 3).device.type == manifold.origin(9, 3).device.type == "meta"
                for optimiser in (geoopt.optim.RiemannianAdam, lambda p, lr: RiemannianSGD(p, lr=lr, momentum=0.9)):
                    point = geoopt.ManifoldParameter(x.clone(), manifold=manifold)
                    (point**2).sum().backward()
                    optimiser([point], lr=0.01).step()
                    assert point.device.type == "cpu"
            assert manifold.device is None
            assert not list(manifold.buffers())

        check()
        real = manifolds.GLPair.proju
        monkeypatch.setattr(
            manifolds.GLPair, "proju", lambda self, x, u: real(self, x, u) + torch.zeros(1, dtype=x.dtype)
        )
        assert notices(check, RuntimeError, ShapeError)
