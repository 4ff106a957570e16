"""What a user writes: a symmetry (a group acting on factors) and a metric, both as SymPy expressions.

    pair = Symmetry("gl_pair", group=GL("h"), factors={"G": ("n", "h"), "H": ("m", "h")},
                    action=lambda A, G, H: (G * A.inv(), H * A.T), preserves=lambda G, H: G * H.T)
    metric = Metric("invariant", pair,
                    lambda p, a, b: Trace((p.G.T*p.G).I * a.G.T*b.G) + Trace((p.H.T*p.H).I * a.H.T*b.H))

Everything is read and checked when it is declared; whether it is true is for the derivation to prove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import sympy as sp

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra import (
    Alphabet,
    Dimension,
    Kind,
    Polynomial,
    Shape,
    TracePolynomial,
    polynomial_from_sympy,
    sympy_symbol,
    trace_from_sympy,
)
from quotientgeo.symbolic.names import Factors, Names, check_identifier, choose_names


class Group(Protocol):
    """What a declaration needs of a group: its elements' shape, what may be assumed of them and of its algebra's, its law.

    ``element_kind`` and ``algebra_kind`` are names of algebra.Kind: invertible and general for GL. ``law`` is "multiply", or
    "add" where the product of two elements is their sum.
    """

    @property
    def element_shape(self) -> Shape: ...
    @property
    def element_kind(self) -> str: ...
    @property
    def algebra_kind(self) -> str: ...
    @property
    def law(self) -> str: ...


@dataclass(frozen=True)
class Symmetry:
    """A group acting on the factors of a parametrisation.

    Args:
        name: an identifier.
        group: a group such as ``GL("h")`` or a direct product ``GL("h") * GL("k")``.
        factors: {"G": ("n", "h"), ...}: name -> (rows, columns); a size is a name or a positive integer.
        action: called with one symbol per simple group and then one per factor, in order; returns the moved factors. Symbols
            are MatrixSymbols, of a Scaling a Symbol.
        preserves: called with the factors, then the inputs; returns what the action must leave unchanged (an expression or a
            tuple). Without it nothing is claimed about a preserved quantity.
        inputs: {"D": PositiveDiagonal("k"), "R": ("n", "h"), ...}: matrices that the model puts between the factors and the
            group does not move, of every value: an element of a group, or any matrix of a shape. What is preserved is
            preserved for all of them.

    Raises:
        DeclarationError: names, sizes or shapes do not fit, or an expression cannot be read.
    """

    name: str
    group: Any  # a Group, a product of groups, or a tuple of them
    factors: Mapping[str, Shape]
    action: Callable[..., Any]
    preserves: Callable[..., Any] | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    names: Names = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_identifier("symmetry name", self.name)
        object.__setattr__(self, "factors", MappingProxyType(_checked_factors(self.name, self.factors)))
        for group in self.groups:
            if isinstance(group, type) or not hasattr(group, "element_kind"):
                raise DeclarationError(
                    f'{self.name}: group must be a group such as GL("h"), or a product of groups, got {group!r}'
                )
        for role, function in (("action", self.action), ("preserves", self.preserves)):
            if not callable(function) and not (function is None and role == "preserves"):
                raise DeclarationError(f"{self.name}: {role} must be a function of matrix symbols, got {function!r}")
        object.__setattr__(self, "inputs", MappingProxyType(_checked_inputs(self.name, self.inputs)))
        object.__setattr__(
            self, "names", choose_names(self.name, tuple(self.factors), len(self.groups), self.action, self.inputs)
        )
        clash = [x for x in self.inputs if x in (*self.names.all, *map(str, self.sizes))]
        if clash:
            raise DeclarationError(f"{self.name}: the input {clash[0]} has the name of something else: rename it")
        alphabet = self.alphabet()
        self.read_action(alphabet)
        self.read_preserved(alphabet)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The simple groups whose product acts."""
        given = self.group if isinstance(self.group, tuple) else (self.group,)
        return tuple(simple for group in given for simple in getattr(group, "groups", (group,)))

    @property
    def group_sizes(self) -> tuple[Dimension, ...]:
        """Distinct sizes of the square matrices that act; not those of numbers and translations."""
        square = [group.element_shape[0] for group in self.groups if group.law == "multiply"]
        return tuple(dict.fromkeys(size for size in square if size != 1))

    @property
    def sizes(self) -> tuple[Dimension, ...]:
        """Distinct sizes: those that no group has first, in the order of the factors, then those of the groups."""
        of_groups = self.group_sizes
        shapes = [*self.factors.values(), *(group.element_shape for group in self.groups)]
        shapes += [shape for shape, _ in map(_shape_and_kind, self.inputs.values())]
        others = dict.fromkeys(size for shape in shapes for size in shape if size not in of_groups)
        return (*others, *of_groups)

    def alphabet(self) -> Alphabet:
        """A new alphabet with every letter of the problem declared."""
        alphabet = Alphabet()
        names = self.names
        elementwise = {group.element_shape[0] for group in self.groups if group.element_kind == Kind.DIAGONAL}
        for rename in (str, names.tangent, names.second_tangent, names.third_tangent, names.euclidean):
            for factor, (rows, columns) in self.factors.items():
                kind = Kind.VECTOR if columns == 1 and rows in elementwise else Kind.GENERAL
                alphabet.declare(rename(factor), (rows, columns), kind)
        for element, algebra, group in zip(names.elements, names.algebra, self.groups, strict=True):
            alphabet.declare(element, group.element_shape, group.element_kind)
            alphabet.declare(names.other_element(element), group.element_shape, group.element_kind)
            alphabet.declare(algebra, group.element_shape, group.algebra_kind)
        for name, given in self.inputs.items():
            alphabet.declare(name, *_shape_and_kind(given))
        return alphabet

    def identity(self, alphabet: Alphabet) -> dict[str, Polynomial]:
        """The identity of the group, by element letter."""
        out = {}
        for element, group in zip(self.names.elements, self.groups, strict=True):
            rows, _ = group.element_shape
            out[element] = alphabet.zero(group.element_shape) if group.law == "add" else alphabet.identity(rows)
        return out

    def product(self, left: Mapping[str, Polynomial], right: Mapping[str, Polynomial]) -> dict[str, Polynomial]:
        """The product of two group elements, by element letter."""
        laws = {element: group.law for element, group in zip(self.names.elements, self.groups, strict=True)}
        return {e: left[e] + right[e] if law == "add" else left[e] * right[e] for e, law in laws.items()}

    def read_action(self, alphabet: Alphabet) -> dict[str, tuple[sp.MatrixExpr, Polynomial]]:
        """The moved factors as {factor: (what the user wrote, polynomial)}."""
        letters = (*self.names.elements, *self.names.factors)
        symbols = [sympy_symbol(alphabet, name) for name in letters]
        moved = _call(f"action of {self.name}", self.action, symbols)
        moved = tuple(moved) if isinstance(moved, tuple | list) else (moved,)
        if len(moved) != len(self.factors):
            raise DeclarationError(
                f"action of {self.name} returns {len(moved)} expressions for the {len(self.factors)} factors "
                f"{', '.join(self.factors)}: return one per factor, in their order"
            )
        out = {}
        for (factor, shape), expression in zip(self.factors.items(), moved, strict=True):
            polynomial = _read_matrix(f"action of {self.name} on {factor}", expression, alphabet, letters)
            if polynomial.shape != shape:
                raise DeclarationError(
                    f"action of {self.name} turns {factor} of shape {shape} into {expression} of shape {polynomial.shape}"
                )
            out[factor] = (expression, polynomial)
        return out

    def read_preserved(self, alphabet: Alphabet) -> list[tuple[sp.Basic, Polynomial | TracePolynomial]]:
        """What the action is claimed to preserve, as (what the user wrote, polynomial)."""
        if self.preserves is None:
            return []
        letters = (*self.names.factors, *self.inputs)
        symbols = [sympy_symbol(alphabet, name) for name in letters]
        place = f"preserved quantity of {self.name}"
        values = _call(place, self.preserves, symbols)
        values = tuple(values) if isinstance(values, tuple | list) else (values,)
        out: list[tuple[sp.Basic, Polynomial | TracePolynomial]] = []
        for value in values:
            if isinstance(value, sp.MatrixExpr):
                out.append((value, _read_matrix(place, value, alphabet, letters)))
            else:
                out.append((value, _read_scalar(place, value, alphabet, letters)))
            if not set(out[-1][1].symbols()) & set(self.factors):
                raise DeclarationError(f"{place}: {value} depends on no factor, so preserving it says nothing")
        return out


