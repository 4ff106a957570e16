"""Generated source as a module, and what can only be checked by running it on numbers: the solves at run time."""

from __future__ import annotations

import hashlib
import linecache
import re
import sys
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from quotientgeo.errors import CertificateError
from quotientgeo.symbolic.derivation import Geometry
from quotientgeo.symbolic.derivation.calculus import variables_of
from quotientgeo.symbolic.derivation.levels.autodiff import TorchCalculus
from quotientgeo.symbolic.derivation.levels.freeness import algebra_basis
from quotientgeo.symbolic.derivation.levels.points import Sizes, assign_sizes, generator, sizes_text

TOLERANCE = 1e-9  # relative; what is found is near 1e-14
_PACKAGE = "quotientgeo_generated"


def module_from(source: str, name: str) -> ModuleType:
    """The source run as a module, under a name that no other source has; the same source gives the same module."""
    unique = f"{_PACKAGE}_{name}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    known = sys.modules.get(unique)
    if known is not None:
        return known
    module = ModuleType(unique)
    module.__file__ = f"<{unique}>"
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
    exec(compile(source, module.__file__, "exec"), vars(module))
    return sys.modules.setdefault(unique, module)


def check_horizontal(source: str, geometry: Geometry) -> str:
    """How the run-time solve did in float64, for the record; CertificateError where the result is not the horizontal part.

    At two random points of different sizes: the momentum of what is left is zero, what is taken off is a vertical vector,
    taking the horizontal part again changes nothing, and by automatic differentiation the momentum stays zero around.
    """
    return _checked(source, geometry, "horizontal", "solves for the vertical part", _of_horizontal)


def check_gradient(source: str, geometry: Geometry) -> str:
    """How the solve of lowered(xi) = y did in float64, for the record; CertificateError where xi is not the solution.

    At two random points of different sizes: lowered takes the result back to y, and by automatic differentiation the first
    two derivatives of that are those of y as the point moves.
    """
    return _checked(source, geometry, "gradient", "solves lowered(xi) = y", _of_gradient)


def _checked(
    source: str,
    geometry: Geometry,
    function: str,
    what: str,
    residuals_of: Callable[[ModuleType, Geometry, Sizes], dict[str, float]],
) -> str:
    """Where large operators are left to conjugate gradients, these are run as well, on the small ones."""
    iterative = _iterative(source, geometry, function)
    if iterative != source:
        _checked(iterative, geometry, function, what, residuals_of)
    module = module_from(source, geometry.name)
    scopes = []
    for sizes in (assign_sizes(geometry, 2, 3), assign_sizes(geometry, 3, 5)):
        scopes.append(sizes_text(sizes))
        residuals = residuals_of(module, geometry, sizes)
        worst = max(residuals, key=lambda name: residuals[name] if residuals[name] == residuals[name] else float("inf"))
        if not residuals[worst] < TOLERANCE:  # also for NaN
            raise CertificateError(
                f"{geometry.name}: generated {function}, which {what} at run time, is wrong at "
                f"{scopes[-1]}: relative residual {residuals[worst]:.1e} of '{worst}', allowed {TOLERANCE:g}"
            )
    where = " and ".join(dict.fromkeys(scopes))
    return (
        f"tested in float64 at random points, {where}: {', '.join(residuals)}, relative residuals below {TOLERANCE:g}"
    )


def _iterative(source: str, geometry: Geometry, function: str) -> str:
    """The source with every operator taken for too large to be written out; itself where none is written out, or none now."""
    out, changed = re.subn(r"if steps <= \d+:", "if steps <= 0:", source)
    written_out = len(re.findall(r"solution = _(?:dense|definite)\(", source))
    if changed != written_out:
        raise CertificateError(
            f"{geometry.name}: {written_out} solves of the generated {function} write their operator out where it is small, but "
            f"the limit was found for {changed} of them, so that conjugate gradients cannot be tested: generate the code again"
        )
    return out


