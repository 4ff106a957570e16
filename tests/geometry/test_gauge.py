"""The canonical gauge: right in any gauge, at any scale, and refusing what it cannot do."""

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quotientgeo.errors import NonFiniteError, RankDeficientError, ShapeError
from quotientgeo.geometry.compensated import multiply_add
from quotientgeo.geometry.gauge import canonical_frames
from quotientgeo.groups import GL
from tests.geometry.cases import Case
from tests.geometry.oracles import exact, inverse

sizes = st.integers(1, 4).flatmap(
    lambda h: st.tuples(st.integers(h, h + 4), st.integers(h, h + 4), st.just(h))  # n = h and m = h included
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(sizes, st.sampled_from([(), (3,), (2, 2)]), st.integers(0, 10**6))
def test_frames_are_what_they_claim(shape, batch, seed):
    n, m, h = shape
    G, H = Case(n, m, h, seed=seed, batch=batch, spectrum=100.0).factors()
    frames = canonical_frames(G, H)
    eye = torch.eye(h, dtype=torch.float64).expand(*batch, h, h)
    torch.testing.assert_close(frames.F_G.mT @ frames.F_G, eye, rtol=0, atol=1e-14)
    torch.testing.assert_close(frames.F_H.mT @ frames.F_H, eye, rtol=0, atol=1e-14)
    torch.testing.assert_close(frames.F_G @ frames.T_G, G, rtol=0, atol=1e-13)
    torch.testing.assert_close(frames.F_H @ frames.T_H, H, rtol=0, atol=1e-13)
    torch.testing.assert_close(frames.T_G @ frames.T_H.mT, torch.diag_embed(frames.s), rtol=0, atol=1e-13)
    assert bool((frames.s[..., :-1] >= frames.s[..., 1:]).all())
    assert frames.sizes == (n, m, h)


@pytest.mark.parametrize("gauge", [1.0, 1e3, 1e6, 1e9, 1e12])
def test_whitening_holds_to_rounding_in_any_gauge(gauge):
    """|G T^-1 - F| with 60 digits; a plain QR misses by about 1e-16 times the condition."""
    G, H = Case(5, 4, 2, spectrum=1e3, gauge=gauge, seed=1).factors()
    frames = canonical_frames(G, H)
    with mp.workdps(60):
        T_G, T_H = exact(frames.T_G) + exact(frames.T_G_low), exact(frames.T_H) + exact(frames.T_H_low)
        assert _largest(exact(G) @ inverse(T_G) - exact(frames.F_G)) < 1e-14
        assert _largest(exact(H) @ inverse(T_H) - exact(frames.F_H)) < 1e-14
        assert _largest(T_G @ T_H.T - np.diag(exact(frames.s))) < 1e-14
        Q, R = torch.linalg.qr(G)
        plain = _largest(exact(G) @ inverse(exact(R)) - exact(Q))
    if gauge >= 1e6:
        assert plain > 1e-12  # the refinement is needed, and the measure sees its absence


def test_frames_do_not_depend_on_the_gauge():
    """Moves that float64 represents exactly, so that both points are on one orbit to the last bit."""
    generator = torch.Generator().manual_seed(0)
    G, H = (torch.randint(-512, 512, (k, 3), generator=generator).double() / 256 for k in (7, 5))
    shear = torch.eye(3, dtype=torch.float64)
    shear[0, 1], shear[0, 2], shear[1, 2] = 1024.0, -512.0, 2048.0
    inverted = torch.eye(3, dtype=torch.float64)
    inverted[0, 1], inverted[0, 2], inverted[1, 2] = -1024.0, 512.0 + 1024.0 * 2048.0, -2048.0
    assert torch.equal(shear @ inverted, torch.eye(3, dtype=torch.float64))
    here, there = canonical_frames(G, H), canonical_frames(G @ inverted, H @ shear.mT)
    assert float(torch.linalg.cond(shear)) > 1e6
    torch.testing.assert_close(here.s, there.s, rtol=1e-13, atol=0)
    signs = torch.sign((here.F_G * there.F_G).sum(0))
    torch.testing.assert_close(here.F_G, there.F_G * signs, rtol=0, atol=1e-13)
    torch.testing.assert_close(here.F_H, there.F_H * signs, rtol=0, atol=1e-13)


def _largest(x) -> float:
    return float(np.abs(x).max())


@pytest.mark.parametrize(("n", "h", "k"), [(5, 2, 2), (8, 64, 7), (3, 1, 2), (4, 700, 3)])
def test_compensated_products(n, h, k):
    generator = torch.Generator().manual_seed(n)

    def graded(*shape):
        size = torch.randn(shape, generator=generator, dtype=torch.float64)
        return torch.randn(shape, generator=generator, dtype=torch.float64) * 10**size

    A, B = graded(n, h), graded(h, k)
    C = -(A @ B)
    high, low = multiply_add(C, A, B)
    with mp.workdps(60):
        reference = exact(C) + exact(A) @ exact(B)
        unit = np.abs(exact(A)).max(axis=1, keepdims=True) * np.abs(exact(B)).max(axis=0, keepdims=True)
        error = _largest((exact(high) + exact(low) - reference) / unit)
        plain = _largest(reference / unit)  # a product in float64 leaves C + A B = 0 here
    assert error < 2.0**-66
    assert plain > 1e3 * error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scales", [(1e19, 1e19), (1e-19, 1e-19), (1e19, 1e-19), (1e-19, 1e19)])
def test_extreme_scales(dtype, scales):
    G, H = (factor.to(dtype) for factor in Case(6, 5, 3).factors())
    here = canonical_frames(G, H)
    there = canonical_frames((G * scales[0]).double(), (H * scales[1]).double())
    torch.testing.assert_close(there.s / scales[0] / scales[1], here.s, rtol=1e-5, atol=0)
    torch.testing.assert_close(there.F_G @ there.T_G, (G * scales[0]).double(), rtol=0, atol=1e-14 * scales[0])


def test_any_float64_scale_works_and_a_product_out_of_range_is_named():
    G, H = Case(6, 5, 3).factors()
    here, there = canonical_frames(G, H), canonical_frames(G * 1e200, H * 1e-250)
    torch.testing.assert_close(there.s * 1e50, here.s, rtol=1e-13, atol=0)
    for scale in (1e200, 1e-200):
        with pytest.raises(NonFiniteError, match="range of float64"):
            canonical_frames(G * scale, H * scale)


def _column(factor, index, value):
    factor = factor.clone()
    factor[..., index] = value
    return factor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fault", ["zero column", "zero factor", "repeated column", "low rank product"])
@pytest.mark.parametrize("name", ["G", "H"])
def test_lost_rank_is_named(dtype, fault, name):
    factors = dict(zip("GH", (f.to(dtype) for f in Case(6, 5, 3, batch=(4,), gauge=3.0).factors()), strict=True))
    bad = factors[name][2]
    factors[name][2] = {
        "zero column": lambda: _column(bad, 1, 0.0),
        "zero factor": lambda: bad * 0,
        "repeated column": lambda: _column(bad, 1, bad[..., 0]),
        "low rank product": lambda: bad[:, :2] @ torch.tensor([[1.0, 0.3, 0.2], [0.1, 1.0, -0.7]], dtype=dtype),
    }[fault]()
    with pytest.raises(RankDeficientError, match=rf"factor {name} \(block 2: [^)]*\); tolerance"):
        canonical_frames(factors["G"], factors["H"])
    with pytest.raises(RankDeficientError, match=r"layer\.2\.head\.0"):
        canonical_frames(factors["G"], factors["H"], names=[f"layer.{i}.head.0" for i in range(4)])


def test_rank_is_judged_in_any_gauge():
    """Full rank stays full rank at condition 1e6 in float32; lost rank stays lost when it is moved there in float64."""
    G, H = Case(6, 5, 3, gauge=1e6).factors()
    canonical_frames(G.float(), H.float())
    A = GL(3).random_element(torch.Generator().manual_seed(0), condition=1e6)
    lost, H = _column(Case(6, 5, 3).factors()[0], 1, 0.0), Case(6, 5, 3).factors()[1]
    with pytest.raises(RankDeficientError, match="factor G"):
        canonical_frames(torch.linalg.solve(A, lost, left=False), H @ A.mT)


def test_the_product_may_lose_rank_by_itself_and_the_tolerance_is_the_users():
    root = torch.tensor([1.0, 1e-4], dtype=torch.float64)
    F_G, F_H = (
        torch.linalg.qr(torch.randn(k, 2, generator=torch.Generator().manual_seed(k)).double()).Q for k in (5, 4)
    )
    canonical_frames(F_G * root, F_H * root)
    with pytest.raises(RankDeficientError, match=r"the product G H' \(1e-08\)"):
        canonical_frames((F_G * root).float(), (F_H * root).float())
    with pytest.raises(RankDeficientError, match="the product"):
        canonical_frames(F_G * root, F_H * root, rank_tolerance=1e-6)
    canonical_frames((F_G * root).float(), (F_H * root).float(), rank_tolerance=0.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_judged_by_their_values(dtype):
    G, H = (factor.to(dtype) for factor in Case(40, 30, 3).factors())
    assert canonical_frames(G, H).F_G.dtype == torch.float64


def test_bad_input_is_named():
    G, H = Case(6, 5, 3, batch=(2,)).factors()
    for first, second in ((G, H[0]), (G[..., :2], H), (G[0, 0], H[0, 0]), (G[..., :0], H[..., :0]), (G.float(), H)):
        with pytest.raises(ShapeError):
            canonical_frames(first, second)
    with pytest.raises(ShapeError, match="real floating dtype"):
        canonical_frames(G.long(), H.long())
    with pytest.raises(RankDeficientError, match="fewer rows than columns"):
        canonical_frames(G[..., :2, :], H)
    for poison in (float("nan"), float("inf")):
        bad = H.clone()
        bad[1, 2, 0] = poison
        with pytest.raises(NonFiniteError, match=r"factor H holds NaN or infinity .*block 1"):
            canonical_frames(G, bad)


def test_an_empty_batch_and_casting():
    G, H = Case(6, 5, 3, batch=(2,)).factors()
    assert canonical_frames(G[:0], H[:0]).s.shape == (0, 3)
    frames = canonical_frames(G, H).to(torch.float32)
    assert frames.F_G.dtype == frames.F_H.dtype == torch.float32
    assert frames.s.dtype == frames.T_G.dtype == torch.float64  # these may not fit float32's range
