"""Random polynomials, random batched values, and a direct evaluation that shares no code with the generator."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import torch
from torch import Tensor

from quotientgeo.symbolic.algebra import Alphabet, InverseLetter, Polynomial, TracePolynomial, scalar, trace

SIZES = {"n": 5, "m": 4, "h": 3}
KINDS = {"A": "invertible", "O": "orthogonal", "S": "symmetric", "Z": "skew"}
SHAPES = dict.fromkeys("AOSZB", ("h", "h")) | {"G": ("n", "h"), "H": ("m", "h"), "xi": ("n", "h"), "K": ("h", "h")}
COEFFICIENTS = [Fraction(c) for c in ("1", "-1", "2", "-3", "1/2", "-1/3", "5/7", "-7/24")]


def alphabet() -> Alphabet:
    out = Alphabet()
    for name, shape in SHAPES.items():
        out.declare(name, shape, KINDS.get(name, "general"))
    return out


def letters(a: Alphabet) -> dict[tuple[str, str], list[Polynomial]]:
    """Letters, and inverses of every kind that the generator tells apart, by their shape."""
    one_h, one_n = a.identity("h"), a.identity("n")
    gram, other = a["G"].T * a["G"], a["H"].T * a["H"]
    inverses = [
        gram.inverse(),
        (gram * 2 + other).inverse(),  # a sum of squares: Cholesky
        (one_h + a["Z"].T * a["Z"]).inverse(),
        (one_h + a["B"].T * gram.inverse() * a["B"]).inverse(),
        (one_h * 2 + gram * other).inverse(),  # not symmetric: LU, and its transpose
        (one_h * 2 + gram * other).inverse().T,
        (one_h * 3 + a["S"]).inverse(),  # symmetric but not positive by its form
        a["A"].inverse(),
        a["A"].inverse().T,
    ]
    squares = [*(a[name] for name in "AOSZB"), *(a[name].T for name in "AOB"), *inverses]
    wide = [a["G"], a["xi"]]
    return {
        ("h", "h"): squares,
        ("n", "h"): wide,
        ("h", "n"): [x.T for x in wide],
        ("m", "h"): [a["H"]],
        ("h", "m"): [a["H"].T],
        ("n", "n"): [(one_n + a["G"] * a["xi"].T * a["xi"] * a["G"].T).inverse()],
        ("n", "m"): [a["G"] * a["H"].T],
        ("m", "n"): [a["H"] * a["xi"].T],
        ("m", "m"): [a["H"] * a["H"].T],
    }


def random_word(rng: Random, by_shape: dict[tuple[str, str], list[Polynomial]], shape: tuple[str, str]) -> Polynomial:
    """A product of up to six letters of the wanted shape."""
    here, length = shape[0], rng.randint(1, 5)
    product: Polynomial | None = None
    for step in range(length):
        there = shape[1] if step == length - 1 else rng.choice(["h", "h", "h", "n", "m"])
        letter = rng.choice(by_shape[here, there])
        product = letter if product is None else product * letter
        here = there
    assert product is not None
    return product


def random_polynomial(rng: Random, a: Alphabet, shape: tuple[str, str]) -> Polynomial:
    """Up to six products, often with common factors, perhaps with a multiple of the identity."""
    by_shape = letters(a)
    out = a.zero(shape)
    for _ in range(rng.randint(1, 3)):
        middle = rng.choice(["h", "n"])
        left, right = random_word(rng, by_shape, (shape[0], middle)), random_word(rng, by_shape, (middle, shape[1]))
        for _ in range(rng.randint(1, 2)):
            inner = random_word(rng, by_shape, (middle, middle))
            out = out + left * inner * right * rng.choice(COEFFICIENTS)
    if shape[0] == shape[1] and rng.random() < 0.4:
        out = out + a.identity(shape[0]) * rng.choice(COEFFICIENTS)
    return out


def random_scalar(rng: Random, a: Alphabet) -> TracePolynomial:
    """Traces, products of traces, sizes and numbers."""
    out = scalar(a, 0)
    for _ in range(rng.randint(1, 3)):
        term = trace(random_polynomial(rng, a, ("h", "h")))
        if rng.random() < 0.3:
            term = (
                term * trace(a["B"]) * trace(a["B"] * a["K"]) * (trace(a["B"]) if rng.random() < 0.5 else trace(a["A"]))
            )
        out = out + term * rng.choice(COEFFICIENTS)
    if rng.random() < 0.4:
        out = (
            out
            + trace(a.identity(rng.choice(["n", "h"]))) * rng.choice(COEFFICIENTS)
            + scalar(a, rng.choice(COEFFICIENTS))
        )
    return out


def random_values(seed: int, batches: dict[str, tuple[int, ...]], sizes: dict[str, int] = SIZES) -> dict[str, Tensor]:
    """Well-conditioned float64 values of every letter, each with its own leading dimensions."""
    generator = torch.Generator().manual_seed(seed)
    out = {}
    for name, shape in SHAPES.items():
        full = (*batches[name], *(sizes[size] for size in shape))
        noise = 0.2 * torch.randn(full, generator=generator, dtype=torch.float64)
        start = torch.linalg.qr(torch.randn(full, generator=generator, dtype=torch.float64))[0]
        value = start if KINDS.get(name) == "orthogonal" else start + noise
        if KINDS.get(name) == "skew":
            value = noise - noise.mT
        out[name] = (noise + noise.mT) if KINDS.get(name) == "symmetric" else value
    return out


def evaluate(polynomial: Polynomial, values: dict[str, Tensor], sizes: dict[str, int] = SIZES) -> Tensor:
    """Word by word, letter by letter, from left to right."""
    rows, columns = (sizes[str(size)] for size in polynomial.shape)
    out = torch.zeros(rows, columns, dtype=torch.float64)
    for word, coefficient in polynomial:
        product = torch.eye(rows, dtype=torch.float64)
        for letter in word:
            if isinstance(letter, InverseLetter):
                value = torch.linalg.inv(evaluate(letter.argument, values, sizes))
            else:
                value = torch.linalg.inv(values[letter.name]) if letter.inverted else values[letter.name]
                value = value.mT if letter.transposed else value
            product = product @ value
        out = out + product * (coefficient.numerator / coefficient.denominator)
    return out


def evaluate_scalar(value: TracePolynomial, values: dict[str, Tensor], sizes: dict[str, int] = SIZES) -> Tensor:
    """Term by term."""
    total = torch.zeros((), dtype=torch.float64)
    for monomial, coefficient in value:
        term = torch.ones((), dtype=torch.float64)
        for factor in monomial:
            if factor.letters:
                matrix = evaluate(value.alphabet.monomial(factor.letters), values, sizes)
                term = term * matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
            else:
                term = term * sizes[str(factor.size)]
        total = total + term * (coefficient.numerator / coefficient.denominator)
    return total
