"""Gradient checkpointing, which torch.func fails with (pytorch 122729, 146036): here it works, or is refused by name."""

from __future__ import annotations

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

from quotientgeo.errors import LossError
from quotientgeo.measures import objective
from tests.helpers.traps import measured, notices


class Checkpointed(nn.Module):
    """A layer that is run again in the backward pass."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 6)
        self.inner, self.head, self.reentrant = nn.Linear(6, 8), nn.Linear(8, 13), reentrant

    def forward(self, ids):
        x = self.embed(ids)
        if self.reentrant is None:
            return self.head(self.inner(x).tanh())
        again = torch.utils.checkpoint.checkpoint(
            lambda x: self.inner(x).tanh(), x, use_reentrant=self.reentrant, preserve_rng_state=False
        )
        return self.head(again)


class TestPytorch122729And146036:
    """torch.func with gradient checkpointing fails: here it works, or is refused by name."""

    def model(self, reentrant):
        torch.manual_seed(0)
        return Checkpointed(reentrant).double().eval()

    @pytest.mark.parametrize("measure", ["adaptive", "euclidean"])
    def test_a_checkpointed_layer_runs_again_at_the_moved_weights(self, measure, monkeypatch):
        def check():
            values = [
                measured(self.model(reentrant), measure=measure, symmetries="none", graph=None, rho=1.0, steps=6).value
                for reentrant in (None, False)
            ]
            assert values[1] == pytest.approx(values[0], rel=1e-12)

        check()
        bound = objective._Bound
        # planted: gradients are taken when the model's own weights are back in place
        monkeypatch.setattr(bound, "forward", lambda self, batch, then: self.loss(self.model, batch))
        real = objective.Objective._call
        monkeypatch.setattr(objective.Objective, "_call", lambda self, p, b, then: then(real(self, p, b, then)))
        assert notices(check)

    def test_reentrant_checkpoints_are_refused_by_name(self, monkeypatch):
        def check():
            with pytest.raises(LossError, match="use_reentrant=False"):
                measured(self.model(True), measure="euclidean", symmetries="none", graph=None)

        check()
        monkeypatch.setattr(objective, "REENTRANT", "planted")
        assert notices(check)

    def test_reentrant_checkpoints_on_inputs_without_gradient(self, monkeypatch):
        """There torch warns and leaves the layer's gradients out: they would be reported as unused."""

        def on_inputs(model, batch):
            x = torch.nn.functional.one_hot(batch["ids"], 13).to(model.head.weight)[..., :6]
            hidden = torch.utils.checkpoint.checkpoint(
                lambda x: model.inner(x).tanh(), x, use_reentrant=True, preserve_rng_state=False
            )
            logits = model.head(hidden)
            return nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum"), 12

        with pytest.raises(LossError, match="use_reentrant=False"):
            measured(self.model(None), of=on_inputs, measure="euclidean", symmetries="none", graph=None)
