"""Letters of every kind at every level; the sizes and the laws of groups; a basis of every Lie algebra."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy as sp
from sympy import DiagMatrix, HadamardPower, MatrixSymbol, OneMatrix, Trace

from quotientgeo.symbolic.algebra.parts import ComplexPart
from quotientgeo.symbolic.declaration import Names
from quotientgeo.symbolic.derivation import certify, derive_formulas
from quotientgeo.symbolic.derivation.calculus import Calculus, Reading, Variable
from quotientgeo.symbolic.derivation.levels.bounds import Needs
from quotientgeo.symbolic.derivation.levels.component import ComponentCalculus
from quotientgeo.symbolic.derivation.levels.freeness import algebra_basis
from quotientgeo.symbolic.derivation.levels.kinds import basis, integers
from quotientgeo.symbolic.derivation.levels.native import _is_known
from quotientgeo.symbolic.derivation.levels.points import Sizes, assign_sizes, random_matrix
from quotientgeo.symbolic.derivation.levels.rational import RationalCalculus
from tests.symbolic.derivation.declarations import gram
from tests.symbolic.derivation.elementwise import ROPE, declared
from tests.symbolic.derivation.test_levels import _autodiff, _component, _modular, _rational

Equal = Callable[[Any, Any], bool]
Level = Callable[[], tuple[Calculus[Any], Equal]]
LEVELS = [_modular, _component, _rational, _autodiff]
LINEAR = {"diagonal": 4, "complex_half": 4, "complex_interleaved": 4, "symmetric": 10, "skew": 6, "general": 16}


def rows_of(basis_matrix: Any) -> np.ndarray[Any, Any]:
    return np.array(basis_matrix, dtype=float)


@pytest.mark.parametrize("kind", LINEAR)
def test_bases_span_the_space_of_their_kind(kind: str) -> None:
    """As many as the dimension, independent; complex diagonals commute with the units i of their pairing."""
    units = [rows_of(integers(unit, 4, 4)) for unit in basis(kind, 4, 4)]
    assert len(units) == LINEAR[kind]
    assert np.linalg.matrix_rank(np.stack([unit.ravel() for unit in units])) == len(units)
    turns = {"complex_half": ((0, 2), (1, 3)), "complex_interleaved": ((0, 1), (2, 3))}.get(kind, ())
    for p, q in turns:
        turn = np.zeros((4, 4))
        turn[q, p], turn[p, q] = 1, -1
        assert any(np.array_equal(unit, turn) or np.array_equal(unit, -turn) for unit in units)
        for unit in units:
            assert np.array_equal(unit @ turn, turn @ unit)
    if kind in ("symmetric", "skew"):
        assert all(np.array_equal(unit.T, unit if kind == "symmetric" else -unit) for unit in units)
    if kind == "diagonal":
        assert all(np.array_equal(unit, np.diag(np.diag(unit))) for unit in units)


@pytest.mark.parametrize("level", LEVELS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["diagonal", "complex_half", "complex_interleaved"])
def test_letters_of_commuting_kinds_commute(level: Level, kind: str) -> None:
    """Two letters of a kind commute, with each other's transposes and inverses too; they have no order of their own."""
    calculus, equal = level()
    x, y = (calculus.variable(Variable(name, ("m", "m"), kind)) for name in ("x", "y"))
    m = calculus.variable(Variable("m", ("m", "m"), "general"))

    def same(one: Any, other: Any) -> bool:
        return equal(calculus.product(one, other), calculus.product(other, one))

    assert same(x, y)
    assert not same(x, m)
    if level is not _modular:
        turned = calculus.transpose(x)  # type: ignore[attr-defined]
        assert same(turned, y)
        assert same(calculus.inverse(x), y)  # type: ignore[attr-defined]
        assert equal(turned, x) is (kind == "diagonal")
    assert not equal(x, y)


@pytest.mark.parametrize("kind", ["diagonal", "complex_half", "complex_interleaved", "scalar", "vector"])
def test_random_entries_are_not_divided_by_zero(kind: str) -> None:
    shape = {"scalar": (1, 1), "vector": ("h", 1)}.get(kind, ("h", "h"))
    for seed in range(30):
        rows = random_matrix(Variable("M", shape, kind), {"h": 4}, random.Random(seed), 1)
        matrix = rows_of([[float(x) for x in row] for row in rows])
        if len(matrix) == len(matrix[0]):
            assert abs(np.linalg.det(matrix)) > 0.5
            assert np.count_nonzero(matrix) == {"diagonal": 4, "scalar": 1}.get(kind, 8)
        else:
            assert (matrix != 0).all()


