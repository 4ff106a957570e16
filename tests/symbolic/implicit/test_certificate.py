"""What is proven of implicit metrics, and that nothing false passes: declarations, formulas, generated code."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sympy import Identity, Trace

import quotientgeo as qg
from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.algebra import Polynomial, split_scalars
from quotientgeo.symbolic.codegen.staged_proof import check_staged
from quotientgeo.symbolic.codegen.systems import System, metric_systems
from quotientgeo.symbolic.declaration import Metric
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula, certify, derive
from quotientgeo.symbolic.files import certificate_json, check
from tests.symbolic.derivation.declarations import PAIR, gram, mixed
from tests.symbolic.derivation.mutants import KINDS, _mutate_matrix
from tests.symbolic.implicit.declarations import FOLDED, METRICS, TURNED, formulas, geometry, source

SOLVED = ("gradient", "acceleration", "energy_conserved", "acceleration_equivariant", "taylor_3", "taylor_4")


@pytest.mark.parametrize("name", METRICS)
def test_every_claim_is_proven_for_all_sizes_and_tested_by_solving(name: str) -> None:
    found = formulas(name)
    certificate = certify(found, "abde")
    assert found.equations is not None
    assert not found.gradient
    assert {claim.status for claim in certificate} == {"proven for all sizes"}
    for claim in SOLVED:
        levels = {result.level.value: result for result in certificate[claim].levels}
        assert ", said of " in levels["a"].residual
        assert {level: result.outcome.value for level, result in levels.items()} == {
            "a": "proven",
            **dict.fromkeys("bde", "tested"),
        }


def test_component_proofs_take_the_weak_form() -> None:
    claim = certify(formulas("turned"), "c", ["acceleration"])["acceleration"]
    assert claim.status.startswith("proven for sizes (n, h) = ")
    assert "said of F = M(x'')" in claim.levels[0].residual


# what is recognised


def solvers(name: str) -> list[str]:
    return [
        solver.name if not isinstance(solver, System) else f"{solver.solver} {'two terms' if solver.sylvester() else ''}".strip()
        for solver in metric_systems(formulas(name))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("turned", ["_raised two terms"]),
        ("weighted", ["_raised two terms"]),
        ("folded", ["_raised"]),
        ("scaled", ["_raised"]),
        ("pair", ["_raised_G two terms", "_raised_H"]),
    ],
)
def test_factors_are_solved_apart_where_the_metric_does_not_couple_them(name: str, expected: list[str]) -> None:
    assert solvers(name) == expected


def test_the_weight_that_is_certainly_definite_is_factored() -> None:
    """G Q G' has no inverse where G is tall, however it is written; I and P have one."""
    (system, _) = metric_systems(formulas("pair"))
    assert isinstance(system, System)
    found = system.sylvester()
    assert found is not None
    assert (str(found.left.fixed), str(found.right.fixed), found.right.inverted) == ("I", "G' G", True)
    (system,) = metric_systems(formulas("weighted"))
    assert isinstance(system, System)
    found = system.sylvester()
    assert found is not None
    assert str(found.left.fixed) == "eps + G G'"


# what is false


def test_an_indefinite_two_sided_metric_is_refused_with_a_witness() -> None:
    def inner(p: Any, a: Any, b: Any) -> Any:
        G = p.G
        plus = Trace((Identity(G.shape[1]) + gram(G)) * a.G.T * b.G)
        return plus - 3 * Trace(a.G.T * G * G.T * b.G)

    with pytest.raises(
        CertificateError, match=r"turned_bad: the metric is not positive definite: .*; witness at n = 3, h = 2"
    ):
        derive(TURNED, Metric("bad", TURNED, inner))


