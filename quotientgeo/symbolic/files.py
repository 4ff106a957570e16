"""The files made from a geometry, and the public way to write them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

from quotientgeo.errors import ArgumentError, CertificateError
from quotientgeo.symbolic import closed_form as closed
from quotientgeo.symbolic.codegen.execution import check_gradient, check_horizontal, module_from
from quotientgeo.symbolic.codegen.exposition import derivation_page, tex_document
from quotientgeo.symbolic.codegen.module import HELPERS, declaration_digest, module_source
from quotientgeo.symbolic.codegen.proof import check_functions, check_source
from quotientgeo.symbolic.codegen.solving import solving_functions
from quotientgeo.symbolic.codegen.staged_proof import check_staged
from quotientgeo.symbolic.derivation import Geometry

_METHOD = "the source is run on symbols; each function returns the normal form of its formula"
FILES = ("generated.py", "certificate.json", "derivation.md")
TEX = "derivation.tex"


def generate(
    geometry: Geometry, path: str | Path, *, sizes: Mapping[str, int] | None = None, closed_form: bool = True
) -> Path:
    """Write the batched torch source of ``geometry`` to ``path`` and return the path.

    The module imports torch only. All its functions are batched over leading dimensions and take factors (G, H, ... by their
    declared names) as (..., rows, columns), group and Lie algebra elements before or after them, and the metric's parameters,
    if it has some, last, as (..., 1, 1):

        action(A, G, H)                               the moved factors
        inner(G, H, xi_G, xi_H, eta_G, eta_H)         the metric
        gradient(G, H, dG, dH)                        Riemannian gradient from the Euclidean one
        vertical(G, H, X), momentum(G, H, xi_G, xi_H) velocity of the orbit; zero exactly for horizontal tangents
        horizontal(G, H, xi_G, xi_H)                  the horizontal part of a tangent
        acceleration(G, H, xi_G, xi_H)                of the geodesic
        christoffel(G, H, xi_G, xi_H, eta_G, eta_H)   Gamma(xi, eta); acceleration = -Gamma(xi, xi)
        taylor_1, ..., taylor_4 (G, H, xi_G, xi_H)    end point at t = 1 of the geodesic's Taylor polynomial

    and the constants ``NAME``, ``FACTORS`` and, where the metric has parameters, ``PARAMETERS``. Where nothing solves for the
    gradient in closed form there is ``lowered`` as well, with <xi, eta> = sum of tr(lowered(xi)' eta). Before anything is
    written, the source is run on symbols: each function returns the normal form of its formula, up to the linear equations
    that are solved at run time, which are tested on numbers.

    Args:
        geometry: what ``derive`` gave.
        path: the .py file to write; any other path is a folder for generated.py, certificate.json (every claim, with the
            digest of the source) and derivation.md (the derivation for a reader). The same declaration gives the same bytes.
        sizes: typical values of the symbolic sizes, such as {"n": 768, "m": 768, "h": 64}; they decide in which order
            products are evaluated, never what is computed.
        closed_form: look for a closed form of the geodesics too: into a folder, closed_form.py where one is proven.

    Raises:
        ArgumentError: the path cannot be written, sizes are not positive integers of the geometry's own sizes, or closed_form
            is no bool.
        CertificateError: a claim about the geometry does not hold (with its witness), or the printed closed form, although
            proven, is not where an integral of the geodesic equation leads; nothing is written.
    """
    if not isinstance(geometry, Geometry):
        raise ArgumentError(f"generate takes what derive gave, got a {type(geometry).__name__}")
    if not isinstance(closed_form, bool):
        raise ArgumentError(f"closed_form must be True or False, got {closed_form!r:.80}")
    target = _writable(path)
    _require_sizes(geometry, sizes)
    if target.suffix == ".py":
        made = {target: _checked_source(geometry, _origin(geometry), sizes)[0]}
    else:
        made = {target / name: text for name, text in made_from(geometry, sizes=sizes, closed_form=closed_form).items()}
    try:
        for path, text in made.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
    except OSError as error:
        raise ArgumentError(f"{target} cannot be written: {error.strerror or error}") from error
    return target


def made_from(
    geometry: Geometry,
    origin: str | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    links: bool = False,
    tex: bool = False,
    closed_form: bool = True,
) -> dict[str, str]:
    """{name: text} of FILES: code, certificate and derivation. The code is run on symbols first.

    Where the geodesics have a closed form that is found and proven, its code is a fourth file, closed_form.py, and the proof a
    claim of the certificate.

    ``origin`` says in the files what made them (``generate`` unless told); ``links``: the page links to files of the catalogue;
    ``tex``: the derivation as a LaTeX document too; ``closed_form``: look for one.

    Raises:
        CertificateError: a claim about the geometry does not hold, the code does not return its formulas, or the text of the
            closed form does not end where an integral does.
    """
    origin = origin or _origin(geometry)
    found, refusal = closed_form_of(geometry) if closed_form else (None, "")
    geometry = geometry if found is None else closed.with_claim(geometry, found)
    source, checked = _checked_source(geometry, origin, sizes)
    text, record = _closed_text(found, origin, source) if found is not None else ("", {"refused": refusal})
    certificate = certificate_json(geometry, source, checked, record if found is not None or refusal else None)
    texts = (source, certificate, derivation_page(geometry, origin, links))
    made = dict(zip(FILES, texts, strict=True)) | ({closed.FILE: text} if text else {})
    return made | {TEX: tex_document(made[FILES[2]])} if tex else made


def closed_form_of(geometry: Geometry) -> tuple[closed.ClosedForm | None, str]:
    """(closed form of the geodesics, why one that was found is refused): None and nothing where none is found."""
    try:
        return closed.closed_form(geometry, declaration_digest(geometry)), ""
    except CertificateError as error:
        return None, str(error)


def _closed_text(found: closed.ClosedForm, origin: str, generated: str) -> tuple[str, dict[str, Any]]:
    """The module of a closed form, run against the generated one, and what the certificate says of it."""
    name = found.geometry.name
    text = found.source(origin)
    closed.check_text(name, module_from(text, f"{name}_closed_form"), module_from(generated, name))
    return text, found.record(text, generated)


def _origin(geometry: Geometry) -> str:
    return f"quotientgeo.generate from the declaration of {geometry.name}"


def _checked_source(geometry: Geometry, origin: str, sizes: Mapping[str, int] | None) -> tuple[str, dict[str, str]]:
    """The code of a geometry whose certificate holds, and what running it on symbols said of each function."""
    geometry.certificate.require()
    source = module_source(geometry, origin, sizes)
    return source, check(source, geometry)


def check(source: str, geometry: Geometry) -> dict[str, str]:
    """What generated code is held to before it is used: {function: how it was checked}, or CertificateError."""
    for name, text in HELPERS.items():  # which the run on symbols does not enter, or not all of them
        if f"def {name}(" in source and f"{text}\n" not in source:
            raise CertificateError(
                f"{geometry.name}: the helper {name} of the generated code is not the one that is tested"
            )
    checked = check_source(source, geometry)
    parts = solving_functions(geometry)
    checked |= check_functions(source, geometry.alphabet, parts, geometry.name)  # proven, or refused
    checked |= check_staged(source, geometry)
    if geometry.horizontal is None:
        checked["horizontal"] = check_horizontal(source, geometry)
    if geometry.equations is not None:
        checked["gradient"] = f"{checked['gradient']}; {check_gradient(source, geometry)}"
    return checked


def loaded(geometry: Geometry) -> ModuleType:
    """The generated code of a geometry as a module; its certificate must hold, and the code return its formulas."""
    return module_from(_checked_source(geometry, _origin(geometry), None)[0], geometry.name)


def _writable(path: object) -> Path:
    """The path, before anything is computed: a .py file in a folder that exists, or a folder."""
    if not isinstance(path, (str, PathLike)):
        raise ArgumentError(f"path must be a .py file or a folder to write, got {path!r:.80}")
    target = Path(path)
    if target.suffix == ".py" and target.is_dir():
        raise ArgumentError(f"{target} is a folder: name a .py file in it, or a folder without .py")
    if target.suffix == ".py" and not target.parent.is_dir():
        raise ArgumentError(f"{target} cannot be written: {target.parent} is no folder")
    if target.suffix != ".py" and any(part.exists() and not part.is_dir() for part in (target, *target.parents)):
        raise ArgumentError(
            f"{target} cannot be made a folder: there is a file of this name; a module's name ends in .py"
        )
    return target


def _require_sizes(geometry: Geometry, sizes: object) -> None:
    known = {size for size in geometry.sizes if isinstance(size, str)}
    if sizes is None:
        return
    if not isinstance(sizes, Mapping) or any(type(n) is not int or n < 1 for n in sizes.values()) or set(sizes) - known:
        raise ArgumentError(f"sizes must be positive integers of {', '.join(sorted(known))}, got {sizes!r:.80}")


def certificate_json(
    geometry: Geometry, source: str, checked: Mapping[str, str], closed_record: Mapping[str, Any] | None = None
) -> str:
    """The certificate, with the digest of the source it covers and how that source was checked; the same of a closed form."""
    record = json.loads(geometry.certificate.to_json())
    solves = [("horizontal", geometry.horizontal is None), ("gradient", geometry.equations is not None)]
    solved = " and ".join(name for name, at_run_time in solves if at_run_time)
    many = "solve at run time and are" if " and " in solved else "solves at run time and is"
    record["generated"] = {
        "file": "generated.py",
        "sha256": hashlib.sha256(source.encode()).hexdigest(),
        "method": f"{_METHOD}; {solved} {many} tested" if solved else _METHOD,
        "functions": dict(checked),
    }
    if closed_record is not None:
        record["closed_form"] = dict(closed_record)
    return json.dumps(record, indent=1, ensure_ascii=True) + "\n"
