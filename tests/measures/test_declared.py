"""Sharpness of declared geometries: constant on orbits, equal to the measure made for pairs, and named where it has no value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, BlockError, CertificateError
from quotientgeo.geometry.derived import Derived
from tests.helpers.geometries import Certificate, Loaded, pair_geometry
from tests.helpers.graphs import graph_of
from tests.helpers.losses import tiny_batch, tiny_loss
from tests.helpers.models import tiny


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
    return tiny_loss(model, batch)


def by_hand(model: nn.Module, metric: str) -> qg.SymmetryGraph:
    """Every pair of a tiny model as a declared block."""
    graph, known = qg.SymmetryGraph(model), graph_of(model)
    for block in (*known.shifts, *known.blocks):
        graph.add(block if isinstance(block, qg.ShiftBlock) else block.declared(pair_geometry(metric)))
    return graph


def moved(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    other = tiny().double()
    other.load_state_dict(state)
    return other


@pytest.mark.parametrize("geodesic", ["exact", 2])
@pytest.mark.parametrize("metric", ["invariant", "mixed"])
def test_the_pair_declared_by_hand(metric, geodesic):
    """The orbit table, and the value of the measure made for pairs."""
    model = tiny().double()
    budget = {"geodesic": geodesic, "rho": 0.1, "steps": 12, "seed": 2}
    here = qg.sharpness(model, loss, [tiny_batch()], graph=by_hand(model, metric), starts=2, **budget)
    assert here.ok, here.detail
    own = qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=metric, **budget)
    general = qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=pair_geometry(metric), **budget)
    assert general.value == pytest.approx(own.value, rel=1e-6)
    one = qg.sharpness(model, loss, [tiny_batch()], graph=by_hand(model, metric), **budget)
    assert one.value == pytest.approx(general.value, rel=1e-12)
    for condition in (10.0, 1e3):
        point = moved(model, by_hand(model, metric).move(seed=3, condition=condition))
        there = qg.sharpness(point, loss, [tiny_batch()], graph=by_hand(point, metric), starts=2, **budget)
        assert there.value == pytest.approx(here.value, rel=1e-9)
        assert [len(t) for t in there.batches[0].trace] == [13, 13]
        for x, y in zip(there.batches[0].trace, here.batches[0].trace, strict=True):  # the random start, too
            assert x == pytest.approx(y, rel=1e-9)
        assert {k: v["norm_share"] for k, v in there.per_block.items()} == pytest.approx(
            {k: v["norm_share"] for k, v in here.per_block.items()}, abs=1e-7
        )
    other = {"invariant": "mixed", "mixed": "invariant"}[metric]
    different = qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=other, **budget)
    assert abs(different.value / own.value - 1) > 1e-3, "a fault in the test: the metrics cannot be told apart"


def test_a_wrong_metric_root_would_show(monkeypatch):
    """A root that is not that of the metric leaves the ball, or depends on the gauge."""
    from quotientgeo.measures import declared

    model = tiny().double()
    true_root = declared.metric_root

    def scaled(module, point, names):
        root = true_root(module, point, names)
        right = tuple(pair._replace(inverse=1.01 * pair.inverse) for pair in root.right)
        return type(root)(root.left, right, root.shapes)

    monkeypatch.setattr(declared, "metric_root", scaled)
    with pytest.raises(AssertionError, match="left its ball"):
        qg.sharpness(model, loss, [tiny_batch()], graph=by_hand(model, "invariant"), steps=4)


def test_a_pair_with_its_own_geometry_keeps_it_beside_others():
    model = tiny(biases="").double()
    graph = qg.SymmetryGraph(model)
    for k, block in enumerate(graph_of(model).blocks):
        own = pair_geometry("mixed") if k % 2 else None
        graph.add(qg.PairBlock(block.name, block.group, block.G, block.H, block.kind, geometry=own))
    both = qg.sharpness(model, loss, [tiny_batch()], graph=graph, metric="invariant", steps=6)
    every = qg.sharpness(model, loss, [tiny_batch()], graph=graph, metric=pair_geometry("mixed"), steps=6)
    plain = qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric="mixed", steps=6)
    assert every.value == pytest.approx(plain.value, rel=1e-6)
    assert abs(both.value / plain.value - 1) > 1e-4
    assert both.definitions["metric"] == "invariant and gl_pair_mixed"
    assert "sum over blocks of their metrics (invariant, gl_pair_mixed) +" in both.definitions["norm"]
    alone = qg.sharpness(model, loss, [tiny_batch()], graph=by_hand(model, "mixed"), metric="invariant", steps=2)
    assert alone.definitions["metric"] == "gl_pair_mixed"
    assert "sum over blocks of the gl_pair_mixed metric +" in alone.definitions["norm"]
    assert both.definitions["geometries"]["gl_pair_mixed"]["blocks"] == 4
    assert every.definitions["geometries"]["gl_pair_mixed"]["blocks"] == 8


def test_the_record_names_geometry_certificate_and_code():
    model = tiny().double()
    result = qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=pair_geometry("mixed"), steps=3)
    definitions = qg.SharpnessResult.from_json(result.to_json()).definitions
    assert definitions["metric"] == "gl_pair_mixed"
    (entry,) = definitions["geometries"].values()
    assert (entry["blocks"], entry["certificate"]) == (8, "all claims hold")
    assert len(entry["digest"]) == 64
    assert "gl_pair_mixed metric" in definitions["norm"]
    assert definitions["integrator_steps"] >= 2
    other = qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=pair_geometry("invariant"), steps=3)
    assert other.definitions["geometries"]["gl_pair_invariant"]["digest"] != entry["digest"]


def test_float32_agrees_with_float64():
    model = tiny()
    narrow = qg.sharpness(model, loss, [tiny_batch()], graph=by_hand(model, "mixed"), steps=6)
    wide = tiny().double()
    assert narrow.definitions["dtype"] == "float32"
    expected = qg.sharpness(wide, loss, [tiny_batch()], graph=by_hand(wide, "mixed"), steps=6).value
    assert narrow.value == pytest.approx(expected, rel=1e-4)


def test_the_model_stays_as_it_was():
    model = tiny().double()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    qg.sharpness(model, loss, [tiny_batch()], graph=by_hand(model, "invariant"), steps=3)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


class TestNoValue:
    def test_a_geodesic_that_ends_is_named(self):
        model = Product().eval()
        batch = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        graph = qg.SymmetryGraph(model)
        legs = {"G": qg.Leg("G", axis=1), "H": qg.Leg("H", axis=1)}
        graph.add(qg.DeclaredBlock("product", pair_geometry("mixed"), legs))
        shrink = lambda model, batch: (-model(batch).square().sum(), len(batch))  # noqa: E731
        result = qg.sharpness(model, shrink, [batch], graph=graph, rho=3.0, steps=10)
        assert math.isnan(result.value)
        assert result.outcome == "geodesic_collapsed"
        assert "product" in result.detail
        inside = qg.sharpness(model, shrink, [batch], graph=graph, rho=0.2, steps=10)
        assert inside.ok

    def test_a_lost_rank_is_named(self):
        model = tiny(biases="").double()
        with torch.no_grad():
            model.layers[0].q_proj.weight[1] = model.layers[0].q_proj.weight[0]
        graph = by_hand(model, "invariant")
        result = qg.sharpness(model, loss, [tiny_batch()], graph=graph, steps=3)
        assert result.outcome == "rank_deficient"
        assert "layers.0.head0.qk" in result.detail

    def test_an_overflowing_loss_is_named(self):
        model = tiny().double()
        start = float(loss(model, tiny_batch())[0].detach())

        def bad(model, batch):
            total, count = loss(model, batch)
            return total + (math.inf if float(total.detach()) > 1.1 * start else 0.0), count

        result = qg.sharpness(model, bad, [tiny_batch()], graph=by_hand(model, "invariant"), rho=1.0, steps=3)
        assert result.outcome == "non_finite_loss"


class TestArguments:
    def test_what_is_no_geometry(self):
        model = tiny().double()
        with pytest.raises(ArgumentError, match="metric must be one of 'invariant', 'mixed'; got 3"):
            qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=3)
        false = Loaded(pair_geometry("mixed").module(), (qg.GL("h"),), Certificate("1 claim(s) do not hold"))
        with pytest.raises(CertificateError, match=r"metric: 1 claim\(s\) do not hold"):
            qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=false)

    def test_a_geometry_of_another_group(self):
        model = tiny().double()
        module = copy_of(pair_geometry("mixed").module())
        orthogonal = Loaded(module, (qg.Orthogonal("h"),))
        with pytest.raises(BlockError, match=r"does not fit block 'layers.0.head0.qk', a pair G \(9, 4\), H \(8, 4\)"):
            qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=orthogonal)

    def test_a_geometry_of_another_action(self):
        model = tiny().double()
        module = copy_of(pair_geometry("mixed").module())
        module.action = lambda A, G, H: (G @ A.inverse(), H @ A.inverse())
        with pytest.raises(BlockError, match="its action does not move G and H by"):
            qg.sharpness(model, loss, [tiny_batch()], graph=graph_of(model), metric=Loaded(module, (qg.GL("h"),)))

    def test_a_geometry_that_no_block_has(self):
        model, geometry = Rotated().eval(), two_rotations()
        graph = qg.SymmetryGraph(model)
        graph.add(qg.DeclaredBlock("core", geometry, {"W": qg.Leg("W", axis=1)}))
        with pytest.raises(BlockError, match="has the symmetry of no block of the graph: their geometries are rotated"):
            qg.sharpness(model, rotated_loss, [rotated_batch()], graph=graph, metric=pair_geometry("mixed"))


class Product(nn.Module):
    """x -> G H' x."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.G = nn.Parameter(torch.randn(4, 2, generator=generator, dtype=torch.float64))
        self.H = nn.Parameter(torch.randn(3, 2, generator=generator, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.G @ self.H.mT).mT


def copy_of(module: ModuleType) -> ModuleType:
    copy = ModuleType("copy")
    copy.__dict__.update(vars(module))
    return copy


class Rotated(nn.Module):
    """Singular values of W (3, 2) alone matter: O(3) x O(2) acts, from both sides."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.W = nn.Parameter(torch.randn(3, 2, generator=generator, dtype=torch.float64))
        self.v = nn.Parameter(torch.randn(2, generator=generator, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        P = self.W.mT @ self.W
        invariants = torch.stack([torch.trace(P), torch.trace(P @ P)])
        return torch.sin(x @ (invariants * self.v))


def rotated_loss(model: nn.Module, batch: tuple[Tensor]) -> tuple[Tensor, int]:
    return model(batch[0]).square().sum(), len(batch[0])


def rotated_batch() -> tuple[Tensor]:
    return (torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)),)


def two_rotations() -> Loaded:
    """W -> A W B' with the flat metric: no linear map commutes with it but multiples of the identity."""
    module = ModuleType("rotated")
    straight = lambda W, xi: (W + xi,)  # noqa: E731

    def horizontal(W: Tensor, xi: Tensor) -> tuple[Tensor]:
        """Changes of the singular values."""
        U, _, Vh = torch.linalg.svd(W, full_matrices=False)
        return (U @ torch.diag_embed((U.mT @ xi @ Vh.mT).diagonal(dim1=-2, dim2=-1)) @ Vh,)

    module.__dict__.update(
        NAME="rotated",
        FACTORS={"W": ("h", "k")},
        action=lambda A, B, W: (A @ W @ B.mT,),
        inner=lambda W, xi, eta: (xi * eta).sum((-2, -1)),
        gradient=lambda W, d: (d,),
        vertical=lambda W, X, Y: (X @ W - W @ Y,),
        momentum=lambda W, xi: ((xi @ W.mT - W @ xi.mT) / 2, (xi.mT @ W - W.mT @ xi) / 2),
        horizontal=horizontal,
        acceleration=lambda W, xi: (torch.zeros_like(W + xi),),
        christoffel=lambda W, xi, eta: (torch.zeros_like(W + xi + eta),),
        **{f"taylor_{k}": straight for k in range(1, 5)},
    )
    return Loaded(module, (qg.Orthogonal("h"), qg.Orthogonal("k")))


def test_starts_are_made_of_the_gradient_where_no_map_commutes():
    model, geometry = Rotated().eval(), two_rotations()
    results = []
    for condition in (None, 10.0):
        point = Rotated().eval()
        graph = qg.SymmetryGraph(model)
        graph.add(qg.DeclaredBlock("core", geometry, {"W": qg.Leg("W", axis=1)}))
        if condition is not None:
            point.load_state_dict(graph.move(seed=5, condition=condition))
            assert float((point.W - model.W).detach().norm()) > 0.1
        graph = qg.SymmetryGraph(point)
        graph.add(qg.DeclaredBlock("core", geometry, {"W": qg.Leg("W", axis=1)}))
        results.append(qg.sharpness(point, rotated_loss, [rotated_batch()], graph=graph, starts=3, steps=8, rho=0.3))
        assert results[-1].ok, results[-1].detail
    here, there = results
    assert len({trace[0] for trace in here.batches[0].trace}) == 3, "starts that differ"
    for x, y in zip(here.batches[0].trace, there.batches[0].trace, strict=True):
        assert x == pytest.approx(y, rel=1e-10)


@contextmanager
def attached(geometry: Loaded, exponential: object) -> Iterator[Loaded]:
    """A geometry that carries a closed form, once that passed."""
    derived = Derived(geometry.module())
    object.__setattr__(geometry, "attached", derived.attach("straight", exponential, sizes={"h": 3, "k": 2}))
    yield geometry


def test_an_attached_closed_form_is_used():
    model = Rotated().eval()
    with attached(two_rotations(), lambda W, xi: (W + xi,)) as geometry:
        graph = qg.SymmetryGraph(model)
        graph.add(qg.DeclaredBlock("core", geometry, {"W": qg.Leg("W", axis=1)}))
        result = qg.sharpness(model, rotated_loss, [rotated_batch()], graph=graph, steps=4)
    assert result.ok
    assert result.definitions["integrator_steps"] is None
