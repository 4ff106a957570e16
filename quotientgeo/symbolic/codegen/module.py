"""A geometry to the text of a Python module: batched torch functions, one docstring each, the same bytes every time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic.algebra import Alphabet, Polynomial, TracePolynomial
from quotientgeo.symbolic.codegen import solver_text, solving, staged
from quotientgeo.symbolic.codegen.builder import Builder
from quotientgeo.symbolic.codegen.factoring import Factoring
from quotientgeo.symbolic.codegen.functions import Function, functions
from quotientgeo.symbolic.codegen.grams import Gram, choose_grams
from quotientgeo.symbolic.codegen.graph import Graph, Sizes, Value
from quotientgeo.symbolic.codegen.notation import Notation, wrapped
from quotientgeo.symbolic.codegen.plain import text
from quotientgeo.symbolic.codegen.scalars import scalar_output
from quotientgeo.symbolic.codegen.writer import INDENT, WIDTH, FunctionWriter, Output, broken
from quotientgeo.symbolic.derivation import Geometry
from quotientgeo.symbolic.derivation.coordinates import sizes_text

GENERATOR_VERSION = 3
IMPORTS = "import torch\nfrom torch import Tensor"
HELPERS = {
    "_cholesky": '''def _cholesky(matrix: Tensor) -> Tensor:
    """Lower Cholesky factor; NaN where the matrix is not positive definite to working precision."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    return factor.masked_fill((failed != 0)[..., None, None], float("nan"))''',
    "_lu": '''def _lu(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """LU factors and pivots; NaN where the matrix is singular to working precision."""
    factors, pivots, failed = torch.linalg.lu_factor_ex(matrix)
    return factors.masked_fill((failed != 0)[..., None, None], float("nan")), pivots''',
    "_complex_half": '''def _complex_half(matrix: Tensor) -> Tensor:
    """Orthogonal projection on complex diagonal matrices: blocks [[a, -b], [b, a]] on the coordinates j and j + k of 2k."""
    k = matrix.shape[-1] // 2
    a = (matrix[..., :k, :k] + matrix[..., k:, k:]).diagonal(dim1=-2, dim2=-1) / 2
    b = (matrix[..., k:, :k] - matrix[..., :k, k:]).diagonal(dim1=-2, dim2=-1) / 2
    a, b = torch.diag_embed(a), torch.diag_embed(b)
    return torch.cat([torch.cat([a, -b], -1), torch.cat([b, a], -1)], -2)''',
    "_complex_interleaved": '''def _complex_interleaved(matrix: Tensor) -> Tensor:
    """Orthogonal projection on complex diagonal matrices: blocks [[a, -b], [b, a]] on the coordinates 2j and 2j + 1."""
    a = (matrix[..., ::2, ::2] + matrix[..., 1::2, 1::2]).diagonal(dim1=-2, dim2=-1) / 2
    b = (matrix[..., 1::2, ::2] - matrix[..., ::2, 1::2]).diagonal(dim1=-2, dim2=-1) / 2
    blocks = torch.diag_embed(torch.stack([torch.stack([a, -b], -2), torch.stack([b, a], -2)], -3))
    return blocks.movedim((-4, -3, -2, -1), (-3, -1, -4, -2)).reshape(matrix.shape)''',
    **solver_text.HELPERS,
}  # nothing here raises: an error would have to wait for the device
CATALOGUE_ORIGIN = "`make derive` from declaration.py"

_LONG_SIZE, _SHORT_SIZE = 512, 32  # a model's width, and the size of the group that acts
_PREFERENCES = ((1, 1), (2, 1), (1, 2), (3, 2), (2, 3))  # factorings to try; the cheapest program is kept
_MANY_TERMS = 500  # beyond, only the first factoring is tried
_RESERVED = ("torch", "Tensor", "batch", "NAME", "FACTORS", "AFFINE_ACTION", "_cholesky", "_lu")
_FORMULA_LINES = 12  # longer formulas are left to the derivation


def representative_sizes(geometry: Geometry) -> dict[str, int]:
    """Sizes at which products are ordered: 32 for what a group acts on, 512 for the rest."""
    groups = geometry.symmetry.group_sizes
    return {s: _SHORT_SIZE if s in groups else _LONG_SIZE for s in geometry.sizes if isinstance(s, str)}


def declaration_digest(geometry: Geometry) -> str:
    """First 16 hexadecimal digits of the SHA-256 of what was declared, in normal form."""
    declared = {
        "name": geometry.name,
        "groups": [f"{g}: {g.element_kind}" for g in geometry.symmetry.groups],
        "factors": {factor: list(shape) for factor, shape in geometry.factors.items()},
        "action": {factor: repr(formula.polynomial) for factor, formula in geometry.action.items()},
        "preserves": [repr(formula.polynomial) for formula in geometry.preserved],
        "inputs": {x: [*map(str, geometry.alphabet.shape(x)), geometry.kind(x)] for x in geometry.symmetry.inputs},
        "inner": repr(geometry.inner.polynomial),
    }
    if geometry.metric.parameters:
        declared["parameters"] = list(geometry.metric.parameters)
    return hashlib.sha256(json.dumps(declared).encode()).hexdigest()[:16]


