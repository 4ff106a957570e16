"""Geometries whose equations no one-sided product solves: what is solved at run time, as formulas.

The metric lowers a tangent, M(xi) = gradient of <xi, eta> in eta: linear in xi, symmetric, and positive definite where the
metric is. Everything that has a closed form elsewhere is here the solution of an equation M(x) = y with a known right side y:
the Euclidean gradient, the force of the Euler-Lagrange equations, and its derivatives in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import pairwise

from quotientgeo.symbolic.algebra import Alphabet, Polynomial, TracePolynomial
from quotientgeo.symbolic.declaration import Names

Blocks = dict[str, Polynomial]
Letters = Mapping[int, Mapping[str, str]]  # order k -> factor -> the letter that stands for its k-th derivative in time


def declare_rates(alphabet: Alphabet, names: Names, orders: Iterable[int]) -> dict[int, dict[str, str]]:
    """Letters for the time derivatives of these orders, each a matrix of the shape and kind of its factor."""
    out: dict[int, dict[str, str]] = {}
    for k in orders:
        out[k] = {}
        for f in names.factors:
            (out[k][f],) = alphabet.declare_fresh(f"x{k}_{f}", alphabet.shape(f), alphabet.kind(f)).symbols()
    return out


def lowered(names: Names, inner: TracePolynomial) -> Blocks:
    """M(xi) with <xi, eta> = sum over factors of tr(M(xi)' eta) for every eta."""
    return {f: inner.gradient(names.second_tangent(f)) for f in names.factors}


def force(alphabet: Alphabet, names: Names, inner: TracePolynomial, metric: Blocks) -> Blocks:
    """M(x'') along geodesics: dL/dp - (dM/dp)[xi](xi) for L = 1/2 <xi, xi>, from Euler-Lagrange, d/dt M(xi) = dL/dp."""
    lagrangian = inner.substitute({names.second_tangent(f): alphabet[names.tangent(f)] for f in names.factors})
    motion = {f: alphabet[names.tangent(f)] for f in names.factors}
    return {f: lagrangian.gradient(f) * Fraction(1, 2) - metric[f].differential(motion) for f in names.factors}


def next_force(
    alphabet: Alphabet, names: Names, metric: Blocks | None, before: Blocks, k: int, rates: Letters
) -> Blocks:
    """What equals M(x_k), or x_k without a ``metric``: d/dt of M(x_(k-1)) = ``before``, with x_2, ..., x_(k-1) as letters."""
    chain = [{f: f for f in names.factors}, {f: names.tangent(f) for f in names.factors}]
    chain += [dict(rates[j]) for j in range(2, k)]
    flow = {now[f]: alphabet[after[f]] for now, after in pairwise(chain) for f in names.factors}
    out = {f: value.differential(flow) for f, value in before.items()}
    if metric is None:
        return out
    motion = {f: alphabet[names.tangent(f)] for f in names.factors}
    highest = {names.tangent(f): alphabet[rates[k - 1][f]] for f in names.factors}
    return {f: out[f] - metric[f].substitute(highest).differential(motion) for f in names.factors}


def staged(
    alphabet: Alphabet, names: Names, metric: Blocks | None, second: Blocks, order: int, rates: Letters
) -> dict[int, Blocks]:
    """{k: M(x_k), or x_k, in the letters p, xi, x_2, ..., x_(k-1)} for k = 2..order, from that of order 2."""
    out = {2: second}
    for k in range(3, order + 1):
        out[k] = next_force(alphabet, names, metric, out[k - 1], k, rates)
    return out


def polarised(alphabet: Alphabet, names: Names, quadratic: Blocks) -> Blocks:
    """-1/2 (q(xi + eta) - q(xi) - q(eta)): symmetric, bilinear, and -q(xi) for eta = xi."""
    second = {names.tangent(f): alphabet[names.second_tangent(f)] for f in names.factors}
    both = {tangent: alphabet[tangent] + eta for tangent, eta in second.items()}
    return {f: (q.substitute(both) - q - q.substitute(second)) * Fraction(-1, 2) for f, q in quadratic.items()}


def coupled(names: Names, metric: Blocks) -> list[tuple[str, ...]]:
    """The factors in groups, such that M on one group's tangents does not leave it; in the order of the factors."""
    groups: list[set[str]] = []
    for f in names.factors:
        met = {g for g in names.factors if names.tangent(g) in metric[f].symbols()} | {f}
        touching = [group for group in groups if group & met]
        groups = [group for group in groups if group not in touching] + [met.union(*touching)]
    ordered = [tuple(f for f in names.factors if f in group) for group in groups]
    return sorted(ordered, key=lambda group: names.factors.index(group[0]))
