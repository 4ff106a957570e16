"""No explicit inverse, no (n, n) intermediate, no tensor made for a number."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import Tensor

from quotientgeo.catalogue.gl_pair_invariant import generated as invariant
from quotientgeo.catalogue.gl_pair_mixed import generated as mixed
from tests.catalogue.shapes import watched

N, M, H = 5000, 4999, 4
MODULES = {"invariant": invariant, "mixed": mixed}
TANGENT_FUNCTIONS = [
    "gradient",
    "momentum",
    "horizontal",
    "acceleration",
    "taylor_1",
    "taylor_2",
    "taylor_3",
    "taylor_4",
]


def tall() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, (N, M)[i % 2], H, generator=generator, dtype=torch.float64) for i in range(6)]


@pytest.mark.parametrize("name", MODULES)
def test_no_inverse_and_no_large_intermediate(name: str) -> None:
    module, tensors = MODULES[name], tall()
    calls = {"inner": tensors, "christoffel": tensors, "vertical": [*tensors[:2], torch.eye(H, dtype=torch.float64)]}
    calls |= dict.fromkeys(TANGENT_FUNCTIONS, tensors[:4])
    for function, arguments in calls.items():
        watch = watched(getattr(module, function), *arguments)
        assert watch.shapes, function
        assert not watch.wide(H), function
        assert not watch.inverting, function
        assert not {name for name in watch.operations if "scalar_tensor" in name or "_to_copy" in name}, function
        # products with a tall side: Gram matrices of two factors and their tangents, and two products per result
        assert len([name for name in watch.operations if "eye" in name]) == 0, function


def test_the_watch_sees_what_it_looks_for() -> None:
    G, H, a, _ = tall()[:4]
    assert watched(lambda: (G[:, :300] @ a[:, :300].mT) @ G[:, :300]).wide(4) == [(2, 300, 300)]
    assert watched(lambda: torch.linalg.inv(G.mT @ G)).inverting
    assert watched(lambda: torch.linalg.solve(H.mT @ H, H.mT)).inverting


@pytest.mark.parametrize("name", MODULES)
def test_number_of_products_of_tall_matrices(name: str) -> None:
    """Each of the eight small products of a factor and a tangent is formed at most once, each end point from two products."""
    lines = Path(str(MODULES[name].__file__)).read_text().splitlines()
    tree = ast.parse("\n".join(lines))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("acceleration", "taylor_2", "taylor_3", "taylor_4"):
            parameters = {argument.arg for argument in node.args.args}
            products = [n for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult)]
            names = [{x.id for x in ast.walk(p) if isinstance(x, ast.Name)} for p in products]
            tall_products = [ast.unparse(p) for p, used in zip(products, names, strict=True) if used & parameters]
            small = [text for text in tall_products if ".mT @" in text]
            assert len(set(small)) == len(small) <= 6, node.name
            assert len(tall_products) - len(small) == 4, node.name
