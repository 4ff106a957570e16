"""Running a model at other parameters in float64: what is compared, and under which batches and modes."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import ModeError, NonFiniteLossError, SymmetryError
from quotientgeo.model.probe import _InDouble, seeded
from tests.helpers.graphs import graph_of
from tests.helpers.models import VOCABULARY, TinyModel, randomised, tiny, token_batch


def test_training_mode_is_refused_and_names_the_module():
    model = tiny(dropout=0.5)
    model.layers[1].dropout.train()
    graph = graph_of(model)
    with pytest.raises(ModeError, match=r"training mode \(layers.1.dropout\).*call model.eval\(\)"):
        graph.verify(token_batch())
    model.train()
    with pytest.raises(ModeError, match=r"the model itself, .* and .* more"):
        graph.verify(token_batch())


def test_training_mode_on_demand_is_repeatable_and_unfolds_the_value_bias():
    """Under dropout attention weights do not sum to one, so the value bias is no translation any more; GL still holds."""
    model = tiny(dropout=0.5)
    model.train()
    graph = graph_of(model)
    report = graph.verify(token_batch(), allow_training_mode=True)
    assert {entry.kind for entry in report.with_status("failed")} == {"value_bias_fold"}
    part = graph.restricted_to([entry.name for entry in report.with_status("passed")])
    part.verify(token_batch(), allow_training_mode=True).require()
    assert model.training


class AlwaysDropout(TinyModel):
    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(ids), p=0.3)  # training=True is the default of the function


class Counting(TinyModel):
    calls = 0

    def forward(self, ids: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(ids) * (1 + self.calls)


@pytest.mark.parametrize("kind", [AlwaysDropout, Counting])
def test_a_forward_pass_that_differs_from_run_to_run_is_refused(kind):
    model = randomised(kind()).eval()
    graph = graph_of(model)
    with pytest.raises(SymmetryError, match="two runs at the same parameters differ"):
        graph.verify(token_batch())


class Float32Islands(TinyModel):
    """Half of the casts that real models make."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.positions[: ids.shape[1]]
        for layer in self.layers:
            q, k, v = (f(x).unflatten(-1, (2, 4)).transpose(1, 2) for f in (layer.q_proj, layer.k_proj, layer.v_proj))
            weights = nn.functional.softmax(q.float() @ k.mT.float(), dim=-1, dtype=torch.float32).to(v.dtype)
            norm = torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True)).to(x.dtype)
            x = x + layer.o_proj((weights @ v).transpose(1, 2).flatten(2)) * norm
        return self.head(x)


def test_float32_islands_do_not_hide_an_exact_symmetry():
    graph = graph_of(randomised(Float32Islands()).eval())
    report = graph.verify(token_batch())
    report.require()
    assert report.residual < 1e-13


def test_casts_to_narrower_floats_become_float64():
    x = torch.ones(2, dtype=torch.float64)
    with _InDouble():
        for y in (
            x.float(),
            x.half(),
            x.bfloat16(),
            x.to(torch.float32),
            x.to(dtype=torch.float16),
            x.softmax(0, torch.float32),
        ):
            assert y.dtype == torch.float64
        assert torch.zeros(1, dtype=torch.bfloat16).dtype == torch.float64
        assert x.to(torch.int64).dtype == torch.int64
    assert x.float().dtype == torch.float32


@dataclass
class Output:
    logits: Tensor
    cache: Tensor
    ids: Tensor


class Structured(TinyModel):
    """Returns what models return: dataclasses, dicts, caches that move along the orbit, integers, masked logits, a loss."""

    def forward(self, ids: Tensor, scale: Tensor | None = None) -> dict[str, object]:
        keys = self.layers[0].k_proj(self.embed(ids))
        logits = super().forward(ids) if scale is None else super().forward(ids) * scale
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        masked = logits.masked_fill(torch.arange(VOCABULARY) < 3, -torch.inf)
        return {"loss": loss, "all": [Output(logits, keys, ids), (masked,)], "past_key_values": keys, "none": None}


