"""Closed forms of geodesics: found, proven, printed, and recorded as a claim of the certificate."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from quotientgeo.errors import CertificateError, NotDerivableError
from quotientgeo.symbolic.closed_form.proof import prove
from quotientgeo.symbolic.closed_form.reduction import reduced
from quotientgeo.symbolic.closed_form.solving import Solved, solve
from quotientgeo.symbolic.closed_form.source import Source, formulas
from quotientgeo.symbolic.derivation.certificate import Claim, Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.geometry import Geometry

CLAIM = "closed_form"
FILE = "closed_form.py"
_METHOD = (
    "the text is printed from the expressions that were proven, and its end points are compared in float64 with "
    "Runge-Kutta integrals of the generated acceleration"
)
_SIZES, _STEPS, _TOLERANCE = (2, 4), 256, 1e-8  # what Runge-Kutta leaves is near 1e-10
_LENGTH = 0.2  # of tangents, relative to the point


@dataclass(frozen=True)
class ClosedForm:
    """The geodesics of a geometry along all tangents, proven from its derived acceleration."""

    geometry: Geometry = field(repr=False)
    solved: Solved = field(repr=False)
    digest: str

    @property
    def formulas(self) -> list[str]:
        """The solution line by line: one for each factor, then what the letters are."""
        return formulas(self.solved)

    @property
    def domain(self) -> str:
        """Where the geodesic exists; "all t" where it is complete."""
        if not self.solved.cone:
            return "all t"
        turning, growth = self.solved.cone
        return f"as long as (1 + {growth} t)^2 + {turning} t^2 > 0"

    @property
    def claim(self) -> Claim:
        """What was proven, for the certificate."""
        exists = "for all t" if not self.solved.cone else self.domain
        result = LevelResult(
            Level.SYMPY,
            Outcome.PROVEN,
            "all sizes",
            "initial point, initial velocity and geodesic equation of every block reduce to 0",
        )
        return Claim(
            CLAIM,
            f"the geodesic from any point along any tangent, {exists}",
            "; ".join(self.formulas),
            (result,),
        )

    def source(self, origin: str) -> str:
        """The module; its text was run against the generated acceleration."""
        return Source(self.solved, dict(self.geometry.factors), self.geometry.name, self.digest, origin).text()

    def record(self, source: str, generated: str) -> dict[str, Any]:
        """What the certificate says of the file, once its text has been run."""
        return {
            "file": FILE,
            "sha256": hashlib.sha256(source.encode()).hexdigest(),
            "generated_sha256": hashlib.sha256(generated.encode()).hexdigest(),
            "method": _METHOD,
            "domain": self.domain,
            "steps": list(self.solved.steps),
        }


def closed_form(geometry: Geometry, digest: str) -> ClosedForm | None:
    """The closed form of a geometry whose acceleration reads block by block, proven; None where there is none.

    Raises:
        CertificateError: one was found, and the proof refuses it.
    """
    try:
        solved = solve(reduced(geometry))
    except NotDerivableError:
        return None
    prove(solved)
    return ClosedForm(geometry, solved, digest)


def with_claim(geometry: Geometry, closed: ClosedForm) -> Geometry:
    """The same geometry with the closed form among the claims of its certificate."""
    certificate = geometry.certificate
    if any(claim.name == CLAIM for claim in certificate):
        return geometry
    return dataclasses.replace(
        geometry, certificate=dataclasses.replace(certificate, claims=(*certificate.claims, closed.claim))
    )


def check_text(name: str, closed: ModuleType, generated: ModuleType) -> None:
    """Compare printed end points with Runge-Kutta integrals of the generated acceleration, at random points of two sizes.

    Raises:
        CertificateError: they differ.
    """
    for size in _SIZES:
        random = torch.Generator().manual_seed(size)
        symbols = dict.fromkeys(s for shape in generated.FACTORS.values() for s in shape if isinstance(s, str))
        numbers = {symbol: size + 2 * (i % 2) for i, symbol in enumerate(symbols)}  # even: columns may come in pairs
        shapes = [tuple(numbers.get(s, s) for s in shape) for shape in generated.FACTORS.values()]
        options: Any = {"dtype": torch.float64, "generator": random}
        point = tuple(torch.rand(3, *shape, **options) + 1.0 for shape in shapes)
        tangent = tuple(_LENGTH * torch.randn(3, *shape, **options) for shape in shapes)
        found, wanted = closed.exponential(*point, *tangent), _integral(generated, point, tangent)
        for factor, a, b in zip(generated.FACTORS, found, wanted, strict=True):
            error = float((a - b).abs().max() / b.abs().max())
            if not error < _TOLERANCE:
                raise CertificateError(
                    f"{name}: the printed closed form of {factor} ends at a relative distance of {error:.1e} from the integral "
                    f"of the generated acceleration at {numbers} (allowed {_TOLERANCE:g})"
                )


def _integral(module: ModuleType, point: tuple[Tensor, ...], tangent: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """End point at t = 1 by classical Runge-Kutta."""
    count, dt = len(point), 1.0 / _STEPS

    def rate(state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (*state[count:], *module.acceleration(*state))

    def ahead(state: tuple[Tensor, ...], slope: tuple[Tensor, ...], step: float) -> tuple[Tensor, ...]:
        return tuple(x + step * k for x, k in zip(state, slope, strict=True))

    state = (*point, *tangent)
    for _ in range(_STEPS):
        first = rate(state)
        second = rate(ahead(state, first, dt / 2))
        third = rate(ahead(state, second, dt / 2))
        last = rate(ahead(state, third, dt))
        parts = zip(first, second, third, last, strict=True)
        state = ahead(state, tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in parts), dt)
    return state[:count]
