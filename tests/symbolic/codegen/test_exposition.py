"""Derivations: formulas come from the engine, certificates are quoted in their own words, the LaTeX is well formed."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path

import pytest
import sympy as sp

from quotientgeo.errors import CertificateError
from quotientgeo.groups import GL, Translation
from quotientgeo.symbolic.codegen.exposition import derivation_page
from quotientgeo.symbolic.codegen.exposition.latex import visible
from quotientgeo.symbolic.codegen.module import module_source
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import (
    Certificate,
    Geometry,
    Level,
    LevelResult,
    Outcome,
    certify,
    derive,
    derive_formulas,
)
from tests.symbolic.codegen.test_generate import _chain, pair
from tests.symbolic.derivation.declarations import mixed as mixed_inner
from tests.symbolic.derivation.test_metric import damped as damped_inner

ROOT = Path(__file__).parents[3]
STATUSES = ("proven for all sizes", "proven for sizes", "tested")


@pytest.fixture(scope="module", params=["invariant", "mixed", "chain"])
def geometry(request: pytest.FixtureRequest) -> Geometry:
    if request.param == "chain":
        return _chain()
    declared = import_module(f"quotientgeo.catalogue.gl_pair_{request.param}.declaration")
    return derive(declared.symmetry, declared.metric, levels="ab")


def blocks(page: str) -> list[str]:
    return re.findall(r"```math\n(.*?)\n```", page, re.S)


def test_math_is_well_formed(geometry: Geometry) -> None:
    page = derivation_page(geometry, "a test")
    assert not re.search(r"\{\{(?![\w\\])|\{%|%\}|None|Undefined", page)
    displayed = blocks(page)
    assert len(displayed) >= 18
    for block in displayed:
        for left, right in (("{", "}"), ("(", ")"), (r"\begin{aligned}", r"\end{aligned}")):
            assert block.count(left) == block.count(right), block
        for left, right in zip(
            re.findall(r"\\(bigg?|Bigg?)l", block), re.findall(r"\\(bigg?|Bigg?)r", block), strict=True
        ):
            assert {left, right} <= {"big", "Big", "bigg", "Bigg"}
        assert r"\operatorname" not in block  # GitHub refuses it
        for row in block.split("\\\\"):
            assert visible(row) <= 110, row
    inline = re.sub(r"```.*?```|`[^`]*`", "", page, flags=re.S)
    assert inline.count("$") % 2 == 0
    for formula in re.findall(r"\$([^$]+)\$", inline):
        assert formula.count("{") == formula.count("}")
        assert not re.search(r"\\[,;{}\\]", formula), formula  # Markdown would take the backslash away


def test_the_certificate_is_quoted(geometry: Geometry) -> None:
    page = derivation_page(geometry, "a test")
    table = page.partition("## Certificate")[2]
    for claim in geometry.certificate:
        row = next(line for line in table.splitlines() if line.startswith(f"| `{claim.name}` |"))
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 5
        assert cells[2] == claim.status
        assert cells[2].startswith(STATUSES)
        assert cells[3] == ", ".join(level.value for level in claim.confirmed_by)
    assert "<xi" not in table  # an angle bracket would be taken for HTML


def test_the_formulas_of_the_paper_appear() -> None:
    """Equations (9)-(12) in the page's spelling; the page itself is written by the engine."""
    invariant = (ROOT / "derivations" / "gl_pair_invariant.md").read_text(encoding="utf-8")
    mixed = (ROOT / "derivations" / "gl_pair_mixed.md").read_text(encoding="utf-8")
    assert r"\dot{\xi}_{G} &= \xi_{G} P^{-1} \dot{P} - G P^{-1} \xi_{G}^{\top} \xi_{G}" in invariant
    assert r"\mathrm{grad}_{G} &= \partial_{G} P \\" in invariant
    assert r"Q^{-1} \xi_{H}^{\top} H &= G^{\top} \xi_{G} P^{-1}" in invariant
    assert r"\dot{\xi}_{G} &= G \xi_{H}^{\top} \xi_{H} Q^{-1} - \xi_{G} \dot{Q} Q^{-1}" in mixed
    assert r"\mathrm{grad}_{G} &= \partial_{G} Q^{-1} \\" in mixed
    assert r"P \xi_{H}^{\top} H &= G^{\top} \xi_{G} Q" in mixed
    assert r"A Q \underbrace{A^{\top} A^{-\top}}_{I} \xi_{G}^{\top} \eta_{G} A^{-1}" in mixed


