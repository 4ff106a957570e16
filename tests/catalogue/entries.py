"""Every entry of the catalogue typed in plain torch: groups, action and metric; shares no code with the declarations.

Points and tangents are tuples of factors (..., rows, columns); all functions are batched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from quotientgeo.groups import (
    GL,
    ComplexDiagonal,
    NonzeroDiagonal,
    Orthogonal,
    PositiveDiagonal,
    Scaling,
    SimpleGroup,
    Translation,
)

Factors: TypeAlias = tuple[Tensor, ...]
inverse = torch.linalg.inv


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Sum of the products of the entries."""
    return (a * b).sum((-2, -1))


def gram(F: Tensor) -> Tensor:
    """F' F."""
    return F.mT @ F


def complex_norms(F: Tensor, half: bool) -> Tensor:
    """|z|^2 of each pair of columns, summed over the rows, at both columns of the pair: (..., 1, h)."""
    squares = F.square().sum(-2, keepdim=True)
    k = F.shape[-1] // 2
    if half:
        return (squares[..., :k] + squares[..., k:]).tile(2) / 2
    return (squares[..., 0::2] + squares[..., 1::2]).repeat_interleave(2, -1) / 2


@dataclass(frozen=True)
class Entry:
    """One entry at small sizes: shapes of the factors, groups, the action of one element per group, and the metric."""

    shapes: tuple[tuple[int, int], ...]
    groups: tuple[SimpleGroup, ...]
    action: Callable[..., Any]
    inner: Callable[[Factors, Factors, Factors], Tensor]
    parameters: Mapping[str, float] = field(default_factory=dict)


def pair(weights: Callable[[Tensor, Tensor], Factors]) -> Callable[[Factors, Factors, Factors], Tensor]:
    """tr(L a_G' b_G) + tr(R a_H' b_H) for the weights (L, R) of two factors that are read by columns."""

    def inner(x: Factors, a: Factors, b: Factors) -> Tensor:
        left, right = weights(*x)
        return dot(a[0] @ left, b[0]) + dot(a[1] @ right, b[1])

    return inner


def scaled(weights: Callable[..., Factors]) -> Callable[[Factors, Factors, Factors], Tensor]:
    """sum of w_i a_i b_i over the entries, for weights that broadcast against each factor."""
    return lambda x, a, b: sum((w * p * q).sum((-2, -1)) for w, p, q in zip(weights(*x), a, b, strict=True))  # type: ignore[return-value]


def columns(F: Tensor) -> Tensor:
    """Squared lengths of the columns, (..., 1, h)."""
    return F.square().sum(-2, keepdim=True)


def rows(F: Tensor) -> Tensor:
    """Squared lengths of the rows, (..., k, 1)."""
    return F.square().sum(-1, keepdim=True)


def length(F: Tensor) -> Tensor:
    """Squared length, (..., 1, 1)."""
    return F.square().sum((-2, -1), keepdim=True)


def _gl(A: Tensor, G: Tensor, H: Tensor) -> Factors:
    return G @ inverse(A), H @ A.mT


def _rope(half: bool, mixed: bool) -> Callable[[Factors, Factors, Factors], Tensor]:
    def weights(G: Tensor, H: Tensor) -> Factors:
        g, h = complex_norms(G, half), complex_norms(H, half)
        return (h, g) if mixed else (1 / g, 1 / h)

    return scaled(weights)


def _grouped(mixed: bool) -> Callable[[Factors, Factors, Factors], Tensor]:
    def inner(x: Factors, a: Factors, b: Factors) -> Tensor:
        stacked, tangents = torch.cat(x[:2], -2), [torch.cat(v[:2], -2) for v in (a, b)]
        P, Q = gram(stacked), gram(x[2])
        left, right = (Q, P) if mixed else (inverse(P), inverse(Q))
        return dot(tangents[0] @ left, tangents[1]) + dot(a[2] @ right, b[2])

    return inner


