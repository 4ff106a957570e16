"""What a model puts between the factors: preserved for every value of it, or refuted with one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sympy import Trace

import quotientgeo as qg
from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.derivation.certify import certify
from quotientgeo.symbolic.derivation.pipeline import derive_formulas

PAIR = {"G": ("n", "h"), "H": ("m", "h")}
CLAIMS = ("preserved", "vertical_in_kernel")


def rotary(group: object, **more: object) -> qg.Symmetry:
    """A pair whose scores are G R H' for every complex diagonal R."""
    return qg.Symmetry(
        "rotary",
        group=group,
        factors=PAIR,
        action=lambda A, G, H: (G * A.inv(), H * A.T),
        preserves=lambda G, H, R: G * R * H.T,
        **{"inputs": {"R": qg.ComplexDiagonal("h")}, **more},
    )


def claims(symmetry: qg.Symmetry) -> dict[str, str]:
    plain = qg.Metric("plain", symmetry, lambda p, a, b: Trace(a.G.T * b.G) + Trace(a.H.T * b.H))
    certificate = certify(derive_formulas(symmetry, plain), "abcde", claims=CLAIMS)
    return {claim.name: claim.status for claim in certificate}


def test_what_commutes_with_every_rotation_is_a_symmetry() -> None:
    assert claims(rotary(qg.ComplexDiagonal("h"))) == dict.fromkeys(CLAIMS, "proven for all sizes")


def test_all_invertible_matrices_are_not_and_a_rotation_shows_it() -> None:
    symmetry = rotary(qg.GL("h"))
    assert claims(symmetry) == dict.fromkeys(CLAIMS, "false")
    plain = qg.Metric("plain", symmetry, lambda p, a, b: Trace(a.G.T * b.G) + Trace(a.H.T * b.H))
    witness = certify(derive_formulas(symmetry, plain), "ad", claims=["preserved"])["preserved"].witness
    assert witness is not None
    G, H, A, R = ([[Fraction(x) for x in row] for row in witness.values[name]] for name in "GHAR")

    def product(*matrices: list[list[Fraction]]) -> list[list[Fraction]]:
        out = matrices[0]
        for matrix in matrices[1:]:
            out = [
                [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*matrix, strict=True)]
                for row in out
            ]
        return out

    (a, b), (c, d) = A
    inverse = [[x / (a * d - b * c) for x in row] for row in ((d, -b), (-c, a))]
    assert R[0][0] == R[1][1]
    assert R[0][1] == -R[1][0]
    transposed = [list(column) for column in zip(*H, strict=True)]
    assert product(G, inverse, R, A, transposed) != product(G, R, transposed)


def test_any_matrix_may_stand_between() -> None:
    symmetry = qg.Symmetry(
        "scaled",
        group=qg.Scaling(),
        factors=PAIR,
        action=lambda c, G, H: (G / c, c * H),
        preserves=lambda G, H, M: G * M * H.T,
        inputs={"M": ("h", "h")},
    )
    assert claims(symmetry) == dict.fromkeys(CLAIMS, "proven for all sizes")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"R": "h"}, "must be a shape"),
        ({"R": qg.GL}, "must be a shape"),
        ({"R": ("h",)}, "needs a shape"),
        ({"G": ("h", "h")}, "has the name of something else"),
        ([("R", ("h", "h"))], "inputs must be a dict"),
        ({}, "cannot be evaluated|missing"),
        ({"R": ("h", "h"), "S": ("h", "h")}, "takes 3 positional arguments"),
    ],
)
def test_bad_inputs(inputs: object, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        rotary(qg.ComplexDiagonal("h"), inputs=inputs)


@pytest.mark.parametrize("claim", CLAIMS)
def test_witnesses_have_gates_of_the_declared_kind(claim: str) -> None:
    """Positive gates, which general matrices do not pass through: a witness has a positive one."""
    symmetry = qg.Symmetry(
        "gated",
        qg.GL("d"),
        {"U": ("d", "n"), "V": ("m", "d")},
        lambda A, U, V: (A * U, V * A.inv()),
        lambda U, V, D: V * D * U,
        inputs={"D": qg.PositiveDiagonal("d")},
    )
    plain = qg.Metric("plain", symmetry, lambda p, a, b: Trace(a.U.T * b.U) + Trace(a.V.T * b.V))
    witness = certify(derive_formulas(symmetry, plain), "ad", claims=[claim])[claim].witness
    assert witness is not None
    D = witness.values["D"]
    assert all(Fraction(D[i][i]) > 0 for i in range(len(D)))
