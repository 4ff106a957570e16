"""The letters of a declared problem, and how its functions receive them."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp

from quotientgeo.errors import DeclarationError


@dataclass(frozen=True)
class Names:
    """One name per letter of a problem: factors G, H; group element A; Lie algebra X; tangents xi_G, eta_G; Euclidean dG."""

    factors: tuple[str, ...]
    elements: tuple[str, ...]
    algebra: tuple[str, ...]

    def tangent(self, factor: str) -> str:
        """Tangent (velocity) of a factor."""
        return f"xi_{factor}"

    def second_tangent(self, factor: str) -> str:
        """Second argument of the metric."""
        return f"eta_{factor}"

    def third_tangent(self, factor: str) -> str:
        """A further tangent, for claims about linearity."""
        return f"zeta_{factor}"

    def other_element(self, element: str) -> str:
        """A second group element, for claims about composition."""
        return f"other_{element}"

    def euclidean(self, factor: str) -> str:
        """Euclidean gradient of a function with respect to a factor."""
        return f"d{factor}"

    @property
    def tangents(self) -> tuple[str, ...]:
        """Tangent letters in the order of the factors."""
        return tuple(map(self.tangent, self.factors))

    @property
    def all(self) -> tuple[str, ...]:
        """Every reserved letter of the problem."""
        makers = (self.tangent, self.second_tangent, self.third_tangent, self.euclidean)
        rest = [make(f) for make in makers for f in self.factors]
        return (*self.factors, *rest, *self.elements, *map(self.other_element, self.elements), *self.algebra)


class Factors:
    """The factors of a point or of a tangent inside a metric: ``p.G`` is a SymPy MatrixSymbol."""

    def __init__(self, symbols: Mapping[str, sp.MatrixSymbol]) -> None:
        self._symbols = dict(symbols)

    def __getattr__(self, name: str) -> sp.MatrixSymbol:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._symbols:
            raise DeclarationError(f"no factor {name!r}; the symmetry declares {', '.join(self._symbols)}")
        return self._symbols[name]

    __getitem__ = __getattr__

    def __iter__(self) -> Iterator[sp.MatrixSymbol]:
        return iter(self._symbols.values())


def check_identifier(what: str, name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise DeclarationError(f"{what} {name!r} must be an identifier such as gl_pair or G")


def choose_names(
    symmetry: str, factors: tuple[str, ...], count: int, action: Callable[..., Any], inputs: Iterable[str] = ()
) -> Names:
    """Group elements are called as in the action's parameters; everything else follows from the factors."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(action).parameters.values())
    given = [p.name for p in parameters if p.kind in kinds]
    if all(p.kind in kinds for p in parameters):
        if len(given) != count + len(factors):
            raise DeclarationError(
                f"action of {symmetry} takes {len(given)} arguments ({', '.join(given)}), expected {count} group "
                f"element(s) and then the factors {', '.join(factors)}"
            )
        if set(given[count:]) & set(factors) and tuple(given[count:]) != factors:
            raise DeclarationError(
                f"action of {symmetry} takes the factors as {', '.join(given[count:])}, but they are declared in the "
                f"order {', '.join(factors)}: arguments are passed by position"
            )
        elements = tuple(given[:count])
    else:  # *args: the parameters have no names of their own
        elements = tuple(f"A_{i + 1}" if count > 1 else "A" for i in range(count))
    stem = "X"
    while any(name == stem or name.startswith(f"{stem}_") for name in (*factors, *elements, *inputs)):
        stem += "X"
    algebra = tuple(f"{stem}_{i + 1}" if count > 1 else stem for i in range(count))
    names = Names(factors, elements, algebra)
    taken = names.all
    double = sorted({name for name in taken if taken.count(name) > 1})
    if double:
        raise DeclarationError(
            f"{symmetry}: the letters {', '.join(double)} would name two things; tangents of a factor F are called xi_F "
            "and eta_F, its Euclidean gradient dF: rename the factors or the group element"
        )
    return names
