"""Calls whose arguments cannot work together, and losses that cannot be used: said at once, in one line, before any symmetry."""

from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, DataError, LossError, ModeError, QuotientgeoError
from tests.helpers.losses import masked_batch, masked_loss, tiny_batch, tiny_loss
from tests.helpers.models import TinyModel, hugging_face


def tiny() -> TinyModel:
    torch.manual_seed(0)
    return TinyModel(layers=1).double().eval()


def refused(error: type[QuotientgeoError], match: str, model, loss=tiny_loss, batches=None, **settings) -> None:
    settings = {"symmetries": "none", "steps": 2} | settings
    before = copy.deepcopy(model.state_dict()) if isinstance(model, nn.Module) else None
    with pytest.raises(error, match=match) as caught:
        qg.sharpness(model, loss, [tiny_batch()] if batches is None else batches, **settings)
    assert "\n" not in str(caught.value)
    if before is not None and not any(t.is_meta for t in before.values()):
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_objects_of_another_kind():
    refused(ArgumentError, "load_checkpoint", "/some/folder")
    refused(ArgumentError, "must be a function", tiny(), loss="cross-entropy")
    refused(ArgumentError, "must be a SymmetryGraph", tiny(), graph="attention", symmetries="attention")


def test_a_graph_that_would_be_ignored():
    model = hugging_face("BertForMaskedLM").double()
    graph = qg.symmetry_graph(model)
    refused(ArgumentError, "symmetries='none'", model, masked_loss, [masked_batch(model)], graph=graph)


def test_inference_mode():
    with torch.inference_mode():
        refused(ModeError, "inference_mode", tiny())


def test_no_values_and_nothing_to_move():
    refused(ArgumentError, "meta device", tiny().to("meta"))
    refused(ArgumentError, "requires_grad=False", tiny().requires_grad_(False))


class TestLosses:
    def test_of_another_model(self):
        model = tiny()
        other = copy.deepcopy(model)
        refused(LossError, "does not use the parameters", model, lambda _, batch: tiny_loss(other, batch))

    def test_of_no_model(self):
        refused(LossError, "does not depend", tiny(), lambda model, batch: (torch.tensor(1.0), 1))

    def test_are_tried_before_symmetries(self):
        """Of a loss that ignores the model a user wants to hear that, not of 32 symmetries that could not be tested."""
        model = hugging_face("BertForMaskedLM").double()
        batches = [masked_batch(model)]
        refused(
            LossError, "does not depend", model, lambda m, b: (torch.tensor(1.0), 1), batches, symmetries="attention"
        )
        refused(LossError, "NoneType", model, lambda m, b: None, batches, symmetries="attention")

    @pytest.mark.parametrize("count", [-1, -0.5, torch.tensor(-3)])
    def test_with_a_negative_count(self, count):
        """It would turn the maximum into a minimum."""
        refused(LossError, "must not be negative", tiny(), lambda model, batch: (tiny_loss(model, batch)[0], count))

    def test_on_batches_of_another_dtype(self):
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).eval()

        def loss(model, batch):
            return model(batch).square().sum(), len(batch)

        refused(DataError, "torch.float64", model, loss, [torch.ones(2, 3, dtype=torch.float64)], measure="euclidean")

    def test_errors_of_the_user_are_not_hidden(self):
        def broken(model, batch):
            raise RuntimeError("my own dtype mistake")

        with pytest.raises(RuntimeError, match="my own"):
            qg.sharpness(tiny(), broken, [tiny_batch()], symmetries="none")


def test_frozen_parameters_are_noted():
    model = tiny()
    model.head.requires_grad_(False)
    result = qg.sharpness(model, tiny_loss, [tiny_batch()], symmetries="none", steps=2)
    assert any("requires_grad=False" in note for note in result.notes)
    assert "requires_grad=False" in str(result)
    assert not any(
        "requires_grad" in n for n in qg.sharpness(tiny(), tiny_loss, [tiny_batch()], symmetries="none").notes
    )


def test_autocast_is_recorded():
    model, batch = hugging_face("BertForMaskedLM"), None
    batch = masked_batch(model)
    plain = qg.sharpness(model, masked_loss, [batch], symmetries="none", steps=1)
    assert plain.definitions["autocast"] is None
    with torch.autocast("cpu", torch.bfloat16):
        cast = qg.sharpness(model, masked_loss, [batch], symmetries="none", steps=1)
    assert cast.definitions["autocast"] == "bfloat16"
    assert cast.value != plain.value


def test_counts_are_real_numbers():
    values = {
        qg.sharpness(
            tiny(), lambda m, b, c=count: (tiny_loss(m, b)[0], c), [tiny_batch()], symmetries="none", steps=2
        ).value
        for count in (12, 12.0, np.int64(12), np.float32(12), Fraction(12), torch.tensor(12))
    }
    assert len(values) == 1
    for count in (True, torch.tensor(True), "12", None, 12j):
        refused(LossError, "count", tiny(), lambda m, b, c=count: (tiny_loss(m, b)[0], c))
