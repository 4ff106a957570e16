"""Root coordinates, equivariant fields and the balanced point of declared geometries, on what defines them."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch import Tensor

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, RankDeficientError
from quotientgeo.measures import roots
from quotientgeo.measures.balancing import balanced
from quotientgeo.measures.declared import BlockGeometry
from quotientgeo.measures.roots import DenseRoot, KroneckerRoot, flatten, gram, metric_root, unflatten
from quotientgeo.model.fields import Fields
from quotientgeo.model.stacks import DeclaredStack
from tests.helpers.geometries import Loaded, pair_geometry

N, M, H, B = 6, 5, 3, 4


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def stack_of(geometry: Loaded, **shapes: tuple[int, ...]) -> DeclaredStack:
    """B blocks whose factors are whole parameters."""
    names = list(geometry.module().FACTORS)
    sizes = {f"{name}{i}": shapes[name] for i in range(B) for name in names}
    blocks = [
        qg.DeclaredBlock(f"block{i}", geometry, {name: qg.Leg(f"{name}{i}", axis=1) for name in names})
        for i in range(B)
    ]
    return DeclaredStack(blocks, sizes)


def pair(metric: str) -> tuple[DeclaredStack, tuple[Tensor, Tensor]]:
    return stack_of(pair_geometry(metric), G=(N, H), H=(M, H)), (gaussian(B, N, H), gaussian(B, M, H, seed=1))


def coupled() -> Loaded:
    """tr(a_G'b_G) + tr(a_H'b_H) + tr((a_G H' + G a_H')'(b_G H' + G b_H')): one Gram matrix of both factors."""

    def inner(G: Tensor, H: Tensor, *tangents: Tensor) -> Tensor:
        a_G, a_H, b_G, b_H = tangents
        dot = lambda x, y: (x * y).sum((-2, -1))  # noqa: E731
        return dot(a_G, b_G) + dot(a_H, b_H) + dot(a_G @ H.mT + G @ a_H.mT, b_G @ H.mT + G @ b_H.mT)

    module = ModuleType("coupled")
    module.__dict__.update(vars(pair_geometry("mixed").module()) | {"NAME": "coupled", "inner": inner})
    return Loaded(module, (qg.GL("h"),))


@pytest.mark.parametrize("metric", ["invariant", "mixed"])
def test_a_one_sided_metric_has_small_roots(metric):
    stack, point = pair(metric)
    root = metric_root(stack.module, point, [b.name for b in stack.blocks])
    assert isinstance(root, KroneckerRoot)
    assert root.left == (None, None)
    check_root(root, stack.module, point)
    dense = DenseRoot(roots._root(gram(stack.module, point), ["x"] * B, metric), root.shapes)
    z = gaussian(B, root_size(point), seed=3)
    same = (root.coordinates(dense.lift(z)).norm(dim=1), z.norm(dim=1))
    torch.testing.assert_close(*same)  # two roots differ by a rotation of z


def test_a_two_sided_term_is_recognised():
    """tr(L a K b') with L and K of the point: as for W in G W H'."""
    module = ModuleType("two_sided")

    def inner(W: Tensor, a: Tensor, b: Tensor) -> Tensor:
        left, right = W @ W.mT + torch.eye(4).double(), W.mT @ W + torch.eye(3).double()
        return ((left @ a @ right) * b).sum((-2, -1))

    module.__dict__.update(NAME="two_sided", FACTORS={"W": ("h", "k")}, inner=inner)
    point = (gaussian(B, 4, 3),)
    root = metric_root(module, point, ["x"] * B)
    assert isinstance(root, KroneckerRoot)
    assert root.left[0] is not None
    check_root(root, module, point)


def test_a_coupled_metric_has_one_gram_matrix(monkeypatch):
    module, (_, point) = coupled().module(), pair("mixed")
    root = metric_root(module, point, ["x"] * B)
    assert isinstance(root, DenseRoot)
    check_root(root, module, point)
    monkeypatch.setattr(roots, "LARGEST_DENSE", 10)
    with pytest.raises(ArgumentError, match=r"Gram matrix of its 33 entries, more than 10.*blocks like 'x'"):
        metric_root(module, point, ["x"] * B)


def test_entries_of_very_different_weight_are_no_loss_of_rank():
    """A diagonal metric whose weights span more than float64 resolves in one sum; and one coupling of its smallest entries."""
    weight = torch.logspace(-12, 12, 6, dtype=torch.float64)[:, None]
    module, coupled_too = ModuleType("weighted"), ModuleType("coupled")
    dot = lambda w, a, b: ((weight + 0 * w) * a * b).sum((-2, -1))  # noqa: E731
    both = lambda a, b: 5e-11 * (a[..., 0, 0] * b[..., 1, 0] + a[..., 1, 0] * b[..., 0, 0])  # noqa: E731
    module.__dict__.update(NAME="weighted", FACTORS={"w": ("d", 1)}, inner=dot)
    coupled_too.__dict__.update(vars(module) | {"inner": lambda w, a, b: dot(w, a, b) + both(a, b)})
    point = (gaussian(B, 6, 1),)
    root = metric_root(module, point, ["x"] * B)
    assert isinstance(root, KroneckerRoot)
    check_root(root, module, point)
    second = metric_root(coupled_too, point, ["x"] * B)
    check_root(second, coupled_too, point)


def root_size(point: tuple[Tensor, ...]) -> int:
    return sum(x[0].numel() for x in point)


def check_root(root: roots.Root, module: ModuleType, point: tuple[Tensor, ...]) -> None:
    """Isometry, inverse, and the smallest relative eigenvalue of the metric at the point itself and at a scaled metric."""
    x, y = gaussian(B, root_size(point), seed=5), gaussian(B, root_size(point), seed=6)
    torch.testing.assert_close(module.inner(*point, *root.lift(x), *root.lift(y)), (x * y).sum(1))
    torch.testing.assert_close(root.coordinates(root.lift(x)), x)
    torch.testing.assert_close(root.smallest_ratio(module, point), torch.ones(B).double())
    double = ModuleType("double")
    double.__dict__.update(vars(module) | {"inner": lambda *a: 0.5 * module.inner(*a)})
    torch.testing.assert_close(root.smallest_ratio(double, point), torch.full((B,), 0.5).double())
    far = tuple(torch.full_like(x, torch.nan) for x in point)
    assert not bool(root.smallest_ratio(module, far).isfinite().any())


def test_a_lost_rank_is_named():
    stack, (G, F) = pair("mixed")
    F = F.clone()
    F[2, :, 1] = F[2, :, 0]
    with pytest.raises(
        RankDeficientError, match=r"the metric of gl_pair_mixed is not positive definite .* of block2: "
    ):
        metric_root(stack.module, (G, F), [b.name for b in stack.blocks])


@pytest.mark.parametrize("metric", ["invariant", "mixed"])
@pytest.mark.parametrize("dense", [True, False])
def test_the_projection_is_orthogonal_on_the_horizontal_space(metric, dense, monkeypatch):
    stack, point = pair(metric)
    geometry = BlockGeometry.at(stack, point, "exact")
    assert geometry.normal is not None
    if not dense:
        geometry = replace(geometry, normal=None, _cast={})
    entries = root_size(point)
    z, w = gaussian(B, entries, seed=7), gaussian(B, entries, seed=8)
    Pz = geometry.horizontal(z)
    torch.testing.assert_close(geometry.horizontal(Pz), Pz)
    torch.testing.assert_close((Pz * w).sum(1), (z * geometry.horizontal(w)).sum(1))
    momentum = stack.module.momentum(*geometry.point, *geometry.tangent(z))
    assert float(momentum.abs().max()) < 1e-12
    assert float(stack.module.momentum(*geometry.point, *geometry.root.lift(z)).abs().max()) > 0.1
    torch.testing.assert_close(geometry.squared_norm(z), Pz.square().sum(1))
    P = torch.stack([geometry.horizontal(e.expand(B, -1)) for e in torch.eye(entries).double()], 1)
    ranks = torch.linalg.matrix_rank(P, hermitian=True)
    assert ranks.tolist() == [entries - H * H] * B
    assert geometry.orbit.tolist() == [H * H] * B


def test_the_projection_can_be_differentiated_whichever_way_it_is_made():
    stack, point = pair("mixed")
    geometry = BlockGeometry.at(stack, point, 2)
    other = replace(geometry, normal=None, _cast={})
    z = 0.1 * gaussian(B, root_size(point), seed=9)
    found = []
    for each in (geometry, other):
        leaf = z.clone().requires_grad_()
        G, F = each.end(leaf)
        (g,) = torch.autograd.grad((G @ F.mT).sin().sum(), leaf)
        found.append(g)
    torch.testing.assert_close(*found)


class TestBalance:
    def test_a_moved_point_is_balanced_again(self):
        stack, point = pair("mixed")
        A = qg.GL(H).random_element(torch.Generator().manual_seed(0), condition=1e5, batch=(B,))
        W = point[0] @ point[1].mT
        for start in (point, stack.act_on([A], point)):
            G, F = balanced(stack, start)
            torch.testing.assert_close(G @ F.mT, W, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(G.mT @ G, F.mT @ F, rtol=1e-6, atol=1e-6)
        assert float(torch.linalg.cond(stack.act_on([A], point)[0]).min()) > 1e3

    @pytest.mark.parametrize(
        ("action", "expected"),
        [
            (lambda A, G, F: (G @ A, F @ A.inverse().mT), True),  # the element written the other way round
            (lambda A, G, F: (G @ A.inverse(), F), True),  # one factor alone
            (lambda A, G, F: (G, F @ A.mT), True),
            (lambda A, G, F: (G, F), False),  # none
        ],
    )
    def test_the_way_of_the_group_is_seen(self, action, expected):
        stack, point = pair("mixed")
        stack.module = ModuleType("other")
        stack.module.action = action
        A = qg.GL(H).random_element(torch.Generator().manual_seed(0), condition=1e4, batch=(B,))
        start = stack.act_on([A], point)
        ends = balanced(stack, start)
        worst = [float(torch.linalg.cond(x).max()) for x in ends]
        assert (max(worst) < 50) == expected or not expected
        assert all(torch.equal(a, b) for a, b in zip(ends, start, strict=True)) == (not expected)

    def test_a_lost_rank_stays_where_it_is(self):
        stack, (G, F) = pair("mixed")
        F = F.clone()
        F[1] = 0.0
        ends = balanced(stack, (G, F))
        assert all(bool(x.isfinite().all()) for x in ends)
        torch.testing.assert_close(ends[0][1], G[1])


class TestFields:
    def test_tangents_move_with_the_point(self):
        stack, point = pair("mixed")
        fields = Fields.of(stack)
        assert fields.kinds == ("left", "left")
        A = qg.GL(H).random_element(torch.Generator().manual_seed(0), condition=10.0, batch=(B,))
        here = fields.draw(point, torch.Generator().manual_seed(4))
        there = fields.draw(stack.act_on([A], point), torch.Generator().manual_seed(4))
        for x, y in zip(there, stack.act_on([A], here), strict=True):
            torch.testing.assert_close(x, y)

    @pytest.mark.parametrize(
        ("shape", "action", "groups", "kind"),
        [
            (("h", "k"), lambda A, B, W: (A @ W @ B.inverse(),), (qg.GL("h"), qg.GL("k")), None),
            (("h", "k"), lambda A, W: (A @ W,), (qg.GL("h"),), "right"),
            (("d", 1), lambda D, w: (D @ w,), (qg.PositiveDiagonal("d"),), "diagonal left"),
            (("h", "d"), lambda A, D, W: (A @ W @ D,), (qg.GL("h"), qg.PositiveDiagonal("d")), "diagonal right"),
            (("d", 1), lambda a, w: (a * (1 + w) - 1,), (qg.Scaling(),), None),
            (("d", 1), lambda a, w: (a * w,), (qg.Scaling(),), "left"),
        ],
    )
    def test_which_maps_commute(self, shape, action, groups, kind):
        module = ModuleType("x")
        module.__dict__.update(vars(pair_geometry("mixed").module()))
        module.__dict__.update(NAME="x", FACTORS={"W": shape}, action=action)
        sizes = {"h": 4, "k": 3, "d": 5, 1: 1}
        stack = stack_of(Loaded(module, groups), W=tuple(sizes[s] for s in shape))
        assert Fields.of(stack).kinds == (kind,)


def test_flat_coordinates_and_back():
    factors = (gaussian(2, 3, 4), gaussian(2, 1, 5))
    shapes = ((3, 4), (1, 5))
    assert all(torch.equal(a, b) for a, b in zip(unflatten(flatten(factors), shapes), factors, strict=True))
