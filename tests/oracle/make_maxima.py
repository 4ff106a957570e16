"""Recomputes every maximum: `python -m tests.oracle.make_maxima` (about a quarter of an hour of one core).

Writes tests/data/oracle_maxima.json. The search runs on integrator.py; the stored value is recomputed at the maximiser
by DOP853 on Christoffel symbols, and the two must agree.
"""

import sys
import time
from itertools import product

import numpy
import scipy
import torch

from tests.oracle import integrator, search
from tests.oracle.geometry import METRICS
from tests.oracle.maxima import Maximum, save_maxima
from tests.oracle.measure import base_loss, end_point, tangent_norm, vertical_residual
from tests.oracle.models import CASES, Case

RADII = (0.01, 0.05, 0.1)
AGREEMENT = 1e-9


def compute(case: Case, metric: str, rho: float) -> Maximum:
    """One maximum with everything a reader may doubt."""
    begun = time.process_time()
    found = search.maximise(case, metric, rho)
    best = found.best
    tangent = found.landscape.tangent(best.y)
    end, base = end_point(case, metric, tangent), base_loss(case)
    value = end.loss - base
    if abs(value - best.value) > AGREEMENT:
        raise RuntimeError(f"{case.name} {metric} {rho}: search {best.value!r} and DOP853 {value!r} disagree")
    details = {
        "norm": tangent_norm(case, metric, tangent),
        "vertical_residual": vertical_residual(case, metric, tangent),
        "smallest_singular_ratio": end.smallest_singular_ratio,
        "energy_drift": end.energy_drift,
        "search_minus_dop853": best.value - value,
        "stationarity": best.stationarity,
        "multiplier": best.multiplier,
        "starts_reaching_99_percent": found.reaching(0.99),
        "starts_reaching_95_percent": found.reaching(0.95),
        "starts": [[a.kind, round(a.trust_constr, 10), round(a.value, 10), a.evaluations] for a in found.attempts],
        "seconds": round(time.process_time() - begun, 1),
    }
    return Maximum(case.name, metric, rho, value, base, tangent, details)


def describe(maximum: Maximum) -> str:
    """One line for the log."""
    details = maximum.details
    values = [value for _, _, value, _ in details["starts"]]
    return (
        f"{maximum.case:10} {maximum.metric:9} {maximum.rho:4} value {maximum.value:.8f} base {maximum.base_loss:.4f} "
        f"99%: {details['starts_reaching_99_percent']:2}/{len(values)} 95%: {details['starts_reaching_95_percent']:2} "
        f"worst {min(values) / maximum.value:.3f} gradient start {values[0] / maximum.value:.3f} "
        f"s_h {details['smallest_singular_ratio']:.3f} stationarity {details['stationarity']:.0e} "
        f"search-DOP853 {details['search_minus_dop853']:.0e} {details['seconds']:.0f} s"
    )


def main() -> None:
    """All cases, metrics and radii."""
    torch.set_num_threads(1)
    begun, maxima = time.process_time(), []
    for case, metric, rho in product(CASES.values(), METRICS, RADII):
        maxima.append(compute(case, metric, rho))
        print(describe(maxima[-1]), flush=True)
    settings = {
        "starts": search.STARTS,
        "trust_constr_iterations": search.ITERATIONS,
        "start_radius": search.START_RADIUS,
        "seed": 0,
        "collocation": [integrator.NODES, integrator.SWEEPS],
        "seconds": round(time.process_time() - begun, 1),
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
        },
    }
    save_maxima(settings, maxima)


if __name__ == "__main__":
    main()