def test_an_indefinite_coupled_metric_is_refused_with_a_witness() -> None:
    def inner(p: Any, a: Any, b: Any) -> Any:
        cross = Trace(p.W.T * a.o * b.b.T) + Trace(p.W.T * b.o * a.b.T)
        two_sided = Trace(a.W.T * b.W * gram(p.W)) + Trace(a.W.T * p.W * p.W.T * b.W)
        return Trace(a.o.T * b.o) + Trace(a.b.T * b.b) + two_sided + cross

    with pytest.raises(CertificateError, match=r"folded_bad: the metric is not positive definite: .*; witness at"):
        derive(FOLDED, Metric("bad", FOLDED, inner))


def test_an_implicit_metric_that_is_not_invariant_is_refuted_with_a_witness() -> None:
    def inner(p: Any, a: Any, b: Any) -> Any:
        return mixed(p, a, b) + Trace(a.G.T * p.G * p.G.T * b.G)

    found = derive(PAIR, Metric("bad", PAIR, inner), levels="abd")
    assert found.equations is not None
    assert found.certificate["invariance"].status == "false"
    assert found.certificate["invariance"].witness is not None
    assert found.certificate["momentum_conserved"].status == "false"
    assert found.certificate["momentum_conserved"].witness is not None
    assert found.certificate["acceleration"].status == "proven for all sizes"
    with pytest.raises(CertificateError, match="do not hold"):
        found.module()


# mutants of formulas

ABOUT = {
    "lowered": ("gradient", "acceleration"),
    "christoffel": ("christoffel_symmetric", "christoffel_quadratic", "metric_compatible"),
    2: ("acceleration", "energy_conserved", "christoffel_quadratic"),
    3: ("taylor_3",),
    4: ("taylor_4",),
}


def _changed(formula: MatrixFormula, kind: str, rng: random.Random) -> Polynomial | None:
    """A term with another coefficient, or without some; words of matrices only may also be taken to pieces."""
    value = formula.polynomial
    factor = {"sign": -1, "factor 1.01": Fraction(101, 100), "dropped term": 0}.get(kind)
    if factor is None:
        numbers = any(split_scalars(word)[0] for word in value.terms)
        return None if numbers else _mutate_matrix(value, kind, rng, formula.arguments)
    word = rng.choice(sorted(value.terms, key=str))
    terms = {**value.terms, word: value.terms[word] * factor}
    return Polynomial(value.alphabet, {w: c for w, c in terms.items() if c}, value.shape)


def formula_mutants(found: Geometry) -> Iterator[tuple[str, tuple[str, ...], Geometry]]:
    equations = found.equations
    assert equations is not None
    rng = random.Random(1)
    groups = {"lowered": equations.lowered, "christoffel": equations.christoffel, **equations.forces}
    for about, blocks in groups.items():
        for factor, formula in blocks.items():
            for kind in KINDS:
                changed = _changed(formula, kind, rng)
                if changed is None or changed == formula.polynomial:
                    continue
                wrong = {**blocks, factor: MatrixFormula.derived(formula.name, formula.arguments, changed)}
                if isinstance(about, int):
                    new = dataclasses.replace(equations, forces={**equations.forces, about: wrong})
                else:
                    new = dataclasses.replace(equations, **{about: wrong})
                yield f"{formula.name} {kind}", ABOUT[about], dataclasses.replace(found, equations=new)


@pytest.mark.parametrize("name", METRICS)
def test_mutants_of_every_equation_are_rejected(name: str) -> None:
    count = 0
    for label, claims, mutant in formula_mutants(formulas(name)):
        found = (certify(mutant, "b", [claim])[claim].status for claim in claims)
        assert any(status == "false" for status in found), label  # the first that is ends it
        count += 1
    assert count >= 12


@pytest.mark.slow
def test_sympy_rejects_mutants_too() -> None:
    claims, rejected = ("gradient", "acceleration"), 0
    assert all(claim.status == "tested" for claim in certify(formulas("pair"), "f", claims))
    for label, _, mutant in formula_mutants(formulas("pair")):
        if label in ("lowered_G sign", "force_2_H sign", "force_2_G factor 1.01"):
            assert any(claim.status == "false" for claim in certify(mutant, "f", claims)), label
            rejected += 1
    assert rejected == 3


# mutants of generated code

