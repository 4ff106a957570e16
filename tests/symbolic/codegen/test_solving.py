"""The horizontal part where it is solved for at run time, and generated code as a module."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from sympy import Identity, Trace
from torch import Tensor

from quotientgeo.catalogue.gl_pair_invariant import generated as invariant
from quotientgeo.errors import CertificateError, DeclarationError
from quotientgeo.groups import GL, Orthogonal
from quotientgeo.symbolic.codegen.execution import check_horizontal, module_from
from quotientgeo.symbolic.codegen.module import module_source
from quotientgeo.symbolic.codegen.solving import sylvester
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Certificate, Geometry, derive, derive_formulas
from tests.catalogue.shapes import watched
from tests.catalogue.test_execution import draw
from tests.symbolic.derivation.declarations import CHAIN, PAIR, ROTATED, chain_inner, euclidean, formulas, gram


@pytest.fixture(scope="module")
def chain() -> Geometry:
    return derive(CHAIN, Metric("own", CHAIN, chain_inner), levels="a")


@pytest.fixture(scope="module")
def rotated() -> Geometry:
    return derive(ROTATED, Metric("own", ROTATED, euclidean), levels="a")


@pytest.fixture(scope="module")
def skewed() -> Geometry:
    """A metric of O(h) whose operator on skew matrices has three terms, 2 P X P + Q X + X Q."""
    weights = Metric(
        "skewed",
        ROTATED,
        lambda p, a, b: Trace(gram(p.G) * a.G.T * b.G) + Trace(a.H.T * b.H),
    )
    return derive(ROTATED, weights, levels="a")


@pytest.fixture(params=["chain", "rotated", "invariant", "skewed"])
def geometry(request: pytest.FixtureRequest) -> Geometry:
    return formulas("invariant") if request.param == "invariant" else request.getfixturevalue(request.param)


def drawn(geometry: Geometry, *batches: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Point and tangent of moderate condition, one batch shape per factor and tangent."""
    sizes = {"n": 6, "m": 5, "h": 3, "k": 2}
    generator = torch.Generator().manual_seed(11)
    shapes = [tuple(sizes[str(size)] for size in shape) for shape in geometry.factors.values()]
    out = []
    for i, batch in enumerate(batches):
        value = torch.randn(*batch, *shapes[i % len(shapes)], generator=generator, dtype=torch.float64)
        if i < len(shapes):
            value = torch.linalg.qr(value)[0] + 0.2 * value if value.shape[-2] >= value.shape[-1] else value
        out.append(value.to(dtype))
    return out


def code(geometry: Geometry) -> Any:
    return module_from(module_source(geometry, "a test"), geometry.name)


# what is recognised


def test_two_definite_terms_are_recognised_and_bare_inverses_are_not_formed() -> None:
    found = sylvester(formulas("invariant"))
    assert found is not None
    assert [str(pencil.fixed) for pencil in (found.left, found.right)] == ["H' H", "G' G"]
    assert found.left.inverted
    assert found.right.inverted
    assert found.left.first != found.right.first


def test_one_group_on_the_left_and_right_of_sums() -> None:
    """Two metrics whose operators share a side: the words are gathered, (P + Q) X + X (P + Q) over 2."""
    found = sylvester(derive_formulas(ROTATED, Metric("own", ROTATED, euclidean)))
    assert found is not None
    assert {str(found.left.fixed), str(found.left.other)} == {"1/2 I", "1/2 G' G + 1/2 H' H"}


def test_what_is_no_pair_of_definite_terms_is_left_to_conjugate_gradients(chain: Geometry, skewed: Geometry) -> None:
    assert sylvester(chain) is None
    assert sylvester(skewed) is None


# what it computes


def test_momentum_zero_and_idempotent_over_batches_that_broadcast(geometry: Geometry) -> None:
    module, count = code(geometry), len(geometry.factors)
    batches = [(2, 1), (3,), (1, 3)][:count] + [(3,), (2, 1), ()][:count]
    small = drawn(geometry, *batches)
    large = [value.expand(2, 3, *value.shape[-2:]).contiguous() for value in small]
    found, wanted = module.horizontal(*small), module.horizontal(*large)
    assert all(torch.allclose(x, y, rtol=1e-10, atol=1e-12) for x, y in zip(found, wanted, strict=True))
    one = module.horizontal(*(value[1, 2] for value in large))
    assert all(torch.allclose(x[1, 2], y, rtol=1e-10, atol=1e-12) for x, y in zip(wanted, one, strict=True))
    momenta, before = (module.momentum(*large[:count], *xi) for xi in (wanted, large[count:]))
    for j, size in zip(*((x,) if isinstance(x, Tensor) else x for x in (momenta, before)), strict=True):
        assert float(j.abs().max()) <= 1e-12 * float(size.abs().max())
        assert float(size.abs().max()) > 0.1
    again = module.horizontal(*large[:count], *wanted)
    assert all(torch.allclose(x, y, rtol=1e-10, atol=1e-12) for x, y in zip(again, wanted, strict=True))
    vertical = [a - b for a, b in zip(large[count:], wanted, strict=True)]
    assert float(module.inner(*large[:count], *wanted, *vertical).abs().max()) <= 1e-11