def test_every_floating_output_is_compared_wherever_it_is():
    graph = graph_of(randomised(Structured()).eval())
    report = graph.verify({"ids": token_batch(), "scale": torch.tensor(2.0)})
    report.require()
    assert report.outputs == ("loss", "all[0].logits", "all[1][0]")
    wrong = qg.SymmetryGraph(graph.model)
    wrong.add(qg.PairBlock("wrong", qg.GL(13), (qg.Leg("head.weight"),), (qg.Leg("embed.weight"),)))
    assert not wrong.verify((token_batch(), torch.ones(()))).passed


def test_batches_may_be_mappings_sequences_tensors_or_read_by_a_function():
    model = tiny()
    graph = graph_of(model)
    ids = token_batch()
    for batch in ({"ids": ids}, UserDict(ids=ids), (ids,), [ids], ids):
        assert graph.verify(batch).passed
    report = graph.verify({"x": ids, "labels": ids}, forward=summed_loss)
    report.require()
    assert report.outputs == ("[0]",)


def summed_loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    logits = model(batch["x"])
    labels = batch["labels"].flatten()
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels, reduction="sum"), torch.tensor(labels.numel())


def test_floating_batches_are_raised_to_float64():
    seen = []
    linear = nn.Linear(3, 2).eval()
    graph = qg.SymmetryGraph(linear)
    graph.add(qg.ShiftBlock("s", (qg.Leg("bias"),), ()))

    def forward(model: nn.Module, batch: dict[str, object]) -> Tensor:
        seen.append(batch["x"].dtype)
        return model(batch["x"])

    report = graph.verify({"x": torch.ones(2, 3, dtype=torch.float16), "name": "text"}, forward=forward)
    assert set(seen) == {torch.float64}
    assert [entry.status for entry in report.entries] == ["failed"]


def test_outputs_that_cannot_be_compared_are_refused():
    graph = graph_of(tiny())
    with pytest.raises(SymmetryError, match="no floating tensor"):
        graph.verify(token_batch(), forward=lambda model, batch: model(batch).argmax(-1))
    with pytest.raises(NonFiniteLossError, match=r"returns NaN on this batch \(\[0\]\)"):
        graph.verify(token_batch(), forward=lambda model, batch: [model(batch) * torch.nan])


def test_shapes_that_change_or_infinities_that_move_are_failures():
    graph = qg.SymmetryGraph(nn.Linear(3, 3, bias=False).eval())
    graph.add(qg.ShiftBlock("s", (qg.Leg("weight", lead=0),)))

    def cut(model: nn.Module, batch: Tensor) -> Tensor:
        return batch[: int(model.weight[0].sum().abs() * 10) % 3 + 1]

    def infinite(model: nn.Module, batch: Tensor) -> Tensor:
        return torch.where(model.weight[0] > 0, torch.inf, batch[0])

    def signed(model: nn.Module, batch: Tensor) -> Tensor:
        return torch.cat([model.weight[0].sign() * torch.inf, batch[0]])

    for forward in (cut, infinite, signed):
        results = {graph.verify(torch.ones(4, 3), forward=forward, seed=seed).entries[0].residual for seed in range(6)}
        assert float("inf") in results, forward


def test_random_numbers_are_borrowed_on_named_devices_only(monkeypatch):
    """On a machine with many accelerators, forking and seeding all of them is slow, and disturbs the others."""
    graph = graph_of(tiny())
    monkeypatch.setattr(torch, "manual_seed", lambda _: pytest.fail("seeds every device"))
    forked: list[tuple[list[int], str]] = []
    real = torch.random.fork_rng

    def watching(devices: list[int] | None = None, device_type: str = "cuda", **_: object) -> object:
        assert devices is not None, "every device is forked"
        forked.append((devices, device_type))
        return real(devices=[])

    monkeypatch.setattr(torch.random, "fork_rng", watching)
    generators = [torch.Generator() for _ in range(3)]
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(default_generators=generators))
    state, others = torch.random.get_rng_state(), [g.get_state() for g in generators]
    with seeded(5, [torch.device("cpu"), torch.device("cuda", 2), torch.device("cuda", 2)]):
        drawn = torch.rand(3)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(5)))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert forked == [([], "cuda"), ([2], "cuda")]
    assert [torch.equal(g.get_state(), old) for g, old in zip(generators, others, strict=True)] == [True, True, False]
    assert generators[2].initial_seed() == 5
    graph.verify(token_batch()).require()
    assert all(devices == [] for devices, _ in forked[2:])
