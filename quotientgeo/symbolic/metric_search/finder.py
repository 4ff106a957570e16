"""Invariant metrics of a symmetry inside a stated ansatz."""

from __future__ import annotations

from collections.abc import Sequence

from quotientgeo.errors import ArgumentError
from quotientgeo.symbolic.algebra import TracePolynomial, trace
from quotientgeo.symbolic.declaration import Symmetry
from quotientgeo.symbolic.derivation.levels.points import Sizes, assign_sizes, sizes_text
from quotientgeo.symbolic.metric_search.ansatz import Words
from quotientgeo.symbolic.metric_search.candidates import Candidate, candidates
from quotientgeo.symbolic.metric_search.completeness import SingularError, changed_rank
from quotientgeo.symbolic.metric_search.definiteness import Definiteness, geometry_of, sign_of
from quotientgeo.symbolic.metric_search.invariance import Invariants, combination, invariants
from quotientgeo.symbolic.metric_search.places import Problem
from quotientgeo.symbolic.metric_search.result import MetricSearch, MetricTerm

_MOST_RANKED = 700  # forms of one kind whose independence is looked at: the time grows with the third power
_GROUP_SIZES = (3, 4)  # at which it is; words in small matrices have relations that larger ones do not have


def search_metrics(symmetry: Symmetry, ansatz: Words | None = None) -> MetricSearch:
    """The invariant bilinear forms of a symmetry inside an ansatz, and metrics made of them.

    Every form of the ansatz is moved by a symbolic group element, point and tangents; those that come back in normal form are
    invariant for all sizes, and so are the rational combinations of the others whose changes cancel. That there are no further
    ones is shown by exact ranks modulo a prime, inside the ansatz only: nothing is claimed about what is not in it. Each term is
    proven positive definite by a sum of squares, tested, or refuted with a witness.

    Args:
        symmetry: the group action.
        ansatz: what to look through; ``Words()`` by default.

    Returns:
        A ``MetricSearch``: its ``terms``, ``metrics()`` (one term per factor) and ``metric(name, weights)`` (any positive sum).
        Where nothing is invariant it has no terms, its text says so, and ``metrics()`` raises.

    Raises:
        ArgumentError: the arguments are of another type, or the ansatz has too many forms.
    """
    if not isinstance(symmetry, Symmetry):
        raise ArgumentError(f"search_metrics takes a Symmetry, got a {type(symmetry).__name__}")
    ansatz = Words() if ansatz is None else ansatz
    if not isinstance(ansatz, Words):
        raise ArgumentError(f"search_metrics: ansatz must be Words(...), got a {type(ansatz).__name__}")
    problem = Problem.of(symmetry)
    forms = candidates(problem, ansatz)
    found = invariants(problem, forms)
    terms = _terms(problem, forms, found)
    return MetricSearch(symmetry, ansatz, len(forms), terms, _scope(problem, ansatz, forms, found))


def _terms(problem: Problem, forms: Sequence[Candidate], found: Invariants) -> tuple[MetricTerm, ...]:
    """Terms of one factor after another, then those of several; combinations after what is invariant alone."""
    values = [(forms[i].factors, forms[i].text, forms[i].value) for i in found.alone]
    either = set()  # combinations: their sign is as it came
    for weights in found.combined:
        moving = {factor for i in weights for factor in forms[i].factors}
        factors = tuple(factor for factor in problem.factors if factor in moving)
        text = " + ".join(f"{weight} {forms[i].text}" for i, weight in weights.items())
        values.append((factors, text, combination(forms, weights)))
        either.add(values[-1][2])
    values.sort(key=lambda entry: (len(entry[0]), [problem.factors.index(factor) for factor in entry[0]]))
    counts: dict[tuple[str, ...], int] = {}
    out = []
    for factors, text, value in values:
        counts[factors] = counts.get(factors, 0) + 1
        sign = sign_of(problem, factors, value)
        if value in either and sign.definiteness is Definiteness.INDEFINITE:
            other = sign_of(problem, factors, -value)
            if other.definiteness is not Definiteness.INDEFINITE:
                text, value, sign = f"-({text})", -value, other
        out.append(MetricTerm(_label(factors, counts[factors]), factors, text, value.to_sympy(), sign))
    return tuple(out)


def _label(factors: tuple[str, ...], count: int) -> str:
    """G1, or GH1 of two factors; Q1_1 and Q_Q1_1 where a factor's name has several letters."""
    plain = all(len(factor) == 1 for factor in factors)
    return "".join(factors) + str(count) if plain else "_".join((*factors, str(count)))


# what was searched


