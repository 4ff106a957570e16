"""Blocks of a declared geometry: legs and sizes, verification, moves along orbits, and what is refused."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
import torch
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import BlockError, CertificateError
from quotientgeo.model.blocks import DeclaredBlock
from quotientgeo.model.stacks import DeclaredStack
from tests.helpers.geometries import Certificate, Loaded, pair_geometry
from tests.helpers.graphs import graph_of
from tests.helpers.models import tiny, token_batch


def declared_copy(model: nn.Module, metric: str = "invariant") -> qg.SymmetryGraph:
    """The graph of a tiny model with every pair declared by hand through the general path."""
    graph = qg.SymmetryGraph(model)
    for block in (*graph_of(model).shifts, *graph_of(model).blocks):
        graph.add(block if isinstance(block, qg.ShiftBlock) else block.declared(pair_geometry(metric)))
    return graph


def geometry_of(code: dict[str, object], groups: tuple[object, ...]) -> Loaded:
    """A geometry of which only the action matters."""
    module = ModuleType("declared")
    unused = ("vertical", "inner", "momentum", "acceleration", "taylor_1", "taylor_2", "taylor_3", "taylor_4")
    module.__dict__.update(dict.fromkeys(unused, None) | {"NAME": "by_hand"} | code)
    return Loaded(module, groups)


def chain() -> Loaded:
    """G W H' with G A^-1, A W B^-1, H B'."""
    factors = {"G": ("n", "h"), "W": ("h", "k"), "H": ("m", "k")}
    action = lambda A, B, G, W, H: (G @ A.inverse(), A @ W @ B.inverse(), H @ B.mT)  # noqa: E731
    return geometry_of({"FACTORS": factors, "action": action}, (qg.GL("h"), qg.GL("k")))


class Bilinear(nn.Module):
    """tanh of G W H' x, then a readout; H is stored as its transpose."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        shapes = {"G": (6, 3), "W": (3, 2), "Ht": (2, 5), "out": (4, 6)}
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ (self.G @ self.W @ self.Ht).mT) @ self.out.mT


def chain_legs(**changes: object) -> dict[str, object]:
    return {"G": qg.Leg("G", axis=1), "W": qg.Leg("W", axis=1), "H": qg.Leg("Ht", axis=0)} | changes


def test_a_chain_is_verified_moved_and_covered():
    model = Bilinear().eval()
    graph = qg.SymmetryGraph(model)
    graph.add(DeclaredBlock("core", chain(), chain_legs(), kind="bilinear", layer=0))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    batch = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    report = graph.verify(batch)
    report.require()
    (entry,) = report.entries
    assert entry.residual < 1e-12
    assert entry.control is not None
    assert entry.control > 1e-2
    state = graph.move(seed=1, condition=10.0)
    moved = Bilinear().eval()
    moved.load_state_dict(state)
    torch.testing.assert_close(moved(batch), model(batch), rtol=1e-11, atol=1e-11)
    assert all(float((state[name] - before[name]).abs().max()) > 1e-2 for name in ("G", "W", "Ht"))
    assert torch.equal(state["out"], before["out"])
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters()), "the model changed"
    coverage = graph.coverage()
    assert (coverage.block, coverage.rest) == (18 + 6 + 10, 24)
    assert coverage.redundant == 9 + 4
    node = graph.graph.nodes["core"]
    assert (node["sizes"], node["group"]) == ({"n": 6, "h": 3, "k": 2, "m": 5}, "GL(h) x GL(k)")
    assert graph.graph.edges["core", "Ht"]["legs"][0][0] == "H"


@pytest.mark.parametrize("fault", ["transposed", "one factor alone", "another readout"])
def test_a_false_symmetry_is_refused(fault):
    model = Bilinear().eval()
    geometry, legs = chain(), chain_legs()
    if fault == "transposed":  # the action of another layer
        module = geometry.module()
        module.action = lambda A, B, G, W, H: (G @ A.inverse(), A @ W @ B, H @ B.mT)
    if fault == "one factor alone":
        module = geometry.module()
        module.action = lambda A, B, G, W, H: (G @ A.inverse(), A @ W, H)
        module.action = lambda A, B, G, W, H: (G @ A.inverse(), W, H)
    if fault == "another readout":
        model.forward = lambda x: torch.tanh(x @ (model.G @ model.W @ model.Ht).mT) @ model.out.mT + model.G.sum()
    graph = qg.SymmetryGraph(model)
    graph.add(DeclaredBlock("core", geometry, legs))
    batch = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert [entry.status for entry in graph.verify(batch).entries] == ["failed"]


