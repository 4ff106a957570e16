"""Memory that is shared: what overlaps is refused, what only lies side by side is not, and no tie is silently undone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import quotientgeo as qg
from quotientgeo.errors import BlockError
from quotientgeo.model.inventory import inventory
from quotientgeo.model.sharing import overlap
from tests.helpers.models import token_batch

FLAT = torch.arange(24.0)
GRID = FLAT.view(4, 6)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (GRID[:, :3], GRID[:, 3:], False),
        (GRID[:, :4], GRID[:, 3:], True),
        (FLAT[::2], FLAT[1::2], False),
        (FLAT[::2], FLAT[::3], True),
        (FLAT[:12], FLAT[12:], False),
        (GRID, GRID.T, True),
        (GRID[:2], GRID[1:], True),
        (GRID[1:3, 1:3], GRID[0], False),
        (FLAT[::2], FLAT[2:3].view(torch.int16), True),
        (FLAT[::2], FLAT[3:4].view(torch.int16), False),
        (GRID, GRID.clone(), False),
    ],
)
def test_overlap_is_that_of_entries_not_of_extents(one, other, expected):
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


def of(*tensors: Tensor) -> nn.ParameterList:
    return nn.ParameterList([nn.Parameter(t, requires_grad=t.is_floating_point()) for t in tensors])


def test_views_of_one_buffer_that_share_nothing_are_parameters_like_others():
    model = of(*torch.randn(5, 8).split([3, 4, 1], dim=1))
    assert len(inventory(model).parameters) == 3

    class Columns(nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.randn(8, 8, dtype=torch.float64)
            self.a, self.b = nn.Parameter(whole[:, :4]), nn.Parameter(whole[:, 4:7])

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x @ self.a.T) @ self.b

    model = Columns().eval()
    apart = Columns().eval()
    apart.a, apart.b = nn.Parameter(model.a.detach().clone()), nn.Parameter(model.b.detach().clone())
    x = torch.randn(6, 4, dtype=torch.float64)

    def value(model: nn.Module) -> float:
        def loss(m, batch):
            return nn.functional.cross_entropy(m(batch), torch.arange(6) % 3)

        return qg.sharpness(model, loss, [x], measure="adaptive", steps=3).value

    assert value(model) == pytest.approx(value(apart), rel=1e-12)


def test_overlaps_anywhere_are_refused():
    grid = torch.randn(6, 6)
    with pytest.raises(BlockError, match="'0' and '2' overlap in memory"):
        inventory(of(grid, torch.randn(2), grid[5]))
    with pytest.raises(BlockError, match="'0' and '1' overlap in memory"):
        inventory(of(grid[:, :4], grid[:, 3:]))
    with pytest.raises(BlockError, match="'0' and '2' overlap in memory"):
        inventory(of(grid[:, :1], grid[0, 2:3], grid[3, :2]))
    with pytest.raises(BlockError, match=r"entries of parameter '0' are the same memory \(an expanded tensor\)"):
        inventory(of(torch.ones(1).expand(4)))
    with pytest.raises(BlockError, match="entries of parameter '1' are the same memory"):
        inventory(of(torch.ones(2), torch.ones(9).as_strided((3, 3), (2, 2))))
    assert len(inventory(of(grid.T, torch.ones(3, 1, 2).permute(2, 1, 0), torch.ones(()))).parameters) == 3


class Tied(nn.Module):
    """Predicts through the embedding table, which it reaches in one of several ways."""

    def __init__(self, how: str):
        super().__init__()
        self.embed = nn.Embedding(13, 4)
        weight = self.embed.weight
        if how == "parameter":
            self.out = weight
        elif how == "buffer":
            self.register_buffer("out", weight.data)
        elif how == "row":
            self.register_buffer("out", weight.data[1:, :])
        elif how == "attribute":
            self.out = weight.data
        elif how == "list":
            self.held = [weight]
        elif how == "dict of tuples":
            self.held = {"tie": (weight,)}
        elif how == "hidden module":
            linear = nn.Linear(4, 13, bias=False)
            linear.weight = weight
            self.held = [linear]
        self.how = how

    def forward(self, ids: Tensor) -> Tensor:
        if self.how in ("list", "dict of tuples", "hidden module"):
            held = self.held["tie"] if isinstance(self.held, dict) else self.held
            weight = held[0].weight if isinstance(held[0], nn.Module) else held[0]
        else:
            weight = self.out
        return torch.tanh(self.embed(ids)) @ weight.T


def next_token(model: nn.Module, ids: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.roll(1, 1).flatten() % 12)


@pytest.mark.parametrize("measure", ["geodesic", "adaptive", "euclidean"])
@pytest.mark.parametrize(
    ("how", "where"),
    [
        ("buffer", "buffer 'out'"),
        ("row", "buffer 'out'"),
        ("attribute", "attribute 'out'"),
        ("list", "attribute 'held'"),
        ("dict of tuples", "attribute 'held'"),
        ("hidden module", "attribute 'held'"),
    ],
)
def test_a_tie_that_torch_would_not_move_is_refused(how, where, measure):
    options = {"measure": measure, "steps": 1, "symmetries": "none" if measure == "geodesic" else "attention"}
    with pytest.raises(BlockError, match=rf"{where} shares the memory of parameter 'embed.weight' but would not move"):
        qg.sharpness(Tied(how).eval(), next_token, [token_batch()], **options)
    with pytest.raises(BlockError, match=where):
        qg.SymmetryGraph(Tied(how))
    assert qg.sharpness(Tied("parameter").eval(), next_token, [token_batch()], **options).ok


def test_in_submodules_the_path_is_named():
    model = nn.Sequential(nn.Linear(2, 2), Tied("list"))
    with pytest.raises(BlockError, match=r"attribute '1.held' shares the memory of parameter '1.embed.weight'"):
        inventory(model)


def test_what_modules_hold_besides_is_no_tie():
    model = nn.Sequential(nn.LSTM(3, 4, num_layers=2), nn.BatchNorm1d(4), nn.MultiheadAttention(4, 2))
    model.names = [name for name, _ in model.named_parameters()]
    model.first = [model[0], model[2]]  # modules of the model itself
    model.copies = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.start = torch.zeros(3)
    flat = torch.zeros(10)
    model.part, model.other = nn.Parameter(flat[:4]), flat[4:]
    assert set(inventory(model).parameters) == dict(model.named_parameters()).keys()