def _scope(problem: Problem, ansatz: Words, forms: Sequence[Candidate], found: Invariants) -> str:
    """What was looked through, what came of it, and how far that is complete."""
    count = len(found.alone) + len(found.combined)
    said = f"{count} invariant (proven for all sizes)" if count else "none of them is invariant"
    if found.combined:
        said += f", {len(found.combined)} of them combinations of several"
    parts = [f"{problem.symmetry.name}: {described(problem, ansatz)}: {len(forms)} forms, {said}."]
    if found.changed:
        parts.append(_complete(problem, forms, found))
    if not count:
        parts.append("Try longer words or higher powers; a metric in other letters can be written by hand.")
    return " ".join(parts)


def described(problem: Problem, ansatz: Words) -> str:
    """The ansatz in the letters of the problem."""
    shapes = [_shape_text(problem, factor) for factor in problem.factors]
    letters: list[str] = []
    commuting: list[str] = []
    for gram in problem.grams:
        text = str(gram.letter)
        commutes = problem.family(gram.place) is not None
        if commutes:
            commuting.append(text)
        if not commutes or problem.connected(gram.place):
            letters.append(f"({text})^±1" if gram.invertible else text)
    letters += [f for f in problem.factors if len(problem.sides[f].acted) == 2]
    parts = [", ".join(shapes)]
    if letters:
        words = f"words of at most {_letters(ansatz.length)}" + (
            " in K and L together" if _two_weights(problem) else ""
        )
        parts.append(f"{words} {', '.join(dict.fromkeys(letters))}")
    squares = [
        str(trace(problem.points[f].T * problem.points[f])) for f in problem.factors if problem.sides[f].scalings
    ]
    if commuting or squares:
        what = ", ".join(dict.fromkeys((*commuting, *squares)))
        parts.append(f"powers from -{ansatz.powers} to {ansatz.powers} of {what}")
    for option, most in (("two-sided forms of one factor", ansatz.two_sided), ("forms of two factors", ansatz.cross)):
        if most is not None:
            parts.append(f"{option}, words of at most {_letters(most)} each")
    return "; ".join(parts)


def _letters(count: int) -> str:
    return f"{count} letter" + ("" if count == 1 else "s")


def _two_weights(problem: Problem) -> bool:
    return any(len(sides.acted) == 2 for sides in problem.sides.values())


def _shape_text(problem: Problem, factor: str) -> str:
    """tr(L xi_F' K eta_F) with the weights that the factor's sides have."""
    names, sides = problem.symmetry.names, problem.sides[factor]
    left = "K " if len(sides.acted) == 2 or sides.left.elements else ""
    right = "" if sides.left.elements and not sides.right.elements else "L " if left else "K "
    return f"tr({right}{names.tangent(factor)}' {left}{names.second_tangent(factor)})"


def _complete(problem: Problem, forms: Sequence[Candidate], found: Invariants) -> str:
    """Whether there can be further invariant combinations of these forms."""
    open_kinds: list[str] = []
    scopes: list[str] = []
    for factors, members in _kinds(problem, forms, found).items():
        dependent = sum(1 for weights in found.combined if next(iter(weights)) in members)
        text = _full_rank(problem, [forms[i].value for i in members], len(members) - dependent)
        if text is None:
            open_kinds.append(" and ".join(factors))
        else:
            scopes.append(text)
    if open_kinds:
        return f"Whether further combinations are is not decided for forms in {', '.join(open_kinds)}."
    how = f" (exact ranks modulo a prime at {' and '.join(dict.fromkeys(scopes))})" if scopes else ""
    return f"No other combination of these forms is invariant for all sizes{how}."


def _kinds(problem: Problem, forms: Sequence[Candidate], found: Invariants) -> dict[tuple[str, ...], list[int]]:
    """The forms that are changed, by their factors: forms in different tangents never cancel, unless the action mixes these."""
    names = problem.symmetry.names
    tangents = set(names.tangents)
    mixed = any(set(p.symbols()) & tangents - {names.tangent(factor)} for factor, p in problem.pushed.items())
    out: dict[tuple[str, ...], list[int]] = {}
    for i in found.changed:
        out.setdefault(problem.factors if mixed else forms[i].factors, []).append(i)
    return out


def _full_rank(problem: Problem, values: Sequence[TracePolynomial], wanted: int) -> str | None:
    """The sizes at which the changes have the rank that leaves no further combination; None where none are found."""
    if len(values) > _MOST_RANKED:
        return None
    for group in _GROUP_SIZES:
        sizes = _sizes(problem, values[0], group)
        try:
            if changed_rank(problem, values, sizes) == wanted:
                return sizes_text(sizes)
        except SingularError:
            continue
    return None


def _sizes(problem: Problem, value: TracePolynomial, group: int) -> Sizes:
    return assign_sizes(geometry_of(problem, value), group, group + 2)
