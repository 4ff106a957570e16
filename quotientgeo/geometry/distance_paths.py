"""Explicit paths between two pairs: their lengths are upper bounds of the quotient distance that need no iteration."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from quotientgeo.geometry.coordinates import split
from quotientgeo.geometry.gauge import Frames
from quotientgeo.geometry.pair import MetricName


class Turn(NamedTuple):
    """The turn of frames F_1 A by the angles theta (..., h), each in its own plane, to F_2 O A; F_1 goes to F_2 O."""

    A: Tensor
    angles: Tensor
    O: Tensor  # noqa: E741

    @classmethod
    def between(cls, F_1: Tensor, F_2: Tensor) -> Turn:
        """The Grassmann geodesic: with the SVD F_1'F_2 = A cos(theta) B', O = B A'."""
        A, _, Bt = torch.linalg.svd(F_1.mT @ F_2)
        return cls(A, principal_angles(F_1, F_2), Bt.mT @ A.mT)

    def longer(self, which: Tensor) -> Turn:
        """Where ``which`` (...) says so, the plane of the largest angle turned the other way, by pi - theta: O is reflected.

        It needs a direction normal to F_1.
        """
        last = self.A[..., -1]
        O = self.O - 2.0 * (self.O @ last[..., None]) * last[..., None, :]  # noqa: E741
        angles = torch.cat([self.angles[..., :-1], math.pi - self.angles[..., -1:]], -1)
        return Turn(self.A, torch.where(which[..., None], angles, self.angles), _where(which, O, self.O))

    def reflected(self) -> Tensor:
        """Whether det O < 0, (...)."""
        return torch.linalg.det(self.O) < 0

    def flipped(self, which: Tensor) -> Turn:
        """The same turn where ``which`` says that the last column of F_2 has changed its sign."""
        return self._replace(O=_where(which, torch.cat([self.O[..., :-1, :], -self.O[..., -1:, :]], -2), self.O))


def _where(which: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.where(which[..., None, None], first, second)


def principal_angles(F_1: Tensor, F_2: Tensor) -> Tensor:
    """Angles (..., h), ascending, between the spans of orthonormal columns (..., n, h): accurate near 0 and near pi/2."""
    core, normal = split(F_1, F_2)
    return torch.atan2(torch.linalg.svdvals(normal).flip(-1), torch.linalg.svdvals(core))


def rotation_length(O: Tensor) -> Tensor:  # noqa: E741
    """|log O|_F (...) of rotations O (..., h, h), det O = 1: eigenvalues -1 come in pairs, a turn by pi."""
    return torch.linalg.vector_norm(torch.linalg.eigvals(O).angle(), dim=-1)


def connected_turns(first: Frames, second: Frames) -> tuple[Turn, Turn, Tensor]:
    """(turn of G, turn of H, apart (...)): both O rotations, wherever there is a path between the pairs at all.

    Signs of frame columns are joint, so a reflection can be handed from one side to the other; a single one is undone on a
    side with a spare dimension. Without one (n = m = h) pairs with det(G H') of opposite signs are apart.
    """
    n, m, h = first.sizes
    G, H = Turn.between(first.F_G, second.F_G), Turn.between(first.F_H, second.F_H)
    in_G, in_H = G.reflected(), H.reflected()
    single = in_G != in_H
    wrong_side = in_H if n > h else in_G  # the reflection is left on, or handed to, the side that can undo it
    G, H = G.flipped(wrong_side), H.flipped(wrong_side)
    if n > h:
        return G.longer(single), H, torch.zeros_like(single)
    if m > h:
        return G, H.longer(single), torch.zeros_like(single)
    return G, H, single


def path_length(first: Frames, second: Frames, metric: MetricName) -> Tensor:
    """Length (...) of an explicit path between the pairs: an upper bound of the distance, finite wherever there is a path.

    Column spaces turn by their principal angles, F_1 to F_2 O with rotations O (``connected_turns``). Then:

    * invariant: at the same time frames turn by exp(t log O) inside, and s goes from s_1 to s_2 geometrically, at right angles
      in the metric: length^2 = |theta_G|^2 + |theta_H|^2 + |log O_G|^2 + |log O_H|^2 + 1/2 |log s_1 - log s_2|^2.
    * mixed, the shorter of: W shrinks straight to nearly 0, turns there at next to no cost and grows straight again,
      (|W_1|_F + |W_2|_F) / sqrt(2); and, with a spare dimension to pass a zero of s_h, column spaces turn at fixed s, of length
      (|theta_G * A_G' S|^2 + |theta_H * A_H' S|^2)^1/2, and W goes straight inside them, |O_G S_1 O_H' - S_2|_F / sqrt(2);
      or the other way round. Both are limits of lengths of paths.

    Infinite where n = m = h and the pairs lie in different components.
    """
    G, H, apart = connected_turns(first, second)
    if metric == "invariant":
        squares = 0.5 * (first.s.log() - second.s.log()).square().sum(-1) + rotation_length(G.O).square()
        squares = squares + rotation_length(H.O).square() + G.angles.square().sum(-1) + H.angles.square().sum(-1)
        length = squares.sqrt()
    else:
        past_zero = torch.linalg.vector_norm(first.s, dim=-1) + torch.linalg.vector_norm(second.s, dim=-1)
        length = past_zero / math.sqrt(2.0)
        n, m, h = first.sizes
        if n > h or m > h:
            turned = torch.minimum(_turn_then_straight(first, second), _turn_then_straight(second, first))
            length = torch.minimum(length, turned)
    return torch.where(apart, math.inf, length)


def _turn_then_straight(first: Frames, second: Frames) -> Tensor:
    G, H = Turn.between(first.F_G, second.F_G), Turn.between(first.F_H, second.F_H)
    turning = torch.hypot(
        *(torch.linalg.matrix_norm(turn.angles[..., None] * turn.A.mT * first.s[..., None, :]) for turn in (G, H))
    )
    straight = (G.O * first.s[..., None, :]) @ H.O.mT - torch.diag_embed(second.s)
    return turning + torch.linalg.matrix_norm(straight) / math.sqrt(2.0)
