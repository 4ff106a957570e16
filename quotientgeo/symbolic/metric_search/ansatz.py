"""The ansatz: which bilinear forms a search looks through. What is not in it is not claimed about."""

from __future__ import annotations

from dataclasses import dataclass

from quotientgeo.errors import ArgumentError


@dataclass(frozen=True)
class Words:
    """Traces of words with the tangent of a factor twice, or of two factors once each.

    A *letter* is the Gram F'F or F F' of a factor on a side where the group acts, its inverse where its size shows that it may
    have one, or a factor (or its transpose) that leads from one side with a group to another, such as W in G W R. Where a
    diagonal or complex diagonal group acts, letters commute: diag(u), and the projections E(F'F) of Grams on that algebra. Where
    a scaling acts, |F|^2 = tr(F'F) is a number that may stand before everything. A factor with an affine action, such as
    A (1 + w) - 1, stands in letters as what is moved linearly, 1 + w.

    Args:
        length: tr(L xi_F' K eta_F) with words K and L on the sides of F where a group acts (a side without one has the identity;
            a factor that no group multiplies has K in its own F'F). At most ``length`` letters in K and L together.
        powers: exponents of commuting letters and of numbers run from -powers to powers; they count in no length.
        two_sided: also forms of one factor with both sides weighted. With words K, L of at most this many letters each and
            X_F = F' xi_F, Y_F = F' eta_F (where the group acts on the left xi_F F'; between two groups xi_F itself):
            tr(K xi_F' (F L F') eta_F), tr(X_F K Y_F L) and tr(X_F K) tr(Y_F L). Commuting letters: exponents up to this number.
        cross: the same for two different factors: tr(X_F K Y_H L), tr(X_F K Y_H' L) and tr(X_F K) tr(Y_H L).

    Every form is made symmetric in xi and eta; forms that are the same for all sizes count once.

    Raises:
        ArgumentError: a number is negative or no integer.
    """

    length: int = 3
    powers: int = 2
    two_sided: int | None = None
    cross: int | None = None

    def __post_init__(self) -> None:
        for name in ("length", "powers", "two_sided", "cross"):
            value = getattr(self, name)
            optional = name in ("two_sided", "cross")
            if value is None and optional:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                none = ", or None" if optional else ""
                raise ArgumentError(f"Words({name}={value!r}): {name} must be an integer >= 0{none}")
