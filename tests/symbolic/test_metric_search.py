"""Search for invariant metrics: the known answers, metrics that are derived from what was found, what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import sympy as sp
from sympy import DiagMatrix, MatrixExpr, Rational, Trace

import quotientgeo as qg
from quotientgeo.errors import ArgumentError, NotDerivableError
from quotientgeo.groups import GL, Scaling
from quotientgeo.symbolic.algebra import trace_from_sympy
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import derive
from quotientgeo.symbolic.metric_search import (
    Definiteness,
    MetricSearch,
    MetricTerm,
    Words,
    search_metrics,
)
from quotientgeo.symbolic.metric_search.candidates import candidates
from quotientgeo.symbolic.metric_search.places import Problem
from tests.symbolic.searched import CHAIN, DIAGONAL, GAIN, NEURON, ORTHOGONAL, PAIR, ROPE, SCALE, SHEAR, SHIFT, VECTOR


def same_forms(symmetry: Symmetry, terms: Iterable[MetricTerm], wanted: Iterable[Callable[..., Any]]) -> bool:
    """Whether the terms are exactly these, as declared by hand: normal forms in one alphabet."""
    alphabet = symmetry.alphabet()
    found = {trace_from_sympy(term.expression, alphabet) for term in terms}
    made = [Metric("wanted", symmetry, inner) for inner in wanted]
    expected = {m.read_inner(alphabet)[1] for m in made}
    return len(expected) == len(made) and found == expected


def alternating(a: MatrixExpr, b: MatrixExpr, k: int) -> MatrixExpr:
    """a (b a)^k."""
    out = a
    for _ in range(k):
        out = out * b * a
    return out


def word_metric(factor: str, first: str, second: str, k: int, inverse: bool) -> Callable[..., Any]:
    def inner(p: Any, a: Any, b: Any) -> sp.Expr:
        one, two = (p[f].T * p[f] for f in (first, second))
        word = alternating(one.inv(), two.inv(), k) if inverse else alternating(one, two, k)
        return Trace(word * a[factor].T * b[factor])

    return inner


# known answers


def test_words_of_the_pair() -> None:
    """For GL(h): P^-1, Q, P^-1 Q^-1 P^-1, Q P Q, ... for G, and with P and Q exchanged for H; all of them positive definite."""
    found = search_metrics(PAIR, Words(length=4))
    for factor, other in (("G", "H"), ("H", "G")):
        wanted = [
            word_metric(factor, factor if inverse else other, other if inverse else factor, k, inverse)
            for k in (0, 1)
            for inverse in (False, True)
        ]
        assert same_forms(PAIR, found.of(factor), wanted)
    assert {term.sign.definiteness for term in found} == {Definiteness.PROVEN}
    assert "words of at most 4 letters (G' G)^±1, (H' H)^±1" in found.scope
    assert f"{found.candidates} forms, 8 invariant (proven for all sizes). No other combination" in found.scope
    assert len(search_metrics(PAIR, Words(length=1))) == 4
    assert len(search_metrics(PAIR, Words(length=2))) == 4  # there is none of even length


def test_every_word_is_invariant_under_the_orthogonal_group() -> None:
    found = search_metrics(ORTHOGONAL, Words(length=2))
    # 1, P, P^-1, Q, Q^-1; of length 2 four squares and four products, each of which counts once with its transpose
    assert found.candidates == len(found) == 2 * (1 + 4 + 4 + 4)
    signs = [term.sign.definiteness for term in found.of("G")]
    assert signs.count(Definiteness.PROVEN) == 9  # palindromes
    assert signs.count(Definiteness.INDEFINITE) == 4
    assert all(term.sign.witness for term in found.of("G") if term.sign.definiteness is Definiteness.INDEFINITE)


def test_exponents_of_the_diagonal_group() -> None:
    """K_u = u^p v^q with p = q - 2, K_v with q = p - 2, and nothing else with |p|, |q| <= 4."""
    found = search_metrics(DIAGONAL, Words(powers=4))

    def weight(factor: str, p: int, q: int) -> Callable[..., Any]:
        return lambda at, a, b: Trace(DiagMatrix(at.u) ** p * DiagMatrix(at.v) ** q * a[factor] * b[factor].T)

    powers = list(itertools.product(range(-4, 5), repeat=2))
    assert same_forms(DIAGONAL, found.of("u"), [weight("u", p, q) for p, q in powers if p == q - 2])
    assert same_forms(DIAGONAL, found.of("v"), [weight("v", p, q) for p, q in powers if q == p - 2])
    assert found.candidates == 2 * 81
    definite = {term.text for term in found if term.definite}
    assert "tr(xi_u' diag(v)^2 eta_u)" in definite
    assert "tr(xi_u' diag(u)^-1 diag(v) eta_u)" not in definite  # negative where u and v differ in sign


def test_two_sided_forms() -> None:
    """tr(K a' (G L G') b) with K and L of at most one letter: 4 of 25 for each factor; 6 more with G'a on both sides of words."""
    base, wide = (candidates(Problem.of(PAIR), Words(length=1, two_sided=k)) for k in (None, 1))
    found = search_metrics(PAIR, Words(length=1, two_sided=1))
    more = found.of("G")[2:]  # after P^-1 and Q
    assert len(more) == 4 + 6
    assert len(wide) - len(base) == 2 * (25 + 15 + 15)
    weighted = [
        term for term in more if term.text.startswith("tr((G' G)^-1 xi_G'") or term.text.startswith("tr(H' H xi_G'")
    ]
    assert len(weighted) == 4
    assert {term.sign.definiteness for term in weighted} == {Definiteness.SEMIDEFINITE}  # zero for a with G'a = 0


