"""Whole declarations of groups beyond GL: true ones are proven, false ones are refuted by every level with a witness."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from sympy import DiagMatrix, HadamardProduct, Trace

from quotientgeo.groups import NonzeroDiagonal, Scaling, Translation
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Level, Outcome, certify, derive_formulas
from quotientgeo.symbolic.derivation.levels.freeness import algebra_basis
from quotientgeo.symbolic.derivation.levels.points import assign_sizes, number
from quotientgeo.symbolic.derivation.levels.positivity import check_positive
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.squares import sum_of_squares
from tests.symbolic.derivation.elementwise import (
    AFFINE,
    DIAGONAL,
    ROPE,
    SCALE,
    SHIFT,
    TRUE,
    Inner,
    declared,
    elementwise,
    exchanged,
    paired,
)

ASSUMED = {
    "diagonal invariant": ("no entry of u is zero",),
    "diagonal mixed": ("no entry of u, v is zero",),
    "rope invariant": ("no pair of columns of G is zero",),
    "rope mixed": ("no pair of columns of G, H is zero",),
    "rope interleaved": ("no pair of columns of G is zero",),
    "scale": ("w is not zero",),
    "neuron": ("g is not zero",),
    "shift": (),
    "rows": ("no column of V is zero",),
    "affine": ("no column of V is zero",),
    "affine squared": ("no entry of 1 + w is zero",),
    "product": ("full column rank of G, H", "w is not zero"),
}


@pytest.mark.parametrize("name", TRUE)
def test_true_declarations_are_proven_for_all_sizes(name: str) -> None:
    """Every claim, and the other levels agree; what the proofs assume is named and no stronger than it needs to be."""
    levels = "abde" if name.startswith(("rope", "product")) else "abcde"  # (c) takes seconds there
    geometry = derive_formulas(*declared(*TRUE[name]))
    certificate = certify(geometry, levels)
    assert {claim.name: claim.status for claim in certificate if claim.status != "proven for all sizes"} == {}
    for claim in certificate:
        assert all(result.outcome in (Outcome.PROVEN, Outcome.TESTED) for result in claim.levels)
        assert len(claim.levels) >= 3
    assert certificate.assumptions[1:] == ASSUMED[name]


def test_weights_are_read_in_what_is_moved_linearly() -> None:
    """diag(1 + w)^2 is a square, as its expansion 1 + 2 w + w^2 does not show; 2 w + w^2 is none, and is negative somewhere."""
    geometry = derive_formulas(*declared(*TRUE["affine squared"]))
    assert str(sum_of_squares(geometry, Ranks(geometry))) == "|xi_V + xi_V diag(w)|^2 + |diag(xi_w) (I + diag(w))^-1|^2"

    def weighed(p: Any, a: Any, b: Any) -> Any:
        weight = 2 * DiagMatrix(p.w) + DiagMatrix(p.w) ** 2
        return Trace(a.w.T * b.w) + Trace(weight * a.V.T * b.V)

    read = Metric("weighed", AFFINE, weighed).read_inner(geometry.alphabet)
    inner = dataclasses.replace(geometry.inner, expression=read[0], polynomial=read[1])
    indefinite = dataclasses.replace(geometry, inner=inner)
    assert sum_of_squares(indefinite, Ranks(indefinite)) is None
    claim = check_positive(indefinite, [Level.NORMAL_FORM, Level.RATIONAL], Ranks(indefinite))
    assert claim.status == "false"


@pytest.mark.parametrize("name", ["rope invariant", "rope mixed", "product"])
def test_component_proofs_at_the_smallest_sizes(name: str) -> None:
    """Complex diagonals of size 2 and more: level (c) by itself."""
    geometry = derive_formulas(*declared(*TRUE[name]))
    certificate = certify(geometry, "c", ("action_composition", "invariance", "acceleration", "vertical_from_action"))
    assert {claim.status.split(" (")[0] for claim in certificate} == {"proven for sizes"}


@pytest.mark.parametrize("name", TRUE)
def test_the_lie_algebra_is_that_of_the_group(name: str) -> None:
    """The basis of the levels and the groups' own span the same space."""
    geometry = derive_formulas(*declared(*TRUE[name]))
    sizes = assign_sizes(geometry, 2, 3)
    named: dict[str, int] = {name: value for name, value in sizes.items() if isinstance(name, str)}
    elements = algebra_basis(geometry, sizes)
    for x, group in zip(geometry.names.algebra, geometry.symmetry.groups, strict=True):
        own = group.algebra_basis(sizes={s: named[s] for s in group.symbols} if group.symbols else None).numpy()
        own = own.reshape(len(own), -1)
        found = np.array([np.ravel(element[x]) for element in elements if np.any(element[x])], dtype=float)
        assert len(found) == len(own) == np.linalg.matrix_rank(np.concatenate([found, own]))
        assert geometry.alphabet.shape(x) == group.element_shape
        assert [number(size, sizes) for size in group.element_shape] == list(np.shape(elements[0][x]))


