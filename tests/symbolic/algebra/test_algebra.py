"""Normal forms, kinds, traces, gradients, linear equations, isolation of problems."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
import sympy as sp

from quotientgeo.errors import DeclarationError, NotDerivableError
from quotientgeo.symbolic.algebra import (
    Alphabet,
    InverseLetter,
    Polynomial,
    SymbolLetter,
    polynomial_from_sympy,
    solve_linear,
    trace,
)
from tests.symbolic.algebra.expressions import SYMBOL, K, alphabet
from tests.symbolic.algebra.problem import solve_something

ROOT = Path(__file__).parents[3]
G, H, A, Q, S, Z = (SYMBOL[name] for name in "GHAQSZ")
XI = SYMBOL["xi"]


@pytest.fixture
def letters() -> Alphabet:
    return alphabet()


def read(letters: Alphabet, expression: sp.MatrixExpr) -> Polynomial:
    return polynomial_from_sympy(expression, letters)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (A * A.I, sp.Identity(K)),
        (Q.T * Q, sp.Identity(K)),
        (Q.I, Q.T),
        (S.T, S),
        (Z.T, -Z),
        ((G.T * G).I * G.T * G, sp.Identity(K)),
        ((A.T.I * G.T * G * A.I).I, A * (G.T * G).I * A.T),
        ((G.T * G * H.T * H * G.T * G).I, (G.T * G).I * (H.T * H).I * (G.T * G).I),
        ((2 * G.T * G + 2 * H.T * H).I, (G.T * G + H.T * H).I / 2),
        ((G.T * G + H.T * H) * (H.T * H + G.T * G).I, sp.Identity(K)),
        ((A.T.I * G.T * G * A.T + sp.Identity(K)).I, A.T.I * (G.T * G + sp.Identity(K)).I * A.T),
        (((G.T * G + H.T * H).I).I, G.T * G + H.T * H),
        ((A.T * A) ** -2, A.I * A.T.I * A.I * A.T.I),
        ((Z * G.T * G).T, -G.T * G * Z),
        (A ** 0, sp.Identity(K)),
        (Z.I.T, -(Z.I)),
    ],
    ids=str,
)  # fmt: skip
def test_equal_normal_forms(letters: Alphabet, left: sp.MatrixExpr, right: sp.MatrixExpr) -> None:
    assert read(letters, left) == read(letters, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [(A * S, S * A), (A.T, A), (G.T * G * H.T * H, H.T * H * G.T * G), (A.I, A.T), (2 * A, A), (Q, Q.T), (Z, Z.T)],
    ids=str,
)
def test_different_matrices_stay_different(letters: Alphabet, left: sp.MatrixExpr, right: sp.MatrixExpr) -> None:
    assert read(letters, left) != read(letters, right)


def test_trace_normal_form(letters: Alphabet) -> None:
    def tr(expression: sp.MatrixExpr) -> object:
        return trace(read(letters, expression))

    assert tr(A * S * Q) == tr(Q * A * S) == tr(Q.T * S * A.T)
    assert tr(A * S * Q) != tr(A * Q * S)
    assert tr(Z).is_zero
    assert tr(Z * G.T * G).is_zero
    assert not tr(Z * Z).is_zero
    assert tr(G * (G.T * G).I * G.T * XI * XI.T) != tr(XI * XI.T)


def test_constant_traces_keep_their_size(letters: Alphabet) -> None:
    small = trace(letters.identity("h"))
    assert small == trace(read(letters, G * (G.T * G).I * G.T))  # an n x n projector of rank h
    assert small != trace(letters.identity("n"))
    assert str(small) == "tr(I_h)"
    numeric = Alphabet()
    assert trace(numeric.identity(3)).terms == {(): Fraction(3)}


def test_products_of_traces(letters: Alphabet) -> None:
    first, second = trace(read(letters, A)), trace(read(letters, S * A))
    assert first * second == second * first
    moved = (first * second).differential({"A": letters["Q"]})
    assert moved == trace(letters["Q"]) * second + first * trace(letters["S"] * letters["Q"])
    slope = (first * second).gradient("A")
    assert slope == letters.identity("h").scaled(second) + letters["S"].scaled(first)
    assert slope != letters.identity("h").scaled(second)
    assert (first * trace(letters["S"])).gradient("G").is_zero


def test_gradient_of_kinds(letters: Alphabet) -> None:
    assert trace(letters["S"] * letters["A"]).gradient("S") == (letters["A"] + letters["A"].T) * Fraction(1, 2)
    assert trace(letters["Z"] * letters["A"]).gradient("Z") == (letters["A"].T - letters["A"]) * Fraction(1, 2)
    with pytest.raises(NotDerivableError, match="orthogonal"):
        trace(letters["Q"]).gradient("Q")


def test_solve_linear(letters: Alphabet) -> None:
    gram = read(letters, G.T * G)
    weight = gram + letters.identity("h")
    right = read(letters, H.T * H) - letters["S"]
    equation = weight * letters["A"] * right - letters["Q"]
    solution = solve_linear(equation, "A")
    assert solution == weight.inverse() * letters["Q"] * right.inverse()
    assert equation.substitute({"A": solution}).is_zero

    sylvester = gram * letters["A"] + letters["A"] * read(letters, H.T * H) - letters["Q"]
    with pytest.raises(NotDerivableError, match="Sylvester"):
        solve_linear(sylvester, "A")
    for bad, why in (
        (letters["A"].T - letters["Q"], "A'"),
        (letters["A"] * letters["A"], "not linear"),
        (letters["Q"], "does not contain"),
        ((gram + letters["A"]).inverse() + letters["A"], "inside"),
    ):
        with pytest.raises(NotDerivableError, match=why):
            solve_linear(bad, "A")


def test_walking_a_word(letters: Alphabet) -> None:
    polynomial = read(letters, XI * (G.T * G).I * G.T * XI * A.T.I / 2)
    ((word, coefficient),) = polynomial
    assert coefficient == Fraction(1, 2)
    assert [str(letter) for letter in word] == ["xi", "(G' G)^-1", "G'", "xi", "A^-T"]
    inverse = word[1]
    assert isinstance(inverse, InverseLetter)
    assert inverse.argument == read(letters, G.T * G)
    last = word[-1]
    assert isinstance(last, SymbolLetter)
    assert (last.name, last.transposed, last.inverted, last.shape) == ("A", True, True, ("h", "h"))
    assert word[2].shape == ("h", "n")


def test_substitution_respects_kinds(letters: Alphabet) -> None:
    with pytest.raises(DeclarationError, match="symmetric"):
        letters["S"].substitute({"S": letters["A"]})
    with pytest.raises(DeclarationError, match="orthogonal"):
        letters["Q"].substitute({"Q": letters["A"]})
    with pytest.raises(DeclarationError, match="skew"):
        letters["Z"].differential({"Z": letters["S"]})
    with pytest.raises(DeclarationError, match="shape"):
        letters["A"].substitute({"A": letters["G"]})
    assert letters["Q"].substitute({"Q": letters["Q"].T}) == letters["Q"].T


def test_shape_errors_name_the_operands(letters: Alphabet) -> None:
    with pytest.raises(DeclarationError, match=r"multiply G of shape \('n', 'h'\)"):
        letters["G"] * letters["H"]
    with pytest.raises(DeclarationError, match="cannot add"):
        letters["G"] + letters["H"]
    with pytest.raises(DeclarationError, match="not square"):
        letters["G"].inverse()
    with pytest.raises(DeclarationError, match="zero matrix"):
        letters.zero(("h", "h")).inverse()
    with pytest.raises(DeclarationError, match="not square"):
        letters["G"].trace()


def test_alphabets_do_not_mix(letters: Alphabet) -> None:
    other = alphabet()
    with pytest.raises(DeclarationError, match="different alphabets"):
        letters["A"] * other["A"]
    with pytest.raises(DeclarationError, match="already declared"):
        letters.declare("A", ("h", "h"), "orthogonal")
    with pytest.raises(DeclarationError, match="square"):
        letters.declare("B", ("n", "h"), "invertible")
    assert letters.declare("A", ("h", "h"), "invertible") == letters["A"]
    assert str(letters.declare_fresh("A", ("h", "h"))) == "A_1"


def test_two_threads_do_not_interact() -> None:
    kinds = ["general", "invertible", "orthogonal", "symmetric", "skew"] * 4
    expected = [solve_something(kind) for kind in kinds]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(solve_something, kinds)) == expected
    assert len(set(expected)) == 5


def test_order_does_not_depend_on_hashing_or_on_history() -> None:
    program = (
        "from tests.symbolic.algebra.problem import solve_something as d\n"
        "print([d(k) for k in ('general', 'invertible', 'orthogonal', 'symmetric')])"
    )
    command = [sys.executable, "-c", program]
    outputs = {
        subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, cwd=ROOT).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1


def test_normal_form_does_not_depend_on_what_was_built_before(letters: Alphabet) -> None:
    expression = (H.T * H + (G.T * G).I).I * A * S
    plain = str(read(letters, expression))
    busy = alphabet()
    read(busy, (S * A + Q).I * (H.T * H).I)
    assert str(read(busy, expression)) == plain