def test_a_batch_that_does_not_reach_the_block_cannot_tell():
    model = Bilinear().eval()
    graph = qg.SymmetryGraph(model)
    graph.add(DeclaredBlock("core", chain(), chain_legs()))
    assert [entry.status for entry in graph.verify(torch.zeros(7, 5, dtype=torch.float64)).entries] == ["inconclusive"]


def test_the_pair_declared_by_hand_is_the_pair():
    model = tiny().double()
    graph, general = graph_of(model), declared_copy(model)
    assert [type(stack) for stack in general.stacks()] == [DeclaredStack, DeclaredStack]
    general.verify(token_batch()).require()
    assert general.coverage() == graph.coverage()
    first, second = graph.move(seed=4), general.move(seed=4)
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=1e-11, atol=1e-11)


def test_a_carried_leg_moves_with_its_factor():
    model = tiny().double()
    state = declared_copy(model).move(seed=4)
    assert not torch.allclose(state["layers.0.k_proj.bias"], model.layers[0].k_proj.bias)
    moved = tiny().double()
    moved.load_state_dict(state)
    torch.testing.assert_close(moved(token_batch()), model(token_batch()))
    with pytest.raises(BlockError, match="factor W of by_hand cannot carry legs along"):
        DeclaredBlock("c", chain(), chain_legs(W=(qg.Leg("W", axis=1), qg.Leg("b", role="carried"))))


def test_one_element_moves_one_block_of_a_stack_only():
    model = tiny().double()
    graph = declared_copy(model)
    stack = graph.stacks()[0]
    params = {name: p.detach() for name, p in graph.parameters.items()}
    before = stack.read(params)
    A = qg.GL(4).random_element(torch.Generator().manual_seed(0))
    after = stack.read(stack.moved(params, {stack.blocks[1].name: (A,)}))
    for x, y in zip(before, after, strict=True):
        assert torch.equal(x[0], y[0])
        assert not torch.allclose(x[1], y[1])


