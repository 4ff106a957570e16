"""The oracle is checked before it checks anything: each test also sees a planted fault fail."""

import ast
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.oracle import geometry, integrator, make_models, search
from tests.oracle.geometry import METRICS, Shape, join
from tests.oracle.landscape import Landscape
from tests.oracle.make_maxima import RADII, compute
from tests.oracle.maxima import Maximum, load_maxima
from tests.oracle.measure import (
    Tangent,
    base_loss,
    end_point,
    factors_of,
    pair_factors,
    rest_masks,
    side_positions,
    tangent_norm,
    vertical_residual,
)
from tests.oracle.models import CASES, Case, Parameters, mean_loss

RHO = 0.1
# the only files of this folder that may know the package: they compare the two
PACKAGE_SIDE = ("package_side.py", "test_oracle.py", "test_oracle_controls.py")
# one pair of each shape and kind: (case, pair)
PAIRS = (
    ("classifier", "attentions.1.0.QK"),
    ("classifier", "attentions.0.1.VO"),
    ("causal", "attentions.0.2.QK"),
    ("funnel", "attentions.0.0.VO"),
    ("funnel", "attentions.1.1.VO"),
    ("cross", "attentions.1.1.QK"),
    ("cross", "attentions.1.0.VO"),
)
every_pair = pytest.mark.parametrize(("case", "pair"), PAIRS)
every_metric = pytest.mark.parametrize("metric", METRICS)
every_case = pytest.mark.parametrize("name", list(CASES))


def block(case: str, pair: str) -> tuple[Tensor, Tensor, Shape]:
    G, H = pair_factors(CASES[case])[pair]
    return G, H, geometry.shape_of(G, H)


def random_tangent(basis: Tensor, length: float, seed: int = 0) -> Tensor:
    y = torch.randn(basis.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return basis @ (length * y / y.norm())


def relative(metric: str, q: Tensor, shape: Shape, found: Tensor, expected: Tensor) -> float:
    """Metric norm of the difference over the metric norm of what is expected."""
    tensor = geometry.metric_tensor(metric, q, shape)
    difference = found - expected
    return float((difference @ tensor @ difference) ** 0.5 / (expected @ tensor @ expected) ** 0.5)


def test_shares_no_code_with_the_package() -> None:
    for file in Path(__file__).parent.glob("*.py"):
        if file.name in PACKAGE_SIDE:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("quotientgeo")], file.name


