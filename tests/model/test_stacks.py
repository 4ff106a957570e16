"""Reading, writing and acting on stacks, against a head-by-head reference that indexes one row at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from quotientgeo.errors import BlockError, ShapeError
from quotientgeo.groups import GL
from quotientgeo.model.blocks import Leg, PairBlock
from quotientgeo.model.stacks import LeadView, PairStack, RunView, build_stacks


def slow_read(leg: Leg, params: dict[str, Tensor]) -> Tensor:
    """(rows, h) of one leg, one index at a time."""
    x = params[leg.tensor] if leg.lead is None else params[leg.tensor][leg.lead]
    columns = range(x.shape[leg.axis]) if leg.indices is None else leg.indices
    return torch.stack([x.select(leg.axis, i).reshape(-1) for i in columns], dim=-1) + leg.offset


def slow_write(leg: Leg, params: dict[str, Tensor], rows: Tensor) -> None:
    """In place on (cloned) ``params``."""
    x = params[leg.tensor] if leg.lead is None else params[leg.tensor][leg.lead]
    columns = range(x.shape[leg.axis]) if leg.indices is None else leg.indices
    for column, i in enumerate(columns):
        target = x.select(leg.axis, i)
        target.copy_((rows[:, column] - leg.offset).reshape(target.shape))


def shapes_of(params: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: p.shape for name, p in params.items()}


def random_tensors(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def side(block: PairBlock, name: str, params: dict[str, Tensor]) -> Tensor:
    return torch.cat([slow_read(leg, params) for leg in getattr(block, name) if leg.role == "factor"])


LAYOUTS = ["split", "conv1d", "fused [3, heads, d]", "fused [heads, 3, d]", "experts", "stacked heads", "scattered"]


def layout(name: str, heads: int, h: int, width: int) -> tuple[dict[str, tuple[int, ...]], list[PairBlock]]:
    """Parameters and blocks of one attention-like layout."""
    blocks = []
    total = heads * h
    for k in range(heads):
        run = range(k * h, k * h + h)
        if name == "split":
            shapes = {"q": (total, width), "qb": (total,), "k": (total, width), "kb": (total,), "other": (3,)}
            G, H = (Leg("q", 0, run), Leg("qb", 0, run)), (Leg("k", 0, run), Leg("kb", 0, run, role="carried"))
        elif name == "conv1d":
            shapes = {"q": (width, total), "k": (width, total)}
            G, H = (Leg("q", 1, run),), (Leg("k", -1, run),)
        elif name.startswith("fused"):
            shapes = {"qkv": (3 * total, width), "b": (3 * total,)}
            start = [r * total + k * h if name.endswith("[3, heads, d]") else k * 3 * h + r * h for r in range(2)]
            rows = [range(s, s + h) for s in start]
            G, H = (Leg("qkv", 0, rows[0]), Leg("b", 0, rows[0])), (Leg("qkv", 0, rows[1]),)
        elif name == "experts":
            shapes = {"up": (2 * heads, h, width), "down": (2 * heads, width, h), "gain": (heads, h)}
            G, H = (Leg("up", 0, lead=k + 1),), (Leg("down", 1, lead=k + 1), Leg("gain", 0, lead=k, offset=1.0))
        elif name == "stacked heads":
            shapes = {"q": (heads, width, h), "k": (heads, width, 2, h)}
            G, H = (Leg("q", 1, lead=k),), (Leg("k", 2, lead=k),)
        else:
            shapes = {"q": (total + 3, width), "k": (width, total, 2)}
            picked = torch.randperm(total + 3, generator=torch.Generator().manual_seed(5)).tolist()
            G, H = (Leg("q", 0, [picked[i] for i in run]),), (Leg("k", 1, list(run)[::-1], offset=0.5),)
        blocks.append(PairBlock(f"head{k}", GL(h), G, H, head=k))
    return shapes, blocks


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    name=st.sampled_from(LAYOUTS),
    heads=st.integers(1, 4),
    h=st.integers(1, 4),
    width=st.integers(1, 5),
    shuffle=st.randoms(use_true_random=False),
)
def test_stacks_match_the_slow_reference(name, heads, h, width, shuffle):
    shapes, blocks = layout(name, heads, h, width)
    shuffle.shuffle(blocks)
    params = random_tensors(shapes)
    before = {n: p.clone() for n, p in params.items()}
    (stack,) = build_stacks(blocks, shapes)
    G, H = stack.read(params)
    for i, block in enumerate(stack.blocks):
        assert torch.equal(G[i], side(block, "G", params))
        assert torch.equal(H[i], side(block, "H", params))
    new_G, new_H = torch.randn_like(G), torch.randn_like(H)
    written = stack.write(params, new_G, new_H)
    expected = {n: p.clone() for n, p in params.items()}
    for i, block in enumerate(stack.blocks):
        for legs, factor in ((block.G, new_G[i]), (block.H, new_H[i])):
            for leg in legs:
                if leg.role == "factor":
                    rows = slow_read(leg, params).shape[0]
                    slow_write(leg, expected, factor[:rows])
                    factor = factor[rows:]
    for n, p in expected.items():
        torch.testing.assert_close(written[n], p, rtol=0, atol=1e-15)
    assert all(torch.equal(params[n], before[n]) for n in params), "write changed its input"
    assert all(torch.equal(a, b) for a, b in zip(stack.read(stack.write(params, G, H)), (G, H), strict=True))


@settings(deadline=None, max_examples=40, derandomize=True)
@given(name=st.sampled_from(LAYOUTS), heads=st.integers(1, 4), h=st.integers(1, 4), width=st.integers(1, 5))
def test_action_moves_every_leg_by_its_side(name, heads, h, width):
    shapes, blocks = layout(name, heads, h, width)
    params = random_tensors(shapes)
    (stack,) = build_stacks(blocks, shapes)
    A = GL(h).random_element(torch.Generator().manual_seed(1), condition=7.0, batch=(heads,))
    moved = stack.act(params, A)
    expected = {n: p.clone() for n, p in params.items()}
    for a, block in zip(A, stack.blocks, strict=True):
        for which, leg in block.legs:
            slow_write(leg, expected, slow_read(leg, params) @ (torch.linalg.inv(a) if which == "G" else a.mT))
    for n, p in expected.items():
        torch.testing.assert_close(moved[n], p, rtol=1e-12, atol=1e-12)
    (G, H), (G0, H0) = stack.read(moved), stack.read(params)
    torch.testing.assert_close(G @ H.mT, G0 @ H0.mT, rtol=1e-11, atol=1e-11)
    one_sided = stack.act(params, A, sides="G")
    assert torch.equal(stack.read(one_sided)[1], H0)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    offset=st.sampled_from([0.0, 1.0]),
)
def test_a_random_leg_reads_its_own_entries(data, shape, offset):
    lead = data.draw(st.none() | st.integers(0, shape[0] - 1)) if len(shape) > 1 else None
    inner = shape if lead is None else shape[1:]
    axis = data.draw(st.integers(-len(inner), len(inner) - 1))
    indices = data.draw(st.permutations(range(inner[axis])))[: data.draw(st.integers(1, inner[axis]))]
    leg = Leg("w", axis, indices, lead, offset)
    params = random_tensors({"w": tuple(shape), "v": (2, len(indices))})
    (stack,) = build_stacks([PairBlock("b", GL(len(indices)), (leg,), (Leg("v", 1),))], shapes_of(params))
    G, H = stack.read(params)
    assert torch.equal(G[0], slow_read(leg, params))
    written = stack.write(params, G + 3, H)
    expected = {"w": params["w"].clone()}
    slow_write(leg, expected, slow_read(leg, params) + 3)
    torch.testing.assert_close(written["w"], expected["w"], rtol=0, atol=1e-14)
    outside = torch.ones_like(params["w"]).reshape(-1)
    outside[leg.bound(shapes_of(params), "b").positions().reshape(-1)] = 0
    same = (written["w"] == params["w"]).reshape(-1)
    assert bool(same[outside.bool()].all()), "an entry outside the leg moved"


@pytest.mark.parametrize("name", LAYOUTS)
def test_derivatives_pass_through_write_and_action(name):
    shapes, blocks = layout(name, 2, 2, 3)
    params = random_tensors(shapes)
    (stack,) = build_stacks(blocks, shapes)
    G, H = (x.requires_grad_() for x in stack.read(params))
    A = GL(2).random_element(torch.Generator().manual_seed(1), batch=(2,)).requires_grad_()

    def squares(G: Tensor, H: Tensor) -> Tensor:
        return torch.stack([(stack.write(params, G, H)[n] ** 3).sum() for n in stack.names])

    assert torch.autograd.gradcheck(squares, (G, H))
    assert torch.autograd.gradgradcheck(squares, (G, H))
    assert torch.autograd.gradcheck(lambda A: tuple(stack.act(params, A)[n] for n in stack.names), (A,))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("split", RunView),
        ("conv1d", RunView),
        ("fused [heads, 3, d]", RunView),
        ("experts", LeadView),
        ("stacked heads", LeadView),
    ],
)
def test_regular_layouts_are_views_not_gathers(name, expected):
    shapes, blocks = layout(name, 3, 2, 4)
    (stack,) = build_stacks(blocks, shapes)
    views = [group.view for slot in stack._slots for group in slot.groups]
    assert all(isinstance(view, expected) for view in views), views


def test_the_number_of_operations_does_not_depend_on_heads():
    def operations(heads: int) -> int:
        shapes, blocks = layout("split", heads, 2, 4)
        params = random_tensors(shapes)
        (stack,) = build_stacks(blocks, shapes)
        G, H = stack.read(params)
        with torch.profiler.profile() as profile:
            stack.write(params, G, H)
            stack.read(params)
        return sum(event.count for event in profile.key_averages() if event.key.startswith("aten::"))

    assert operations(2) == operations(16) > 0


def test_blocks_of_several_parameters_may_come_in_any_order():
    """Heads of two layers interleaved and reversed: each block must get its own layer's rows."""
    blocks, shapes = [], {}
    for layer in "ab":
        shapes |= {f"{layer}.{name}": shape for name, shape in layout("split", 3, 2, 4)[0].items()}
        for block in layout("split", 3, 2, 4)[1]:
            renamed = block.renamed({name: f"{layer}.{name}" for name in ("q", "qb", "k", "kb")})
            blocks.append(replace(renamed, name=f"{layer}.{block.name}"))
    blocks = [blocks[i] for i in (5, 0, 4, 1, 2, 3)]
    params = random_tensors(shapes)
    (stack,) = build_stacks(blocks, shapes)
    G, H = stack.read(params)
    for i, block in enumerate(stack.blocks):
        assert torch.equal(G[i], side(block, "G", params))
        assert torch.equal(H[i], side(block, "H", params))
    same = stack.write(params, G, H)
    assert all(torch.equal(same[name], params[name]) for name in params)
    A = GL(2).random_element(torch.Generator().manual_seed(1), batch=(6,))
    moved = stack.read(stack.act(params, A))
    torch.testing.assert_close(moved[0], G @ torch.linalg.inv(A))
    torch.testing.assert_close(moved[1], H @ A.mT)
    for name in ("a.kb", "b.kb"):
        rows = torch.stack([slow_read(leg, params) for b in stack.blocks for leg in b.H if leg.tensor == name])
        after = torch.stack(
            [slow_read(leg, stack.act(params, A)) for b in stack.blocks for leg in b.H if leg.tensor == name]
        )
        own = torch.stack([a for a, b in zip(A, stack.blocks, strict=True) if b.H[1].tensor == name])
        torch.testing.assert_close(after, rows @ own.mT)


