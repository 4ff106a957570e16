"""The horizontal part where no one-sided formula gives it: the equation K_X = J(xi) is solved at run time.

K is the vertical Gram operator, X -> momentum(vertical(X)), symmetric and positive in the inner product tr(X' Y). Two terms
L_1 X R_1 + L_2 X R_2 with definite L and R are diagonalised together; anything else is written out as a matrix and
diagonalised, or left to conjugate gradients where it is too large for that. What can be written as a formula (the operator,
the matrices L and R) is a ``Function`` like any other; the rest is the text below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from quotientgeo.symbolic.algebra import InverseLetter, Polynomial, SymbolLetter, Word, is_positive_definite, word_key
from quotientgeo.symbolic.codegen.functions import Function, local, momentum_names
from quotientgeo.symbolic.codegen.notation import wrapped
from quotientgeo.symbolic.codegen.solver_text import HELPERS
from quotientgeo.symbolic.codegen.writer import INDENT, WIDTH, broken
from quotientgeo.symbolic.derivation import Geometry

DENSE = 1024  # rows of the largest operator that is written out as a matrix
STEPS = "steps"
_PARTED = ("diagonal", "complex_half", "complex_interleaved")  # their operators have no matrix in all entries
OPERATOR, WEIGHTS, SOLVER = "_vertical_gram", "_vertical_weights", "_vertical_part"


@dataclass(frozen=True)
class Pencil:
    """Two definite weights of one side: ``fixed``, or its inverse, becomes the identity, and ``other`` diagonal."""

    fixed: Polynomial
    other: Polynomial
    inverted: bool
    first: bool  # whether ``fixed`` belongs to the first term

    @property
    def helper(self) -> str:
        """The function that diagonalises both."""
        return "_pencil_inverse" if self.inverted else "_pencil"


@dataclass(frozen=True)
class Sylvester:
    """L_1 X R_1 + L_2 X R_2 with definite weights."""

    letter: str
    left: Pencil
    right: Pencil


def sylvester(geometry: Geometry) -> Sylvester | None:
    """The vertical Gram operator as two products with definite weights, or None where it is not of this form."""
    if len(geometry.names.algebra) != 1:
        return None
    (letter,) = geometry.names.algebra
    terms = _two_terms(geometry.vertical_gram[letter].polynomial, letter)
    if terms is None:
        return None
    (left_1, right_1), (left_2, right_2) = terms
    if not all(map(is_positive_definite, (left_1, left_2, right_1, right_2))):
        return None
    return Sylvester(letter, _pencil(left_1, left_2), _pencil(right_1, right_2))


def _two_terms(operator: Polynomial, letter: str) -> list[tuple[Polynomial, Polynomial]] | None:
    """[(L_1, R_1), (L_2, R_2)], gathering words that share their left, or their right, side."""
    alphabet = operator.alphabet
    rows, columns = alphabet.shape(letter)
    here = alphabet.symbol_letter(letter)
    sides: dict[tuple[Word, Word], Fraction] = {}
    for word, coefficient in operator:
        places = [i for i, x in enumerate(word) if isinstance(x, SymbolLetter) and x.name == letter]
        if len(places) != 1 or word[places[0]] is not here:
            return None
        sides[word[: places[0]], word[places[0] + 1 :]] = coefficient
    turned = {(right, left): c for (left, right), c in sides.items()}
    for found, swapped in ((_gathered(sides), False), (_gathered(turned), True)):
        if len(found) == 2:
            pairs = [pair[::-1] if swapped else pair for pair in found]
            return [
                (Polynomial(alphabet, left, (rows, rows)), Polynomial(alphabet, right, (columns, columns)))
                for left, right in pairs
            ]
    return None


def _gathered(sides: Mapping[tuple[Word, Word], Fraction]) -> list[tuple[dict[Word, Fraction], dict[Word, Fraction]]]:
    """Sums (l, r) with sum of c L x R = sum of l x r: what stands left of proportional right sides is added up."""
    rights: dict[Word, dict[Word, Fraction]] = {}
    for (left, right), c in sides.items():
        rights.setdefault(left, {})[right] = c
    found: dict[frozenset[tuple[Word, Fraction]], tuple[dict[Word, Fraction], dict[Word, Fraction]]] = {}
    for left, sums in rights.items():
        lead = sums[min(sums, key=word_key)]
        shape = {right: c / lead for right, c in sums.items()}
        found.setdefault(frozenset(shape.items()), ({}, shape))[0][left] = lead
    return list(found.values())


def _pencil(first: Polynomial, second: Polynomial) -> Pencil:
    """A bare inverse is never formed where the other weight is not one too."""
    for fixed, other, leads in ((first, second, True), (second, first, False)):
        inverse = _argument(fixed)
        if inverse is not None:
            return Pencil(inverse, other, True, leads)
    return Pencil(first, second, False, True)


def _argument(weight: Polynomial) -> Polynomial | None:
    """M where the weight is M^-1."""
    if len(weight) != 1:
        return None
    ((word, coefficient),) = weight
    if len(word) != 1 or not isinstance(word[0], InverseLetter):
        return None
    return word[0].argument * (1 / coefficient)


# source


def solving_functions(geometry: Geometry) -> list[Function]:
    """The formulas that the run-time solve needs; none where the horizontal part is a formula itself."""
    if geometry.horizontal is not None:
        return []
    names = geometry.names
    letters = ", ".join(names.algebra)
    out = [
        Function(
            OPERATOR,
            (*names.factors, *names.algebra),
            {local(momentum_names(geometry)[x], geometry): f.polynomial for x, f in geometry.vertical_gram.items()},
            f"Momentum of the vertical tangent of {letters}.",
            one=len(names.algebra) == 1,
        )
    ]
    found = sylvester(geometry)
    if found is not None:
        weights = {
            "left_1": found.left.fixed,
            "left_2": found.left.other,
            "right_1": found.right.fixed,
            "right_2": found.right.other,
        }
        summary = (
            f"What stands left and right of {letters} in the two terms of {OPERATOR}, to be diagonalised in pairs."
        )
        out.append(Function(WEIGHTS, names.factors, weights, summary))
    return out


def solving_source(geometry: Geometry) -> list[str]:
    """Text of the solver and of ``horizontal``; nothing where the horizontal part is a formula itself."""
    if geometry.horizontal is not None:
        return []
    found = sylvester(geometry)
    solver = _operator_source(geometry) if found is None else _sylvester_source(geometry, found)
    return [solver, _horizontal_source(geometry)]


def _sylvester_source(geometry: Geometry, found: Sylvester) -> str:
    factors = list(geometry.names.factors)
    (momentum,) = momentum_names(geometry).values()
    signature = _signature(SOLVER, [*factors, momentum], "Tensor")
    left, right = "scale_l[..., :, None]", "scale_r[..., None, :]"
    spread = f"1 + {left} * {right}" if found.left.first == found.right.first else f"{left} + {right}"
    detached = ", ".join(f"{factor}.detach()" for factor in factors)
    return f'''{signature}
    """{found.letter} whose vertical tangent has this momentum: the two terms of {OPERATOR} are diagonalised together.

    The factorisations carry no gradient, which would not exist where eigenvalues coincide; the two corrections that follow
    give {found.letter} its first and second derivatives, and remove rounding errors.
    """
    left_1, left_2, right_1, right_2 = {WEIGHTS}({detached})
    basis_l, scale_l = {found.left.helper}(left_1, left_2)
    basis_r, scale_r = {found.right.helper}(right_1, right_2)
    weights = {spread}
    solution = basis_l @ ((basis_l.mT @ {momentum}.detach() @ basis_r) / weights) @ basis_r.mT
    for _ in range(2):
        rest = {momentum} - {OPERATOR}({", ".join(factors)}, solution)
        solution = solution + basis_l @ ((basis_l.mT @ rest @ basis_r) / weights) @ basis_r.mT
    return solution'''


def _operator_source(geometry: Geometry) -> str:
    names, momenta = geometry.names, list(momentum_names(geometry).values())
    several = len(momenta) > 1
    result = f"tuple[{', '.join('Tensor' for _ in momenta)}]" if several else "Tensor"
    signature = _signature(SOLVER, [*names.factors, *momenta], result)
    letters, last = ", ".join(names.algebra), "" if several else ","
    left, right = ("", "") if several else ("(", ",)")
    kinds = [geometry.kind(x) for x in names.algebra]
    choice = f"_gradients(moving, given, {STEPS})"
    how = "by conjugate gradients"
    if not set(kinds) & set(_PARTED):
        signs = ", ".join(str({"symmetric": 1, "skew": -1}.get(kind, 0)) for kind in kinds) + last
        choice = f"_dense(moving, still, given, ({signs})) if {STEPS} <= {DENSE} else {choice}"
        how = f"by an eigendecomposition of {OPERATOR}, or {how} where that has more than {DENSE} rows"
    lines = "\n".join(
        f"{INDENT}{line}"
        for line in wrapped(
            f'"""{letters} whose vertical tangent has this momentum, {how}."""'.split(" "), " ", WIDTH - 4
        )
    )
    still = f"""

    def still(*X: Tensor) -> tuple[Tensor, ...]:
        return {left}{OPERATOR}({", ".join(f"{f}.detach()" for f in names.factors)}, *X){right}"""
    return f"""{signature}
{lines}
    given = ({", ".join(momenta)}{last})
{_steps(geometry)}

    def moving(*X: Tensor) -> tuple[Tensor, ...]:
        return {left}{OPERATOR}({", ".join(names.factors)}, *X){right}{still if "still" in choice else ""}

    solution = {choice}
    return solution{"" if several else "[0]"}"""


def _dimension(geometry: Geometry, shapes: bool) -> str:
    """The dimension of the Lie algebra: source that reads the shapes of the momenta, or text in the sizes."""
    times = " * " if shapes else " "
    parts = []
    for i, x in enumerate(geometry.names.algebra):
        sizes = map(str, geometry.alphabet.shape(x))
        rows, columns = (f"given[{i}].shape[{axis}]" for axis in (-2, -1)) if shapes else sizes
        match geometry.kind(x):
            case "skew":
                parts.append(f"{rows}{times}({rows} - 1) {'//' if shapes else '/'} 2")
            case "symmetric":
                parts.append(f"{rows}{times}({rows} + 1) {'//' if shapes else '/'} 2")
            case "diagonal" | "complex_half" | "complex_interleaved":
                parts.append(rows)
            case _:
                parts.append(f"{rows}{times}{columns}")
    return " + ".join(parts)


def _steps(geometry: Geometry) -> str:
    """The number of steps, on one line or one summand a line, as the formatter has it."""
    line = f"{INDENT}steps = {_dimension(geometry, shapes=True)}"
    if len(line) <= WIDTH:
        return line
    summands = _dimension(geometry, shapes=True).replace(" + ", f"\n{2 * INDENT}+ ")
    return f"{INDENT}steps = (\n{2 * INDENT}{summands}\n{INDENT})"


def _horizontal_source(geometry: Geometry) -> str:
    names = geometry.names
    arguments = [*names.factors, *names.tangents]
    signature = _signature("horizontal", arguments, f"tuple[{', '.join('Tensor' for _ in names.factors)}]")
    vertical = {f: local(f"V_{f}", geometry) for f in names.factors}
    solution = local("solution", geometry)
    several = len(names.algebra) > 1
    factors, letters = ", ".join(names.factors), ", ".join(names.algebra)
    parts = [f"{names.tangent(f)} - {v}" for f, v in vertical.items()]
    shapes = [f"{name} {_batched(geometry, name)}" for name in arguments]
    shapes[0], shapes[-1] = f"Shapes: {shapes[0]}", f"{shapes[-1]}; returns the parts in the shapes of the factors."
    velocity = f"({', '.join(names.tangents)})"
    summary = f"Horizontal part of the tangent {velocity} at ({factors}): what is left without its vertical part."
    lines = [
        *(f"{INDENT}{line}" for line in wrapped(f'"""{summary}'.split(" "), " ", WIDTH - 4)),
        "",
        f"{INDENT}    xi - vertical({letters}) with momentum(vertical({letters})) = momentum(xi)",
        f"{INDENT}    solved at run time: no formula gives {letters}",
        "",
        *(f"{INDENT}{line}" for line in wrapped(shapes, ", ", WIDTH - 4)),
        f'{INDENT}"""',
    ]
    call = f"{SOLVER}({factors}, {'*' if several else ''}momentum({', '.join(arguments)}))"
    left = ", ".join(vertical.values()) + ("," if len(vertical) == 1 else "")
    body = [
        f"{INDENT}{solution} = {call}",
        f"{INDENT}{left} = vertical({factors}, {'*' if several else ''}{solution})",
        f"{INDENT}return {', '.join(parts)}" if len(parts) > 1 else f"{INDENT}return ({parts[0]},)",
    ]
    return "\n".join([signature, *lines, *body])


def _signature(name: str, arguments: Sequence[str], result: str) -> str:
    return "\n".join(broken(f"def {name}(", [f"{argument}: Tensor" for argument in arguments], f") -> {result}:", ""))


def _batched(geometry: Geometry, name: str) -> str:
    rows, columns = geometry.alphabet.shape(name)
    return f"(..., {rows}, {columns})"


def reserved() -> tuple[str, ...]:
    """Names that the text here uses for something else than the letters of the geometry."""
    inside = "given rest moving still steps left_1 left_2 right_1 right_2"
    inside += " basis_l basis_r scale_l scale_r weights solution"
    called = (*HELPERS, OPERATOR, WEIGHTS, SOLVER, "momentum", "vertical", "range", "tuple", "zip", "sum")
    return (*called, *inside.split())