def literal_inner(W_G: Tensor, W_H: Tensor, a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> Tensor:
    """tr(W_G a_G' b_G) + tr(W_H a_H' b_H), as the metric is written, for single tangent vectors."""
    return torch.trace(W_G @ a[0].T @ b[0]) + torch.trace(W_H @ a[1].T @ b[1])


@every_pair
@every_metric
def test_inner_is_the_metric_as_defined(case: str, pair: str, metric: str) -> None:
    G, H, shape = block(case, pair)
    generator = torch.Generator().manual_seed(0)
    size = (shape.n + shape.m) * shape.h
    a, b = (shape.split(torch.randn(size, generator=generator, dtype=torch.float64)) for _ in range(2))
    P, Q = G.T @ G, H.T @ H
    weights = {"invariant": (torch.linalg.inv(P), torch.linalg.inv(Q)), "mixed": (Q, P)}[metric]
    found = geometry.inner(metric, G, H, *((x[None], y[None]) for x, y in (a, b)))[0, 0]
    scale = (literal_inner(*weights, a, a) * literal_inner(*weights, b, b)) ** 0.5
    assert float(abs(found - literal_inner(*weights, a, b)) / scale) < 1e-9
    assert float(abs(found - literal_inner(*reversed(weights), a, b)) / scale) > 1e-3


@every_pair
@every_metric
def test_christoffel_route_is_the_euler_lagrange_route(case: str, pair: str, metric: str) -> None:
    G, H, shape = block(case, pair)
    q = join(G, H)
    frame = geometry.orthonormal_frame(metric, q, shape)
    xi = random_tangent(frame, 1.0)  # any direction, not only horizontal ones
    expected = geometry.lagrange_acceleration(metric, q, xi, shape)
    in_components = geometry.christoffel_acceleration(metric, q, xi, shape)
    in_frame = frame @ geometry.christoffel_acceleration(metric, q, torch.linalg.inv(frame) @ xi, shape, frame)
    by_hand = integrator.acceleration(metric, *(torch.stack(pad(part, shape))[:, None] for part in (q, xi)))
    assert relative(metric, q, shape, in_components, expected) < 1e-10
    assert relative(metric, q, shape, in_frame, expected) < 1e-10
    assert relative(metric, q, shape, unpad(by_hand[:, 0], shape), expected) < 1e-9
    assert relative(metric, q, shape, 2 * in_components, expected) > 0.5  # a missing factor 1/2
    other = METRICS[1 - METRICS.index(metric)]
    assert relative(metric, q, shape, geometry.christoffel_acceleration(other, q, xi, shape), expected) > 1e-2


def pad(q: Tensor, shape: Shape) -> list[Tensor]:
    rows = max(shape.n, shape.m)
    return [torch.nn.functional.pad(part, (0, 0, 0, rows - len(part))) for part in shape.split(q)]


def unpad(stacked: Tensor, shape: Shape) -> Tensor:
    return join(stacked[0, : shape.n], stacked[1, : shape.m])


@every_metric
def test_forward_mode_derivative_of_the_metric_tensor_is_the_reverse_mode_one(metric: str) -> None:
    G, H, shape = block("causal", "attentions.0.0.QK")
    q = join(G, H)
    derivative = torch.autograd.functional.jacobian(lambda p: geometry.metric_tensor(metric, p, shape), q)
    first_kind = 0.5 * (derivative.permute(0, 2, 1) + derivative - derivative.permute(2, 0, 1))
    found = geometry.christoffel(metric, q, shape)
    assert float((found - first_kind).abs().max() / first_kind.abs().max()) < 1e-12
    assert float((found - derivative).abs().max() / first_kind.abs().max()) > 1e-2


@every_pair
@every_metric
def test_search_integrator_agrees_with_dop853(case: str, pair: str, metric: str) -> None:
    G, H, shape = block(case, pair)
    q = join(G, H)
    xi = random_tangent(geometry.horizontal_basis(metric, G, H), RHO)
    exact = geometry.geodesic(metric, G, H, *shape.split(xi))
    Y, V = (torch.stack(pad(part, shape))[:, None] for part in (q, xi))

    def error(sweeps: int) -> float:
        end = unpad(integrator.collocate(metric, Y, V, sweeps=sweeps)[:, 0], shape)
        return relative(metric, q, shape, end - q, join(exact.G, exact.H) - q)

    assert error(integrator.SWEEPS) < 1e-9
    assert error(1) > 1e-9
    assert exact.energy_drift < 1e-11
    straight = relative(metric, q, shape, xi, join(exact.G, exact.H) - q)
    assert straight > 1e-3  # a straight line ends elsewhere


@every_pair
@every_metric
def test_horizontal_space(case: str, pair: str, metric: str) -> None:
    G, H, shape = block(case, pair)
    q = join(G, H)
    tensor, basis = geometry.metric_tensor(metric, q, shape), geometry.horizontal_basis(metric, G, H)
    assert basis.shape == ((shape.n + shape.m) * shape.h, shape.n * shape.h + shape.m * shape.h - shape.h**2)
    assert float((basis.T @ tensor @ basis - torch.eye(basis.shape[1], dtype=torch.float64)).abs().max()) < 1e-9
    assert geometry.vertical_cosine(metric, G, H, random_tangent(basis, 1.0)) < 1e-11
    for vertical in geometry.vertical_vectors(G, H):
        V_G, V_H = shape.split(vertical)
        slope = V_G @ H.T + G @ V_H.T  # derivative of G H' along the vertical vector
        assert float(slope.norm()) < 1e-12 * float(G.norm() * H.norm())
        assert geometry.vertical_cosine(metric, G, H, vertical) > 0.999
        constraint = geometry.horizontal_constraint(metric, G, H)
        assert float((constraint @ vertical).norm() / vertical.norm()) > 1e-2  # the constraint rejects it
    other = METRICS[1 - METRICS.index(metric)]
    wrong = random_tangent(geometry.horizontal_basis(other, G, H), 1.0)
    assert geometry.vertical_cosine(metric, G, H, wrong) > 1e-3


@every_case
def test_every_parameter_entry_is_moved_once_or_frozen(name: str) -> None:
    case = CASES[name]
    folded, blocks = case.folded(), case.blocks()
    count = torch.zeros(sum(tensor.numel() for tensor in folded.values()), dtype=torch.int64)
    for pair in blocks.pairs:
        for views in (pair.G, pair.H):
            count[side_positions(folded, views).reshape(-1)] += 1
    for shift in blocks.shifts:
        count[side_positions(folded, (shift.bias,)).reshape(-1)] += 1
    masks = rest_masks(case)
    no = torch.tensor(False)
    count += torch.cat([masks.get(key, no.expand(tensor.shape)).reshape(-1) for key, tensor in folded.items()]).long()
    count += torch.cat([(tensor == 0).reshape(-1) for tensor in folded.values()]).long()  # zero weights stay zero
    zero_and_frozen = sum(len(shift.bias.indices) for shift in blocks.shifts)
    assert int((count == 0).sum()) == 0
    assert int((count > 1).sum()) == zero_and_frozen
    assert int(count.max()) <= 2


class Moved(Case):
    """The same model elsewhere on its orbit."""

    def parameters(self) -> Parameters:
        return make_models.move(super().parameters(), self.blocks(), torch.Generator().manual_seed(7), condition=4.0)


@every_case
def test_folding_and_moving_keep_the_function(name: str) -> None:
    case = CASES[name]
    moved = Moved(case.name, case.build, case.seed)
    stored = float(mean_loss(case, case.parameters()))
    assert abs(base_loss(case) - stored) < 1e-12
    assert abs(float(mean_loss(case, moved.parameters())) - stored) < 1e-12
    broken = {key: tensor for key, tensor in moved.parameters().items() if "query" not in key and "qkv" not in key}
    assert abs(float(mean_loss(case, case.parameters() | broken)) - stored) > 1e-3


@every_case
@every_metric
def test_the_measure_does_not_depend_on_the_gauge(name: str, metric: str) -> None:
    """Gradient norm in y and the value along it are those of the moved model; with straight lines they are not."""
    case = CASES[name]
    landscapes = [Landscape(each, metric, RHO) for each in (case, Moved(case.name, case.build, case.seed))]
    gradients = [each.value_and_gradient(np.zeros(each.dimension))[1] for each in landscapes]
    lengths = [np.linalg.norm(gradient) for gradient in gradients]
    assert abs(lengths[1] / lengths[0] - 1) < 1e-8
    values = [
        each.value_and_gradient(g / length)[0] for each, g, length in zip(landscapes, gradients, lengths, strict=True)
    ]
    assert abs(values[1] - values[0]) < 1e-9
    folded = [case.folded(), landscapes[1].case.folded()]
    euclidean = []
    for parameters in folded:
        leaves = {key: tensor.requires_grad_() for key, tensor in parameters.items()}
        parts = torch.autograd.grad(mean_loss(case, leaves), list(leaves.values()))
        euclidean.append(float(sum(part.square().sum() for part in parts)) ** 0.5)
    assert abs(euclidean[1] / euclidean[0] - 1) > 1e-2


@pytest.mark.parametrize("name", ["causal", "cross"])
@every_metric
def test_gradient_is_the_slope(name: str, metric: str) -> None:
    landscape = Landscape(CASES[name], metric, RHO)
    generator = np.random.default_rng(0)
    y, direction = (0.5 * u / np.linalg.norm(u) for u in generator.standard_normal((2, landscape.dimension)))
    slope = landscape.value_and_gradient(y)[1] @ direction
    values = [landscape.value_and_gradient(y + step * direction)[0] for step in (-1e-4, 1e-4)]
    assert abs((values[1] - values[0]) / 2e-4 - slope) < 1e-7
    assert abs(slope) > 1e-5


@every_case
def test_mixed_geodesics_exist_in_the_whole_ball(name: str) -> None:
    for pair in CASES[name].blocks().pairs:
        G, H = factors_of(CASES[name].folded(), pair)
        assert float(torch.linalg.svdvals(G @ H.T)[G.shape[1] - 1]) / 2**0.5 > RHO


@every_case
def test_every_head_is_at_a_skewed_gauge(name: str) -> None:
    """Condition of G and H near 100: the oracle is of no use in a balanced gauge."""
    for G, H in pair_factors(CASES[name]).values():
        condition = [float(s[0] / s[-1]) for s in (torch.linalg.svdvals(G), torch.linalg.svdvals(H))]
        assert min(condition) > 10
        assert max(condition) > 30


@cache
def stored_maxima() -> dict[tuple[str, str, float], Maximum]:
    return {(maximum.case, maximum.metric, maximum.rho): maximum for maximum in load_maxima()}


def stored_maximum(case: str, metric: str, rho: float) -> Maximum:
    return stored_maxima()[case, metric, rho]


def check_stored(stored: Maximum) -> None:
    """Feasible, horizontal, and its value is the loss at the end of the geodesic."""
    case = CASES[stored.case]
    assert abs(base_loss(case) - stored.base_loss) < 1e-10
    assert abs(tangent_norm(case, stored.metric, stored.tangent) / stored.rho - 1) < 1e-9
    assert vertical_residual(case, stored.metric, stored.tangent) < 1e-9
    end = end_point(case, stored.metric, stored.tangent)
    assert abs(end.loss - stored.base_loss - stored.value) < 1e-9
    assert end.smallest_singular_ratio > 0.5


def check_recomputed(stored: Maximum) -> None:
    found = compute(CASES[stored.case], stored.metric, stored.rho)
    assert found.value > stored.value * (1 - 1e-4)
    assert found.value < stored.value * (1 + 1e-2), "better than the store: run python -m tests.oracle.make_maxima"


def test_all_thirty_maxima_are_stored() -> None:
    assert set(stored_maxima()) == set(product(CASES, METRICS, (0.01, 0.05, 0.1)))
    for maximum in stored_maxima().values():
        assert maximum.value > 0
        assert maximum.details["stationarity"] < 1e-3
        assert maximum.details["multiplier"] > 0


@every_metric
def test_one_stored_maximum_per_metric(metric: str) -> None:
    stored = stored_maximum("causal", metric, 0.1)
    check_stored(stored)
    name = "attentions.0.0.QK"
    xi_G, xi_H = stored.tangent.pairs[name]
    doubled = Tangent(stored.tangent.pairs | {name: (2 * xi_G, 2 * xi_H)}, stored.tangent.rest)
    assert abs(end_point(CASES["causal"], metric, doubled).loss - stored.base_loss - stored.value) > 1e-6


def test_one_maximum_recomputed() -> None:
    check_recomputed(stored_maximum("causal", "mixed", 0.01))


def test_a_lazy_search_is_seen_to_fall_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without iterations or polish the search stays below the stored maximum: the recomputation can fail."""
    for step in ("trust_constr", "polish"):
        monkeypatch.setattr(search, step, lambda landscape, y: y)
    stored = stored_maximum("causal", "mixed", 0.01)
    assert search.maximise(CASES["causal"], "mixed", 0.01).best.value < stored.value * (1 - 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rho", RADII)
@every_metric
@every_case
def test_every_stored_maximum(name: str, metric: str, rho: float) -> None:
    stored = stored_maximum(name, metric, rho)
    check_stored(stored)
    check_recomputed(stored)
