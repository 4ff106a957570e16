"""Diagonal networks: stated constants are those derived, wrong ones are rejected, two coordinates stand for any number."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from quotientgeo.errors import ArgumentError, CertificateError
from quotientgeo.symbolic.examples import DiagonalMeasure, diagonal_claims, prove
from quotientgeo.symbolic.examples.diagonal_network import BETA, ERROR, GRADIENT, GRAM

TARGET = [beta - e for beta, e in zip(BETA, ERROR, strict=True)]
WIDTH, EXAMPLES = 5, 7


def test_every_claim_is_decided_and_only_the_euclidean_one_is_false() -> None:
    claims = diagonal_claims()
    assert len(claims) >= 12
    assert len({claim.name for claim in claims}) == len(claims)
    assert [claim.name for claim in claims if not claim.proven] == ["Euclidean ball"]


@pytest.mark.parametrize(
    ("name", "linear", "curvature", "right"),
    [
        ("invariant", 4, lambda beta, target: 4 * beta * (2 * beta - target), True),
        ("invariant step", 4, lambda beta, target: 4 * beta * (2 * beta - target), True),
        ("mixed", 4, lambda beta, target: 4 * beta**2, True),
        ("adaptive", 4, lambda beta, target: 2 * beta * (3 * beta - target), True),
        ("invariant", 2, lambda beta, target: 4 * beta * (2 * beta - target), False),
        ("invariant", 4, lambda beta, target: 2 * beta * (2 * beta - target), False),
        ("invariant", 4, lambda beta, target: 4 * beta * (beta - target), False),
        ("invariant", 4, lambda beta, target: 4 * beta * (3 * beta - target), False),
        ("invariant", 4, lambda beta, target: 2 * beta * (3 * beta - target), False),  # the adaptive one
        ("adaptive", 4, lambda beta, target: 4 * beta * (2 * beta - target), False),
        ("mixed", 4, lambda beta, target: 2 * beta**2, False),
        ("mixed step", 4, lambda beta, target: 4 * beta**2, True),
    ],
)  # fmt: skip
def test_constants_of_one_coordinate_with_orthonormal_inputs(name: str, linear: int, curvature, right: bool) -> None:
    found = DiagonalMeasure(name).second_order.on_beta().orthonormal()
    differences = (found.linear[0] - linear * BETA[0] * ERROR[0], found.quadratic[0, 0] - curvature(BETA[0], TARGET[0]))
    if right:
        prove(name, "", *differences, found.quadratic[0, 1])
    else:
        with pytest.raises(CertificateError, match="should vanish; it is"):
            prove(name, "", *differences)


def test_the_part_of_the_adaptive_measure_that_leaves_beta_alone_to_first_order() -> None:
    found = DiagonalMeasure("adaptive").second_order.on_beta().orthonormal()
    assert found.quadratic[2, 2] == -2 * BETA[0] * ERROR[0]
    assert found.linear[2] == found.quadratic[0, 2] == 0


@pytest.mark.parametrize(("name", "wrong"), [("invariant", 1), ("mixed", 1), ("adaptive", 1)])
def test_the_radius_is_rho_over_root_two(name: str, wrong: int) -> None:
    """|xi|^2 = 2 |b|^2 (mixed: 2 |beta_0 b|^2), not |b|^2."""
    measure = DiagonalMeasure(name)
    weights = [(sp.prod(pair) if name == "mixed" else 1) for pair in _points()]
    squares = sum((z * w) ** 2 for z, w in zip(measure.coordinates, weights * 2, strict=False))
    prove("norm", "", measure.squared_norm - 2 * squares)
    with pytest.raises(CertificateError):
        prove("norm", "", measure.squared_norm - wrong * squares)


def _points() -> list[tuple[sp.Symbol, sp.Symbol]]:
    from quotientgeo.symbolic.examples.diagonal_network import U, V

    return list(zip(U, V, strict=True))


@pytest.mark.parametrize("name", ["invariant", "invariant step", "mixed", "mixed step", "adaptive", "euclidean"])
def test_two_coordinates_stand_for_any_number(name: str) -> None:
    """A network of width five in numpy: its rise minus the derived expansion falls with the third power of the radius."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((EXAMPLES, WIDTH)), rng.standard_normal(EXAMPLES)
    u, v = rng.uniform(0.5, 1.5, (2, WIDTH)) * rng.choice([-1.0, 1.0], (2, WIDTH))
    halves = 1 if len(DiagonalMeasure(name).coordinates) == 2 else 2
    z = rng.standard_normal((halves, WIDTH))
    predicted = _expansion(name, X, y, u, v, z)
    sizes = np.array([1e-2, 5e-3, 2.5e-3])
    rests = [abs(_rise(name, X, y, u, v, s * z) - predicted(s)) for s in sizes]
    if name == "mixed":  # the product moves on a straight line: nothing of third order
        assert max(rests) < 1e-13
        return
    slope = np.polyfit(np.log(sizes), np.log(rests), 1)[0]
    assert slope == pytest.approx(3, abs=0.2)


def _rise(name: str, X: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray, z: np.ndarray) -> float:
    """loss after - loss before, the moves typed here."""
    b = z[0]
    factors = {
        "invariant": lambda: (np.exp(b), np.exp(b)),
        "invariant step": lambda: (1 + b + b**2 / 2,) * 2,
        "mixed": lambda: (np.sqrt(1 + 2 * b),) * 2,
        "mixed step": lambda: (1 + b - b**2 / 2,) * 2,
        "adaptive": lambda: (1 + z[0] + z[-1], 1 + z[0] - z[-1]),
        "euclidean": lambda: (1 + (z[0] + z[-1]) / u, 1 + (z[0] - z[-1]) / v),
    }[name]()
    after, before = (np.sum((X @ beta - y) ** 2) for beta in (u * factors[0] * v * factors[1], u * v))
    return float(after - before)


def _expansion(name: str, X: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray, z: np.ndarray):
    """The derived form for two coordinates, summed over coordinates and pairs of them: a function of the scale of z."""
    found = DiagonalMeasure(name).second_order
    symbols = [
        *found.coordinates,
        *(s for pair in _points() for s in pair),
        *GRADIENT,
        GRAM[0, 0],
        GRAM[0, 1],
        GRAM[1, 1],
    ]
    form = sp.lambdify(symbols, [found.linear.dot(sp.Matrix(found.coordinates)), found.form])
    M, g = X.T @ X, X.T @ (X @ (u * v) - y)

    def parts(i: int, j: int, on: tuple[int, int], s: float) -> tuple[float, float]:
        coordinates = [s * row[k] * flag for row in z for k, flag in zip((i, j), on, strict=True)]
        return form(*coordinates, u[i], v[i], u[j], v[j], g[i], g[j], M[i, i], M[i, j], M[j, j])

    def value(s: float) -> float:
        alone = [parts(k, k, (1, 0), s)[1] for k in range(WIDTH)]
        together = [
            parts(i, j, (1, 1), s)[1] - parts(i, j, (1, 0), s)[1] - parts(i, j, (0, 1), s)[1]
            for i in range(WIDTH)
            for j in range(i)
        ]
        return float(sum(alone) + sum(together))

    return value


def test_unknown_measure() -> None:
    with pytest.raises(ArgumentError, match="choose one of invariant"):
        DiagonalMeasure("sam")