def test_write_takes_dtype_from_the_factors_and_keeps_aliases_equal():
    shapes, blocks = layout("fused [3, heads, d]", 2, 2, 3)
    params = {n: p.float() for n, p in random_tensors(shapes).items()}
    params["alias"] = params["qkv"]
    (stack,) = build_stacks(blocks, shapes, aliases={"qkv": ["alias", "absent"]})
    G, H = stack.read(params)
    assert G.dtype == torch.float32
    new = stack.write(params, 2 * G.double(), H.double())
    assert new["qkv"].dtype == torch.float64
    assert new["alias"] is new["qkv"]
    assert "absent" not in new
    assert torch.equal(new["qkv"][-4:], params["qkv"][-4:].double()), "value rows are nobody's and stay"


def test_blocks_of_different_rows_are_different_stacks_and_equal_ones_merge():
    shapes = {"a": (4, 3), "b": (4, 3), "c": (4, 5), "bias": (4,)}
    pair = lambda name, G, H: PairBlock(name, GL(4), G, H)  # noqa: E731
    blocks = [
        pair("one", Leg("a"), Leg("b")),
        pair("two", Leg("c"), Leg("b")),
        pair("three", Leg("b"), (Leg("a"), Leg("bias", role="carried"))),
        pair("four", (Leg("a"), Leg("bias")), Leg("b")),
    ]
    stacks = build_stacks(blocks, shapes)
    assert [[b.name for b in s.blocks] for s in stacks] == [["one", "three"], ["two"], ["four"]]
    assert [(s.n, s.m, s.h) for s in stacks] == [(3, 3, 4), (5, 3, 4), (4, 3, 4)]