@pytest.mark.parametrize("kind", ["diagonal", "complex_half", "complex_interleaved", "symmetric", "skew"])
def test_derivatives_at_generic_matrices_of_a_kind(kind: str) -> None:
    """D(Z^-1)[U] = -Z^-1 U Z^-1 in the entries that Z has; a direction that leaves the kind is an error, not projected."""
    calculus = ComponentCalculus({"h": 2}, 10**7)
    z, u = (calculus.variable(Variable(name, ("h", "h"), kind)) for name in "ZU")
    general = calculus.variable(Variable("M", ("h", "h"), "general"))
    invert: Any = SimpleNamespace(expression=MatrixSymbol("Z", 2, 2).I)

    def slope(direction: Any) -> Any:
        return calculus.derivative(lambda at: {"": calculus.apply(invert, at)}, {"Z": z}, {"Z": direction})[""]

    y = calculus.inverse(z)
    expected = calculus.scale(calculus.product(calculus.product(y, u), y), Fraction(-1))
    one, other = calculus.field.aligned(slope(u), expected)
    assert one.entries == other.entries
    one, other = calculus.field.aligned(slope(u), calculus.scale(expected, Fraction(2)))
    assert one.entries != other.entries
    with pytest.raises(ValueError, match=f"leaves the matrices of kind {kind}"):
        slope(general)


@pytest.mark.parametrize("kind", ["diagonal", "complex_half", "complex_interleaved", "skew", "general"])
def test_derivatives_at_the_identity_and_at_zero(kind: str) -> None:
    """Level (c) puts in constants after differentiating: D(M Z^-1)[X] = -M X at Z = 1, D(M + Z)[X] = X at Z = 0."""
    calculus = ComponentCalculus({"h": 4}, 10**7)
    before = calculus.field.variables
    x = calculus.variable(Variable("X", ("h", "h"), kind))
    moving = calculus.field.variables - before
    m = calculus.variable(Variable("M", ("h", "h"), "general"))
    Z, M = MatrixSymbol("Z", 4, 4), MatrixSymbol("M", 4, 4)

    def slope(expression: Any, at: Any) -> Any:
        formula: Any = SimpleNamespace(expression=expression)
        return calculus.derivative(lambda w: {"": calculus.apply(formula, {**w, "M": m})}, {"Z": at}, {"Z": x})[""]

    def equal(a: Any, b: Any) -> bool:
        one, other = calculus.field.aligned(a, b)
        return one.entries == other.entries

    if kind != "general":  # the inverse of a generic 4 x 4 matrix is large
        expected = calculus.scale(calculus.product(m, x), Fraction(-1))
        assert equal(slope(M * Z.I, calculus.identity("h")), expected)
        assert not equal(slope(M * Z.I, calculus.identity("h")), calculus.product(m, x))
    assert equal(slope(M + Z * Z.T + Z, calculus.zero("h", "h")), x)
    assert moving == LINEAR[kind]


def geometry(*groups: Any, sizes: tuple[Any, ...], shapes: dict[str, tuple[Any, Any]] | None = None) -> Any:
    """As much of a geometry as sizes, laws and Lie algebras need."""
    shapes = shapes or {}
    names = Names((), tuple(shapes), tuple(f"X_{name}" for name in shapes))
    paired = {g.size for g in groups if g.element_kind.startswith("complex")}
    alphabet = SimpleNamespace(shape=lambda name: shapes[name.removeprefix("X_")], paired=paired)
    kinds = dict(zip(shapes, groups, strict=False))
    return SimpleNamespace(
        symmetry=SimpleNamespace(groups=groups),
        sizes=sizes,
        names=names,
        alphabet=alphabet,
        needs=Needs((), (), ()),
        assigned={},
        action={},
        preserved=(),
        inner=SimpleNamespace(polynomial=SimpleNamespace(terms={})),
        kind=lambda name: kinds[name.removeprefix("X_")].algebra_kind,
    )


def group(kind: str, size: Any = None, law: str = "multiply", algebra: str = "general") -> Any:
    known = {} if size is None else {"size": size}
    return SimpleNamespace(element_kind=kind, algebra_kind=algebra, law=law, **known)


