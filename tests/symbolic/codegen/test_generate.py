"""``quotientgeo.generate``: a third metric, other symmetries, what is refused, and what decides nothing."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sympy as sp
import torch

import quotientgeo as qg
from quotientgeo.catalogue.gl_pair_mixed import generated as mixed
from quotientgeo.errors import CertificateError, DeclarationError
from quotientgeo.groups import GL
from quotientgeo.symbolic.algebra import Alphabet
from quotientgeo.symbolic.codegen.functions import Function
from quotientgeo.symbolic.codegen.module import IMPORTS, assembled, representative_sizes
from quotientgeo.symbolic.codegen.proof import check_functions, check_source
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry, derive
from tests.catalogue import reference
from tests.catalogue.shapes import watched
from tests.catalogue.test_execution import draw
from tests.symbolic.codegen.test_fuzz import function_of, written


def pair() -> Symmetry:
    return Symmetry(
        "gl_pair",
        group=GL("h"),
        factors={"G": ("n", "h"), "H": ("m", "h")},
        action=lambda A, G, H: (G * A.inv(), H * A.T),
        preserves=lambda G, H: G * H.T,
    )


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def third(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Weights Q P Q for G and P Q P for H, which no file of the package names."""
    symmetry = pair()

    def inner(p: Any, a: Any, b: Any) -> sp.Expr:
        P, Q = p.G.T * p.G, p.H.T * p.H
        return sp.Trace(Q * P * Q * a.G.T * b.G) + sp.Trace(P * Q * P * a.H.T * b.H)

    geometry = derive(symmetry, Metric("qpq", symmetry, inner), levels="a")
    return load(qg.generate(geometry, tmp_path_factory.mktemp("third") / "my_geometry.py"))


def test_third_metric_is_invariant_and_its_acceleration_solves_euler_lagrange(third: ModuleType) -> None:
    assert third.NAME == "gl_pair_qpq"
    G, H, a, b, c, d = draw(*[()] * 6)
    assert torch.allclose(third.inner(G, H, a, b, c, d), reference.inner_qpq((G, H), (a, b), (c, d)), rtol=1e-12)
    A = GL(3).random_element(torch.Generator().manual_seed(5), condition=10.0)
    moved = [x @ torch.linalg.inv(A) if i % 2 == 0 else x @ A.mT for i, x in enumerate((G, H, a, b, c, d))]
    assert torch.allclose(third.inner(*moved), third.inner(G, H, a, b, c, d), rtol=1e-10)
    scaled = [x * (2.0 if i == 0 else 1.0) for i, x in enumerate(moved)]
    assert not torch.allclose(third.inner(*scaled), third.inner(G, H, a, b, c, d), rtol=1e-2)
    found = third.acceleration(G, H, a, b)
    assert reference.euler_lagrange_residual(reference.inner_qpq, (G, H), (a, b), found) <= 1e-11
    wrong = (found[0], found[1] * 1.01)
    assert reference.euler_lagrange_residual(reference.inner_qpq, (G, H), (a, b), wrong) >= 1e-4


@pytest.mark.parametrize("order", [2, 3, 4])
def test_third_metric_taylor_terms_equal_nested_differentiation(third: ModuleType, order: int) -> None:
    G, H, a, b = (x * 0.3 if i > 1 else x for i, x in enumerate(draw(*[(2,)] * 4, h=2)))
    wanted = reference.taylor_end(lambda x, v: third.acceleration(*x, *v), (G, H), (a, b), order)
    for found, end in zip(getattr(third, f"taylor_{order}")(G, H, a, b), wanted, strict=True):
        assert float((found - end).abs().max()) <= 1e-10 * float(end.abs().max())


def test_third_metric_makes_no_large_intermediate(third: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn((3000, 2999)[i % 2], 3, generator=generator, dtype=torch.float64) for i in range(4)]
    for order in (2, 4):
        watch = watched(getattr(third, f"taylor_{order}"), *tensors)
        assert not watch.wide(3)
        assert not watch.inverting