def test_cross_blocks() -> None:
    """tr(X K Y L), tr(X K Y' L), tr(X K) tr(Y L) with X = G'a, Y = H'b and words of at most one letter: 6 of 75."""
    without, found = search_metrics(PAIR, Words(length=1)), search_metrics(PAIR, Words(length=1, cross=1))
    assert found.candidates - without.candidates == 75
    assert len(found.of("G", "H")) == len(found) - len(without) == 6
    assert {term.sign.definiteness for term in found.of("H", "G")} == {Definiteness.COUPLING}


def test_complex_diagonal_group() -> None:
    found = search_metrics(ROPE, Words(powers=1))
    assert {term.text for term in found.of("G")} == {
        "tr((complex_half(G' G))^-1 xi_G' eta_G)",
        "tr(complex_half(H' H) xi_G' eta_G)",
    }
    assert all(term.definite for term in found)


def test_scalings() -> None:
    found = search_metrics(SCALE, Words(length=2))
    assert [term.text for term in found] == [
        "tr(W W')^-1 tr(xi_W' eta_W)",
        "tr(W W')^-2 tr(W' W xi_W' eta_W)",
    ]
    # W' W is singular where W is wide, and nothing says that it is not
    assert [term.sign.definiteness for term in found] == [Definiteness.PROVEN, Definiteness.SEMIDEFINITE]
    found = search_metrics(NEURON, Words(powers=1))
    assert {term.text for term in found.of("g")} == {"tr(g g')^-1 tr(xi_g' eta_g)", "tr(h h') tr(xi_g' eta_g)"}


def test_no_side_without_a_group_is_taken_for_the_short_one() -> None:
    """H' H for H is definite for tall H only and H H' for wide H only; every other factor here has a group to say so."""
    found = search_metrics(SHEAR, Words(length=1, two_sided=0))
    signs = {term.text: term.sign.definiteness for term in found.of("H")}
    assert signs["tr(xi_H' eta_H)"] is Definiteness.PROVEN
    assert signs["tr(H' H xi_H' eta_H)"] is Definiteness.SEMIDEFINITE
    assert signs["tr(xi_H' H H' eta_H)"] is Definiteness.SEMIDEFINITE
    with pytest.raises(NotDerivableError, match="no positive definite invariant term for G"):
        found.metrics()