def test_squares_and_the_free_action_are_shown(geometry: Geometry) -> None:
    """One square per term of the metric, one step per group, and the theorem with what of it is a claim."""
    page = derivation_page(geometry, "a test")
    squares = next(block for block in blocks(page) if r"\langle \xi, \xi \rangle &=" in block)
    assert squares.count(r"\rVert^2") == squares.count(r"\lVert") == len(geometry.inner.polynomial)
    steps = [block for block in blocks(page) if r"\Longrightarrow \quad" in block]
    assert [block.count(r"\Longrightarrow") for block in steps] == [len(geometry.names.elements)] * 2
    theorem = page.partition("**Geodesics of the quotient.**")[2].partition("## 10.")[0]
    for claim in ("action_identity", "action_composition", "action_free", "invariance", "metric_positive_definite"):
        assert f"`{claim}`: {geometry.certificate[claim].status}" in theorem
    assert "O'Neill" in theorem
    assert "assumed" not in theorem


def _as_if_tested(geometry: Geometry) -> Geometry:
    """The geometry with a certificate in which every claim was tested, and none proven."""
    tested = (LevelResult(Level.RATIONAL, Outcome.TESTED),)
    claims = tuple(dataclasses.replace(c, levels=tested, witness=None) for c in certify(geometry, "a"))
    return dataclasses.replace(geometry, certificate=Certificate(geometry.name, (), claims))


def test_an_action_that_no_formula_shows_to_be_free_is_not_said_to_be() -> None:
    both = Symmetry("both", GL("h"), {"V": ("h", "h"), "W": ("h", "h")}, lambda A, V, W: (A * V * A.T, A * W * A.inv()))
    flat = Metric("flat", both, lambda p, a, b: sp.Trace(a.V.T * b.V) + sp.Trace(a.W.T * b.W))
    page = derivation_page(_as_if_tested(derive_formulas(both, flat)), "a test", links=False)
    assert "no formula shows by itself; it is tested" in page
    assert "and that the action is proper, is *assumed*" in page
    assert "| freely | to first order `action_free`: tested; beyond it *assumed* |" in page
    assert "| properly | *assumed* |" in page


def test_what_the_action_keeps_is_said_of_what_its_form_shows(geometry: Geometry) -> None:
    """A translated vector may become zero; full ranks stay where invertible matrices multiply."""
    page = derivation_page(geometry, "a test")
    assert "it puts that between invertible elements of the group" in page
    assert "points stay in $M$ by section 3" in page
    symmetry = Symmetry("shift", Translation("n"), {"b": ("n", 1)}, lambda t, b: (b + t,))
    metric = Metric("own", symmetry, lambda p, a, b: sp.Trace(p.b.T * p.b) * sp.Trace(a.b.T * b.b))
    other = derivation_page(_as_if_tested(derive_formulas(symmetry, metric)), "a test", links=False)
    assert "**The action keeps the assumptions of section 1**: this is *assumed*, its form does not show it." in other
    assert "that points stay in $M$ is *assumed*" in other


def test_a_metric_that_is_no_visible_sum_of_squares_is_said_to_be_tested() -> None:
    symmetry = pair()
    damped = Metric("damped", symmetry, damped_inner)
    declared = derive_formulas(symmetry, Metric("mixed", symmetry, mixed_inner))
    expression, value = damped.read_inner(declared.alphabet)
    inner = dataclasses.replace(declared.inner, expression=expression, polynomial=value)
    page = derivation_page(_as_if_tested(dataclasses.replace(declared, inner=inner)), "a test", links=False)
    assert "**That it is positive definite is tested, not proven**" in page
    assert "It is positive definite" not in page


def test_code_says_what_is_not_proven() -> None:
    declared = derive_formulas(symmetry := pair(), Metric("mixed", symmetry, mixed_inner))
    source = module_source(_as_if_tested(declared), "a test")
    assert "\nNOT PROVEN FOR ALL SIZES: action_identity (tested)," in source
    assert "metric_positive_definite (tested). See the certificate." in " ".join(source.split())
    proven = dataclasses.replace(declared, certificate=certify(declared, "a"))
    assert "NOT PROVEN" not in module_source(proven, "a test")


def test_the_page_follows_the_declaration() -> None:
    """Another action, other names: nothing of the pair is left in the page."""
    symmetry = Symmetry("scale", GL("k"), {"U": ("d", "k")}, lambda S, U: (U * S.I,))
    metric = Metric("inv", symmetry, lambda p, a, b: 3 * sp.Trace((p.U.T * p.U).I * a.U.T * b.U))
    page = derivation_page(derive(symmetry, metric, levels="a"), "a test", links=False)
    assert r"S \cdot U = U S^{-1}" in page
    assert r"A point is a matrix $U \in \mathbb{R}^{d \times k}$. Its product with itself" in page
    assert r"3 \mathrm{tr}\bigl( P^{-1} \xi_{U}^{\top} \eta_{U} \bigr)" in page
    assert "Why it is a symmetry" not in page
    for letter in ("G", "H", "Q"):
        assert not re.search(rf"(?<![\w\\]){letter}(?!\w)", "".join(blocks(page)))
    assert "](../" not in page