def test_float32_stays_float32(geometry: Geometry) -> None:
    module, count = code(geometry), len(geometry.factors)
    wide = drawn(geometry, *[(4,)] * (2 * count))
    narrow = [value.float() for value in wide]
    for found, wanted in zip(module.horizontal(*narrow), module.horizontal(*wide), strict=True):
        assert found.dtype == torch.float32
        assert torch.allclose(found.double(), wanted, rtol=1e-4, atol=1e-4)


def test_horizontal_moves_with_the_group(geometry: Geometry) -> None:
    """Projecting commutes with every group element: the differential of the action is linear in the factors here."""
    module, count = code(geometry), len(geometry.factors)
    values = drawn(geometry, *[(2,)] * (2 * count))
    generator = torch.Generator().manual_seed(2)
    sizes = {"h": 3, "k": 2}
    elements = []
    for group in geometry.symmetry.groups:
        size = sizes[str(group.size)]
        draw_ = torch.randn(2, size, size, generator=generator, dtype=torch.float64)
        frame = torch.linalg.qr(draw_)[0]
        elements.append(frame if group.element_kind == "orthogonal" else frame + 0.3 * draw_)
    moved = module.action(*elements, *values[:count]) + module.action(*elements, *values[count:])
    found = module.horizontal(*moved)
    wanted = module.action(*elements, *module.horizontal(*values))
    assert all(torch.allclose(x, y, rtol=1e-9, atol=1e-9) for x, y in zip(found, wanted, strict=True))


def test_ill_conditioned_factors_keep_the_momentum_small() -> None:
    G, H, a, b = draw(*[(3,)] * 4)
    spread = torch.logspace(0, -3, 3, dtype=torch.float64)
    frames = [torch.linalg.qr(x)[0] * spread for x in (G, H)]
    found = invariant.horizontal(*frames, a, b)
    before, after = invariant.momentum(*frames, a, b), invariant.momentum(*frames, *found)
    assert float(after.norm() / before.norm()) <= 1e-8


def test_first_and_second_derivatives_where_all_eigenvalues_coincide() -> None:
    """At orthonormal factors P = Q = I: an eigendecomposition has no derivative there, the horizontal part has."""
    G, H, a, b = draw(*[()] * 4, n=4, m=3, h=2)
    inputs = tuple(x.requires_grad_() for x in (torch.linalg.qr(G)[0], torch.linalg.qr(H)[0], a, b))
    assert torch.autograd.gradcheck(invariant.horizontal, inputs)
    assert torch.autograd.gradgradcheck(invariant.horizontal, inputs)


def test_first_and_second_derivatives_of_an_operator_without_structure(chain: Geometry) -> None:
    module = code(chain)
    inputs = tuple(x.requires_grad_() for x in drawn(chain, *[()] * 6))
    assert torch.autograd.gradcheck(lambda *z: module.horizontal(*z)[1], inputs, rtol=1e-5, atol=1e-6)

    def one(G: Tensor, W: Tensor) -> Tensor:
        return module.horizontal(G, W, *inputs[2:])[1].square().sum()

    def slope(x: Tensor, y: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(one(x, y), (x, y), create_graph=True))

    G, W = inputs[:2]
    way = [torch.randn_like(x) for x in (G, W)]
    product = torch.autograd.grad(sum((a * b).sum() for a, b in zip(slope(G, W), way, strict=True)), (G, W))
    step = 1e-6
    ends = [
        slope(*(((x + t * v).detach().requires_grad_()) for x, v in zip((G, W), way, strict=True)))
        for t in (step, -step)
    ]
    for found, plus, minus in zip(product, *ends, strict=True):
        wanted = (plus - minus) / (2 * step)
        assert float((found - wanted).detach().norm()) <= 1e-5 * float(wanted.detach().norm())