def test_translations() -> None:
    found = search_metrics(SHIFT, Words(length=1))
    assert [term.text for term in found.of("b")] == ["tr(xi_b' eta_b)"]  # no weight in b, which moves
    assert len(found.of("w")) == 2  # every word in w, which does not


def test_affine_action() -> None:
    """Letters are what is moved linearly: 1 + w, not w."""
    found = search_metrics(GAIN, Words(powers=2))
    assert "powers from -2 to 2 of I + diag(w), diag(V' V)" in found.scope
    assert {term.text for term in found.of("w")} >= {
        "tr(xi_w' (I + diag(w))^-2 eta_w)",
        "tr(xi_w' diag(V' V) eta_w)",
    }
    assert {term.sign.definiteness for term in found} == {Definiteness.PROVEN}
    # (1 + w)^2 for V is definite only where 1 + w has no zero; w2 divides by it and w1 does not
    assert found["V2"].sign.needs == {"w"} == found["w2"].sign.excludes
    names = [metric.name for metric in found.metrics()]
    assert "w2_V2" in names
    assert "w1_V2" not in names


def test_chain_of_three_factors() -> None:
    found = search_metrics(CHAIN, Words(length=3))
    assert {term.text for term in found} == {
        "tr((G' G)^-1 xi_G' eta_G)",
        "tr(W R R' W' xi_G' eta_G)",
        "tr(R R' xi_W' G' G eta_W)",
        "tr(xi_R' (R R')^-1 eta_R)",
        "tr(xi_R' W' G' G W eta_R)",
    }
    assert len(list(found.metrics())) == 4
    geometry = derive(CHAIN, next(found.metrics()), levels="a")
    assert geometry.certificate.holds


# what is made of it


@pytest.mark.parametrize(
    ("symmetry", "ansatz", "count"),
    [
        (PAIR, Words(length=1), 4),
        (DIAGONAL, Words(powers=2), 4),
        (NEURON, Words(powers=1), 4),
        (GAIN, Words(powers=2), 6),
    ],
    ids=["pair", "diagonal", "neuron", "gain"],
)
def test_metrics_are_derived_and_certified(symmetry: Symmetry, ansatz: Words, count: int) -> None:
    found = search_metrics(symmetry, ansatz)
    metrics = list(found.metrics())
    assert len(metrics) == count
    for metric in metrics[:4]:
        geometry = derive(symmetry, metric, levels="ad")
        assert geometry.certificate["invariance"].status == "proven for all sizes"
        assert geometry.certificate.holds, geometry.certificate


def test_sums_with_weights() -> None:
    found = search_metrics(PAIR, Words(length=1))
    metric = found.metric("sum", {"G1": 1, "G2": Rational(1, 2), "H1": 2, "H2": 3})
    p = PAIR.alphabet()
    by_hand = Metric(
        "by_hand",
        PAIR,
        lambda p, a, b: (
            Trace(((p.G.T * p.G).I + p.H.T * p.H / 2) * a.G.T * b.G)
            + Trace((2 * p.G.T * p.G + 3 * (p.H.T * p.H).I) * a.H.T * b.H)
        ),
    )
    assert metric.read_inner(p)[1] == by_hand.read_inner(p)[1]
    assert derive(PAIR, metric, levels="a").certificate.holds


def test_inner_takes_any_symbols() -> None:
    """The metric of a term is a function of point and tangents like one that is written by hand."""

    class Point:
        def __init__(self, **given: Any) -> None:
            self.given = given

        def __getitem__(self, name: str) -> Any:
            return self.given[name]

    found = search_metrics(DIAGONAL, Words(powers=2))
    inner = found.metric("mixed", {"u3": 1, "v3": 1}).inner
    u, v, a, b = (sp.ImmutableMatrix(rows) for rows in ([2, 3], [5, 7], [1, -1], [2, 4]))
    value = sp.sympify(inner(Point(u=u, v=v), Point(u=a, v=b), Point(u=a, v=b))).doit()
    assert value == 25 + 49 + 4 * 4 + 9 * 16


