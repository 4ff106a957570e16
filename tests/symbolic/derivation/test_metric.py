"""Is what was declared a metric at all: symmetric, not degenerate, positive definite at every point and not at one only."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import sympy as sp
from sympy import Rational, Trace

import quotientgeo as qg
from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.declaration import Metric
from quotientgeo.symbolic.derivation import Claim, Geometry, Level, Outcome, certify, derive, derive_formulas
from quotientgeo.symbolic.derivation.calculus import Reading
from quotientgeo.symbolic.derivation.levels.points import assign_sizes, generator, has_full_rank
from quotientgeo.symbolic.derivation.levels.ranks import Ranks
from quotientgeo.symbolic.derivation.levels.rational import RationalCalculus
from quotientgeo.symbolic.derivation.levels.squares import dominated, sum_of_squares
from tests.symbolic.derivation.declarations import (
    CHAIN,
    PAIR,
    Inner,
    chain_inner,
    formulas,
    gram,
    mixed,
)

POSITIVE = "metric_positive_definite"


def with_inner(inner: Inner) -> Geometry:
    """The formulas of the mixed metric with another inner product: enough for claims about the inner product alone."""
    base = formulas("mixed")
    expression, value = Metric("other", PAIR, inner).read_inner(base.alphabet)
    return dataclasses.replace(base, inner=dataclasses.replace(base.inner, expression=expression, polynomial=value))


def positivity(inner: Inner, levels: str = "ade") -> Claim:
    return certify(with_inner(inner), levels, [POSITIVE])[POSITIVE]


def square(claim: Claim, inner: Inner) -> sp.Rational:
    """<xi, xi> at the witness, evaluated here by SymPy with explicit matrices."""
    assert claim.witness is not None
    v = {k: sp.Matrix([[sp.Rational(x) for x in row] for row in rows]) for k, rows in claim.witness.values.items()}

    class Point:
        def __init__(self, prefix: str) -> None:
            self.G, self.H = (sp.ImmutableMatrix(v[f"{prefix}{name}"]) for name in "GH")

    tangent = Point("xi_")
    value = sp.sympify(inner(Point(""), tangent, tangent)).doit()
    assert claim.witness.left == f"<xi, xi> = {value}"
    return value


def minus(epsilon: sp.Rational) -> Inner:
    def inner(p: Any, a: Any, b: Any) -> Any:
        P, Q = gram(p.G), gram(p.H)
        return Trace((P**-1 - epsilon * Q) * a.G.T * b.G) + Trace((Q**-1 - epsilon * P) * a.H.T * b.H)

    return inner


def window(c: sp.Rational, d: sp.Rational) -> Inner:
    """P^-1 - c Q + c^2 d Q P Q as the weight of G: positive for small and for large G and H, negative between for d < 1/4."""

    def inner(p: Any, a: Any, b: Any) -> Any:
        P, Q = gram(p.G), gram(p.H)
        weight = P**-1 - c * Q + c * c * d * Q * P * Q
        return Trace(weight * a.G.T * b.G) + Trace(Q**-1 * a.H.T * b.H)

    return inner


def damped(p: Any, a: Any, b: Any) -> Any:
    """Q (P Q + 1)^-1 is positive definite, but no word of it is a square."""
    P, Q = gram(p.G), gram(p.H)
    return Trace(Q * (P * Q + sp.Identity(P.shape[0])).I * a.G.T * b.G) + Trace(P * a.H.T * b.H)


@pytest.mark.parametrize("levels", ["a", "d", "e", "ade"])
@pytest.mark.parametrize("epsilon", [Rational(1, 1000), Rational(1, 10**6), Rational(1, 10**14)], ids=str)
def test_a_metric_that_is_indefinite_far_away_is_refuted(epsilon: sp.Rational, levels: str) -> None:
    """Positive at every point of moderate size: <xi, xi> < 0 where P Q has an eigenvalue beyond 1 / epsilon."""
    inner = minus(epsilon)
    claim = positivity(inner, levels)
    assert claim.status == "false"
    assert square(claim, inner) < 0


def test_scaling_disproves_for_all_sizes() -> None:
    """Nothing numerical reaches 10^-200, so this is the argument about degrees alone."""
    claim = positivity(minus(Rational(1, 10**200)), "ade")
    assert [result.outcome for result in claim.levels] == [Outcome.FALSE, Outcome.TESTED, Outcome.TESTED]
    assert "for xi in G alone <xi, xi> is led by" in claim.levels[0].residual
    assert "as t grows in H -> t H" in claim.levels[0].residual
    assert square(claim, minus(Rational(1, 10**200))) < 0


@pytest.mark.parametrize("c", [1, Rational(1, 1000)], ids=str)
def test_a_metric_that_is_indefinite_in_a_narrow_window_is_refuted_by_search(c: sp.Rational) -> None:
    """The terms of highest and of lowest degree are squares; only a search finds g h between two roots 10 % apart."""
    inner = window(c, Rational(249, 1000))
    assert dominated(with_inner(inner)) is None
    claim = positivity(inner)
    assert claim.status == "false"
    assert square(claim, inner) < 0


def test_a_metric_that_is_indefinite_at_ill_conditioned_points_only_is_refuted_by_search() -> None:
    """P^2 Q + Q P^2 + 100 P Q P is positive where P and Q commute, and at well-conditioned points; all terms have one degree."""

    def inner(p: Any, a: Any, b: Any) -> Any:
        P, Q = gram(p.G), gram(p.H)
        return Trace((P * P * Q + Q * P * P + 100 * P * Q * P) * a.G.T * b.G) + Trace(a.H.T * b.H)

    claim = positivity(inner)
    assert "a search over scales and shapes found" in claim.levels[1].residual
    assert square(claim, inner) < 0


@pytest.mark.parametrize("inner", [window(sp.Integer(1), Rational(26, 100)), damped])
def test_a_metric_that_is_no_visible_sum_of_squares_is_only_tested_and_says_so(inner: Inner) -> None:
    certificate = certify(with_inner(inner), "ade", [POSITIVE])
    claim = certificate[POSITIVE]
    assert claim.status == "tested"
    assert claim.confirmed_by == (Level.RATIONAL, Level.AUTODIFF)
    assert all("no exception found over factors scaled by" in r.residual for r in claim.levels[1:])
    assert certificate.summary.endswith(f"1 tested; TESTED, NOT PROVEN: {POSITIVE}")


@pytest.mark.parametrize("name", ["invariant", "mixed", "third", "euclidean"])
def test_the_search_refutes_no_metric(name: str) -> None:
    """Without the proof, what the search finds suspicious (ill-conditioned points) is cleared exactly."""
    claim = certify(formulas(name), "de", [POSITIVE])[POSITIVE]
    assert claim.status == "tested"
    assert "over factors scaled by 10^-6 to 10^6" in claim.levels[0].residual


def test_the_search_refutes_no_metric_on_three_factors() -> None:
    chain = derive_formulas(CHAIN, Metric("own", CHAIN, chain_inner))
    assert certify(chain, "de", [POSITIVE])[POSITIVE].status == "tested"


def test_coefficients_beyond_float64_are_no_obstacle() -> None:
    claim = positivity(minus(Rational(1, 10**400)), "de")
    assert claim.status == "tested"
    assert "scaled by 10^-60 to 10^60" in claim.levels[0].residual
    assert positivity(minus(Rational(1, 10**400)), "ade").status == "false"


def test_an_indefinite_metric_makes_no_code(tmp_path: Path) -> None:
    geometry = derive(PAIR, Metric("far", PAIR, minus(Rational(1, 1000))), levels="a")
    with pytest.raises(CertificateError, match=r"metric_positive_definite: false[\s\S]*witness at n = 1"):
        qg.generate(geometry, tmp_path / "far.py")
    assert not list(tmp_path.iterdir())


def test_an_indefinite_metric_is_refuted_at_a_random_point() -> None:
    def inner(p: Any, a: Any, b: Any) -> Any:
        return Trace(gram(p.H) * a.G.T * b.G) - Trace(gram(p.G) * a.H.T * b.H)

    for levels in ("a", "d", "e"):
        claim = positivity(inner, levels)
        assert claim.status == "false"
    assert square(positivity(inner, "d"), inner) <= 0


def test_points_of_lower_rank_refute_no_metric() -> None:
    """The mixed metric is degenerate there; under this name the first draw of a factor has rank one."""
    named = dataclasses.replace(formulas("mixed"), metric=Metric("own_114", PAIR, mixed))
    sizes = assign_sizes(named, 2, 3)
    first = RationalCalculus(sizes, generator("positivity", named.name, 0, 0))
    (point,) = Reading(first, named).bind(["p"])
    assert not all(has_full_rank([[x.real for x in row] for row in rows]) for rows in point.values())
    assert certify(named, "d", [POSITIVE]).holds


# sums of squares


def test_squares_add_up_to_the_metric() -> None:
    found = sum_of_squares(formulas("mixed"), Ranks(formulas("mixed")))
    assert found is not None
    assert [(int(c), str(value)) for c, value in found.squares] == [(1, "xi_H G'"), (1, "xi_G H'")]
    assert not found.undecided


@pytest.mark.parametrize("name", ["invariant", "mixed", "third"])
def test_a_proof_names_its_squares(name: str) -> None:
    (proof,) = certify(formulas(name), "a", [POSITIVE])[POSITIVE].levels
    assert proof.outcome is Outcome.PROVEN
    squares = {
        "invariant": "|xi_G (G' G)^-1 G'|^2 + |xi_H (H' H)^-1 H'|^2",
        "mixed": "|xi_H G'|^2 + |xi_G H'|^2",
        "third": "|xi_H G' G H'|^2 + |xi_G H' H G'|^2",
    }
    assert f"<xi, xi> = {squares[name]}," in proof.residual


def test_inverses_of_sums_and_weights_on_both_sides_are_squares() -> None:
    def inner(p: Any, a: Any, b: Any) -> Any:
        P, Q = gram(p.G), gram(p.H)
        return 2 * Trace((P + 3 * Q).I * a.G.T * b.G) + Trace(P * a.H.T * b.H)

    claim = positivity(inner, "a")
    assert claim.status == "proven for all sizes"
    inverse = "(1/3 G' G + H' H)^-1"
    assert f"2/9 |xi_G {inverse} G'|^2 + 2/3 |xi_G {inverse} H'|^2 + |xi_H G'|^2" in claim.levels[0].residual
    chain = derive_formulas(CHAIN, Metric("own", CHAIN, chain_inner))
    (proof,) = certify(chain, "a", [POSITIVE])[POSITIVE].levels
    assert "|G xi_W R'|^2" in proof.residual


def test_squares_that_vanish_for_a_tangent_prove_nothing() -> None:
    """tr(G' xi_G xi_G' G) is a square, zero for xi_G orthogonal to the columns of G."""

    def inner(p: Any, a: Any, b: Any) -> Any:
        return Trace(p.G.T * a.G * b.G.T * p.G) + Trace(gram(p.G) * a.H.T * b.H)

    claim = positivity(inner)
    assert [r.outcome for r in claim.levels] == [Outcome.UNDECIDED, Outcome.FALSE, Outcome.FALSE]
    assert "none that is zero only for xi_F = 0, for F = G" in claim.levels[0].residual
    assert square(claim, inner) == 0


# what no equation can be solved for


def test_a_metric_that_is_not_symmetric_is_called_so() -> None:
    def inner(p: Any, a: Any, b: Any) -> Any:
        return mixed(p, a, b) + Trace(a.G.T * p.G * b.H.T * p.H)

    with pytest.raises(CertificateError, match=r"gl_pair_lopsided: the metric is not symmetric: .*; witness at n = 1"):
        derive(PAIR, Metric("lopsided", PAIR, inner))


def test_a_degenerate_metric_is_called_so() -> None:
    with pytest.raises(CertificateError, match=r"not positive definite \(degenerate\): a\.H does not occur in it"):
        derive(PAIR, Metric("half", PAIR, lambda p, a, b: Trace(gram(p.H) * a.G.T * b.G)))


def test_a_coupled_metric_that_is_not_positive_is_called_so() -> None:
    def inner(p: Any, a: Any, b: Any) -> Any:
        cross = Trace(a.G.T * p.G * b.H.T * p.H) + Trace(b.G.T * p.G * a.H.T * p.H)
        return mixed(p, a, b) + 2 * cross

    with pytest.raises(CertificateError, match=r"the metric is not positive definite: .*witness at"):
        derive(PAIR, Metric("coupled", PAIR, inner))


def test_a_coupled_metric_that_is_one_is_derived_with_its_equations() -> None:
    def inner(p: Any, a: Any, b: Any) -> Any:
        cross = Trace(a.G.T * p.G * b.H.T * p.H) + Trace(b.G.T * p.G * a.H.T * p.H)
        return mixed(p, a, b) + Rational(1, 2) * cross

    geometry = derive(PAIR, Metric("coupled", PAIR, inner))
    assert geometry.equations is not None
    assert {claim.status for claim in geometry.certificate} == {"proven for all sizes"}