def test_sizes_of_pairs_are_even_and_translations_set_none() -> None:
    rope = geometry(group("complex_half", "h"), sizes=("n", "m", "h"))
    assert assign_sizes(rope, 1, 1, 0) == {"n": 2, "m": 2, "h": 2}
    assert assign_sizes(rope, 2, 3) == {"n": 5, "m": 6, "h": 4}
    both = geometry(group("invertible", "k"), group("complex_interleaved", "h"), sizes=("n", "k", "h"))
    assert assign_sizes(both, 2, 3) == {"n": 5, "k": 2, "h": 4}
    wide = geometry(group("complex_half", 64), group("complex_half", 2), sizes=(768, 64, 2))
    assert assign_sizes(wide, 2, 3) == {768: 5, 64: 4}
    shift = geometry(group("general", law="add"), group("scalar", 1), sizes=("n", 2, 1))
    assert assign_sizes(shift, 2, 3) == {"n": 3}
    assert assign_sizes(geometry(group("diagonal", "d"), sizes=("d", 1)), 2, 3) == {"d": 2}


def test_true_metrics_with_whole_gram_matrices_under_pairs_hold() -> None:
    """Their inverses exist for as many rows as columns: sizes with fewer rows would refute what is true."""
    metrics = (
        lambda p, a, b: Trace(gram(p.H).I * a.H.T * b.H) + Trace(ComplexPart(gram(p.G), "half").I * a.G.T * b.G),
        lambda p, a, b: Trace(gram(p.G) * a.H.T * b.H) + Trace(ComplexPart(gram(p.H), "half") * a.G.T * b.G),
    )
    for inner in metrics:
        certify(derive_formulas(*declared(ROPE, inner)), "bde").require()


def test_the_law_of_a_group() -> None:
    """Identity and product of GL x translations: 1 and A B, 0 and s + t."""
    both = geometry(
        group("invertible", "h"), group("general", law="add"), sizes=("n", "h"), shapes={"A": ("h", "h"), "t": ("n", 1)}
    )
    sizes: Sizes = {"n": 3, "h": 2}
    calculus = RationalCalculus(sizes, random.Random(1))
    reading = Reading(calculus, both)

    def numbers(value: Any) -> Any:
        return rows_of([[float(x.real) for x in row] for row in value])

    one = reading.identity()
    assert np.array_equal(numbers(one["A"]), np.eye(2))
    assert np.array_equal(numbers(one["t"]), np.zeros((3, 1)))
    a, b = ({x: calculus.variable(Variable(f"{x}{i}", both.alphabet.shape(x), "general")) for x in "At"} for i in "12")
    product = reading.product(a, b)
    assert np.array_equal(numbers(product["A"]), numbers(a["A"]) @ numbers(b["A"]))
    assert np.array_equal(numbers(product["t"]), numbers(a["t"]) + numbers(b["t"]))


def test_basis_of_a_product_of_groups() -> None:
    """One translation of 3 x 2 entries, a scaling, two complex numbers: 6 + 1 + 4 directions."""
    both = geometry(
        group("general", law="add"),
        group("scalar", 1, algebra="scalar"),
        group("complex_half", "h", algebra="complex_half"),
        sizes=("n", "m", "h"),
        shapes={"t": ("n", "m"), "c": (1, 1), "z": ("h", "h")},
    )
    elements = algebra_basis(both, {"n": 3, "m": 2, "h": 4})
    flat = np.stack([np.concatenate([rows_of(value).ravel() for value in x.values()]) for x in elements])
    assert flat.shape == (11, 6 + 1 + 16)
    assert np.linalg.matrix_rank(flat) == 11


def test_what_sympy_differentiates_by_itself() -> None:
    """Level (f) is for sums of rational multiples of single traces of products; all else is not applicable."""
    size, h = sp.symbols("n h", integer=True, positive=True)
    G, u, D = MatrixSymbol("G", size, h), MatrixSymbol("u", size, 1), MatrixSymbol("D", size, size)
    c = sp.Symbol("c")
    known = [
        Trace((G.T * G).I * G.T * D * G) / 2 - Trace(D) + 1,
        -2 * G * (G.T * G) ** -2 + G,
        sp.ZeroMatrix(size, h),
        G.T,
    ]
    assert all(map(_is_known, known))
    unknown = [
        Trace(D) ** 2,
        Trace(D) * Trace(D * D),
        Trace(D) ** -1 * G,
        c * Trace(D),
        c * G,
        DiagMatrix(u) * G,
        Trace(ComplexPart(D, "half")),
        OneMatrix(size, h) + G,
        HadamardPower(u, 2).T,
        sp.DiagonalOf(D),
    ]
    assert not any(map(_is_known, unknown))
