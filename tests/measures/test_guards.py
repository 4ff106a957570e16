"""What would give a wrong number in silence: fast paths, caches, splits, flat starts, and sums over batches."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, LossError, SymmetryError
from quotientgeo.geometry import flow
from quotientgeo.measures import adaptive, geodesic, report
from quotientgeo.measures import ascent as ascent_module
from quotientgeo.measures.ascent import BatchAscent
from quotientgeo.measures.charts import Atlas
from quotientgeo.measures.objective import Objective
from quotientgeo.measures.problem import raised
from quotientgeo.measures.verification import Verified
from tests.helpers.losses import masked_batch, masked_loss, tiny_batch, tiny_loss
from tests.helpers.models import TinyModel, hugging_face


def plain(model, batches, loss, **settings):
    settings = {"measure": "adaptive", "steps": 5, "rho": 0.05} | settings
    return qg.sharpness(model, loss, batches, **settings)


def cross_entropy(model, batch):
    x, y = batch
    return nn.functional.cross_entropy(model(x), y, reduction="sum"), len(y)


def data(seed=0, count=6, width=5, classes=3):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=generator, dtype=torch.float64)
    return x, torch.randint(classes, (count,), generator=generator)


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double().eval()


class TestOneLossFunction:
    def test_values_with_and_without_gradients_are_the_same_function(self):
        """nn.TransformerEncoder zeroes padded positions where no gradient is asked for."""
        torch.manual_seed(2)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double().eval()
        x, padding = torch.randn(2, 5, 8, dtype=torch.float64), torch.zeros(2, 5, dtype=torch.bool)
        padding[0, 2:] = True

        def loss(model, batch):
            out = model(batch[0], src_key_padding_mask=batch[1])
            return out.sin().square().sum(), out.numel()

        fast = torch.backends.mha.get_fastpath_enabled()
        try:
            values = []
            for enabled in (True, False):
                torch.backends.mha.set_fastpath_enabled(enabled)
                values.append(plain(model, [(x, padding)], loss, rho=0.01).value)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
        assert values[0] == pytest.approx(values[1], rel=1e-12)

    def test_a_cache_of_weights_is_named(self):
        model = nn.Sequential(parametrizations.weight_norm(nn.Linear(5, 8)), nn.Tanh(), nn.Linear(8, 3)).double().eval()
        assert plain(model, [data()], cross_entropy).ok
        with parametrize.cached(), pytest.raises(LossError, match="keeps results between calls"):
            plain(model, [data()], cross_entropy)

    def test_tables_that_rewrite_themselves_are_refused(self):
        model = nn.Sequential(nn.Embedding(7, 4, max_norm=1.0), nn.Linear(4, 3)).eval()
        with pytest.raises(ArgumentError, match="max_norm"):
            plain(model, [(torch.tensor([1, 2]), torch.tensor([0, 1]))], cross_entropy)

    def test_weights_and_batches_made_under_inference_mode(self):
        with torch.inference_mode():
            inside, batch = mlp(), data()
        with pytest.raises(ArgumentError, match="built under"):
            plain(inside, [data()], cross_entropy)
        assert plain(mlp(), [batch], cross_entropy).value == plain(mlp(), [data()], cross_entropy).value


class TestSplits:
    def test_examples_that_are_compared_with_each_other(self):
        def contrastive(model, batch):
            scores = model(batch[0])
            return nn.functional.cross_entropy(scores @ scores.T, torch.arange(len(scores)), reduction="sum"), len(
                scores
            )

        assert plain(mlp(), [data()], contrastive).ok
        with pytest.raises(LossError, match="compared with each other"):
            plain(mlp(), [data()], contrastive, micro_batch_size=3)

    def test_a_tensor_that_only_looks_like_examples(self):
        def mixing(model, batch):
            x, y, mixer = batch
            return nn.functional.cross_entropy(mixer[:, : len(x)] @ model(x), y[: len(mixer)], reduction="sum"), len(y)

        x, y = data()
        with pytest.raises(LossError, match="one row per example"):
            plain(mlp(), [(x, y, torch.rand(6, 6, dtype=torch.float64))], mixing, micro_batch_size=2)

    def test_counts_that_do_not_add_up(self):
        def halves(model, batch):
            return cross_entropy(model, batch)[0], max(len(batch[1]) // 2, 1)

        with pytest.raises(LossError, match=r"one by one \(.*, 2\)"):
            plain(mlp(), [data()], halves, micro_batch_size=3)

    def test_a_sum_over_examples_may_be_split(self):
        whole = plain(mlp(), [data()], cross_entropy)
        assert plain(mlp(), [data()], cross_entropy, micro_batch_size=1).value == pytest.approx(whole.value, rel=1e-12)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self, x):
        return x * self.w


class TestStationaryPoints:
    def test_the_first_start_is_random_and_said_to_be(self):
        """At an exact minimum the gradient is zero, and no step follows it: 0 would be the value."""
        x = torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=torch.float64)
        result = plain(Scaled().eval(), [(x, x)], lambda m, b: ((m(b[0]) - b[1]).square().sum(), 2), rho=0.3, steps=20)
        # (9 + 1) / 2 = 5 times the square of the radius in the direction of the first weight
        assert result.value == pytest.approx(5 * 0.3**2, rel=1e-3)
        assert any("gradient at the weights is exactly zero" in note for note in result.notes)
        assert result.definitions["starts"] == 1

    def test_a_value_of_zero_is_noted_even_at_a_loss_of_zero(self):
        def flat(model, batch):
            return (model(batch[0]) * 0).sum(), 1

        result = plain(mlp(), [data()], flat)
        assert result.value == 0
        assert any("rounding errors" in note for note in result.notes)

    def test_the_warning_has_room(self, monkeypatch):
        """A value of 10 rounding errors is named, one of 10,000 is not."""
        assert report.RESOLUTION_WARNING == 100
        model = mlp().float()
        x, y = data()
        batch = [(x.float(), y)]
        loss = plain(model, batch, cross_entropy).batches[0].loss
        for errors, noted in ((10, True), (1e5, False)):
            slope = plain(model, batch, cross_entropy, rho=1e-3, steps=1).value / 1e-3
            rho = errors * torch.finfo(torch.float32).eps * loss / slope
            assert any("rounding errors" in n for n in plain(model, batch, cross_entropy, rho=rho).notes) == noted

    def test_the_weights_themselves_are_a_candidate_with_no_displacement(self, monkeypatch):
        """Where nothing better was found the value is 0 at norm 0, and nobody has a share."""
        best = ascent_module.auto_pgd

        def worse(*args, **kwargs):
            found = best(*args, **kwargs)
            return ascent_module.Ascent(
                found.best_point, found.best_value - 10, found.best_step, found.values, found.finite, found.best_point
            )

        monkeypatch.setattr(ascent_module, "auto_pgd", worse)
        result = plain(mlp(), [data()], cross_entropy)
        assert (result.value, result.batches[0].achieved_norm) == (0, 0)
        assert all(share == {"norm_share": 0, "gain_share": 0} for share in result.per_block.values())


class TestSeveralBatches:
    def test_shares_are_averages(self):
        result = plain(mlp(), [data(0), data(1), data(2)], cross_entropy)
        assert sum(share["norm_share"] for share in result.per_block.values()) == pytest.approx(1)

    def test_a_tensor_used_by_one_batch_is_not_unused(self):
        model = nn.ModuleList([nn.Linear(5, 3), nn.Linear(5, 3)]).double().eval()

        def either(model, batch):
            x, y, which = batch
            return cross_entropy(model[int(which)], (x, y))

        batches = [(*data(0), torch.tensor(0)), (*data(1), torch.tensor(1))]
        assert plain(model, batches, either).left_out == {}
        assert set(plain(model, batches[:1], either).left_out) == {"1.weight", "1.bias"}

    def test_every_batch_has_random_starts_of_its_own(self):
        first, second = plain(mlp(), [data(), data()], cross_entropy, starts=3).batches
        assert first.trace[0] == second.trace[0]
        assert first.trace[2] != second.trace[2]

    @pytest.mark.parametrize(("slope", "even"), [(0.0, True), (1.0, False)])
    def test_the_second_start_is_opposite_where_the_loss_is_nearly_even(self, slope, even):
        """L = w^2 - w^3 / 10 + slope w about 0: the gradient start finds one side, the other is higher or not worth a start."""
        model = nn.Linear(1, 1, bias=False).double().eval()
        with torch.no_grad():
            model.weight.fill_(1e-3)

        def loss(model, batch):
            w = model.weight.sum()
            return w**2 - w**3 / 10 + slope * w, 1

        settings = {"measure": "euclidean", "symmetries": "none", "rho": 0.5, "steps": 4}
        one, two = (qg.sharpness(model, loss, [torch.zeros(1)], starts=k, **settings) for k in (1, 2))
        assert (two.batches[0].trace[1][0] == pytest.approx(0.499**2 + 0.499**3 / 10, rel=1e-3)) is even
        assert (two.value > 1.01 * one.value) is even


class Mixed(nn.Module):
    """A linear layer on inputs mixed by a floating buffer, which torch multiplies in one dtype only."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mixer", torch.full((5, 5), 0.25))
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return self.layer(x @ self.mixer)


