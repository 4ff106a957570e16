"""Scalars to graphs: traces as elementwise contractions, collected around the letters in which they are linear."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from quotientgeo.symbolic.algebra import Kind, Monomial, TraceLetter, TracePolynomial
from quotientgeo.symbolic.algebra.normalisation import runs
from quotientgeo.symbolic.codegen.builder import Builder, is_inverse, word_shape
from quotientgeo.symbolic.codegen.chain import chain_cost
from quotientgeo.symbolic.codegen.elementwise import is_run
from quotientgeo.symbolic.codegen.graph import SCALAR, Operation, Value, extent


def scalar_output(builder: Builder, scalar: TracePolynomial) -> Value:
    """The value of a scalar.

    All terms linear in a letter Z are one contraction tr(D' Z), with D the gradient in Z; what is linear in no letter is
    evaluated term by term.
    """
    terms: list[Value] = []
    rest = scalar
    order = list(scalar.alphabet)
    for name, linear in sorted(_linear_parts(rest), key=lambda part: order.index(part[0])):
        gradient = linear.gradient(name)
        if not gradient.is_zero:
            letter = builder.graph.argument(name, gradient.shape)
            terms.append(builder.graph.contraction(builder.matrix(gradient), letter))
        rest = rest - linear
    for monomial, coefficient in rest:
        factors = tuple(map(builder.number, monomial)) or (builder.graph.constant(Operation.ONE, SCALAR),)
        terms.append(builder.graph.scalar_product(factors).times(coefficient))
    if not terms:
        return builder.graph.constant(Operation.ONE, SCALAR).times(Fraction(0))
    return builder.graph.sum(tuple(terms), SCALAR)


def _linear_parts(scalar: TracePolynomial) -> Iterable[tuple[str, TracePolynomial]]:
    """(letter, the terms linear in it), the letter with most such terms first; later names win ties (eta before xi)."""
    alphabet, rest = scalar.alphabet, dict(scalar.terms)
    names = [name for name in alphabet if alphabet.kind(name) in (Kind.GENERAL, Kind.VECTOR)]
    linear = {name: [m for m in rest if len(m) == 1 and _is_linear(scalar, m, name)] for name in names}
    while True:
        left = {name: [m for m in linear[name] if m in rest] for name in names}
        name = max(names, key=lambda candidate: (len(left[candidate]), names.index(candidate)), default="")
        if not name or not left[name]:
            return
        yield name, TracePolynomial(alphabet, {monomial: rest.pop(monomial) for monomial in left[name]})


def _is_linear(scalar: TracePolynomial, monomial: Monomial, name: str) -> bool:
    return TracePolynomial(scalar.alphabet, {monomial: Fraction(1)}).occurrences(name) == {1}


def trace_value(builder: Builder, factor: TraceLetter) -> Value:
    """Trace of one cyclic word, cut into two halves u v where tr(u v) = sum u * v' costs least."""
    word, graph = factor.letters, builder.graph
    if not word:
        return graph.constant(Operation.SIZE, SCALAR, factor.size)
    spans = [span for span in runs(word) if word[span[0]].family is Kind.DIAGONAL]
    if len(spans) == 1:
        ((start, end),) = spans
        column, rest = builder.columns.of_run(word[start:end], word[start].rows), word[end:] + word[:start]
        if rest:
            column = graph.elementwise(column, builder.columns.of_diagonal(rest))
        return graph.entries(column)
    best: tuple[int, int, int] | None = None
    lengths = [extent(letter.rows, builder.sizes) for letter in word]
    for i in range(len(word)):
        for j in range(i + 1, len(word)):
            halves = (word[i:j], word[j:] + word[:i])
            if any(map(is_run, halves)):
                continue
            cost = lengths[i] * lengths[j]
            for half in halves:
                sizes = [extent(letter.rows, builder.sizes) for letter in half]
                cost += chain_cost((*sizes, extent(half[-1].columns, builder.sizes)), tuple(map(is_inverse, half)))
            if best is None or (cost, i, j) < best:
                best = (cost, i, j)
    if best is None:
        return graph.trace(builder.value({word: 1}, word_shape(word)))
    _, i, j = best
    left, right = (builder.value({half: 1}, word_shape(half)) for half in (word[i:j], word[j:] + word[:i]))
    return graph.contraction(left, graph.transpose(right))
