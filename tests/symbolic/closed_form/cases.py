"""Geometries of the catalogue with closed forms, derived without a certificate, and variations of solutions that are wrong."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sympy as sp

import quotientgeo.catalogue
from quotientgeo.symbolic.closed_form.functions import Cosine, Sine
from quotientgeo.symbolic.closed_form.reduction import reduced
from quotientgeo.symbolic.closed_form.solving import TIME, Solved, solve
from quotientgeo.symbolic.derivation import Geometry
from quotientgeo.symbolic.derivation.pipeline import derive_formulas

CATALOGUE = Path(quotientgeo.catalogue.__file__).parent
STRAIGHT = ["key_bias_flat", "orthogonal_pair_euclidean", "parallel_biases_flat"]
CYLINDERS = [
    "diagonal_network_invariant",
    "layer_rescaling_invariant",
    "neuron_rescaling_invariant",
    "normalised_weight_invariant",
    "rope_pair_interleaved_invariant",
    "rope_pair_invariant",
]
CONES = [
    "diagonal_network_mixed",
    "layer_rescaling_mixed",
    "neuron_rescaling_mixed",
    "rope_pair_interleaved_mixed",
    "rope_pair_mixed",
]
ENDING = ["value_bias_flat"]  # polynomials in t
HYPERBOLIC = ["norm_gain_affine_invariant", "norm_gain_invariant"]
CLOSED = sorted([*STRAIGHT, *CYLINDERS, *CONES, *HYPERBOLIC])
OPEN = sorted({path.parent.name for path in CATALOGUE.glob("*/declaration.py")} - {*CLOSED, *ENDING})
ONE_OF_EACH = [
    "diagonal_network_mixed",
    "neuron_rescaling_mixed",
    "norm_gain_affine_invariant",
    "normalised_weight_invariant",
]


@cache
def geometry(name: str) -> Geometry:
    path = CATALOGUE / name / "declaration.py"
    spec = importlib.util.spec_from_file_location(f"_closed_form_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return derive_formulas(module.symmetry, module.metric)


@cache
def solution(name: str) -> Solved:
    return solve(reduced(geometry(name)))


def wrong_expressions(value: sp.Expr) -> Iterator[sp.Expr]:
    """The expression with one factor, sign, exponent or function of it changed."""
    yield -value
    yield 2 * value
    for node in sorted(value.atoms(sp.Symbol, Cosine, Sine, sp.exp, sp.Pow), key=str):
        if node.is_Pow:
            yield value.xreplace({node: node.base ** (2 * node.exp)})
        elif isinstance(node, Cosine | Sine):
            other = Sine if isinstance(node, Cosine) else Cosine
            yield value.xreplace({node: other(*node.args)})
            yield value.xreplace({node: type(node)(2 * node.args[0], node.args[1])})
        elif isinstance(node, sp.exp):
            yield value.xreplace({node: sp.exp(-node.args[0])})
            yield value.xreplace({node: sp.exp(node.args[0] / 2)})
        else:
            yield value.xreplace({node: 2 * node})
            if node != TIME:  # in which the cosine is even
                yield value.xreplace({node: -node})


def mutants(name: str) -> Iterator[tuple[str, Solved]]:
    """(what was changed, a solution with it), each of them wrong."""
    right = solution(name)
    for factor, found in right.solutions.items():
        for part in ("along", "across", "drift"):
            value = getattr(found, part)
            if value == 0 or (part == "drift" and found.across == 0):
                continue
            for i, other in enumerate(wrong_expressions(value)):
                if other != value and sp.simplify(other - value) != 0:
                    changed = {**right.solutions, factor: dataclasses.replace(found, **{part: other})}
                    yield f"{part} of {factor}, {i}", dataclasses.replace(right, solutions=changed)
    for symbol, value in right.definitions.items():
        for i, other in enumerate(wrong_expressions(value)):
            if other != value and sp.simplify(other - value) != 0:
                yield f"{symbol}, {i}", dataclasses.replace(right, definitions={**right.definitions, symbol: other})
