"""What a measure verifies before it uses a symmetry: examples from all over the sample, in float64 whatever the model's dtype."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import SymmetryError
from quotientgeo.measures.batches import examples, spread
from quotientgeo.model.verify import confirmed
from tests.helpers.graphs import graph_of
from tests.helpers.losses import tiny_loss
from tests.helpers.models import VOCABULARY, SelfAttention, TinyModel, randomised, tiny, token_batch

RARE = VOCABULARY - 1  # a token that only some examples hold


class Sometimes(SelfAttention):
    """Normalises its queries and keys where the batch holds a rare token: GL(h) holds on all other examples."""

    rare = False

    def forward(self, x: Tensor) -> Tensor:
        self.qk_norm = self.rare
        return super().forward(x)


class SometimesNormed(TinyModel):
    def forward(self, ids: Tensor) -> Tensor:
        for layer in self.layers:
            layer.rare = bool((ids == RARE).any())
        return super().forward(ids)


def sometimes() -> nn.Module:
    model = SometimesNormed(layers=1)
    model.layers[0] = Sometimes(8, 2, 4)
    return randomised(model).eval()


def plain_batch(examples: int = 3, length: int = 5) -> dict[str, Tensor]:
    ids = token_batch(examples, length, vocabulary=RARE)
    return {"ids": ids, "labels": ids.roll(1, dims=1)}


def with_rare(batch: dict[str, Tensor], example: int) -> dict[str, Tensor]:
    ids = batch["ids"].clone()
    ids[example, 0] = RARE
    return {**batch, "ids": ids}


@pytest.mark.parametrize("place", [(3, 0), (9, 0), (0, 19)], ids=["last of 4", "last of 10", "last example"])
def test_a_symmetry_that_fails_late_in_the_sample_is_refused(place):
    batch, example = place
    sample = [plain_batch(20)] if batch == 0 else [plain_batch() for _ in range(batch + 1)]
    model = sometimes()
    good = qg.sharpness(model, tiny_loss, sample, steps=1, graph=graph_of(model))
    assert good.verification["passed"] == good.verification["symmetries"]
    sample[batch] = with_rare(sample[batch], example)
    with pytest.raises(SymmetryError, match=r"layers.0.head0.qk: "):
        qg.sharpness(model, tiny_loss, sample, steps=1, graph=graph_of(model))
    with pytest.warns(UserWarning, match="left out"):
        rest = qg.sharpness(model, tiny_loss, sample, steps=1, graph=graph_of(model), unverified="exclude")
    assert {name for name in rest.left_out if name.endswith("qk")} == {"layers.0.head0.qk", "layers.0.head1.qk"}
    assert "layers.0.head0.vo" in rest.per_block


def test_a_first_batch_that_cannot_tell_is_made_up_for_by_another():
    model = tiny()
    one_token = plain_batch(length=1)
    with pytest.raises(SymmetryError, match="this batch cannot tell"):
        qg.sharpness(model, tiny_loss, [one_token, one_token], steps=1, graph=graph_of(model))
    result = qg.sharpness(model, tiny_loss, [one_token, plain_batch()], steps=1, graph=graph_of(model))
    assert result.verification["passed"] == result.verification["symmetries"] == 16


def test_equal_examples_at_the_start_of_a_batch_do_not_decide():
    ids = torch.full((40, 5), 3)
    ids[20:] = token_batch(20, 5)
    model = tiny()
    with torch.no_grad():
        model.positions.zero_()  # then attention over equal tokens tells nothing
    sample = [{"ids": ids, "labels": ids}]
    assert qg.sharpness(model, tiny_loss, sample, steps=1, graph=graph_of(model)).ok


def test_examples_are_spread_over_the_batch():
    assert spread(5, 8) == [0, 1, 2, 3, 4]
    assert spread(100, 4) == [0, 33, 66, 99]
    assert spread(3, 1) == [0]
    chosen = examples({"x": torch.arange(17)}, 4)["x"]
    assert chosen.tolist() == spread(17, 4) == [0, 5, 11, 16]
    whole = {"x": torch.arange(4)}
    assert examples(whole, 4) is whole


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_models_of_any_dtype_are_verified_in_float64(dtype):
    """In float32 a residual of 1e-6 would be rounding, and so would be a broken symmetry of that size."""
    seen: list[torch.dtype] = []
    model = tiny().to(dtype)

    def forward(model: nn.Module, batch: Tensor) -> Tensor:
        seen.extend(p.dtype for p in model.parameters())
        return model(batch)

    report = graph_of(model).verify(token_batch(), forward)
    assert set(seen) == {torch.float64}
    assert report.residual < 1e-12
    nearly = graph_of(slightly_broken().to(dtype))
    assert nearly.verify(token_batch()).with_status("failed")


def slightly_broken() -> nn.Module:
    """Scores that depend on the length of the keys by one part in 1e7."""
    model = randomised(TinyModel(layers=1)).eval()
    attention = model.layers[0]

    def forward(x: Tensor) -> Tensor:
        extra = attention.k_proj(x).square().mean()
        return SelfAttention.forward(attention, x) * (1 + 1e-7 * extra)

    attention.forward = forward
    return model


def test_a_confirmation_keeps_the_worst_of_two_batches():
    model = sometimes()
    graph = graph_of(model)
    batch = plain_batch()
    report = graph.verify(batch["ids"])
    assert report.passed
    again = confirmed(report, graph, token_batch(4, 7, vocabulary=RARE, seed=3))
    assert again.passed
    assert all(b.residual >= a.residual for a, b in zip(report.entries, again.entries, strict=True))
    late = confirmed(again, graph, with_rare(batch, 1)["ids"])
    assert {e.kind for e in late.with_status("failed")} == {"attention_qk", "key_bias_translation"}
    assert confirmed(late, graph, batch["ids"]).failures().keys() == late.failures().keys()