@dataclass(frozen=True)
class Metric:
    """A Riemannian metric on the factors of a symmetry.

    Args:
        name: an identifier.
        symmetry: the symmetry under which it shall be invariant.
        inner: called with the point p and two tangents a, b, whose factors are MatrixSymbols (p.G, a.G, b.H, ...);
            returns the inner product: sums and products of ``sympy.Trace``, linear in a and in b. Numbers of the point, such
            as 1 / Trace(p.W.T * p.W), may multiply them.
        parameters: names of positive numbers that the metric depends on, such as ("eps",); ``inner`` is called with one Symbol
            for each after b. They are no part of the point: a geometry is derived for all their values.

    Raises:
        DeclarationError: the expression cannot be read, or is not bilinear in the tangents.
    """

    name: str
    symmetry: Symmetry
    inner: Callable[..., Any]
    parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_identifier("metric name", self.name)
        given = (self.parameters,) if isinstance(self.parameters, str) else self.parameters
        if not isinstance(given, tuple | list):
            raise DeclarationError(f'metric {self.name}: parameters must be names such as ("eps",), got {given!r}')
        given = tuple(given)
        object.__setattr__(self, "parameters", given)
        if not isinstance(self.symmetry, Symmetry):
            raise DeclarationError(
                f"metric {self.name}: symmetry must be a Symmetry, got a {type(self.symmetry).__name__}"
            )
        for name in self.parameters:
            check_identifier(f"metric {self.name}: parameter", name)
        taken = {*self.symmetry.names.all, *map(str, self.symmetry.sizes)}
        clash = [name for i, name in enumerate(self.parameters) if name in taken or name in self.parameters[:i]]
        if clash:
            raise DeclarationError(
                f"metric {self.name}: the parameter {clash[0]} has the name of something else: rename it"
            )
        self.read_inner(self.symmetry.alphabet())

    def read_inner(self, alphabet: Alphabet) -> tuple[sp.Expr, TracePolynomial]:
        """The inner product as (what the user wrote, polynomial), with tangents named xi_G and eta_G."""
        names = self.symmetry.names
        arguments = [
            Factors({factor: sympy_symbol(alphabet, rename(factor)) for factor in names.factors})
            for rename in (str, names.tangent, names.second_tangent)
        ]
        place = f"metric {self.name}"
        for name in self.parameters:
            alphabet.declare(name, (1, 1), Kind.POSITIVE)
        numbers = [sympy_symbol(alphabet, name) for name in self.parameters]
        expression = _call(place, self.inner, [*arguments, *numbers])
        letters = (*names.factors, *names.tangents, *map(names.second_tangent, names.factors), *self.parameters)
        value = _read_scalar(place, expression, alphabet, letters)
        _check_bilinear(place, value, names)
        return expression, value


