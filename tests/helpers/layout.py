"""Read the architecture off the source text: who imports whom, how long things are, what names a machine.

Every checker takes sources as ``{path inside the repository: text}``, so that the tests can also plant bad ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch

PACKAGE = "quotientgeo"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50  # from def to the end, the docstring not counted

# third-party package -> where it may be imported; "in functions" allows it anywhere, but not when a module is loaded
CONFINED = {
    "sympy": ("quotientgeo/symbolic/*", "quotientgeo/catalogue/*/declaration.py"),
    "geoopt": ("quotientgeo/manifolds/*",),
    "transformers": "in functions",
    "datasets": "in functions",
    "peft": "in functions",
}

# part of the package -> parts it may import. A part is a folder or file directly under quotientgeo/, except that the two
# kinds of file in the catalogue are parts of their own; "namespace" is quotientgeo/__init__.py itself.
ARROWS: dict[str, frozenset[str]] = {
    part: frozenset(allowed.split())
    for part, allowed in {
        "errors": "",
        "groups": "errors",
        "parameters": "errors",
        "symbolic": "errors groups parameters namespace",
        "catalogue": "",
        "catalogue/declaration": "symbolic groups errors namespace",
        "catalogue/generated": "",
        "geometry": "catalogue catalogue/generated errors parameters",
        "manifolds": "geometry errors",
        "model": "groups errors parameters",
        "measures": "geometry model errors namespace",
        "tasks": "measures model errors",
        "report": "errors",
        "demo": "report tasks measures model errors namespace",
        "cli": "demo tasks symbolic errors namespace",
        "__main__": "cli",
        "namespace": "",
    }.items()
}

# the same inside symbolic/, of what is imported when a module is loaded
SYMBOLIC_ARROWS: dict[str, frozenset[str]] = {
    part: frozenset(allowed.split())
    for part, allowed in {
        "names": "",
        "algebra": "",
        "declaration": "names algebra",
        "declaration_file": "declaration",
        "derivation": "algebra declaration",
        "codegen": "algebra declaration derivation",
        "closed_form": "algebra derivation codegen",
        "files": "derivation codegen closed_form",
        "metric_search": "algebra declaration derivation",
        "regenerate": "declaration_file derivation codegen closed_form files",
        "examples": "",
    }.items()
}


@dataclass(frozen=True)
class Import:
    """One imported module: ``names`` are what ``from module import`` takes from it."""

    module: str
    names: tuple[str, ...]
    line: int
    in_function: bool
    for_types_only: bool


def imports(path: str, text: str) -> Iterator[Import]:
    """All imports of a file, including relative ones and import_module("...")."""
    yield from _walk(ast.parse(text), path, in_function=False, for_types_only=False)


def _walk(node: ast.AST, path: str, in_function: bool, for_types_only: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, (), node.lineno, in_function, for_types_only)
    elif isinstance(node, ast.ImportFrom):
        names = tuple(alias.name for alias in node.names)
        yield Import(_absolute(node, path), names, node.lineno, in_function, for_types_only)
    elif isinstance(node, ast.Call) and (named := _imported_by_call(node)):
        yield Import(named, (), node.lineno, in_function, for_types_only)
    inside = in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    typed = isinstance(node, ast.If) and ast.unparse(node.test).split(".")[-1] == "TYPE_CHECKING"
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, path, inside, for_types_only or (typed and field == "body"))


def _imported_by_call(call: ast.Call) -> str:
    """The name in import_module("name"), or in import_module(f"a.{b}.c") with "_" for what is not literal; else nothing."""
    if ast.unparse(call.func).split(".")[-1] not in ("import_module", "__import__") or not call.args:
        return ""
    argument = call.args[0]
    pieces = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    return "".join(str(p.value) if isinstance(p, ast.Constant) else "_" for p in pieces)


def _absolute(node: ast.ImportFrom, path: str) -> str:
    if not node.level:
        return node.module or ""
    folder = path.removesuffix(".py").split("/")[: -node.level]
    return ".".join([*folder, *((node.module or "").split(".") if node.module else [])])


def part_of(path_or_module: str) -> str:
    """The part of the package that a file, or a dotted module name, belongs to."""
    pieces = path_or_module.removesuffix(".py").replace("/", ".").split(".")[1:]
    if not pieces or pieces == ["__init__"]:
        return "namespace"
    kinds = {"declaration": "declaration", "generated": "generated", "closed_form": "generated"}
    if pieces[0] == "catalogue" and len(pieces) == 3 and pieces[2] in kinds:
        return f"catalogue/{kinds[pieces[2]]}"
    return pieces[0]


def confined_imports(sources: Mapping[str, str]) -> list[str]:
    """Imports of third-party packages outside their place."""
    found = []
    for path, text in sources.items():
        for item in imports(path, text):
            place = CONFINED.get(item.module.split(".")[0])
            if place is None or item.for_types_only:
                continue
            allowed = item.in_function if place == "in functions" else any(fnmatch(path, pattern) for pattern in place)
            if not allowed:
                found.append(f"{path}:{item.line}: {item.module} may be imported only {place}")
    return found


def generated_imports(sources: Mapping[str, str]) -> list[str]:
    """Generated code needs torch and nothing else."""
    return [
        f"{path}:{item.line}: generated code imports {item.module}"
        for path, text in sources.items()
        if part_of(path) == "catalogue/generated"
        for item in imports(path, text)
        if item.module.split(".")[0] not in ("torch", "__future__")
    ]


def wrong_arrows(sources: Mapping[str, str]) -> list[str]:
    """Imports between parts of the package that the design does not allow, and private names taken from another part."""
    found = []
    for path, text in sources.items():
        part = part_of(path)
        if part not in ARROWS:
            found.append(f"{path}: {part} is not a part of the design: add it to ARROWS, with what it builds on")
            continue
        for item in imports(path, text):
            if item.module.split(".")[0] != PACKAGE:
                continue
            submodules = [f"{item.module}.{name}" for name in item.names] if item.module == PACKAGE else []
            for module in [m for m in submodules if part_of(m) in ARROWS] or [item.module]:
                target = part_of(module)
                if target not in ARROWS[part] | {part}:
                    found.append(f"{path}:{item.line}: {part} may not build on {target}")
                elif target != part and any(name.startswith("_") and name != "__version__" for name in item.names):
                    found.append(f"{path}:{item.line}: takes a private name from {target}: {', '.join(item.names)}")
    return found


def wrong_symbolic_arrows(sources: Mapping[str, str]) -> list[str]:
    """Imports between the parts of symbolic/ that its order does not allow; inside functions they may go back."""
    inside, found = f"{PACKAGE}.symbolic.", []
    for path, text in sources.items():
        part = path.removesuffix(".py").replace("/", ".").removeprefix(inside).split(".")[0]
        if not path.startswith(inside.replace(".", "/")) or part == "__init__":
            continue
        for item in imports(path, text):
            modules = [f"{inside}{name}" for name in item.names] if f"{item.module}." == inside else [item.module]
            for module in modules if not (item.in_function or item.for_types_only) else ():
                target = module.removeprefix(inside).split(".")[0]
                if module.startswith(inside) and target != part and target not in SYMBOLIC_ARROWS.get(part, ()):
                    found.append(f"{path}:{item.line}: symbolic/{part} may not build on symbolic/{target}")
    return found


def cycles(arrows: Mapping[str, frozenset[str]]) -> list[str]:
    """Parts from which one can come back along the arrows."""

    def reach(part: str) -> set[str]:
        seen: set[str] = set()
        ahead = set(arrows[part])
        while ahead:
            seen |= ahead
            ahead = set().union(*(arrows[p] for p in ahead)) - seen
        return seen

    return [part for part in arrows if part in reach(part)]


def long_files(sources: Mapping[str, str], allowed: Mapping[str, str]) -> list[str]:
    """Files over MAX_FILE_LINES; ``allowed`` maps a path (or pattern) to its written reason."""
    return [
        f"{path}: {lines} lines (at most {MAX_FILE_LINES})"
        for path, text in sources.items()
        if (lines := text.count("\n")) > MAX_FILE_LINES and not any(fnmatch(path, pattern) for pattern in allowed)
    ]


def long_functions(sources: Mapping[str, str], allowed: Mapping[str, str]) -> list[str]:
    """Functions over MAX_FUNCTION_LINES; ``allowed`` maps "path:function" (or a path pattern) to its written reason."""
    found = []
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            first = node.body[0]
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= (first.end_lineno or first.lineno) - first.lineno + 1
            excused = any(fnmatch(path, pattern) or f"{path}:{node.name}" == pattern for pattern in allowed)
            if lines > MAX_FUNCTION_LINES and not excused:
                found.append(f"{path}:{node.lineno}: {node.name} has {lines} lines (at most {MAX_FUNCTION_LINES})")
    return found


# a folder that exists on one machine only; written with a class, so that this file does not match itself
MACHINE_PATH = re.compile(
    r"(?<![\w.~<>)}*$-])[/](?:work|tmp|root|home|Users|mnt|private)(?:/|\b)|\b[A-Z]:\\\\?(?:Users|Windows)"
)


def machine_paths(sources: Mapping[str, str]) -> list[str]:
    """Absolute paths that mean something on one machine only."""
    return [
        f"{path}:{number}: {match.group()}"
        for path, text in sources.items()
        for number, line in enumerate(text.splitlines(), 1)
        for match in [MACHINE_PATH.search(line)]
        if match
    ]