def _chain(x: Factors, a: Factors, b: Factors) -> Tensor:
    G, _, R = x
    outer = dot(a[0] @ inverse(gram(G)), b[0]) + dot(inverse(R @ R.mT) @ a[2], b[2])
    return outer + dot(G @ a[1] @ R, G @ b[1] @ R)


def _value_bias(x: Factors, a: Factors, b: Factors) -> Tensor:
    W, bias, _ = x
    out = [v[0] @ bias + W @ v[1] + v[2] for v in (a, b)]
    return dot(a[0], b[0]) + dot(a[1], b[1]) + dot(*out)


def _lora(mixed: bool) -> Callable[[Factors, Factors, Factors], Tensor]:
    def inner(x: Factors, a: Factors, b: Factors) -> Tensor:
        P, Q = gram(x[0]), x[1] @ x[1].mT
        left, right = (Q, P) if mixed else (inverse(P), inverse(Q))
        return dot(a[0] @ left, b[0]) + dot(right @ a[1], b[1])

    return inner


def _damped(eps: float) -> Callable[[Factors, Factors, Factors], Tensor]:
    def weights(G: Tensor, H: Tensor) -> Factors:
        P, Q = gram(G), gram(H)
        one = torch.eye(P.shape[-1], dtype=P.dtype)
        return Q @ inverse(P @ Q + eps * one), P @ inverse(Q @ P + eps * one)

    return pair(weights)


def _diagonal(A: Tensor) -> Tensor:
    return A.diagonal(dim1=-2, dim2=-1)[..., None]


