"""A closed form as the text of a Python module: printed from the expressions that were proven, the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import sympy as sp
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from quotientgeo.symbolic.closed_form import helpers
from quotientgeo.symbolic.closed_form.functions import Cosine, Scale, Sine, Turn, definition
from quotientgeo.symbolic.closed_form.reduction import COLUMNS, PAIRS, WHOLE
from quotientgeo.symbolic.closed_form.solving import TIME, Solution, Solved
from quotientgeo.symbolic.codegen.module import IMPORTS
from quotientgeo.symbolic.codegen.writer import INDENT, broken

SCALE, ELAPSED = sp.Symbol("scale", positive=True), sp.Symbol("time", real=True)


class _TorchPrinter(StrPrinter):
    """Expressions in numbers, symbols and powers as Python; a rational number as a float."""

    def _print_Rational(self, expr: sp.Rational) -> str:
        return repr(float(expr)) if expr.q in (1, 2, 4, 8) and expr.q != 1 else super()._print_Rational(expr)

    def _print_Pow(self, expr: sp.Pow, rational: bool = False) -> str:
        if (expr.exp.is_Integer and expr.exp < 0) or not expr.exp.is_number:
            return str(super()._print_Pow(expr, rational))
        base = self.parenthesize(expr.base, PRECEDENCE["Pow"])
        simple = expr.base.is_Symbol
        return f"{base}**{self._print(expr.exp)}" if simple else f"{base} ** {self._print(expr.exp)}"

    def _print_exp(self, expr: sp.exp) -> str:
        return f"torch.exp({self._print(expr.args[0])})"


def _text(expression: sp.Expr) -> str:
    if expression.is_Add and all(term.could_extract_minus_sign() for term in expression.args):
        return f"-({_text(-expression)})"
    printed = str(_TorchPrinter({"order": "lex"}).doprint(expression))
    return re.sub(r"(?<!\*)\*(?!\*)", " * ", printed).replace("/", " / ")


class Source:
    """The module of one solution.

    name, digest, origin: of the geometry, of its declaration, and of what writes the file.
    """

    def __init__(
        self, solved: Solved, factors: dict[str, tuple[object, object]], name: str, digest: str, origin: str
    ) -> None:
        self.solved, self.flow, self.layout = solved, solved.flow, solved.flow.reduced.layout
        self.factors, self.name, self.digest, self.origin = factors, name, digest, origin
        self.tangents = {factor: f"xi_{factor}" for factor in factors}

    def text(self) -> str:
        """All of it."""
        functions = [self._exponential(), *([self._domain()] if self.solved.cone else [])]
        body = "\n\n\n".join(functions)
        return "\n\n\n".join(["\n\n".join([self._head(), *self._constants(body)]), *self._helpers(body), body]) + "\n"

    # --- pieces ---

    def _head(self) -> str:
        return header(self.name, self.digest, self.origin, "by SymPy")

    def _constants(self, body: str) -> list[str]:
        pairs = (("_COSINE", "_cosine("), ("_SINE", "_sine("), ("_ARC", "_time("))
        return [helpers.constants(name) for name, call in pairs if call in body]

    def _helpers(self, body: str) -> list[str]:
        series = any(call in body for call in ("_cosine(", "_sine(", "_time("))
        texts = [helpers.SERIES] if series else []
        called = (("_cosine(", helpers.COSINE), ("_sine(", helpers.SINE), ("_time(", helpers.TIME))
        texts += [text for call, text in called if call in body]
        texts += [helpers.lowest()] if self.solved.cone else []
        if "_blocks(" in body:
            half = any(layout == "half" for layout in self.layout.values())
            texts.append(helpers.HALVES if half else helpers.NEIGHBOURS)
        return texts

    def _function(self, name: str, result: str, lines: Iterable[str]) -> str:
        arguments = [f"{a}: Tensor" for a in (*self.factors, *self.tangents.values())]
        head = broken(f"def {name}(", arguments, f") -> {result}:", "")
        return "\n".join([*head, *(f"{INDENT}{line}" if line else "" for line in lines)])

    def _exponential(self) -> str:
        count = len(self.factors)
        lines = [*self._docstring(), self._batch()]
        lines += [*self._numbers(), *self._times()]
        for factor, solution in self.solved.solutions.items():
            lines += self._end(factor, solution)
        ends = [f"{self._back(factor, f'end_{factor}')}.expand(*batch, -1, -1)" for factor in self.factors]
        lines.append(f"return ({ends[0]},)" if count == 1 else f"return {', '.join(ends)}")
        return self._function("exponential", f"tuple[{', '.join(['Tensor'] * count)}]", lines)

    def _batch(self) -> str:
        arguments = ", ".join((*self.factors, *self.tangents.values()))
        return f"batch = torch.broadcast_shapes(*(x.shape[:-2] for x in ({arguments})))"

    def _domain(self) -> str:
        least = "_lowest(turning, growth).amin((-2, -1)).sqrt()"
        lines = [
            '"""Least fraction of its start that a product reaches on the geodesic for 0 <= t <= 1, over all blocks; (...).',
            "",
            f"It is the product of {self.product}, and the geodesic ends where it vanishes. Results of exponential are NaN where",
            "the fraction is not above the square root of the rounding of the dtype.",
            '"""',
            *([self._batch()] if len(self.cone) < len(self.factors) else []),
            *self._numbers(only=self._of_the_cone()),
            f"return {least}.expand(batch)" if len(self.cone) < len(self.factors) else f"return {least}",
        ]
        return self._function("lowest", "Tensor", lines)

    @property
    def product(self) -> str:
        """What shrinks to nothing where a geodesic of a cone ends."""
        numbers = self.flow.reduced.numbers
        return " and ".join(factor if factor in numbers else f"|{factor}|" for factor in self.cone)

    @cached_property
    def cone(self) -> list[str]:
        """The factors that move in a cone."""
        return [factor for factor, solution in self.solved.solutions.items() if solution.along.has(Scale)]

    def _of_the_cone(self) -> set[sp.Symbol]:
        """What is defined for its two numbers."""
        definitions, found = self.solved.definitions, set(self.solved.cone or ())
        while more := {s for d in found for s in definitions[d].free_symbols if s in definitions} - found:
            found |= more
        return found

    def _docstring(self) -> list[str]:
        lines = ['"""End point at t = 1 of the geodesic from a point along any tangent.', ""]
        lines += [f"    {line}" for line in formulas(self.solved)]
        shapes = [f"{f} (..., {rows}, {columns})" for f, (rows, columns) in self.factors.items()]
        lines += ["", f"Shapes: {', '.join(shapes)}; tangents and results alike.", '"""']
        return lines

    # --- statements ---

    def _numbers(self, only: Iterable[sp.Symbol] | None = None) -> list[str]:
        """Blocks, their inner products, and what is defined by them."""
        definitions = self.solved.definitions
        lasting = set(definitions if only is None else only)
        used = set().union(*(definitions[s].free_symbols for s in lasting)) if lasting else set()
        if only is None:
            used |= set().union(*(s.along.free_symbols | s.across.free_symbols for s in self.solved.solutions.values()))
            used |= set().union(*(s.drift.free_symbols for s in self.solved.solutions.values()))
        lines = []
        for factor in self.factors:
            lines += self._block(factor, used)
        return lines + [f"{symbol} = {_text(value)}" for symbol, value in definitions.items() if symbol in lasting]

    def _block(self, factor: str, used: set[sp.Symbol]) -> list[str]:
        xi, polar = self.tangents[factor], self.flow.polar.get(factor)
        axes = "(-2, -1)" if self.layout[factor] == WHOLE else "-1"
        if factor in self.flow.reduced.numbers:
            return []
        lines = []
        turned = self._turned(factor)
        if turned:
            lines.append(f"{factor}, {xi} = {turned.format(factor)}, {turned.format(xi)}")
        if polar is not None and {polar.rate, polar.turn} & used:
            lines.append(f"square_{factor} = ({factor} * {factor}).sum({axes}, keepdim=True)")
            lines.append(f"{polar.rate} = ({factor} * {xi}).sum({axes}, keepdim=True) / square_{factor}")
            lines.append(f"rest_{factor} = {xi} - {polar.rate} * {factor}")
        if polar is not None and polar.turn in used:
            lines.append(f"{polar.turn} = (rest_{factor} * rest_{factor}).sum({axes}, keepdim=True) / square_{factor}")
        if self.flow.reduced.grams[factor].speed in used:
            speed = self.flow.reduced.grams[factor].speed
            lines.append(f"{speed} = ({xi} * {xi}).sum({axes}, keepdim=True)")
        return lines

    def _turned(self, factor: str) -> str:
        """How a factor becomes one with its blocks as rows."""
        layout = self.layout[factor]
        return "{}.mT" if layout == COLUMNS else "_blocks({})" if layout in PAIRS.values() else ""

    def _back(self, factor: str, value: str) -> str:
        layout = self.layout[factor]
        return f"{value}.mT" if layout == COLUMNS else f"_columns({value})" if layout in PAIRS.values() else value

    def _times(self) -> list[str]:
        """The functions of time at t = 1."""
        if not self.solved.cone:
            return []
        turning, growth = self.solved.cone
        scale = _text(definition(Scale(turning, growth, sp.Integer(1))))
        return [
            f"scale = {scale}",
            'scale = torch.where(_lowest(turning, growth) > torch.finfo(scale.dtype).eps, scale, float("nan"))',
            "time = _time(turning, growth + 1)",
        ]

    def _end(self, factor: str, solution: Solution) -> list[str]:
        """Statements that give the end point of a block."""
        lines: list[str] = []
        along, across = (self._now(part, factor, lines) for part in (solution.along, solution.across))
        point, xi = factor, self.tangents[factor]
        if factor in self.flow.reduced.numbers:
            moved, back = (
                (f"({factor} + {solution.shift})", f" - {solution.shift}") if solution.shift != 0 else (factor, "")
            )
            terms = [term for term in (_times_text(along, moved), _times_text(across, xi)) if term]
            return [*lines, f"end_{factor} = {' + '.join(terms)}{back}"]
        polar = self.flow.polar.get(factor)
        if polar is not None and solution.drift == polar.rate:
            xi = f"rest_{factor}"
        elif solution.drift != 0:
            xi = f"({xi} - {_parenthesised(solution.drift)} * {factor})"
        common = sp.Mul(*(part for part in sp.Mul.make_args(along) if part in sp.Mul.make_args(across)))
        inside = f"{_times_text(along / common, point)} + {_times_text(across / common, xi)}"
        if common == 1:
            return [*lines, f"end_{factor} = {inside}"]
        return [*lines, f"length_{factor} = {_text(common)}", f"end_{factor} = length_{factor} * ({inside})"]

    def _now(self, value: sp.Expr, factor: str, lines: list[str]) -> sp.Expr:
        """At t = 1, with the calls of functions as symbols; statements that give these are added to ``lines``."""
        value = _at(value, self.solved, sp.Integer(1))
        for node in sorted(value.atoms(Cosine, Sine), key=str):
            k, t = node.args
            name = f"{'cosine' if isinstance(node, Cosine) else 'sine'}_{factor}"
            call = f"_{name.split('_')[0]}({_text(k * t**2)})"
            line = f"{name} = {call}" if isinstance(node, Cosine) or t == 1 else f"{name} = {_text(t)} * {call}"
            lines += [line] if line not in lines else []
            value = value.xreplace({node: sp.Symbol(name)})
        return value


