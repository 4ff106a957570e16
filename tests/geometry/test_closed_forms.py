"""Closed forms of the catalogue: against integrals, at their limits, in their domain, and what is trusted of them."""

from __future__ import annotations

import json
import shutil
import sys
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import quotientgeo.catalogue
from quotientgeo.errors import CertificateError, GeodesicCollapseError
from quotientgeo.geometry import derived_shipped
from quotientgeo.geometry.derived import Derived
from quotientgeo.geometry.derived_samples import numeric_shapes, random_factors, random_tangent
from quotientgeo.manifolds import QuotientManifold
from tests.geometry.derived_settings import generated, plus, scaled, sizes_of, with_fault

CATALOGUE = Path(quotientgeo.catalogue.__file__).parent
NAMES = sorted(path.parent.name for path in CATALOGUE.glob("*/closed_form.py"))
CONES = sorted(name for name in NAMES if "def lowest" in (CATALOGUE / name / "closed_form.py").read_text())
CURVED = sorted(
    {"diagonal_network_mixed", "neuron_rescaling_mixed", "norm_gain_invariant", "normalised_weight_invariant"}
)
# every kind each time; blocks of other shapes under the same formulas where minutes may be spent
SLOW = {n for n in NAMES if n.startswith(("rope_pair_", "layer_"))} - {"rope_pair_mixed"}
EACH = [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in NAMES]
AGREES = 1e-11  # with an integral whose own error is below
STEPS = 2048
Factors = tuple[Tensor, ...]


def closed(name: str) -> ModuleType:
    return import_module(f"quotientgeo.catalogue.{name}.closed_form")


@cache
def shapes(name: str) -> tuple[tuple[int, int], ...]:
    return numeric_shapes(generated(name).FACTORS, sizes_of(name), name)


def setting(name: str, batch: tuple[int, ...] = (2,), length: float = 0.3, seed: int = 0) -> tuple[Factors, Factors]:
    """A point, and a tangent of a length relative to the point's, horizontal or not."""
    generator = torch.Generator().manual_seed(seed)
    x = random_factors(shapes(name), batch, generator=generator)
    xi = random_tangent(shapes(name), batch, generator=generator)
    geometry = Derived(generated(name))
    return x, scaled(length * geometry.norm(x, x) / geometry.norm(x, xi), xi)


def worst(a: Factors, b: Factors) -> float:
    return max(float((s - t).abs().max() / t.abs().max()) for s, t in zip(a, b, strict=True))


def test_there_are_closed_forms_of_every_kind() -> None:
    assert len(NAMES) == 17
    assert len(CONES) == 5
    assert set(CURVED) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_closed_form_is_used_and_certified_by_its_proof(name: str) -> None:
    geometry = Derived(generated(name))
    assert geometry.attached is not None
    assert geometry.attached.exponential is closed(name).exponential
    x, xi = setting(name)
    assert all(
        torch.equal(a, b) for a, b in zip(geometry.exponential(x, xi), closed(name).exponential(*x, *xi), strict=True)
    )
    record = json.loads((CATALOGUE / name / "certificate.json").read_text())
    (claim,) = (claim for claim in record["claims"] if claim["name"] == "closed_form")
    assert claim["status"] == "proven for all sizes"
    assert "refused" not in record["closed_form"]


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_it_ends_where_a_fine_integral_ends(name: str, batch: tuple[int, ...]) -> None:
    x, xi = setting(name, batch, seed=1)
    found = closed(name).exponential(*x, *xi)
    assert worst(found, Derived(generated(name)).exponential(x, xi, steps=STEPS if batch == (3,) else 512)) < AGREES


@pytest.mark.parametrize("name", EACH)
def test_it_passes_the_comparison_that_any_closed_form_has_to_pass(name: str) -> None:
    geometry = Derived(generated(name))
    attached = geometry.attach("of the catalogue", closed(name).exponential)
    assert attached.residual is not None
    assert attached.control is not None
    assert attached.residual < 1e-9 < 1e-3 < attached.control
    count = len(geometry.factors)
    with pytest.raises(CertificateError, match="is not the geodesic"):
        geometry.attach(
            "longer", lambda *args: closed(name).exponential(*args[:count], *(1.001 * t for t in args[count:]))
        )


CHANGES = [
    ("growth + 1", "growth + 1.001"),
    ("**0.25", "**0.251"),
    (" - ", " + "),
    (" + ", " - "),
    ("torch.exp(", "torch.cosh("),
    ("_cosine(", "_sine("),
    ("_sine(", "1.001 * _sine("),
    (".sum(", ".mean("),
]


