"""The canonical gauge of a pair: orthonormal frames of both factors in which G H' is diagonal.

QR of both factors and an SVD of the small core R_G R_H', in float64. Gram matrices are never formed: they square the
condition number of the gauge, which is arbitrary, and so would lose every digit at condition 1e8. QR itself loses one factor of
the condition; a residual in doubled precision and a second QR give that back, so that frames are as good in any gauge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from quotientgeo.errors import NonFiniteError, RankDeficientError, ShapeError
from quotientgeo.geometry.compensated import multiply_add

_NAMED_BLOCKS = 4  # how many offending batch indices an error message spells out


class Frames(NamedTuple):
    """Canonical frames of G (..., n, h) and H (..., m, h): G = F_G T_G, H = F_H T_H, T_G T_H' = diag(s).

    F_G (..., n, h) and F_H (..., m, h) have orthonormal columns; s (..., h) are the singular values of W = G H',
    descending, so that W = F_G diag(s) F_H'; T_G and T_H (..., h, h) are continued beyond float64 by T_G_low and T_H_low.
    Frames are unique up to a joint sign of each column pair, and up to a joint rotation inside equal singular values. They
    are constants: nothing differentiates through them.
    """

    F_G: Tensor
    F_H: Tensor
    s: Tensor
    T_G: Tensor
    T_H: Tensor
    T_G_low: Tensor
    T_H_low: Tensor

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(n, m, h)."""
        return self.F_G.shape[-2], self.F_H.shape[-2], self.F_G.shape[-1]

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Frames:
        """Frames for computing in ``dtype`` on ``device``.

        Only F_G and F_H change dtype. s and the gauge T_G, T_H stay float64: they may not fit a smaller range
        (weights of 1e19 have s = 1e38), and only h x h tables are made from them.
        """
        return Frames(
            self.F_G.to(device=device, dtype=dtype or self.F_G.dtype),
            self.F_H.to(device=device, dtype=dtype or self.F_H.dtype),
            *(small.to(device=device) for small in self[2:]),
        )