def test_a_false_certificate_is_refused_with_its_witness_and_nothing_is_written(tmp_path: Path) -> None:
    symmetry = pair()
    euclidean = Metric("flat", symmetry, lambda p, a, b: sp.Trace(a.G.T * b.G) + sp.Trace(a.H.T * b.H))
    geometry = derive(symmetry, euclidean, levels="ab")
    with pytest.raises(CertificateError, match=r"invariance: false[\s\S]*witness at"):
        qg.generate(geometry, tmp_path / "flat.py")
    assert not list(tmp_path.iterdir())


def test_a_geometry_without_a_certificate_is_refused(tmp_path: Path) -> None:
    geometry = derive(pair_metric := pair(), _invariant(pair_metric), levels="a")
    bare = dataclasses.replace(geometry, certificate=type(geometry.certificate)())
    with pytest.raises(CertificateError, match="no certificate"):
        qg.generate(bare, tmp_path / "bare.py")


def _invariant(symmetry: Symmetry) -> Metric:
    return Metric(
        "invariant",
        symmetry,
        lambda p, a, b: sp.Trace((p.G.T * p.G).I * a.G.T * b.G) + sp.Trace((p.H.T * p.H).I * a.H.T * b.H),
    )


def test_a_derivation_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    """A certificate that holds does not cover a formula put in later: the source is compared with the formulas it came from."""
    geometry = derive(symmetry := pair(), _invariant(symmetry), levels="a")
    source = qg.generate(geometry, tmp_path / "right.py").read_text()
    with pytest.raises(CertificateError, match="generated acceleration returns acc_G"):
        check_source(source.replace("acc_G = xi_G @ t3 - G @ t4", "acc_G = xi_G @ t3 + G @ t4"), geometry)
    with pytest.raises(CertificateError, match="Cholesky of a positive definite matrix"):
        check_source(source.replace("_cholesky(P)", "_cholesky(-P)"), geometry)
    with pytest.raises(CertificateError, match="import of torch only"):
        check_source(source.replace("import torch\n", "import torch\nimport os\n"), geometry)


PUSHED_THROUGH = assembled(
    IMPORTS,
    [
        """def f(G, H):
    P, Q = G.mT @ G, H.mT @ H
    one = torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
    return torch.linalg.lu_solve(*_lu(Q @ P + one), Q)"""
    ],
)


def _solving(definite: bool) -> tuple[Alphabet, Function, str]:
    """(G'G)^-1 B, or B^-1 G', as a function of G and B, with its source."""
    alphabet = Alphabet()
    G, B = alphabet.declare("G", ("n", "h")), alphabet.declare("B", ("h", "h"))
    out = (G.T * G).inverse() * B if definite else B.inverse() * G.T
    function = Function("f", ("G", "B"), {"out": out}, "Solves.", one=True)
    return alphabet, function, written(function, alphabet, {"n": 512, "h": 32})


@pytest.mark.parametrize("definite", [True, False])
@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"!= 0", "== 0"),
        (r"!= 0", "!= 1"),
        (r'"nan"', '"inf"'),
        (r"\.masked_fill\(.*\"\)\)", ""),
        (r"_ex\(matrix\)", "_ex(matrix.mT @ matrix)"),
    ],
)
def test_a_helper_that_hides_a_failed_factorisation_is_refused(definite: bool, pattern: str, replacement: str) -> None:
    alphabet, function, source = _solving(definite)
    check_functions(source, alphabet, [function], "helper")
    changed = re.sub(pattern, replacement, source)
    assert changed != source
    with pytest.raises(CertificateError):
        check_functions(changed, alphabet, [function], "helper")


