"""derivations/analytic_examples.md: prose from a template, formulas and claims from what SymPy derived."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import sympy as sp

from quotientgeo.symbolic.examples.claims import Claim
from quotientgeo.symbolic.examples.diagonal_claims import diagonal_claims
from quotientgeo.symbolic.examples.diagonal_network import DiagonalMeasure
from quotientgeo.symbolic.examples.rescaling import RescalingPair, T, general_invariant_geodesic
from quotientgeo.symbolic.examples.scalar_toy import ScalarToy, euclidean_claims
from quotientgeo.symbolic.examples.spelling import spelled

PAGE = Path("derivations", "analytic_examples.md")
_METRICS = ("invariant", "mixed")


@cache
def analytic_page() -> str:
    """The page as GitHub-flavoured Markdown; the same text on every machine.

    Raises:
        CertificateError: a statement on it does not hold.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    toys = {metric: ScalarToy(metric) for metric in _METRICS}
    return environment.get_template("analytic_examples.md.j2").render(
        table=_table,
        vertical=[spelled(entry) for entry in RescalingPair("invariant").vertical],
        pairs={metric: _pair(RescalingPair(metric)) for metric in _METRICS},
        general=general_invariant_geodesic()[-1].statement,
        loss=spelled(toys["invariant"].loss),
        toys={**{metric: toy.claims for metric, toy in toys.items()}, "euclidean": euclidean_claims()},
        expansions=[_expansion(name) for name in ("invariant", "adaptive", "mixed")],
        diagonal=diagonal_claims(),
    )


def _pair(pair: RescalingPair) -> dict[str, Any]:
    """LaTeX of everything derived about one pair of numbers."""
    xi, eta = (sp.symbols(f"{name}_u {name}_v", real=True) for name in ("xi", "eta"))
    phi = sp.Function("varphi")(T)
    equation = pair.coordinates.geodesic_equation([entry * phi for entry in pair.point], T)[0] / pair.point[0]
    written = sp.simplify(equation).subs({phi.diff(T, 2): sp.Symbol(r"\varphi''"), phi.diff(T): sp.Symbol(r"\varphi'")})
    return {
        "inner": spelled(sp.expand(pair.coordinates.inner(xi, eta))),
        "equation": spelled(sp.expand(written).subs(phi, sp.Symbol("varphi"))),
        "profile": spelled(pair.profile),
        "product": spelled(sp.simplify(sp.prod(entry.subs(T, 1) for entry in pair.geodesic))),
        "norm": spelled(pair.squared_norm),
        "largest": spelled(pair.largest_b),
        "radius": spelled(pair.radius),
        "claims": pair.claims,
    }


def _expansion(name: str) -> dict[str, str]:
    """One row: what one coordinate adds for orthonormal inputs."""
    measure = DiagonalMeasure(name)
    found = measure.second_order.on_beta().orthonormal()
    other = dict.fromkeys((z for z in measure.coordinates if str(z).endswith("_j")), 0)
    terms = [
        sp.factor(found.form.subs(other).expand().coeff(z, power)) * z**power
        for power in (1, 2)
        for z in measure.coordinates
        if z not in other
    ]
    return {
        "name": name,
        "norm": spelled(measure.squared_norm.subs(other)),
        "form": " + ".join(spelled(term) for term in terms if term != 0).replace("+ - ", "- "),
    }


def _table(claims: Iterable[Claim], title: str) -> str:
    rows = [f"| {title} | | |", "|---|---|---|"]
    for claim in claims:
        rows.append(f"| {claim.name} | {_without_bars(claim.statement)} | {_verdict(claim)} |")
    return "\n".join(rows)


def _without_bars(statement: str) -> str:
    """A bar in a table of Markdown ends the column, even inside a formula."""
    return re.sub(r"\|([^|]*)\|", r"\\lvert \1 \\rvert", statement)


def _verdict(claim: Claim) -> str:
    if claim.proven:
        return "proven"
    at = ", ".join(f"{spelled(symbol)} = {spelled(value)}" for symbol, value in sorted(claim.witness.items(), key=str))
    return f"**false**: moving by $a$ changes it by ${spelled(claim.value)}$ at ${at}$"
