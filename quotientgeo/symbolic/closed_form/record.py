"""Closed forms of geodesics: found, proven, printed, and recorded as a claim of the certificate."""

from __future__ import annotations

import dataclasses
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from quotientgeo.errors import NotDerivableError
from quotientgeo.symbolic.closed_form.proof import prove
from quotientgeo.symbolic.closed_form.reduction import reduced
from quotientgeo.symbolic.closed_form.series import Series, divides, prove_series, series
from quotientgeo.symbolic.closed_form.solving import Solved, solve
from quotientgeo.symbolic.closed_form.source import Source, formulas, header
from quotientgeo.symbolic.codegen.functions import Function, local
from quotientgeo.symbolic.codegen.module import assembled, source_writer
from quotientgeo.symbolic.codegen.proof import check_functions
from quotientgeo.symbolic.derivation.certificate import Claim, Level, LevelResult, Outcome
from quotientgeo.symbolic.derivation.geometry import Geometry

CLAIM = "closed_form"
FILE = "closed_form.py"
_COMPARED = "its end points are compared in float64 with Runge-Kutta integrals of the generated acceleration"


@dataclass(frozen=True)
class ClosedForm(ABC):
    """The geodesics of a geometry along all tangents, proven from its derived acceleration."""

    geometry: Geometry = field(repr=False)
    digest: str
    method: ClassVar[str]  # how the text is held to what was proven
    level: ClassVar[Level]
    reduced: ClassVar[str]  # what became zero in the proof

    @property
    @abstractmethod
    def formulas(self) -> list[str]:
        """The solution line by line: one for each factor, then what the letters are."""

    @property
    @abstractmethod
    def domain(self) -> str:
        """Where the geodesic exists; "all t" where it is complete."""

    @property
    @abstractmethod
    def steps(self) -> list[str]:
        """How it was found."""

    @abstractmethod
    def source(self, origin: str) -> str:
        """The module; ``check_text`` runs its text against the generated acceleration."""

    @property
    def claim(self) -> Claim:
        """What was proven, for the certificate."""
        exists = "for all t" if self.domain == "all t" else self.domain
        result = LevelResult(self.level, Outcome.PROVEN, "all sizes", self.reduced)
        statement = f"the geodesic from any point along any tangent, {exists}"
        return Claim(CLAIM, statement, "; ".join(self.formulas), (result,))

    def record(self, source: str, generated: str) -> dict[str, Any]:
        """What the certificate says of the file, once its text has been run."""
        return {
            "file": FILE,
            "sha256": hashlib.sha256(source.encode()).hexdigest(),
            "generated_sha256": hashlib.sha256(generated.encode()).hexdigest(),
            "method": self.method,
            "domain": self.domain,
            "steps": self.steps,
        }


@dataclass(frozen=True)
class InBlocks(ClosedForm):
    """Of an equation that splits into blocks."""

    solved: Solved = field(repr=False)
    method = f"the text is printed from the expressions that were proven, and {_COMPARED}"
    level = Level.SYMPY
    reduced = "initial point, initial velocity and geodesic equation of every block reduce to 0"

    @property
    def formulas(self) -> list[str]:
        return formulas(self.solved)

    @property
    def domain(self) -> str:
        if not self.solved.cone:
            return "all t"
        turning, growth = self.solved.cone
        return f"as long as (1 + {growth} t)^2 + {turning} t^2 > 0"

    @property
    def steps(self) -> list[str]:
        return list(self.solved.steps)

    def source(self, origin: str) -> str:
        return Source(self.solved, dict(self.geometry.factors), self.geometry.name, self.digest, origin).text()


@dataclass(frozen=True)
class Ending(ClosedForm):
    """Of time derivatives that end: a polynomial in t."""

    series: Series = field(repr=False)
    method = f"the source is run on symbols and returns the normal form of the polynomial; {_COMPARED}"
    level = Level.NORMAL_FORM
    reduced = (
        "each time derivative is the one before differentiated along geodesics, and the last is 0 in normal form: so are all "
        "that follow it"
    )

    @property
    def formulas(self) -> list[str]:
        return [self.series.formula(factor) for factor in self.geometry.factors]

    @property
    def domain(self) -> str:
        return "as long as every inverse in the metric exists" if divides(self.geometry) else "all t"

    @property
    def steps(self) -> list[str]:
        order = self.series.order
        return [f"time derivative {order} is 0, so the geodesic is its Taylor polynomial of order {order - 1}"]

    def source(self, origin: str) -> str:
        """Raises CertificateError where the text, run on symbols, gives something else."""
        geometry, names = self.geometry, self.geometry.names
        function = Function(
            "exponential",
            (*names.factors, *names.tangents),
            {local(f"end_{f}", geometry): self.series.end(f) for f in names.factors},
            "End point at t = 1 of the geodesic from a point along any tangent.",
            formulas=tuple(self.formulas),
        )
        head = header(geometry.name, self.digest, origin, "in normal form")
        text = assembled(head, [source_writer(geometry).function(function)])
        check_functions(text, geometry.alphabet, [function], geometry.name)
        return text


def closed_form(geometry: Geometry, digest: str) -> ClosedForm | None:
    """The closed form, proven, of a geometry whose acceleration reads block by block, or whose time derivatives end; None
    where there is none.

    Raises:
        CertificateError: one was found, and the proof refuses it.
    """
    try:
        solved = solve(reduced(geometry))
    except NotDerivableError:
        return _ending(geometry, digest)
    prove(solved)
    return InBlocks(geometry, digest, solved)


def _ending(geometry: Geometry, digest: str) -> Ending | None:
    try:
        found = series(geometry)
    except NotDerivableError:
        return None
    prove_series(geometry, found)
    return Ending(geometry, digest, found)


def with_claim(geometry: Geometry, closed: ClosedForm) -> Geometry:
    """The same geometry with the closed form among the claims of its certificate."""
    certificate = geometry.certificate
    if any(claim.name == CLAIM for claim in certificate):
        return geometry
    return dataclasses.replace(
        geometry, certificate=dataclasses.replace(certificate, claims=(*certificate.claims, closed.claim))
    )