def page_of(name: str) -> str:
    declared = import_module(f"quotientgeo.catalogue.{name}.declaration")
    return derivation_page(derive(declared.symmetry, declared.metric, levels="a"), "a test", links=False)


def test_vertical_vectors_have_a_name_that_no_factor_has() -> None:
    """A factor is called V: the vertical vector is nu, on the page, in the certificate and in docstrings."""
    declared = import_module("quotientgeo.catalogue.layer_rescaling_invariant.declaration")
    geometry = derive(declared.symmetry, declared.metric, levels="a")
    page = derivation_page(geometry, "a test", links=False)
    for text in (
        r"\langle \xi, \nu \rangle",
        r"\nu_{V} &= - V X",
        r"\xi = \nu + \xi^{\mathrm{hor}}",
        r"nu\_X = 0 for X = 0",
    ):
        assert text in page
    assert not re.search(r"V\\?_(X|\{V\})|\[V\]|\\xi, V\b", page)
    assert "nu_V = -V X" in module_source(geometry, "a test")
    assert r"\langle \xi, V \rangle" in page_of("gl_pair_mixed")


def test_repeated_letters_are_powers() -> None:
    """Also where nothing is cancelled yet; a letter that meets its inverse stays under the brace."""
    page = page_of("layer_rescaling_mixed")
    assert r"\mathrm{tr}\bigl( A^{2} \mathrm{diag}\bigl( P \bigr) A^{-2}" in page
    assert not re.search(r"(?<![\w}])A A(?![\w^])|A\^\{-1\} A\^\{-1\}", page)


def test_columns_have_lengths() -> None:
    page = page_of("neuron_rescaling_mixed")
    assert r"\bigl( \xi_{g}^{\top} \eta_{g} \bigr) \lVert h \rVert^{2}" in page
    assert r"\mathrm{tr}\bigl( g" not in page
    assert "squared lengths are not, so the sum vanishes only where every term does" in page


def test_nothing_is_said_to_cancel_where_nothing_is_left() -> None:
    page = page_of("key_bias_flat")
    assert "the 0 words that appear" not in page
    assert "= 0 = 0" not in page
    assert "**Order 3** is zero (proven for all sizes):" in page
    assert "what appears here of it is zero, and nothing is left, so $J$ is constant" in page


def test_no_page_tells_a_falsehood() -> None:
    symmetry = pair()
    flat = Metric("flat", symmetry, lambda p, a, b: sp.Trace(a.G.T * b.G) + sp.Trace(a.H.T * b.H))
    with pytest.raises(CertificateError, match="invariance: false"):
        derivation_page(derive(symmetry, flat, levels="ab"), "a test")


def test_coupled_equations_are_shown_in_one_letter_and_solved_together() -> None:
    declared = import_module("quotientgeo.catalogue.value_bias_flat.declaration")
    page = derivation_page(derive(declared.symmetry, declared.metric, levels="ab"), "a test")
    section = page.split("## 8. The gradient")[1].split("## 9.")[0]
    _, equations, solution = blocks(section)
    assert r"\Longrightarrow" not in section
    assert r"\xi" not in equations + solution
    assert equations.count(r"\mathrm{grad}") == 11
    assert re.findall(r"(\\mathrm\{grad\}_\{\w\}) &=", solution) == [rf"\mathrm{{grad}}_{{{f}}}" for f in "Wbc"]


def test_a_number_before_a_moved_sum_is_multiplied_with_all_of_it() -> None:
    """tr(W'W) (a + b) under a -> a + T, b -> b - T: the page puts the moved sum in brackets, and does not stumble."""
    symmetry = Symmetry(
        "shifted",
        Translation("n"),
        {"a": ("n", 1), "b": ("n", 1), "W": ("m", "d")},
        lambda T, a, b, W: (a + T, b - T, W),
        lambda a, b, W: sp.Trace(W.T * W) * (a + b) - 2 * a - 2 * b,
    )
    flat = Metric("flat", symmetry, lambda p, x, y: sum((sp.Trace(x[f].T * y[f]) for f in "abW"), sp.S.Zero))
    page = derivation_page(derive(symmetry, flat, levels="ab"), "a test")
    (row,) = (line for line in page.splitlines() if r"\longmapsto" in line and r"\mathrm{tr}\bigl( P \bigr)" in line)
    assert r"\mathrm{tr}\bigl( P \bigr) \bigl( T + a \bigr)" in row
    assert r"- 2 \bigl( T + a \bigr)" in row


def test_a_long_metric_stands_in_rows() -> None:
    declared = import_module("quotientgeo.catalogue.value_bias_flat.declaration")
    page = derivation_page(derive(declared.symmetry, declared.metric, levels="a"), "a test")
    metric = page.split("## 4. The metric")[1].split("```")[1]
    assert all(visible(row) < 90 for row in metric.splitlines())
