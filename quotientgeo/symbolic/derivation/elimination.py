"""Systems of linear matrix equations, solved by elimination with one-sided inverses.

The operator of a metric is symmetric and positive definite, and so is what is left of it after each elimination: a block
pivot on its diagonal can be inverted wherever it is one product c L X R.
"""

from __future__ import annotations

from collections.abc import Mapping

from quotientgeo.errors import DeclarationError, NotDerivableError
from quotientgeo.symbolic.algebra import InverseLetter, Polynomial, solve_linear, vanishes

Blocks = dict[str, Polynomial]


def eliminate(equations: Mapping[str, Polynomial]) -> Blocks:
    """{unknown: value} at which every equation is zero; the equation of an unknown, its gradient, is its pivot.

    Args:
        equations: {unknown: equation}, linear in all the unknowns, each a symbol of the equations' alphabet.

    Raises:
        NotDerivableError: no pivot is left that a one-sided product inverts (the others are of Sylvester type), or only ones
            with inverses that the elimination has put inside, which the normal form does not simplify.
    """
    solved: Blocks = {}
    left = dict(equations)
    deepest = 1 + max(map(_depth, equations.values()))
    while left:
        unknown, value = _pivot(left, deepest)
        del left[unknown]
        left = {x: equation.substitute({unknown: value}) for x, equation in left.items()}
        solved = {x: known.substitute({unknown: value}) for x, known in solved.items()} | {unknown: value}
    for unknown, equation in equations.items():
        coupled = set(equation.symbols()) & (set(equations) - {unknown})
        if coupled and not vanishes(equation.substitute(solved)):
            raise NotDerivableError(f"the equation for {unknown} was not solved by elimination: {equation} = 0")
    return {unknown: solved[unknown] for unknown in equations}


def _pivot(equations: Mapping[str, Polynomial], deepest: int) -> tuple[str, Polynomial]:
    """(unknown, value in the other unknowns) of the equation whose value is simplest, the first of several."""
    found: dict[str, Polynomial] = {}
    refused: list[NotDerivableError] = []
    for unknown, equation in equations.items():
        try:
            found[unknown] = _solution(unknown, equation, deepest)
        except NotDerivableError as error:
            refused.append(error)
    if not found:
        raise _coupled(equations, refused[0])
    return min(found.items(), key=lambda pivot: _rank(pivot[1]))


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


def _depth(value: Polynomial) -> int:
    inside = (letter.argument for letter in value.letters() if isinstance(letter, InverseLetter))
    return max((1 + _depth(argument) for argument in inside), default=0)


def _coupled(equations: Mapping[str, Polynomial], reason: NotDerivableError) -> NotDerivableError:
    """What to say where no pivot is left."""
    if len(equations) == 1:
        return reason
    return NotDerivableError(
        f"the metric couples factors, and elimination does not part {', '.join(equations)}: {reason}"
    )
