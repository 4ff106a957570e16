"""Does the group move every point in as many directions as it has? A group that acts by less is refused with its stabiliser."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy as sp
import torch
from sympy import Trace

import quotientgeo as qg
from quotientgeo.errors import CertificateError
from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Claim, Outcome, certify, derive, derive_formulas
from quotientgeo.symbolic.derivation.levels.freeness import _rank_modulo, _smallest_ratio
from quotientgeo.symbolic.derivation.levels.points import has_full_rank, relation
from tests.symbolic.derivation.declarations import CHAIN, PAIR, ROTATED, chain_inner, euclidean, mixed

FREE = "action_free"
NOTHING = Symmetry("nothing", GL("h"), {"G": ("n", "h"), "H": ("m", "h")}, lambda A, G, H: (G, H), lambda G, H: (G, H))
CONJUGATION = Symmetry("conjugation", GL("h"), {"W": ("h", "h")}, lambda A, W: (A * W * A.inv(),), Trace)
TWICE = Symmetry(
    "twice",
    (GL("h"), GL("h")),
    {"G": ("n", "h"), "H": ("m", "h")},
    lambda A, B, G, H: (G * A.inv() * B.inv(), H * A.T * B.T),
)
WIDE = Symmetry("wide", GL(4), {"G": (2, 4), "H": (1, 4)}, lambda A, G, H: (G * A.inv(), H * A.T))


def claim(symmetry: Symmetry, inner: Any, levels: str = "abde") -> Claim:
    geometry = derive_formulas(symmetry, Metric("own", symmetry, inner))
    return certify(geometry, levels, [FREE])[FREE]


def flat(p: Any, a: Any, b: Any) -> Any:
    return sum(Trace(a[name].T * b[name]) for name in p._symbols)


def test_a_group_that_moves_nothing_is_refused(tmp_path: Path) -> None:
    """Every other claim holds: the identity is an action, and preserves whatever is there."""
    geometry = derive(NOTHING, Metric("flat", NOTHING, euclidean), levels="abd")
    assert [c.name for c in geometry.certificate if not c.holds] == [FREE]
    with pytest.raises(CertificateError, match=r"action_free: false[\s\S]*witness at .*X = \[\[1, 0\], \[0, 0\]\]"):
        qg.generate(geometry, tmp_path / "nothing.py")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("symmetry", [NOTHING, CONJUGATION, TWICE, WIDE], ids=lambda s: s.name)
@pytest.mark.parametrize("level", "bde")
def test_every_level_refutes_an_action_that_is_not_free(symmetry: Symmetry, level: str) -> None:
    found = claim(symmetry, flat, level)
    assert found.status == "false"
    assert found.witness is not None


def test_the_witness_is_in_the_stabiliser() -> None:
    """Conjugation: what the certificate names commutes with the point, and is not zero."""
    witness = claim(CONJUGATION, flat).witness
    assert witness is not None
    W, X = (sp.Matrix([[sp.Rational(x) for x in row] for row in witness.values[name]]) for name in ("W", "X"))
    assert not X.is_zero_matrix
    assert (X * W - W * X).is_zero_matrix


@pytest.mark.parametrize(
    ("symmetry", "inner", "steps"),
    [
        (PAIR, mixed, "-G X = 0 gives X = 0, G A^-1 = G gives A = I"),
        (
            CHAIN,
            chain_inner,
            "-G X_1 = 0 gives X_1 = 0, R X_2' = 0 gives X_2 = 0, G A^-1 = G gives A = I, R B' = R gives B = I",
        ),
        (ROTATED, euclidean, "-G X = 0 gives X = 0, G Q' = G gives Q = I"),
    ],
    ids=["pair", "chain", "rotated"],
)
def test_free_actions_are_proven_for_all_sizes(symmetry: Symmetry, inner: Any, steps: str) -> None:
    found = claim(symmetry, inner)
    assert found.status == "proven for all sizes"
    assert [r.outcome for r in found.levels] == [Outcome.PROVEN, *[Outcome.TESTED] * 3]
    assert found.levels[0].residual == steps


def test_the_rank_that_a_proof_needs_is_assumed_by_name() -> None:
    one = Symmetry("one", GL("h"), {"U": ("d", "h")}, lambda A, U: (U * A.inv(),))
    certificate = certify(derive_formulas(one, Metric("flat", one, flat)), "a")
    assert certificate.assumptions[1:] == ("full column rank of U",)
    assert certificate[FREE].levels[0].residual == "-U X = 0 gives X = 0, U A^-1 = U gives A = I"


def test_a_declared_shape_without_full_rank_proves_nothing() -> None:
    found = claim(WIDE, flat)
    assert [r.outcome for r in found.levels] == [Outcome.UNDECIDED, *[Outcome.FALSE] * 3]


def test_an_action_that_the_formulas_alone_do_not_show_to_be_free_is_tested() -> None:
    """A acts on both sides of each of two factors: no formula isolates X, and only scalars commute with both."""
    both = Symmetry(
        "both",
        GL(2),
        {"V": (2, 2), "W": (2, 2), "U": (3, 2)},
        lambda A, V, W, U: (A * V * A.T, A * W * A.inv(), U),
    )
    found = claim(both, flat)
    assert found.levels[0].outcome is Outcome.UNDECIDED
    assert found.status == "tested"


def test_a_singular_map_is_singular_at_every_point() -> None:
    """X -> X W - W X has a kernel: a root of an eigenvalue of the Gram matrix, near 1e-8 by rounding, would not show it."""
    units = torch.eye(9, dtype=torch.float64).reshape(9, 3, 3)
    for seed in range(300):
        W = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert _smallest_ratio((units @ W - W @ units).flatten(1)) < 1e-12
    assert _smallest_ratio(torch.tensor([[1.0], [2.0]], dtype=torch.float64)) == 0.0
    assert _smallest_ratio(torch.tensor([[3.0, 0.0, 0.0], [0.0, 0.0, 1.5]], dtype=torch.float64)) == 0.5
    assert _smallest_ratio(torch.zeros(0, 0, dtype=torch.float64)) == 1.0


def test_ranks_by_elimination() -> None:
    rows = [[Fraction(x) for x in row] for row in ([1, 2, 3], [2, 4, 6], [0, 1, 1])]
    assert _rank_modulo([[int(x) for x in row] for row in rows]) == 2
    assert _rank_modulo([]) == 0
    assert relation(rows) == [-2, 1, 0]
    assert relation(rows[1:]) is None
    assert [has_full_rank(m) for m in (rows, rows[:2], rows[1:], [[x] for x in rows[0]], [[Fraction(0)]])] == [
        False, False, True, True, False,
    ]  # fmt: skip