@pytest.mark.parametrize("definite", [True, False])
def test_a_singular_matrix_gives_nan_in_its_place_and_nothing_raises(definite: bool) -> None:
    namespace: dict[str, Any] = {}
    exec(_solving(definite)[2], namespace)
    generator = torch.Generator().manual_seed(0)
    G, B = (torch.randn(3, k, 2, generator=generator, dtype=torch.float32) for k in (4, 2))
    G[1], B[1] = 0.0, 0.0
    found = namespace["f"](G, B)
    assert found.dtype == torch.float32
    assert found[1].isnan().all()
    good = [0, 2]
    wanted = torch.linalg.solve(G[good].mT @ G[good], B[good]) if definite else torch.linalg.solve(B[good], G[good].mT)
    assert torch.allclose(found[good], wanted, rtol=1e-4)


def test_equality_beyond_the_normal_form_is_tested_not_proven() -> None:
    """Q (P Q + 1)^-1 = (Q P + 1)^-1 Q holds, but the two normal forms differ."""
    alphabet = Alphabet()
    G, H = alphabet.declare("G", ("n", "h")), alphabet.declare("H", ("m", "h"))
    P, Q = G.T * G, H.T * H
    formula = Q * (P * Q + alphabet.identity("h")).inverse()
    function = Function("f", ("G", "H"), {"out": formula}, "", one=True)
    points = [{"n": 3, "m": 4, "h": 2}, {"n": 4, "m": 5, "h": 3}]
    assert check_functions(PUSHED_THROUGH, alphabet, [function], "soft", points) == {"f": "tested"}
    for source, given in ((PUSHED_THROUGH, []), (PUSHED_THROUGH.replace("+ one", "- one"), points)):
        with pytest.raises(CertificateError, match="generated f returns out"):
            check_functions(source, alphabet, [function], "soft", given)


def test_sizes_change_the_order_of_products_and_nothing_else(tmp_path: Path) -> None:
    geometry = derive(symmetry := pair(), _invariant(symmetry), levels="a")
    assert representative_sizes(geometry) == {"n": 512, "m": 512, "h": 32}
    flat = load(qg.generate(geometry, tmp_path / "flat.py", sizes={"n": 8, "m": 8, "h": 500}))
    tall = load(qg.generate(geometry, tmp_path / "tall.py"))
    assert (tmp_path / "flat.py").read_text().split("FACTORS")[1] != (tmp_path / "tall.py").read_text().split(
        "FACTORS"
    )[1]
    tensors = draw(*[(2,)] * 4)
    for found, wanted in zip(flat.taylor_3(*tensors), tall.taylor_3(*tensors), strict=True):
        assert torch.allclose(found, wanted, rtol=1e-11, atol=1e-12)


def _chain() -> Geometry:
    symmetry = Symmetry(
        "chain",
        (GL("h"), GL("k")),
        {"G": ("n", "h"), "W": ("h", "k"), "R": ("m", "k")},
        lambda A, B, G, W, R: (G * A.I, A * W * B.I, R * B.T),
        lambda G, W, R: G * W * R.T,
    )

    def inner(p: Any, a: Any, b: Any) -> sp.Expr:
        P, S = p.G.T * p.G, p.R.T * p.R
        return sp.Trace(P.I * a.G.T * b.G) + sp.Trace(S.I * a.R.T * b.R) + sp.Trace(P * a.W * S * b.W.T)

    return derive(symmetry, Metric("inv", symmetry, inner), levels="a")


def test_three_factors_and_two_groups(tmp_path: Path) -> None:
    module = load(qg.generate(_chain(), tmp_path / "chain.py"))
    generator = torch.Generator().manual_seed(0)
    n, m, h, k = 6, 5, 3, 2
    shapes = [(n, h), (h, k), (m, k)] * 3
    tensors = [torch.randn(4, *shape, generator=generator, dtype=torch.float64) for shape in shapes]
    point, xi, eta = tensors[:3], tensors[3:6], tensors[6:]
    X_1 = torch.randn(h, h, generator=generator, dtype=torch.float64)
    X_2 = torch.randn(k, k, generator=generator, dtype=torch.float64)
    V = module.vertical(*point, X_1, X_2)
    assert [tuple(value.shape) for value in V] == [(4, *shape) for shape in shapes[:3]]
    J_1, J_2 = module.momentum(*point, *xi)
    wanted = reference.trace(J_1.mT @ X_1) + reference.trace(J_2.mT @ X_2)
    assert torch.allclose(module.inner(*point, *xi, *V), wanted, rtol=1e-10)
    gradient = module.gradient(*point, *eta)
    pairing = sum(reference.trace(d.mT @ x) for d, x in zip(eta, xi, strict=True))
    assert torch.allclose(module.inner(*point, *gradient, *xi), pairing, rtol=1e-9)


