"""SharpnessResult: the number together with everything that defines it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from quotientgeo.errors import ArgumentError

SCHEMA = 1


@dataclass(frozen=True)
class BatchResult:
    """One batch: ``value`` = ``maximum`` - ``loss`` at |xi| = ``achieved_norm`` <= rho.

    ``trace[start]`` lists the loss at every point that start visited; ``best_start`` and ``best_step`` say where the maximum
    was. ``resolution`` is the rounding error to expect of a difference of two losses in this dtype: a value near it says
    nothing.
    """

    value: float
    loss: float
    maximum: float
    achieved_norm: float
    best_start: int
    best_step: int
    trace: list[list[float]]
    resolution: float


@dataclass(frozen=True)
class SharpnessResult:
    """What ``quotientgeo.sharpness`` returns.

    ``value`` is the mean over batches of max_{|xi| <= rho} L(Exp(xi)) - L(w). It is NaN, never 0, unless ``outcome`` is "ok";
    ``detail`` then says what happened and where. ``per_block`` gives for every block and tensor its share of the squared norm
    of the maximiser and of the first-order gain (the gradient at w times the displacement, which may be negative for some),
    averaged over batches. ``definitions`` holds every setting on which the
    value depends. ``peak_memory_bytes`` is the largest memory seen during the call: allocated on the GPU, or resident in this
    process (which may be older than the call) on the CPU. Lengths are in the metric's own unit.
    """

    value: float
    outcome: str
    detail: str
    batches: list[BatchResult]
    per_block: dict[str, dict[str, float]]
    definitions: dict[str, Any]
    frozen: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    verification: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    peak_memory_bytes: int | None = None

    @property
    def per_batch(self) -> list[float]:
        """The value of each batch, in the order given."""
        return [batch.value for batch in self.batches]

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    def to_json(self, indent: int | None = None) -> str:
        """Strict JSON: a non-finite number becomes null, and comes back as NaN."""
        return json.dumps(plain({"schema": SCHEMA, **asdict(self)}), indent=indent, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> SharpnessResult:
        """The result that ``to_json`` wrote; a later schema is refused."""
        try:
            read = json.loads(text)
        except json.JSONDecodeError as error:
            raise ArgumentError(f"this is not the JSON of a result: {error}") from error
        if not isinstance(read, dict):
            raise ArgumentError(f"this is not the JSON of a result, but of a {type(read).__name__}")
        schema = read.pop("schema", None)
        if schema != SCHEMA:
            raise ArgumentError(f"this result has schema {schema}; this version of quotientgeo reads schema {SCHEMA}")
        unknown = set(read) - {f.name for f in fields(cls)}
        if unknown:
            raise ArgumentError(f"this result has fields that this version does not know: {sorted(unknown)}")
        missing = {f.name for f in fields(cls)} - set(read)
        if missing:
            raise ArgumentError(f"this result lacks the fields {sorted(missing)}")
        read["value"] = _number(read["value"])
        read["batches"] = [
            BatchResult(
                **{
                    **batch,
                    **{k: _number(batch[k]) for k in ("value", "loss", "maximum", "achieved_norm", "resolution")},
                    "trace": [[_number(x) for x in row] for row in batch["trace"]],
                }
            )
            for batch in read["batches"]
        ]
        return cls(**read)

    def __str__(self) -> str:
        d = self.definitions
        what = f"{d.get('measure')} sharpness, rho = {d.get('rho')}"
        if not self.ok:
            return f"{what}: no value ({self.outcome}: {self.detail})"
        told = f"{what}: {self.value:.6g} over {len(self.batches)} batch(es) of {d.get('examples_per_batch')} examples"
        return "\n".join([told, *(f"note: {note}" for note in self.notes)])


def _number(x: float | None) -> float:
    return math.nan if x is None else float(x)


def plain(x: Any) -> Any:
    """For strict JSON: dicts and lists alone, and None for a number that is not finite."""
    if isinstance(x, float):
        return x if math.isfinite(x) else None
    if isinstance(x, Mapping):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    return x
