"""Graphs to the statements of a Python function: one operation a line, short names, formatted as ruff formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

from quotientgeo.symbolic.algebra import Dimension, Shape
from quotientgeo.symbolic.codegen.grams import Gram
from quotientgeo.symbolic.codegen.graph import Graph, Node, Operation, Value

WIDTH = 120
INDENT = "    "
_SOLVES = (Operation.SOLVE, Operation.SOLVE_TRANSPOSED)
_INLINE_IN = (Operation.SUM, Operation.CONTRACTION, *_SOLVES)
_ALWAYS_INLINE = (Operation.ARGUMENT, Operation.SIZE, Operation.ONE, Operation.ONES)
_OF_TENSORS = (Operation.CONTRACTION, Operation.TRACE, Operation.ENTRY, Operation.ENTRIES)
_INLINE_ONCE = (Operation.TRACE, Operation.CONTRACTION, Operation.ENTRY, Operation.ENTRIES)


class Output(NamedTuple):
    """A value that the function returns, under a name."""

    name: str
    value: Value


class Expression(NamedTuple):
    """Source text; ``atom`` if no operator outside brackets binds weaker than a method call."""

    text: str
    atom: bool

    @property
    def bracketed(self) -> str:
        """Text that may stand as an operand of any operator."""
        return self.text if self.atom else f"({self.text})"


class FunctionWriter:
    """The body of one generated function.

    Args:
        graph: holds the nodes.
        arguments: {name: shape} of the parameters, in order; tensors of shape (..., rows, columns).
        outputs: what to return, in order.
        grams: {factor: its Gram matrix}.
        taken: names that a temporary must not have.
        one: return the only output itself, not a tuple of one.
    """

    def __init__(
        self,
        graph: Graph,
        arguments: Mapping[str, Shape],
        outputs: Sequence[Output],
        grams: Mapping[str, Gram],
        taken: frozenset[str],
        one: bool,
    ) -> None:
        self._graph = graph
        self._arguments = arguments
        self._outputs = outputs
        self._grams = grams
        self._taken = taken | set(arguments) | {output.name for output in outputs}
        self._one = one
        self._nodes = graph.reachable(tuple(output.value for output in outputs))
        self._inline = self._choose_inline()
        self._numbers = count(1)
        self._names: dict[Node, str] = {}
        for output in outputs:
            value = output.value
            if value == value.bare and not value.transposed and value.node not in {*self._inline, *self._names}:
                self._names[value.node] = output.name

    def lines(self) -> list[str]:
        """The statements, indented once."""
        out: list[str] = []
        if self._needs_batch:
            shapes = [f"{name}.shape[:-2]" for name in self._arguments]
            out.extend(broken(f"{INDENT}batch = torch.broadcast_shapes(", shapes, ")", INDENT))
        direct = self._one and not self._needs_batch
        for node in self._nodes:
            if node not in self._inline and not (direct and self._names.get(node) == self._outputs[0].name):
                out.extend(self._statement(self._name(node), self._terms(node)))
        if direct:
            return [*out, *self._statement(None, self._direct(self._outputs[0]))]
        for output in self._outputs:
            if self._names.get(output.value.node) != output.name:
                out.extend(self._statement(output.name, [output.value]))
        return [*out, *self._return()]

    def _direct(self, output: Output) -> list[Value] | str:
        """What ``return`` is followed by: the operation itself, or a multiple of something that has a name."""
        named = self._names.get(output.value.node) == output.name
        return self._terms(output.value.node) if named else [output.value]

    # names

    def _choose_inline(self) -> set[Node]:
        uses: Counter[Node] = Counter()
        users: dict[Node, Node] = {}
        for node in self._nodes:
            for operand in node.operands:
                uses[operand.node] += 1
                users[operand.node] = node
        uses.update(output.value.node for output in self._outputs)
        inline: set[Node] = set()
        for node in self._nodes:  # operands first, so that at most one product is written inside another operation
            if node.operation in _ALWAYS_INLINE or (node.operation in _INLINE_ONCE and uses[node] == 1):
                inline.add(node)
            elif node.operation in (Operation.PRODUCT, *_SOLVES) and uses[node] == 1:
                user = users.get(node)
                scaled = user is None and any(o.value.node is node and o.value != Value(node) for o in self._outputs)
                plain = all(o.node not in inline or o.node.operation is Operation.ARGUMENT for o in node.operands)
                nested = user is not None and user.operation in _INLINE_IN and node.operation is Operation.PRODUCT
                if plain and (scaled or nested):
                    inline.add(node)
        return inline

    def _name(self, node: Node) -> str:
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = self._new_name(node)
        return name

    def _new_name(self, node: Node) -> str:
        gram = self._gram(node)
        if gram is not None:
            return gram
        if node.operation is Operation.IDENTITY:
            return self._fresh(f"eye_{node.shape[0]}")
        if node.operation in (Operation.CHOLESKY, Operation.LU):
            stem = "chol" if node.operation is Operation.CHOLESKY else "lu"
            matrix = node.operands[0].node
            known = self._gram(matrix) or (str(matrix.label) if matrix.operation is Operation.ARGUMENT else None)
            return self._fresh(f"{stem}_{known or self._name(matrix)}")
        return self._fresh()

    def _gram(self, node: Node) -> str | None:
        """P for G' G and so on."""
        if node.operation is Operation.PRODUCT:
            left, right = node.operands
            gram = self._grams.get(str(left.node.label))
            sides = (left.transposed, right.transposed)
            if gram is not None and left.node is right.node and sides == (not gram.wide, gram.wide):
                return gram.name
        return None

    def _fresh(self, wish: str | None = None) -> str:
        names = set(self._names.values()) | self._taken
        if wish is not None and wish not in names:
            return wish
        return next(name for name in (f"t{i}" for i in self._numbers) if name not in names)

    # expressions

    def _terms(self, node: Node) -> list[Value] | str:
        """The summands of a node, or the text of any other operation."""
        return list(node.operands) if node.operation is Operation.SUM else self._operation(node, False).text

    def _reference(self, value: Value) -> Expression:
        """A value without its coefficient, by name or written out."""
        if value.node.operation is Operation.ARGUMENT:
            return Expression(f"{value.node.label}.mT" if value.transposed else str(value.node.label), True)
        if value.node in self._inline:
            return self._operation(value.node, value.transposed)
        name = self._name(value.node)
        return Expression(f"{name}.mT" if value.transposed else name, True)

    def _operation(self, node: Node, transposed: bool) -> Expression:
        match node.operation:
            case Operation.PRODUCT:
                left, right = node.operands
                if transposed:
                    left, right = self._flip(right), self._flip(left)
                return Expression(f"{self._reference(left).bracketed} @ {self._reference(right).bracketed}", False)
            case Operation.CHOLESKY:
                return Expression(f"_cholesky({self._reference(node.operands[0]).text})", True)
            case Operation.LU:
                return Expression(f"_lu({self._reference(node.operands[0]).text})", True)
            case Operation.SOLVE | Operation.SOLVE_TRANSPOSED:
                return Expression(f"{self._solve(node)}{'.mT' if transposed else ''}", True)
            case Operation.IDENTITY:
                like = next(iter(self._arguments))
                return Expression(
                    f"torch.eye({self._extent(node.shape[0])}, dtype={like}.dtype, device={like}.device)", True
                )
            case Operation.ZERO:
                like = next(iter(self._arguments))
                return Expression(f"{like}.new_zeros(*batch, {', '.join(map(self._extent, node.shape))})", True)
            case Operation.ONES:
                like = next(iter(self._arguments))
                extents = ", ".join(map(self._extent, reversed(node.shape) if transposed else node.shape))
                return Expression(f"{like}.new_ones({extents})", True)
        return self._scalar(node) if node.is_scalar else self._entrywise(node)

    def _entrywise(self, node: Node) -> Expression:
        """Operations on entries, columns and diagonals."""
        texts = [self._reference(operand).bracketed for operand in node.operands]
        match node.operation:
            case Operation.ELEMENTWISE:
                return Expression(f"{texts[0]} * {texts[1]}", False)
            case Operation.DIVISION:
                ones = node.operands[0].node.operation is Operation.ONES
                return Expression(f"{'1' if ones else texts[0]} / {texts[1]}", False)
            case Operation.ROW_PRODUCT:
                return Expression(f"({texts[0]} * {texts[1]}).sum(-1, keepdim=True)", True)
            case Operation.ROW_SUM:
                return Expression(f"{texts[0]}.sum(-1, keepdim=True)", True)
            case Operation.DIAGONAL:
                return Expression(f"{texts[0]}.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)", True)
            case Operation.DIAGONAL_MATRIX:
                return Expression(f"torch.diag_embed({texts[0]}.squeeze(-1))", True)
            case Operation.SCALED:
                axes = "" if self._is_python_number(node.operands[0]) else "[..., None, None]"
                return Expression(f"{texts[0]}{axes} * {texts[1]}", False)
        assert node.operation is Operation.COMPLEX_PART
        return Expression(f"_complex_{node.label}({self._reference(node.operands[0]).text})", True)

    def _is_python_number(self, value: Value) -> bool:
        """Whether a number is made of sizes alone, so that it is no tensor."""
        return all(node.is_scalar and node.operation not in _OF_TENSORS for node in self._graph.reachable((value,)))

    def _scalar(self, node: Node) -> Expression:
        match node.operation:
            case Operation.CONTRACTION:
                left, right = (self._reference(operand).bracketed for operand in node.operands)
                return Expression(f"({left} * {right}).sum(dim=(-2, -1))", True)
            case Operation.TRACE:
                value = self._reference(node.operands[0])
                return Expression(f"{value.bracketed}.diagonal(dim1=-2, dim2=-1).sum(-1)", True)
            case Operation.SIZE:
                return Expression(self._axis(node.label) or str(node.label), True)
            case Operation.SCALAR_INVERSE:
                return Expression(f"1 / {self._reference(node.operands[0]).bracketed}", False)
            case Operation.ENTRY:
                return Expression(f"{self._reference(node.operands[0]).bracketed}[..., 0, 0]", True)
            case Operation.ENTRIES:
                return Expression(f"{self._reference(node.operands[0]).bracketed}.sum(dim=(-2, -1))", True)
            case Operation.SCALAR_PRODUCT:
                return Expression(" * ".join(self._reference(operand).bracketed for operand in node.operands), False)
        assert node.operation is Operation.ONE
        return Expression("1", True)

    def _solve(self, node: Node) -> str:
        factors, right = node.operands
        text = self._reference(right).text
        if factors.node.operation is Operation.CHOLESKY:
            return f"torch.cholesky_solve({text}, {self._name(factors.node)})"
        adjoint = ", adjoint=True" if node.operation is Operation.SOLVE_TRANSPOSED else ""
        return f"torch.linalg.lu_solve(*{self._name(factors.node)}, {text}{adjoint})"

    def _flip(self, value: Value) -> Value:
        """The transpose as an operand: without the sign that a skew matrix would bring."""
        flipped = self._graph.transpose(value)
        return flipped if flipped.coefficient == value.coefficient else Value(value.node, not value.transposed)

    def _extent(self, size: Dimension) -> str:
        """Source of a size: read from the first argument that has it."""
        if isinstance(size, int):
            return str(size)
        found = self._axis(size)
        assert found is not None, f"no argument has the size {size}"
        return found

    def _axis(self, size: Dimension) -> str | None:
        axes = (f"{n}.shape[{axis}]" for n, s in self._arguments.items() for axis in (-1, -2) if s[axis] == size)
        return next(axes, None)

    def _scaled(self, value: Value) -> tuple[str, str]:
        """(sign, text) of a summand; a rational number is an integer factor and an integer divisor."""
        size = abs(value.coefficient)
        sign = "-" if value.coefficient < 0 else "+"
        if value.node.operation in (Operation.ONE, Operation.ONES):
            return sign, str(size).replace("/", " / ")
        reference = self._reference(value)
        if size == 1:
            return sign, reference.text
        text = reference.bracketed if size.numerator == 1 else f"{size.numerator} * {reference.bracketed}"
        return sign, text if size.denominator == 1 else f"{text} / {size.denominator}"

    # statements

    def _statement(self, target: str | None, content: list[Value] | str) -> list[str]:
        target = "return" if target is None else f"{target} ="
        if isinstance(content, str):
            return [f"{INDENT}{target} {content}"]
        # stable: what comes first is a parameter rather than a product, and positive rather than negative
        content = sorted(content, key=lambda v: (v.coefficient < 0, v.node.operation is not Operation.ARGUMENT))
        (sign, text), *rest = [self._scaled(value) for value in content]
        if sign == "-":  # a minus binds tighter than a product
            size, reference = abs(content[0].coefficient), self._reference(content[0])
            text = f"-{reference.bracketed if size == 1 else text}"
        line = f"{INDENT}{target} {text}{''.join(f' {sign} {term}' for sign, term in rest)}"
        if len(line) <= WIDTH or not rest:
            return [line]
        inside = f"{2 * INDENT}{text}{''.join(f' {sign} {term}' for sign, term in rest)}"
        if len(inside) <= WIDTH:
            return [f"{INDENT}{target} (", inside, f"{INDENT})"]
        return [
            f"{INDENT}{target} (",
            f"{2 * INDENT}{text}",
            *(f"{2 * INDENT}{sign} {term}" for sign, term in rest),
            f"{INDENT})",
        ]

    @property
    def _needs_batch(self) -> bool:
        return any(not self._depends_on_all(output.value) for output in self._outputs)

    def _depends_on_all(self, value: Value) -> bool:
        """Whether every argument enters the value, so that its leading dimensions are those of all arguments together."""
        nodes = self._graph.reachable((value,))
        if any(node.operation is Operation.ZERO for node in nodes):
            return False
        tensors = [node for node in nodes if node.operation is Operation.ARGUMENT]
        return {str(node.label) for node in tensors} == set(self._arguments)

    def _return(self) -> list[str]:
        texts = []
        for output in self._outputs:
            scalar = output.value.node.is_scalar
            if self._depends_on_all(output.value):
                texts.append(output.name)
            elif output.value.node.operation is Operation.ONES:  # a multiple is written as its number
                like, shape = next(iter(self._arguments)), output.value.shape
                ones = f"{like}.new_ones({', '.join(map(self._extent, shape))})"
                texts.append(f"({ones} * {output.name}).expand(*batch, -1, -1)")
            elif scalar and not any(n.operation is Operation.ARGUMENT for n in self._graph.reachable((output.value,))):
                like = next(iter(self._arguments))
                texts.append(f"{like}.new_full(batch, {output.name})")
            else:
                texts.append(f"{output.name}.expand({'batch' if scalar else '*batch, -1, -1'})")
        if self._one:
            return [f"{INDENT}return {texts[0]}"]
        if len(texts) == 1:
            return [f"{INDENT}return ({texts[0]},)"]
        line = f"{INDENT}return {', '.join(texts)}"
        if len(line) <= WIDTH:
            return [line]
        return [f"{INDENT}return (", *(f"{2 * INDENT}{text}," for text in texts), f"{INDENT})"]


def broken(head: str, items: Sequence[str], tail: str, indent: str) -> list[str]:
    """head + items + tail on one line, or the items on a line of their own, or one a line: as the formatter does."""
    line = f"{head}{', '.join(items)}{tail}"
    if len(line) <= WIDTH:
        return [line]
    inner = f"{indent}{INDENT}{', '.join(items)}"
    middle = [inner] if len(inner) <= WIDTH else [f"{indent}{INDENT}{item}," for item in items]
    return [head, *middle, f"{indent}{tail}"]
