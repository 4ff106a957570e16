"""Proof that a closed form is the geodesic: inserted into the derived geodesic equation, it leaves what SymPy reduces to zero.

A vector block moves as x(t) = a(t) x + c(t) v. Its inner products at time t follow from those at the start, and the equation
x'' = A x + B x' holds where a'' = A a + B a' and c'' = A c + B c', A and B taken at time t; in every inner product space, so for
all sizes. The functions of time become unknowns s, e, cosine and sine with the relations s^4 = Scale and
cosine^2 + k sine^2 = 1; what an equation leaves is a rational function of them, whose numerator has to be 0 modulo the relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.closed_form.functions import Cosine, Scale, Sine, Turn, definition, functions_hold, is_own
from quotientgeo.symbolic.closed_form.solving import TIME, Solved

_TRIED = tuple(sp.Rational(n, d) for n, d in ((1, 2), (4, 5), (3, 7), (2, 3), (5, 4), (1, 3), (7, 8)))
_POINTS = 3  # at which a residual is evaluated before it is reduced
_DIGITS, _SMALL = 40, sp.Rational(1, 10**20)
Motion = tuple[sp.Expr, sp.Expr, sp.Expr]  # a function of time with its first two derivatives


def prove(solved: Solved) -> None:
    """Initial point, initial velocity and geodesic equation of every factor, each with the residual 0.

    Everything is first evaluated at some points, where what is wrong shows at once.

    Raises:
        CertificateError: a residual is not zero; the message says which, and a point where it is not.
    """
    functions_hold()
    proof = _Proof(solved)
    name = solved.flow.reduced.name
    for factor in solved.solutions:
        for what, residual in proof.start(factor).items():
            if sp.cancel(residual.subs(solved.definitions)) != 0:
                raise CertificateError(f"{name}: the closed form of {factor} does not have {what}: {residual} is left")
    witness = proof.witness()
    if witness:
        raise CertificateError(f"{name}: the closed form is not the geodesic: {witness}")
    for factor in solved.solutions:
        for what, residual in proof.equation(factor).items():
            if proof.reduced(residual) != 0:
                raise CertificateError(
                    f"{name}: the closed form of {factor} is not proven: {what} of the geodesic equation"
                )


class _Proof:
    """A solution in unknowns for its functions of time."""

    def __init__(self, solved: Solved) -> None:
        self.solved, self.flow = solved, solved.flow
        self.velocities = {
            self.flow.reduced.grams[f].mixed: rate * (self.flow.reduced.grams[f].point + solved.solutions[f].shift)
            for f, rate in self.flow.number_rates.items()
            if self._is_rate(f)
        }
        self.parts = {factor: self._motions(factor) for factor in solved.solutions}
        self.unknowns = _Unknowns.of(
            [value for motions in self.parts.values() for motion in motions for value in motion]
        )
        inserted = {*self.growth, *(self.flow.number_rates[f] for f in self.flow.number_rates if self._is_rate(f))}
        self.lasting = [symbol for symbol in solved.definitions if symbol not in inserted]  # relations keep degrees low
        relations = [relation for _, relation in self.unknowns.relations]
        relations += [symbol - solved.definitions[symbol] for symbol in self.lasting]
        self.relations = [sp.expand(self._inserted(relation)) for relation in relations]

    def _is_rate(self, factor: str) -> bool:
        """Whether what is called the rate of a number is its velocity over x + shift."""
        gram, rate = self.flow.reduced.grams[factor], self.flow.number_rates[factor]
        y = gram.point + self.solved.solutions[factor].shift
        return rate in self.solved.definitions and sp.cancel(self.solved.definitions[rate] * y - gram.mixed) == 0

    def _motions(self, factor: str) -> tuple[Motion, ...]:
        """Of a number: x(t). Of a vector: what multiplies point and velocity."""
        solution, gram = self.solved.solutions[factor], self.flow.reduced.grams[factor]
        numbers = factor in self.flow.reduced.numbers
        values = [solution.number(gram)] if numbers else [solution.of_point, solution.across]
        return tuple((value, value.diff(TIME), value.diff(TIME, 2)) for value in values)

    @cached_property
    def growth(self) -> dict[sp.Symbol, sp.Expr]:
        """What the rate of growth of a cone stands for."""
        return {} if self.solved.cone is None else {self.solved.cone[1]: self.solved.definitions[self.solved.cone[1]]}

    def start(self, factor: str) -> dict[str, sp.Expr]:
        """What is not right at t = 0."""
        gram = self.flow.reduced.grams[factor]
        out = {}
        wanted = [(gram.point, gram.mixed)] if factor in self.flow.reduced.numbers else [(1, 0), (0, 1)]
        for (value, slope, _), (point, velocity) in zip(self.parts[factor], wanted, strict=True):
            names = f" ({point}, {velocity})" if factor not in self.flow.reduced.numbers else ""
            out[f"its initial point{names}"] = value.subs(TIME, 0) - point
            out[f"its initial velocity{names}"] = slope.subs(TIME, 0) - velocity
        return out

    def equation(self, factor: str) -> dict[str, sp.Expr]:
        """What is left of the geodesic equation, in unknowns."""
        A, B = (sp.cancel(self._inserted(part.xreplace(self.later))) for part in self.flow.reduced.coefficients[factor])
        if factor in self.flow.reduced.numbers:
            ((_, _, second),) = self.parts[factor]
            return {"x": self._in_unknowns(second) - A}
        names = ("what multiplies the point", "what multiplies the velocity")
        moved = [tuple(map(self._in_unknowns, motion)) for motion in self.parts[factor]]
        return {name: second - A * a - B * slope for name, (a, slope, second) in zip(names, moved, strict=True)}

    def _in_unknowns(self, value: sp.Expr) -> sp.Expr:
        value = value.xreplace(self.unknowns.replaced)
        if value.has(Turn):
            raise CertificateError(f"the time of a cone is left in {value!s:.200}")
        return self._inserted(value)

    def _inserted(self, value: sp.Expr) -> sp.Expr:
        return value.subs(self.growth).subs(self.velocities)

    @cached_property
    def later(self) -> dict[sp.Symbol, sp.Expr]:
        """The inner products at time t, reduced."""
        out: dict[sp.Symbol, sp.Expr] = {}
        for factor, motions in self.parts.items():
            gram = self.flow.reduced.grams[factor]
            symbols = (gram.point, gram.mixed, gram.speed)
            moved = [[self._in_unknowns(value) for value in motion] for motion in motions]
            for symbol, value in zip(symbols, _later(moved, symbols), strict=False):
                out[symbol] = self.reduced(value.subs(self.flow.to_polar), whole=True)
        return out

    def reduced(self, value: sp.Expr, whole: bool = False) -> sp.Expr:
        """The numerator modulo the relations, which is 0 exactly where the value vanishes; or the whole fraction."""
        above, below = sp.fraction(sp.together(value))
        above = sp.expand(above)
        if above != 0 and self.relations:
            above = sp.reduced(above, self.relations, *self._order(above), order="lex")[1]
        return sp.cancel(above / below) if whole else above

    def _order(self, value: sp.Expr) -> list[sp.Symbol]:
        """The symbols that lead a relation first: s, cosine, the turning."""
        leading = [symbol for symbol, _ in self.unknowns.relations]
        leading += self.lasting
        symbols = value.free_symbols.union(*(relation.free_symbols for relation in self.relations))
        return [*leading, *sorted(symbols - set(leading), key=str)]

    def witness(self) -> str:
        """A point at which a geodesic equation does not hold, with what is left; nothing where all hold at all that are tried."""
        reduced, definitions = self.flow.reduced, self.solved.definitions
        symbols = {
            s for motions in self.parts.values() for motion in motions for value in motion for s in value.free_symbols
        }
        symbols |= set().union(set(), *(value.free_symbols for value in definitions.values()))
        symbols |= {s for gram in reduced.grams.values() for s in (gram.point, gram.mixed)}
        symbols |= {s for polar in self.flow.polar.values() for s in (polar.rate, polar.turn)}
        symbols |= {gram.speed for gram in reduced.grams.values()}
        free = sorted(symbols - set(definitions) - set(self.flow.to_polar), key=str)
        for shift in range(_POINTS):
            point = {s: _TRIED[(shift + i) % len(_TRIED)] for i, s in enumerate(free)}
            values = dict(point) | {s: _number(value, point) for s, value in self.flow.to_polar.items()}
            for symbol, value in definitions.items():
                values[symbol] = _number(value, values)
            for factor, found in self._left(values).items():
                if not abs(found) < _SMALL:  # also where it is not a number
                    where = ", ".join(
                        f"{s} = {number}" for s, number in point.items() if not str(s).startswith("unused")
                    )
                    return f"in the equation of {factor}, {sp.N(found, 6)} is left at {where}"
        return ""

    def _left(self, values: Mapping[sp.Symbol, sp.Expr]) -> dict[str, sp.Expr]:
        """What is left of the equation of each factor, in numbers; of a vector the greater of its two parts."""
        reduced = self.flow.reduced
        parts = {f: [[_number(x, values) for x in motion] for motion in motions] for f, motions in self.parts.items()}
        later: dict[sp.Symbol, sp.Expr] = {}
        for factor, gram in reduced.grams.items():
            inner = [values[s] for s in (gram.point, gram.mixed, gram.speed)]
            later |= dict(zip((gram.point, gram.mixed, gram.speed), _later(parts[factor], inner), strict=False))
        out = {}
        for factor, moved in parts.items():
            A, B = (_number(value, later) for value in reduced.coefficients[factor])
            if factor in reduced.numbers:
                out[factor] = moved[0][2] - A
            else:
                out[factor] = max((x2 - A * x0 - B * x1 for x0, x1, x2 in moved), key=abs)
        return out


def _number(value: sp.Expr, values: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    return sp.N(value.xreplace(values).replace(is_own, definition), _DIGITS)


def _later(moved: Sequence[Sequence[sp.Expr]], inner: Sequence[sp.Expr]) -> tuple[sp.Expr, ...]:
    """<x, x>, <x, v> and <v, v> at time t from those at the start; of a number x and v."""
    if len(moved) == 1:
        return moved[0][0], moved[0][1]
    (a, b, _), (c, d, _) = moved
    p, q, r = inner
    return (
        a * a * p + 2 * a * c * q + c * c * r,
        a * b * p + (a * d + b * c) * q + c * d * r,
        b * b * p + 2 * b * d * q + d * d * r,
    )


@dataclass(frozen=True)
class _Unknowns:
    """Functions of time -> expressions in unknowns; unknown -> what it means; and those that lead a relation."""

    replaced: Mapping[sp.Expr, sp.Expr]
    meaning: Mapping[sp.Symbol, sp.Expr]
    relations: tuple[tuple[sp.Symbol, sp.Expr], ...]

    @classmethod
    def of(cls, values: Iterable[sp.Expr]) -> _Unknowns:
        nodes = {node for value in values for node in value.atoms(sp.Function, sp.Pow)}
        replaced: dict[sp.Expr, sp.Expr] = {}
        meaning: dict[sp.Symbol, sp.Expr] = {}
        relations = []
        for i, scale in enumerate(sorted((n for n in nodes if isinstance(n, Scale)), key=str)):
            root = sp.Symbol(f"s{i}", positive=True)
            powers = {n: root ** (4 * n.exp) for n in nodes if n.is_Pow and n.base == scale}
            replaced |= {scale: root**4, **powers}
            meaning[root] = scale ** sp.Rational(1, 4)
            relations.append((root, root**4 - definition(scale)))
        for i, pair in enumerate(sorted({n.args for n in nodes if isinstance(n, Cosine | Sine)}, key=str)):
            cosine, sine = sp.symbols(f"cosine{i} sine{i}", real=True)
            replaced |= {Cosine(*pair): cosine, Sine(*pair): sine}
            meaning |= {cosine: Cosine(*pair), sine: Sine(*pair)}
            relations.append((cosine, cosine**2 + pair[0] * sine**2 - 1))
        exponentials, roots = _exponentials(sorted((n for n in nodes if isinstance(n, sp.exp)), key=str))
        return cls(replaced | exponentials, meaning | roots, tuple(relations))


def _exponentials(nodes: Iterable[sp.Expr]) -> tuple[dict[sp.Expr, sp.Expr], dict[sp.Symbol, sp.Expr]]:
    """Sums of rational multiples of monomials under exp, as products of powers of one unknown a monomial; and their meaning."""
    sums = {node: sp.expand(node.args[0]).as_coefficients_dict() for node in nodes}
    monomials = sorted({monomial for parts in sums.values() for monomial in parts}, key=str)
    common = sp.ilcm(1, 1, *(sp.Rational(c).q for parts in sums.values() for c in parts.values()))
    roots = {monomial: sp.Symbol(f"e{i}", positive=True) for i, monomial in enumerate(monomials)}
    replaced = {node: sp.Mul(*(roots[m] ** (c * common) for m, c in parts.items())) for node, parts in sums.items()}
    return replaced, {symbol: sp.exp(monomial / common) for monomial, symbol in roots.items()}
