"""Random expressions with vectors, diagonal and complex diagonal letters, scalars and ones; each with its torch twin."""

from __future__ import annotations

import sympy as sp
import torch
from hypothesis import strategies as st
from torch import Tensor

from quotientgeo.symbolic.algebra import (
    Alphabet,
    ComplexPart,
    InverseLetter,
    InverseScalar,
    Kind,
    Letter,
    OnesLetter,
    PartLetter,
    Polynomial,
    ScalarLetter,
    ScalarSymbol,
    SymbolLetter,
    TraceLetter,
    TracePolynomial,
)
from tests.symbolic.algebra.expressions import Pair, Values

D = sp.Symbol("d", integer=True, positive=True)
SIZE = 4
SHAPES = {"M": (D, D), "x": (D, 1), "u": (D, 1), "v": (D, 1), "B": (D, D), "C": (D, D)}
KINDS = {"u": "vector", "v": "vector", "B": "diagonal", "C": "complex_half", "c": "scalar"}
SYMBOL = {name: sp.MatrixSymbol(name, *shape) for name, shape in SHAPES.items()}
SCALAR = sp.Symbol("c", real=True)


def alphabet() -> Alphabet:
    out = Alphabet()
    for name, (rows, columns) in SHAPES.items():
        out.declare(name, (str(rows), 1 if columns == 1 else str(columns)), KINDS.get(name, "general"))
    out.declare("c", (1, 1), "scalar")
    return out


def values(seed: int = 0) -> Values:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    out = {"M": torch.linalg.qr(draw(SIZE, SIZE))[0] + 0.2 * draw(SIZE, SIZE), "x": draw(SIZE, 1) / 2}
    out |= {name: 1 + 0.3 * draw(SIZE, 1) for name in "uv"}
    out |= {"B": torch.diag(1 + 0.3 * draw(SIZE)), "c": 1 + 0.3 * draw(1, 1)}
    return out | {"C": complex_part(torch.eye(SIZE, dtype=torch.float64) + 0.4 * draw(SIZE, SIZE))}


def diagonal(matrix: Tensor) -> Tensor:
    return torch.diag_embed(matrix.diagonal())


def complex_part(matrix: Tensor) -> Tensor:
    half = len(matrix) // 2
    a = (matrix[:half, :half] + matrix[half:, half:]).diagonal() / 2
    b = (matrix[half:, :half] - matrix[:half, half:]).diagonal() / 2
    return torch.cat([torch.cat([torch.diag(a), torch.diag(-b)], 1), torch.cat([torch.diag(b), torch.diag(a)], 1)])


def _leaves() -> list[Pair]:
    M, x, u, v, C = (SYMBOL[name] for name in "MxuvC")
    eye = torch.eye(SIZE, dtype=torch.float64)
    return [
        Pair(M, lambda w: w["M"]),
        Pair(SYMBOL["B"], lambda w: w["B"]),
        Pair(SYMBOL["B"].inv(), lambda w: torch.linalg.inv(w["B"])),
        Pair(C, lambda w: w["C"]),
        Pair(C.T, lambda w: w["C"].T),
        Pair(C.inv(), lambda w: torch.linalg.inv(w["C"])),
        Pair(sp.DiagMatrix(u), lambda w: torch.diag(w["u"][:, 0])),
        Pair(sp.DiagMatrix(sp.HadamardProduct(u, v)), lambda w: torch.diag((w["u"] * w["v"])[:, 0])),
        Pair(sp.DiagMatrix(sp.HadamardPower(v, -2)), lambda w: torch.diag(w["v"][:, 0] ** -2)),
        Pair(sp.DiagMatrix(sp.OneMatrix(D, 1) + x), lambda w: torch.diag(1 + w["x"][:, 0])),
        Pair(sp.HadamardProduct(u, x) * v.T, lambda w: (w["u"] * w["x"]) @ w["v"].T),
        Pair(x * x.T, lambda w: w["x"] @ w["x"].T),
        Pair(u * x.T, lambda w: w["u"] @ w["x"].T),
        Pair(sp.OneMatrix(D, D), lambda w: torch.ones_like(eye)),
        Pair(SCALAR * sp.Identity(D), lambda w: w["c"] * eye),
        Pair(
            sp.Identity(D) / (1 + sp.Trace(x.T * x) * SCALAR**2), lambda w: eye / (1 + w["x"].T @ w["x"] * w["c"] ** 2)
        ),
        Pair(x * (x.T * x).inv() * u.T, lambda w: w["x"] @ w["u"].T / (w["x"].T @ w["x"])),
        Pair(sp.Identity(D), lambda w: eye),
    ]