MUTANTS = {
    "taylor coefficient": (r"x3_(\w) / 6", r"x3_\1 / 5"),
    "sign of an end": (r"end_(\w+) = (\w+) \+ ", r"end_\1 = \2 - "),
    "tangent for gradient": (r"return gradient\(G, \*_force_2\(G, xi_G\)\)", "return gradient(G, xi_G)"),
    "stale acceleration": (r"= _force_3\((.*)x2_(\w)", r"= _force_3(\1xi_\2"),
    "weights of the sum": (r"weights = 1 \+ scale_l", "weights = 1 - scale_l"),
    "one correction less": (r"for _ in range\(2\):\n(\s+)(rest|change)", r"for _ in range(1):\n\1\2"),
    "transposed basis": (r"/ weights\) @ basis_r\.mT", "/ weights) @ basis_r"),
    "sign of the correction": (r"rest = (\w+) - ", r"rest = \1 + "),
    "diagonal not scaled back": (r"weights = scale \* torch", "weights = torch"),
    "units": (r"units / units\.square", "2 * units / units.square"),
    "no direction": (r"turn \* b for", "0.0 * b for"),
    "backward of another operator": (r"\*ctx\.inside\(\*slopes\)\)", "*(2 * s for s in slopes))"),
    "moving stands still": (r"(def moving.*\n\s+return lowered\()(\w+)", r"\1\2.detach()"),
}


def refused(source: str, found: Geometry) -> bool:
    try:
        check(source, found)
    except CertificateError:
        return True
    return False


@pytest.mark.parametrize("name", ["turned", "folded", "scaled", "pair"])
def test_the_code_passes_its_own_checks(name: str) -> None:
    assert not refused(source(name), geometry(name))


@pytest.mark.parametrize("label", MUTANTS)
def test_wrong_code_is_refused(label: str) -> None:
    pattern, replacement = MUTANTS[label]
    tried = 0
    for name in ("turned", "folded", "scaled", "pair"):
        wrong = re.sub(pattern, replacement, source(name))
        if wrong != source(name):
            assert refused(wrong, geometry(name)), name
            tried += 1
    assert tried


def test_a_gradient_that_swaps_its_parts_is_refused() -> None:
    wrong = source("pair").replace("return grad_G, grad_H", "return grad_H, grad_G")
    with pytest.raises(CertificateError, match="generated gradient returns"):
        check_staged(wrong, geometry("pair"))


# files


@pytest.mark.parametrize("name", ["pair", "folded", "weighted"])
def test_files_say_what_is_solved_at_run_time(name: str, tmp_path: Path) -> None:
    found = geometry(name)
    for folder in ("one", "two"):
        qg.generate(found, tmp_path / folder)
    for file in ("generated.py", "certificate.json", "derivation.md"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    record = json.loads((tmp_path / "one" / "certificate.json").read_text())["generated"]
    assert "gradient" in record["method"]
    assert "tested" in record["method"]
    assert record["functions"]["gradient"].startswith(
        "proven for all sizes, up to the solution of lowered(xi) = y; tested"
    )
    assert record["functions"]["taylor_4"] == "proven for all sizes, up to the solution of lowered(xi) = y"
    page = (tmp_path / "one" / "derivation.md").read_text()
    assert "it is solved for at run time**, by the generated `gradient`" in page
    assert "x^{(k)\\,\\flat} = F" in page
    expected = {
        "pair": "is of Sylvester type, with two terms",
        "folded": "are coupled and solved as one system",
        "weighted": r"The metric has the positive parameter $\varepsilon$; everything holds for all its values.",
    }[name]
    assert expected in page


def test_closed_forms_say_nothing_of_a_solve() -> None:
    found = geometry("family")
    text = source("family")
    record = json.loads(certificate_json(found, text, check(text, found)))["generated"]
    assert record["functions"]["gradient"] == "proven for all sizes"
    assert record["functions"]["taylor_4"] == "proven for all sizes"
    assert "solves at run time" not in text.split("def ")[0].replace("horizontal", "")
