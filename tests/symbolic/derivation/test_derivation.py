"""The derived formulas: against the paper's, for other groups and metrics, and through the same functions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import sympy as sp
from sympy import Trace

from quotientgeo.groups import GL
from quotientgeo.symbolic.algebra import Polynomial, polynomial_from_sympy
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry, Level, derive, derive_formulas
from tests.symbolic.derivation.declarations import (
    CHAIN,
    PAIR,
    ROTATED,
    chain_inner,
    euclidean,
    formulas,
    gram,
    metric,
    mixed,
)

n, m, h = (sp.Symbol(size, integer=True, positive=True) for size in "nmh")
G, xi_G, dG = (sp.MatrixSymbol(name, n, h) for name in ("G", "xi_G", "dG"))
H, xi_H, dH = (sp.MatrixSymbol(name, m, h) for name in ("H", "xi_H", "dH"))
X = sp.MatrixSymbol("X", h, h)
P, Q = gram(G), gram(H)


def read(of: Geometry, expression: sp.MatrixExpr) -> Polynomial:
    return polynomial_from_sympy(expression, of.alphabet)


# Equations of da Silva, Dangel, Oore (ICML 2025), typed here as an independent reference. (11) and (12) give the Christoffel
# term Gamma(xi, xi); the acceleration is its negative. In print, the gradient of the mixed metric carries a misprint.
GAMMA_G = {
    "invariant": -xi_G * P.I * (xi_G.T * G + G.T * xi_G) + G * P.I * xi_G.T * xi_G,
    "mixed": xi_G * (xi_H.T * H + H.T * xi_H) * Q.I - G * xi_H.T * xi_H * Q.I,
}
GAMMA_H = {
    "invariant": -xi_H * Q.I * (xi_H.T * H + H.T * xi_H) + H * Q.I * xi_H.T * xi_H,
    "mixed": xi_H * (xi_G.T * G + G.T * xi_G) * P.I - H * xi_G.T * xi_G * P.I,
}
GRADIENT = {"invariant": (dG * P, dH * Q), "mixed": (dG * Q.I, dH * P.I)}
HORIZONTAL = {  # zero for horizontal vectors: difference of the two sides of the paper's condition
    "invariant": xi_G.T * G * Q - P * H.T * xi_H,
    "mixed": G.T * xi_G * Q - P * xi_H.T * H,
}


@pytest.mark.parametrize("name", ["invariant", "mixed"])
def test_against_the_equations_of_the_paper(name: str) -> None:
    derived = formulas(name)
    assert derived.acceleration["G"].polynomial == -read(derived, GAMMA_G[name])
    assert derived.acceleration["H"].polynomial == -read(derived, GAMMA_H[name])
    assert derived.gradient["G"].polynomial == read(derived, GRADIENT[name][0])
    assert derived.gradient["H"].polynomial == read(derived, GRADIENT[name][1])
    assert derived.vertical["G"].polynomial == read(derived, -G * X)
    assert derived.vertical["H"].polynomial == read(derived, H * X.T)


def test_horizontal_conditions_of_the_paper() -> None:
    """The momentum is an invertible multiple of the paper's condition, so both vanish together."""
    invariant, mix = formulas("invariant"), formulas("mixed")
    multiple = read(invariant, P) * invariant.momentum["X"].polynomial.T * read(invariant, Q)
    assert multiple == -read(invariant, HORIZONTAL["invariant"])
    assert mix.momentum["X"].polynomial == -read(mix, HORIZONTAL["mixed"])


def test_a_sign_slip_in_the_reference_is_noticed() -> None:
    derived = formulas("invariant")
    assert derived.acceleration["G"].polynomial != read(derived, GAMMA_G["invariant"])


@pytest.mark.parametrize(("name", "terms"), [("invariant", (3, 7, 15)), ("mixed", (3, 19, 128))])
def test_number_of_taylor_terms(name: str, terms: tuple[int, ...]) -> None:
    derived = formulas(name)
    assert tuple(len(derived.derivatives[k]["G"].polynomial) for k in (2, 3, 4)) == terms
    assert derived.derivatives[2]["G"].polynomial == derived.acceleration["G"].polynomial