def module_source(geometry: Geometry, origin: str, sizes: Mapping[str, int] | None = None) -> str:
    """Text of the module for a geometry.

    Args:
        geometry: what was derived.
        origin: how the file came about, for its banner.
        sizes: representative values of the symbolic sizes, which decide the order of products and nothing else.
    """
    chosen = representative_sizes(geometry) | dict(sizes or {})
    writer = source_writer(geometry, chosen)
    written = [writer.function(f) for f in (*functions(geometry), *solving.solving_functions(geometry))]
    texts = [*solving.solving_source(geometry), *staged.staged_source(geometry)]
    return assembled(_header(geometry, origin, chosen), [*written, *texts])


def source_writer(geometry: Geometry, sizes: Sizes | None = None) -> SourceWriter:
    """What writes functions in the letters of a geometry; ``sizes`` as above, all of them.

    Raises:
        DeclarationError: a factor, element or parameter has a name that the text needs.
    """
    _check_names(geometry)
    chosen = representative_sizes(geometry) if sizes is None else sizes
    grams = choose_grams(geometry.factors, chosen, [*geometry.alphabet, *map(str, geometry.sizes)])
    return SourceWriter(geometry.alphabet, chosen, grams)


def function_names(geometry: Geometry) -> list[str]:
    """The public functions of the module, in its order."""
    names = [function.name for function in functions(geometry) if not function.name.startswith("_")]
    return [*names, *([] if geometry.horizontal is not None else ["horizontal"]), *staged.staged_names(geometry)]


def assembled(head: str, written: Sequence[str]) -> str:
    """The text of a module: its head, the helpers that its functions call, and the functions."""
    needed: set[str] = set()
    texts = list(written)
    while texts:
        here = texts.pop()
        new = {name for name in HELPERS if f"{name}(" in here or f"{name}." in here} - needed
        needed |= new
        texts.extend(HELPERS[name] for name in new)
    helpers = [text for name, text in HELPERS.items() if name in needed]
    return "\n\n\n".join([head, *helpers, *written]) + "\n"


def _check_names(geometry: Geometry) -> None:
    clash = [name for name in geometry.alphabet if name in _RESERVED]
    if solving.systems(geometry):
        reserved = solving.reserved(geometry)
        clash += [name for name in (*geometry.names.factors, *geometry.metric.parameters) if name in reserved]
    if clash:
        raise DeclarationError(
            f"{geometry.name}: the generated module uses the name {clash[0]} itself; give that factor, element or parameter "
            "another name"
        )


def _header(geometry: Geometry, origin: str, sizes: Sizes) -> str:
    """Banner, imports and constants."""
    factors = [f'"{name}": {_tuple(shape)}' for name, shape in geometry.factors.items()]
    constant = f"FACTORS = {{{', '.join(factors)}}}"
    if len(constant) > WIDTH:
        constant = "\n".join(["FACTORS = {", *(f"{INDENT}{factor}," for factor in factors), "}"])
    return f'''"""{geometry.name}: generated by {origin}; do not edit.

Declaration {declaration_digest(geometry)}, generator {GENERATOR_VERSION}. Products are ordered for {sizes_text(sizes)}.
Every function is batched: leading dimensions of the arguments broadcast, the results have all of them.
A matrix that has to be inverted is factored; where it is singular to working precision, the results are NaN.
{_waiting(geometry)}{_reservations(geometry)}
"""

{IMPORTS}

NAME = "{geometry.name}"
{constant}{_parameters(geometry)}{_curved(geometry)}'''


def _curved(geometry: Geometry) -> str:
    """The constant that says that Taylor polynomials do not move with the group, where they do not."""
    return (
        ""
        if geometry.affine_action
        else "\nAFFINE_ACTION = False  # Taylor polynomials depend on the point of the orbit"
    )


def _parameters(geometry: Geometry) -> str:
    """The constant that names the metric's parameters, if it has some."""
    names = geometry.metric.parameters
    if not names:
        return ""
    return "\nPARAMETERS = (" + ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "") + ")"


def _waiting(geometry: Geometry) -> str:
    """What the functions do where a computation fails."""
    if solving.systems(geometry):
        solved = "horizontal" if geometry.equations is None else "gradient"
        return f"Nothing raises, so nothing waits for a GPU, except for the eigendecomposition inside {solved}."
    return "Nothing raises, so nothing waits for a GPU."


def _reservations(geometry: Geometry) -> str:
    """A paragraph for the claims that are less than proven, if there are any."""
    claims = [claim for claim in geometry.certificate if claim.status != "proven for all sizes"]
    if not claims:
        return ""
    named = ", ".join(f"{claim.name} ({claim.status})" for claim in claims)
    return "\n\n" + "\n".join(
        wrapped(f"NOT PROVEN FOR ALL SIZES: {named}. See the certificate.".split(" "), " ", WIDTH)
    )