class TestPrecision:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_models_with_buffers_and_floating_inputs(self, dtype):
        torch.manual_seed(0)
        model = Mixed().to(dtype).eval()
        x, y = data()
        result = plain(model, [(x.to(dtype), y)], cross_entropy)
        single = Mixed().eval()
        single.load_state_dict({name: tensor.float() for name, tensor in model.state_dict().items()})
        assert any("raised to float32" in note for note in result.notes)
        assert result.definitions["dtype"] == "float32"
        assert result.value == plain(single, [(x.to(dtype).float(), y)], cross_entropy).value

    def test_mixed_models_are_raised_to_their_widest(self):
        model = mlp()
        model[0].float()
        x, y = data()

        def loss(model, batch):
            hidden = model[1](model[0](batch[0].to(model[0].weight)))
            return nn.functional.cross_entropy(model[2](hidden.to(model[2].weight)), batch[1], reduction="sum"), len(y)

        result = plain(model, [(x.float(), y)], loss)
        assert any("float32 weights were raised to float64" in note for note in result.notes)
        assert result.ok

    def test_rho_may_be_any_real_number(self):
        assert (
            plain(mlp(), [data()], cross_entropy, rho=Fraction(1, 20)).value
            == plain(mlp(), [data()], cross_entropy).value
        )


