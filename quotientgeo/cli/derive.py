"""``quotientgeo derive``: from a user's declaration to code, certificate and derivation."""

from __future__ import annotations

import json as jsonlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quotientgeo.cli.options import Json
from quotientgeo.errors import CertificateError, DeclarationError, QuotientgeoError

if TYPE_CHECKING:
    from quotientgeo.tasks import PythonFile

STALE = 1  # exit code of --check where a file is not what it should be
FILES = ("generated.py", "certificate.json", "derivation.md")
DEFINES = "symmetry (a quotientgeo.Symmetry) and metric (a quotientgeo.Metric) or metrics (a list of them)"

Declaration = Annotated[Path, typer.Argument(metavar="FILE.py", help=f"Defines {DEFINES}.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Each geometry becomes a folder DIR/NAME.")]
Check = Annotated[bool, typer.Option("--check", help="Write nothing; compare what is there, byte for byte.")]


def derive(declaration: Declaration, out: Out = Path(), check: Check = False, json: Json = False) -> None:
    """Derive the geometry of each metric in FILE.py, and write generated.py, certificate.json and derivation.md.

    Exit code 0: every claim holds and the files are there. 1: with --check, a file is missing or differs. 2: an error, such as
    a claim that is false, with a point at which it fails; nothing is written.
    """
    import quotientgeo
    from quotientgeo.cli.display import working

    file, pairs = read_declaration(declaration)
    geometries = []
    for symmetry, metric in pairs:
        with working(f"deriving {symmetry.name}_{metric.name}"):
            geometries.append(_derived(file, symmetry, metric))
    stale: list[Path] = []
    for geometry in geometries:
        folder = out / geometry.name
        with working(f"{'checking' if check else 'writing'} {folder}"), tempfile.TemporaryDirectory() as fresh:
            made = quotientgeo.generate(geometry, Path(fresh) / geometry.name)
            different = [name for name in FILES if not _same(made / name, folder / name)]
            if check:
                stale += [folder / name for name in different]
            else:
                _write(made, folder, different)
    _show(geometries, out, json)
    for path in stale:
        what = "differs from what its declaration gives" if path.exists() else "is missing"
        typer.echo(f"{path} {what}: run the command without --check", err=True)
    if stale:
        raise typer.Exit(STALE)


def read_declaration(path: Path) -> tuple[PythonFile, list[tuple[Any, Any]]]:
    """The file, and each of its metrics with the symmetry. Raises DeclarationError where it does not define them."""
    import quotientgeo
    from quotientgeo.tasks import run_file

    file = run_file(path, "declaration file", DEFINES, error=DeclarationError)
    symmetry = getattr(file.module, "symmetry", None)
    metrics = getattr(file.module, "metrics", None)
    if metrics is None:
        metrics = [getattr(file.module, "metric", None)]
    listed = isinstance(metrics, (list, tuple)) and bool(metrics)
    if not isinstance(symmetry, quotientgeo.Symmetry) or not listed:
        raise DeclarationError(f"{path} must define {DEFINES}; its symmetry is of type {type(symmetry).__name__}")
    for metric in metrics:
        if not isinstance(metric, quotientgeo.Metric):
            raise DeclarationError(f"{path} must define {DEFINES}; found a metric of type {type(metric).__name__}")
    names = [metric.name for metric in metrics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeclarationError(f"{path} declares more than one metric of the name {twice[0]!r}: each becomes a folder")
    return file, [(symmetry, metric) for metric in metrics]


def _derived(file: PythonFile, symmetry: Any, metric: Any) -> Any:
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
        more = f"; and also {', '.join(claim.name for claim in broken[1:])}" if broken[1:] else ""
        raise CertificateError(
            f"{geometry.name}: {len(broken)} of {len(list(geometry.certificate))} claims do not hold: {first.name} "
            f"({first.statement}) is {first.status}{witness}{more}"
        )
    return geometry


def _same(made: Path, found: Path) -> bool:
    return found.is_file() and made.read_bytes() == found.read_bytes()


def _write(made: Path, folder: Path, names: list[str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).write_bytes((made / name).read_bytes())
    except OSError as error:
        raise DeclarationError(f"{folder} cannot be written: {error.strerror}") from error


def _show(geometries: list[Any], out: Path, json: bool) -> None:
    """What was proven and tested, and where the files are."""
    from rich.table import Table

    from quotientgeo.cli.display import output

    if json:
        for geometry in geometries:
            claims = {claim.name: claim.status for claim in geometry.certificate}
            files = [str(out / geometry.name / name) for name in FILES]
            record = {"name": geometry.name, "holds": geometry.certificate.holds, "claims": claims, "files": files}
            typer.echo(jsonlib.dumps(record, sort_keys=True))
        return
    table = Table()
    for heading in ("geometry", "claims", "proven for all sizes", "proven for some sizes", "tested", "files"):
        table.add_column(heading, overflow="fold")
    for geometry in geometries:
        statuses = [claim.status for claim in geometry.certificate]
        everywhere = sum(status == "proven for all sizes" for status in statuses)
        somewhere = sum(status.startswith("proven") for status in statuses) - everywhere
        counts = (len(statuses), everywhere, somewhere, sum(status == "tested" for status in statuses))
        table.add_row(geometry.name, *map(str, counts), str(out / geometry.name))
    output().print(table)