def row(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Values (..., h) as a row (..., 1, h) that scales columns."""
    return values[..., None, :].to(dtype)


def batch_names(flags: Tensor, values: Tensor, names: Sequence[str] | None = None) -> str:
    """'block 3: 1.2e-17, block 5: 0' for the entries of ``values`` (...) where ``flags`` (...) is true.

    ``names`` are the blocks' names, in the order of a flat batch.
    """
    if flags.ndim == 0:
        return f"{values.item():.3g}"
    found = flags.flatten().nonzero().flatten().tolist()
    named = [
        f"{names[i] if names else f'block {_index(i, flags)}'}: {values.flatten()[i].item():.3g}"
        for i in found[:_NAMED_BLOCKS]
    ]
    rest = len(found) - _NAMED_BLOCKS
    return ", ".join(named) + (f" and {rest} more" if rest > 0 else "")


def _index(flat: int, of: Tensor) -> str:
    index = [int(i) for i in torch.unravel_index(torch.tensor(flat), of.shape)]
    return str(index[0]) if len(index) == 1 else str(tuple(index))


@torch.no_grad()
def rank_resolution(n: int, m: int, eps: float) -> float:
    """s_h / s_1 of G H' at or below which a rank of h cannot be told from a lower one in a dtype with this ``eps``."""
    return max(n, m) * eps


def canonical_frames(
    G: Tensor, H: Tensor, *, rank_tolerance: float | None = None, names: Sequence[str] | None = None
) -> Frames:
    """Canonical frames of the pair G (..., n, h), H (..., m, h), computed and returned in float64.

    With G = Q_G R_G, H = Q_H R_H and the SVD R_G R_H' = U diag(s) V':
    F_G = Q_G U, F_H = Q_H V, T_G = U' R_G, T_H = V' R_H. Every factor may have any finite scale, also 1e±150.

    Full rank is judged by what no gauge can change: s_h / s_1 of G H' must exceed ``rank_tolerance``, by default max(n, m)
    times the resolution of the *input's* dtype (half types count as float32, where their values are exact). A factor must
    also have full rank to float64 resolution, or its gauge cannot be inverted. ``names`` of the blocks (a flat batch) go
    into the messages.

    Raises:
        ShapeError: not two floating tensors (..., n, h), (..., m, h) with one batch shape, dtype and device.
        NonFiniteError: an entry, or a singular value of G H', is not a normal finite float64.
        RankDeficientError: names the factor or the product, the batch indices and the ratios.
    """
    _check_factors(G, H, names)
    n, m = G.shape[-2], H.shape[-2]
    resolution = torch.finfo(G.dtype if G.dtype in (torch.float32, torch.float64) else torch.float32).eps
    tolerance = rank_resolution(n, m, resolution) if rank_tolerance is None else rank_tolerance
    G_parts, H_parts = (_scaled_qr(factor.detach().double()) for factor in (G, H))
    first = multiply_add(G_parts.R @ H_parts.R_low.mT + G_parts.R_low @ H_parts.R.mT, G_parts.R, H_parts.R.mT)
    U, s, Vt = torch.linalg.svd(first[0] + first[1])
    factor_tolerance = min(tolerance, max(n, m) * torch.finfo(torch.float64).eps)
    _check_rank(G_parts.R, H_parts.R, s, tolerance, factor_tolerance, names)
    s = s * (G_parts.scale * H_parts.scale)[..., None]
    _check_range(s, names)
    T_G, T_G_low = _rotated(U.mT, G_parts)
    T_H, T_H_low = _rotated(Vt, H_parts)
    return Frames(G_parts.Q @ U, H_parts.Q @ Vt.mT, s, T_G, T_H, T_G_low, T_H_low)


class _Factor(NamedTuple):
    """factor = Q (R + R_low) scale, with a power of two for scale (...): products of two R neither overflow nor underflow."""

    Q: Tensor
    R: Tensor
    R_low: Tensor
    scale: Tensor


def _scaled_qr(factor: Tensor) -> _Factor:
    """QR whose relation to the factor holds to rounding *after* whitening, |factor R^-1 - Q|, not only before.

    With E = (factor - Q R) R^-1 from a residual in doubled precision, factor = (Q + E) R; the QR of Q + E, whose condition
    is 1, gives orthonormal columns and a small change of R.
    """
    largest = factor.abs().amax((-2, -1))
    scale = torch.exp2(torch.where(largest > 0, largest, 1.0).log2().floor().clamp(-1000.0, 1000.0))
    factor = factor / scale[..., None, None]
    Q, R = torch.linalg.qr(factor)
    identity = torch.eye(R.shape[-1], dtype=R.dtype, device=R.device)
    diagonal = torch.diagonal(R, dim1=-2, dim2=-1).abs()
    singular = diagonal.amin(-1) <= torch.finfo(R.dtype).eps * diagonal.amax(-1)  # refused later, by name
    divisor = torch.where(singular[..., None, None], identity, R)
    residual = torch.stack(multiply_add(factor, -Q, R)).sum(0)
    Q, change = torch.linalg.qr(Q + torch.linalg.solve_triangular(divisor, residual, upper=True, left=False))
    signs = torch.where(torch.diagonal(change, dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    Q, change = Q * signs[..., None, :], change * signs[..., :, None]
    return _Factor(Q, R, (change - identity) @ R, scale)


def _rotated(rotation: Tensor, factor: _Factor) -> tuple[Tensor, Tensor]:
    """rotation (R + R_low) scale as high + low."""
    high, low = multiply_add(torch.zeros_like(factor.R), rotation, factor.R)
    scale = factor.scale[..., None, None]
    return high * scale, (low + rotation @ factor.R_low) * scale


def _check_factors(G: Tensor, H: Tensor, names: Sequence[str] | None) -> None:
    if G.ndim < 2 or H.ndim < 2 or G.shape[-1] != H.shape[-1] or G.shape[:-2] != H.shape[:-2] or G.shape[-1] == 0:
        raise ShapeError(
            "a pair needs G (..., n, h) and H (..., m, h) with one batch shape and h >= 1, "
            f"got {tuple(G.shape)} and {tuple(H.shape)}"
        )
    if G.dtype != H.dtype or not G.is_floating_point() or G.device != H.device:
        raise ShapeError(
            "G and H must share one real floating dtype and one device, "
            f"got {G.dtype} on {G.device} and {H.dtype} on {H.device}"
        )
    for name, factor in (("G", G), ("H", H)):
        if factor.shape[-2] < factor.shape[-1]:
            raise RankDeficientError(
                f"factor {name} of shape {tuple(factor.shape)} has fewer rows than columns, "
                "so it cannot have full column rank; declare the block with the smaller inner size"
            )
        bad = ~factor.isfinite().all(-1).all(-1)
        if bad.any():
            count = (~factor.isfinite()).sum((-2, -1))
            raise NonFiniteError(f"factor {name} holds NaN or infinity (entries: {batch_names(bad, count, names)})")


def _check_rank(
    R_G: Tensor, R_H: Tensor, s: Tensor, tolerance: float, factor_tolerance: float, names: Sequence[str] | None
) -> None:
    ratio = {
        "factor G": _singular_ratio(torch.linalg.svdvals(R_G)),
        "factor H": _singular_ratio(torch.linalg.svdvals(R_H)),
        "the product G H'": _singular_ratio(s),
    }
    lost = ratio["the product G H'"] <= tolerance
    failed = lost.clone()
    for name in ("factor G", "factor H"):
        failed = failed | (ratio[name] <= factor_tolerance)
    if not failed.any():
        return
    causes = {name: failed & (ratio[name] <= tolerance) for name in ("factor G", "factor H")}
    causes["the product G H'"] = failed & ~causes["factor G"] & ~causes["factor H"]
    told = "; ".join(
        f"{name} ({batch_names(flags, ratio[name], names)})" for name, flags in causes.items() if flags.any()
    )
    raise RankDeficientError(
        f"rank lost, by smallest / largest singular value: {told}; tolerance {tolerance:.3g}. The quotient has no tangent "
        "space of full dimension there: measure without these blocks (graph.restricted_to(names)), or declare them with a "
        "smaller inner size h"
    )


def _singular_ratio(s: Tensor) -> Tensor:
    """s_h / s_1, and 0 for the zero matrix."""
    largest, smallest = s[..., 0], s[..., -1]
    return torch.where(largest > 0, smallest / torch.where(largest > 0, largest, 1.0), 0.0)


def _check_range(s: Tensor, names: Sequence[str] | None) -> None:
    limits = torch.finfo(torch.float64)
    outside = ((s > limits.max) | (s < limits.tiny)).any(-1)
    if outside.any():
        raise NonFiniteError(
            f"singular values of G H' leave the range of float64: largest {batch_names(outside, s[..., 0], names)}; "
            "rescale the factors"
        )
