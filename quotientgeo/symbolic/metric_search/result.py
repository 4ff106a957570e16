"""What a search found: invariant terms, what is known of each, and metrics made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import sympy as sp

from quotientgeo.errors import ArgumentError, NotDerivableError
from quotientgeo.symbolic.declaration import Metric, Symmetry
from quotientgeo.symbolic.metric_search.ansatz import Words
from quotientgeo.symbolic.metric_search.definiteness import Inner, Sign


@dataclass(frozen=True)
class MetricTerm:
    """An invariant symmetric bilinear form in the tangents of one factor, or of several.

    ``expression`` is in SymPy, in the letters F, xi_F and eta_F of the symmetry; ``sign.definiteness`` is one of "positive
    definite: proven" (``sign.reason`` is the sum of squares), "positive definite: tested", "positive semi-definite: proven", "not
    positive definite" (``sign.witness`` is an exact point and tangent) and "couples factors".
    """

    label: str
    factors: tuple[str, ...]
    text: str
    expression: sp.Expr = field(repr=False)
    sign: Sign = field(repr=False)

    @property
    def definite(self) -> bool:
        """Whether it is positive definite in its factor, proven or tested."""
        return self.sign.definiteness.definite

    def __str__(self) -> str:
        return f"{self.label}: {self.text} ({self.sign.definiteness})"


@dataclass(frozen=True)
class MetricSearch:
    """The invariant terms inside an ansatz. Iterating yields them; ``str()`` is the report.

    ``candidates`` is the number of forms that were looked through; ``scope`` says what they were and how far the search is
    complete.
    """

    symmetry: Symmetry = field(repr=False)
    ansatz: Words
    candidates: int
    terms: tuple[MetricTerm, ...]
    scope: str

    def __iter__(self) -> Iterator[MetricTerm]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __getitem__(self, label: str) -> MetricTerm:
        for term in self.terms:
            if term.label == label:
                return term
        raise ArgumentError(f"no term {label!r}; found: {', '.join(term.label for term in self.terms) or 'none'}")

    def of(self, *factors: str) -> tuple[MetricTerm, ...]:
        """The terms in the tangents of exactly these factors.

        Raises:
            ArgumentError: the symmetry has no such factor.
        """
        unknown = [factor for factor in factors if factor not in self.symmetry.factors]
        if unknown or not factors:
            raise ArgumentError(f"of({', '.join(factors)}): give factors of {', '.join(self.symmetry.factors)}")
        return tuple(term for term in self.terms if set(term.factors) == set(factors))

    def metric(self, name: str, weights: Mapping[str, Any]) -> Metric:
        """The sum of weight times term as a Metric.

        Args:
            name: an identifier.
            weights: label -> rational number, such as {"G1": 1, "H2": Rational(1, 2)}. Weights of terms in one factor must be
                positive. Where terms that are not positive definite take part it is the certificate of ``derive`` that says
                whether the sum is.

        Raises:
            ArgumentError: an unknown label, a weight that is not rational or not positive, or a factor without a term.
        """
        if not isinstance(weights, Mapping) or not weights:
            raise ArgumentError(
                f'metric {name!r}: weights must be a dict such as {{"G1": 1, "H1": 2}}, got {weights!r}'
            )
        parts = []
        for label, weight in weights.items():
            term = self[label]
            number = _rational(name, label, weight)
            if number == 0 or (number < 0 and len(term.factors) == 1):
                raise ArgumentError(f"metric {name!r}: the weight of {term} must be positive, got {weight}")
            parts.append(number * term.expression)
        covered = {self[label].factors[0] for label in weights if len(self[label].factors) == 1}
        missing = [factor for factor in self.symmetry.factors if factor not in covered]
        if missing:
            raise ArgumentError(
                f"metric {name!r}: no term for {', '.join(missing)}, so it would be degenerate; "
                f"found: {', '.join(term.label for f in missing for term in self.of(f)) or 'none'}"
            )
        return Metric(name, self.symmetry, Inner(self.symmetry, sp.Add(*parts)))

    def metrics(self) -> Iterator[Metric]:
        """One Metric for each choice of one positive definite term per factor, short words first, each made as it is asked for.

        A metric is called after its terms: G1_H2. Where the action is affine, as on w in A (1 + w) - 1, a term that is definite
        only where no entry of 1 + w is zero is taken together with one that divides by them, so that the metric says so.

        Raises:
            NotDerivableError: a factor has no positive definite invariant term in the ansatz.
        """
        choices = []
        for factor in self.symmetry.factors:
            definite = [term.label for term in self.of(factor) if term.definite]
            if not definite:
                others = "; ".join(map(str, self.of(factor))) or "none is invariant"
                raise NotDerivableError(
                    f"{self.symmetry.name}: no positive definite invariant term for {factor} ({others}). {self.scope} "
                    "Widen the ansatz, or write the metric by hand: derive refutes or proves its invariance"
                )
            choices.append(definite)
        chosen = sorted(product(*(range(len(labels)) for labels in choices)), key=lambda places: (sum(places), places))
        combined = ([labels[i] for labels, i in zip(choices, at, strict=True)] for at in chosen)
        return (self._one_each(labels) for labels in combined if self._agree(labels))

    def _agree(self, labels: list[str]) -> bool:
        """Whether what one term needs to be other than zero is so, since it or another divides by it."""
        signs = [self[label].sign for label in labels]
        return frozenset().union(*(s.needs for s in signs)) <= frozenset().union(*(s.excludes for s in signs))

    def _one_each(self, labels: list[str]) -> Metric:
        return self.metric("_".join(labels), dict.fromkeys(labels, 1))

    def __str__(self) -> str:
        return "\n".join([self.scope, *(f"  {term}" for term in self.terms)])


def _rational(name: str, label: str, weight: Any) -> sp.Rational:
    try:
        value = sp.sympify(weight)
    except (sp.SympifyError, TypeError) as error:
        raise ArgumentError(f"metric {name!r}: the weight of {label} is no number: {weight!r}") from error
    if isinstance(weight, bool) or not isinstance(value, sp.Rational):
        raise ArgumentError(
            f"metric {name!r}: the weight of {label} must be an integer or sympy.Rational, got {weight!r}"
        )
    return value
