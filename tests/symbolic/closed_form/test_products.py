"""Products of independent symmetries: each factor moves by its own blocks, in whatever order the factors are declared."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from sympy import DiagMatrix, DiagonalOf, Trace

import quotientgeo as qg
from quotientgeo.errors import NotDerivableError
from quotientgeo.groups import NonzeroDiagonal, Scaling, Translation
from quotientgeo.symbolic.algebra import Kind
from quotientgeo.symbolic.closed_form import closed_form
from quotientgeo.symbolic.closed_form.reduction import reduced
from quotientgeo.symbolic.closed_form.solving import solve
from quotientgeo.symbolic.codegen.execution import module_from
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry
from quotientgeo.symbolic.derivation.pipeline import derive_formulas
from tests.symbolic.closed_form import products

SIZES = {"n": 2, "m": 3, "d": 2, "e": 3, "h": 4, "i": 3, "o": 2, "q": 2}
AGREES = 1e-9
PRODUCTS = [
    ("scale", "network"),
    ("scale", "other"),
    ("scale", "rows"),
    ("pairs", "scale"),
    ("shift", "scale"),
    ("shift", "network"),
    ("cone", "scale"),
    ("network", "rows"),
    ("pairs", "network", "scale"),
    ("cone", "network", "other"),
]


def orders(parts: tuple[str, ...], count: int) -> list[tuple[str, ...]]:
    """That of the parts, its reverse, and others at random."""
    names = [f for part in parts for f in products.PARTS[part].factors]
    every = sorted(itertools.permutations(names))
    drawn = random.Random(0).sample(every, min(count, len(every)))
    return list(dict.fromkeys([tuple(names), tuple(reversed(names)), *drawn]))[:count]


def printed(geometry: Geometry) -> ModuleType:
    found = closed_form(geometry, "digest")
    assert found is not None
    assert found.claim.status == "proven for all sizes"
    return module_from(found.source("a test"), "closed_form_of_a_product")


def check(parts: tuple[str, ...], order: tuple[str, ...]) -> None:
    geometry = products.product(parts, order)
    found = closed_form(geometry, "digest")
    assert found is not None, order
    assert found.solved.flow.reduced.layout == products.layout(parts)
    generator = torch.Generator().manual_seed(len(order))
    shapes = {f: tuple(SIZES.get(str(s), s) for s in shape) for f, shape in geometry.factors.items()}
    options = {"dtype": torch.float64, "generator": generator}
    point = {f: torch.rand(*shape, **options) + 0.5 for f, shape in shapes.items()}
    velocity = {f: 0.1 * point[f] * torch.randn(*shape, **options) for f, shape in shapes.items()}
    ends = printed(geometry).exponential(*point.values(), *velocity.values())
    for (factor, wanted), end in zip(products.integral(parts, point, velocity).items(), ends, strict=True):
        assert float((end - wanted).abs().max()) < AGREES, (order, factor)


@pytest.mark.parametrize("parts", PRODUCTS, ids=" x ".join)
def test_factors_move_by_their_own_blocks_in_either_order(parts: tuple[str, ...]) -> None:
    for order in orders(parts, 2):
        check(parts, order)


@pytest.mark.slow
@pytest.mark.parametrize("parts", PRODUCTS, ids=" x ".join)
def test_factors_move_by_their_own_blocks_in_any_order(parts: tuple[str, ...]) -> None:
    for order in orders(parts, 8):
        check(parts, order)


@pytest.mark.parametrize("order", [("W", "u", "v"), ("u", "v", "W")])
def test_a_product_is_derived_and_generated_in_either_order(tmp_path: Path, order: tuple[str, ...]) -> None:
    drawn = products.product(("scale", "network"), order)
    qg.generate(qg.derive(drawn.symmetry, drawn.metric), tmp_path / "made")
    record = json.loads((tmp_path / "made" / "certificate.json").read_text())
    assert record["closed_form"]["domain"] == "all t"
    assert (tmp_path / "made" / "closed_form.py").exists()


@pytest.mark.parametrize("order", [("x", "y", "r", "s"), ("s", "x", "r", "y")])
def test_of_two_cones_no_closed_form_is_claimed(order: tuple[str, ...]) -> None:
    geometry = products.product(("cone", "second cone"), order)
    assert closed_form(geometry, "") is None
    with pytest.raises(NotDerivableError, match="no closed form was found for the geodesic of"):
        solve(reduced(geometry))


# --- what is read in two ways ---


def mixed(order: str, inner: Callable[[Any, Any, Any], Any]) -> Geometry:
    """Translations of z beside W, u and v, which nothing moves."""
    shapes = {"W": ("d", "m"), "u": ("d", 1), "v": ("d", 1), "z": ("d", 1)}

    def action(t: Any, *factors: Any) -> tuple[Any, ...]:
        return tuple(x + t if f == "z" else x for f, x in zip(order, factors, strict=True))

    symmetry = Symmetry("both", group=Translation("d"), factors={f: shapes[f] for f in order}, action=action)
    return derive_formulas(symmetry, Metric("m", symmetry, lambda p, a, b: inner(p, a, b) + Trace(a.z.T * b.z)))


def whole_and_rows(p: Any, a: Any, b: Any) -> Any:
    """W has its whole length in its own term, and the lengths of its rows in that of u."""
    lengths = DiagMatrix(DiagonalOf(p.W * p.W.T))
    return (
        Trace(a.W.T * b.W) / Trace(p.W.T * p.W)
        + Trace(lengths * a.u * b.u.T)
        + Trace(DiagMatrix(p.u) ** -2 * a.v * b.v.T)
    )


def number_and_length(p: Any, a: Any, b: Any) -> Any:
    """u is a length to itself, and a diagonal matrix to v."""
    return Trace(a.W.T * b.W) + Trace(a.u.T * b.u) / Trace(p.u.T * p.u) + Trace(DiagMatrix(p.u) ** -2 * a.v * b.v.T)


@pytest.mark.parametrize("inner", [whole_and_rows, number_and_length])
@pytest.mark.parametrize("order", ["Wuvz", "vuzW", "uWvz", "zvWu"])
def test_a_factor_that_is_read_in_two_ways_has_no_closed_form(order: str, inner: Callable[..., Any]) -> None:
    geometry = mixed(order, inner)
    assert closed_form(geometry, "") is None
    with pytest.raises(NotDerivableError, match="geodesics do not move in blocks"):
        reduced(geometry)


@pytest.mark.parametrize("order", ["WUV", "VUW"])
def test_a_letter_takes_a_factor_by_one_kind_of_blocks(order: str) -> None:
    """Whole traces of U, then its rows, or the other way round: the words of two accelerations put together."""
    whole = products.product(("scale", "rows"), ("W", "U", "V"))
    U = whole.acceleration["U"]
    letter = whole.alphabet["U"]
    twice = dataclasses.replace(U, polynomial=U.polynomial + letter.scaled((letter.T * letter).trace()))
    parts = {"W": whole.acceleration["W"], "U": twice, "V": whole.acceleration["V"]}
    wrong = dataclasses.replace(whole, acceleration=parts if order == "WUV" else dict(reversed(parts.items())))
    with pytest.raises(NotDerivableError, match=r"U is taken by its (rows|length) and its (rows|length)"):
        reduced(wrong)


def test_pairs_whose_scale_depends_on_their_symplectic_form_are_refused() -> None:
    """What (x' y)(y' x) of two complex numbers holds, beside the inner product; nothing follows it in time."""
    right = products.product(("pairs",), ("G", "H"))
    G, xi, kind = right.alphabet["G"], right.alphabet["xi_G"], Kind.COMPLEX_HALF
    twisted = G * (G.T * xi).part(kind) * (xi.T * G).part(kind)
    changed = dataclasses.replace(right.acceleration["G"], polynomial=right.acceleration["G"].polynomial + twisted)
    with pytest.raises(NotDerivableError, match="blocks of G turn with their acceleration"):
        reduced(dataclasses.replace(right, acceleration={**right.acceleration, "G": changed}))


@pytest.mark.parametrize("name", ["rate_W", "square_W"])
def test_a_factor_called_like_a_quantity_of_another_is_refused(name: str) -> None:
    shapes: dict[str, Any] = {"W": ("n", "m"), name: ("d", 1)}
    symmetry = Symmetry(
        "named", group=Scaling() * NonzeroDiagonal("d"), factors=shapes, action=lambda c, D, *f: (c * f[0], D * f[1])
    )
    metric = Metric(
        "m",
        symmetry,
        lambda p, a, b: (
            Trace(a.W.T * b.W) / Trace(p.W.T * p.W) + Trace(DiagMatrix(p[name]) ** -2 * a[name] * b[name].T)
        ),
    )
    with pytest.raises(NotDerivableError, match=f"the name {name} is that of a quantity in the solution"):
        reduced(derive_formulas(symmetry, metric))
