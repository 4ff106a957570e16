"""``make derive``: derive every geometry of the catalogue again and write what is made from its declaration.

    python -m quotientgeo.symbolic.regenerate            write generated.py, certificate.json, derivations/NAME.md,
                                                         and closed_form.py where the geodesics have one
    python -m quotientgeo.symbolic.regenerate --check    write nothing; list stale files and exit with 1 if there are any

A folder under quotientgeo/catalogue/ with a declaration.py, which defines ``symmetry`` and one metric, is all that a new
geometry needs. The same declarations give the same bytes, on any machine and under any hash seed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from quotientgeo.errors import DeclarationError
from quotientgeo.symbolic import closed_form
from quotientgeo.symbolic.codegen.exposition.spelling import Spelling
from quotientgeo.symbolic.codegen.module import CATALOGUE_ORIGIN
from quotientgeo.symbolic.declaration_file import read_declaration
from quotientgeo.symbolic.derivation import Geometry, derive
from quotientgeo.symbolic.files import made_from

CATALOGUE = Path("quotientgeo", "catalogue")
DERIVATIONS = Path("derivations")
INDEX_START, INDEX_END = "<!-- index: made by `make derive` -->", "<!-- end of index -->"
_MADE = ("generated.py", "certificate.json", closed_form.FILE)


def regenerate(root: Path) -> dict[Path, str | None]:
    """{path below ``root``: text it should have, or None if it should not exist} for every file made from a declaration.

    Raises:
        DeclarationError: a declaration.py lacks ``symmetry`` or ``metric``, has several metrics, or its folder is not called
            like its geometry.
        CertificateError: a claim about a geometry does not hold.
    """
    wanted: dict[Path, str | None] = {}
    geometries = []
    for declaration in sorted((root / CATALOGUE).glob("*/declaration.py")):
        geometry = _derive(declaration)
        geometries.append(geometry)
        wanted |= files(geometry)
        closed = CATALOGUE / geometry.name / closed_form.FILE
        if closed not in wanted and (root / closed).exists():
            wanted[closed] = None  # its geodesics have no closed form any more
        if not (declaration.parent / "__init__.py").exists():
            wanted[CATALOGUE / geometry.name / "__init__.py"] = ""
    readme = root / DERIVATIONS / "README.md"
    if readme.exists():
        wanted[DERIVATIONS / "README.md"] = _with_index(readme.read_text(encoding="utf-8"), geometries)
    return wanted | {path: None for path in _left_over(root) if path not in wanted}


def files(geometry: Geometry) -> dict[Path, str | None]:
    """The files made from one geometry, in their places; its certificate must hold."""
    page = DERIVATIONS / f"{geometry.name}.md"
    made = made_from(geometry, CATALOGUE_ORIGIN, links=True)
    return {page if name == "derivation.md" else CATALOGUE / geometry.name / name: text for name, text in made.items()}


def _derive(path: Path) -> Geometry:
    """Read a declaration.py, wherever it lies, and derive its geometry."""
    spec = importlib.util.spec_from_file_location(f"_declaration_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    symmetry, metrics = read_declaration(path, module)
    if len(metrics) != 1:
        raise DeclarationError(f"{path} declares {len(metrics)} metrics: in the catalogue each has a folder of its own")
    geometry = derive(symmetry, metrics[0])
    if geometry.name != path.parent.name:
        raise DeclarationError(
            f"{path} declares the geometry {geometry.name} (symmetry name, underscore, metric name): "
            f"call its folder {geometry.name}, not {path.parent.name}"
        )
    return geometry


def _with_index(readme: str, geometries: Sequence[Geometry]) -> str:
    """The notation page with its list of geometries brought up to date; its prose is written by hand."""
    before, start, rest = readme.partition(INDEX_START)
    _, end, after = rest.partition(INDEX_END)
    if not start or not end:
        raise DeclarationError(f"derivations/README.md must contain the lines {INDEX_START} and {INDEX_END}")
    rows = []
    for geometry in geometries:
        claims = list(geometry.certificate)
        proven = sum(claim.status == "proven for all sizes" for claim in claims)
        metric = Spelling(geometry).scalar(geometry.inner.polynomial)
        rows.append(f"| [{geometry.name}]({geometry.name}.md) | ${metric}$ | {proven} of {len(claims)} |")
    table = "\n".join(
        [r"| geometry | metric $\langle \xi, \eta \rangle$ | claims proven for all sizes |", "|---|---|---|", *rows]
    )
    return f"{before}{start}\n{table}\n{end}{after}"


def _left_over(root: Path) -> list[Path]:
    """Files that were made from a declaration which is gone."""
    found = [
        path
        for name in _MADE
        for path in (root / CATALOGUE).glob(f"*/{name}")
        if not (path.parent / "declaration.py").exists()
    ]
    pages = [
        path for path in (root / DERIVATIONS).glob("*.md") if f"*Made by {CATALOGUE_ORIGIN}" in path.read_text("utf-8")
    ]
    return sorted(path.relative_to(root) for path in [*found, *pages])


def stale(root: Path, wanted: dict[Path, str | None]) -> list[Path]:
    """The files that differ from what they should be, byte for byte."""
    out = []
    for path, text in wanted.items():
        target = root / path
        found = target.read_bytes() if target.exists() else None
        if found != (None if text is None else text.encode()):
            out.append(path)
    return out


def write(root: Path, wanted: dict[Path, str | None]) -> list[Path]:
    """Bring the files up to date; returns those that were written or removed."""
    changed = stale(root, wanted)
    for path in changed:
        text, target = wanted[path], root / path
        if text is None:
            target.unlink()
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m quotientgeo.symbolic.regenerate", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository (default: the current directory)")
    options = parser.parse_args(arguments)
    if not (options.root / CATALOGUE).is_dir():
        parser.error(f"{options.root} has no folder {CATALOGUE}: run this from the repository, or pass --root")
    wanted = regenerate(options.root)
    if options.check:
        changed = stale(options.root, wanted)
        for path in changed:
            print(f"stale: {path} (run `make derive`)", file=sys.stderr)
        return 1 if changed else 0
    for path in write(options.root, wanted):
        print(f"{'removed' if wanted[path] is None else 'wrote'} {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
