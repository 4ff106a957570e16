"""What went wrong for others who did this job: one named test for each public report.

Every test runs its check twice: on the package as it is, and with the reported fault planted, which the check must notice.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import quotientgeo as qg
from quotientgeo.errors import DataError, LossError, ModeError, SymmetryError
from quotientgeo.geometry.pair import PairGeometry
from quotientgeo.measures import adaptive, batches, charts, evaluate, maximiser, objective, problem
from tests.helpers.models import tiny, token_batch
from tests.helpers.traps import EXAMPLES, LENGTH, batch, loss, measured, notices


class TestHessianEigenthingsPR46:
    """80 GB for a 160M model: cross-entropy holds ten copies of the logits."""

    def test_micro_batches_give_the_same_value_and_the_peak_is_recorded(self, monkeypatch):
        model = tiny().double()

        def check():
            whole, *parts = (measured(model, micro_batch_size=size) for size in (None, 2, 1))
            for part in parts:
                assert part.value == pytest.approx(whole.value, rel=1e-6)
                assert part.definitions["micro_batch_size"] in (1, 2)
                assert part.peak_memory_bytes > 0

        check()
        real = objective.Objective._checked

        def mean_of_part(self, out):  # planted: the mean of the means of the parts
            part, count = real(self, out)
            return part / count.clamp_min(1), torch.ones_like(count)

        monkeypatch.setattr(objective.Objective, "_checked", mean_of_part)
        assert notices(check, LossError)  # already where the split is tried on two examples

    def test_the_loss_sees_no_more_than_a_micro_batch(self, monkeypatch):
        model = tiny().double()
        sizes: set[int] = set()

        def watching(model, batch):
            if torch.is_grad_enabled():  # the split itself is tried once on two examples, without gradients
                sizes.add(len(batch["ids"]))
            return loss(model, batch)

        def check():
            sizes.clear()
            measured(model, of=watching, micro_batch_size=1, symmetries="none", graph=None)
            assert sizes == {1}

        check()
        monkeypatch.setattr(objective, "split_batch", lambda batch, size: [batch])
        assert notices(check)

    def test_a_mean_is_refused(self):
        def mean(model, batch):
            total, count = loss(model, batch)
            return total / count

        with pytest.raises(LossError, match="sum, count"):
            measured(tiny().double(), of=mean, micro_batch_size=1)


class TestHessianEigenthings42And23Curvlinops75:
    """Values move with the device, the split of the data and shuffling."""

    def test_a_shuffling_loader_is_refused_by_name(self, monkeypatch):
        shuffling = DataLoader(TensorDataset(token_batch(8, LENGTH)), batch_size=4, shuffle=True)

        def check():
            with pytest.raises(DataError, match="RandomSampler"):
                qg.sharpness(tiny(), loss, shuffling, measure="adaptive")

        check()
        monkeypatch.setattr(batches, "_refuse_shuffling", lambda loader: None)
        assert notices(check, Exception)

    def test_every_result_says_which_data_and_how_many_examples(self, monkeypatch):
        model = tiny().double()

        def check():
            one, again, other = (measured(model, data=[batch(seed)]) for seed in (0, 0, 1))
            assert one.value == again.value
            assert one.definitions == again.definitions
            assert one.definitions["data_digest"] != other.definitions["data_digest"]
            assert one.definitions["examples_per_batch"] == EXAMPLES
            assert {"seed", "device", "dtype", "model_digest", "versions"} <= set(one.definitions)

        check()
        monkeypatch.setattr("quotientgeo.measures.report.data_digest", lambda sample: "the same")
        assert notices(check)

    def test_a_random_start_is_the_seed_s(self, monkeypatch):
        model = tiny().double()

        def check():
            trace = [measured(model, seed=seed, starts=2).batches[0].trace[1] for seed in (0, 0, 1)]
            assert trace[0] == trace[1] != trace[2]

        check()
        real = torch.Generator
        monkeypatch.setattr(
            "quotientgeo.measures.ascent.start_seed", lambda *_: real().seed() % 2**31
        )  # planted: a fresh seed every time
        assert notices(check)


class TestHessianEigenthings30:
    """Unused parameters."""

    def test_they_are_reported_and_left_out(self, monkeypatch):
        model = tiny().double()
        model.spare = nn.Linear(50, 50).double().eval()

        def check():
            with_spare = measured(model, starts=2)
            assert with_spare.left_out == dict.fromkeys(
                ["spare.bias", "spare.weight"], "no gradient of the loss reaches it"
            )
            assert "spare.weight" not in with_spare.per_block
            bare = tiny().double()
            assert measured(bare, starts=2).value == pytest.approx(with_spare.value, rel=1e-12)

        check()
        real = problem.observe
        for place in ("ascent", "fitting"):
            monkeypatch.setattr(
                f"quotientgeo.measures.{place}.observe",
                lambda *args: problem.Observation(real(*args).loss, frozenset(), real(*args).rows),
            )
        assert notices(check, LossError)


class Noisy(nn.Module):
    """Dropout and BatchNorm: what training mode is for."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6, 13)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(self.drop(self.norm(x.flatten(0, 1)))).unflatten(0, ids.shape)


