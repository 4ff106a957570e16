"""What a derivation gives: the formulas of a geometry, with the certificate that says how far each can be trusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import sympy as sp

from quotientgeo.parameters import AtParameters
from quotientgeo.symbolic.algebra import Alphabet, Dimension, Shape, vanishes
from quotientgeo.symbolic.declaration import Metric, Names, Symmetry
from quotientgeo.symbolic.derivation.certificate import Certificate
from quotientgeo.symbolic.derivation.formula import Formula, MatrixFormula, ScalarFormula

if TYPE_CHECKING:
    from quotientgeo.symbolic.derivation.degrees import Degrees
    from quotientgeo.symbolic.derivation.levels.bounds import Needs


@dataclass(frozen=True)
class Equations:
    """What stands in place of closed forms where no product from one side solves M(x) = y; keyed by factor.

    M lowers a tangent: <xi, eta> = sum over factors of tr(M(xi)' eta).
    """

    lowered: Mapping[str, MatrixFormula]  # M(xi), in factors and xi
    forces: Mapping[int, Mapping[str, MatrixFormula]]  # order k -> M(x_k), in factors, xi and x_2, ..., x_(k-1)
    christoffel: Mapping[str, MatrixFormula]  # M(Gamma(xi, eta)), in factors, xi and eta


@dataclass(frozen=True, repr=False)
class Geometry:
    """A symmetry with an invariant metric, and everything derived from the two.

    All polynomials are in ``alphabet``. Letters (``names``): factors F, tangents xi_F and eta_F, Euclidean gradients dF,
    group elements and Lie algebra elements. Mappings are keyed by factor; ``momentum``, ``vertical_gram`` and ``projector``
    by Lie algebra letter.

    With ``equations`` the geometry is *implicit*: gradient, acceleration, Christoffel form and time derivatives are solutions
    of linear equations, and the mappings for their closed forms are empty. Where formulas of time derivatives contain further
    letters (``rates``: order k -> factor -> letter of x_k), they are *staged*: x_2 is computed first, then x_3 from it, ...
    """

    symmetry: Symmetry
    metric: Metric
    alphabet: Alphabet
    side: str  # "left": acting with B, then A, is acting with A B; "right": with B A
    action: Mapping[str, MatrixFormula]  # in elements and factors, as declared
    preserved: tuple[Formula, ...]  # in factors, as declared
    inner: ScalarFormula  # in factors, xi and eta, as declared
    vertical: Mapping[str, MatrixFormula]  # in factors and Lie algebra letters
    momentum: Mapping[str, MatrixFormula]  # in factors and xi; all zero exactly for horizontal xi
    gradient: Mapping[str, MatrixFormula]  # in factors and dF
    acceleration: Mapping[str, MatrixFormula]  # in factors and xi
    derivatives: Mapping[int, Mapping[str, MatrixFormula]]  # order 2..4 -> factor -> formula in factors, xi (and rates)
    christoffel: Mapping[str, MatrixFormula] = field(default_factory=dict)  # Gamma(xi, eta) in factors, xi and eta
    vertical_gram: Mapping[str, MatrixFormula] = field(default_factory=dict)  # J(V_X) in factors and X
    projector: Mapping[str, MatrixFormula] | None = None  # X in factors and xi; None: solved at run time
    horizontal: Mapping[str, MatrixFormula] | None = (
        None  # xi - V_X in factors and xi, where the projector is a formula
    )
    certificate: Certificate = field(default_factory=Certificate)
    equations: Equations | None = None
    rates: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{factor} ({rows}, {columns})" for factor, (rows, columns) in self.factors.items())
        return f"Geometry({self.name}: {shapes}; {self.certificate.summary})"

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

    @cached_property
    def needs(self) -> Needs:
        """Inequalities between sizes without which inverses do not exist, or points at which proofs hold."""
        from quotientgeo.symbolic.derivation.levels.bounds import needs_of

        return needs_of(self)

    @cached_property
    def assigned(self) -> dict[tuple[Any, ...], dict[Dimension, int]]:
        """Numbers for the sizes that levels have asked for, as ``levels.points.assign_sizes`` chose them."""
        return {}

    @cached_property
    def affine_action(self) -> bool:
        """Whether every group element moves points by an affine map: Taylor polynomials of curves move with the curves."""
        xi, eta = (
            {f: self.alphabet[rename(f)] for f in self.factors}
            for rename in (self.names.tangent, self.names.second_tangent)
        )
        moved = (formula.polynomial.differential(xi).differential(eta) for formula in self.action.values())
        return all(vanishes(second) for second in moved)

    @property
    def vertical_name(self) -> str:
        """What vertical vectors are called in texts: V, or nu, ... where a letter has that name."""
        return next(name for name in ("V", "nu", "upsilon", "vertical") if name not in self.alphabet)

    def in_words(self, text: str) -> str:
        """A text about vertical vectors V_X in the name that they have here."""
        return re.sub(r"\bV_(?=[XY]\b)", f"{self.vertical_name}_", text)

    @property
    def staged(self) -> Mapping[int, Mapping[str, MatrixFormula]]:
        """Order k -> what gives its time derivative: the formula of x_k, or that of M(x_k) where the geometry is implicit."""
        return self.derivatives if self.equations is None else self.equations.forces

    def kind(self, name: str) -> str:
        """Kind of a letter (general, invertible, ...)."""
        return self.alphabet.kind(name).value

    def module(self) -> ModuleType:
        """The generated code as a Python module, the same one at every call; see ``quotientgeo.generate`` for what it defines.

        Raises:
            CertificateError: a claim about the geometry does not hold (with its witness).
        """
        return self._module

    @cached_property
    def _module(self) -> ModuleType:
        from quotientgeo.symbolic.files import loaded

        return loaded(self)

    def at(self, **parameters: float) -> AtParameters:
        """The geometry at values of its metric's parameters, for all that runs it: ``geometry.at(eps=0.1)``.

        Raises:
            ArgumentError: a value is missing, unknown, or no positive number.
            CertificateError: a claim about the geometry does not hold (with its witness).
        """
        return AtParameters(self, parameters)

    def dimension(self, sizes: Mapping[str, int] | None = None) -> Degrees:
        """Degrees of freedom: (total, orbit, quotient), the entries of the factors, those of an orbit, and the difference.

        Args:
            sizes: a positive integer for every symbolic size, such as {"n": 768, "m": 768, "h": 64}; without them the
                dimensions are SymPy expressions in the sizes, for points of full rank.

        Raises:
            ArgumentError: a size is missing, unknown or no positive integer, or the orbit's dimension is not known at sizes
                where it would have to be computed from a matrix that is too large.
        """
        from quotientgeo.symbolic.derivation.degrees import degrees

        return degrees(self, sizes)

    def coordinates(self, **sizes: int) -> tuple[sp.Symbol, ...]:
        """The symbols of ``christoffel_symbols``: the entries of all factors in order, row by row; G_0_1 is G[0, 1]."""
        from quotientgeo.symbolic.derivation import coordinates

        return coordinates.coordinates(self, sizes)

    def metric_matrix(self, **sizes: int) -> sp.ImmutableDenseMatrix:
        """g_ij = <e_i, e_j> in the coordinates of ``christoffel_symbols``, for ``metric_matrix(n=2, m=2, h=1)``."""
        from quotientgeo.symbolic.derivation import coordinates

        return coordinates.metric_matrix(self, sizes)

    def christoffel_symbols(self, **sizes: int) -> sp.ImmutableDenseNDimArray:
        """Gamma[k, i, j] = 1/2 g^kl (d_i g_jl + d_j g_il - d_l g_ij), as in ``christoffel_symbols(n=2, m=2, h=1)``.

        Computed from the declared metric entry by entry, apart from every other formula of this class, and in lowest terms. The
        indices run over ``coordinates(n=2, m=2, h=1)``, and the geodesic equation is x_k'' = -Gamma[k, i, j] x_i' x_j'.

        Raises:
            ArgumentError: a size is missing, unknown or no positive integer; the factors have more entries than is practical;
                or the metric is singular at these sizes.
        """
        from quotientgeo.symbolic.derivation import coordinates

        return coordinates.christoffel_symbols(self, sizes)
