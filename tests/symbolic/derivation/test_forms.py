"""Semi-definite by form: what is accepted is semi-definite at random points, what is not is shown not to be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sympy as sp
import torch
from sympy import DiagMatrix, DiagonalOf, Identity, MatrixSymbol, OneMatrix, Trace

from quotientgeo.symbolic.algebra import Alphabet, polynomial_from_sympy, trace_from_sympy
from quotientgeo.symbolic.algebra.parts import ComplexPart
from quotientgeo.symbolic.derivation.calculus import Variable
from quotientgeo.symbolic.derivation.levels.autodiff import TorchCalculus
from quotientgeo.symbolic.derivation.levels.forms import is_nonnegative, is_semidefinite, semidefinite_form
from quotientgeo.symbolic.derivation.levels.ranks import Ranks

SHAPES = {
    "G": ("n", "d"),
    "M": ("d", "d"),
    "D": ("d", "d"),
    "Z": ("d", "d"),
    "u": ("d", 1),
    "v": ("d", 1),
    "S": ("d", "d"),
}
KINDS = {"D": "diagonal", "Z": "complex_half", "u": "vector", "v": "vector", "S": "skew"}
n, d = sp.symbols("n d", integer=True, positive=True)
SIZE = {"n": n, "d": d, 1: 1}
G, M, D, Z, u, v, S = (MatrixSymbol(name, *(SIZE[size] for size in shape)) for name, shape in SHAPES.items())
U, V, ROWS = DiagMatrix(u), DiagMatrix(v), DiagMatrix(DiagonalOf(G.T * G))


def part(matrix: Any) -> Any:
    return ComplexPart(matrix, "half")


SEMIDEFINITE = [
    G.T * G,
    U**2,
    U**-2 + V**2,
    D.inv() ** 2 * D**4,
    U * M.T * M * U,
    M.T * U**2 * M,
    ROWS,
    ROWS.I,
    U**2 * ROWS.I * V**-2,  # commuting
    ROWS * DiagMatrix(DiagonalOf(M * M.T)),
    M.T * ROWS * U**2 * M,
    OneMatrix(d, d),
    U * OneMatrix(d, d) * U,
    part(G.T * G),
    part(G.T * G).I + Identity(d),
    S.T * S,
    -S * M.T * M * S,
    (S.T * S + Identity(d)).I,
    part(-S * S),
    Z.T * Z,
    Z.T * M.T * M * Z,
    Z.T * part(G.T * G).I * Z,
    (part(M.T * part(G.T * G) * M) + Z * Z.T).I,
    G.T * G / Trace(M.T * M),
    Trace(M) ** 2 * G.T * G,
    (Trace(u.T * u) * G.T * G + Trace(ROWS) * Identity(d)).I,
]
NEITHER = [
    U,
    U**3,
    U * V,
    U * V**2,
    D,
    -G.T * G,
    G.T * G - M.T * M,
    U * M.T * M,
    U * M.T * M * V,
    S,
    S**2,
    S * M.T * M * S,
    (S**2 + Identity(d)).I,
    part(S * S),
    Z,
    Z.T * Z.inv(),
    part(M),
    part(G.T * G) * M.T * M,
    DiagMatrix(DiagonalOf(M)),
    DiagMatrix(DiagonalOf(M)) * ROWS,
    G.T * G / Trace(M),
    Trace(u.T * v) * G.T * G,
    Trace(M) ** 3 * U**2,
    (M.T * M - Trace(u.T * u) * Identity(d)).I,
    OneMatrix(d, d) * U,
]


def alphabet() -> Alphabet:
    out = Alphabet()
    for name, shape in SHAPES.items():
        out.declare(name, shape, KINDS.get(name, "general"))  # type: ignore[arg-type]
    return out


def values(expression: Any, count: int = 25) -> list[torch.Tensor]:
    """The matrix at random points."""
    out = []
    for seed in range(count):
        calculus = TorchCalculus({"n": 5, "d": 4}, seed)
        point = {
            name: calculus.variable(Variable(name, shape, KINDS.get(name, "general")))  # type: ignore[arg-type]
            for name, shape in SHAPES.items()
        }
        out.append(calculus.apply(SimpleNamespace(expression=expression), point))  # type: ignore[arg-type]
    return out


def is_semidefinite_at(value: torch.Tensor) -> bool:
    size = value.abs().max()
    symmetric = bool((value - value.mT).abs().max() <= 1e-10 * size)
    return symmetric and bool(torch.linalg.eigvalsh(value)[0] >= -1e-10 * size)


@pytest.mark.parametrize("expression", SEMIDEFINITE, ids=str)
def test_what_is_accepted_is_semidefinite(expression: Any) -> None:
    assert is_semidefinite(polynomial_from_sympy(expression, alphabet()))
    assert all(map(is_semidefinite_at, values(expression)))


@pytest.mark.parametrize("expression", NEITHER, ids=str)
def test_what_is_refused_is_not(expression: Any) -> None:
    assert not is_semidefinite(polynomial_from_sympy(expression, alphabet()))
    assert not all(map(is_semidefinite_at, values(expression)))


@pytest.mark.parametrize("expression", [M * M.T, part(M.T * M), ROWS, Z.T * Z, U**2], ids=str)
def test_forms_put_together_again(expression: Any) -> None:
    """word = half' halves' halves definite half."""
    letters = alphabet()
    ((word, _),) = polynomial_from_sympy(expression, letters)
    form = semidefinite_form(letters, word)
    assert form is not None

    def product(word: Any) -> Any:
        return letters.monomial(word) if word else letters.identity("d")

    half, halves = product(form.half), product(form.halves)
    assert half.T * halves.T * halves * product(form.definite) * half == product(word)


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        (Trace(G.T * G), True),
        (1 / Trace(G * G.T), True),
        (Trace(M) ** 2 / Trace(u.T * u) ** 3, True),
        (Trace(U**-2 * ROWS), True),
        (Trace(OneMatrix(d, d)), True),
        (1 / (1 + Trace(ROWS)), True),
        (Trace(M), False),
        (Trace(u.T * v), False),
        (Trace(M) * Trace(G.T * G), False),
        (1 / (1 - Trace(G.T * G)), False),
        (Trace(U * ROWS), False),
    ],
    ids=str,
)
def test_signs_of_scalars(scalar: Any, expected: bool) -> None:
    letters = alphabet()
    found = [is_nonnegative(letters, monomial) and c > 0 for monomial, c in trace_from_sympy(scalar, letters)]
    assert all(found) is expected
    numbers = [float(value) for value in values(scalar)]
    assert all(number > 0 for number in numbers) is expected


def ranks() -> Ranks:
    """Of a group on n columns that is told nothing else."""
    factors = {name: SHAPES[name] for name in ("G", "M", "u", "v")}
    geometry = SimpleNamespace(alphabet=alphabet(), factors=factors, action={})
    geometry.symmetry, geometry.names = SimpleNamespace(groups=()), SimpleNamespace(elements=())
    return Ranks(geometry)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "assumed"),
    [
        (G.T * G, ["full column rank of G"]),
        (U**2, ["no entry of u is zero"]),
        (U**-2, []),
        (ROWS, ["no column of G is zero"]),
        (part(G.T * G), ["no pair of columns of G is zero"]),
        (part(G.T * G).I, []),
        (V * part(M.T * M).I * V, ["no entry of v is zero"]),
        (Z.T * Z, []),
        (V**2 * ROWS, ["no entry of v is zero", "no column of G is zero"]),
        (G * G.T, ["full row rank of G"]),
        (OneMatrix(d, d), None),
        (U * OneMatrix(d, d) * U, None),
        (U, None),
    ],
    ids=str,
)
def test_what_definiteness_assumes(expression: Any, assumed: list[str] | None) -> None:
    """None: not definite at any point, or not for all."""
    known = ranks()
    ((word, _),) = polynomial_from_sympy(expression, known.alphabet)
    assert known.definite(word) is (assumed is not None)
    if assumed is not None:
        assert sorted(known.assumptions()) == sorted(assumed)


@pytest.mark.parametrize(
    ("scalar", "assumed"),
    [
        (Trace(G.T * G), ["G is not zero"]),
        (1 / Trace(G * G.T), []),
        (Trace(M) ** 2, None),
        (Trace(u.T * u), ["u is not zero"]),
        (Trace(U**2 * V**-2), ["u is not zero"]),
        (Trace(ROWS * V**-2), ["G is not zero"]),
        (Trace(part(G.T * G).I * M.T * M), ["M is not zero"]),
        (Trace(G * M * M.T * G.T), ["G is not zero", "full row rank of M"]),  # M is square
        (Trace(G.T * G) * Trace(U**2 * G.T * G), ["no column of G is zero", "u is not zero"]),
        (Trace(D.T * D), []),
        (Trace(OneMatrix(d, d)), []),
    ],
    ids=str,
)
def test_what_a_positive_number_assumes(scalar: Any, assumed: list[str] | None) -> None:
    """The squared length of a factor is positive where the factor is not zero: no rank is needed."""
    known = ranks()
    ((monomial, _),) = trace_from_sympy(scalar, known.alphabet)
    assert known.positive(monomial) is (assumed is not None)
    if assumed is not None:
        assert sorted(known.assumptions()) == sorted(assumed)


@pytest.mark.parametrize(
    ("expression", "assumed"),
    [
        (G, ["G is not zero"]),
        (G.T * G * D, ["G is not zero"]),
        (Z * M * D.inv(), ["M is not zero"]),
        (u, ["u is not zero"]),
        (U * V.inv(), ["u is not zero"]),
        (D, []),
        (ROWS * D, ["G is not zero"]),
        (S, None),
    ],
    ids=str,
)
def test_what_a_product_that_is_not_zero_assumes(expression: Any, assumed: list[str] | None) -> None:
    known = ranks()
    ((word, _),) = polynomial_from_sympy(expression, known.alphabet)
    assert known.nonzero_product(word) is (assumed is not None)
    if assumed is not None:
        assert sorted(known.assumptions()) == sorted(assumed)


def test_what_says_more_than_not_zero_stands_alone() -> None:
    known = ranks()
    assert known.nonzero_product(_word(known, G))
    assert known.assumptions() == ["G is not zero"]
    assert known.definite(_word(known, G.T * G))
    assert known.assumptions() == ["full column rank of G"]


def _word(known: Ranks, expression: Any) -> Any:
    ((word, _),) = polynomial_from_sympy(expression, known.alphabet)
    return word
