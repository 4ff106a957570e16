"""What certificates assume: no more than is needed, whatever the order of the factors, and enough for what is proven."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
import sympy as sp
from sympy import Trace

from quotientgeo.groups import GL, Translation
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import certify, derive_formulas
from quotientgeo.symbolic.derivation.levels.assumed import assumed
from quotientgeo.symbolic.derivation.pipeline import _declared

Inner = Any
BIAS = Symmetry("bias", Translation("h"), {"W": ("n", "h"), "b": ("h", 1)}, lambda t, W, b: (W, b + t))
VALUES = Symmetry("values", GL("h"), {"W": ("h", "h"), "G": ("n", "h")}, lambda A, W, G: (A * W, G * A.inv()))
TRIPLE = Symmetry(
    "triple",
    GL("h") * GL("k"),
    {"M": ("h", "k"), "R": ("k", "m"), "T": ("n", "h")},
    lambda A, B, M, R, T: (A * M * B.inv(), B * R, T * A.inv()),
)


def twice(p: Any, x: Any, y: Any) -> Any:
    """|xi_b|^2 is definite by itself, |W xi_b|^2 where W has full rank."""
    return Trace(x.W.T * y.W) + Trace(x.b.T * p.W.T * p.W * y.b) + Trace(x.b.T * y.b)


def flat(p: Any, a: Any, b: Any) -> Any:
    return sum(Trace(a[name].T * b[name]) for name in p._symbols)


def shipped(name: str) -> tuple[Symmetry, Inner]:
    module = import_module(f"quotientgeo.catalogue.{name}.declaration")
    return module.symmetry, module.metric.inner


CATALOGUE = [
    "linear_chain_invariant", "value_bias_flat", "grouped_queries_invariant", "grouped_queries_mixed", "gl_pair_mixed",
    "orthogonal_pair_stacked", "orthogonal_pair_euclidean", "layer_rescaling_mixed", "layer_rescaling_invariant",
    "neuron_rescaling_invariant", "diagonal_network_mixed", "rope_pair_mixed", "norm_gain_affine_invariant",
]  # fmt: skip
CASES = {
    **{name: shipped(name) for name in CATALOGUE},
    "bias": (BIAS, twice),
    "square": (VALUES, flat),
    "triple": (TRIPLE, flat),
}


def told(symmetry: Symmetry, inner: Inner) -> set[str]:
    """What is assumed, of each factor by itself."""
    out = set()
    for text in assumed(_declared(symmetry, Metric("own", symmetry, inner))).assumptions():
        found = re.fullmatch(r"(.* of )(.*?)( is zero)?", text)
        out |= {f"{found[1]}{name}{found[3] or ''}" for name in found[2].split(", ")} if found else {text}
    return out


def reordered(symmetry: Symmetry, order: tuple[str, ...]) -> Symmetry:
    """The same declaration with its factors in another order."""
    count, names = len(symmetry.groups), list(symmetry.factors)

    def in_order(values: tuple[Any, ...]) -> list[Any]:
        named = dict(zip(order, values, strict=True))
        return [named[name] for name in names]

    def action(*values: Any) -> Any:
        moved = symmetry.action(*values[:count], *in_order(values[count:]))
        named = dict(zip(names, moved if isinstance(moved, tuple) else (moved,), strict=True))
        return tuple(named[name] for name in order)

    return Symmetry(symmetry.name, symmetry.groups, {name: symmetry.factors[name] for name in order}, action)


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_factors_changes_nothing(name: str) -> None:
    symmetry, inner = CASES[name]
    known = told(symmetry, inner)
    for order in permutations(symmetry.factors):
        assert told(reordered(symmetry, order), inner) == known, order


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear_chain_invariant", {"full column rank of G", "full row rank of R"}),  # none of W, which may have none
        ("value_bias_flat", set()),
        ("bias", set()),
        ("grouped_queries_invariant", {"full column rank of H"}),
        ("grouped_queries_mixed", {"full column rank of G1", "full column rank of H"}),
        ("square", {"full column rank of G"}),  # or of W
        ("triple", {"full column rank of T", "full row rank of R"}),  # M has these only at some sizes
        ("gl_pair_mixed", {"full column rank of G", "full column rank of H"}),
    ],
)
def test_only_what_is_needed_is_assumed(name: str, expected: set[str]) -> None:
    assert told(*CASES[name]) == expected


def test_a_full_rank_says_that_no_column_is_zero() -> None:
    """The metric needs the rank of G, and by its other term no column that is zero: one says the other."""
    symmetry = Symmetry(
        "both", Translation("q"), {"G": ("n", "h"), "v": ("h", 1), "w": ("h", 1), "z": ("q", 1)},
        lambda t, G, v, w, z: (G, v, w, z + t),
    )  # fmt: skip

    def inner(p: Any, a: Any, b: Any) -> Any:
        plain = Trace(a.G.T * b.G) + Trace(a.z.T * b.z)
        parted = sp.DiagMatrix(sp.DiagonalOf(p.G.T * p.G))
        return plain + Trace(a.v.T * parted * b.v) + Trace(a.w.T * p.G.T * p.G * b.w)

    assert told(symmetry, inner) == {"full column rank of G"}


# enough: at exact points that meet no more than what is assumed, by SymPy's matrices alone


SIZES = {
    "linear_chain_invariant": {"n": 2, "h": 2, "k": 3, "m": 3},
    "value_bias_flat": {"n": 2, "h": 2},
    "grouped_queries_invariant": {},
    "grouped_queries_mixed": {},
    "orthogonal_pair_stacked": {},
    "orthogonal_pair_euclidean": {},
    "gl_pair_mixed": {},
    "neuron_rescaling_invariant": {},
    "bias": {"n": 2, "h": 2},
    "square": {},
    "triple": {"n": 3, "h": 3, "k": 2, "m": 2},
}
DEGENERATE = {  # a factor of which nothing is assumed
    "linear_chain_invariant": "W", "value_bias_flat": "W", "bias": "W", "triple": "M", "grouped_queries_mixed": "G2",
}  # fmt: skip


class Exact(sp.Matrix):  # type: ignore[misc]
    """An explicit matrix that has its inverse where expressions have it."""

    @property
    def I(self) -> Any:  # noqa: E743
        return self.inv()


def meets(text: str, point: dict[str, sp.Matrix]) -> bool:
    """Whether a point is as an assumption says, in words of the certificate."""
    found = re.fullmatch(r"full (column|row) rank of (.*)", text)
    if found:
        axis = 1 if found[1] == "column" else 0
        return bool(point[found[2]].rank() == point[found[2]].shape[axis])
    found = re.fullmatch(r"(\w+) is not zero", text)
    assert found, text
    return not point[found[1]].is_zero_matrix


def drawn(rng: random.Random, rows: int, columns: int) -> sp.Matrix:
    """A matrix of small integers: any, of rank one, or zero."""
    values = Exact(rows, columns, lambda i, j: rng.randint(-2, 2))
    one = Exact(rows, 1, lambda i, j: rng.randint(-1, 1)) * Exact(1, columns, lambda i, j: rng.randint(-1, 1))
    return rng.choice([values, values, one, Exact.zeros(rows, columns)])


def curves(group: Any, sizes: dict[str, int], t: sp.Symbol) -> list[Any]:
    """For each basis vector of the Lie algebra: the identity, moved along it to first order."""
    kind = type(group).__name__
    if kind == "Scaling":
        return [1 + t]
    rows, columns = (sizes.get(size, size) for size in group.element_shape)
    units = [sp.Matrix(rows, columns, lambda p, q: int((p, q) == (i, j))) for i in range(rows) for j in range(columns)]  # noqa: B023
    if kind == "Orthogonal":
        units = [unit - unit.T for unit in units if unit - unit.T != sp.zeros(rows)]
        units = [unit for i, unit in enumerate(units) if -unit not in units[:i]]
    return [t * unit if kind == "Translation" else sp.eye(rows) + t * unit for unit in units]


def gram(inner: Inner, point: dict[str, sp.Matrix]) -> sp.Matrix:
    """<e_i, e_j> for the entries of all factors."""
    units = []
    for name, value in point.items():
        for place in range(len(value)):
            flat_unit = [int(place == i) for i in range(len(value))]
            units.append(
                {f: Exact(*v.shape, flat_unit) if f == name else Exact.zeros(*v.shape) for f, v in point.items()}
            )

    class Named(SimpleNamespace):
        def __getitem__(self, name: str) -> sp.Matrix:
            return vars(self)[name]

    p, xi = Named(**point, _symbols=point), [Named(**unit) for unit in units]
    return sp.Matrix(len(xi), len(xi), lambda i, j: sp.sympify(inner(p, xi[i], xi[j])).doit())


def differential(symmetry: Symmetry, sizes: dict[str, int], point: dict[str, sp.Matrix]) -> sp.Matrix:
    """X -> V_X, one row for each basis vector."""
    t, rows = sp.Symbol("t"), []
    ones = [
        1 if type(g).__name__ == "Scaling"
        else sp.zeros(*(sizes.get(s, s) for s in g.element_shape)) if type(g).__name__ == "Translation"
        else sp.eye(sizes.get(g.element_shape[0], g.element_shape[0]))
        for g in symmetry.groups
    ]  # fmt: skip
    for place, group in enumerate(symmetry.groups):
        for curve in curves(group, sizes, t):
            moved = symmetry.action(*ones[:place], curve, *ones[place + 1 :], *point.values())
            moved = moved if isinstance(moved, tuple) else (moved,)
            rows.append([x for value in moved for x in sp.Matrix(value).diff(t).subs(t, 0)])
    return sp.Matrix(rows)


def points(name: str, assumptions: set[str]) -> Iterator[tuple[dict[str, int], dict[str, sp.Matrix]]]:
    """A few of those that meet what is assumed, one of them with nothing in the factor of which nothing is."""
    symmetry, inner = CASES[name]
    sizes = {size: SIZES[name].get(size, 2 + (size in ("n", "m"))) for size in symmetry.sizes if isinstance(size, str)}
    rng, count = random.Random(name), 0
    while count < 5:
        point = {f: drawn(rng, *(sizes.get(s, s) for s in shape)) for f, shape in symmetry.factors.items()}
        if name in DEGENERATE and count < 2:
            point[DEGENERATE[name]] = point[DEGENERATE[name]] * 0
        if not all(meets(text, point) for text in assumptions):
            continue
        try:
            gram(inner, point)
        except (ValueError, ZeroDivisionError):
            continue  # an inverse does not exist
        count += 1
        yield sizes, point


@pytest.mark.parametrize("name", SIZES)
def test_what_is_assumed_is_enough(name: str) -> None:
    symmetry, inner = CASES[name]
    assumptions = told(symmetry, inner)
    for sizes, point in points(name, assumptions):
        metric = gram(inner, point)
        assert metric == metric.T
        assert all(metric[:k, :k].det() > 0 for k in range(1, len(metric[0, :]) + 1)), point
        vertical = differential(symmetry, sizes, point)
        assert vertical.rank() == vertical.shape[0], point


def test_the_certificate_says_so() -> None:
    geometry = derive_formulas(BIAS, Metric("own", BIAS, twice))
    certificate = certify(geometry, "a")
    assert certificate.assumptions == ("every inverse that occurs in a formula exists at the point",)
    assert certificate["metric_positive_definite"].status == certificate["action_free"].status == "proven for all sizes"
