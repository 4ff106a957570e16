"""What is in the repository is what `make derive` makes: byte for byte, file for file, under any hash seed."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quotientgeo.errors import CertificateError, DeclarationError
from quotientgeo.symbolic import regenerate
from quotientgeo.symbolic.codegen.module import declaration_digest
from quotientgeo.symbolic.derivation import derive

ROOT = Path(__file__).parents[2]
ALL = sorted(path.parent.name for path in (ROOT / regenerate.CATALOGUE).glob("*/declaration.py"))
NAMES = ["gl_pair_invariant", "gl_pair_mixed"]  # a small repository
MADE = [
    *(regenerate.CATALOGUE / name / file for name in NAMES for file in ("generated.py", "certificate.json")),
    *(regenerate.DERIVATIONS / f"{name}.md" for name in NAMES),
    regenerate.DERIVATIONS / "README.md",
]


def bare_copy(target: Path) -> Path:
    """A repository with what is written by hand, and nothing else."""
    for name in NAMES:
        folder = target / regenerate.CATALOGUE / name
        folder.mkdir(parents=True)
        shutil.copy(ROOT / regenerate.CATALOGUE / name / "declaration.py", folder)
    readme = (ROOT / regenerate.DERIVATIONS / "README.md").read_text(encoding="utf-8")
    before, start, rest = readme.partition(regenerate.INDEX_START)
    (target / regenerate.DERIVATIONS).mkdir()
    hand_written = f"{before}{start}\n{regenerate.INDEX_END}{rest.partition(regenerate.INDEX_END)[2]}"
    (target / regenerate.DERIVATIONS / "README.md").write_text(hand_written, encoding="utf-8")
    return target


def run(root: Path, *arguments: str, seed: str = "0") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "quotientgeo.symbolic.regenerate", "--root", str(root), *arguments]
    environment = os.environ | {"PYTHONHASHSEED": seed}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def index_rows(root: Path) -> list[str]:
    """The rows of the index on the notation page."""
    readme = (root / regenerate.DERIVATIONS / "README.md").read_text(encoding="utf-8")
    return readme.partition(regenerate.INDEX_START)[2].partition(regenerate.INDEX_END)[0].strip().splitlines()[2:]


@pytest.mark.parametrize("name", ALL)
def test_what_is_made_from_a_declaration_is_in_the_repository(name: str) -> None:
    """Derived here, under the hash seed of this process, which differs from run to run."""
    geometry = regenerate._derive(ROOT / regenerate.CATALOGUE / name / "declaration.py")
    wanted = regenerate.files(geometry)
    assert {"generated.py", "certificate.json", f"{name}.md"} <= {path.name for path in wanted}
    stale = regenerate.stale(ROOT, wanted)
    assert not stale, f"run `make derive`: {', '.join(map(str, stale))}"
    marks = f"{regenerate.INDEX_START}\n{regenerate.INDEX_END}"
    row = regenerate._with_index(marks, [geometry]).splitlines()[-2]
    assert row in index_rows(ROOT), "the index of derivations/README.md is stale: run `make derive`"


def test_the_index_lists_every_folder() -> None:
    rows = index_rows(ROOT)
    assert [row.partition("[")[2].partition("]")[0] for row in rows] == ALL


@pytest.mark.parametrize("seed", [pytest.param("1", marks=pytest.mark.slow), "4242"])
def test_everything_deleted_is_restored_byte_for_byte(tmp_path: Path, seed: str) -> None:
    root = bare_copy(tmp_path)
    done = run(root, seed=seed)
    assert done.returncode == 0, done.stderr
    for path in MADE[:-1]:
        assert (root / path).read_bytes() == (ROOT / path).read_bytes(), f"{path} is stale: run `make derive`"
    assert index_rows(root) == [
        row for row in index_rows(ROOT) if row.startswith(tuple(f"| [{name}]" for name in NAMES))
    ]
    made = {path.relative_to(root) for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    written = {regenerate.CATALOGUE / name / file for name in NAMES for file in ("__init__.py", "declaration.py")}
    assert made == {*MADE, *written}


def test_stale_missing_and_left_over_files_are_reported_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = regenerate.CATALOGUE / NAMES[0]
    for path in [*MADE, *(p for name in NAMES for p in (regenerate.CATALOGUE / name).glob("*.py"))]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    wanted: dict[Path, str | None] = {path: (ROOT / path).read_text(encoding="utf-8") for path in MADE}
    monkeypatch.setattr(regenerate, "regenerate", lambda root: wanted)
    monkeypatch.chdir(tmp_path)
    assert regenerate.main(["--check"]) == 0
    (tmp_path / folder / "generated.py").write_text(wanted[folder / "generated.py"].replace(" + ", " - ", 1))  # type: ignore[union-attr]
    (tmp_path / folder / "certificate.json").unlink()
    left_over = regenerate.DERIVATIONS / "gone.md"
    shutil.copy(ROOT / MADE[4], tmp_path / left_over)
    assert regenerate._left_over(tmp_path) == sorted([MADE[4], MADE[5], left_over])
    wanted[left_over] = None
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert regenerate.main(["--check"]) == 1
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert regenerate.stale(tmp_path, wanted) == [folder / "generated.py", folder / "certificate.json", left_over]
    assert regenerate.main([]) == 0
    assert regenerate.main(["--check"]) == 0
    assert not (tmp_path / left_over).exists()


def test_a_folder_with_a_declaration_is_all_that_a_geometry_needs(tmp_path: Path) -> None:
    folder = tmp_path / regenerate.CATALOGUE / "scale_flat"
    folder.mkdir(parents=True)
    (folder / "declaration.py").write_text(
        "from sympy import Trace\n"
        "from quotientgeo.groups import GL\n"
        "from quotientgeo.symbolic.declaration import Metric, Symmetry\n"
        'symmetry = Symmetry("scale", GL("k"), {"U": ("d", "k")}, lambda S, U: (U * S.T,))\n'
        'metric = Metric("flat", symmetry, lambda p, a, b: Trace((p.U.T * p.U).I * a.U.T * b.U))\n'
    )
    wanted = regenerate.regenerate(tmp_path)
    assert set(wanted) == {
        regenerate.CATALOGUE / "scale_flat" / file for file in ("generated.py", "certificate.json", "__init__.py")
    } | {regenerate.DERIVATIONS / "scale_flat.md"}
    page, source = (
        wanted[regenerate.DERIVATIONS / "scale_flat.md"],
        wanted[regenerate.CATALOGUE / "scale_flat" / "generated.py"],
    )
    assert page is not None
    assert source is not None
    assert r"S \cdot U = U S^{\top}" in page
    assert "def vertical(U: Tensor, X: Tensor) -> tuple[Tensor]:" in source


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (('"invariant"', '"other"'), DeclarationError, "call its folder gl_pair_other"),
        (("metric = ", "metrik = "), DeclarationError, "must define symmetry"),
        (("(p.H.T * p.H).I", "p.H.T * p.H"), CertificateError, "invariance: false"),
        (("A.inv()", "A"), CertificateError, "do not hold"),
    ],
)
def test_a_declaration_that_is_not_true_makes_nothing(
    tmp_path: Path, change: tuple[str, str], error: type[Exception], message: str
) -> None:
    folder = bare_copy(tmp_path) / regenerate.CATALOGUE
    shutil.rmtree(folder / "gl_pair_mixed")
    declaration = folder / "gl_pair_invariant" / "declaration.py"
    declaration.write_text(declaration.read_text().replace(*change))
    with pytest.raises(error, match=message):
        regenerate.regenerate(tmp_path)


@pytest.mark.parametrize("name", ALL)
def test_generated_module_imports_torch_only_and_matches_its_certificate(name: str) -> None:
    source = (ROOT / regenerate.CATALOGUE / name / "generated.py").read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["import torch", "from torch import Tensor"]
    record = json.loads((ROOT / regenerate.CATALOGUE / name / "certificate.json").read_text(encoding="utf-8"))
    assert record["generated"]["sha256"] == hashlib.sha256(source.encode()).hexdigest()


def test_importing_generated_code_does_not_load_sympy() -> None:
    modules = ", ".join(f"quotientgeo.catalogue.{name}.generated" for name in ALL)
    command = f"import sys, torch; before = set(sys.modules); import {modules}"
    command += "; assert 'sympy' not in sys.modules.keys() - before"
    subprocess.run([sys.executable, "-c", command], check=True, timeout=120)


@pytest.mark.parametrize("name", ALL)
def test_declarations_are_short(name: str) -> None:
    assert len((ROOT / regenerate.CATALOGUE / name / "declaration.py").read_text().splitlines()) <= 25


def test_generated_files_are_formatted() -> None:
    files = [str(ROOT / regenerate.CATALOGUE / name / "generated.py") for name in ALL]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--check", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_declaration_on_the_notation_page_is_the_one_of_the_catalogue() -> None:
    readme = (ROOT / regenerate.DERIVATIONS / "README.md").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(readme.partition("```python\n")[2].partition("```")[0], namespace)
    geometry = derive(namespace["symmetry"], namespace["metric"], levels="a")
    source = (ROOT / regenerate.CATALOGUE / "gl_pair_mixed" / "generated.py").read_text(encoding="utf-8")
    assert f"Declaration {declaration_digest(geometry)}," in source