def header(name: str, digest: str, origin: str, proven: str) -> str:
    """Banner, imports and constants; ``proven``: how."""
    return f'''"""{name}: closed form of its geodesics, generated by {origin}; do not edit.

Declaration {digest}. Proven {proven} from the derived geodesic equation: see closed_form in certificate.json.
Functions are batched: leading dimensions of the arguments broadcast. Nothing raises, so nothing waits for a GPU.
"""

{IMPORTS}

NAME = "{name}"
DECLARATION = "{digest}"'''


def _at(value: sp.Expr, solved: Solved, time: sp.Expr) -> sp.Expr:
    """With symbols for scale and time of a cone."""
    if solved.cone:
        k, b = solved.cone
        value = value.xreplace({Scale(k, b, TIME): SCALE, Turn(k, b, TIME): ELAPSED})
    return value.subs(TIME, time)


def _parenthesised(value: sp.Expr) -> str:
    text = _text(value)
    return f"({text})" if value.is_Add else text


def _times_text(value: sp.Expr, factor: str) -> str:
    if value == 0:
        return ""
    return factor if value == 1 else f"{_parenthesised(value)} * {factor}"


def formulas(solved: Solved) -> list[str]:
    """Lines for a reader: the solution, the functions in it, and what its letters are."""
    lines = [_formula(solved, factor, solution) for factor, solution in solved.solutions.items()]
    if solved.cone:
        k, b = solved.cone
        lines += [f"scale = (1 + {b} t)^2 + {k} t^2", f"time = atan2(sqrt({k}) t, 1 + {b} t) / sqrt({k})"]
    lines += [f"{symbol} = {_plain(value)}" for symbol, value in solved.definitions.items()]
    used = set().union(*(s.along.free_symbols | s.across.free_symbols for s in solved.solutions.values()))
    used |= set().union(set(), *(value.free_symbols for value in solved.definitions.values()))
    for factor, polar in solved.flow.polar.items():
        if {polar.rate, polar.turn} & used:
            lines.append(f"{polar.rate} = <{factor}, xi_{factor}> / |{factor}|^2")
        if polar.turn in used:
            lines.append(f"{polar.turn} = |xi_{factor} - {polar.rate} {factor}|^2 / |{factor}|^2")
    lines += [f"{g.speed} = |xi_{factor}|^2" for factor, g in solved.flow.reduced.grams.items() if g.speed in used]
    nodes = {
        type(n) for s in solved.solutions.values() for value in (s.along, s.across) for n in value.atoms(sp.Function)
    }
    lines += ["Cosine(k, t) = cos(sqrt(k) t)"] if Cosine in nodes else []
    return [*lines, "Sine(k, t) = sin(sqrt(k) t) / sqrt(k)"] if Sine in nodes else lines


def _formula(solved: Solved, factor: str, solution: Solution) -> str:
    along, across = (_at(part, solved, TIME) for part in (solution.along, solution.across))
    common = sp.Mul(*(part for part in sp.Mul.make_args(along) if part in sp.Mul.make_args(across)))
    number, shift = factor in solved.flow.reduced.numbers, solution.shift
    point = f"({factor} + {shift})" if shift != 0 else factor
    velocity = f"xi_{factor}"
    if solution.drift != 0 and not number:
        velocity = f"(xi_{factor} - {_plain(solution.drift)} {factor})"
    terms = [
        f"{_plain(value / common)} {x}".removeprefix("1 ")
        for value, x in ((along, point), (across, velocity))
        if value != 0
    ]
    inside = " + ".join(terms)
    text = inside if common == 1 else f"{_plain(common)} [{inside}]"
    return f"{factor}(t) = {text}" + (f" - {shift}" if shift != 0 else "")


def _plain(value: sp.Expr) -> str:
    return str(StrPrinter({"order": "lex"}).doprint(value)).replace("**", "^").replace("*", " ")
