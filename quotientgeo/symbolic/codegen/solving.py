"""What has no one-sided formula is solved at run time: the vertical part of a tangent, and M(xi) = y for implicit metrics.

Two terms L_1 X R_1 + L_2 X R_2 with definite weights are diagonalised together; anything else is written out as a matrix and
factored, or left to conjugate gradients where it is too large for that. What can be written as a formula (the operators,
the matrices L and R) is a ``Function`` like any other; the rest is the text below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quotientgeo.symbolic.codegen.functions import Function, local
from quotientgeo.symbolic.codegen.notation import wrapped
from quotientgeo.symbolic.codegen.solver_text import HELPERS
from quotientgeo.symbolic.codegen.systems import Sylvester, System, metric_systems, vertical_system
from quotientgeo.symbolic.codegen.writer import INDENT, WIDTH, broken
from quotientgeo.symbolic.derivation import Geometry

DENSE = 1024  # rows of the largest operator on a Lie algebra that is written out as a matrix
DENSE_METRIC = 256  # the same of a metric, which is solved with at every step along a geodesic
MOST_STEPS = 200  # of conjugate gradients for a metric, whose entries are too many to take a step for each
STEPS = "steps"
_PARTED = ("diagonal", "complex_half", "complex_interleaved")  # their operators have no matrix in all entries


def systems(geometry: Geometry) -> list[System]:
    """Every equation that is solved at run time."""
    vertical = vertical_system(geometry)
    metric = [system for system in metric_systems(geometry) if isinstance(system, System)]
    return ([] if vertical is None else [vertical]) + metric


def sylvester(geometry: Geometry) -> Sylvester | None:
    """The vertical Gram operator as two products with definite weights, or None where it is not of this form."""
    system = vertical_system(geometry)
    return None if system is None else system.sylvester()


def solving_functions(geometry: Geometry) -> list[Function]:
    """The formulas that the run-time solves need."""
    out = [system for system in metric_systems(geometry) if isinstance(system, Function)]
    for system in systems(geometry):
        if system.operator.name.startswith("_"):  # otherwise it is a function of the module anyway
            out.append(system.operator)
        found = system.sylvester()
        if found is None:
            continue
        weights = {
            "left_1": found.left.fixed,
            "left_2": found.left.other,
            "right_1": found.right.fixed,
            "right_2": found.right.other,
        }
        letters = ", ".join(system.letters)
        summary = (
            f"What stands left and right of {letters} in the two terms of {system.operator.name}, to be diagonalised in "
            "pairs."
        )
        out.append(Function(system.weights, (*system.point, *system.parameters), weights, summary))
    return out


def solving_source(geometry: Geometry) -> list[str]:
    """Text of the solvers, and of ``horizontal`` where that is no formula."""
    out = [_source(system) for system in systems(geometry)]
    if geometry.horizontal is None:
        out.insert(1, _horizontal_source(geometry))
    return out


def _source(system: System) -> str:
    found = system.sylvester()
    return _operator_source(system) if found is None else _sylvester_source(system, found)


def _sylvester_source(system: System, found: Sylvester) -> str:
    (given,) = system.given
    operator = system.operator
    signature = signature_of(system.solver, system.arguments, 1)
    left, right = "scale_l[..., :, None]", "scale_r[..., None, :]"
    spread = f"1 + {left} * {right}" if found.left.first == found.right.first else f"{left} + {right}"
    detached = ", ".join(f"{name}.detach()" for name in (*system.point, *system.parameters))
    image = (
        f"{operator.name}({', '.join((*system.point, 'solution', *system.parameters))}){'' if operator.one else '[0]'}"
    )
    return f'''{signature}
    """{found.letter} {system.role}: the two terms of {operator.name} are diagonalised together.

    The factorisations carry no gradient, which would not exist where eigenvalues coincide; the two corrections that follow
    give {found.letter} its first and second derivatives, and remove rounding errors.
    """
    left_1, left_2, right_1, right_2 = {system.weights}({detached})
    basis_l, scale_l = {found.left.helper}(left_1, left_2)
    basis_r, scale_r = {found.right.helper}(right_1, right_2)
    weights = {spread}
    solution = basis_l @ ((basis_l.mT @ {given}.detach() @ basis_r) / weights) @ basis_r.mT
    for _ in range(2):
        rest = {given} - {image}
        solution = solution + basis_l @ ((basis_l.mT @ rest @ basis_r) / weights) @ basis_r.mT
    return solution'''


def _operator_source(system: System) -> str:
    operator, last = system.operator, "," if system.one else ""
    signature = signature_of(system.solver, system.arguments, len(system.given))
    left, right = ("(", ",)") if operator.one else ("", "")
    choice, how = _choice(system)
    lines = "\n".join(
        f"{INDENT}{line}"
        for line in wrapped(f'"""{", ".join(system.letters)} {system.role}, {how}."""'.split(" "), " ", WIDTH - 4)
    )
    X, calls = "X", []
    while X in (*system.point, *system.parameters):  # a factor of that name is not the unknown
        X += "_"
    for mark in ("", ".detach()"):
        point, rest = ([f"{name}{mark}" for name in names] for names in (system.point, system.parameters))
        calls.append(f"{left}{operator.name}({', '.join([*point, f'*{X}', *rest])}){right}")
    return f"""{signature}
{lines}
    given = ({", ".join(system.given)}{last})
{_steps(system)}

    def moving(*{X}: Tensor) -> tuple[Tensor, ...]:
        return {calls[0]}

    def still(*{X}: Tensor) -> tuple[Tensor, ...]:
        return {calls[1]}

    def inside(*{X}: Tensor) -> tuple[Tensor, ...]:
        return {_projection(system, X)}

