"""Sizes of test points let what is inverted be invertible, whatever the order of the factors; where none do, that is said."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from sympy import OneMatrix, Rational, Trace

import quotientgeo as qg
from quotientgeo.errors import CertificateError
from quotientgeo.groups import (
    GL,
    ComplexDiagonal,
    NonzeroDiagonal,
    Orthogonal,
    PositiveDiagonal,
    Scaling,
    Translation,
)
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry, Outcome, certify, derive_formulas
from quotientgeo.symbolic.derivation.levels.autodiff import TorchArithmetic, check_autodiff
from quotientgeo.symbolic.derivation.levels.bounds import size_conditions
from quotientgeo.symbolic.derivation.levels.points import assign_sizes, undefined
from quotientgeo.symbolic.derivation.statements import statements

Inner = Any


def columns(p: Any, a: Any, b: Any) -> Any:
    return Trace((p.W.T * p.W).I * a.W.T * b.W)


def rows(p: Any, a: Any, b: Any) -> Any:
    return Trace((p.W * p.W.T).I * a.W * b.W.T)


def scaled(shape: tuple[Any, Any], inner: Inner) -> Geometry:
    symmetry = Symmetry("scaled", Scaling(), {"W": shape}, lambda c, W: (c * W,))
    return derive_formulas(symmetry, Metric("own", symmetry, inner))


def beside(order: tuple[str, ...], G: tuple[Any, Any] = ("n", "h"), sign: int = 1) -> tuple[Symmetry, Metric]:
    """G with its Gram matrix as weight, beside what is translated and a vector of G's width."""
    shapes = {"G": G, "b": (G[1], 1), "z": ("q", 1)}

    def action(t: Any, *values: Any) -> Any:
        return tuple(value + t if name == "z" else value for name, value in zip(order, values, strict=True))

    def inner(p: Any, a: Any, b: Any) -> Any:
        return sign * Trace((p.G.T * p.G).I * a.G.T * b.G) + Trace(a.b.T * b.b) + Trace(a.z.T * b.z)

    symmetry = Symmetry("beside", Translation("q"), {name: shapes[name] for name in order}, action)
    return symmetry, Metric("own", symmetry, inner)


@pytest.mark.parametrize("order", [("G", "b", "z"), ("b", "G", "z"), ("z", "b", "G")])
def test_a_true_declaration_holds_in_every_order(order: tuple[str, ...]) -> None:
    certificate = qg.derive(*beside(order), levels="abde").certificate
    assert {claim.status for claim in certificate} == {"proven for all sizes"}
    assert all(result.outcome is not Outcome.FALSE for claim in certificate for result in claim.levels)


@pytest.mark.parametrize(
    ("shape", "inner", "expected"),
    [
        (("n", "d"), columns, {"n": 3, "d": 2}),
        (("n", "d"), rows, {"n": 3, "d": 4}),
        ((64, 16), columns, {64: 3, 16: 2}),
        ((16, 64), rows, {16: 3, 64: 4}),
        ((64, 4), columns, {64: 5}),  # 4 stays, and 64 is more
    ],
)
def test_sizes_are_the_nearest_that_fit(shape: Any, inner: Inner, expected: dict[Any, int]) -> None:
    geometry = scaled(shape, inner)
    assert not undefined(geometry)
    assert assign_sizes(geometry, 2, 3) == expected
    certificate = certify(geometry, "abde", ["invariance", "metric_positive_definite"])
    assert {claim.status for claim in certificate} == {"proven for all sizes"}
    assert all(len(claim.confirmed_by) >= 3 for claim in certificate)


def test_sizes_of_groups_give_way_last() -> None:
    """(G G')^-1 needs as many columns as rows, and the columns are the group's: other claims are looked at there."""
    symmetry = Symmetry("right", GL("h"), {"G": ("n", "h"), "H": ("m", "h")}, lambda A, G, H: (G * A.inv(), H * A.T))
    inner = lambda p, a, b: Trace((p.G * p.G.T).I * a.G * b.G.T) + Trace((p.H.T * p.H).I * a.H.T * b.H)  # noqa: E731
    geometry = derive_formulas(symmetry, Metric("own", symmetry, inner))
    assert assign_sizes(geometry, 2, 3) == {"n": 1, "m": 4, "h": 2}
    certificate = certify(geometry, "bde", ["metric_symmetric", "invariance"])
    assert [claim.status for claim in certificate] == ["tested", "false"]
    assert certificate["invariance"].witness is not None


