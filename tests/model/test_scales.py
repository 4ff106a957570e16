"""One false entry is a failure, however large its neighbours are; rounding is none, however small the entry is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import SymmetryError
from quotientgeo.model.scales import ALLOWED, TOLERANCE, Scales, change, distances
from tests.helpers.graphs import graph_of
from tests.helpers.models import VOCABULARY, TinyModel, randomised, tiny, token_batch


def double(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def scales(rounding: float = 1e-16, **outputs: Tensor) -> Scales:
    """Scales where rounding moves every entry by this much."""
    return Scales.of(outputs, {name: torch.full_like(tensor, rounding) for name, tensor in outputs.items()})


def test_a_loss_near_zero_is_compared_on_the_scale_of_what_it_is_a_difference_of():
    """A fitted model's loss is 1e-12 with rounding 1e-16: relative to itself that would be a broken symmetry."""
    logits, loss = double(2.0, -1.0), torch.tensor(1e-12, dtype=torch.float64)
    together = scales(0.0, logits=logits, loss=loss)
    assert together.change({"logits": logits, "loss": loss}) == 0.0
    constant = together.change({"logits": logits, "loss": loss + 1e-16})
    assert constant == pytest.approx(1e-4, rel=1e-3), "nothing moves by rounding, so nothing says how it rounds"
    moving = Scales.of({"logits": logits, "loss": loss}, {"logits": logits.abs() * 1e-16, "loss": loss * 0})
    assert moving.change({"logits": logits, "loss": loss + 1e-16}) < 1e-11
    assert moving.change({"logits": logits, "loss": loss + 1e-13}) > TOLERANCE
    seen = scales(1e-16, loss=loss)
    assert seen.change({"loss": loss + 50 * 1e-16}) < TOLERANCE < seen.change({"loss": loss + 1e-12})
    assert seen.change({"loss": loss + 1e-16}, rounding=False) == pytest.approx(1e-4, rel=1e-3)


def test_large_entries_and_tensors_do_not_hide_a_change_of_small_ones():
    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for big in (1e9, -3e38, torch.inf):
        large = table.clone()
        large[:, 1] = big
        wrong = large.clone()
        wrong[2, 0] += 1e-6 * table[:, 0].abs().median()
        assert scales(out=large).change({"out": wrong}) > 1e-8
        assert scales(out=large).change({"out": large}) == 0.0
    mask = table.clone()
    mask[:5] = -1e9  # most entries of every column: constant, so nobody's scale
    noise = torch.zeros_like(mask)
    noise[5] = 1e-16
    wrong = mask.clone()
    wrong[5] *= 1 + 1e-6
    assert Scales.of({"out": mask}, {"out": noise}).change({"out": wrong}) == pytest.approx(1e-6)
    count = {"loss": torch.tensor(1e-8, dtype=torch.float64), "count": torch.tensor(1e6, dtype=torch.float64)}
    assert scales(0.0, **count).change(count | {"loss": count["loss"] * (1 + 1e-6)}) == pytest.approx(1e-6)


def test_entries_near_zero_by_chance_are_measured_like_their_column():
    table = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * double(1, 1e3, 1e-3)
    table[7] = 1e-15
    moved = table + 1e-14 * double(1, 1e3, 1e-3)
    assert scales(out=table).change({"out": moved}, rounding=False) < 1e-13
    assert change({"out": moved}, {"out": table}) < 1e-13
    assert change({"out": table * double(1, 1, 1 + 1e-6)}, {"out": table}) == pytest.approx(1e-6)


def test_an_entry_that_happened_not_to_round_rounds_like_its_column():
    differences = torch.full((9, 2), 1e-12, dtype=torch.float64)
    rounding = torch.full_like(differences, 1e-14)
    rounding[4, 0] = 0.0
    rounding[:, 1] = 0.0
    measure = Scales.of({"out": differences}, {"out": rounding})
    moved = differences.clone()
    moved[4, 0] += 5e-14
    assert measure.change({"out": moved}) < TOLERANCE
    moved[4, 1] += 5e-14
    assert measure.change({"out": moved}) == pytest.approx(0.05), "nothing in its column rounds"


def test_what_has_no_scale_and_what_does_not_fit():
    zero, one = double(0, 0), double(1, 1)
    assert change({"a": zero}, {"a": zero}) == 0.0
    assert change({"a": one}, {"a": zero}) == float("inf")
    assert change({"a": one}, {"b": one}) == float("inf")
    assert change({"a": one[:1]}, {"a": one}) == float("inf")
    infinite = double(-torch.inf, 1)
    assert change({"a": infinite}, {"a": infinite}) == 0.0
    for other in (double(torch.inf, 1), double(0, 1), double(torch.nan, 1)):
        assert distances(other, infinite) is None
        assert change({"a": other}, {"a": infinite}) == float("inf")