class TestTheGaugeCheckIsRelative:
    """A symmetry that fails on a later batch shows in the loss at the canonical gauge, however small the loss is scaled."""

    @pytest.mark.parametrize("factor", [1.0, 1e-3, 1e-6])
    def test_a_small_loss_hides_nothing(self, factor, monkeypatch):
        torch.manual_seed(0)
        model = TinyModel(layers=1, rotary=4).double().eval()
        graph = qg.SymmetryGraph(model)
        for head in (0, 1):
            rows = tuple(range(4 * head, 4 * head + 4))
            sides = (
                (qg.Leg(f"layers.0.{m}_proj.weight", 0, rows), qg.Leg(f"layers.0.{m}_proj.bias", 0, rows)) for m in "qk"
            )
            graph.add(qg.PairBlock(f"head {head}", qg.GL(4), *sides))

        def loss(model, batch):
            total, count = tiny_loss(model, batch)
            return factor * total, count

        # as if it had held on the examples that were tried
        monkeypatch.setattr("quotientgeo.measures.evaluate.verify_before_use", lambda *args: Verified())
        with pytest.raises(SymmetryError, match="does not hold on this batch"):
            qg.sharpness(model, loss, [tiny_batch()], graph=graph, rho=0.01, steps=2)

    def test_rounding_is_let_through(self):
        model = hugging_face("BertForMaskedLM")
        assert qg.sharpness(model, masked_loss, [masked_batch(model)], steps=1).ok

    def ascent(self, dtype=torch.float64):
        model = mlp().to(dtype)
        x, y = data()
        objective = Objective(model, cross_entropy, (x.to(dtype), y))
        return BatchAscent(
            adaptive.build(model, dtype), objective, model, raised(dict(model.named_parameters()), dtype)
        )

    @pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-7), (torch.float32, 1e-3)])
    def test_its_bounds(self, dtype, allowed):
        """Relative to the loss, to the first-order gain, and to rounding: a third of each is let through, three times is not."""
        ascent = self.ascent(dtype)
        seen, eps = ascent.seen.loss, torch.finfo(dtype).eps
        zero = dataclasses.replace(ascent.seen, loss=torch.zeros_like(seen))
        for given, difference, gain in (
            (ascent.seen, allowed * seen, 0.0),
            (zero, 1e-2 * 5.0, 5.0),
            (zero, 10 * eps, 0.0),
        ):
            ascent.seen = given
            ascent._check_reference(given.loss + difference / 3, gain)
            with pytest.raises(SymmetryError):
                ascent._check_reference(given.loss + 3 * difference, gain)

    def test_a_norm_beyond_the_ball_is_a_fault_of_ours(self, monkeypatch):
        monkeypatch.setattr(Atlas, "achieved_norm", lambda self, z: 0.05 * (1 + 1e-4))
        with pytest.raises(AssertionError, match="left its ball"):
            plain(mlp(), [data()], cross_entropy)

    def test_the_value_is_taken_at_settled_steps(self, monkeypatch):
        """One Runge-Kutta step while searching, as many as needed for the value."""
        monkeypatch.setattr(flow, "choose_steps", lambda *args: 1)
        found = []
        real = ascent_module.auto_pgd
        monkeypatch.setattr(ascent_module, "auto_pgd", lambda *a, **k: found.append(real(*a, **k)) or found[-1])
        model = hugging_face("BertForMaskedLM").double()
        batch = masked_batch(model)
        result = qg.sharpness(model, masked_loss, [batch], metric="mixed", rho=0.2, steps=6)
        assert result.definitions["integrator_steps"] > 1
        monkeypatch.setattr(flow, "choose_steps", lambda *args: 64)
        problem = geodesic.build(
            model, torch.float64, qg.symmetry_graph(model), metric="mixed", geodesic="exact", rho=0.2
        )
        parameters = raised(dict(model.named_parameters()), torch.float64)
        fine = BatchAscent(problem, Objective(model, masked_loss, batch), model, parameters)
        exact, maximum = float(fine.value(found[0].best_point)), result.batches[0].maximum
        assert abs(maximum - exact) < 0.2 * abs(float(found[0].best_value) - exact)