def scaled(power: int) -> Inner:
    return lambda p, a, b: Trace(a.w.T * b.w) * Trace(p.w.T * p.w) ** power


TWICE = Symmetry("twice", Scaling(), {"w": ("n", 1)}, lambda c, w: (c * w + w,))
SQUARED = Symmetry("squared", Scaling(), {"w": ("n", 1)}, lambda c, w: (c**2 * w - c * w + w,))
DOUBLED = Symmetry("doubled", Translation("n"), {"b": ("n", 1)}, lambda t, b: (b + t + t * (t.T * t),))
STILL = Symmetry("still", Scaling(), {"w": ("n", 1), "v": ("n", 1)}, lambda c, w, v: (w, v))
ALIKE = Symmetry(
    "alike",
    NonzeroDiagonal("d"),
    {"u": ("d", 1), "v": ("d", 1)},
    lambda A, u, v: (A * u, A * v),
    HadamardProduct,
)


def flat(p: Any, a: Any, b: Any) -> Any:
    return sum(Trace(a[name].T * b[name]) for name in p._symbols)


FALSE: dict[str, tuple[Symmetry, Inner, str, str]] = {
    "euclidean under a diagonal group": (DIAGONAL, flat, "invariance", "bcde"),
    "wrong power of the entries": (DIAGONAL, lambda p, a, b: elementwise(p, a, b, -4), "invariance", "bcde"),
    "wrong power of the other entries": (DIAGONAL, lambda p, a, b: exchanged(p, a, b, 4), "invariance", "bcde"),
    "wrong pairing": (ROPE, lambda p, a, b: paired(p, a, b, "interleaved"), "invariance", "bde"),
    "wrong power of the length": (SCALE, scaled(-2), "invariance", "bcde"),
    "length of a translated vector": (
        SHIFT,
        lambda p, a, b: Trace(a.b.T * b.b) * Trace(p.b.T * p.b),
        "invariance",
        "bcde",
    ),
    "identity that moves": (TWICE, scaled(-1), "action_identity", "bcde"),
    "scalings that do not compose": (SQUARED, scaled(-1), "action_composition", "bcde"),
    "translations that do not compose": (DOUBLED, flat, "action_composition", "bcde"),
    "product that is not preserved": (ALIKE, elementwise, "preserved", "bcde"),
    "group that moves nothing": (STILL, flat, "action_free", "bde"),
    "odd power of entries": (
        DIAGONAL,
        lambda p, a, b: Trace(DiagMatrix(p.v) * a.u * b.u.T) + Trace(DiagMatrix(p.u) * a.v * b.v.T),
        "metric_positive_definite",
        "de",
    ),
    "weight of either sign": (
        DIAGONAL,
        lambda p, a, b: elementwise(p, a, b) * Trace(p.u.T * p.v),
        "metric_positive_definite",
        "de",
    ),
    "difference of squares": (
        DIAGONAL,
        lambda p, a, b: Trace(DiagMatrix(p.u) ** -2 * a.u * b.u.T) - Trace(DiagMatrix(p.v) ** -2 * a.v * b.v.T),
        "metric_positive_definite",
        "de",
    ),
}


@pytest.mark.parametrize(
    ("name", "level"), [(name, level) for name, (_, _, _, levels) in FALSE.items() for level in levels]
)
def test_false_declarations_are_refuted_by_each_level(name: str, level: str) -> None:
    symmetry, inner, claim, _ = FALSE[name]
    found = certify(derive_formulas(*declared(symmetry, inner)), level, [claim])[claim]
    assert found.status == "false"
    assert found.witness is not None
    assert set(found.witness.values) >= set(symmetry.factors)


@pytest.mark.parametrize("name", FALSE)
def test_false_declarations_are_not_proven_by_their_form(name: str) -> None:
    symmetry, inner, claim, _ = FALSE[name]
    found = certify(derive_formulas(*declared(symmetry, inner)), "a", [claim])[claim]
    (result,) = found.levels
    assert result.outcome in (Outcome.UNDECIDED, Outcome.FALSE)


def test_sympy_itself_is_not_asked_about_what_it_cannot_differentiate() -> None:
    geometry = derive_formulas(*declared(*TRUE["rope invariant"]))
    assert all(not claim.levels for claim in certify(geometry, "f", ("gradient", "acceleration", "invariance")))