def test_proofs_that_need_a_rank_are_tested_where_there_is_one() -> None:
    """tr(xi_b' W' W xi_b) is definite for W of full column rank alone: not where it has fewer rows than columns."""
    symmetry = Symmetry("bias", Translation("h"), {"W": ("n", "h"), "b": ("h", 1)}, lambda t, W, b: (W, b + t))
    inner = lambda p, a, b: Trace(a.W.T * b.W) + Trace(a.b.T * p.W.T * p.W * b.b)  # noqa: E731
    geometry = derive_formulas(symmetry, Metric("own", symmetry, inner))
    certificate = certify(geometry, "ade")
    assert certificate.assumptions[1:] == ("full column rank of W",)
    assert certificate.holds, certificate.summary


@pytest.mark.parametrize("sign", [1, -1])
def test_a_metric_that_is_undefined_at_the_declared_sizes_is_refused_as_such(sign: int) -> None:
    geometry = qg.derive(*beside(("G", "b", "z"), (2, 3), sign))
    assert [claim.name for claim in geometry.certificate if not claim.holds] == ["metric_positive_definite"]
    with pytest.raises(CertificateError, match=r"the metric is undefined: \(G' G\)\^-1 does not exist at these sizes"):
        geometry.certificate.require()


def test_declared_numbers_count_not_what_stands_in_for_them() -> None:
    assert undefined(scaled((16, 64), columns)) == "(W' W)^-1"
    assert not certify(scaled((16, 64), columns), "ade").holds


