"""The exact exponential against a general integrator at equal error, for the heads of a BERT-base: 144 blocks of (768, 64)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.clock import Time, timed, typical
from benchmarks.conftest import Say, load
from benchmarks.dop853 import SMALLEST_TOLERANCE, error, integrate, reference
from quotientgeo.geometry.coordinates import Horizontal
from quotientgeo.geometry.first_order import FirstOrder, Stored
from quotientgeo.geometry.pair import PairGeometry

BLOCKS, ROWS, COLUMNS = 144, 768, 64
RANK = 1  # of the tangents before they are made horizontal: gradients are of low rank, and curve more than random tangents do
LENGTHS = (0.3, 1.0)  # of the tangent of each block
INTEGRATED = 2  # blocks that DOP853 integrates; all cost it the same
ROUNDS = 5
LIMIT = 20.0
TOLERANCES = (1e-3, 1e-6, 1e-9, 1e-11, 1e-12, 1e-13, SMALLEST_TOLERANCE)

Side = tuple[np.ndarray, np.ndarray, np.ndarray]  # frame, whitened tangent, exact end point, each (n, h)


def problem(length: float) -> tuple[PairGeometry, Horizontal]:
    """Random pairs of full rank, and horizontal tangents of the given norm, float64."""
    generator = torch.Generator().manual_seed(0)

    def draw(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(BLOCKS, rows, columns, generator=generator, dtype=torch.float64)

    geometry = PairGeometry.at(draw(ROWS, COLUMNS), draw(ROWS, COLUMNS), rho=length)
    whitened = [draw(ROWS, RANK) @ draw(RANK, COLUMNS) for _ in range(2)]
    z = geometry.coordinates(*(X @ T for X, T in zip(whitened, geometry.frames[3:5], strict=True)))
    norm = sum(part.square().sum((-2, -1), keepdim=True) for part in z) ** 0.5
    return geometry, Horizontal(*(length * part / norm for part in z))


def sides(geometry: PairGeometry, z: Horizontal) -> list[Side]:
    """What DOP853 is given: the factors of the first blocks, each a problem of its own."""
    tangents = geometry.to_canonical(*geometry.displacement(z))
    found = []
    for F, X in zip((geometry.frames.F_G, geometry.frames.F_H), tangents, strict=True):
        found += [(F[k].numpy(), X[k].numpy(), reference(F[k].numpy(), X[k].numpy())) for k in range(INTEGRATED)]
    return found


def ours(geometry: PairGeometry, z: Horizontal, dtype: torch.dtype, exact: list[Side]) -> tuple[Time, float]:
    """Time of one evaluation for all blocks, as a search does it, and the largest error on those that are integrated."""
    exp = FirstOrder(geometry.to(dtype))
    stored = Stored(*(part.to(dtype).contiguous() for part in (z.c, z.N_G.mT, z.N_H.mT)))
    spent = typical([timed(lambda: exp.move(stored)) for _ in range(ROUNDS + 1)][1:])
    root = geometry.frames.s.sqrt()[:, None, :]
    ends = [Y[:INTEGRATED].double() / root[:INTEGRATED] for Y in exp.move(stored)]  # from the balanced gauge
    flat = [end.numpy() for Y in ends for end in Y]
    return spent, max(error(end, side[2], side[0]) for end, side in zip(flat, exact, strict=True))


def theirs(problems: list[Side]) -> list[tuple[float, float, Time]]:
    """Tolerance, largest error, and time for as many blocks as ours, from loose to tight."""
    found = []
    for tolerance in TOLERANCES:
        before = Time.now()
        ends = [integrate(F, X, tolerance) for F, X, _ in problems]
        spent = (Time.now() - before) * (BLOCKS / INTEGRATED)
        worst = max(error(end, exact, F) for end, (F, _, exact) in zip(ends, problems, strict=True))
        found.append((tolerance, worst, spent))
    return found


@torch.no_grad()
def test_exponential(say: Say) -> None:
    say()
    say(
        f"The exponential of {BLOCKS} blocks ({ROWS}, {COLUMNS}), both factors, invariant metric, in closed form; {load()}"
    )
    say(
        f"  against scipy's DOP853 on the matrix ODE in float64 ({INTEGRATED} blocks, times {BLOCKS // INTEGRATED}), at the"
    )
    say(
        "  loosest tolerance at which it is as exact, or at its most exact one; errors are relative to the displacement"
    )
    missed = []
    for length in LENGTHS:
        geometry, z = problem(length)
        problems = sides(geometry, z)
        solved = theirs(problems)
        for dtype in (torch.float64, torch.float32):
            spent, reached = ours(geometry, z, dtype, problems)
            as_exact = [one for one in solved if one[1] <= reached]
            tolerance, worst, cost = as_exact[0] if as_exact else min(solved, key=lambda one: one[1])
            ratio = cost / spent
            say(f"  tangents of length {length:g}, {str(dtype).removeprefix('torch.')}: {spent}, error {reached:.0e}")
            say(f"    DOP853 {cost}, error {worst:.0e} at tolerance {tolerance:.0e}")
            say(f"    {ratio.cpu:.0f} times faster in CPU time, {ratio.wall:.0f} in wall time; at least {LIMIT:g}")
            if ratio.cpu < LIMIT:
                missed.append(f"length {length:g}, {dtype}: {ratio.cpu:.1f}, at least {LIMIT:g}")
    assert not missed


def test_the_reference_is_an_exponential() -> None:
    """Of n x n matrices, by torch, where these are small."""
    generator = torch.Generator().manual_seed(1)
    F, _ = torch.linalg.qr(torch.randn(7, 2, generator=generator, dtype=torch.float64))
    X = torch.randn(7, 2, generator=generator, dtype=torch.float64)
    A = X @ F.mT
    expected = torch.linalg.matrix_exp(A - A.mT) @ torch.linalg.matrix_exp(A.mT) @ F
    assert np.allclose(reference(F.numpy(), X.numpy()).astype(float), expected.numpy(), rtol=1e-13, atol=1e-13)
    assert error(integrate(F.numpy(), X.numpy(), 1e-12), expected.numpy(), F.numpy()) == pytest.approx(0, abs=1e-10)
