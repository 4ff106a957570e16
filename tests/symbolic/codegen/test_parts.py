"""The parts of the generator one by one: chains, tokens, definiteness, what is shared, how text is broken."""

from __future__ import annotations

from itertools import product

import pytest

from quotientgeo.symbolic.algebra import Alphabet, is_positive_definite
from quotientgeo.symbolic.codegen.builder import Builder
from quotientgeo.symbolic.codegen.chain import chain_cost, plan, tokens
from quotientgeo.symbolic.codegen.exposition.latex import Latex, symbol_latex, visible
from quotientgeo.symbolic.codegen.factoring import Factoring
from quotientgeo.symbolic.codegen.grams import Gram, choose_grams
from quotientgeo.symbolic.codegen.graph import Operation
from quotientgeo.symbolic.codegen.notation import Notation, wrapped
from quotientgeo.symbolic.codegen.plain import text
from tests.symbolic.codegen import direct

SIZES = {"n": 512, "m": 512, "h": 32}


def by_brute_force(lengths: tuple[int, ...]) -> int:
    if len(lengths) <= 2:
        return 0
    return min(
        by_brute_force(lengths[: k + 1]) + by_brute_force(lengths[k:]) + lengths[0] * lengths[k] * lengths[-1]
        for k in range(1, len(lengths) - 1)
    )


def test_chain_order_is_the_cheapest() -> None:
    for lengths in product((2, 3, 7), repeat=5):
        assert chain_cost(lengths, (False,) * 4) == by_brute_force(lengths)
    assert chain_cost((9, 9, 9, 9), (False, True, True)) == chain_cost((9, 9, 9, 9), (False,) * 3)
    assert chain_cost((9, 9, 9), (True, True)) > 50 * chain_cost((9, 9, 9), (True, False))
    assert plan((4, 5, 6), (False, False), lambda i, j: (i, j) == (0, 2)) == (0, {})


def test_words_are_cut_where_they_are_narrow() -> None:
    a = direct.alphabet()
    word_of = lambda p: next(iter(p.terms))  # noqa: E731
    gram = a["G"].T * a["G"]
    word = word_of(a["G"] * a["xi"].T * a["G"] * gram.inverse() * a["H"].T * a["H"])
    assert [len(token) for token in tokens(word, SIZES)] == [1, 2, 1, 2]
    assert tokens((), SIZES) == ()


def test_only_what_is_positive_by_its_form_goes_to_cholesky() -> None:
    a = direct.alphabet()
    one, gram = a.identity("h"), a["G"].T * a["G"]
    positive = [gram, gram * 2 + one, a["B"].T * gram * a["B"], a["B"].T * gram.inverse() * a["B"], a["S"] * a["S"]]
    positive += [a["A"].T * a["A"], gram.inverse(), a["Z"].T * a["Z"] + one]
    other = [
        gram * -1,
        gram - one,
        a["B"],
        a["S"],
        a["S"] + one,
        a["Z"] * a["Z"],
        a["G"].T * a["xi"],
        gram * a["S"] * gram,
    ]
    assert [is_positive_definite(p) for p in positive] == [True] * len(positive)
    assert [is_positive_definite(p) for p in other] == [False] * len(other)


def test_equal_up_to_factor_and_transpose_is_computed_once() -> None:
    a = direct.alphabet()
    builder = Builder(a, SIZES, Factoring(SIZES))
    p = a["G"].T * a["xi"] * a["B"] + a["A"] * a["S"]
    first, second, third = builder.matrix(p), builder.matrix(p.T * -3), builder.matrix(a["O"] * p)
    assert first.node is second.node
    assert second.transposed != first.transposed
    assert second.coefficient == -3 * first.coefficient
    outputs = (first, second, third)
    operations = [node.operation for node in builder.graph.reachable(outputs)]
    assert operations.count(Operation.SUM) == 1
    assert operations.count(Operation.PRODUCT) == 4


def test_common_factors_save_products() -> None:
    a = direct.alphabet()
    p = a["A"] * (a["B"] + a["S"] + a["O"]) * a["K"]
    counts = []
    for polynomial in (p, p + a["K"] * (a["B"] + a["S"] + a["O"])):
        builder = Builder(a, SIZES, Factoring(SIZES))
        nodes = builder.graph.reachable((builder.output(polynomial),))
        counts.append([node.operation for node in nodes].count(Operation.PRODUCT))
    assert counts == [2, 3]


@pytest.mark.parametrize(("rows", "columns", "wide"), [("n", "h", False), ("h", "n", True), ("h", "h", False)])
def test_gram_matrices_are_the_small_ones(rows: str, columns: str, wide: bool) -> None:
    assert choose_grams({"F": (rows, columns)}, SIZES, ["P", "F"]) == {"F": Gram("Q", wide)}


def test_names_run_out_gracefully() -> None:
    factors = {f"F{i}": ("n", "h") for i in range(11)}
    names = [gram.name for gram in choose_grams(factors, SIZES, factors).values()]
    assert len(set(names)) == 11
    assert names[-1] == "gram_F10"


def test_formulas_read_well() -> None:
    a: Alphabet = direct.alphabet()
    notation = Notation(a, {"G": Gram("P"), "H": Gram("Q")}, SIZES)
    P, Q = a["G"].T * a["G"], a["H"].T * a["H"]
    assert text(notation.matrix(a["xi"] * P.inverse() * (a["xi"].T * a["G"] + a["G"].T * a["xi"]))) == (
        "xi P^-1 (G' xi + xi' G)"
    )
    assert text(notation.matrix((P * Q + a.identity("h")).inverse())) == "(I + P Q)^-1"
    assert text(notation.scalar((a["xi"] * P.inverse() * a["G"].T).trace())) == "tr(P^-1 G' xi)"
    latex = Latex()
    assert latex.line(notation.matrix(a["A"].inverse().T * P * a["A"].inverse())) == r"A^{-\top} P A^{-1}"
    assert latex.line(notation.matrix(a.zero(("h", "h")))) == "0"
    assert [symbol_latex(name) for name in ("xi_G", "W_in", "gamma", "X_1", "Wq")] == [
        r"\xi_{G}",
        r"W_{\mathrm{in}}",
        r"\gamma",
        "X_{1}",
        r"\mathrm{Wq}",
    ]


def test_long_formulas_are_broken_into_balanced_rows() -> None:
    a = direct.alphabet()
    notation = Notation(a, {}, SIZES)
    letters = [a[name] for name in "ABKSO"]
    p = a.zero(("h", "h"))
    for x, y, z in product(letters, repeat=3):
        p = p + x * y * z * (1 if x is not y else -2)
    rows = Latex().rows(notation.matrix(p))
    assert len(rows) > 3
    assert max(map(visible, rows)) <= 90
    joined = " ".join(rows)
    assert joined.count("(") == joined.count(")")
    assert joined.replace(r"\quad", "").replace("{}", "").split() == Latex().line(notation.matrix(p)).split()
    assert wrapped(["aa", "bb", "cc"], ", ", 6) == ["aa, bb,", "cc"]