class SourceWriter:
    """Writes functions of polynomials in one alphabet as source.

    Args:
        alphabet: of the formulas.
        sizes: representative values of the symbolic sizes.
        grams: {letter: its Gram matrix}, for readable names.
    """

    def __init__(self, alphabet: Alphabet, sizes: Sizes, grams: Mapping[str, Gram]) -> None:
        self._alphabet = alphabet
        self._sizes = sizes
        self._shapes = {name: alphabet.shape(name) for name in alphabet}
        self._grams = grams
        self._notation = Notation(alphabet, grams, sizes)

    def function(self, function: Function) -> str:
        """Signature, docstring and body."""
        graph, outputs = self._cheapest(function)
        arguments = {name: self._shapes[name] for name in function.arguments}
        taken = frozenset([*self._shapes, *(gram.name for gram in self._grams.values()), *_RESERVED])
        body = FunctionWriter(graph, arguments, outputs, self._grams, taken, function.one).lines()
        return "\n".join([*self._signature(function), *self._docstring(function), *body])

    def _cheapest(self, function: Function) -> tuple[Graph, list[Output]]:
        """The program with fewest operations among the factorings that are tried; the first wins ties."""
        best, lowest = None, None
        many = sum(map(len, function.outputs.values())) > _MANY_TERMS
        for preference in _PREFERENCES[:1] if many else _PREFERENCES:
            builder = Builder(self._alphabet, self._sizes, Factoring(self._sizes, preference))
            outputs = [Output(name, _value(builder, formula)) for name, formula in function.outputs.items()]
            cost = builder.graph.cost(tuple(output.value for output in outputs), self._sizes)
            if lowest is None or cost < lowest:
                best, lowest = (builder.graph, outputs), cost
        assert best is not None
        return best

    def _signature(self, function: Function) -> list[str]:
        result = "Tensor" if function.one else f"tuple[{', '.join('Tensor' for _ in function.outputs)}]"
        arguments = [f"{name}: Tensor" for name in function.arguments]
        return broken(f"def {function.name}(", arguments, f") -> {result}:", "")

    def _docstring(self, function: Function) -> list[str]:
        lines = [*wrapped(f'"""{function.summary}'.split(" "), " ", WIDTH - 4), ""]
        formulas = function.formulas
        if formulas is None:
            formulas = tuple(self._formula(name, formula) for name, formula in function.outputs.items())
        written = [wrapped(formula.split(" "), " ", WIDTH - 12) for formula in formulas]
        if sum(map(len, written)) > _FORMULA_LINES:
            counts = ", ".join(f"{name} {len(formula)}" for name, formula in function.outputs.items())
            written = [[f"The formulas are long ({counts} terms): see the derivation."]]
        for first, *rest in written:
            lines += [f"{INDENT}{first}", *(f"{2 * INDENT}{line}" for line in rest)]
        grams = ", ".join(
            f"{gram.name} = {gram.text(factor)}"
            for factor, gram in self._grams.items()
            if any(gram.name in _words(line) for line in lines[1:])
        )
        lines += [f"{INDENT}with {grams}"] if grams else []
        lines += [f"{INDENT}{note}" for note in function.notes]
        lines += ["", *wrapped(self._shapes_text(function), ", ", WIDTH - 4), '"""']
        return [f"{INDENT}{line}".rstrip() for line in lines]

    def _formula(self, name: str, formula: Polynomial | TracePolynomial) -> str:
        notation = self._notation
        tree = notation.matrix(formula) if isinstance(formula, Polynomial) else notation.scalar(formula)
        return f"{name} = {text(tree)}"

    def _shapes_text(self, function: Function) -> list[str]:
        arguments = [f"{name} {_batched(self._shapes[name])}" for name in function.arguments]
        results = [
            f"{name} {_batched(formula.shape)}" if isinstance(formula, Polynomial) else f"{name} (...)"
            for name, formula in function.outputs.items()
        ]
        arguments[0], results[0] = f"Shapes: {arguments[0]}", f"returns {results[0]}"
        last = f"{arguments.pop()}; {results.pop(0)}"
        return [*arguments, last, *results[:-1], f"{results[-1]}."] if results else [*arguments, f"{last}."]


def _value(builder: Builder, formula: Polynomial | TracePolynomial) -> Value:
    return builder.output(formula) if isinstance(formula, Polynomial) else scalar_output(builder, formula)


def _words(line: str) -> list[str]:
    for mark in "()^'":
        line = line.replace(mark, " ")
    return line.split()


def _tuple(shape: tuple[str | int, str | int]) -> str:
    return "(" + ", ".join(f'"{size}"' if isinstance(size, str) else str(size) for size in shape) + ")"


def _batched(shape: tuple[str | int, str | int]) -> str:
    return f"(..., {shape[0]}, {shape[1]})"
