"""Sizes as names and numbers, direct products, and calls that cannot be meant: one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import quotientgeo as qg
from quotientgeo import groups
from quotientgeo.errors import ArgumentError, DeclarationError, ShapeError
from quotientgeo.groups import (
    GL,
    ComplexDiagonal,
    NonzeroDiagonal,
    Orthogonal,
    PositiveDiagonal,
    Product,
    Scaling,
    SimpleGroup,
    Translation,
)
from tests.groups.cases import CASES, generator

ALL = [
    # group, text, element_shape, kind of element, kind of algebra, law
    (GL("h"), "GL(h)", ("h", "h"), "invertible", "general", "multiply"),
    (Orthogonal("h"), "O(h)", ("h", "h"), "orthogonal", "skew", "multiply"),
    (PositiveDiagonal(3), "PositiveDiagonal(3)", (3, 3), "diagonal", "diagonal", "multiply"),
    (NonzeroDiagonal("d"), "NonzeroDiagonal(d)", ("d", "d"), "diagonal", "diagonal", "multiply"),
    (ComplexDiagonal("d"), "ComplexDiagonal(d, half)", ("d", "d"), "complex_half", "complex_half", "multiply"),
    (
        ComplexDiagonal(4, "interleaved"), "ComplexDiagonal(4, interleaved)", (4, 4),
        "complex_interleaved", "complex_interleaved", "multiply",
    ),
    (Scaling(), "Scaling()", (1, 1), "positive", "scalar", "multiply"),
    (Translation("n", "h"), "Translation(n, h)", ("n", "h"), "general", "general", "add"),
    (Translation(5), "Translation(5, 1)", (5, 1), "general", "general", "add"),
]  # fmt: skip


@pytest.mark.parametrize(("group", "text", "shape", "element", "algebra", "law"), ALL)
def test_a_group_says_what_it_is(
    group: SimpleGroup, text: str, shape: tuple[int | str, int | str], element: str, algebra: str, law: str
) -> None:
    assert (str(group), group.element_shape, group.law) == (text, shape, law)
    assert (group.element_kind, group.algebra_kind) == (element, algebra)
    if shape[0] == shape[1]:
        assert group.size == shape[0]  # type: ignore[attr-defined]
    assert group == type(group)(**{f: getattr(group, f) for f in group.__dataclass_fields__ if f in vars(group)})  # type: ignore[attr-defined]
    assert len({group, group}) == 1


def test_groups_of_one_size_are_different_groups() -> None:
    same = [GL(2), Orthogonal(2), PositiveDiagonal(2), NonzeroDiagonal(2), ComplexDiagonal(2)]
    assert len(set(same)) == len(same)
    assert ComplexDiagonal(2, "half") != ComplexDiagonal(2, "interleaved")


@pytest.mark.parametrize("name", sorted(CASES))
def test_numbers_come_in_each_way_and_mean_the_same(name: str) -> None:
    symbolic, numeric = CASES[name].make("k"), CASES[name].make(4)
    for sizes in ({"k": 4}, {"k": np.int64(4), "n": -1, "m": "unused"}):
        assert symbolic.dimension(sizes=sizes) == numeric.dimension()
        assert symbolic.numeric_shape(sizes=sizes) == numeric.numeric_shape()
        assert torch.equal(symbolic.identity(sizes=sizes, batch=(2,)), numeric.identity(batch=[2]))
        assert torch.equal(symbolic.algebra_basis(sizes=sizes), numeric.algebra_basis())
    if symbolic.symbols:
        assert symbolic.dimension(4) == symbolic.dimension(size=torch.tensor(4)) == numeric.dimension()
        drawn = symbolic.random_element(generator(0), size=4)
        assert torch.equal(drawn, numeric.random_element(generator(0)))
        with pytest.raises(ArgumentError, match=r"has a symbolic size: pass size=<int> or sizes={\"k\": <int>}"):
            symbolic.dimension()
    assert numeric.algebra_basis(dtype=torch.float32).dtype == torch.float32


DRAW = GL(2).random_element
G = generator(0)
EYE = torch.eye(2)
BAD: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: Orthogonal(0), DeclarationError, r"Orthogonal\(size\): size must be a positive integer or a symbol's name, got 0"),
    (lambda: PositiveDiagonal("class"), DeclarationError, r"PositiveDiagonal\(size\): size must be .*, got 'class'"),
    (lambda: NonzeroDiagonal(True), DeclarationError, "got True"),
    (lambda: ComplexDiagonal(3), DeclarationError, r"ComplexDiagonal\(size, pairing\): size must be even, .*, got 3"),
    (lambda: ComplexDiagonal(4, "full"), DeclarationError, "pairing must be half or interleaved, got 'full'"),
    (lambda: ComplexDiagonal(4, ["half"]), DeclarationError, "pairing must be half or interleaved"),
    (lambda: ComplexDiagonal("d").dimension(5), ArgumentError, r"ComplexDiagonal\(d, half\): d must be even, .*, got 5"),
    (lambda: ComplexDiagonal("d").inverse(torch.eye(3)), ShapeError, r"element must have an even number of columns.*\(3, 3\)"),
    (lambda: Translation(2, 0), DeclarationError, r"Translation\(rows, columns\): columns must be .*, got 0"),
    (lambda: Translation(torch.tensor(0.5)), DeclarationError, r"rows must be .*, got tensor\(0.5000\)"),
    (lambda: Translation("n", "h").dimension(3), ArgumentError, r'has 2 symbolic sizes: pass sizes={"n": <int>, "h": <int>}'),
    (lambda: Translation("n", "h").dimension(), ArgumentError, r"Translation\(n, h\) has the symbolic sizes n, h: pass sizes="),
    (lambda: Translation("n", "h").dimension(sizes={"n": 3}), ArgumentError, r"\(sizes lacks h\)"),
    (lambda: GL("h").dimension(sizes={"h": 0}), ArgumentError, r"GL\(h\): sizes\['h'\] must be a positive integer, got 0"),
    (lambda: GL("h").dimension(2.0), ArgumentError, r"GL\(h\): size must be a positive integer, got 2.0"),
    (lambda: GL("h").dimension(sizes=[4]), ArgumentError, r"sizes must be a mapping such as .*, got \[4\]"),
    (lambda: GL("h").dimension(3, sizes={"h": 3}), ArgumentError, "pass either size or sizes, not both"),
    (lambda: GL(3).dimension(4), ArgumentError, r"GL\(3\) has elements of shape \(3, 3\): size=4 contradicts it"),
    (lambda: Scaling().dimension(2), ArgumentError, r"Scaling\(\) has elements of shape \(1, 1\): size=2 contradicts it"),
    (lambda: DRAW(G, condition=0.5), ArgumentError, "condition must be a finite number >= 1, got 0.5"),
    (lambda: DRAW(G, condition=float("nan")), ArgumentError, "condition must be a finite number >= 1, got nan"),
    (lambda: DRAW(G, condition="10"), ArgumentError, "condition must be a finite number >= 1, got '10'"),
    (lambda: DRAW(G, condition=1e17), ArgumentError, r"condition must be at most 4.5e\+15, got 1e\+17"),
    (lambda: Orthogonal(2).random_element(G, condition=0.0), ArgumentError, "condition must be a finite number >= 1"),
    (lambda: DRAW(None), ArgumentError, "generator must be a torch.Generator of the CPU, .*, got None"),
    (lambda: DRAW(G, batch=3), ArgumentError, r"batch must be a tuple of leading dimensions such as \(8,\), got 3"),
    (lambda: DRAW(G, batch=(-1,)), ArgumentError, "batch must be a tuple"),
    (lambda: DRAW(G, dtype=torch.int64), ArgumentError, "dtype must be a floating-point dtype .*, got torch.int64"),
    (lambda: GL(2).identity(dtype="float"), ArgumentError, "identity: dtype must be a floating-point dtype"),
    (lambda: GL(2).algebra_basis(dtype=torch.complex64), ArgumentError, "algebra_basis: dtype must be a floating-point dtype"),
    (lambda: GL(2).inverse(torch.eye(3)), ShapeError, r"GL\(2\): element must have shape \(..., 2, 2\), got \(3, 3\)"),
    (lambda: GL("h").inverse(torch.ones(2, 3)), ShapeError, r"must have shape \(..., h, h\), got \(2, 3\)"),
    (lambda: GL("h").exponential(torch.ones(2)), ShapeError, r"algebra element must have shape \(..., h, h\), got \(2,\)"),
    (lambda: GL(2).contains([[1.0]]), ShapeError, r"element must be a floating-point tensor .*, got \[\[1.0\]\]"),
    (lambda: GL(2).inverse(EYE.long()), ShapeError, "must be a floating-point tensor .*, got torch.int64"),
    (lambda: GL(2).product(EYE, EYE.double()), ShapeError, "need one shape, dtype and device, got .*float32 .*float64"),
    (lambda: GL("h").product(EYE, torch.eye(3)), ShapeError, r"got \(2, 2\) .* and \(3, 3\)"),
    (lambda: Translation(2).product(torch.ones(2, 1), torch.ones(1, 2)), ShapeError, r"second element must have shape"),
    (lambda: GL("h") * 3, DeclarationError, r"a group can only be multiplied with a group such as GL\(\"h\"\), got 3"),
    (lambda: GL("h") * GL, DeclarationError, "a group can only be multiplied with a group"),
    (lambda: Product(()), DeclarationError, "at least one group is needed"),
    (lambda: Product((GL("h"), "GL")), DeclarationError, "each must be a group such as .*, got 'GL'"),
    (lambda: Product(3), DeclarationError, "each must be a group such as .*, got 3"),
    (lambda: (GL("h") * GL("k")).dimension(3), ArgumentError, r"GL\(h\) x GL\(k\) has 2 symbolic sizes"),
    (lambda: (GL("h") * GL("k")).dimension(sizes={"k": 3}), ArgumentError, r"\(sizes lacks h\)"),
    (lambda: (GL(2) * GL(3)).dimension(3), ArgumentError, "has its sizes in numbers: leave size=3 out"),
    (lambda: (GL(2) * GL(3)).inverse((EYE,)), ShapeError, r"GL\(2\) x GL\(3\): an element is a tuple of 2 tensors, got 1 of"),
    (lambda: (GL(2) * GL(2)).inverse(torch.ones(2, 2, 2)), ShapeError, "a tuple of 2 tensors, got a Tensor"),
    (lambda: (GL(2) * GL(3)).inverse((EYE, EYE)), ShapeError, r"GL\(3\): element must have shape"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_a_call_that_cannot_be_meant_is_one_line(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_products_are_flat_and_keep_their_order() -> None:
    left, right = GL("h") * Scaling(), Translation("h", "k") * GL("h")
    both = left * right
    assert both.groups == (GL("h"), Scaling(), Translation("h", "k"), GL("h"))
    assert (
        both
        == GL("h") * (Scaling() * (Translation("h", "k") * GL("h")))
        == Product((left, Translation("h", "k"), GL("h")))
    )
    assert str(both) == "GL(h) x Scaling() x Translation(h, k) x GL(h)"
    assert both.symbols == ("h", "k")
    assert len({both, left * right}) == 1
    assert both.dimension(sizes={"h": 2, "k": 3}) == 4 + 1 + 6 + 4
    assert (GL("h") * GL("h")).dimension(3) == (GL(3) * GL(3)).dimension() == 18


def test_a_product_does_what_its_groups_do() -> None:
    sizes = {"h": 2, "k": 4}
    both = GL("h") * ComplexDiagonal("k", "interleaved") * Translation("k", "h") * Orthogonal("k")
    source, same = generator(0), generator(0)
    a, b = (both.random_element(source, condition=7.0, sizes=sizes, batch=(3,), dtype=torch.float32) for _ in range(2))
    for drawn in (a, b):
        for group, part in zip(both.groups, drawn, strict=True):
            alone = group.random_element(same, condition=7.0, sizes=sizes, batch=(3,), dtype=torch.float32)
            assert torch.equal(part, alone)
    one, basis = both.identity(sizes=sizes), both.algebra_basis(sizes=sizes)
    moved, inverse, end = both.product(a, b), both.inverse(a), both.exponential(b)
    for i, group in enumerate(both.groups):
        assert torch.equal(moved[i], group.product(a[i], b[i]))
        assert torch.equal(inverse[i], group.inverse(a[i]))
        assert torch.equal(end[i], group.exponential(b[i]))
        assert torch.equal(one[i], group.identity(sizes=sizes))
        assert torch.equal(basis[i], group.algebra_basis(sizes=sizes))
    assert sum(map(len, basis)) == both.dimension(sizes=sizes)
    assert both.contains(a).tolist() == [True] * 3
    wrong = (a[0], a[1], a[2], torch.cat([a[3][:2], 2 * a[3][2:]]))
    assert both.contains(wrong).tolist() == [True, True, False]


def test_two_elements_of_one_group_are_drawn_apart() -> None:
    first, second = (GL("h") * GL("h")).random_element(generator(0), size=3)
    assert not torch.allclose(first, second, atol=0.1)


def test_every_group_is_public() -> None:
    for name in set(groups.__all__) - {"LARGEST_CONDITION", "SimpleGroup"}:
        assert getattr(qg, name) is getattr(groups, name)
