"""Level (f), slow: SymPy's own derivative of a trace, used as published and on single traces only.

SymPy 1.14 differentiates ``Trace(one product)`` correctly, but a sum of traces silently to zero; so every sum is taken apart
first. A matrix-valued function P is differentiated in a direction v with a probe W:  D P[v] = d/dW tr((d/dM tr(W' P))' v).
The result is evaluated by SymPy at one point of small rational matrices. Shares nothing with the engine or other levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sympy as sp

from quotientgeo.symbolic.derivation.calculus import variables_of
from quotientgeo.symbolic.derivation.certificate import Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.geometry import Geometry
from quotientgeo.symbolic.derivation.levels.points import (
    Sizes,
    assign_sizes,
    generator,
    random_matrix,
    sizes_text,
    undefined,
)
from quotientgeo.symbolic.derivation.statements import Statement

Residuals = Callable[[Geometry], list[sp.MatrixExpr]]


def _expand(expression: sp.Expr) -> sp.Expr:
    return sp.expand(expression.doit()).doit()


def _summands(expression: sp.Expr) -> list[sp.MatrixExpr]:
    """The matrices whose traces add up to a scalar expression, or the terms of a matrix expression."""
    expression = _expand(expression)
    terms = expression.args if isinstance(expression, sp.Add | sp.MatAdd) else (expression,)
    out = []
    for term in terms:
        if isinstance(term, sp.MatrixExpr):
            out.append(term)
        elif term.has(sp.Trace):
            (inside,) = term.atoms(sp.Trace)
            out.append((term / inside) * inside.arg)
    return out


def _gradient(terms: list[sp.MatrixExpr], symbol: sp.MatrixSymbol) -> sp.MatrixExpr:
    """d/d symbol of the sum of the traces of the terms."""
    total = sp.ZeroMatrix(*symbol.shape)
    for term in terms:
        if term.has(symbol):
            total = total + sp.Trace(term).diff(symbol)
    return _expand(total)


def _along(value: sp.MatrixExpr, symbol: sp.MatrixSymbol, velocity: sp.MatrixExpr) -> sp.MatrixExpr:
    """Directional derivative of a matrix-valued expression, by two gradients of traces."""
    probe = sp.MatrixSymbol("probe *", *value.shape)  # no identifier, so no letter of a declaration
    pullback = _gradient(_summands(probe.T * value), symbol)
    return _gradient(_summands(pullback.T * velocity), probe)


def _symbols(geometry: Geometry, role: str) -> dict[str, sp.MatrixSymbol]:
    found = {s.name: s for formula in _all_formulas(geometry) for s in formula.atoms(sp.MatrixSymbol)}
    out = {}
    for key, variable in variables_of(geometry, role).items():
        shape = [
            sp.Symbol(d, integer=True, positive=True) if isinstance(d, str) else sp.Integer(d) for d in variable.shape
        ]
        out[key] = found.get(variable.name, sp.MatrixSymbol(variable.name, *shape))
    return out


def _all_formulas(geometry: Geometry) -> list[sp.Expr]:
    blocks = [geometry.gradient, geometry.acceleration, geometry.momentum, geometry.vertical]
    if geometry.equations is not None:
        blocks += [geometry.equations.lowered, geometry.equations.forces[2]]
    return [geometry.inner.expression, *(f.expression for block in blocks for f in block.values())]


_MATRICES = (sp.MatrixSymbol, sp.Identity, sp.ZeroMatrix)
_OPERATIONS = (sp.MatAdd, sp.MatMul, sp.MatPow, sp.Transpose, sp.Trace)  # an Inverse is a MatPow


def _is_known(node: sp.Basic) -> bool:
    """Whether SymPy's derivative can be trusted: sums of rational multiples of single traces, or of products of matrices."""
    if isinstance(node, _MATRICES):
        return True
    arguments = node.args[:1] if isinstance(node, sp.MatPow) else node.args
    if isinstance(node, sp.Mul | sp.MatMul):
        arguments = [a for a in arguments if not isinstance(a, sp.Rational)]
        if not isinstance(node, sp.MatMul) and [type(a) for a in arguments] != [sp.Trace]:
            return False
    elif not isinstance(node, (*_OPERATIONS, sp.Add, sp.Rational)):
        return False
    return all(map(_is_known, arguments))


