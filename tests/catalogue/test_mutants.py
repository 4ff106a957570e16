"""Generated code with one thing changed: run on symbols and against the typed formulas, both reject it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from quotientgeo.catalogue.gl_pair_invariant import generated as invariant
from quotientgeo.catalogue.gl_pair_mixed import generated as mixed
from quotientgeo.errors import QuotientgeoError
from quotientgeo.symbolic.codegen.functions import Function, functions
from quotientgeo.symbolic.codegen.proof import check_functions
from quotientgeo.symbolic.derivation import Geometry, derive
from tests.catalogue import reference
from tests.catalogue.test_execution import draw

SWAPS = [
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r"\.mT", ""),
    (r"/ 2\b", "/ 3"),
    (r"\b2 \*", "3 *"),
    (r"\b3 \*", "2 *"),
    (r"\bchol_P\)", "chol_Q)"),
    (r"\bxi_G @", "G @"),
    (r"\bH @", "xi_H @"),
    (r"= -\(", "= ("),
]
MUTATED = ["action", "inner", "gradient", "vertical", "momentum", "acceleration", "christoffel", "taylor_2", "taylor_3"]


@pytest.fixture(scope="module", params=["invariant", "mixed"])
def geometry(request: pytest.FixtureRequest) -> Geometry:
    from importlib import import_module

    declared = import_module(f"quotientgeo.catalogue.gl_pair_{request.param}.declaration")
    return derive(declared.symmetry, declared.metric, levels="a")


def source_of(name: str) -> str:
    module = {"invariant": invariant, "mixed": mixed}[name]
    with open(str(module.__file__), encoding="utf-8") as file:
        return file.read()


def mutants(source: str, function: str) -> Iterator[tuple[str, str]]:
    """(what was changed, source) for each single change of one function's statements."""
    start = source.index(f"def {function}(")
    start = source.index('"""\n', source.index('"""', start) + 3) + 4
    end = source.find("\n\n\n", start)
    end = len(source) if end < 0 else end
    body = source[start:end]
    for pattern, replacement in SWAPS:
        for match in re.finditer(pattern, body):
            if "broadcast_shapes" in body[body.rfind("\n", 0, match.start()) + 1 : match.start()]:
                continue
            changed = body[: match.start()] + replacement + body[match.end() :]
            line = changed[changed.rfind("\n", 0, match.start()) + 1 :].split("\n")[0].strip()
            yield f"{function}: {line}", source[:start] + changed + source[end:]


def values(name: str, namespace: dict[str, Any], function: str) -> tuple[Tensor, ...]:
    """What a generated function gives at a fixed point."""
    G, H, a, b, c, d = draw(*[(2,)] * 6)
    X = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    six = (G, H, a, b, c, d)
    arguments = {"inner": six, "christoffel": six, "vertical": (G, H, X), "action": (X, G, H)}.get(function, six[:4])
    found = namespace[function](*arguments)
    return found if isinstance(found, tuple) else (found,)


def typed(name: str, function: str) -> tuple[Tensor, ...]:
    """The same by the formulas of the reference."""
    G, H, a, b, c, d = draw(*[(2,)] * 6)
    if function == "inner":
        return (getattr(reference, f"inner_{name}")((G, H), (a, b), (c, d)),)
    if function == "vertical":
        X = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        return -(G @ X), H @ X.mT
    if function == "action":
        X = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        return G @ torch.linalg.inv(X), H @ X.mT
    if function == "christoffel":
        return reference.christoffel(getattr(reference, f"acceleration_{name}"), (G, H), (a, b), (c, d))
    if function.startswith("taylor"):
        flow = getattr(reference, f"acceleration_{name}")
        return reference.taylor_end(flow, (G, H), (a, b), int(function[-1]))
    found = getattr(reference, f"{function}_{name}")((G, H), (a, b))
    return found if isinstance(found, tuple) else (found,)


def fails_on_tensors(name: str, source: str, function: str, wanted: tuple[Tensor, ...]) -> bool:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    try:
        found = values(name, namespace, function)
    except (RuntimeError, NameError):  # shapes that do not fit, a factor used before it is made
        return True
    return any(x.shape != y.shape or not float((x - y).abs().max()) <= 1e-9 for x, y in zip(found, wanted, strict=True))


def fails_on_symbols(source: str, geometry: Geometry, function: Function) -> bool:
    try:
        check_functions(source, geometry.alphabet, [function], geometry.name)
    except (QuotientgeoError, NameError):
        return True
    return False


def test_every_mutant_is_rejected_by_both(geometry: Geometry) -> None:
    name = geometry.metric.name
    source, by_name = source_of(name), {function.name: function for function in functions(geometry)}
    killed, equal = 0, []
    for function in MUTATED:
        wanted = typed(name, function)
        assert not fails_on_tensors(name, source, function, wanted)
        assert not fails_on_symbols(source, geometry, by_name[function])
        for text, mutant in mutants(source, function):
            on_tensors = fails_on_tensors(name, mutant, function, wanted)
            on_symbols = fails_on_symbols(mutant, geometry, by_name[function])
            assert on_tensors == on_symbols, text
            killed += on_tensors
            equal += [] if on_tensors else [text]
    print(f"{name}: {killed} mutants rejected by both, {len(equal)} equal to the original: {equal}")
    assert killed >= 60
    assert len(equal) <= 3
