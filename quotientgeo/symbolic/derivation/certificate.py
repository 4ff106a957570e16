"""Claims, how each was confirmed, and the witness where one is false.

Words are used strictly. "Proven for all sizes" is level (a): a normal form that is zero; for positive definiteness a sum of
squares, and for a free action formulas that give X = 0 one after another. Of a closed form of geodesics it is level (f), which
starts from the formula of the acceleration: SymPy reduces to zero what is left of the geodesic equation, in every inner product
space. "Proven for sizes ..." is level (c), a polynomial identity in the entries. Everything else is "tested", whatever its odds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from quotientgeo.errors import CertificateError

_SHOWN = 3  # claims that an error message spells out
_LONG = 200  # characters of a formula that text shows; the record has all of them


_ADVICE = {
    "action_identity": "write an action that leaves every factor as it is where the element is the identity of the group",
    "action_composition": "write inverses and transposes so that two moves are one, as G A^-1 and H A' for G H'",
    "action_free": "leave out elements that act alike (a smaller group), or the factor that nothing moves",
    "preserved": "correct the action or the preserved quantity, or declare the subgroup that does preserve it",
    "vertical_in_kernel": "correct the action or the preserved quantity, or declare the subgroup that does preserve it",
    "metric_symmetric": "add the same term with its two tangents exchanged, and halve both",
    "metric_positive_definite": "give each factor a term with its own tangents and a positive weight, such as a Gram matrix",
    "invariance": "weigh tangents by something that moves against them, such as (G' G)^-1 or H' H; search_metrics finds metrics",
}


class Level(StrEnum):
    """The routes by which a claim can be confirmed, strongest first."""

    NORMAL_FORM = "a"
    MODULAR = "b"
    COMPONENT = "c"
    RATIONAL = "d"
    AUTODIFF = "e"
    SYMPY = "f"


METHOD = {
    Level.NORMAL_FORM: "non-commutative algebra: the normal form, or where said a sum of squares or formulas that give X = 0",
    Level.MODULAR: "evaluation modulo 2^61 - 1 at random points",
    Level.COMPONENT: "polynomial identity in the matrix entries",
    Level.RATIONAL: "exact rational numbers with dual numbers at random points",
    Level.AUTODIFF: "reverse-mode automatic differentiation of the declaration in float64",
    Level.SYMPY: "SymPy by itself: its own derivative of a trace; a closed form inserted into the geodesic equation",
}


class Outcome(StrEnum):
    """What one level says of one claim."""

    PROVEN = "proven"
    TESTED = "tested"
    FALSE = "false"
    UNDECIDED = "undecided"  # a normal form that is not zero proves nothing
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class LevelResult:
    """Outcome of one level for one claim.

    ``scope`` says for which sizes; ``residual`` is what was found (a bound for floating point, so that the record does not
    depend on the machine); ``measured`` is the number behind it and is left out of the record.
    """

    level: Level
    outcome: Outcome
    scope: str = ""
    residual: str = ""
    measured: float | None = None

    def to_dict(self) -> dict[str, str]:
        """The record, without what depends on the machine."""
        out = {"level": self.level.value, "method": METHOD[self.level], "outcome": self.outcome.value}
        return out | {key: text for key, text in (("scope", self.scope), ("residual", self.residual)) if text}

    def __str__(self) -> str:
        details = ", ".join(text for text in (self.scope, self.residual) if text)
        return f"({self.level.value}) {self.outcome.value}" + (f": {details}" if details else "")


@dataclass(frozen=True)
class Witness:
    """A point at which the two sides of a false claim differ; every value is exact, so anyone can evaluate it.

    ``place`` says which equation, where the claim has one for each factor or preserved quantity.
    """

    sizes: dict[str, int]
    values: dict[str, Any]  # letter -> nested list of exact numbers as text
    left: Any
    right: Any
    place: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        place = {"place": self.place} if self.place else {}
        return {"sizes": self.sizes, "values": self.values, **place, "left": self.left, "right": self.right}

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        values = "; ".join(f"{name} = {_matrix_text(value)}" for name, value in self.values.items())
        of = f" for {self.place}" if self.place else ""
        sides = f"left side{of} {_matrix_text(self.left)}, right side {_matrix_text(self.right)}"
        return f"at {sizes}: {values}: {sides}"


def _matrix_text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_matrix_text, value)) + "]"
    return str(value)


@dataclass(frozen=True)
class Claim:
    """One statement about a geometry, the formula it is about, and what every level says of it."""

    name: str
    statement: str
    formula: str
    levels: tuple[LevelResult, ...]
    witness: Witness | None = None

    @property
    def holds(self) -> bool:
        """No level refutes it, and at least one confirms it."""
        outcomes = {result.outcome for result in self.levels}
        return Outcome.FALSE not in outcomes and bool(outcomes & {Outcome.PROVEN, Outcome.TESTED})

    @property
    def advice(self) -> str:
        """What to do where the claim is false and it is about the declaration; otherwise empty."""
        return _ADVICE.get(self.name, "") if self.status == "false" else ""

    @property
    def confirmed_by(self) -> tuple[Level, ...]:
        """Levels that prove or test it."""
        return tuple(r.level for r in self.levels if r.outcome in (Outcome.PROVEN, Outcome.TESTED))

    @property
    def status(self) -> str:
        """``proven for all sizes``, ``proven for sizes ...``, ``tested``, ``false`` or ``undecided``."""
        if any(result.outcome is Outcome.FALSE for result in self.levels):
            return "false"
        proofs = [result for result in self.levels if result.outcome is Outcome.PROVEN]
        if proofs:
            return f"proven for {proofs[0].scope}"
        return "tested" if self.confirmed_by else "undecided"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "statement": self.statement,
            "formula": self.formula,
            "status": self.status,
            "levels": [result.to_dict() for result in self.levels],
            "witness": self.witness.to_dict() if self.witness else None,
        }

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.status}", f"    {self.statement}"]
        lines += [f"    {_shortened(self.formula)}"] if self.formula else []
        lines += [f"    {result}" for result in self.levels]
        lines += [f"    witness {self.witness}"] if self.witness else []
        lines += [f"    what to do: {self.advice}"] if self.advice else []
        return "\n".join(lines)


@dataclass(frozen=True)
class Certificate:
    """All claims about one geometry."""

    subject: str = ""
    assumptions: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)

    def __getitem__(self, name: str) -> Claim:
        for claim in self.claims:
            if claim.name == name:
                return claim
        raise KeyError(f"no claim {name!r}; claims: {', '.join(claim.name for claim in self.claims)}")

    @property
    def holds(self) -> bool:
        """There are claims, and each holds."""
        return bool(self.claims) and all(claim.holds for claim in self.claims)

    def require(self) -> None:
        """Raise CertificateError, with the witness, unless every claim holds."""
        if not self.claims:
            raise CertificateError(
                f"{self.subject or 'this geometry'} carries no certificate: derive or certify it first"
            )
        broken = sorted((c for c in self.claims if not c.holds), key=lambda c: c.status != "false")  # before undecided
        if broken:
            details = "\n".join(map(str, broken[:_SHOWN]))
            rest = ", ".join(claim.name for claim in broken[_SHOWN:])
            more = f"\nand also: {rest}" if rest else ""
            raise CertificateError(f"{self.subject}: {len(broken)} claim(s) do not hold\n{details}{more}")

    def to_json(self) -> str:
        """The record as JSON: the same bytes for the same declaration, on any machine and under any hash seed."""
        record = {
            "subject": self.subject,
            "holds": self.holds,
            "assumptions": list(self.assumptions),
            "claims": [claim.to_dict() for claim in self.claims],
        }
        return json.dumps(record, indent=1, ensure_ascii=True) + "\n"

    @property
    def summary(self) -> str:
        """One line: ``19 of 19 claims hold: 19 proven for all sizes, 0 tested``, and by name what is less than proven."""
        statuses = [claim.status for claim in self.claims]
        everywhere = statuses.count("proven for all sizes")
        somewhere = sum(status.startswith("proven") for status in statuses) - everywhere
        counts = [f"{everywhere} proven for all sizes", *([f"{somewhere} for some sizes"] if somewhere else [])]
        counts.append(f"{statuses.count('tested')} tested")
        out = f"{sum(claim.holds for claim in self.claims)} of {len(self.claims)} claims hold: {', '.join(counts)}"
        for words, kind in (("FALSE", "false"), ("UNDECIDED", "undecided"), ("TESTED, NOT PROVEN", "tested")):
            named = [claim.name for claim in self.claims if claim.status == kind]
            out += f"; {words}: {', '.join(named)}" if named else ""
        return out

    def __str__(self) -> str:
        """The summary, the assumptions, a line for each claim that is proven for all sizes, and in full what is not."""
        lines = [f"{self.subject}: {self.summary}", *(f"assuming {text}" for text in self.assumptions)]
        for claim in self.claims:
            proven = claim.status == "proven for all sizes"
            levels = ", ".join(level.value for level in claim.confirmed_by)
            lines.append(f"{claim.name}: {claim.status} (levels {levels})" if proven else str(claim))
        return "\n".join(lines)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG].rstrip()} ... ({len(text)} characters, whole in to_json())"