def test_a_stack_of_blocks_with_different_legs_is_refused():
    shapes = {"a": (4, 3), "b": (4, 3), "c": (4, 2), "d": (4,)}
    whole, parted = PairBlock("one", GL(4), Leg("a"), Leg("b")), PairBlock("two", GL(4), (Leg("c"), Leg("d")), Leg("b"))
    assert whole.sizes(shapes) == parted.sizes(shapes)
    with pytest.raises(BlockError, match="factor legs have equal rows"):
        PairStack([whole, parted], shapes)
    with pytest.raises(BlockError, match="blocks of one shape"):
        PairStack([whole, PairBlock("three", GL(4), Leg("c"), Leg("b"))], shapes)


def test_wrong_shapes_are_named():
    shapes, blocks = layout("split", 2, 2, 3)
    params = random_tensors(shapes)
    (stack,) = build_stacks(blocks, shapes)
    G, H = stack.read(params)
    with pytest.raises(ShapeError, match=r"G must have shape \(2, 4, 2\), got \(2, 3, 2\)"):
        stack.write(params, G[:, :3], H)
    with pytest.raises(ShapeError, match="'q' has shape"):
        stack.read(params | {"q": params["q"][:3]})


@pytest.mark.parametrize(
    ("legs", "message"),
    [
        ((Leg("weigth"), Leg("v")), "no such parameter; did you mean weight"),
        ((Leg("weight", axis=2), Leg("v")), r"axis 2 is out of range for shape \(4, 3\)"),
        ((Leg("weight", indices=(0, 1, 2, 4)), Leg("v")), "indices 4 are out of range on axis 0"),
        ((Leg("weight", indices=(0, 1, 2, -1)), Leg("v")), "indices -1 are out of range"),
        ((Leg("weight", indices=(0, 1, 1, 2)), Leg("v")), "indices must be distinct"),
        ((Leg("weight", indices=(0, 1)), Leg("v")), r"sees 2 indices on axis 0 but GL\(4\) acts on 4"),
        ((Leg("weight", lead=4), Leg("v")), "lead 4 is out of range"),
        ((Leg("bias", lead=0), Leg("v")), "lead 0 is out of range"),
        ((Leg("scalar"), Leg("v")), "axis 0 is out of range"),
    ],
)
def test_legs_that_do_not_fit_are_named(legs, message):
    shapes = {"weight": (4, 3), "bias": (4,), "v": (4, 2), "scalar": ()}
    block = PairBlock("my.block", GL(4), legs[0], legs[1])
    with pytest.raises(BlockError, match=message) as caught:
        block.sizes(shapes)
    assert "'my.block'" in str(caught.value)


def test_declarations_that_make_no_sense_are_refused():
    with pytest.raises(BlockError, match="side H has no leg with role 'factor'"):
        PairBlock("b", GL(2), Leg("a"), Leg("c", role="carried"))
    with pytest.raises(BlockError, match="at least one Leg"):
        PairBlock("b", GL(2), (), Leg("c"))
    with pytest.raises(BlockError, match=r"such as GL\(64\), got GL\(h\)"):
        PairBlock("b", GL("h"), Leg("a"), Leg("c"))
    with pytest.raises(BlockError, match="role must be"):
        Leg("a", role="passenger")