def test_vectorising_and_forward_derivatives() -> None:
    G, H, a, b = draw(*[(3,)] * 4)
    mapped = torch.func.vmap(invariant.horizontal)(G, H, a, b)
    assert all(torch.allclose(x, y) for x, y in zip(mapped, invariant.horizontal(G, H, a, b), strict=True))
    moving, step = (G, H), 1e-6
    _, found = torch.func.jvp(lambda x, y: invariant.horizontal(x, y, a, b), moving, (a, b))
    ends = [invariant.horizontal(G + t * a, H + t * b, a, b) for t in (step, -step)]
    for slope, plus, minus in zip(found, *ends, strict=True):
        assert torch.allclose(slope, (plus - minus) / (2 * step), rtol=1e-6, atol=1e-7)


def test_a_singular_point_gives_nan_in_its_place_and_nothing_raises(geometry: Geometry) -> None:
    if geometry.symmetry is ROTATED:
        pytest.skip("nothing is inverted at a point of this metric that could be singular")
    module, count = code(geometry), len(geometry.factors)
    values = drawn(geometry, *[(3,)] * (2 * count))
    values[0][1] = 0.0
    found = module.horizontal(*values)
    assert found[0][1].isnan().any()
    assert all(part[[0, 2]].isfinite().all() for part in found)


def iterative(geometry: Geometry) -> Any:
    """The same code, which takes every operator for too large to be written out."""
    source = module_source(geometry, "a test")
    assert "steps <= 1024" in source
    return module_from(source.replace("steps <= 1024", "steps <= 0"), geometry.name)


@pytest.mark.parametrize("which", ["chain", "skewed"])
def test_conjugate_gradients_find_the_same(which: str, request: pytest.FixtureRequest) -> None:
    geometry = request.getfixturevalue(which)
    values = drawn(geometry, *[(2, 2)] * (2 * len(geometry.factors)))
    found, wanted = iterative(geometry).horizontal(*values), code(geometry).horizontal(*values)
    assert all(torch.allclose(x, y, rtol=1e-9, atol=1e-9) for x, y in zip(found, wanted, strict=True))


TURNED = Symmetry(
    "turned",
    Orthogonal("h"),
    {"G": ("n", "h"), "H": ("h", "m"), "S": ("h", "h")},
    lambda Q, G, H, S: (G * Q.T, Q * H, Q * S * Q.T),
)


def mixing(p: Any, a: Any, b: Any) -> Any:
    """An operator that is definite on skew matrices, not on the symmetric ones that rounding brings."""
    weight = (Identity(p.S.shape[0]) + p.H * p.H.T).I
    first, second = (x.G + 2 * p.G * x.S.T + p.G * x.H * p.H.T for x in (a, b))
    return Trace(a.S.T * weight * b.S) + Trace(a.H.T * b.H) + Trace(first.T * second)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-10), (torch.float32, 1e-4)], ids=str)
def test_conjugate_gradients_stay_among_the_skew_matrices(dtype: torch.dtype, most: float) -> None:
    geometry = derive(TURNED, Metric("r4", TURNED, mixing), levels="a")
    by_steps, whole = iterative(geometry), code(geometry)
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        values = [torch.randn(*s, generator=generator, dtype=dtype) for s in [(5, 2), (2, 4), (2, 2)] * 2]
        for x, y in zip(by_steps.horizontal(*values), whole.horizontal(*values), strict=True):
            assert torch.linalg.norm(x - y) <= most * torch.linalg.norm(y)


def test_conjugate_gradients_do_not_wait_for_the_device(chain: Geometry) -> None:
    watch = watched(iterative(chain).horizontal, *drawn(chain, *[(2,)] * 6))
    assert not [name for name in watch.operations if "_local_scalar_dense" in name or "nonzero" in name]
    assert not [name for name in watch.operations if "eigh" in name]
    seen = watched(lambda x: x * float(x.sum()), torch.ones(2))
    assert [name for name in seen.operations if "_local_scalar_dense" in name]


# what is refused

WRONG = {
    "sylvester": [
        (r"scale_l\[\.\.\., :, None\] \+", "scale_l[..., :, None] -"),
        (r"rest = momentum -", "rest = momentum +"),
        (r"_vertical_weights\(G.detach\(\), H.detach\(\)\)", "_vertical_weights(H.detach(), G.detach())"),
        (r"solution = solution \+ basis_l", "solution = solution - basis_l"),
        (r"basis_r, scale_r = _pencil_inverse\(right_1, right_2\)", "basis_r, scale_r = basis_l, scale_l"),
        (r"return factor @ vectors, values", "return vectors, values"),
    ],
    "dense": [
        (r"solution = tuple\(a \+ b", "solution = tuple(a - b"),
        (r"start \+= len", "start += 0 * len"),
        (r"1\.0 / torch\.where\(small", "torch.where(small"),
        (r"small = values <=", "small = values >="),
        (r"eigh\(\(matrix \+ matrix", "eigh((matrix - matrix"),
    ],
    "gradients": [
        (r"size > goal", "size < goal"),
        (r"a \+ turn \* b", "a - turn * b"),
        (r"a \+ step \* b", "a - step * b"),
        (r"for _ in range\(steps\)", "for _ in range(1)"),
    ],
    "both": [
        (r"return (xi_\w+) - ", r"return \1 + "),
        (r"return (xi_\w+) - ", r"return 0.0 * \1 - 0.0 * "),
        (r"return (xi_\w+) - ", r"return \1 - 0.999 * "),
        (r"= vertical\(", "= gradient("),
    ],
}


