"""False declarations: the error, a message that names them and says what to do, a witness that anyone can evaluate."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy as sp
import torch
from sympy import MatrixSymbol, Trace
from torch import Tensor
from torch.func import jvp
from typer.testing import CliRunner

from quotientgeo.cli.main import app
from quotientgeo.errors import CertificateError, DeclarationError
from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Witness, certify, derive, derive_formulas
from tests.mutation.numbers import value
from tests.symbolic.false_declarations import FALSE, PAIR, euclidean, gram, mixed, moved, pair, product

Point = dict[str, Tensor]
H_SIZE = sp.Symbol("h", integer=True, positive=True)


class Evaluated:
    """A witness in float64, and both sides of its claim worked out again from the declared expressions by torch alone."""

    def __init__(self, metric: Metric, witness: Witness) -> None:
        symmetry = metric.symmetry
        self.names, self.sizes = symmetry.names, witness.sizes
        self.letters = {name: numbers(rows) for name, rows in witness.values.items()}
        self.point = {f: self.letters[f] for f in symmetry.factors}
        self.inputs = {name: self.letters[name] for name in symmetry.inputs if name in self.letters}
        self.moved = {f: expression for f, (expression, _) in symmetry.read_action(symmetry.alphabet()).items()}
        self.preserved = [expression for expression, _ in symmetry.read_preserved(symmetry.alphabet())]
        self.inner_ = metric.read_inner(symmetry.alphabet())[0]
        self.laws = [group.law for group in symmetry.groups]

    def element(self, rename: Callable[[str], str] = str) -> Point:
        return {e: self.letters[rename(e)] for e in self.names.elements}

    def neutral(self) -> Point:
        shapes = {e: self.letters[e].shape for e in self.names.elements if e in self.letters}
        size = self.sizes.get("h", self.sizes.get("d", 1))
        return {e: torch.eye(shapes.get(e, (size, size))[0], dtype=torch.float64) for e in self.names.elements}

    def act(self, element: Point, point: Point) -> Point:
        return {f: value(e, {**element, **point}, self.sizes) for f, e in self.moved.items()}

    def inner(self, point: Point, xi: Point, eta: Point) -> Tensor:
        tangents = {self.names.tangent(f): x for f, x in xi.items()}
        tangents |= {self.names.second_tangent(f): x for f, x in eta.items()}
        return value(self.inner_, {**point, **tangents}, self.sizes)

    def tangent(self, rename: Callable[[str], str]) -> Point:
        return {f: self.letters[rename(f)] for f in self.point}

    def sides(self, claim: str) -> tuple[Any, Any]:
        p = self.point
        match claim:
            case "action_identity":
                return self.act(self.neutral(), p), p
            case "action_composition":
                a, b = self.element(), self.element(self.names.other_element)
                return self.act(a, self.act(b, p)), self.act({e: a[e] @ b[e] for e in a}, p)
            case "preserved":
                there = self.act(self.element(), p)
                return [
                    {str(i): value(e, {**q, **self.inputs}, self.sizes) for i, e in enumerate(self.preserved)}
                    for q in (there, p)
                ]  # type: ignore[return-value]
            case "metric_symmetric":
                xi, eta = self.tangent(self.names.tangent), self.tangent(self.names.second_tangent)
                return {"": self.inner(p, xi, eta)}, {"": self.inner(p, eta, xi)}
            case "invariance":
                xi, eta = self.tangent(self.names.tangent), self.tangent(self.names.second_tangent)
                push = [jvp(lambda q: self.act(self.element(), q), (p,), (t,))[1] for t in (xi, eta)]
                return {"": self.inner(self.act(self.element(), p), *push)}, {"": self.inner(p, xi, eta)}
        raise KeyError(claim)


def numbers(rows: Any) -> Tensor:
    if isinstance(rows, str):
        return torch.tensor(float(Fraction(rows)), dtype=torch.float64)
    return torch.tensor([[float(Fraction(a)) for a in row] for row in rows], dtype=torch.float64)


def test_there_are_enough() -> None:
    assert len(FALSE) >= 20


@pytest.mark.parametrize("name", FALSE)
def test_a_false_claim_is_refuted_by_a_witness_that_holds(name: str) -> None:
    claim_name, declare = FALSE[name]
    metric = declare()
    certificate = certify(derive_formulas_or_declared(metric), "abe", claims=(claim_name,))
    claim = certificate[claim_name]
    assert claim.status == "false"
    assert claim.witness is not None
    check_witness(metric, claim_name, claim.witness)
    text = str(claim)
    assert claim.statement in text
    assert "witness at " in text
    assert f"what to do: {claim.advice}" in text
    assert len(claim.advice) > 20


@pytest.mark.parametrize("name", FALSE)
def test_the_error_names_the_declaration_and_the_claim(name: str) -> None:
    claim_name, declare = FALSE[name]
    metric = declare()
    with pytest.raises(CertificateError) as caught:
        derive(
            metric.symmetry, metric, levels="b" if claim_name != "metric_positive_definite" else "ae"
        ).certificate.require()
    text = str(caught.value)
    assert text.startswith(f"{metric.symmetry.name}_own: ")
    assert claim_name in text or claim_name.removeprefix("metric_").replace("_", " ") in text
    assert re.search(r"witness at \w+ = \d", text)
    assert "what to do" in text


def derive_formulas_or_declared(metric: Metric) -> Any:
    """The geometry; where the equations have no solution because the metric is none, what was declared."""
    from quotientgeo.symbolic.derivation import pipeline

    try:
        return derive_formulas(metric.symmetry, metric)
    except CertificateError:
        return pipeline._declared(metric.symmetry, metric)


def check_witness(metric: Metric, claim: str, witness: Witness) -> None:
    found = Evaluated(metric, witness)
    if claim == "metric_positive_definite":
        xi = found.tangent(found.names.tangent)
        assert any(x.abs().max() > 0 for x in xi.values())
        square = found.inner(found.point, xi, xi)
        assert square < 1e-12
        assert witness.left == f"<xi, xi> = {witness.left.split(' = ')[1]}"
        assert abs(square - numbers(witness.left.split(" = ")[1])) < 1e-9 * (1 + abs(square))
        return
    if claim == "action_free":
        algebra = dict(zip(found.names.elements, (found.letters[x] for x in found.names.algebra), strict=True))
        assert any(x.abs().max() > 0 for x in algebra.values())
        one = {e: torch.eye(len(x), dtype=torch.float64) for e, x in algebra.items()}
        vertical = jvp(lambda element: found.act(element, found.point), (one,), (algebra,))[1]
        assert all(v.abs().max() < 1e-12 for v in vertical.values())
        return
    for element, group in zip(metric.symmetry.names.elements, metric.symmetry.groups, strict=True):
        if element in found.letters:
            assert bool(group.contains(found.letters[element])), "the witness's element is none of the group"  # type: ignore[attr-defined]
    left, right = found.sides(claim)
    place = witness.place if witness.place in left else next(iter(left))
    if witness.place.startswith("preserved_"):
        place = str(int(witness.place.removeprefix("preserved_")) - 1)
    for side, said in ((left[place], witness.left), (right[place], witness.right)):
        assert (side.squeeze() - numbers(said).squeeze()).abs().max() < 1e-9 * (1 + side.abs().max())
    assert (left[place] - right[place]).abs().max() > 1e-3


def declare(**changes: Any) -> Symmetry:
    given = {"name": "pair", "group": GL("h"), "factors": PAIR, "action": moved, "preserves": product}
    return Symmetry(**{**given, **changes})


c, B = sp.Symbol("c"), MatrixSymbol("B", H_SIZE, H_SIZE)
REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "plain symbols, Christoffel trap": (
        lambda: pair(lambda p, a, b: (1 + c**2) * Trace(a.G.T * b.G) + Trace(a.H.T * b.H)),
        ("metric own", "plain scalar symbol c", "silently treated as a constant", "write a scalar as a trace"),
    ),
    "plain symbols for entries": (
        lambda: pair(lambda p, a, b: sp.Symbol("x") ** 2 * sp.Symbol("dx") * sp.Symbol("dy")),
        ("metric own", "plain scalar symbol", "write a scalar as a trace"),
    ),
    "inconsistent shapes": (
        lambda: declare(action=lambda A, G, H: (A * G, H * A.T)),
        ("action of pair on G", "cannot multiply"),
    ),
    "transposed result": (
        lambda: declare(action=lambda A, G, H: (A * G.T, H)),
        ("action of pair", "turns G of shape ('n', 'h') into"),
    ),
    "not bilinear": (
        lambda: pair(lambda p, a, b: Trace(a.G.T * b.G) ** 2 + Trace(a.H.T * b.H)),
        ("metric own", "not linear in the first tangent", "every term must contain each tangent exactly once"),
    ),
    "a nonlinear tangent": (
        lambda: pair(lambda p, a, b: Trace((gram(p.G) + gram(a.G)).I * a.G.T * b.G) + Trace(a.H.T * b.H)),
        ("metric own", "not linear in the first tangent", "outside inverses"),
    ),
    "a float": (
        lambda: pair(lambda p, a, b: 0.5 * mixed(p, a, b)),
        ("metric own", "floating-point number 0.5", "sympy.Rational(p, q)"),
    ),
    "exp": (
        lambda: pair(lambda p, a, b: sp.exp(Trace(gram(p.G))) * mixed(p, a, b)),
        ("metric own", "cannot read exp", "integer powers of Trace"),
    ),
    "sqrt": (
        lambda: pair(lambda p, a, b: sp.sqrt(Trace(gram(p.G))) * mixed(p, a, b)),
        ("metric own", "cannot read Pow", "only integer powers of scalars"),
    ),
    "a determinant": (
        lambda: pair(lambda p, a, b: sp.Determinant(gram(p.G)) * mixed(p, a, b)),
        ("metric own", "Determinant", "write traces of products"),
    ),
    "an unknown letter": (
        lambda: declare(action=lambda A, G, H: (G * B, H)),
        ("action of pair on G", "unknown matrix symbol B", "declared here: G, "),
    ),
    "an unknown factor": (
        lambda: pair(lambda p, a, b: Trace(a.W.T * b.W)),
        ("metric own", "no factor 'W'", "declares G, H"),
    ),
    "a name clash": (
        lambda: declare(action=lambda dG, G, H: (G * dG.inv(), H * dG.T)),
        ("pair: the letters dG", "would name two things", "rename"),
    ),
    "a class, not a group": (lambda: declare(group=GL), ("pair", 'must be a group such as GL("h")')),
    "too few results": (
        lambda: declare(action=lambda A, G, H: G * A.inv()),
        ("action of pair", "return one per factor, in their order"),
    ),
    "nothing preserved": (
        lambda: declare(preserves=lambda G, H: sp.Identity(H_SIZE)),
        ("preserved quantity of pair", "depends on no factor"),
    ),
    "a metric of another symmetry": (
        lambda: derive(declare(name="other"), pair(mixed)),
        ("metric own was declared for the symmetry pair, not for other",),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_place_and_what_to_do(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(DeclarationError) as caught:
        make()
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text


FILE = """
import quotientgeo as qg
from tests.symbolic.false_declarations import FALSE

metric = FALSE[{name!r}][1]()
symmetry = metric.symmetry
"""
COMMAND = [
    "euclidean metric under GL",
    "degenerate: a factor without a term",
    "a metric that a translation changes",
    "not free",
]


@pytest.mark.parametrize("name", COMMAND)
def test_the_command_refuses_writes_nothing_and_prints_the_witness(name: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(FILE.format(name=name))
    done = CliRunner().invoke(app, ["derive", str(tmp_path / "own.py"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2, done.output
    assert not (tmp_path / "out").exists()
    lines = [line for line in done.output.splitlines() if "witness" in line or " at n = " in line]
    assert len(lines) == 1, done.output
    assert re.search(r"at n = \d", lines[0])
    assert "side" in lines[0]
    assert "what to do" in lines[0]


def test_the_check_of_a_witness_can_fail() -> None:
    metric = pair(euclidean)
    witness = certify(derive_formulas(metric.symmetry, metric), "b", claims=("invariance",))["invariance"].witness
    assert witness is not None
    wrong = Witness(witness.sizes, witness.values, witness.left, "12345")
    with pytest.raises(AssertionError):
        check_witness(metric, "invariance", wrong)