def test_nothing_invariant_is_said() -> None:
    found = search_metrics(VECTOR, Words(length=2))
    assert not list(found)
    assert "none of them is invariant" in str(found)
    assert "Try longer words" in str(found)
    with pytest.raises(NotDerivableError, match=r"no positive definite invariant term for x \(none is invariant\)"):
        found.metrics()


def test_report() -> None:
    found = search_metrics(PAIR, Words(length=1))
    lines = str(found).splitlines()
    assert lines[0].startswith("gl_pair: tr(K xi_G' eta_G), tr(K xi_H' eta_H); words of at most 1 letter (G' G)^±1")
    assert lines[1] == "  G1: tr((G' G)^-1 xi_G' eta_G) (positive definite: proven)"
    assert found["G1"].sign.reason == "<xi, xi> = |xi_G (G' G)^-1 G'|^2, assuming full column rank of G"


def test_labels_are_different() -> None:
    """Also where one factor is called like another with a number."""
    symmetry = Symmetry(
        "grouped", group=GL("h"), factors={"Q": ("n", "h"), "Q1": ("n", "h"), "K": ("m", "h")},
        action=lambda A, Q, Q1, K: (Q * A.inv(), Q1 * A.inv(), K * A.T),
    )  # fmt: skip
    labels = [term.label for term in search_metrics(symmetry, Words(length=1, cross=0))]
    assert len(set(labels)) == len(labels)
    assert {"Q1", "Q1_1", "K1", "QK1", "Q1_K_1"} < set(labels)


def test_positive_numbers_need_no_rank() -> None:
    """tr(W W') > 0 for W of any rank other than zero: the proof assumes no more."""
    symmetry = Symmetry(
        "scales", group=Scaling(), factors={"a": ("n", 1), "W": ("n", "m")}, action=lambda c, a, W: (c * a, W / c)
    )
    found = search_metrics(symmetry, Words(length=0, powers=1))
    signs = {term.text: term.sign for term in found.of("a")}
    assert signs["tr(W W') tr(xi_a' eta_a)"].definiteness is Definiteness.PROVEN
    assert signs["tr(W W') tr(xi_a' eta_a)"].reason.endswith(", assuming W is not zero")
    assert signs["tr(a a')^-1 tr(xi_a' eta_a)"].definiteness is Definiteness.PROVEN


# what is refused


@pytest.mark.parametrize("bad", [{"length": -1}, {"powers": 1.5}, {"length": True}, {"cross": -2}, {"two_sided": "1"}])
def test_bad_ansatz(bad: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"must be an integer >= 0"):
        Words(**bad)


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="takes a Symmetry, got a str"):
        search_metrics("gl_pair")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"ansatz must be Words"):
        search_metrics(PAIR, 3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="more than"):
        search_metrics(ORTHOGONAL, Words(length=12))


@pytest.fixture(scope="module")
def pair_search() -> MetricSearch:
    return search_metrics(PAIR, Words(length=1, cross=1))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "weights must be a dict"),
        ({"G9": 1, "H1": 1}, "no term 'G9'; found: G1, G2"),
        ({"G1": 1}, "no term for H, so it would be degenerate; found: H1, H2"),
        ({"G1": -1, "H1": 1}, "must be positive, got -1"),
        ({"G1": 0.5, "H1": 1}, "must be an integer or sympy.Rational"),
        ({"G1": "one half", "H1": 1}, "weight of G1"),
        ({"G1": 1, "H1": 1, "GH1": 0}, "must be positive, got 0"),
        ({"G1": True, "H1": 1}, "must be an integer or sympy.Rational"),
    ],
)
def test_bad_weights(pair_search: MetricSearch, weights: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        pair_search.metric("bad", weights)


def test_unknown_factor(pair_search: MetricSearch) -> None:
    with pytest.raises(ArgumentError, match="give factors of G, H"):
        pair_search.of("W")


def test_public_names() -> None:
    assert qg.search_metrics is search_metrics
    assert qg.Words is Words