def _check_bilinear(place: str, value: TracePolynomial, names: Names) -> None:
    """Each term holds exactly one letter of the first tangent and one of the second."""
    for role, rename in (("first", names.tangent), ("second", names.second_tangent)):
        letters = [rename(factor) for factor in names.factors]
        for monomial, coefficient in value:
            term = TracePolynomial(value.alphabet, {monomial: coefficient})
            counts = [next(iter(term.occurrences(letter))) for letter in letters]
            if None in counts or sum(count or 0 for count in counts) != 1:
                raise DeclarationError(
                    f"{place}: the term {term} is not linear in the {role} tangent (here {', '.join(letters)}): every term "
                    "must contain each tangent exactly once, outside inverses"
                )
    if value.is_zero:
        raise DeclarationError(f"{place} is zero")


def _shape_and_kind(given: Any) -> tuple[Shape, str]:
    """Of an input: any matrix of a shape, or an element of a group."""
    return (given, "general") if isinstance(given, tuple) else (given.element_shape, given.element_kind)


def _checked_inputs(symmetry: str, inputs: Any) -> dict[str, Any]:
    if not isinstance(inputs, Mapping):
        raise DeclarationError(
            f'{symmetry}: inputs must be a dict such as {{"D": PositiveDiagonal("k")}}, got {inputs!r}'
        )
    out: dict[str, Any] = {}
    for name, given in inputs.items():
        check_identifier(f"{symmetry}: input", name)
        if isinstance(given, tuple | list):
            shapes: dict[str, Any] = {name: given}
            given = _checked_factors(symmetry, shapes)[name]
        elif isinstance(given, type) or not hasattr(given, "element_kind"):
            raise DeclarationError(
                f"{symmetry}: input {name} must be a shape (rows, columns) or a simple group whose elements it runs through, "
                f"got {given!r}"
            )
        out[name] = given
    return out