def test_a_gradient_of_the_combination_is_a_root_mean_square_of_relative_rates():
    table = torch.randn(300, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 3
    table[:, 1] = -1e9
    t = torch.zeros(4000, dtype=torch.float64, requires_grad=True)
    moved = {"out": table[None] * (1 + t[:, None, None] * double(1, 0))}
    measure = Scales.of({"out": moved["out"].detach()}, {"out": torch.full_like(moved["out"], 1e-17).detach()})
    (gradient,) = torch.autograd.grad(measure.combination(moved, torch.Generator().manual_seed(0)), t)
    assert float(gradient.norm()) == pytest.approx(0.5**0.5, rel=0.1), (
        "half of the entries move, at a relative rate of one"
    )
    assert ALLOWED / TOLERANCE * 1e-17 < 1e-3, "a fault in the test: rounding would be the scale"


# --- models with a false symmetry, and what used to hide it ---


class Covered(nn.Module):
    """Another model's logits with one column at a constant, as masked classes and unused tokens are."""

    def __init__(self, inner: nn.Module, value: float):
        super().__init__()
        self.inner, self.value = inner, value

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.inner(ids).clone()
        logits[..., 0] = self.value
        return logits


def query_key(model: nn.Module, prefix: str = "inner.") -> qg.SymmetryGraph:
    """GL(4) of queries and keys, which is false under rotary positions."""
    graph = qg.SymmetryGraph(model)
    for layer in (0, 1):
        for head in (0, 1):
            at = range(4 * head, 4 * head + 4)
            G, H = (
                [qg.Leg(f"{prefix}layers.{layer}.{part}_proj.{kind}", indices=at) for kind in ("weight", "bias")]
                for part in "qk"
            )
            graph.add(qg.PairBlock(f"{layer}.{head}", qg.GL(4), tuple(G), tuple(H)))
    return graph


def cross_entropy(model: nn.Module, ids: Tensor) -> tuple[Tensor, int]:
    logits = model(ids)
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids.roll(1, 1).flatten(), reduction="sum"), ids.numel()


def weakened(model: nn.Module, factor: float) -> nn.Module:
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                p.mul_(factor)
    return model


@pytest.mark.parametrize("factor", [1.0, 0.1, 1e-2])
@pytest.mark.parametrize("value", [0.0, -1e4, -1e9, -3e38, -torch.inf])
def test_a_false_symmetry_is_found_beside_a_column_of_any_size(value, factor):
    model = weakened(Covered(tiny(3, rotary=4), value), factor).eval()
    report = query_key(model).verify(token_batch())
    assert [entry.status for entry in report.entries] == ["failed"] * 4
    with pytest.raises(SymmetryError, match="4 of 4 declared symmetries"):
        qg.sharpness(model, cross_entropy, [token_batch()], graph=query_key(model), steps=1)
    true = weakened(Covered(tiny(3), value), factor).eval()
    report = query_key(true).verify(token_batch(), cross_entropy)
    report.require()
    assert report.residual < 1e-12


@pytest.mark.parametrize("factor", [1.0, 1e-4, 1e-8])
def test_a_false_symmetry_is_found_where_the_loss_is_small_and_its_count_is_not(factor):
    """The loss calls a part of the model, so that nothing but the loss is compared."""

    class Holder(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

    def loss(model: nn.Module, ids: Tensor) -> tuple[Tensor, Tensor]:
        total, count = cross_entropy(model.inner, ids)
        return total * factor, torch.tensor(float(count))

    model = Holder(tiny(3, rotary=4)).eval()
    with pytest.raises(SymmetryError, match="4 of 4 declared symmetries"):
        qg.sharpness(model, loss, [token_batch()], graph=query_key(model), steps=1)
    true = Holder(tiny(3)).eval()
    assert qg.sharpness(true, loss, [token_batch()], graph=query_key(true), steps=1).ok


@pytest.mark.parametrize("value", [0.0, -1e9, -3e38])
@pytest.mark.parametrize("strength", [1e-2, 1e-5, 1e-7])
def test_a_regulariser_breaks_a_symmetry_that_the_outputs_have(strength, value):
    """Logits do not change along the orbit; the loss does, since the squares of the weights do."""

    def loss(model: nn.Module, ids: Tensor) -> Tensor:
        total, count = cross_entropy(model, ids)
        return total / count + strength * sum(p.square().sum() for p in model.parameters())

    model = Covered(tiny(3), value).eval()
    with pytest.raises(SymmetryError, match="declared symmetries do not hold"):
        qg.sharpness(model, loss, [token_batch()], graph=query_key(model), steps=1)


@pytest.mark.parametrize("bias", [3.0, 30.0, 34.0, 300.0])
def test_a_true_symmetry_holds_where_the_loss_is_almost_zero(bias):
    """Softmax saturates: the loss is exp(-bias), a difference of two numbers of the size of the bias."""
    model = randomised(Fitted(bias)).eval()
    with torch.no_grad():
        model.bias.copy_(torch.tensor([bias, *[0.0] * (VOCABULARY - 1)]))
    ids = token_batch()

    def loss(model: nn.Module, ids: Tensor) -> tuple[Tensor, int]:
        return nn.functional.cross_entropy(model(ids).flatten(0, 1), 0 * ids.flatten(), reduction="sum"), ids.numel()

    report = graph_of(model).verify(ids, lambda m, b: [m(b), loss(m, b)])
    assert not report.with_status("failed")
    assert report.with_status("passed")


class Fitted(TinyModel):
    def __init__(self, bias: float):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + self.bias