class TestFunctorch1100:
    """Dropout left on."""

    def test_training_mode_is_refused_unless_asked_for(self, monkeypatch):
        model = Noisy().double().train()

        def check():
            with pytest.raises(ModeError, match="eval"):
                measured(model, measure="adaptive", graph=None)

        check()
        monkeypatch.setattr(evaluate, "require_evaluation_mode", lambda model: None)
        assert notices(check)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_when_asked_for_it_has_one_mask_and_leaves_the_statistics(self, dtype, monkeypatch):
        model = Noisy().to(dtype).train()
        model.norm.float()  # where weights are raised to float32, these buffers fit already
        model.norm.to(torch.float64 if dtype == torch.float64 else torch.float32)
        before = copy.deepcopy(model.state_dict())
        state = torch.random.get_rng_state()

        def check():
            model.load_state_dict(before)
            values = [
                measured(model, measure="adaptive", graph=None, allow_training_mode=True, seed=s).value
                for s in (0, 0, 1)
            ]
            assert values[0] == values[1] != values[2]
            for name, tensor in model.state_dict().items():
                assert torch.equal(tensor, before[name]), name
            assert torch.equal(torch.random.get_rng_state(), state)
            assert model.training

        check()
        monkeypatch.setattr(
            objective.Objective,
            "_call",
            lambda self, parameters, batch, then: objective.functional_call(
                self._bound, {f"model.{name}": tensor for name, tensor in parameters.items()}, (batch, then)
            ),
        )
        assert notices(check, SymmetryError)


class TestDavda54Sam37Gsam5:
    """rho means different things, and m is not declared."""

    def test_the_result_defines_rho_its_norm_and_m(self, monkeypatch):
        model = tiny().double()

        def check():
            norms = set()
            for measure in ("geodesic", "adaptive", "euclidean"):
                definitions = measured(model, measure=measure).definitions
                assert definitions["rho"] == 0.3
                assert definitions["examples_per_batch"] == EXAMPLES
                assert definitions["aggregation"].startswith("mean over batches")
                norms.add(definitions["norm"])
            assert len(norms) == 3

        check()
        monkeypatch.setattr(
            "quotientgeo.measures.report.NORMS", dict.fromkeys(("geodesic", "adaptive", "euclidean"), "the norm")
        )
        assert notices(check)

    def test_the_radius_is_used_and_kept(self):
        for measure in ("geodesic", "adaptive", "euclidean"):
            result = measured(tiny().double(), measure=measure, steps=8)
            assert 0.29 < result.batches[0].achieved_norm <= 0.3 * (1 + 1e-5)


class TestGeoopt243Geomstats982:
    """NaN gradient at the zero tangent and at equal singular values."""

    @pytest.mark.parametrize("metric", ["invariant", "mixed"])
    @pytest.mark.parametrize("geodesic", ["exact", 2, 4])
    @pytest.mark.parametrize("spectrum", ["distinct", "equal"])
    def test_first_and_second_derivatives_are_finite(self, metric, geodesic, spectrum, monkeypatch):
        generator = torch.Generator().manual_seed(0)
        G, H = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (6, 5))
        if spectrum == "equal":
            G, H = (2 * torch.linalg.qr(factor).Q for factor in (G, H))  # all singular values of G H' are 4
        geometry = PairGeometry.at(G, H, metric=metric, geodesic=geodesic, rho=0.1)
        weights = torch.randn(2, 6, 5, generator=generator, dtype=torch.float64)

        def check():
            zero = geometry.zero()
            leaves = [part.clone().requires_grad_() for part in zero]
            Y_G, Y_H = geometry.exp(type(zero)(*leaves))
            value = ((Y_G @ Y_H.mT).sin() * weights).sum()
            first = torch.autograd.grad(value, leaves, create_graph=True)
            second = torch.autograd.grad(sum((g * g.detach()).sum() for g in first), leaves)
            for g in (*first, *second):
                assert torch.isfinite(g).all()
            assert any(float(g.detach().abs().max()) > 0 for g in first)

        check()
        real = PairGeometry.exp
        monkeypatch.setattr(  # planted: a geodesic that divides by the length of its tangent
            PairGeometry,
            "exp",
            lambda self, z: real(self, z.scale(torch.sinc(z.squared_norm().sqrt()))),
        )
        assert notices(check)