def test_a_singular_matrix_has_no_inverse_in_floating_point() -> None:
    """torch gives one for a Gram matrix that is singular but for rounding."""
    W = torch.randn(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        TorchArithmetic({}).inverse(W.T @ W)
    assert torch.allclose(TorchArithmetic({}).inverse(W @ W.T) @ (W @ W.T), torch.eye(2, dtype=torch.float64))


def test_automatic_differentiation_says_nothing_of_a_metric_that_is_undefined() -> None:
    symmetry, metric = beside(("G", "b", "z"), (2, 3))
    geometry = derive_formulas(symmetry, metric)
    symmetric = next(s for s in statements(geometry) if s.name == "metric_symmetric")
    assert check_autodiff(geometry, symmetric).outcome is Outcome.NOT_APPLICABLE


def test_large_declared_numbers_may_be_proven_with_stand_ins() -> None:
    """tr(I_16) in the projector stays a letter: as the number 16 it would be false at a stand-in for 16."""
    geometry = scaled((64, 16), columns)
    whole = certify(geometry, "abcde")
    assert {claim.status for claim in whole} == {"proven for all sizes"}
    module = dataclasses.replace(geometry, certificate=whole).module()
    W, xi = (torch.randn(64, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    (found,) = module.horizontal(W, xi)
    inner = lambda a, b: torch.trace((W.T @ W).inverse() @ a.T @ b)  # noqa: E731
    expected = xi - inner(W, xi) / inner(W, W) * W
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_certificates_say_which_sizes_their_inverses_need() -> None:
    """Both weights of the middle factor are inverted: M R M' needs h <= k, M' P M needs k <= h."""
    symmetry = Symmetry(
        "middle",
        GL("h") * GL("k"),
        {"G": ("n", "h"), "M": ("h", "k"), "H": ("m", "k")},
        lambda A, B, G, M, H: (G * A.inv(), A * M * B.inv(), H * B.T),
    )

    def inner(p: Any, a: Any, b: Any) -> Any:
        P, Q = p.G.T * p.G, p.H.T * p.H
        outer = Trace(p.M * Q * p.M.T * a.G.T * b.G) + Trace(p.M.T * P * p.M * a.H.T * b.H)
        return outer + Trace(P * a.M * Q * b.M.T)

    conditions = size_conditions(derive_formulas(symmetry, Metric("mixed", symmetry, inner)))
    assert {"h <= k", "k <= h", "h <= n", "k <= m"} <= set(conditions)
    stacked = Symmetry(
        "stacked", GL("h"), {"G": ("n", "h"), "H": ("n", "h")}, lambda A, G, H: (G * A.inv(), H * A.inv())
    )
    weight = lambda p: (p.G.T * p.G + p.H.T * p.H).I  # noqa: E731
    both = Metric("own", stacked, lambda p, a, b: Trace(weight(p) * (a.G.T * b.G + a.H.T * b.H)))
    assert size_conditions(derive_formulas(stacked, both))[-1] in ("h <= 2 n", "h <= n")


@pytest.mark.parametrize("count", [10, 32])
def test_a_number_that_is_also_a_size_keeps_its_meaning(count: int) -> None:
    """The mean over ``count`` classes taken off: what softmax sees, and false with another number of classes."""
    ones = OneMatrix(count, count)
    logit = Symmetry(
        "logit",
        Translation(1, "h"),
        {"W": (count, "h")},
        lambda T, W: (W + OneMatrix(count, 1) * T,),
        lambda W: count * W - ones * W,
    )
    flat = Metric("flat", logit, lambda p, a, b: Trace(a.W.T * b.W))
    claims = certify(derive_formulas(logit, flat), "abcde", ("preserved", "vertical_in_kernel"))
    assert {claim.status for claim in claims} == {"proven for all sizes"}
    assert all(result.outcome is not Outcome.FALSE for claim in claims for result in claim.levels)
    wrong = dataclasses.replace(logit, preserves=lambda W: (count + 1) * W - ones * W)
    assert certify(derive_formulas(wrong, Metric("flat", wrong, flat.inner)), "abcde", ("preserved",))[
        "preserved"
    ].witness


def centred(count: int, divisor: int) -> Geometry:
    """The mean over rows taken off: what a LayerNorm of that width sees."""
    ones = OneMatrix(count, 1)
    symmetry = Symmetry(
        "centred",
        Translation("d"),
        {"W": (count, "d")},
        lambda t, W: (W + ones * t.T,),
        lambda W: W - ones * ones.T * W * Rational(1, divisor),
    )
    return derive_formulas(symmetry, Metric("flat", symmetry, lambda p, a, b: Trace(a.W.T * b.W)))


@pytest.mark.parametrize("count", [7, 12, 768])
def test_a_declared_size_as_a_number_is_proven_by_counting_ones(count: int) -> None:
    claims = certify(centred(count, count), "abcde", ("preserved", "vertical_in_kernel"))
    assert {claim.status for claim in claims} == {"proven for all sizes"}
    wrong = certify(centred(count, count + 1), "abcde", ("preserved", "vertical_in_kernel"))
    assert {claim.status for claim in wrong} == {"false"}


@pytest.mark.parametrize(("count", "divisor", "status"), [(12, 8, "false"), (12, 13, "tested"), (64, 70, "undecided")])
def test_a_metric_that_counts_is_looked_at_with_its_own_numbers(count: int, divisor: int, status: str) -> None:
    """|W|^2 - |1'W|^2 / divisor is definite for divisors above the number of rows only."""
    ones = OneMatrix(count, 1)
    symmetry = Symmetry("shifted", Translation("q"), {"z": ("q", 1), "W": (count, "d")}, lambda t, z, W: (z + t, W))

    def inner(p: Any, a: Any, b: Any) -> Any:
        return Trace(a.z.T * b.z) + Trace(a.W.T * b.W) - Trace(a.W.T * ones * ones.T * b.W) / divisor

    geometry = derive_formulas(symmetry, Metric("own", symmetry, inner))
    assert certify(geometry, "abde", ["metric_positive_definite"])["metric_positive_definite"].status == status


@pytest.mark.parametrize("group", [GL, Orthogonal, NonzeroDiagonal, PositiveDiagonal, ComplexDiagonal])
def test_false_claims_about_large_declared_groups_have_witnesses(group: Any) -> None:
    symmetry = Symmetry(
        "pair",
        group(8),
        {"G": ("m", 8), "H": ("k", 8)},
        lambda A, G, H: (G * A.inv(), H * A.T),
        lambda G, H: G * G.T,
    )
    plain = Metric("plain", symmetry, lambda p, a, b: Trace(a.G.T * b.G) + Trace(a.H.T * b.H))
    claim = certify(derive_formulas(symmetry, plain), "abd", ["preserved"])["preserved"]
    assert (claim.witness is None) == (group is Orthogonal)


def test_many_sizes_are_assigned_in_time() -> None:
    """Five factors in a chain, every Gram matrix inverted: six sizes, each at most as large as the one before."""
    shapes: dict[str, tuple[Any, Any]] = {f"W{i}": (f"n{i}", f"n{i + 1}") for i in range(5)}
    chain = Symmetry("chain", Scaling(), shapes, lambda c, W0, W1, W2, W3, W4: (c * W0, W1, W2, W3, W4))

    def inner(p: Any, a: Any, b: Any) -> Any:
        first, *rest = (Trace((p[f].T * p[f]).I * a[f].T * b[f]) for f in shapes)
        return sum(rest, first)

    geometry = derive_formulas(chain, Metric("own", chain, inner))
    sizes = list(assign_sizes(geometry, 2, 3).values())
    assert sizes == sorted(sizes, reverse=True)
    assert certify(geometry, "abd").holds