def _checked_factors(symmetry: str, factors: Mapping[str, Shape]) -> dict[str, Shape]:
    if not isinstance(factors, Mapping) or not factors:
        raise DeclarationError(
            f'{symmetry}: factors must be a non-empty dict such as {{"G": ("n", "h")}}, got {factors!r}'
        )
    out: dict[str, Shape] = {}
    for name, shape in factors.items():
        check_identifier(f"{symmetry}: factor", name)
        if not isinstance(shape, tuple | list) or len(shape) != 2:
            raise DeclarationError(f"{symmetry}: factor {name} needs a shape (rows, columns), got {shape!r}")
        for size in shape:
            if isinstance(size, str):
                check_identifier(f"{symmetry}: size of factor {name}", size)
            elif isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise DeclarationError(f"{symmetry}: size {size!r} of {name} is neither a name nor a positive integer")
        out[name] = (shape[0], shape[1])
    clash = set(out) & {size for shape in out.values() for size in shape if isinstance(size, str)}
    if clash:
        raise DeclarationError(f"{symmetry}: {', '.join(sorted(clash))} names both a factor and a size: rename one")
    return out


def _call(place: str, function: Callable[..., Any], arguments: list[Any]) -> Any:
    """Call what the user wrote; SymPy's complaints (shapes, types) become a DeclarationError that names the place."""
    try:
        return function(*arguments)
    except DeclarationError as error:
        raise DeclarationError(f"{place}: {error}") from error
    except Exception as error:
        raise DeclarationError(
            f"{place} cannot be evaluated on matrix symbols: {type(error).__name__}: {error}"
        ) from error


def _read_matrix(place: str, expression: Any, alphabet: Alphabet, letters: Iterable[str]) -> Polynomial:
    try:
        value = polynomial_from_sympy(sp.sympify(expression), alphabet)
    except DeclarationError as error:
        raise DeclarationError(f"{place}: {error}") from error
    _check_letters(place, value, letters)
    return value


def _read_scalar(place: str, expression: Any, alphabet: Alphabet, letters: Iterable[str]) -> TracePolynomial:
    try:
        value = trace_from_sympy(expression, alphabet)
    except DeclarationError as error:
        raise DeclarationError(f"{place}: {error}") from error
    _check_letters(place, value, letters)
    return value


def _check_letters(place: str, value: Polynomial | TracePolynomial, letters: Iterable[str]) -> None:
    """A symbol from outside the function (perhaps called like a letter of the problem) would pass for that letter."""
    allowed = tuple(letters)
    strange = sorted(set(value.symbols()) - set(allowed))
    if strange:
        raise DeclarationError(f"{place} contains {', '.join(strange)}; it may only depend on {', '.join(allowed)}")