def _gradient_residuals(geometry: Geometry) -> list[sp.MatrixExpr]:
    xi, eta, d = (_symbols(geometry, role) for role in ("xi", "eta", "d"))
    inner = _summands(geometry.inner.expression)
    if geometry.equations is not None:  # M itself, for what solves M(xi) = dF
        return [_gradient(inner, eta[f]) - geometry.equations.lowered[f].expression for f in eta]
    answer = {xi[f]: geometry.gradient[f].expression for f in xi}
    return [_gradient(inner, eta[f]).xreplace(answer) - d[f] for f in eta]


def _momentum_residuals(geometry: Geometry) -> list[sp.MatrixExpr]:
    eta, x = _symbols(geometry, "eta"), _symbols(geometry, "X")
    inner = geometry.inner.expression.xreplace({eta[f]: geometry.vertical[f].expression for f in eta})
    return [_gradient(_summands(inner), x[key]) - geometry.momentum[key].expression for key in x]


def _acceleration_residuals(geometry: Geometry) -> list[sp.MatrixExpr]:
    """d/dt dL/dxi_F - dL/dF with the derived acceleration put in, L = 1/2 <xi, xi>."""
    p, xi, eta = (_symbols(geometry, role) for role in ("p", "xi", "eta"))
    acc = {f: sp.MatrixSymbol(f"acceleration of {f}", *p[f].shape) for f in p}
    twice = _summands(geometry.inner.expression.xreplace({eta[f]: xi[f] for f in p}))
    out = []
    for f in p:
        impulse = _gradient(twice, xi[f]) / 2
        change = -_gradient(twice, p[f]) / 2
        for q in p:
            change = change + _along(impulse, p[q], xi[q])
            if geometry.equations is None:
                change = change + _along(impulse, xi[q], acc[q])
        if geometry.equations is not None:  # the force, for what solves M(acc) = force
            out.append(change + geometry.equations.forces[2][f].expression)
            continue
        out.append(change.xreplace({acc[q]: geometry.acceleration[q].expression for q in p}))
    return out


_RESIDUALS: Mapping[str, Residuals] = {
    "gradient": _gradient_residuals,
    "horizontal_condition": _momentum_residuals,
    "acceleration": _acceleration_residuals,
}


def check_native(geometry: Geometry, statement: Statement) -> LevelResult:
    """Tested at one exact point, for the claims about derivatives of the metric."""
    residuals = _RESIDUALS.get(statement.name)
    if residuals is None or any(variable.kind != "general" for variable in variables_of(geometry, "X").values()):
        return LevelResult(Level.SYMPY, Outcome.NOT_APPLICABLE)
    if not all(map(_is_known, _all_formulas(geometry))):
        return LevelResult(Level.SYMPY, Outcome.NOT_APPLICABLE)
    if undefined(geometry):
        return LevelResult(Level.SYMPY, Outcome.NOT_APPLICABLE)
    sizes = assign_sizes(geometry, 2, 3)
    if any(isinstance(size, int) for size in sizes):  # SymPy would have to work at the declared width itself
        return LevelResult(Level.SYMPY, Outcome.NOT_APPLICABLE)
    rng = generator("native", geometry.name, statement.name)
    values = {
        variable.name: sp.ImmutableMatrix([[sp.Rational(a.numerator, a.denominator) for a in row] for row in rows])
        for role in ("p", "xi", "d", "X")
        for variable in variables_of(geometry, role).values()
        for rows in [random_matrix(variable, sizes, rng)]
    }
    for residual in residuals(geometry):
        if any(entry != 0 for entry in _evaluate(residual, sizes, values)):
            return LevelResult(Level.SYMPY, Outcome.FALSE, sizes_text(sizes), "the residual is not zero")
    how = f", {statement.weak.text}" if statement.weak else ""
    return LevelResult(Level.SYMPY, Outcome.TESTED, sizes_text(sizes), f"residual 0{how}")


def _evaluate(expression: sp.MatrixExpr, sizes: Sizes, values: Mapping[str, sp.Matrix]) -> sp.Matrix:
    """SymPy's own evaluation: put in numbers for sizes, then explicit matrices for symbols."""
    numeric = expression.xreplace({s: sp.Integer(sizes[s.name]) for s in expression.free_symbols if s.name in sizes})
    explicit = {s: values[s.name] for s in numeric.atoms(sp.MatrixSymbol)}
    return sp.Matrix(numeric.xreplace(explicit).doit())