@pytest.mark.parametrize("name", CURVED)
def test_a_changed_text_is_refused(name: str) -> None:
    """Each sign, constant and call of the printed exponential in turn, where it first occurs."""
    source = (CATALOGUE / name / "closed_form.py").read_text()
    head, start, rest = source.partition("def exponential(")
    signature, quotes, statements = rest.partition('    """\n')
    statements = statements.partition("\n\n\n")[0] + "\n"
    count = 0
    for old, new in CHANGES:
        changed = statements.replace(old, new, 1)
        if changed == statements:
            continue
        module = ModuleType("changed")
        exec(head + start + signature + quotes + changed, module.__dict__)
        with pytest.raises(CertificateError, match="closed form 'changed'"):
            Derived(generated(name)).attach("changed", module.exponential)
        count += 1
    assert count >= 3


@pytest.mark.parametrize("name", EACH)
def test_derivatives_are_right_twice(name: str) -> None:
    x, xi = setting(name, (), length=0.2, seed=2)
    arguments = [t.clone().requires_grad_() for t in (*x, *xi)]
    assert torch.autograd.gradcheck(closed(name).exponential, arguments)
    assert torch.autograd.gradgradcheck(closed(name).exponential, arguments)


def limits(name: str) -> dict[str, tuple[Factors, Factors]]:
    """Tangents at which a formula divides by something that vanishes."""
    x, xi = setting(name, (), length=0.15, seed=3)
    geometry = Derived(generated(name))
    radial = tuple(0.1 * t for t in x)
    single = (xi[0], *(torch.zeros_like(t) for t in xi[1:]))
    return {
        "zero": (x, tuple(torch.zeros_like(t) for t in xi)),
        "radial": (x, radial),
        "one factor alone": (x, single),
        "horizontal": (x, geometry.project(x, xi)),
        "nearly zero": (x, scaled(1e-9, xi)),
        "nearly radial": (x, plus(radial, scaled(1e-9, xi))),
    }


@pytest.mark.parametrize("name", EACH)
def test_limits_are_regular_with_two_derivatives(name: str) -> None:
    for label, (x, xi) in limits(name).items():
        found = closed(name).exponential(*x, *xi)
        assert worst(found, Derived(generated(name)).exponential(x, xi, steps=1024)) < AGREES, label
        arguments = [t.clone().requires_grad_() for t in (*x, *xi)]
        total = sum((t.sin().sum() for t in closed(name).exponential(*arguments)), torch.zeros((), dtype=torch.float64))
        first = torch.autograd.grad(total, arguments, create_graph=True)
        second = torch.autograd.grad(sum(t.cos().sum() for t in first), arguments)
        assert all(bool(t.isfinite().all()) for t in (*first, *second)), label
        assert torch.autograd.gradcheck(closed(name).exponential, arguments), label


@pytest.mark.parametrize("name", NAMES)
def test_float32_stays_float32_and_is_near(name: str) -> None:
    x, xi = setting(name, seed=4)
    found = closed(name).exponential(*(t.float() for t in (*x, *xi)))
    assert {t.dtype for t in found} == {torch.float32}
    assert worst(tuple(t.double() for t in found), closed(name).exponential(*x, *xi)) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_a_geodesic_goes_on_along_itself(name: str) -> None:
    """x(1) is also the end from x(1/2) along x'(1/2); and long ones are as right as short ones."""
    x, xi = setting(name, (), length=1.0, seed=5)
    end = closed(name).exponential(*x, *xi)
    middle = closed(name).exponential(*x, *scaled(0.5, xi))
    velocity = torch.func.jvp(
        lambda s: closed(name).exponential(*x, *(s * t for t in xi)),
        (torch.tensor(0.5, dtype=torch.float64),),
        (torch.tensor(1.0, dtype=torch.float64),),
    )[1]
    assert worst(closed(name).exponential(*middle, *scaled(0.5, velocity)), end) < 1e-10


# --- cones ---


def paired(b: float, turn: float = 0.0, dtype: torch.dtype = torch.float64) -> tuple[Factors, Factors]:
    """Three entries of a mixed diagonal network; the last has the rates b + turn and b - turn, the others 0.1."""
    u = torch.tensor([[1.0], [-2.0], [0.5]], dtype=dtype)
    v = torch.tensor([[3.0], [1.0], [-0.7]], dtype=dtype)
    rates = torch.tensor([[0.1], [0.1], [b]], dtype=dtype)
    turns = torch.tensor([[0.0], [0.0], [turn]], dtype=dtype)
    return (u, v), ((rates + turns) * u, (rates - turns) * v)


def test_horizontal_mixed_geodesics_are_square_roots_while_they_last() -> None:
    geometry = Derived(generated("diagonal_network_mixed"))
    for b in (-0.49, -0.3, 0.7, 3.0):
        (u, v), xi = paired(b)
        found = geometry.exponential((u, v), xi)
        factor = torch.tensor([[1.2], [1.2], [1 + 2 * b]], dtype=torch.float64).sqrt()
        assert worst(found, (factor * u, factor * v)) < 1e-14
    assert float(closed("diagonal_network_mixed").lowest(*(paired(-0.4)[0]), *(paired(-0.4)[1]))) == pytest.approx(0.2)


