"""Calls on one model from several threads: they take turns, so each has its own value and the weights stay."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import quotientgeo as qg
from quotientgeo.errors import ArgumentError
from quotientgeo.model import exclusive as module
from quotientgeo.model.exclusive import exclusive
from tests.helpers.losses import masked_batch, masked_loss
from tests.helpers.models import TinyModel, hugging_face


def test_two_threads_measure_one_model_and_leave_it_as_it_was():
    model = hugging_face("AlbertForMaskedLM")
    before = {name: (p, p.detach().clone()) for name, p in model.named_parameters()}
    calls = [{"measure": measure, "rho": rho} for measure in ("geodesic", "adaptive") for rho in (0.02, 0.1)]
    batch = masked_batch(model)
    alone = [qg.sharpness(model, masked_loss, [batch], steps=3, **call).value for call in calls]
    together = threading.Barrier(len(calls))

    def measured(call):
        together.wait()
        return qg.sharpness(model, masked_loss, [batch], steps=3, **call).value

    for _ in range(5):
        with ThreadPoolExecutor(len(calls)) as pool:
            assert list(pool.map(measured, calls)) == alone
        for name, parameter in model.named_parameters():
            same, value = before[name]
            assert parameter is same
            assert torch.equal(parameter, value)


def test_a_thread_waits_and_the_same_thread_does_not():
    model, order = TinyModel(), []

    def second():
        with exclusive(model):
            order.append("second")

    with exclusive(model), exclusive(model):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.1)
        with exclusive(TinyModel()):  # another model waits for nobody
            order.append("first")
    other.join()
    assert order == ["first", "second"]


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, torch.nn.Sequential, lambda base: base[0]])
def test_modules_that_share_layers_take_turns(wrap):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4)]
    base = torch.nn.Sequential(torch.nn.Sequential(*layers)).double().eval()
    other = wrap(base).eval()
    batch = (torch.randn(8, 3).double(), torch.randint(0, 4, (8,)))

    def loss(model, batch):
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="sum"), len(batch[1])

    def measured(model):
        return qg.sharpness(model, loss, [batch], symmetries="none", steps=10, rho=0.1).value

    alone = measured(base)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(measured, [base, other] * 8))
    assert found == [alone] * 16
    assert all(isinstance(layer.weight, torch.nn.Parameter) for layer in (layers[0], layers[2]))


def test_waiting_for_each_other_is_refused():
    first, second = TinyModel(), TinyModel()
    together = threading.Barrier(2)

    def both(one, other):
        with exclusive(one):
            together.wait(timeout=60)
            try:
                with exclusive(other):
                    return "inside"
            except ArgumentError as error:
                return str(error)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(both, (first, second), (second, first)))
    assert any("both could wait for each other" in answer for answer in answers)


def test_a_child_of_a_fork_during_a_measurement_is_told(monkeypatch):
    model = TinyModel()
    with exclusive(model):
        monkeypatch.setattr(module.os, "getpid", lambda: -1)  # as in a child, where the owners are copied
        with pytest.raises(ArgumentError, match="forked while the TinyModel was being measured"), exclusive(model):
            pass


def test_an_error_gives_the_model_back_and_nothing_is_left():
    model = TinyModel()
    with pytest.raises(ZeroDivisionError), exclusive(model), exclusive(model):
        1 / 0  # noqa: B018
    assert not module._OWNERS
