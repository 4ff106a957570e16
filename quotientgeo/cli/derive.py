"""``quotientgeo derive``: from a user's declaration to code, certificate and derivation."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quotientgeo.cli.options import Json
from quotientgeo.errors import ArgumentError, CertificateError, DeclarationError, QuotientgeoError
from quotientgeo.symbolic.declaration_file import DEFINES, read_declaration

if TYPE_CHECKING:
    from quotientgeo.symbolic.declaration import Metric, Symmetry
    from quotientgeo.symbolic.derivation import Geometry
    from quotientgeo.tasks import PythonFile

STALE = 1  # exit code of --check where a file is not what it should be

Declaration = Annotated[Path, typer.Argument(metavar="FILE.py", help=f"Defines {DEFINES}.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Each geometry becomes a folder DIR/NAME.")]
Check = Annotated[bool, typer.Option("--check", help="Write nothing; compare what is there, byte for byte.")]
Tex = Annotated[bool, typer.Option("--tex", help="Write derivation.tex too, for the appendix of a paper.")]


def derive(
    declaration: Declaration, out: Out = Path(), check: Check = False, tex: Tex = False, json: Json = False
) -> None:
    """Derive the geometry of each metric in FILE.py, and write generated.py, certificate.json and derivation.md.

    Where SymPy finds its geodesics in closed form and proves them, closed_form.py too.

    Exit code 0: every claim holds and the files are there. 1: with --check, a file is missing or differs. 2: an error, such as
    a claim that is false, with a point at which it fails; nothing is written.
    """
    from quotientgeo.cli.display import working
    from quotientgeo.symbolic.files import made_from
    from quotientgeo.tasks import run_file

    file = run_file(declaration, "declaration file", DEFINES, error=DeclarationError)
    symmetry, metrics = read_declaration(declaration, file.module)
    geometries = []
    for metric in metrics:
        with working(f"deriving {symmetry.name}_{metric.name}"):
            geometries.append(_derived(file, symmetry, metric))
    records: list[dict[str, Any]] = []
    made: dict[Path, dict[Path, bytes]] = {}  # everything before anything is written: an error leaves no half of it
    for geometry in geometries:
        folder = out / geometry.name
        with working(f"{'checking' if check else 'making'} {folder}"):
            files = made_from(geometry, tex=tex)
        texts = {folder / name: text.encode() for name, text in files.items()}
        records.append(_record(geometry.name, files["certificate.json"], texts))
        made[folder] = {path: data for path, data in texts.items() if not _holds(path, data)}
    stale = [path for different in made.values() for path in different] if check else []
    for folder, different in () if check else made.items():
        _write(folder, different)
    _show(records, out, json)
    for path in stale:
        what = "differs from what its declaration gives" if path.exists() else "is missing"
        typer.echo(f"{path} {what}: run the command without --check", err=True)
    if stale:
        raise typer.Exit(STALE)


def _derived(file: PythonFile, symmetry: Symmetry, metric: Metric) -> Geometry:
    """The geometry, all of whose claims hold; what the user's own formulas raise is told with its line."""
    import quotientgeo
    from quotientgeo.tasks import describe, lines_in

    try:
        geometry = quotientgeo.derive(symmetry, metric)
    except QuotientgeoError:
        raise
    except Exception as error:
        if not lines_in(error, file.path):
            raise
        raise DeclarationError(f"{file.path}: metric {metric.name!r}: {describe(error, file.path)}") from error
    broken = [claim for claim in geometry.certificate if not claim.holds]
    if broken:
        first = broken[0]
        witness = f"; {first.witness}" if first.witness else ""
        advice = f"; what to do: {first.advice}" if first.advice else ""
        more = f"; and also {', '.join(claim.name for claim in broken[1:])}" if broken[1:] else ""
        raise CertificateError(
            f"{geometry.name}: {len(broken)} of {len(list(geometry.certificate))} claims do not hold: {first.name} "
            f"({first.statement}) is {first.status}{witness}{advice}{more}"
        )
    return geometry


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _write(folder: Path, made: dict[Path, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in made.items():
            path.write_bytes(data)
    except OSError as error:
        raise ArgumentError(f"{folder} cannot be written: {error.strerror}") from error


def _record(name: str, certificate: str, files: Iterable[Path]) -> dict[str, Any]:
    """What the certificate of one geometry says, and where its files are."""
    found = jsonlib.loads(certificate)
    claims = {claim["name"]: claim["status"] for claim in found["claims"]}
    return {"name": name, "holds": found["holds"], "claims": claims, "files": list(map(str, files))}


def _show(records: list[dict[str, Any]], out: Path, json: bool) -> None:
    """What was proven and tested, and where the files are."""
    from rich.table import Table

    from quotientgeo.cli.display import output

    if json:
        for record in records:
            typer.echo(jsonlib.dumps(record, sort_keys=True))
        return
    table = Table()
    for heading in (
        "geometry",
        "claims",
        "proven for all sizes",
        "proven for some sizes",
        "tested",
        "closed form",
        "files",
    ):
        table.add_column(heading, overflow="fold", no_wrap=heading == "geometry")
    for record in records:
        statuses = list(record["claims"].values())
        everywhere = sum(status == "proven for all sizes" for status in statuses)
        somewhere = sum(status.startswith("proven") for status in statuses) - everywhere
        counts = (len(statuses), everywhere, somewhere, sum(status == "tested" for status in statuses))
        closed = "yes" if "closed_form" in record["claims"] else "none found"
        table.add_row(record["name"], *map(str, counts), closed, str(out / record["name"]))
    output().print(table)
