"""Calls on one model from several threads: they take turns, so each has its own value and the weights stay."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import quotientgeo as qg
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


def entered(model):
    with exclusive(model):
        return True


def test_an_error_gives_the_model_back_and_a_dead_model_leaves_nothing():
    model = TinyModel()
    with pytest.raises(ZeroDivisionError), exclusive(model):
        1 / 0  # noqa: B018
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(entered, model).result(timeout=60)
    key = id(model)
    assert key in module._LOCKS
    del model
    gc.collect()
    assert key not in module._LOCKS