class TestQuaRot34SpinQuant14:
    """Folding that does not keep the function."""

    def test_every_symmetry_is_verified_on_the_model_itself(self, monkeypatch):
        model = tiny(rotary=4, biases="").double()

        def check():
            with pytest.raises(SymmetryError, match="head0"):
                measured(model)

        check()
        from quotientgeo.measures.verification import Verified

        monkeypatch.setattr(evaluate, "verify_before_use", lambda *_, **__: Verified())
        monkeypatch.setattr("quotientgeo.measures.ascent.GAUGE_TOLERANCE", {torch.float64: math.inf})
        assert notices(check)

    def test_the_loss_in_the_canonical_gauge_is_a_second_line_of_defence(self, monkeypatch):
        from quotientgeo.measures.verification import Verified

        monkeypatch.setattr(evaluate, "verify_before_use", lambda *_, **__: Verified())
        with pytest.raises(SymmetryError, match="canonical gauge"):
            measured(tiny(rotary=4, biases="").double())


class TestTmlEpflSharpness:
    """A weight of exactly zero makes the adaptive norm NaN and the projection is skipped (norm 0.233 at radius 0.01); a NaN
    loss compares false and scores 0; random starts raise TypeError."""

    def zeros(self):
        model = tiny().double()
        with torch.no_grad():
            model.layers[0].o_proj.bias.zero_()
            model.embed.weight[0].zero_()
            model.head.weight[3].zero_()
        return model

    @pytest.mark.parametrize("measure", ["adaptive", "geodesic"])
    def test_zero_weights(self, measure, monkeypatch):
        model = self.zeros()
        seen: list[torch.Tensor] = []

        def watching(model, batch):
            seen.append(torch.cat([model.embed.weight[0].detach(), model.head.weight[3].detach()]))
            return loss(model, batch)

        def check():
            seen.clear()
            result = measured(model, of=watching, measure=measure, rho=0.01, starts=3, steps=6)
            assert result.ok
            assert 0 < result.batches[0].achieved_norm <= 0.01 * (1 + 1e-5)
            assert all(float(entries.abs().max()) == 0 for entries in seen)

        check()
        # planted: the projection is skipped
        monkeypatch.setattr(maximiser._State, "_shrink", lambda self, square: torch.ones_like(square))
        assert notices(check)

    def test_a_zero_weight_that_moves_is_noticed(self, monkeypatch):
        model = self.zeros()
        seen: list[float] = []

        def watching(model, batch):
            seen.append(float(model.head.weight[3].detach().abs().max()))
            return loss(model, batch)

        def check():
            seen.clear()
            assert measured(model, of=watching, measure="adaptive", graph=None, starts=2).ok
            assert set(seen) == {0.0}

        check()
        monkeypatch.setattr(  # planted: the usual |w| + eps
            adaptive, "build", lambda model, dtype: problem.elementwise(model, dtype, lambda w: w.abs() + 1e-3)
        )
        assert notices(check)

    def test_a_nan_loss_is_a_named_outcome(self, monkeypatch):
        model = tiny().double()
        head = model.head.weight.detach().clone()

        def poisoned(model, batch):
            total, count = loss(model, batch)
            moved = (model.head.weight - head).abs().max()
            return torch.where(moved > 1e-3, total * math.nan, total), count

        def check():
            result = measured(model, of=poisoned, measure="adaptive", graph=None)
            assert result.outcome == "non_finite_loss"
            assert math.isnan(result.value)
            assert "step 1" in result.detail

        check()
        monkeypatch.setattr(torch, "isfinite", lambda x: torch.ones_like(x, dtype=torch.bool))
        assert notices(check)

    def test_random_starts_run(self):
        result = measured(self.zeros(), starts=4)
        assert result.ok
        assert len(result.batches[0].trace) == 4

    def test_the_achieved_norm_is_checked_by_the_metric_itself(self, monkeypatch):
        """Not by |z|: a chart whose coordinates lie about lengths is caught."""

        def check():
            assert measured(tiny().double(), measure="adaptive", graph=None).ok

        check()
        real = charts.ElementwiseChart.squared_norm
        monkeypatch.setattr(charts.ElementwiseChart, "squared_norm", lambda self, z: 4 * real(self, z))
        assert notices(check)
