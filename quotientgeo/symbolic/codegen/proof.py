"""Generated source is run on symbols: what it returns must have the normal form of the formula it was made from.

The module is executed with a stand-in for torch whose tensors are polynomials, so every statement that a user runs is
checked, for all sizes, after factoring, reordering, sharing, solving and printing have done their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.algebra import Alphabet, Polynomial, TracePolynomial, vanishes
from quotientgeo.symbolic.codegen.functions import Function, functions
from quotientgeo.symbolic.codegen.symbolic_torch import SymbolicTensor, run_on_symbols
from quotientgeo.symbolic.derivation import Geometry, MatrixFormula, ScalarFormula
from quotientgeo.symbolic.derivation.calculus import Variable
from quotientgeo.symbolic.derivation.levels.modular import ModularCalculus
from quotientgeo.symbolic.derivation.levels.points import Sizes, assign_sizes, generator


def check_source(source: str, geometry: Geometry) -> dict[str, str]:
    """{function: status}; a function that does not return its formulas raises CertificateError.

    The status is "proven for all sizes" where the normal forms agree, as they do unless a formula contains inverses of sums
    that the normal form does not relate; then it is "tested": the two agree modulo 2^61 - 1 at random points.
    """
    points = [assign_sizes(geometry, 2, 3), assign_sizes(geometry, 3, 4)]
    return check_functions(source, geometry.alphabet, functions(geometry), geometry.name, points)


def check_functions(
    source: str, alphabet: Alphabet, wanted: Iterable[Function], subject: str, points: Sequence[Sizes] = ()
) -> dict[str, str]:
    """The same for any functions of one alphabet; without ``points`` only a proof will do."""
    namespace = run_on_symbols(source, alphabet)
    out = {}
    for function in wanted:
        arguments = [SymbolicTensor(alphabet[name]) for name in function.arguments]
        found = namespace[function.name](*arguments)
        values = [value.value for value in ((found,) if function.one else found)]
        if len(values) != len(function.outputs):
            raise CertificateError(
                f"{subject}: generated {function.name} returns {len(values)} values, expected {len(function.outputs)}"
            )
        out[function.name] = "proven for all sizes"
        for (name, formula), value in zip(function.outputs.items(), values, strict=True):
            if not _equal(formula, value):
                if not (points and all(_agree(formula, value, sizes) for sizes in points)):
                    raise CertificateError(
                        f"{subject}: generated {function.name} returns {name} = {value}, but its formula is {formula}"
                    )
                out[function.name] = "tested"
    return out


def _equal(formula: Polynomial | TracePolynomial, value: Any) -> bool:
    """Whether two expressions have one normal form, or differ by what vanishes over a common denominator."""
    if formula == value:
        return True
    if isinstance(formula, Polynomial) and isinstance(value, Polynomial):
        return formula.shape == value.shape and vanishes(formula - value)
    return isinstance(formula, TracePolynomial) and isinstance(value, TracePolynomial) and vanishes(formula - value)


def _agree(formula: Polynomial | TracePolynomial, value: Any, sizes: Sizes) -> bool:
    """Whether two expressions agree at a random point modulo 2^61 - 1."""
    difference: MatrixFormula | ScalarFormula
    if isinstance(formula, Polynomial) and isinstance(value, Polynomial) and formula.shape == value.shape:
        matrix = formula - value
        difference = MatrixFormula.derived("difference", matrix.symbols(), matrix)
    elif isinstance(formula, TracePolynomial) and isinstance(value, TracePolynomial):
        number = formula - value
        difference = ScalarFormula.derived("difference", number.symbols(), number)
    else:
        return False
    calculus, alphabet = ModularCalculus(sizes, generator("generated", *sizes.values())), formula.alphabet
    variables = [Variable(x, alphabet.shape(x), alphabet.kind(x).value) for x in difference.arguments]
    result = calculus.apply(difference, {variable.name: calculus.variable(variable) for variable in variables})
    return not any(map(any, result.parts[0]))
