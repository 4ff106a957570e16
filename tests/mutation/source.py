"""Mutants of generated source: one operator, operand, transpose, number, helper or line of one function is changed."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from quotientgeo.errors import QuotientgeoError
from tests.mutation.declarations import some
from tests.mutation.subjects import declared, geometry, source
from tests.mutation.verdicts import EQUAL, NUMBERS, SYMBOLS, Verdict

Namespace = dict[str, Any]
Site = tuple[str, str, Callable[[], tuple[str, str]]]
SIZES = (5, 6, 7, 8, 9, 10, 11, 12)  # of factors' own axes
TOLERANCE = 1e-9

_OPERATORS: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def _statements(function: ast.FunctionDef) -> Iterator[tuple[list[ast.stmt], int]]:
    """Where its statements stand, without the docstring."""
    bodies = [function.body]
    while bodies:
        body = bodies.pop()
        for i, statement in enumerate(body):
            bodies += [statement.body] if isinstance(statement, ast.For | ast.If) else []
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                yield body, i


def _replacements(node: ast.AST, names: list[str]) -> Iterator[tuple[str, ast.AST]]:
    """(kind, what could stand in its place by mistake)."""
    match node:
        case ast.BinOp(op=ast.MatMult(), left=left, right=right):
            yield "swapped operands", ast.BinOp(right, ast.MatMult(), left)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            yield "wrong operator", ast.BinOp(left, _OPERATORS[type(op)](), right)
            if isinstance(op, ast.Sub):
                yield "swapped operands", ast.BinOp(right, op, left)
            if isinstance(op, ast.Add | ast.Sub):
                yield "dropped term", left
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "dropped sign", operand
        case ast.Attribute(attr="mT", value=value):
            yield "dropped transpose", value
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield "wrong number", ast.Constant(number + 1)
        case ast.Call(func=ast.Attribute(attr="cholesky_solve"), args=[right, _]):
            yield "dropped solve", right
        case ast.Call(func=ast.Name(id="_cholesky"), args=args):
            yield "wrong helper", ast.Call(ast.Name("_lu"), args, [])
        case ast.Call(func=ast.Attribute(attr="lu_solve") as func, args=args, keywords=keywords) if keywords:
            yield "wrong helper", ast.Call(func, args, [])
        case ast.Name(id=name, ctx=ast.Load()) if name in names:
            for other in names:
                if other != name and _alike(name, other):
                    yield "wrong name", ast.Name(other, ast.Load())


def _alike(name: str, other: str) -> bool:
    """Names that are easily taken for each other: of two results, two factorisations, two arguments."""
    return name.rstrip("0123456789").split("_")[0] == other.rstrip("0123456789").split("_")[0] or len(name) == len(
        other
    )


def sites(text: str, most: int | None = None, seed: str = "") -> Iterator[Site]:
    """Every single change that this file knows of: (kind, what it is, how to make it); of ``most`` statements, or of all."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    places = [(f, number) for f in functions for number, _ in enumerate(_statements(f))]
    if most is not None and most < len(places):
        places = random.Random(seed).sample(places, most)
    for function, number in places:
        stored = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        names = list(dict.fromkeys([*(argument.arg for argument in function.args.args), *stored]))
        body, i = list(_statements(function))[number]
        line = f"{function.name}: {ast.unparse(body[i]).split(chr(10))[0]}"
        if len(body) > 1:
            yield "dropped line", line, _Edit(text, function, number)
        for place, node in enumerate(ast.walk(body[i])):
            for kind, new in _replacements(node, names):
                yield kind, line, _Edit(text, function, number, place, new)


@dataclass(frozen=True)
class _Edit:
    """One change of one function; without ``new`` the line is dropped."""

    text: str
    function: ast.FunctionDef
    statement: int
    place: int = 0
    new: ast.AST | None = None

    def __call__(self) -> tuple[str, str]:
        """(the changed line, the whole source)."""
        other = copy.deepcopy(self.function)
        body, i = list(_statements(other))[self.statement]
        if self.new is None:
            line = f"without {ast.unparse(body.pop(i))}"
        else:
            here = list(ast.walk(body[i]))[self.place]
            body[i] = ast.fix_missing_locations(_Replace(here, self.new).visit(body[i]))
            line = ast.unparse(body[i])
        lines = self.text.split("\n")
        lines[self.function.lineno - 1 : self.function.end_lineno] = [ast.unparse(other)]
        return line.split("\n")[0], "\n".join(lines)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, copy.deepcopy(new)

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else super().visit(node)


