"""Controls of the comparison in test_oracle.py: faults that it must see, each planted here."""

import pytest
import torch

import quotientgeo as qg
from tests.oracle.geometry import METRICS, join, metric_tensor, shape_of, vertical_vectors
from tests.oracle.maxima import load_maxima
from tests.oracle.measure import Tangent, oracle_loss, pair_factors
from tests.oracle.models import CASES, Case
from tests.oracle.package_side import Problem, declared

RHO = 0.1
LOSS_AGREEMENT = 1e-8
every_metric = pytest.mark.parametrize("metric", METRICS)
every_case = pytest.mark.parametrize("name", CASES)


def skewed(case: Case, metric: str, tangent: Tangent) -> Tangent:
    """The same tangent with a vertical vector of its own length added to every pair."""
    pairs = {}
    for name, (G, H) in pair_factors(case).items():
        shape, xi = shape_of(G, H), join(*tangent.pairs[name])
        tensor, vertical = metric_tensor(metric, join(G, H), shape), vertical_vectors(G, H).sum(0)
        length = ((xi @ tensor @ xi) / (vertical @ tensor @ vertical)) ** 0.5
        pairs[name] = shape.split(xi + length * vertical)
    return Tangent(pairs, tangent.rest)


@every_metric
def test_only_the_horizontal_part_counts(metric: str) -> None:
    """The package projects; the oracle, which does not, ends elsewhere along the skewed tangent."""
    case, problem = CASES["causal"], Problem.of(CASES["causal"], metric, RHO)
    maximum = next(m for m in load_maxima() if (m.case, m.metric, m.rho) == ("causal", metric, RHO))
    expected, tangent = maximum.base_loss + maximum.value, skewed(case, metric, maximum.tangent)
    assert abs(float(problem.ascent.value(problem.coordinates(tangent))) - expected) < LOSS_AGREEMENT
    assert abs(oracle_loss(case, metric, tangent) - expected) > 1e3 * LOSS_AGREEMENT


@every_case
def test_the_other_metric_ends_elsewhere(name: str) -> None:
    """One metric's horizontal tangent, handed to the other metric's problem, is told apart at the loss tolerance."""
    problem, other = (Problem.of(CASES[name], metric, RHO) for metric in METRICS)
    z = problem.ascent.atlas.random_point(torch.Generator().manual_seed(11), RHO)
    expected = oracle_loss(CASES[name], METRICS[0], problem.tangent(z))
    found = float(other.ascent.value(other.coordinates(problem.tangent(z))))
    assert abs(found - expected) > 1e2 * LOSS_AGREEMENT


@every_case
@every_metric
def test_a_ball_five_percent_too_large_leaves_the_band(name: str, metric: str) -> None:
    """The band of 1 % is narrow enough to see a norm that is off by a few percent."""
    maximum = next(m for m in load_maxima() if (m.case, m.metric, m.rho) == (name, metric, RHO))
    model = CASES[name].module()
    graph = declared(model, CASES[name].blocks())
    result = qg.sharpness(model, CASES[name].loss, [CASES[name].batch()], metric=metric, rho=1.05 * RHO, graph=graph)
    assert result.value > 1.01 * maximum.value