{choice}
    return {", ".join(f"solution[{i}]" for i in range(len(system.letters)))}"""


_PROJECTIONS = {
    "skew": "({0} - {0}.mT) / 2",
    "symmetric": "({0} + {0}.mT) / 2",
    "diagonal": "torch.diag_embed({0}.diagonal(dim1=-2, dim2=-1))",
    "complex_half": "_complex_half({0})",
    "complex_interleaved": "_complex_interleaved({0})",
}


def _projection(system: System, X: str) -> str:
    """X, each part projected on the matrices of its kind."""
    kinds = [system.geometry.kind(x) for x in system.letters]
    if not set(kinds) & set(_PROJECTIONS):
        return X
    parts = ", ".join(_PROJECTIONS.get(kind, "{0}").format(f"{X}[{i}]") for i, kind in enumerate(kinds))
    return f"({parts}{',' if len(kinds) == 1 else ''})"


def _choice(system: System) -> tuple[str, str]:
    """(the statement that solves, how it does in words)."""
    kinds = [system.geometry.kind(x) for x in system.letters]
    line = f"{INDENT}solution = _iterated(moving, still, inside, given, {STEPS})"
    if system.definite:
        line = line.replace(STEPS, f"min({STEPS}, {MOST_STEPS})")
    if set(kinds) & set(_PARTED):
        return line, "by conjugate gradients"
    signs = ", ".join(str({"symmetric": 1, "skew": -1}.get(kind, 0)) for kind in kinds) + ("," if system.one else "")
    dense, most, how = f"_dense(moving, still, given, ({signs}))", DENSE, "an eigendecomposition"
    if system.definite:
        dense, most, how = "_definite(moving, still, given)", DENSE_METRIC, "a Cholesky factorisation"
    text = f"by {how} of {system.operator.name}, or by conjugate gradients where that has more than {most} rows"
    return f"{INDENT}if {STEPS} <= {most}:\n{INDENT}    solution = {dense}\n{INDENT}else:\n{INDENT}{line}", text


def _dimension(system: System) -> str:
    """The dimension of the space of the letters, as source that reads the shapes of the right sides."""
    parts = []
    for i, x in enumerate(system.letters):
        rows, columns = (f"given[{i}].shape[{axis}]" for axis in (-2, -1))
        match system.geometry.kind(x):
            case "skew":
                parts.append(f"{rows} * ({rows} - 1) // 2")
            case "symmetric":
                parts.append(f"{rows} * ({rows} + 1) // 2")
            case "diagonal" | "complex_half" | "complex_interleaved":
                parts.append(rows)
            case _:
                parts.append(f"{rows} * {columns}")
    return " + ".join(parts)


def _steps(system: System) -> str:
    """The number of steps, on one line or one summand a line, as the formatter has it."""
    line = f"{INDENT}steps = {_dimension(system)}"
    if len(line) <= WIDTH:
        return line
    summands = _dimension(system).replace(" + ", f"\n{2 * INDENT}+ ")
    return f"{INDENT}steps = (\n{2 * INDENT}{summands}\n{INDENT})"


def _horizontal_source(geometry: Geometry) -> str:
    names, parameters = geometry.names, geometry.metric.parameters
    arguments = [*names.factors, *names.tangents, *parameters]
    signature = signature_of("horizontal", arguments, names.factors)
    vertical = {f: local(f"V_{f}", geometry) for f in names.factors}
    solution = local("solution", geometry)
    several = len(names.algebra) > 1
    factors, letters = ", ".join(names.factors), ", ".join(names.algebra)
    parts = [f"{names.tangent(f)} - {v}" for f, v in vertical.items()]
    velocity = f"({', '.join(names.tangents)})"
    summary = f"Horizontal part of the tangent {velocity} at ({factors}): what is left without its vertical part."
    lines = documented(
        geometry,
        summary,
        [
            f"xi - vertical({letters}) with momentum(vertical({letters})) = momentum(xi)",
            f"solved at run time: no formula gives {letters}",
        ],
        arguments,
    )
    after = "".join(f", {p}" for p in parameters)
    call = f"_vertical_part({factors}, {'*' if several else ''}momentum({', '.join(arguments)}){after})"
    left = ", ".join(vertical.values()) if len(vertical) > 1 else f"({next(iter(vertical.values()))},)"
    body = [
        f"{INDENT}{solution} = {call}",
        f"{INDENT}{left} = vertical({factors}, {'*' if several else ''}{solution})",
        f"{INDENT}return {', '.join(parts)}" if len(parts) > 1 else f"{INDENT}return ({parts[0]},)",
    ]
    return "\n".join([signature, *lines, *body])


def signature_of(name: str, arguments: Sequence[str], results: int | Iterable[str]) -> str:
    """``def name(a: Tensor, ...) -> Tensor:`` for one result as a number, else a tuple."""
    result = f"tuple[{', '.join('Tensor' for _ in (range(results) if isinstance(results, int) else results))}]"
    typed = [f"{argument}: Tensor" for argument in arguments]
    return "\n".join(broken(f"def {name}(", typed, f") -> {'Tensor' if results == 1 else result}:", ""))


def documented(geometry: Geometry, summary: str, formulas: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The docstring of a function that returns one matrix per factor."""
    shapes = [f"{name} {_batched(geometry, name)}" for name in arguments]
    shapes[0], shapes[-1] = f"Shapes: {shapes[0]}", f"{shapes[-1]}; returns the parts in the shapes of the factors."
    return [
        *(f"{INDENT}{line}" for line in wrapped(f'"""{summary}'.split(" "), " ", WIDTH - 4)),
        "",
        *(f"{2 * INDENT}{line}" for line in formulas),
        "",
        *(f"{INDENT}{line}" for line in wrapped(shapes, ", ", WIDTH - 4)),
        f'{INDENT}"""',
    ]


def _batched(geometry: Geometry, name: str) -> str:
    rows, columns = geometry.alphabet.shape(name)
    return f"(..., {rows}, {columns})"


def reserved(geometry: Geometry) -> set[str]:
    """Names that the text here uses for something else than the letters of the geometry."""
    inside = "given rest moving still inside steps left_1 left_2 right_1 right_2"
    inside += (
        " basis_l basis_r scale_l scale_r weights shares solution batch part momentum vertical gradient acceleration"
    )
    found = systems(geometry)
    called = {name for system in found for name in (system.solver, system.operator.name, system.weights)}
    return called | {*HELPERS, "range", "tuple", "zip", "sum", "min"} | set(inside.split())
