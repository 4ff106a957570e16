"""How a model is called by a verification: batches it does not take, tensors of other dtypes, weights that it rewrites."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, LossError, SymmetryError
from quotientgeo.model.orbit import raised
from quotientgeo.model.probe import Probe, _InDouble
from tests.helpers.graphs import graph_of
from tests.helpers.models import VOCABULARY, TinyModel, randomised, tiny, token_batch


@pytest.mark.parametrize(
    ("batch", "call"),
    [
        ((token_batch(), token_batch()), r"model\(\*batch\) on this tuple batch \(too many positional"),
        ({"ids": token_batch(), "labels": token_batch()}, r"model\(\*\*batch\) on this dict batch \(got an unexpected"),
        ([], r"model\(\*batch\) on this list batch \(missing a required argument: 'ids'\)"),
    ],
)
def test_a_batch_that_the_model_does_not_take_is_a_named_error(batch, call):
    with pytest.raises(ArgumentError, match=rf"TinyModel cannot be called as {call}.*pass forward="):
        graph_of(tiny()).verify(batch)


def test_an_error_inside_the_model_is_not_taken_for_a_wrong_batch():
    class Wrong(TinyModel):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids, ids)

    with pytest.raises(TypeError, match="3 were given"):
        graph_of(randomised(Wrong()).eval()).verify(token_batch())


def test_nothing_to_compare_says_what_was_returned():
    class Silent(TinyModel):
        def forward(self, ids: Tensor) -> None:
            super().forward(ids)

    with pytest.raises(SymmetryError, match=r"the forward pass returned None, .*: pass forward="):
        graph_of(Silent().eval()).verify(token_batch())
    graph = graph_of(tiny())
    with pytest.raises(SymmetryError, match=r"forward\(model, batch\) returned None, so nothing can be compared$"):
        graph.verify(token_batch(), lambda model, batch: None)
    with pytest.raises(SymmetryError, match=r"returned no floating tensor \(a dict\)"):
        graph.verify(token_batch(), lambda model, batch: {"accuracy": 0.5})


WEIGHTS = torch.linspace(0.5, 2.0, VOCABULARY)


def weighted(model: nn.Module, ids: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.roll(1, 1).flatten(), weight=WEIGHTS)


def against_targets(model: nn.Module, ids: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(ids), torch.ones(*ids.shape, VOCABULARY))


def projected(model: nn.Module, ids: Tensor) -> Tensor:
    both = torch.cat([model(ids) @ torch.ones(VOCABULARY, 2), torch.zeros(*ids.shape, 1)], dim=-1)
    return torch.einsum("blc,c->bl", both, torch.arange(3.0)).tanh()


def distilled(model: nn.Module, ids: Tensor) -> Tensor:
    with torch.no_grad():
        target = TEACHER(ids).softmax(-1)
    return nn.functional.kl_div(model(ids).log_softmax(-1), target, reduction="batchmean")


TEACHER = tiny(7)


@pytest.mark.parametrize("forward", [weighted, against_targets, projected, distilled])
def test_float32_tensors_that_a_loss_holds_are_read_in_float64(forward):
    report = graph_of(tiny()).verify(token_batch(), forward)
    report.require()
    assert report.residual < 1e-12
    assert {p.dtype for p in TEACHER.parameters()} == {torch.float32} == {WEIGHTS.dtype}


def test_what_a_loss_holds_is_written_in_place():
    total, last = torch.zeros(3), torch.zeros(2)
    with _InDouble():
        total.add_(torch.ones(3, dtype=torch.float64))
        total += 1
        last[0] = total.sum()
        assert (total * 1).dtype == torch.float64
        out = torch.zeros(3)
        torch.add(total, 1, out=out)
    assert total.tolist() == [2.0, 2.0, 2.0]
    assert last.tolist() == [6.0, 0.0]
    assert out.tolist() == [3.0, 3.0, 3.0]
    assert {total.dtype, last.dtype, out.dtype} == {torch.float32}


def test_what_cannot_follow_to_float64_is_a_named_error():
    def numpy_like(model: nn.Module, ids: Tensor) -> Tensor:
        model(ids)
        raise RuntimeError("expected scalar type Double but found Float")

    with pytest.raises(LossError, match=r"'expected scalar type .* verified in float64.*weight.to\(logits.dtype\)"):
        graph_of(tiny()).verify(token_batch(), numpy_like)


def test_a_forward_that_rewrites_its_weights_touches_neither_the_model_nor_the_point():
    """nn.Embedding with max_norm scales rows of its table in place."""
    model = tiny()
    model.embed.max_norm = 0.3
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert float(before["embed.weight"].norm(dim=1).min().detach()) > 0.3
    graph_of(model).verify(token_batch()).require()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    params = raised(before)
    Probe(model, token_batch(), None)(params, seed=0)
    assert torch.equal(params["embed.weight"], before["embed.weight"].double())
    graph = qg.SymmetryGraph(model)
    assert graph.parameters["embed.weight"] is model.embed.weight