# what rejects them


def on_symbols(entry: str, text: str) -> bool:
    """Whether code generation's own checks refuse the source: its run on symbols, and the check of what is solved for."""
    from quotientgeo.symbolic import files

    try:
        files.check(text, geometry(entry))
    except (
        QuotientgeoError,
        NameError,
        TypeError,
        AttributeError,
        UnboundLocalError,
        ValueError,
        RuntimeError,
        KeyError,
    ):
        return True
    return False


def namespace(text: str) -> Namespace:
    out: Namespace = {}
    exec(compile(text, "<mutant>", "exec"), out)
    return out


def _numbers(entry: str) -> dict[str, int]:
    symmetry, _ = declared(entry)
    free = iter(SIZES)
    return {s: 4 if s in symmetry.group_sizes else next(free) for s in symmetry.sizes if isinstance(s, str)}


@cache
def arguments(entry: str) -> dict[str, Tensor]:
    """A batch of values of every letter of the problem, elements and algebra of the groups among them."""
    symmetry, metric = declared(entry)
    sizes, rng = _numbers(entry), torch.Generator().manual_seed(5)
    g, out = geometry(entry), {}
    for name in g.alphabet:
        rows, columns = (s if isinstance(s, int) else sizes[s] for s in g.alphabet.shape(name))
        out[name] = torch.randn(2, rows, columns, generator=rng, dtype=torch.float64)
    for element, x, group in zip(symmetry.names.elements, symmetry.names.algebra, symmetry.groups, strict=True):
        out[element] = group.random_element(rng, condition=4.0, sizes=sizes, batch=(2,))  # type: ignore[attr-defined]
        units = group.algebra_basis(sizes=sizes)  # type: ignore[attr-defined]
        out[x] = torch.einsum("bk,kij->bij", torch.randn(2, len(units), generator=rng, dtype=torch.float64), units)
    out |= {name: out[name].abs() + 0.5 for name in metric.parameters}
    return out


def results(entry: str, names: Namespace, functions: list[str]) -> list[Tensor]:
    """What functions give at the fixed values."""
    known, out = arguments(entry), []
    for function in functions:
        given = [known[name] for name in inspect.signature(names[function]).parameters]
        found = names[function](*given)
        out += list(found) if isinstance(found, tuple) else [found]
    return out


@cache
def _wanted(entry: str, functions: tuple[str, ...]) -> list[Tensor]:
    return results(entry, namespace(source(entry)), list(functions))


def on_numbers(entry: str, text: str, function: str) -> bool:
    """Whether the values differ from those of the original (of all functions that may use it, for a helper)."""
    public = [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    looked_at = [function] if function in public else public
    try:
        found = results(entry, namespace(text), looked_at)
    except Exception:
        return True
    wanted = _wanted(entry, tuple(looked_at))
    return len(found) != len(wanted) or any(map(_differ, found, wanted))


def _differ(found: Any, wanted: Tensor) -> bool:
    if not isinstance(found, Tensor) or found.shape != wanted.shape:
        return True
    return not bool((found - wanted).abs().max() <= TOLERANCE * (1 + wanted.abs().max()))


def source_mutants(entry: str, most: int) -> Iterator[Verdict]:
    """``most`` mutants of the generated source."""
    for kind, where, edit in some(list(sites(source(entry), 3 * most, entry)), most, entry, "source"):
        function = where.split(":")[0]
        line, text = edit()
        verdict = Verdict(entry, "source", kind, f"{function}: {line}")
        killed = [SYMBOLS] * on_symbols(entry, text) + [NUMBERS] * on_numbers(entry, text, function)
        if SYMBOLS in killed:
            yield dataclasses.replace(verdict, killed_by=tuple(killed))
        else:
            yield dataclasses.replace(verdict, harmless="" if killed else EQUAL)
