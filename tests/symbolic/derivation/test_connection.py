"""Christoffel symbols in coordinates, the bilinear form, and the acceleration: three ways that must agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Trace
from sympy.diffgeom import CoordSystem, Manifold, Patch, TensorProduct, metric_to_Christoffel_2nd

from quotientgeo.catalogue.gl_pair_invariant import generated as invariant_code
from quotientgeo.catalogue.gl_pair_mixed import generated as mixed_code
from quotientgeo.errors import ArgumentError
from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula, certify, derive_formulas
from tests.symbolic.derivation.declarations import formulas

CODE: dict[str, ModuleType] = {"invariant": invariant_code, "mixed": mixed_code}
SIZES = [{"n": 2, "m": 2, "h": 1}, {"n": 2, "m": 3, "h": 1}, {"n": 2, "m": 2, "h": 2}]
_ARRAYS: dict[tuple[str, int], Any] = {}


def at_points(name: str, index: int) -> Any:
    """The array as a numeric function of the coordinates, made once."""
    key = (name, index)
    if key not in _ARRAYS:
        geometry, sizes = formulas(name), SIZES[index]
        array = geometry.christoffel_symbols(**sizes)
        _ARRAYS[key] = sp.lambdify(geometry.coordinates(**sizes), array.tolist(), "math", cse=True)
    return _ARRAYS[key]


def factors(values: np.ndarray, sizes: Mapping[str, int]) -> list[torch.Tensor]:
    cut = sizes["n"] * sizes["h"]
    both = torch.as_tensor(values[:cut]), torch.as_tensor(values[cut:])
    return [part.reshape(-1, sizes["h"]) for part in both]


def flat(parts: Any) -> np.ndarray:
    return np.concatenate([part.flatten().numpy() for part in parts])


@pytest.mark.parametrize("name", CODE)
@given(index=st.integers(0, len(SIZES) - 1), seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_array_bilinear_form_and_acceleration_agree(name: str, index: int, seed: int) -> None:
    sizes, code = SIZES[index], CODE[name]
    count = (sizes["n"] + sizes["m"]) * sizes["h"]
    x, xi, eta = np.random.default_rng(seed).normal(size=(3, count))
    array = np.array(at_points(name, index)(*x), dtype=float)
    contracted = np.einsum("kij,i,j->k", array, xi, eta)
    form = flat(code.christoffel(*factors(x, sizes), *factors(xi, sizes), *factors(eta, sizes)))
    quadratic = -flat(code.acceleration(*factors(x, sizes), *factors(xi, sizes)))
    scale = max(1.0, np.abs(array).max()) * 10
    assert np.allclose(contracted, form, rtol=1e-8, atol=1e-8 * scale)
    assert np.allclose(np.einsum("kij,i,j->k", array, xi, xi), quadratic, rtol=1e-8, atol=1e-8 * scale)
    assert not np.allclose(-contracted, form, rtol=1e-3, atol=1e-3 * np.abs(form).max())


def test_symbols_are_symmetric_and_in_the_declared_coordinates() -> None:
    geometry, sizes = formulas("invariant"), SIZES[1]
    array, coordinates = geometry.christoffel_symbols(**sizes), geometry.coordinates(**sizes)
    assert isinstance(array, sp.ImmutableDenseNDimArray)
    assert array.shape == (5, 5, 5)
    assert [str(x) for x in coordinates] == ["G_0_0", "G_1_0", "H_0_0", "H_1_0", "H_2_0"]
    assert array.free_symbols <= set(coordinates)
    assert all(array[k, i, j] == array[k, j, i] for k in range(5) for i in range(5) for j in range(5))
    metric = geometry.metric_matrix(**sizes)
    P = coordinates[0] ** 2 + coordinates[1] ** 2
    assert metric[0, 0] == 1 / P
    assert metric == metric.T


def test_a_conformal_metric_has_the_symbols_of_the_textbook() -> None:
    """<a, b> / |u|^2 is e^(2 f) times the flat metric with f = -log |u|; its symbols are known in closed form."""
    scale = Symmetry("scale", GL(1), {"U": ("d", 1)}, lambda A, U: (U * A,))
    geometry = derive_formulas(scale, Metric("cone", scale, lambda p, a, b: Trace((p.U.T * p.U).I * a.U.T * b.U)))
    u = geometry.coordinates(d=3)
    slope = [-x / sum(y**2 for y in u) for x in u]
    array = geometry.christoffel_symbols(d=3)
    for k in range(3):
        for i in range(3):
            for j in range(3):
                wanted = int(k == i) * slope[j] + int(k == j) * slope[i] - int(i == j) * slope[k]
                assert sp.cancel(array[k, i, j] - wanted) == 0


def test_agreement_with_sympy_where_coordinates_are_functions_and_not_where_they_are_plain_symbols() -> None:
    """sympy.diffgeom takes plain symbols for constants and gives zero; ours are derivatives in the coordinates themselves."""
    geometry, sizes = formulas("mixed"), {"n": 1, "m": 1, "h": 1}
    symbols, metric = geometry.coordinates(**sizes), geometry.metric_matrix(**sizes)
    array = geometry.christoffel_symbols(**sizes)
    chart = CoordSystem("x", Patch("p", Manifold("M", 2)), sp.symbols("g h"))
    functions, forms = chart.coord_functions(), chart.base_oneforms()

    def two_form(values: sp.Matrix) -> Any:
        return sum(values[i, j] * TensorProduct(forms[i], forms[j]) for i in range(2) for j in range(2))

    theirs = metric_to_Christoffel_2nd(two_form(metric.subs(dict(zip(symbols, functions, strict=True)))))
    back = dict(zip(functions, symbols, strict=True))
    assert all(
        sp.cancel(theirs[k, i, j].subs(back) - array[k, i, j]) == 0
        for k in range(2)
        for i in range(2)
        for j in range(2)
    )
    trapped = metric_to_Christoffel_2nd(two_form(metric))
    assert set(sp.flatten(trapped.tolist())) == {0}
    assert set(sp.flatten(array.tolist())) != {0}


def test_sizes_that_cannot_be() -> None:
    geometry = formulas("invariant")
    for sizes, message in (
        ({"n": 2, "m": 2}, "sizes must be a positive integer for each of n, m, h, got n = 2, m = 2"),
        ({"n": 2, "m": 2, "h": 1, "k": 3}, "for each of n, m, h, got"),
        ({"n": 2, "m": 2, "h": 0}, "h = 0"),
        ({"n": 2, "m": 2, "h": 1.0}, "h = 1.0"),
        ({"n": 4, "m": 5, "h": 2}, "have 18 entries, and explicit symbols are written for at most 16"),
        ({"n": 1, "m": 2, "h": 2}, "an inverse in the metric exists nowhere at n = 1, m = 2, h = 2"),
    ):
        with pytest.raises(ArgumentError, match=message):
            geometry.christoffel_symbols(**sizes)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the metric is singular everywhere at n = 1, m = 1, h = 2"):
        formulas("mixed").christoffel_symbols(n=1, m=1, h=2)


def _with_christoffel(geometry: Geometry, change: Any) -> Geometry:
    changed = {
        f: MatrixFormula.derived(formula.name, formula.arguments, change(f, formula.polynomial))
        for f, formula in geometry.christoffel.items()
    }
    return dataclasses.replace(geometry, christoffel=changed)


@pytest.mark.parametrize("name", ["invariant", "mixed", "third"])
def test_the_claims_about_the_connection_hold_and_refuse_what_is_wrong(name: str) -> None:
    geometry = formulas(name)
    claims = ("christoffel_symmetric", "christoffel_quadratic", "metric_compatible")
    assert all(claim.status == "proven for all sizes" for claim in certify(geometry, "ab", claims))
    eta = {
        geometry.names.tangent(f): geometry.alphabet[geometry.names.second_tangent(f)] for f in geometry.names.factors
    }
    flipped = _with_christoffel(geometry, lambda f, g: -g)
    assert not certify(flipped, "b", ("christoffel_quadratic",)).holds
    assert not certify(flipped, "b", ("metric_compatible",)).holds
    # the flat connection is symmetric, but it is not that of the metric
    zero = _with_christoffel(geometry, lambda f, g: g - g)
    assert certify(zero, "ab", ("christoffel_symmetric",)).holds
    assert not certify(zero, "bde", ("metric_compatible",)).holds
    # -acc(xi) forgets eta: right on the diagonal, and neither symmetric nor compatible
    diagonal = _with_christoffel(geometry, lambda f, g: geometry.acceleration[f].polynomial * Fraction(-1))
    assert certify(diagonal, "ab", ("christoffel_quadratic",)).holds
    assert not certify(diagonal, "b", ("christoffel_symmetric",)).holds
    assert not certify(diagonal, "b", ("metric_compatible",)).holds
    assert geometry.christoffel["G"].polynomial.substitute(eta) != geometry.christoffel["G"].polynomial
