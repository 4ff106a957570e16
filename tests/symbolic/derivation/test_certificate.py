"""What a certificate says, in which words, and that a false claim comes with a witness that anyone can evaluate."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import sympy as sp

from quotientgeo.errors import CertificateError
from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Certificate, Level, Outcome, certify, derive
from tests.symbolic.derivation.declarations import PAIR, euclidean, formulas, geometry, gram, mixed

ROOT = Path(__file__).parents[3]
PROOFS = {Level.NORMAL_FORM, Level.COMPONENT}
CATALOGUE = ["invariant", "mixed"]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_claim_is_proven_and_confirmed_by_two_further_levels(name: str) -> None:
    certificate = geometry(name).certificate
    certificate.require()
    assert certificate.holds
    for claim in certificate:
        assert claim.status == "proven for all sizes", claim
        assert Level.NORMAL_FORM in claim.confirmed_by
        assert len(claim.confirmed_by) >= 3, claim
    assert certificate.assumptions == (
        "every inverse that occurs in a formula exists at the point; sizes with h <= m, h <= n",
        "full column rank of G, H",
    )


@pytest.mark.parametrize("name", CATALOGUE)
def test_only_levels_a_and_c_prove(name: str) -> None:
    for claim in geometry(name).certificate:
        for result in claim.levels:
            assert (result.outcome is Outcome.PROVEN) == (result.level in PROOFS)
            assert result.outcome is Outcome.TESTED or result.level in PROOFS
            assert bool(result.scope)


def test_component_proofs_reach_sizes_that_do_not_commute() -> None:
    for name in CATALOGUE:
        for claim in ("invariance", "acceleration", "momentum_conserved", "acceleration_equivariant", "taylor_2"):
            (result,) = [r for r in geometry(name).certificate[claim].levels if r.level is Level.COMPONENT]
            assert "(2, 2, 2)" in result.scope, (name, claim, result)


def test_words_of_a_status() -> None:
    derived = formulas("invariant")
    by_entries = certify(derived, "cd", claims=["gradient"])["gradient"].status
    assert by_entries.startswith("proven for sizes (n, m, h) = (1, 1, 1)")
    assert certify(derived, "bde", claims=["gradient"])["gradient"].status == "tested"
    undecided = certify(formulas("euclidean"), "a", claims=["invariance"])
    assert undecided["invariance"].status == "undecided"
    assert not undecided.holds


def test_a_record_of_float64_does_not_depend_on_the_machine() -> None:
    claim = certify(formulas("mixed"), "e", claims=["acceleration"])["acceleration"]
    (result,) = claim.levels
    assert result.measured is not None
    assert result.measured < 1e-13
    assert str(result.measured) not in json.dumps(claim.to_dict())


PROGRAM = """
import sys
from quotientgeo.catalogue.{name}.declaration import metric, symmetry
from quotientgeo.symbolic.derivation import derive
sys.stdout.write(derive(symmetry, metric, levels="abde").certificate.to_json())
"""


@pytest.mark.parametrize("name", ["neuron_rescaling_mixed", pytest.param("gl_pair_invariant", marks=pytest.mark.slow)])
def test_the_record_is_the_same_under_every_hash_seed(name: str) -> None:
    program = PROGRAM.format(name=name)
    outputs = [
        subprocess.run([sys.executable, "-c", program], env={"PYTHONHASHSEED": s}, capture_output=True, check=True, cwd=ROOT)
        for s in ("1", "2")
    ]  # fmt: skip
    first, second = (output.stdout.decode() for output in outputs)
    assert first == second
    record = json.loads(first)
    assert record["subject"] == name
    assert record["holds"] is True
    assert all(claim["status"] == "proven for all sizes" for claim in record["claims"])


def test_the_certificate_is_readable() -> None:
    certificate = geometry("invariant").certificate
    head, *lines = str(certificate).splitlines()
    assert head == "gl_pair_invariant: 23 of 23 claims hold: 23 proven for all sizes, 0 tested"
    assert len(lines) == 2 + 23  # the assumptions, and a line for each claim
    assert "acceleration: proven for all sizes (levels a, b, c, d, e)" in lines
    text = str(certificate["acceleration"])
    assert "(e) tested: (n, m, h) = (5, 6, 3), relative difference below 1e-09" in text
    assert "acceleration_G = -G (G' G)^-1 xi_G' xi_G + xi_G (G' G)^-1 G' xi_G + xi_G (G' G)^-1 xi_G' G" in text


def test_long_formulas_are_whole_in_the_record_only() -> None:
    claim = geometry("mixed").certificate["taylor_4"]
    assert len(claim.formula) > 10_000
    assert len(str(claim)) < 1_000
    assert f"... ({len(claim.formula)} characters, whole in to_json())" in str(claim)
    assert claim.to_dict()["formula"] == claim.formula


def test_what_is_less_than_proven_is_named_first_and_told_in_full() -> None:
    derived = formulas("euclidean")
    certificate = certify(derived, "abd", ["metric_symmetric", "invariance"])
    assert str(certificate).splitlines()[0] == (
        "gl_pair_euclidean: 1 of 2 claims hold: 1 proven for all sizes, 0 tested; FALSE: invariance"
    )
    assert f"witness {certificate['invariance'].witness}" in str(certificate)
    assert certify(derived, "cd", ["gradient"]).summary == (
        "1 of 1 claims hold: 0 proven for all sizes, 1 for some sizes, 0 tested"
    )
    assert certify(derived, "bd", ["gradient"]).summary.endswith("1 tested; TESTED, NOT PROVEN: gradient")
    assert certify(derived, "a", ["invariance"]).summary.startswith("0 of 1 claims hold")


def test_a_geometry_without_certificate_is_refused() -> None:
    with pytest.raises(CertificateError, match="carries no certificate"):
        formulas("mixed").certificate.require()
    with pytest.raises(KeyError, match="no claim 'nonsense'"):
        geometry("mixed").certificate["nonsense"]
    assert not Certificate().holds


# false claims


def _values(witness: dict[str, list[list[str]]]) -> dict[str, sp.Matrix]:
    return {name: sp.Matrix([[sp.Rational(x) for x in row] for row in rows]) for name, rows in witness.items()}


def test_the_euclidean_metric_under_gl_is_refuted_by_a_witness() -> None:
    """Evaluated here with explicit matrices: both sides are what the witness says, and they differ."""
    refuted = geometry("euclidean")
    claim = refuted.certificate["invariance"]
    assert claim.status == "false"
    assert {r.level for r in claim.levels if r.outcome is Outcome.FALSE} == set("bcde")
    assert claim.witness is not None
    v = _values(claim.witness.values)

    def inner(a: sp.Matrix, b: sp.Matrix, c: sp.Matrix, d: sp.Matrix) -> sp.Rational:
        return (a.T * b).trace() + (c.T * d).trace()

    before = inner(v["xi_G"], v["eta_G"], v["xi_H"], v["eta_H"])
    a = v["A"]
    after = inner(v["xi_G"] * a.inv(), v["eta_G"] * a.inv(), v["xi_H"] * a.T, v["eta_H"] * a.T)
    assert (str(after), str(before)) == (claim.witness.left, claim.witness.right)
    assert after != before
    with pytest.raises(CertificateError, match=r"gl_pair_euclidean: 2 claim\(s\) do not hold") as error:
        refuted.certificate.require()
    assert f"witness {claim.witness}" in str(error.value)


def test_equivariance_alone_does_not_show_invariance() -> None:
    """The Euclidean metric has straight geodesics, which every linear action maps to straight ones."""
    certificate = geometry("euclidean").certificate
    assert certificate["acceleration_equivariant"].status == "proven for all sizes"
    assert certificate["invariance"].status == "false"
    assert certificate["momentum_conserved"].status == "false"


def test_a_wrong_pairing_is_refuted() -> None:
    """H A in place of H A': no action of one side, and G H' is not preserved."""
    wrong = Symmetry(
        "wrong", GL("h"), {"G": ("n", "h"), "H": ("m", "h")}, lambda A, G, H: (G * A.inv(), H * A), lambda G, H: G * H.T
    )
    certificate = derive(wrong, Metric("mixed", wrong, mixed), levels="abd").certificate
    for name in ("action_composition", "preserved", "vertical_in_kernel", "invariance"):
        assert certificate[name].status == "false"
        assert certificate[name].witness is not None
    preserved = certificate["preserved"].witness
    assert preserved is not None
    v = _values(preserved.values)
    left = v["G"] * v["A"].inv() * (v["H"] * v["A"]).T
    assert [[str(x) for x in row] for row in left.tolist()] == preserved.left
    assert left != v["G"] * v["H"].T
    with pytest.raises(CertificateError, match="and also: invariance, momentum_conserved"):
        certificate.require()


def test_a_metric_that_is_not_symmetric_is_refuted() -> None:
    lopsided = Metric(
        "lopsided", PAIR, lambda p, a, b: euclidean(p, a, b) + sp.Trace(p.G.T * a.G * p.G.T * b.G * (gram(p.G)))
    )
    certificate = certify(dataclasses.replace(formulas("mixed"), inner=_inner_of(lopsided)), "bd", ["metric_symmetric"])
    assert certificate["metric_symmetric"].status == "false"


def _inner_of(other: Metric) -> object:
    alphabet = formulas("mixed").alphabet
    expression, value = other.read_inner(alphabet)
    return dataclasses.replace(formulas("mixed").inner, expression=expression, polynomial=value)


def test_an_inverse_that_never_exists_is_said_to_be_missing() -> None:
    """(G G')^-1 for a tall G: the algebra alone would be content."""
    tall = Symmetry("tall", GL(2), {"G": (3, 2), "H": ("m", 2)}, lambda A, G, H: (G * A.inv(), H * A.T))
    wide = Metric(
        "wide", tall, lambda p, a, b: sp.Trace((p.G * p.G.T).I * a.G * b.G.T) + sp.Trace((p.H * p.H.T).I * a.H * b.H.T)
    )
    certificate = derive(tall, wide, levels="abd").certificate
    assert certificate["metric_positive_definite"].status == "false"
    with pytest.raises(CertificateError, match=r"the metric is undefined: \(G G'\)\^-1 does not exist at these sizes"):
        certificate.require()
