"""What the proofs of a metric search are worth: against torch, against planted faults, and that nothing is passed over."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import sympy as sp
import torch
from sympy import Trace

from quotientgeo.symbolic.algebra import trace_from_sympy
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation.calculus import Variable
from quotientgeo.symbolic.derivation.levels.autodiff import TorchArithmetic, TorchCalculus
from quotientgeo.symbolic.derivation.levels.reading import Evaluation
from quotientgeo.symbolic.metric_search import (
    Words,
    completeness,
    search_metrics,
)
from quotientgeo.symbolic.metric_search.candidates import Candidate, candidates
from quotientgeo.symbolic.metric_search.completeness import ResidueArithmetic, changed_rank, rank
from quotientgeo.symbolic.metric_search.invariance import combination, invariants
from quotientgeo.symbolic.metric_search.places import Problem
from tests.symbolic.searched import CHAIN, DIAGONAL, GAIN, NEURON, ORTHOGONAL, PAIR, ROPE, SCALE, SHIFT


def torch_point(problem: Problem, sizes: dict[Any, int], seed: int) -> dict[str, torch.Tensor]:
    """A random point, tangents and an invertible group element."""
    generator = torch.Generator().manual_seed(seed)
    names = problem.symmetry.names
    letters = (*names.factors, *names.tangents, *map(names.second_tangent, names.factors), *names.elements)
    out = {}
    for name in letters:
        rows, columns = (sizes.get(size, size) for size in problem.alphabet.shape(name))
        out[name] = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    return out


@pytest.mark.parametrize("ansatz", [Words(length=3), Words(length=1, two_sided=1, cross=1)])
def test_terms_against_torch(ansatz: Words) -> None:
    """Moved by numbers, with the action written out here: what was found does not change, and what was not does."""
    problem = Problem.of(PAIR)
    forms = candidates(problem, ansatz)
    sizes: dict[Any, int] = {"n": 5, "m": 6, "h": 3}
    here = torch_point(problem, sizes, seed=0)
    inverse, transpose = torch.linalg.inv(here["A"]), here["A"].mT
    there = {
        name: value @ (inverse if name.endswith("G") else transpose) for name, value in here.items() if name != "A"
    }
    before, after = (Evaluation(TorchArithmetic(sizes), values) for values in (here, there))
    found = set(invariants(problem, forms).alone)
    for i, form in enumerate(forms):
        expression = form.value.to_sympy()
        change = (after(expression) / before(expression) - 1).abs().item()
        assert (change < 1e-8) == (i in found), (form.text, change)


@pytest.mark.parametrize(
    ("symmetry", "ansatz"),
    [
        (ORTHOGONAL, Words(length=2)),
        (DIAGONAL, Words(powers=2, two_sided=1, cross=1)),
        (ROPE, Words(powers=1, two_sided=1)),
        (SCALE, Words(length=2)),
        (NEURON, Words(powers=1, cross=1)),
        (SHIFT, Words(length=2, two_sided=1)),
        (GAIN, Words(powers=1, cross=1)),
        (CHAIN, Words(length=3, two_sided=1, cross=1)),
    ],
    ids=lambda value: value.name if isinstance(value, Symmetry) else "",
)
def test_every_group_against_autodiff(symmetry: Symmetry, ansatz: Words) -> None:
    """The declared action at random numbers, tangents pushed forward by torch: invariant is what was found, and only that."""
    problem = Problem.of(symmetry)
    names, alphabet = symmetry.names, symmetry.alphabet()
    sizes: dict[Any, int] = {"n": 5, "m": 6, "h": 4, "k": 4, "d": 4}
    calculus = TorchCalculus(sizes, seed=3)
    letters = (*names.factors, *names.tangents, *map(names.second_tangent, names.factors), *names.elements)
    here = {x: calculus.variable(Variable(x, alphabet.shape(x), alphabet.kind(x).value)) for x in letters}
    action = symmetry.read_action(alphabet)

    def moved(*point: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = {**here, **dict(zip(names.factors, point, strict=True))}
        return tuple(Evaluation(calculus, values)(expression) for expression, _ in action.values())

    there = dict(here)
    point = tuple(here[f] for f in names.factors)
    for rename in (names.tangent, names.second_tangent):
        images, pushed = torch.autograd.functional.jvp(moved, point, tuple(here[rename(f)] for f in names.factors))
        there |= dict(zip(names.factors, images, strict=True))
        there |= dict(zip(map(rename, names.factors), pushed, strict=True))
    before, after = Evaluation(calculus, here), Evaluation(calculus, there)
    forms = candidates(problem, ansatz)
    found = set(invariants(problem, forms).alone)
    assert found
    for i, form in enumerate(forms):
        expression = form.value.to_sympy()
        change = (after(expression) / before(expression) - 1).abs().item()
        assert (change < 1e-8) == (i in found), (form.text, change)


def test_planted_words_are_not_found() -> None:
    """Neighbours of the invariant words are in the ansatz, and not among the terms; a wrong action finds other ones."""
    found = search_metrics(PAIR, Words(length=3))
    alphabet = PAIR.alphabet()
    values = {trace_from_sympy(term.expression, alphabet) for term in found}
    planted = [
        lambda p, a, b: Trace((p.H.T * p.H).I * a.G.T * b.G),
        lambda p, a, b: Trace(a.G.T * b.G),
        lambda p, a, b: Trace(p.G.T * p.G * p.H.T * p.H * p.G.T * p.G * a.G.T * b.G),
        lambda p, a, b: Trace((p.G.T * p.G).I * a.H.T * b.H),
    ]
    forms = {str(form.value) for form in candidates(Problem.of(PAIR), Words(length=3))}
    for inner in planted:
        value = Metric("planted", PAIR, inner).read_inner(alphabet)[1]
        assert str(value) in forms
        assert value not in values
    plain = Problem.of(PAIR)
    wrong = dataclasses.replace(plain, pushed={**plain.pushed, "G": plain.tangent("G")})  # tangents left where they are
    forms_of = candidates(plain, Words(length=1))
    assert len(invariants(wrong, forms_of).alone) != len(invariants(plain, forms_of).alone)


def test_combinations_are_found() -> None:
    """Forms that are invariant only together: good + bad and good - 2 bad hold good, and nothing of bad."""
    problem = Problem.of(PAIR)
    forms = {form.text: form.value for form in candidates(problem, Words(length=1))}
    good, bad = forms["tr(H' H xi_G' eta_G)"], forms["tr(xi_G' eta_G)"]
    mixed = [Candidate(("G",), "plus", good + bad), Candidate(("G",), "minus", good - bad * 2)]
    found = invariants(problem, mixed)
    assert not found.alone
    ((weights),) = found.combined
    assert combination(mixed, weights) == good * 3
    mixed.append(Candidate(("G",), "other", forms["tr((H' H)^-1 xi_G' eta_G)"]))
    assert invariants(problem, mixed).combined == found.combined


def test_completeness_counts_what_normal_forms_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invariant form that the proof passed over would be seen: its changes have no full rank."""
    problem = Problem.of(PAIR)
    forms = candidates(problem, Words(length=3))
    found = invariants(problem, forms)
    changed = [forms[i].value for i in found.changed if forms[i].factors == ("G",)]
    missed = [forms[i].value for i in found.alone if forms[i].factors == ("G",)]
    sizes: dict[Any, int] = {"n": 4, "m": 5, "h": 3}
    assert changed_rank(problem, changed, sizes) == len(changed)
    assert changed_rank(problem, [*changed, missed[0]], sizes) == len(changed)
    assert changed_rank(problem, [*changed, missed[0] + changed[0]], sizes) == len(changed)
    monkeypatch.setattr("quotientgeo.symbolic.metric_search.finder.changed_rank", lambda *given: 0)
    assert "is not decided for forms in G, H" in search_metrics(PAIR, Words(length=1)).scope


def test_residues() -> None:
    """The arithmetic modulo the prime against SymPy's rational numbers."""
    assert sp.isprime(completeness.PRIME)
    assert completeness.PRIME < 2**31
    arithmetic = ResidueArithmetic({})
    rows = [[3, -7, 2], [5, 11, -4], [1, 6, 9]]
    exact = sp.Matrix(rows)
    value = torch.tensor(rows).numpy() % completeness.PRIME

    def residues(matrix: sp.Matrix) -> list[list[int]]:
        return [
            [int(x.p) * pow(int(x.q), -1, completeness.PRIME) % completeness.PRIME for x in row]
            for row in matrix.tolist()
        ]

    assert arithmetic.inverse(value[None])[0].tolist() == residues(exact.inv())
    assert arithmetic.product(value, value).tolist() == residues(exact * exact)
    assert arithmetic.trace(value).tolist() == [[23]]
    assert rank(value) == 3
    assert rank(value[[0, 1, 0]]) == 2
