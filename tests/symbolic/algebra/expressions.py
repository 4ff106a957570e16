"""Random matrix expressions, each as SymPy and as the torch function it stands for; shares no code with the algebra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp
import torch
from hypothesis import strategies as st
from torch import Tensor

from quotientgeo.symbolic.algebra import Alphabet, InverseLetter, Polynomial, TracePolynomial

SIZES = {"n": 4, "m": 5, "h": 3}
N, M, K = (sp.Symbol(name, integer=True, positive=True) for name in SIZES)
SHAPES = {"G": (N, K), "H": (M, K), "xi": (N, K), "A": (K, K), "Q": (K, K), "S": (K, K), "Z": (K, K)}
KINDS = {"A": "invertible", "Q": "orthogonal", "S": "symmetric", "Z": "skew"}
SYMBOL = {name: sp.MatrixSymbol(name, *shape) for name, shape in SHAPES.items()}

Values = dict[str, Tensor]


def alphabet() -> Alphabet:
    out = Alphabet()
    for name, shape in SHAPES.items():
        out.declare(name, (str(shape[0]), str(shape[1])), KINDS.get(name, "general"))
    return out


def values(seed: int = 0) -> Values:
    generator = torch.Generator().manual_seed(seed)
    out = {}
    for name, shape in SHAPES.items():
        rows, columns = (SIZES[str(size)] for size in shape)
        noise = 0.2 * torch.randn(rows, columns, generator=generator, dtype=torch.float64)
        kind = KINDS.get(name)
        if kind == "skew":
            value = noise - noise.T
        else:  # orthonormal columns, disturbed: words of many factors stay well conditioned
            value = torch.linalg.qr(torch.randn(rows, columns, generator=generator, dtype=torch.float64))[0]
            value = value if kind == "orthogonal" else value + noise
            value = (value + value.T) if kind == "symmetric" else value
        out[name] = value
    return out


@dataclass(frozen=True)
class Pair:
    """A square (h, h) expression and its torch twin."""

    expression: sp.MatrixExpr
    function: Callable[[Values], Tensor]

    def __repr__(self) -> str:
        return str(self.expression)


def _gram(a: str, b: str) -> Pair:
    return Pair(SYMBOL[a].T * SYMBOL[b], lambda v: v[a].T @ v[b])


def _symbol(name: str) -> Pair:
    return Pair(SYMBOL[name], lambda v: v[name])


def _shifted_gram(x: Pair) -> Pair:
    """(1 + X X')^-1 exists whatever X is."""
    eye = torch.eye(3, dtype=torch.float64)
    return Pair(
        sp.Inverse(sp.Identity(K) + x.expression * x.expression.T),
        lambda v: torch.linalg.inv(eye + x.function(v) @ x.function(v).T),
    )


LEAVES = [
    _gram("G", "G"),
    _gram("H", "H"),
    _gram("G", "xi"),
    *(_symbol(name) for name in "AQSZ"),
    Pair(sp.Inverse(SYMBOL["A"]), lambda v: torch.linalg.inv(v["A"])),
    Pair(SYMBOL["Q"].inv(), lambda v: torch.linalg.inv(v["Q"])),
    Pair(sp.Inverse(SYMBOL["G"].T * SYMBOL["G"]), lambda v: torch.linalg.inv(v["G"].T @ v["G"])),
    Pair(sp.Identity(K), lambda v: torch.eye(3, dtype=torch.float64)),
]


def squares() -> st.SearchStrategy[Pair]:
    return st.recursive(
        st.sampled_from(LEAVES),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(
                lambda t: Pair(t[0].expression * t[1].expression, lambda v: t[0].function(v) @ t[1].function(v))
            ),
            st.tuples(inner, inner).map(
                lambda t: Pair(
                    2 * t[0].expression - t[1].expression / 3, lambda v: 2 * t[0].function(v) - t[1].function(v) / 3
                )
            ),
            inner.map(lambda x: Pair(x.expression.T, lambda v: x.function(v).T)),
            inner.map(_shifted_gram),
        ),
        max_leaves=5,
    )


def evaluate(polynomial: Polynomial, v: Values) -> Tensor:
    """Walk the words of a polynomial with torch."""
    rows, columns = (SIZES[str(size)] for size in polynomial.shape)
    out = torch.zeros(rows, columns, dtype=torch.float64)
    for word, coefficient in polynomial:
        product = torch.eye(rows, dtype=torch.float64)
        for letter in word:
            if isinstance(letter, InverseLetter):
                value = torch.linalg.inv(evaluate(letter.argument, v))
            else:
                value = torch.linalg.inv(v[letter.name]) if letter.inverted else v[letter.name]
                value = value.T if letter.transposed else value
            product = product @ value
        out = out + float(coefficient) * product
    return out


def evaluate_trace(scalar: TracePolynomial, v: Values) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for monomial, coefficient in scalar:
        term = torch.tensor(float(coefficient), dtype=torch.float64)
        for factor in monomial:
            if factor.letters:
                term = term * torch.trace(evaluate(scalar.alphabet.monomial(factor.letters), v))
            else:
                term = term * SIZES[str(factor.size)]
        total = total + term
    return total