def test_a_wide_factor_gets_a_small_gram_matrix(tmp_path: Path) -> None:
    symmetry = Symmetry(
        "lora", GL("r"), {"B": ("d", "r"), "A": ("r", "k")}, lambda M, B, A: (B * M.I, M * A), lambda B, A: B * A
    )
    metric = Metric(
        "inv",
        symmetry,
        lambda p, a, b: sp.Trace((p.B.T * p.B).I * a.B.T * b.B) + sp.Trace((p.A * p.A.T).I * a.A * b.A.T),
    )
    path = qg.generate(derive(symmetry, metric, levels="a"), tmp_path / "lora.py")
    assert "with P = B' B, Q = A A'" in path.read_text()
    tensors = [torch.randn(*shape, dtype=torch.float64) for shape in [(2000, 3), (3, 1999)] * 2]
    assert not watched(load(path).taylor_4, *tensors).wide(3)


def test_a_name_that_the_module_needs_itself_is_refused(tmp_path: Path) -> None:
    symmetry = Symmetry("scale", GL("h"), {"Tensor": ("n", "h")}, lambda A, Tensor: (Tensor * A.T,))
    metric = Metric("inv", symmetry, lambda p, a, b: sp.Trace((p.Tensor.T * p.Tensor).I * a.Tensor.T * b.Tensor))
    with pytest.raises(DeclarationError, match="uses the name Tensor itself"):
        qg.generate(derive(symmetry, metric, levels="a"), tmp_path / "scale.py")


def test_results_are_not_called_like_letters(tmp_path: Path) -> None:
    """A factor called G1 next to G: the end point of G needs another name inside taylor_1."""
    symmetry = Symmetry("two", GL("h"), {"G": ("n", "h"), "G1": ("m", "h")}, lambda A, G, G1: (G * A.I, G1 * A.T))
    metric = Metric(
        "mixed",
        symmetry,
        lambda p, a, b: sp.Trace(p.G1.T * p.G1 * a.G.T * b.G) + sp.Trace(p.G.T * p.G * a.G1.T * b.G1),
    )
    module = load(qg.generate(derive(symmetry, metric, levels="a"), tmp_path / "two.py"))
    tensors = draw((), (), (), ())
    for found, wanted in zip(module.taylor_2(*tensors), mixed.taylor_2(*tensors), strict=True):
        assert torch.equal(found, wanted)


def test_temporaries_avoid_the_names_of_letters() -> None:
    alphabet = Alphabet()
    for name in ("t1", "P", "batch_size", "chol_P"):
        alphabet.declare(name, ("n", "h"))
    gram = alphabet["P"].T * alphabet["P"]
    outputs = {"out": alphabet["t1"] * gram.inverse() * gram.inverse() * alphabet["chol_P"].T * alphabet["P"]}
    function = dataclasses.replace(function_of({**outputs}), arguments=tuple(alphabet))
    source = written(function, alphabet, {"n": 512, "h": 32})
    check_functions(source, alphabet, [function], "names")
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    t1, P, b, c = (torch.randn(6, 3, dtype=torch.float64) for _ in range(4))
    S = torch.linalg.inv(P.mT @ P)
    assert torch.allclose(namespace["f"](t1, P, b, c)[0], t1 @ S @ S @ c.mT @ P, rtol=1e-9, atol=1e-9)
