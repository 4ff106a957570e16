"""Systems of linear matrix equations, solved by elimination with one-sided inverses.

The operator of a metric is symmetric and positive definite, as is the vertical Gram operator of a free action, and so is what
is left of it after each elimination: a block pivot on its diagonal can be inverted wherever it is one product c L X R.
"""

from __future__ import annotations

from collections.abc import Mapping

from quotientgeo.errors import DeclarationError, NotDerivableError
from quotientgeo.symbolic.algebra import (
    InverseLetter,
    InverseScalar,
    Letter,
    Polynomial,
    TracePolynomial,
    solve_linear,
    vanishes,
)
from quotientgeo.symbolic.algebra.letters import words_inside

Blocks = dict[str, Polynomial]
LONGEST = 150  # words of all values of a coupled system: beyond, solving at run time is cheaper than the formulas
MOST_TRIES = 24  # of pivots, over all orders


def eliminate(equations: Mapping[str, Polynomial]) -> Blocks:
    """{unknown: value} at which every equation is zero; the equation of an unknown, its gradient, is its pivot.

    Args:
        equations: {unknown: equation}, linear in all the unknowns, each a symbol of the equations' alphabet.

    Raises:
        NotDerivableError: no pivot is left that a one-sided product inverts (the others are of Sylvester type), or only ones
            with inverses that the elimination has put inside, which the normal form does not simplify.
    """
    solved = _Elimination(equations).run({}, dict(equations))
    for unknown, equation in equations.items():
        coupled = set(equation.symbols()) & (set(equations) - {unknown})
        if coupled and not vanishes(equation.substitute(solved)):
            raise NotDerivableError(f"the equation for {unknown} was not solved by elimination: {equation} = 0")
    return {unknown: solved[unknown] for unknown in equations}


class _Elimination:
    """A search for an order of pivots that leads to the end: the simplest first, another one where that leads nowhere."""

    def __init__(self, equations: Mapping[str, Polynomial]) -> None:
        self._equations = equations
        self._deepest = 1 + max(map(_depth, equations.values()), default=0)
        self._tries = MOST_TRIES

    def run(self, solved: Blocks, left: Blocks) -> Blocks:
        """All unknowns, from those that are ``solved`` in terms of the others and the equations that are ``left`` for these."""
        if not left:
            return solved
        refused: list[NotDerivableError] = []
        for unknown, value in self._pivots(left, refused):
            if self._tries == 0:
                break
            self._tries -= 1
            try:
                return self.run(*self._inserted(unknown, value, solved, left))
            except NotDerivableError as error:
                refused.append(error)
        raise _coupled(left, refused[0]) if left.keys() == self._equations.keys() else refused[0]

    def _pivots(self, left: Blocks, refused: list[NotDerivableError]) -> list[tuple[str, Polynomial]]:
        """(unknown, value in the other unknowns) of each equation that gives its own, the simplest value first."""
        found = []
        for unknown, equation in left.items():
            try:
                found.append((unknown, _solution(unknown, equation, self._deepest)))
            except NotDerivableError as error:
                if not set(equation.symbols()) & (set(left) - {unknown}):
                    raise  # no other pivot changes this equation
                refused.append(error)
        return sorted(found, key=lambda pivot: _rank(pivot[1]))

    def _inserted(self, unknown: str, value: Polynomial, solved: Blocks, left: Blocks) -> tuple[Blocks, Blocks]:
        """What is solved and what is left once one more unknown is known."""
        rest = {x: equation.substitute({unknown: value}) for x, equation in left.items() if x != unknown}
        touched = any(unknown in known.symbols() for known in solved.values())
        known = {x: known.substitute({unknown: value}) for x, known in solved.items()} | {unknown: value}
        if touched and sum(map(len, known.values())) > LONGEST:
            names = ", ".join(self._equations)
            raise NotDerivableError(f"the equations for {names} have a solution of more than {LONGEST} words")
        return known, rest


def _solution(unknown: str, equation: Polynomial, deepest: int) -> Polynomial:
    try:
        value = solve_linear(equation, unknown)
        equation.alphabet[unknown].substitute({unknown: value})  # refuses a value that is not skew where the unknown is
    except DeclarationError as error:
        raise NotDerivableError(f"the equation for {unknown} has no one-sided solution: {error}") from error
    if _depth(value) > deepest:
        raise NotDerivableError(f"the equation for {unknown} is solved by an inverse of inverses only: {equation} = 0")
    return value


def _rank(value: Polynomial) -> tuple[int, int]:
    """How deep inverses are nested, and how many words there are: what is inserted should make no formula longer."""
    return _depth(value), len(value)


def _depth(value: Polynomial | TracePolynomial) -> int:
    """How deep inverses are nested in a matrix or a number."""
    return max((_depth_of(letter) for word in value.terms for letter in word), default=0)


def _depth_of(letter: Letter) -> int:
    inside = max((_depth_of(inner) for word in words_inside(letter) for inner in word), default=0)
    return inside + isinstance(letter, InverseLetter | InverseScalar)


def _coupled(equations: Mapping[str, Polynomial], reason: NotDerivableError) -> NotDerivableError:
    """What to say where no pivot is left."""
    if len(equations) == 1:
        return reason
    return NotDerivableError(
        f"the metric couples factors, and elimination does not part {', '.join(equations)}: {reason}"
    )