def changes(source: str, kind: str) -> Iterator[tuple[str, str]]:
    """(what was changed, source), each with one line of the solve gone wrong."""
    start = source.index("def _eigen(")
    for pattern, replacement in [*WRONG[kind], *WRONG["both"]]:
        changed = source[:start] + re.sub(pattern, replacement, source[start:])
        assert changed != source, pattern
        yield f"{pattern} -> {replacement}", changed


@pytest.mark.parametrize("kind", ["sylvester", "dense", "gradients"])
def test_a_solve_that_is_wrong_is_refused(kind: str, chain: Geometry) -> None:
    geometry = formulas("invariant") if kind == "sylvester" else chain
    source = module_source(geometry, "a test")
    if kind == "gradients":
        source = source.replace("steps <= 1024", "steps <= 0")
    assert check_horizontal(source, geometry).startswith("tested in float64 at random points, ")
    for what, changed in changes(source, kind):
        with pytest.raises((CertificateError, RuntimeError, TypeError)):
            raise AssertionError(f"not refused: {what}: {check_horizontal(changed, geometry)}")


@pytest.mark.parametrize("text", ["if steps < 1025:", "if (steps <= 1024):", "if steps <= 1e3:"])
def test_a_branch_whose_limit_is_not_found_is_refused(text: str, chain: Geometry) -> None:
    """Else conjugate gradients would never be run, and nothing would say so."""
    source = module_source(chain, "a test")
    assert source.count("if steps <= 1024:") == 1
    changed = source.replace("if steps <= 1024:", text)
    with pytest.raises(CertificateError, match="conjugate gradients cannot be tested"):
        check_horizontal(changed, chain)


def test_a_factor_called_like_a_part_of_the_solve_is_refused() -> None:
    pair = Symmetry(
        "pair", GL("h"), {"G": ("n", "h"), "weights": ("m", "h")}, lambda A, G, weights: (G * A.I, weights * A.T)
    )
    metric = Metric(
        "own",
        pair,
        lambda p, a, b: Trace(gram(p.G).I * a.G.T * b.G) + Trace(gram(p.weights).I * a.weights.T * b.weights),
    )
    with pytest.raises(DeclarationError, match="uses the name weights itself"):
        module_source(derive_formulas(pair, metric), "a test")


def test_a_factor_called_like_the_unknown_is_not_mistaken_for_it() -> None:
    """The checks of the source run its conjugate gradients, too."""
    pair = Symmetry("pair", GL("h"), {"X": ("n", "h"), "H": ("m", "h")}, lambda A, X, H: (X * A.I, H * A.T))
    metric = Metric("own", pair, lambda p, a, b: Trace(gram(p.X).I * a.X.T * b.X) + Trace(gram(p.H).I * a.H.T * b.H))
    geometry = derive(pair, metric, levels="a")
    generator = torch.Generator().manual_seed(0)
    x = [torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((5, 3), (4, 3), (5, 3), (4, 3))]
    for found, wanted in zip(geometry.module().horizontal(*x), invariant.horizontal(*x), strict=True):
        assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-12)


# as a module


def test_a_geometry_gives_its_code_as_one_module(rotated: Geometry) -> None:
    module = rotated.module()
    assert rotated.module() is module
    assert sys.modules[module.__name__] is module
    assert module.NAME == "rotated_own"
    assert "Horizontal part" in (inspect.getdoc(module.horizontal) or "")
    assert "def horizontal(" in inspect.getsource(module.horizontal)
    same = dataclasses.replace(rotated)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda g: g.module(), [rotated, same])) == [module, module]


def test_a_geometry_whose_claims_do_not_hold_has_no_module(rotated: Geometry) -> None:
    with pytest.raises(CertificateError, match="no certificate"):
        dataclasses.replace(rotated, certificate=Certificate()).module()
    flat = derive(PAIR, Metric("flat", PAIR, euclidean), levels="ab")
    with pytest.raises(CertificateError, match=r"invariance: false[\s\S]*witness at"):
        flat.module()