PAIR = ((6, 3), (5, 3))
ROPE = ((5, 4), (3, 4))
ENTRIES: dict[str, Entry] = {
    "diagonal_network_invariant": Entry(
        ((5, 1), (5, 1)),
        (NonzeroDiagonal(5),),
        lambda A, u, v: (_diagonal(A) * u, v / _diagonal(A)),
        scaled(lambda u, v: (u**-2, v**-2)),
    ),
    "diagonal_network_mixed": Entry(
        ((5, 1), (5, 1)),
        (NonzeroDiagonal(5),),
        lambda A, u, v: (_diagonal(A) * u, v / _diagonal(A)),
        scaled(lambda u, v: (v**2, u**2)),
    ),
    "gl_pair_damped": Entry(PAIR, (GL(3),), _gl, _damped(0.3), {"eps": 0.3}),
    "gl_pair_invariant": Entry(PAIR, (GL(3),), _gl, pair(lambda G, H: (inverse(gram(G)), inverse(gram(H))))),
    "gl_pair_mixed": Entry(PAIR, (GL(3),), _gl, pair(lambda G, H: (gram(H), gram(G)))),
    "grouped_queries_invariant": Entry(
        ((4, 3), (4, 3), (5, 3)),
        (GL(3),),
        lambda A, G1, G2, H: (G1 @ inverse(A), G2 @ inverse(A), H @ A.mT),
        _grouped(mixed=False),
    ),
    "grouped_queries_mixed": Entry(
        ((4, 3), (4, 3), (5, 3)),
        (GL(3),),
        lambda A, G1, G2, H: (G1 @ inverse(A), G2 @ inverse(A), H @ A.mT),
        _grouped(mixed=True),
    ),
    "key_bias_flat": Entry(
        ((5, 3), (3, 1)),
        (Translation(3),),
        lambda t, H, b: (H, b + t),
        lambda x, a, b: dot(a[0], b[0]) + dot(a[1], b[1]),
    ),
    "layer_rescaling_invariant": Entry(
        ((4, 3), (2, 4)),
        (PositiveDiagonal(4),),
        lambda A, U, V: (_diagonal(A) * U, V / _diagonal(A).mT),
        scaled(lambda U, V: (1 / rows(U), 1 / columns(V))),
    ),
    "layer_rescaling_mixed": Entry(
        ((4, 3), (2, 4)),
        (PositiveDiagonal(4),),
        lambda A, U, V: (_diagonal(A) * U, V / _diagonal(A).mT),
        scaled(lambda U, V: (columns(V).mT, rows(U).mT)),
    ),
    "linear_chain_invariant": Entry(
        ((5, 3), (3, 2), (2, 4)),
        (GL(3), GL(2)),
        lambda A, B, G, W, R: (G @ inverse(A), A @ W @ inverse(B), B @ R),
        _chain,
    ),
    "lora_invariant": Entry(((6, 3), (3, 5)), (GL(3),), lambda M, B, A: (B @ inverse(M), M @ A), _lora(mixed=False)),
    "lora_mixed": Entry(((6, 3), (3, 5)), (GL(3),), lambda M, B, A: (B @ inverse(M), M @ A), _lora(mixed=True)),
    "neuron_rescaling_invariant": Entry(
        ((4, 1), (3, 1)),
        (Scaling(),),
        lambda c, g, h: (c * g, h / c),
        scaled(lambda g, h: (1 / length(g), 1 / length(h))),
    ),
    "neuron_rescaling_mixed": Entry(
        ((4, 1), (3, 1)), (Scaling(),), lambda c, g, h: (c * g, h / c), scaled(lambda g, h: (length(h), length(g)))
    ),
    "norm_gain_affine_invariant": Entry(
        ((4, 1), (3, 4)),
        (NonzeroDiagonal(4),),
        lambda A, w, V: (_diagonal(A) * (1 + w) - 1, V / _diagonal(A).mT),
        scaled(lambda w, V: ((1 + w) ** -2, (1 + w.mT) ** 2)),
    ),
    "norm_gain_invariant": Entry(
        ((4, 1), (3, 4)),
        (NonzeroDiagonal(4),),
        lambda A, w, V: (_diagonal(A) * w, V / _diagonal(A).mT),
        scaled(lambda w, V: (w**-2, w.mT**2)),
    ),
    "normalised_weight_invariant": Entry(
        ((4, 3),), (Scaling(),), lambda c, W: (c * W,), scaled(lambda W: (1 / length(W),))
    ),
    "orthogonal_pair_euclidean": Entry(
        PAIR,
        (Orthogonal(3),),
        lambda R, G, H: (G @ R.mT, H @ R.mT),
        lambda x, a, b: dot(a[0], b[0]) + dot(a[1], b[1]),
    ),
    "orthogonal_pair_stacked": Entry(
        PAIR,
        (Orthogonal(3),),
        lambda R, G, H: (G @ R.mT, H @ R.mT),
        pair(lambda G, H: (inverse(gram(G) + gram(H)),) * 2),
    ),
    "parallel_biases_flat": Entry(
        ((4, 1), (4, 1)),
        (Translation(4),),
        lambda t, b, c: (b + t, c - t),
        lambda x, a, b: dot(a[0], b[0]) + dot(a[1], b[1]),
    ),
    "rope_pair_interleaved_invariant": Entry(
        ROPE, (ComplexDiagonal(4, "interleaved"),), _gl, _rope(half=False, mixed=False)
    ),
    "rope_pair_interleaved_mixed": Entry(
        ROPE, (ComplexDiagonal(4, "interleaved"),), _gl, _rope(half=False, mixed=True)
    ),
    "rope_pair_invariant": Entry(ROPE, (ComplexDiagonal(4, "half"),), _gl, _rope(half=True, mixed=False)),
    "rope_pair_mixed": Entry(ROPE, (ComplexDiagonal(4, "half"),), _gl, _rope(half=True, mixed=True)),
    "value_bias_flat": Entry(
        ((4, 3), (3, 1), (4, 1)),
        (Translation(3),),
        lambda t, W, b, c: (W, b + t, c - W @ t),
        _value_bias,
    ),
}
