"""The loss as a function of parameter tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from quotientgeo.errors import LossError, ModeError
from quotientgeo.measures.objective import Objective
from quotientgeo.model.probe import require_evaluation_mode


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5)).double().eval()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(5, (7, 2), generator=generator)
    labels[0] = labels[1] = labels[2] = -100  # unequal counts in every way of splitting
    labels[4, 1] = -100
    return {"x": torch.randn(7, 2, 3, generator=generator, dtype=torch.float64), "labels": labels}


def summed(model, batch):
    logits = model(batch["x"]).flatten(0, 1)
    loss = nn.functional.cross_entropy(logits, batch["labels"].flatten(), ignore_index=-100, reduction="sum")
    return loss, (batch["labels"] != -100).sum()


def mean(model, batch):
    return nn.functional.cross_entropy(model(batch["x"]).flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)


@pytest.mark.parametrize("size", [None, 1, 2, 3, 7])
def test_the_micro_batch_size_does_not_matter(model, batch, size):
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    value, gradient = Objective(model, summed, batch, size).value_and_gradient(parameters)
    expected = mean(model, batch)
    expected_gradient = torch.autograd.grad(expected, list(model.parameters()))
    torch.testing.assert_close(value, expected.detach(), rtol=1e-14, atol=0)
    for (name, _), g in zip(model.named_parameters(), expected_gradient, strict=True):
        torch.testing.assert_close(gradient[name], g, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(Objective(model, summed, batch, size).value(parameters), value, rtol=1e-14, atol=0)


def test_averaging_the_means_of_parts_would_be_wrong(model, batch):
    """The control: this is the mistake that the (sum, count) contract prevents."""
    with torch.no_grad():
        parts = [mean(model, {k: v[i : i + 3] for k, v in batch.items()}) for i in (3, 6)]
        assert abs(float(sum(parts) / 2 - mean(model, batch))) > 1e-3


def test_a_mean_is_taken_whole_and_refused_in_parts(model, batch):
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    torch.testing.assert_close(Objective(model, mean, batch).value(parameters), mean(model, batch).detach())
    with pytest.raises(LossError, match="return \\(sum, count\\)"):
        Objective(model, mean, batch, 2).value(parameters)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda m, b: m(b["x"]), "must be one number"),
        (lambda m, b: "three", "must return"),
        (lambda m, b: (1.0, 2), "must be one number"),
        (lambda m, b: (summed(m, b)[0], None), "the count in"),
        (lambda m, b: (summed(m, b)[0], "7"), "the count in"),
        (lambda m, b: (summed(m, b)[0], m(b["x"])), "of shape"),
        (lambda m, b: summed(m, b)[0] * 1j, "real floating-point"),
        (lambda m, b: mean(m, b).detach(), "does not depend"),
    ],
)
def test_a_broken_loss_is_named(model, batch, loss, words):
    with pytest.raises(LossError, match=words):
        Objective(model, loss, batch).value_and_gradient({name: p.detach() for name, p in model.named_parameters()})


def test_loss_none_needs_a_model_that_computes_one(model, batch):
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    with pytest.raises(LossError, match="dict batches"):
        Objective(model, None, batch["x"]).value(parameters)


def test_training_mode_is_refused_with_the_module_named(model):
    model[1].train()
    with pytest.raises(ModeError, match=r"\(1\).*eval\(\)"):
        require_evaluation_mode(model)


@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_the_model_is_bit_identical_whatever_happens(model, batch, trouble):
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    identities = [id(p) for p in model.parameters()]

    def failing(model, batch):
        model(batch["x"])
        raise trouble("in the middle")

    with pytest.raises(trouble):
        Objective(model, failing, batch).value_and_gradient({n: p.detach() + 1 for n, p in model.named_parameters()})
    assert [id(p) for p in model.parameters()] == identities
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name])
        assert p.grad is None