@pytest.mark.parametrize("b", [-0.5, -0.50001, -1.0, -30.0])
def test_the_end_of_a_mixed_geodesic_is_a_named_error(b: float) -> None:
    geometry = Derived(generated("diagonal_network_mixed"))
    x, xi = paired(b)
    message = r"apex of the cone.*falls to this fraction of its start.*shorter tangent, a smaller rho"
    with pytest.raises(GeodesicCollapseError, match=message):
        geometry.exponential(x, xi)
    both = tuple(torch.stack([s, t]) for s, t in zip((*paired(0.1)[0], *paired(0.1)[1]), (*x, *xi), strict=True))
    with pytest.raises(GeodesicCollapseError, match="block 1: "):
        geometry.exponential(both[:2], both[2:])
    unchecked = closed("diagonal_network_mixed").exponential(*both)
    assert [bool(t.isfinite().all()) for t in unchecked[0]] == [True, False]
    manifold = QuotientManifold(generated("diagonal_network_mixed"), sizes={"d": 3})
    with pytest.raises(GeodesicCollapseError, match="apex"):
        manifold.expmap(manifold.pack_point(*x), manifold.pack_point(*xi))
    start = [t.clone().requires_grad_() for t in both]
    total = sum(t[0].sum() for t in closed("diagonal_network_mixed").exponential(*start))
    gradients = torch.autograd.grad(total, start)  # of the member that is inside
    assert all(bool(g[0].isfinite().all()) for g in gradients)


@pytest.mark.parametrize(("b", "turn"), [(-0.5, 0.3), (-0.8, 0.05), (-2.0, 0.4), (-0.5, 0.01)])
def test_geodesics_that_pass_beside_the_end_go_on(b: float, turn: float) -> None:
    """On the other side of the apex the angle is beyond a right angle, where an arc tangent of a quotient is wrong."""
    geometry = Derived(generated("diagonal_network_mixed"))
    x, xi = paired(b, turn)
    assert worst(geometry.exponential(x, xi), geometry.exponential(x, xi, tolerance=1e-8)) < 1e-7
    closest = float(closed("diagonal_network_mixed").lowest(*x, *xi))
    angle = abs(turn) / (b**2 + turn**2) ** 0.5
    inside = -2 * b < 4 * (b**2 + turn**2)
    assert not inside or closest == pytest.approx(angle)


@pytest.mark.parametrize("name", CONES)
def test_every_cone_ends_where_its_product_vanishes(name: str) -> None:
    x, _ = setting(name, (), seed=6)
    geometry = Derived(generated(name))
    assert float(closed(name).lowest(*x, *(-0.2 * t for t in x))) == pytest.approx(0.6)
    with pytest.raises(GeodesicCollapseError, match=f"closed form of {name}"):
        geometry.exponential(x, tuple(-0.6 * t for t in x))
    assert worst(geometry.exponential(x, tuple(-0.4995 * t for t in x)), scaled(0.001**0.5, x)) < 1e-9


# --- what is trusted ---


def test_a_copy_with_other_functions_has_no_closed_form() -> None:
    module = generated("normalised_weight_invariant")
    assert derived_shipped.shipped(module) is not None
    assert derived_shipped.shipped(with_fault(module)) is None
    assert Derived(with_fault(module, acceleration=lambda W, xi: (0 * W,))).attached is None
    assert derived_shipped.shipped(generated("gl_pair_mixed")) is None


def test_a_module_made_from_the_same_declaration_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = generated("normalised_weight_invariant")
    again = with_fault(module)
    again.__name__ = "_made_in_memory"
    monkeypatch.setitem(sys.modules, "_made_in_memory", again)
    assert derived_shipped.shipped(again) is not None
    again.__doc__ = (module.__doc__ or "").replace("Declaration ", "Declaration 0")
    assert derived_shipped.shipped(again) is None


@pytest.mark.parametrize("file", ["closed_form.py", "generated.py", "certificate.json", ""])
def test_files_that_the_certificate_does_not_cover_are_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    name = "normalised_weight_invariant"
    folder = tmp_path / name
    shutil.copytree(CATALOGUE / name, folder)
    spec = ModuleSpec(name, None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr(derived_shipped, "find_spec", lambda _: spec)
    if file:
        text = (folder / file).read_text()
        changed = (
            text.replace('"status": "proven for all sizes"', '"status": "tested"')
            if file.endswith("json")
            else f"{text}#\n"
        )
        (folder / file).write_text(changed)
    found: Any = derived_shipped._trusted.__wrapped__(name)
    assert (found is None) == bool(file)
