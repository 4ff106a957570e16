"""What a derivation gives: the formulas of a geometry, with the certificate that says how far each can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quotientgeo.symbolic.algebra import Alphabet, Dimension, Shape
from quotientgeo.symbolic.declaration import Metric, Names, Symmetry
from quotientgeo.symbolic.derivation.certificate import Certificate
from quotientgeo.symbolic.derivation.formula import Formula, MatrixFormula, ScalarFormula


@dataclass(frozen=True)
class Geometry:
    """A symmetry with an invariant metric, and everything derived from the two.

    All polynomials are in ``alphabet``. Letters (``names``): factors F, tangents xi_F and eta_F, Euclidean gradients dF,
    group elements and Lie algebra elements. Mappings are keyed by factor, ``momentum`` by Lie algebra letter.
    """

    symmetry: Symmetry
    metric: Metric
    alphabet: Alphabet = field(repr=False)
    side: str  # "left": acting with B, then A, is acting with A B; "right": with B A
    action: Mapping[str, MatrixFormula]  # in elements and factors, as declared
    preserved: tuple[Formula, ...]  # in factors, as declared
    inner: ScalarFormula  # in factors, xi and eta, as declared
    vertical: Mapping[str, MatrixFormula]  # in factors and Lie algebra letters
    momentum: Mapping[str, MatrixFormula]  # in factors and xi; all zero exactly for horizontal xi
    gradient: Mapping[str, MatrixFormula]  # in factors and dF
    acceleration: Mapping[str, MatrixFormula]  # in factors and xi
    derivatives: Mapping[int, Mapping[str, MatrixFormula]]  # order 2..4 -> factor -> formula in factors and xi
    certificate: Certificate = field(default_factory=Certificate)

    @property
    def name(self) -> str:
        """Symmetry and metric, joined: the name of the catalogue folder."""
        return f"{self.symmetry.name}_{self.metric.name}"

    @property
    def names(self) -> Names:
        """The letters of the problem."""
        return self.symmetry.names

    @property
    def factors(self) -> Mapping[str, Shape]:
        """Factor -> (rows, columns), as declared."""
        return self.symmetry.factors

    @property
    def sizes(self) -> tuple[Dimension, ...]:
        """Distinct sizes: those of the factors' own axes, then those of the groups."""
        return self.symmetry.sizes

    def kind(self, name: str) -> str:
        """Kind of a letter (general, invertible, ...)."""
        return self.alphabet.kind(name).value
