"""Small changes of the code that no other test would notice."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import quotientgeo as qg
from quotientgeo.errors import BlockError
from quotientgeo.model.stacks import build_stacks
from tests.helpers.geometries import pair_geometry
from tests.helpers.models import tiny


def test_elements_of_gl_1_do_something():
    """det A = 1 leaves only A = 1 at size 1, and then any symmetry would hold."""
    generator = torch.Generator().manual_seed(0)
    drawn = qg.GL(1).random_element(generator, condition=10.0, batch=(500,)).flatten()
    assert float(drawn.min()) < 0.5 < 2.0 < float(drawn.max())
    assert bool(((drawn >= 10**-0.5) & (drawn <= 10**0.5)).all())
    assert qg.GL(1).random_element(generator, condition=1.0).item() == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_a_false_gl_1_is_found_from_any_seed(seed):
    """A scale does not go through tanh: a verification must see it, and a move must do something."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double().eval()
    graph = qg.SymmetryGraph(model)
    graph.add(qg.PairBlock("f", qg.GL(1), qg.Leg("0.weight", indices=[0]), qg.Leg("2.weight", axis=1, indices=[0])))
    (entry,) = graph.verify(torch.randn(5, 4), seed=seed).entries
    assert entry.status == "failed"
    moved = graph.move(seed=seed, condition=10.0)
    assert not torch.equal(moved["0.weight"][0], model[0].weight[0])
    assert torch.equal(moved["0.weight"][1:], model[0].weight[1:])


def leg(part: str, at: range = range(4), **options: object) -> qg.Leg:
    return qg.Leg(f"layers.0.{part}", indices=at, **options)


def test_a_follower_may_not_be_another_shifts_first_leg():
    graph = qg.SymmetryGraph(tiny())
    graph.add(qg.ShiftBlock("one", (leg("k_proj.bias"),)))
    with pytest.raises(BlockError, match=r"'layers.0.k_proj.bias' already belong to 'one'"):
        graph.add(qg.ShiftBlock("two", (leg("v_proj.bias"), leg("k_proj.bias"))))
    other = qg.SymmetryGraph(tiny())
    other.add(qg.ShiftBlock("two", (leg("v_proj.bias"), leg("k_proj.bias"))))
    with pytest.raises(BlockError, match=r"'layers.0.k_proj.bias' already belong to 'two'"):
        other.add(qg.ShiftBlock("one", (leg("k_proj.bias"),)))


def test_what_a_block_carries_takes_up_no_shift():
    """Both orders: the bias of a fold that a block moves with its group would be moved twice."""
    fold = ((leg("o_proj.weight", axis=1), "layers.0.o_proj.bias"),)
    shift = qg.ShiftBlock("fold", (leg("v_proj.bias"),), fold)
    carrier = qg.PairBlock(
        "carrier", qg.GL(8), qg.Leg("layers.0.q_proj.weight"), (qg.Leg("layers.0.k_proj.weight"), carried())
    )
    for first, second in ((shift, carrier), (carrier, shift)):
        graph = qg.SymmetryGraph(tiny())
        graph.add(first)
        with pytest.raises(BlockError, match=rf"'layers.0.o_proj.bias' already belong to '{first.name}'"):
            graph.add(second)


def carried() -> qg.Leg:
    return qg.Leg("layers.0.o_proj.bias", role="carried")


def test_blocks_of_different_geometries_are_different_stacks():
    """A geometry that nobody derived is refused where it is given; a derived one has its own stack."""
    graph = qg.SymmetryGraph(tiny())
    for head in range(2):
        at = range(4 * head, 4 * head + 4)
        legs = [(leg(f"{part}_proj.weight", at),) for part in "qk"]
        graph.add(qg.PairBlock(f"head{head}", qg.GL(4), *legs))
    with pytest.raises(BlockError, match=r"block 'b': geometry must be what qg.derive\(.*got 'own'"):
        qg.PairBlock("b", qg.GL(4), *legs, geometry="own")
    assert [len(stack.blocks) for stack in graph.stacks()] == [2]
    geometry = pair_geometry("invariant")
    second = dataclasses.replace(graph.blocks[1], geometry=geometry)
    stacks = build_stacks([graph.blocks[0], second], {name: tuple(p.shape) for name, p in graph.parameters.items()})
    assert [(stack.geometry, [block.name for block in stack.blocks]) for stack in stacks] == [
        (None, ["head0"]),
        (geometry, ["head1"]),
    ]