LEAVES = _leaves()


def squares() -> st.SearchStrategy[Pair]:
    def product(t: tuple[Pair, Pair]) -> Pair:
        return Pair(t[0].expression * t[1].expression, lambda w: t[0].function(w) @ t[1].function(w))

    def total(t: tuple[Pair, Pair]) -> Pair:
        return Pair(2 * t[0].expression - t[1].expression / 3, lambda w: 2 * t[0].function(w) - t[1].function(w) / 3)

    def traced(t: tuple[Pair, Pair]) -> Pair:
        return Pair(
            sp.Trace(t[0].expression) * t[1].expression, lambda w: torch.trace(t[0].function(w)) * t[1].function(w)
        )

    def part(t: Pair) -> Pair:
        return Pair(sp.DiagMatrix(sp.DiagonalOf(t.expression)), lambda w: diagonal(t.function(w)))

    def complex_of(t: Pair) -> Pair:
        return Pair(ComplexPart(t.expression, "half"), lambda w: complex_part(t.function(w)))

    def shifted(t: Pair) -> Pair:
        eye = torch.eye(SIZE, dtype=torch.float64)
        return Pair(
            sp.Inverse(sp.Identity(D) + t.expression * t.expression.T),
            lambda w: torch.linalg.inv(eye + t.function(w) @ t.function(w).T),
        )

    def grown(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
        two = st.tuples(inner, inner)
        one = [inner.map(part), inner.map(complex_of), inner.map(shifted)]
        one.append(inner.map(lambda t: Pair(t.expression.T, lambda w: t.function(w).T)))
        return st.one_of(two.map(product), two.map(total), two.map(traced), *one)

    return st.recursive(st.sampled_from(LEAVES), grown, max_leaves=4)


def evaluate(polynomial: Polynomial, w: Values) -> Tensor:
    """Walk the words of a polynomial with torch."""
    rows, columns = (SIZE if size == "d" else int(size) for size in polynomial.shape)
    out = torch.zeros(rows, columns, dtype=torch.float64)
    for word, coefficient in polynomial:
        product = torch.eye(rows, dtype=torch.float64)
        for letter in word:
            value = _letter(polynomial.alphabet, letter, w)
            product = product * value if isinstance(letter, ScalarLetter) else product @ value
        out = out + float(coefficient) * product
    return out


def _letter(alphabet: Alphabet, letter: Letter, w: Values) -> Tensor:
    match letter:
        case TraceLetter():
            if not letter.letters:
                return torch.tensor(float(SIZE), dtype=torch.float64)
            return torch.trace(evaluate(alphabet.monomial(letter.letters), w))
        case ScalarSymbol(name=name):
            return w[name].sum()
        case InverseScalar(argument=argument):
            return 1 / evaluate_trace(argument, w)
        case OnesLetter():
            return torch.ones([1 if size == 1 else SIZE for size in letter.shape], dtype=torch.float64)
        case PartLetter(word=word):
            inner = evaluate(alphabet.monomial(word), w)
            return diagonal(inner) if letter.family is Kind.DIAGONAL else complex_part(inner)
        case InverseLetter(argument=argument):
            return torch.linalg.inv(evaluate(argument, w))
    assert isinstance(letter, SymbolLetter)
    value = w[letter.name]
    value = torch.diag(value[:, 0]) if letter.kind is Kind.VECTOR else value
    value = torch.linalg.inv(value) if letter.inverted else value
    return value.T if letter.transposed else value


def evaluate_trace(value: TracePolynomial, w: Values) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for monomial, coefficient in value:
        term = torch.tensor(float(coefficient), dtype=torch.float64)
        for factor in monomial:
            term = term * _letter(value.alphabet, factor, w)
        total = total + term
    return total
