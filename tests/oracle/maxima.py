"""The stored maxima: tests/data/oracle_maxima.json, written by make_maxima.py.

for maximum in load_maxima(): ...            # a list of Maximum
maximum.case, .metric, .rho                  # which measure: CASES[maximum.case]
maximum.value                                # max of L(Exp(xi)) - L(w) over |xi| <= rho, geodesic by DOP853
maximum.base_loss                            # L(w)
maximum.tangent                              # the maximiser, a measure.Tangent in the original gauge (z on the rest)
maximum.details                              # starts, stationarity, regularity of the geodesics
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.oracle.measure import Tangent

STORE = Path(__file__).resolve().parents[1] / "data" / "oracle_maxima.json"


@dataclass(frozen=True)
class Maximum:
    """See the module's docstring."""

    case: str
    metric: str
    rho: float
    value: float
    base_loss: float
    tangent: Tangent
    details: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers keep all their digits."""
        pairs = {name: {"G": G.tolist(), "H": H.tolist()} for name, (G, H) in self.tangent.pairs.items()}
        return {
            "case": self.case,
            "metric": self.metric,
            "rho": self.rho,
            "value": self.value,
            "base_loss": self.base_loss,
            "details": self.details,
            "pairs": pairs,
            "rest": {name: z.tolist() for name, z in self.tangent.rest.items()},
        }


def _tensor(values: list) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def from_dict(stored: dict[str, Any]) -> Maximum:
    pairs = {name: (_tensor(sides["G"]), _tensor(sides["H"])) for name, sides in stored["pairs"].items()}
    tangent = Tangent(pairs, {name: _tensor(z) for name, z in stored["rest"].items()})
    plain = {key: stored[key] for key in ("case", "metric", "rho", "value", "base_loss", "details")}
    return Maximum(**plain, tangent=tangent)


def load_maxima() -> list[Maximum]:
    """All stored maxima."""
    return [from_dict(stored) for stored in json.loads(STORE.read_text())["maxima"]]


def save_maxima(settings: dict[str, Any], maxima: list[Maximum]) -> None:
    """One line per maximum."""
    lines = ",\n".join(json.dumps(maximum.to_dict()) for maximum in maxima)
    STORE.write_text('{"settings": ' + json.dumps(settings) + ',\n"maxima": [\n' + lines + "\n]}\n")