class TestVectors:
    """A factor of one column: gains, neurons, whole tensors."""

    scale = geometry_of({"FACTORS": {"w": ("d", 1)}, "action": lambda a, w: (a * w,)}, (qg.Scaling(),))

    class Normalised(nn.Module):
        """The direction of a weight: scale invariant."""

        def __init__(self) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(0)
            self.w = nn.Parameter(torch.randn(2, 3, 4, generator=generator, dtype=torch.float64))
            self.gain = nn.Parameter(torch.rand(4, generator=generator, dtype=torch.float64) + 0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = (w / w.norm() for w in self.w)
            return torch.tanh(x @ first.mT) @ second * (self.gain / self.gain.norm())

    def test_all_entries_of_one_leading_index_are_one_column(self):
        model = self.Normalised().eval()
        graph = qg.SymmetryGraph(model)
        for i in range(2):
            graph.add(DeclaredBlock(f"w{i}", self.scale, {"w": qg.Leg("w", axis=None, lead=i)}, kind="scale"))
        graph.add(DeclaredBlock("direction", self.scale, {"w": qg.Leg("gain")}))
        assert [(len(s), s.factor_shapes) for s in graph.stacks()] == [(2, {"w": (12, 1)}), (1, {"w": (4, 1)})]
        report = graph.verify(torch.randn(3, 4, dtype=torch.float64))
        report.require()
        assert min(entry.control or 0.0 for entry in report.entries) > 1e-2  # one factor: the size of its gradient
        assert graph.coverage().rest == 0
        params = {name: p.detach() for name, p in model.named_parameters()}
        (w,) = graph.stacks()[0].read(params)
        assert torch.equal(w, model.w.detach().reshape(2, 12, 1))
        assert torch.equal(graph.stacks()[0].write(params, 2 * w)["w"], 2 * model.w.detach())

    def test_indices_and_rows_select_entries(self):
        shapes = {"w": (4, 6), "b": (4,)}
        pair = geometry_of(
            {"FACTORS": {"u": ("d", 1), "v": ("d", "k")}, "action": lambda a, u, v: (u, v)}, (qg.Scaling(),)
        )
        legs = {"u": qg.Leg("b", indices=(2, 0)), "v": qg.Leg("w", axis=1, indices=(5, 1, 0), rows=(3, 1))}
        block = DeclaredBlock("x", pair, legs)
        assert block.sizes(shapes) == {"d": 2, "k": 3}
        views = dict(block.bound(shapes))
        assert views["u"].positions().tolist() == [[2], [0]]
        assert views["v"].positions().tolist() == [[23, 19, 18], [11, 7, 6]]

    def test_an_offset_and_an_affine_action_say_the_same_twice(self):
        model = nn.Module()
        model.w = nn.Parameter(torch.rand(3, dtype=torch.float64))
        model.forward = lambda x: x * (1 + model.w) / (1 + model.w).norm()
        affine = geometry_of({"FACTORS": {"w": ("d", 1)}, "action": lambda a, w: (a * (1 + w) - 1,)}, (qg.Scaling(),))
        for geometry, offset in ((affine, 0.0), (self.scale, 1.0)):
            graph = qg.SymmetryGraph(model.eval())
            graph.add(DeclaredBlock("gain", geometry, {"w": qg.Leg("w", offset=offset)}))
            graph.verify((torch.randn(2, 3, dtype=torch.float64),)).require()
        graph = qg.SymmetryGraph(model)
        with pytest.raises(
            BlockError, match=r"factor w, leg on 'w': it has offset 1, but the action .* is affine already"
        ):
            graph.add(DeclaredBlock("gain", affine, {"w": qg.Leg("w", offset=1.0)}))
        assert graph.blocks == ()


@pytest.mark.parametrize(
    ("legs", "message"),
    [
        (chain_legs(W=qg.Leg("W", axis=0)), "factor W: h = 2 by the rows of factor W (legs 'W'), but h = 3 by the columns of "
         "factor G (legs 'G'); declared: G (n, h), W (h, k), H (m, k)"),
        (chain_legs(H=(qg.Leg("Ht", axis=0), qg.Leg("out", axis=1))), "factor H: the leg on 'out' has 6 columns, those before"),
        (chain_legs(G=qg.Leg("g", axis=1)), "leg on 'g': no such parameter"),
        (chain_legs(G=qg.Leg("G", axis=2)), "axis 2 is out of range"),
        (chain_legs(G=qg.Leg("G", axis=1, rows=(0, 9))), "rows 9 are out of range on the rows of shape (6, 3)"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_named(legs, message):
    graph = qg.SymmetryGraph(Bilinear())
    with pytest.raises(BlockError, match=re.escape(message)) as caught:
        graph.add(DeclaredBlock("core", chain(), legs))
    assert "'core'" in str(caught.value)
    assert graph.blocks == ()


def test_declarations_that_make_no_sense_are_refused():
    with pytest.raises(BlockError, match="legs must name the factors of by_hand, G, W, H; got G, W"):
        DeclaredBlock("c", chain(), {"G": qg.Leg("G"), "W": qg.Leg("W")})
    with pytest.raises(BlockError, match=r"must be what qg.derive\(symmetry, metric\) returned, got 'mine'"):
        DeclaredBlock("c", "mine", {})
    with pytest.raises(BlockError, match="expected at least one Leg"):
        DeclaredBlock("c", chain(), chain_legs(W=()))
    with pytest.raises(BlockError, match="with axis=None all entries are one column"):
        qg.Leg("W", axis=None, rows=(1,))
    false = Loaded(chain().module(), chain().groups, Certificate("by_hand: 1 claim(s) do not hold, at n = 2"))
    with pytest.raises(CertificateError, match=r"block 'c': by_hand: 1 claim\(s\) do not hold, at n = 2"):
        DeclaredBlock("c", false, chain_legs())
    with pytest.raises(BlockError, match="a pair takes a geometry of two factors, by_hand has 3"):
        qg.PairBlock("c", qg.GL(3), qg.Leg("G", axis=1), qg.Leg("W", axis=0), geometry=chain())
    with pytest.raises(BlockError, match=r"is acted on by GL\(h\), so the block's group must be that"):
        qg.PairBlock("c", qg.Orthogonal(3), qg.Leg("G"), qg.Leg("W"), geometry=pair_geometry("mixed"))


def test_an_entry_is_in_one_block_only():
    model = Bilinear()
    graph = qg.SymmetryGraph(model)
    graph.add(DeclaredBlock("core", chain(), chain_legs()))
    with pytest.raises(BlockError, match="entries of 'W' already belong to 'core'"):
        graph.add(qg.PairBlock("pair", qg.GL(2), qg.Leg("W", axis=1), qg.Leg("Ht", axis=0)))


def test_a_pair_with_a_geometry_of_its_own_is_a_declared_block():
    model = tiny(biases="").double()
    graph = qg.SymmetryGraph(model)
    for block in graph_of(model).blocks:
        graph.add(qg.PairBlock(block.name, block.group, block.G, block.H, block.kind, geometry=pair_geometry("mixed")))
    (stack,) = graph.stacks()
    assert isinstance(stack, DeclaredStack)
    assert len(stack) == 8
    graph.verify(token_batch()).require()
    wrong = qg.PairBlock("w", qg.GL(3), qg.Leg("head.weight", axis=1), qg.Leg("embed.weight", axis=1),
                         geometry=pair_geometry("mixed"))  # fmt: skip
    with pytest.raises(BlockError, match=r"its group is GL\(3\), but by its legs .* elements of shape \(8, 8\)"):
        graph.add(wrong)


def test_a_restricted_graph_keeps_declared_blocks():
    model = tiny().double()
    graph = declared_copy(model)
    part = graph.restricted_to([block.name for block in graph.blocks])
    assert not part.shifts
    part.verify(token_batch()).require()
    roles = {leg.role for block in part.blocks for _, leg in block.legs}
    assert roles == {"factor"}


def test_outputs_without_gradient_are_tested_by_finite_motions():
    model = Bilinear().eval()
    forward = model.forward
    model.forward = lambda x: forward(x).detach()
    graph = qg.SymmetryGraph(model)
    graph.add(DeclaredBlock("core", chain(), chain_legs()))
    batch = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (entry,) = graph.verify(batch).entries
    assert entry.status == "passed"
    assert entry.control is not None
    assert entry.control > 1e-2


def test_a_group_that_is_right_only_up_to_scale_is_found():
    """Elements of determinant one alone would not tell GL(2) from SL(2)."""
    model = Bilinear().eval()
    model.forward = lambda x: (
        torch.tanh(x @ (model.G @ model.W @ model.Ht).mT) @ model.out.mT + torch.linalg.det(model.Ht[:, :2])
    )
    graph = qg.SymmetryGraph(model)
    graph.add(DeclaredBlock("core", chain(), chain_legs()))
    batch = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert [entry.status for entry in graph.verify(batch).entries] == ["failed"]


def test_blocks_of_parameters_that_are_not_trained_are_left_out_of_a_measure():
    model = Bilinear().eval()
    model.W.requires_grad_(False)
    geometry = pair_geometry("mixed")
    graph = qg.SymmetryGraph(model)
    graph.add(DeclaredBlock("pair", geometry, {"G": qg.Leg("W", axis=1), "H": qg.Leg("Ht", axis=0)}))
    batch = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    loss = lambda model, x: (model(x).square().sum(), len(x))  # noqa: E731
    result = qg.sharpness(model, loss, [batch], graph=graph, steps=2)
    assert "requires_grad is False" in result.left_out["pair"]
    assert "Ht" in result.per_block


def test_points_close_by_do_not_depend_on_the_gauge():
    """An ill-conditioned gauge is verified like any other."""
    model = Bilinear().eval()
    graph = qg.SymmetryGraph(model)
    graph.add(DeclaredBlock("core", chain(), chain_legs()))
    batch = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moved = Bilinear().eval()
    moved.load_state_dict(graph.move(seed=2, condition=1e3))
    other = qg.SymmetryGraph(moved)
    other.add(DeclaredBlock("core", chain(), chain_legs()))
    (entry,) = other.verify(batch).entries
    assert entry.status == "passed"
    assert entry.control is not None
    assert 1e-2 < entry.control < 1e4, "weights moved by 1 % of an ill-conditioned gauge saturate the layer"
