"""The arithmetic of each level against closed forms, and its limits."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sympy as sp
import torch
from sympy import Trace

from quotientgeo.groups import GL
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Level, Outcome, derive
from quotientgeo.symbolic.derivation.calculus import Calculus, Variable
from quotientgeo.symbolic.derivation.certify import check_statement
from quotientgeo.symbolic.derivation.formula import MatrixFormula
from quotientgeo.symbolic.derivation.levels.autodiff import TorchCalculus
from quotientgeo.symbolic.derivation.levels.component import ComponentCalculus, check_component
from quotientgeo.symbolic.derivation.levels.modular import PRIME, ModularCalculus
from quotientgeo.symbolic.derivation.levels.normal_form import SymbolicCalculus
from quotientgeo.symbolic.derivation.levels.points import Sizes, random_matrix
from quotientgeo.symbolic.derivation.levels.rational import RationalCalculus
from quotientgeo.symbolic.derivation.levels.sparse import Field, Poly, TooLargeError, at_constants, partial
from quotientgeo.symbolic.derivation.statements import statements
from tests.symbolic.derivation.declarations import formulas, gram

SIZES: Sizes = {"n": 3, "m": 4, "h": 2}
SQUARES = {name: Variable(name, ("h", "h"), "general") for name in ("Z", "U", "V")}

Equal = Callable[[Any, Any], bool]


def _modular() -> tuple[Calculus[Any], Equal]:
    def equal(a: Any, b: Any) -> bool:
        return not any(map(any, (a + b.scaled(PRIME - 1)).parts[0]))

    return ModularCalculus(SIZES, random.Random(1)), equal


def _component() -> tuple[Calculus[Any], Equal]:
    calculus = ComponentCalculus(SIZES, 10**7)

    def equal(a: Any, b: Any) -> bool:
        one, other = calculus.field.aligned(a, b)
        return one.entries == other.entries

    return calculus, equal


def _rational() -> tuple[Calculus[Any], Equal]:
    def equal(a: Any, b: Any) -> bool:
        return [[x.real for x in row] for row in a] == [[x.real for x in row] for row in b]

    return RationalCalculus(SIZES, random.Random(1), 9), equal


def _autodiff() -> tuple[Calculus[Any], Equal]:
    return TorchCalculus(SIZES, 1), lambda a, b: torch.allclose(a, b, rtol=1e-12, atol=1e-12)


def _symbolic() -> tuple[Calculus[Any], Equal]:
    return SymbolicCalculus(formulas("mixed").alphabet), lambda a, b: (a - b).is_zero


LEVELS = [_modular, _component, _rational, _autodiff, _symbolic]


@pytest.mark.parametrize("level", LEVELS, ids=lambda f: f.__name__)
def test_nested_derivatives_of_an_inverse(level: Callable[[], tuple[Calculus[Any], Equal]]) -> None:
    """D^2 (Z^-1)[U, V] = Z^-1 U Z^-1 V Z^-1 + Z^-1 V Z^-1 U Z^-1, and a wrong sign is noticed."""
    calculus, equal = level()
    alphabet = formulas("mixed").alphabet
    for variable in SQUARES.values():
        alphabet.declare(variable.name, variable.shape)
    invert = MatrixFormula.derived("inverse", ("Z",), alphabet["Z"].inverse())
    z, u, v = (calculus.variable(variable) for variable in SQUARES.values())

    def inverse(at: dict[str, Any]) -> dict[str, Any]:
        return {"": calculus.apply(invert, at)}

    def first(at: dict[str, Any]) -> dict[str, Any]:
        return calculus.derivative(inverse, at, {"Z": u})

    second = calculus.derivative(first, {"Z": z}, {"Z": v})[""]
    y = inverse({"Z": z})[""]

    def product(*factors: Any) -> Any:
        out = factors[0]
        for factor in factors[1:]:
            out = calculus.product(out, factor)
        return out

    expected = calculus.add(product(y, u, y, v, y), product(y, v, y, u, y))
    assert equal(second, expected)
    assert not equal(second, calculus.scale(expected, Fraction(-1)))
    assert equal(first({"Z": z})[""], calculus.scale(product(y, u, y), Fraction(-1)))


def _sympy_polynomial(polynomial: Poly, symbols: list[sp.Symbol]) -> sp.Expr:
    total = sp.Integer(0)
    for monomial, coefficient in polynomial.items():
        term = sp.Integer(coefficient)
        for i, symbol in enumerate(symbols):
            term *= symbol ** ((monomial >> (10 * i)) & 1023)
        total += term
    return total


def test_sparse_polynomials_against_sympy() -> None:
    rng = random.Random(3)
    symbols = list(sp.symbols("a:4"))

    def draw() -> Poly:
        return {sum(rng.randrange(4) << (10 * i) for i in range(4)): rng.choice((-2, -1, 1, 3)) for _ in range(5)}

    field = Field(10**6)
    for _ in range(20):
        a, b = draw(), draw()
        x, y = _sympy_polynomial(a, symbols), _sympy_polynomial(b, symbols)
        ((product,),) = field.product([[a]], [[b]])
        assert sp.expand(_sympy_polynomial(product, symbols) - x * y) == 0
        assert sp.expand(_sympy_polynomial(partial(a, 2), symbols) - sp.diff(x, symbols[2])) == 0
        fixed = at_constants(a, {0: 2, 3: -1})
        assert sp.expand(_sympy_polynomial(fixed, symbols) - x.subs({symbols[0]: 2, symbols[3]: -1})) == 0


@pytest.mark.parametrize("size", [1, 2, 3])
def test_inverse_of_a_generic_matrix_of_fractions(size: int) -> None:
    calculus = ComponentCalculus({"h": size}, 10**7)
    z = calculus.variable(Variable("Z", ("h", "h"), "general"))
    u = calculus.variable(Variable("U", ("h", "h"), "general"))
    fraction = calculus.product(calculus.inverse(u), z)
    for value in (calculus.product(fraction, calculus.inverse(fraction)), calculus.product(calculus.inverse(z), z)):
        one, other = calculus.field.aligned(value, calculus.identity("h"))
        assert one.entries == other.entries


def test_budget_and_degree_are_guarded() -> None:
    statement = next(s for s in statements(formulas("mixed")) if s.name == "acceleration")
    assert check_component(formulas("mixed"), statement, budget=10).outcome is Outcome.NOT_APPLICABLE
    small = check_component(formulas("mixed"), statement, budget=2_000)
    assert small.outcome is Outcome.PROVEN
    assert "(2, 2, 2)" not in small.scope
    with pytest.raises(TooLargeError):
        Field(10**9).product([[{1000: 1}]], [[{1000: 1}]])  # exponents would carry into the next variable


@pytest.mark.parametrize("kind", ["orthogonal", "invertible", "symmetric", "skew"])
def test_random_matrices_have_their_kind(kind: str) -> None:
    for seed in range(5):
        rows = random_matrix(Variable("M", ("h", "h"), kind), {"h": 3}, random.Random(seed))
        matrix = sp.Matrix([[sp.Rational(x.numerator, x.denominator) for x in row] for row in rows])
        if kind == "orthogonal":
            assert matrix.T * matrix == sp.eye(3)
        elif kind == "invertible":
            assert matrix.det() != 0
        else:
            assert (matrix if kind == "symmetric" else -matrix) == matrix.T
        assert any(matrix[i, j] != 0 for i in range(3) for j in range(3) if i != j)


@pytest.mark.parametrize("level", [_modular, _component, _autodiff], ids=lambda f: f.__name__)
def test_generic_orthogonal_matrices_are_orthogonal(level: Callable[[], tuple[Calculus[Any], Equal]]) -> None:
    calculus, equal = level()
    q = calculus.variable(Variable("O", ("h", "h"), "orthogonal"))
    one = calculus.identity("h")
    assert equal(calculus.pair(q, q), calculus.pair(one, one))  # tr(Q'Q) = h
    assert not equal(q, one)


def test_large_declared_sizes_get_stand_ins() -> None:
    """A declaration with the widths of a real model is checked at small sizes, and says so."""
    wide = Symmetry("wide", GL(64), {"G": (769, 64), "H": (768, 64)}, lambda A, G, H: (G * A.inv(), H * A.T))
    metric = Metric("mixed", wide, lambda p, a, b: Trace(gram(p.H) * a.G.T * b.G) + Trace(gram(p.G) * a.H.T * b.H))
    certificate = derive(wide, metric, levels="abcdef").certificate
    certificate.require()
    (modular,) = [r for r in certificate["acceleration"].levels if r.level is Level.MODULAR]
    assert modular.scope == "(769, 768, 64) -> (4, 3, 2) and (769, 768, 64) -> (5, 4, 3)"
    assert "preserved" not in {claim.name for claim in certificate}


def test_autodiff_works_where_gradients_are_switched_off() -> None:
    statement = next(s for s in statements(formulas("mixed")) if s.name == "acceleration")
    with torch.no_grad():
        result = check_statement(formulas("mixed"), statement, Level.AUTODIFF)
    assert result.outcome is Outcome.TESTED