def _drawn(geometry: Geometry, sizes: Sizes, function: str, *roles: str) -> list[list[Tensor]]:
    calculus = TorchCalculus(sizes, generator(function, geometry.name, sizes_text(sizes)).getrandbits(32))
    return [[calculus.variable(variable) for variable in variables_of(geometry, role).values()] for role in roles]


def _of_horizontal(module: ModuleType, geometry: Geometry, sizes: Sizes) -> dict[str, float]:
    point, xi, numbers = _drawn(geometry, sizes, "horizontal", "p", "xi", "parameters")
    found = module.horizontal(*point, *xi, *numbers)
    again = module.horizontal(*point, *found, *numbers)
    taken = _flat([a - b for a, b in zip(xi, found, strict=True)])
    basis = [
        _flat(module.vertical(*point, *(torch.tensor(m, dtype=torch.float64) for m in element.values())))
        for element in algebra_basis(geometry, sizes)
    ]
    space = torch.stack(basis, dim=1)
    rest = taken - space @ (torch.linalg.pinv(space, rtol=1e-10) @ taken)
    momenta = [_listed(module.momentum(*point, *tangent, *numbers)) for tangent in (found, xi)]
    return {
        "momentum zero": _ratio(*momenta),
        "difference vertical": _ratio([rest], [_flat(xi)]),
        "projecting again": _ratio([a - b for a, b in zip(again, found, strict=True)], xi),
        "derivative of the momentum zero": _derivative(module, point, xi, numbers),
    }


def _derivative(module: ModuleType, point: list[Tensor], xi: list[Tensor], numbers: list[Tensor]) -> float:
    """The momentum of the horizontal part is zero at all points, so its derivative is zero too: that of the solve is right."""
    with torch.enable_grad():
        time = torch.zeros((), dtype=torch.float64, requires_grad=True)
        moved = [p + time * x.cos() for p, x in zip(point, xi, strict=True)]
        sizes = []
        for tangent in (module.horizontal(*moved, *xi, *numbers), xi):
            total = _weighted(_listed(module.momentum(*moved, *tangent, *numbers)))
            (slope,) = torch.autograd.grad(total, time, retain_graph=True)
            sizes.append(slope.reshape(1))
    return _ratio([sizes[0]], [sizes[1]])


def _of_gradient(module: ModuleType, geometry: Geometry, sizes: Sizes) -> dict[str, float]:
    point, given, xi, numbers = _drawn(geometry, sizes, "gradient", "p", "d", "xi", "parameters")
    out = {}
    with torch.enable_grad():
        time = torch.zeros((), dtype=torch.float64, requires_grad=True)
        moved = [p + time * x.cos() for p, x in zip(point, xi, strict=True)]
        wanted = [d + time.sin() * x + time.square() * d for d, x in zip(given, xi, strict=True)]
        found = module.lowered(*moved, *module.gradient(*moved, *wanted, *numbers), *numbers)
        difference = _weighted([a - b for a, b in zip(found, wanted, strict=True)])
        scale = _weighted(wanted)
        for name in ("lowered back", "first derivative", "second derivative"):
            out[name] = _ratio([difference.detach().reshape(1)], [scale.detach().reshape(1)])
            (difference,) = torch.autograd.grad(difference, time, create_graph=True)
            (scale,) = torch.autograd.grad(scale, time, create_graph=True)
    with torch.no_grad():
        exact = [a - b for a, b in zip(found, wanted, strict=True)]
        out["lowered back"] = max(out["lowered back"], _ratio(exact, wanted))
    return out


def _weighted(parts: list[Tensor]) -> Tensor:
    """A sum of all entries with different weights."""
    flat = _flat(parts)
    return (flat * torch.linspace(1.0, 2.0, flat.numel(), dtype=flat.dtype)).sum()


def _listed(value: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return list(value) if isinstance(value, tuple) else [value]


def _flat(parts: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def _ratio(small: list[Tensor], large: list[Tensor]) -> float:
    return (_flat(small).norm() / _flat(large).norm().clamp_min(1e-30)).item()