def test_formulas_have_two_equal_forms() -> None:
    for name in ("invariant", "mixed", "third"):
        derived = formulas(name)
        blocks = (derived.vertical, derived.momentum, derived.gradient, derived.acceleration, derived.derivatives[3])
        for block in blocks:
            for formula in block.values():
                assert read(derived, formula.expression) == formula.polynomial
                assert set(formula.polynomial.symbols()) <= set(formula.arguments)


def test_a_third_metric_goes_through_the_same_functions() -> None:
    """Weights Q P Q and P Q P: not in the catalogue, nothing knows of it."""
    third = derive(PAIR, metric("third"), levels="abde")  # its entries, (c), take most of the time
    third.certificate.require()
    assert third.gradient["G"].polynomial == read(third, dG * (Q * P * Q).I)
    assert {claim.status for claim in third.certificate} == {"proven for all sizes"}
    assert all(len(claim.confirmed_by) >= 3 for claim in third.certificate)


def test_a_chain_of_three_factors_under_a_product_of_groups() -> None:
    chain = derive(CHAIN, Metric("own", CHAIN, chain_inner), levels="abde")
    chain.certificate.require()
    assert str(chain.vertical["W"].polynomial) == "-W X_2 + X_1 W"
    assert set(chain.momentum) == {"X_1", "X_2"}
    assert chain.momentum["X_2"].polynomial.shape == ("k", "k")
    assert {claim.status for claim in chain.certificate} == {"proven for all sizes"}


@pytest.mark.parametrize("inner", [euclidean, mixed])
def test_an_orthogonal_group(inner: object) -> None:
    """The Euclidean metric, false under GL, is right under O(h); the momentum is skew there."""
    rotated = derive(ROTATED, Metric("own", ROTATED, inner))  # type: ignore[arg-type]
    rotated.certificate.require()
    value = rotated.momentum["X"].polynomial
    assert -value == value.T
    assert {claim.status for claim in rotated.certificate} == {"proven for all sizes"}


def test_a_right_action_with_numeric_sizes() -> None:
    right = Symmetry(
        "right", GL(2), {"G": (4, 2), "H": (3, 2)}, lambda A, G, H: (G * A, H * A.T.inv()), lambda G, H: G * H.T
    )
    derived = derive(right, Metric("mixed", right, mixed))
    assert derived.side == "right"
    derived.certificate.require()
    assert str(derived.vertical["G"].polynomial) == "G X"


def test_low_rank_factors_with_the_inner_size_first() -> None:
    """B A with B (n, r) and A (r, m), as in adapters: a factor may be wide, and may be called A."""
    adapter = Symmetry(
        "adapter", GL("r"), {"B": ("n", "r"), "A": ("r", "m")}, lambda M, B, A: (B * M, M.inv() * A), lambda B, A: B * A
    )
    inner = Metric(
        "invariant",
        adapter,
        lambda p, a, b: Trace((p.B.T * p.B).I * a.B.T * b.B) + Trace((p.A * p.A.T).I * a.A * b.A.T),
    )
    derived = derive(adapter, inner)
    derived.certificate.require()
    assert "full row rank of A" in derived.certificate.assumptions
    assert {claim.status for claim in derived.certificate} == {"proven for all sizes"}


def test_geometries_derived_in_threads_are_the_same() -> None:
    names = ["invariant", "mixed", "third", "euclidean"] * 2

    def text(name: str) -> str:
        derived = derive_formulas(PAIR, metric(name))
        return f"{derived.acceleration['G']} {derived.derivatives[3]['H']} {derived.momentum['X']}"

    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(text, names))
    assert parallel == [text(name) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["invariant", "mixed", "third"])
def test_sympy_agrees_by_its_own_derivatives(name: str) -> None:
    """Level (f), the slow one: Trace.diff with a probe matrix."""
    derived = derive(PAIR, metric(name), levels="f")
    for claim in ("gradient", "horizontal_condition", "acceleration"):
        assert derived.certificate[claim].confirmed_by == (Level.SYMPY,)
