"""Products of independent symmetries, with their factors in any order, and the integral of each metric by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from sympy import DiagMatrix, DiagonalOf, Expr, Trace
from torch import Tensor

from quotientgeo.groups import ComplexDiagonal, NonzeroDiagonal, Scaling, Translation
from quotientgeo.symbolic.algebra import ComplexPart
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.derivation import Geometry
from quotientgeo.symbolic.derivation.pipeline import derive_formulas

Point = dict[str, Tensor]


@dataclass(frozen=True)
class Part:
    """A symmetry by itself.

    layout: factor -> how it moves. energy: <xi, xi> at a point in torch, written down apart from ``inner``.
    """

    group: Callable[[], Any]
    factors: dict[str, tuple[str | int, str | int]]
    layout: dict[str, str]
    action: Callable[[Any, Any], dict[str, Any]]
    inner: Callable[[Any, Any, Any], Expr]
    energy: Callable[[Point, Point], Tensor]


def _scale(name: str, rows: str, columns: str) -> Part:
    return Part(
        Scaling,
        {name: (rows, columns)},
        {name: "whole"},
        lambda c, f: {name: c * f[name]},
        lambda p, a, b: Trace(a[name].T * b[name]) / Trace(p[name].T * p[name]),
        lambda p, v: (v[name] ** 2).sum() / (p[name] ** 2).sum(),
    )


def _network(u: str, v: str, size: str, mixed: bool) -> Part:
    def inner(p: Any, a: Any, b: Any) -> Expr:
        first, second = (DiagMatrix(p[v]) ** 2, DiagMatrix(p[u]) ** 2)
        if not mixed:
            first, second = DiagMatrix(p[u]) ** -2, DiagMatrix(p[v]) ** -2
        return Trace(first * a[u] * b[u].T) + Trace(second * a[v] * b[v].T)

    def energy(p: Point, w: Point) -> Tensor:
        if mixed:
            return ((p[v] * w[u]) ** 2 + (p[u] * w[v]) ** 2).sum()
        return ((w[u] / p[u]) ** 2 + (w[v] / p[v]) ** 2).sum()

    return Part(
        lambda: NonzeroDiagonal(size),
        {u: (size, 1), v: (size, 1)},
        {u: "rows", v: "rows"},
        lambda D, f: {u: D * f[u], v: D.inv() * f[v]},
        inner,
        energy,
    )


def _rows() -> Part:
    def lengths(F: Any) -> Any:
        return DiagMatrix(DiagonalOf(F * F.T))

    return Part(
        lambda: NonzeroDiagonal("d"),
        {"U": ("d", "i"), "V": ("o", "d")},
        {"U": "rows", "V": "columns"},
        lambda D, f: {"U": D * f["U"], "V": f["V"] * D.inv()},
        lambda p, a, b: Trace(lengths(p.U).I * a.U * b.U.T) + Trace(lengths(p.V.T).I * a.V.T * b.V),
        lambda p, v: (
            ((v["U"] ** 2).sum(1) / (p["U"] ** 2).sum(1)).sum() + ((v["V"] ** 2).sum(0) / (p["V"] ** 2).sum(0)).sum()
        ),
    )


def _pairs() -> Part:
    def sizes(F: Any) -> Any:
        return ComplexPart(F.T * F, "half")

    def energy(p: Point, v: Point) -> Tensor:
        def of(name: str) -> Tensor:
            above, below = ((x[name] ** 2).sum(0).unflatten(0, (2, -1)).sum(0) for x in (v, p))
            return 2 * (above / below).sum()  # the part of a pair is half its squared length

        return of("G") + of("H")

    return Part(
        lambda: ComplexDiagonal("h", pairing="half"),
        {"G": ("n", "h"), "H": ("m", "h")},
        {"G": "half", "H": "half"},
        lambda A, f: {"G": f["G"] * A.inv(), "H": f["H"] * A.T},
        lambda p, a, b: Trace(sizes(p.G).I * a.G.T * b.G) + Trace(sizes(p.H).I * a.H.T * b.H),
        energy,
    )


def _shift() -> Part:
    return Part(
        lambda: Translation("q"),
        {"a": ("q", 1), "z": ("q", 1)},
        {"a": "whole", "z": "whole"},
        lambda t, f: {"a": f["a"] + t, "z": f["z"] - t},
        lambda p, a, b: Trace(a.a.T * b.a) + Trace(a.z.T * b.z),
        lambda p, v: (v["a"] ** 2).sum() + (v["z"] ** 2).sum(),
    )


PARTS = {
    "scale": _scale("W", "n", "m"),
    "other": _scale("Y", "m", "n"),
    "network": _network("u", "v", "d", mixed=False),
    "cone": _network("x", "y", "e", mixed=True),
    "second cone": _network("r", "s", "f", mixed=True),
    "rows": _rows(),
    "pairs": _pairs(),
    "shift": _shift(),
}


@cache
def product(parts: tuple[str, ...], order: tuple[str, ...]) -> Geometry:
    """The product of the parts, with its factors in this order."""
    chosen = [PARTS[part] for part in parts]
    shapes = {f: shape for part in chosen for f, shape in part.factors.items()}

    def action(*given: Any) -> tuple[Any, ...]:
        elements, factors = given[: len(chosen)], dict(zip(order, given[len(chosen) :], strict=True))
        moved = {f: x for part, A in zip(chosen, elements, strict=True) for f, x in part.action(A, factors).items()}
        return tuple(moved[f] for f in order)

    def inner(p: Any, a: Any, b: Any) -> Expr:
        return sum(part.inner(p, a, b) for part in chosen)

    group = chosen[0].group()
    for part in chosen[1:]:
        group = group * part.group()
    symmetry = Symmetry("product", group=group, factors={f: shapes[f] for f in order}, action=action)
    return derive_formulas(symmetry, Metric("sum", symmetry, inner))


def layout(parts: Sequence[str]) -> dict[str, str]:
    return {f: how for part in parts for f, how in PARTS[part].layout.items()}


def integral(parts: Sequence[str], point: Point, velocity: Point, steps: int = 40) -> Point:
    """End at t = 1 by Runge-Kutta of the Euler-Lagrange equation of the energy, by automatic differentiation alone."""
    names, shapes = list(point), [x.shape for x in point.values()]
    counts = [x.numel() for x in point.values()]

    def split(flat: Tensor) -> Point:
        return {f: x.reshape(s) for f, x, s in zip(names, flat.split(counts), shapes, strict=True)}

    def energy(x: Tensor, v: Tensor) -> Tensor:
        return sum((PARTS[part].energy(split(x), split(v)) for part in parts), torch.zeros((), dtype=x.dtype)) / 2

    def acceleration(x: Tensor, v: Tensor) -> Tensor:
        """M x'' = dL/dx - (dM/dt) v, M the matrix of the energy."""
        mass = torch.func.hessian(energy, 1)(x, v)
        moved = torch.func.jvp(lambda at: torch.func.grad(energy, 1)(at, v), (x,), (v,))[1]
        return torch.linalg.solve(mass, torch.func.grad(energy)(x, v) - moved)

    x, v = (torch.cat([t.reshape(-1) for t in values.values()]) for values in (point, velocity))
    h = 1 / steps
    for _ in range(steps):
        k1, l1 = v, acceleration(x, v)
        k2, l2 = v + h / 2 * l1, acceleration(x + h / 2 * k1, v + h / 2 * l1)
        k3, l3 = v + h / 2 * l2, acceleration(x + h / 2 * k2, v + h / 2 * l2)
        k4, l4 = v + h * l3, acceleration(x + h * k3, v + h * l3)
        x, v = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), v + h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
    return split(x)
