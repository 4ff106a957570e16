"""The wheel holds all that the package needs and nothing else, and works where there is no source tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import quotientgeo

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "quotientgeo"
NOT_SHIPPED = {"__pycache__"}

USE = """
import pathlib, sys
import quotientgeo as qg
from quotientgeo.demo import CHECKPOINT, DIGITS
from quotientgeo.demo.files import TEMPLATE
from quotientgeo.report.page import TEMPLATES
from quotientgeo.symbolic import codegen
target = pathlib.Path(sys.argv[1])
assert pathlib.Path(qg.__file__).is_relative_to(target), qg.__file__
assert all(getattr(qg, name) for name in qg.__all__)
assert TEMPLATE.is_file() and (TEMPLATES / "base.html.j2").is_file()
assert len(list(DIGITS.rglob("*.png"))) == 200
graph = qg.symmetry_graph(qg.load_checkpoint(CHECKPOINT))
print(len(graph.blocks))
"""


def source_files() -> set[str]:
    """Every file of the package, as it is named in a wheel."""
    found = (path for path in PACKAGE.rglob("*") if path.is_file() and not NOT_SHIPPED & set(path.parts))
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_packages_are_folders_of_code() -> None:
    configuration = pytest.importorskip("setuptools.config.pyprojecttoml")
    packages = configuration.read_configuration(ROOT / "pyproject.toml")["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py")}
    assert {name.replace(".", "/") for name in packages} == folders


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the source tree and nothing old is taken from it."""
    pytest.importorskip("build")
    copy = tmp_path_factory.mktemp("source")
    shutil.copytree(PACKAGE, copy / "quotientgeo", ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    shutil.copytree(ROOT / "tests" / "helpers", copy / "tests" / "helpers", ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        about = next(name.partition("/")[0] for name in names if ".dist-info/" in name)
        metadata = archive.read(f"{about}/METADATA").decode()
    assert {name for name in names if not name.startswith(about)} == source_files()
    kinds = {
        "py.typed",
        "certificate.json",
        "demo.html.j2",
        "base.html.j2",
        "derivation.md.j2",
        "analytic_examples.md.j2",
        "model.safetensors",
        "00.png",
    }
    assert kinds <= {Path(name).name for name in names}
    assert {f"{about}/licenses/LICENSE", f"{about}/licenses/quotientgeo/demo/shipped/README.md"} <= names
    assert "License-Expression: Apache-2.0 AND CC-BY-4.0" in metadata


@pytest.mark.slow
@pytest.mark.skipif(not PACKAGE.samefile(Path(quotientgeo.__file__).parent), reason="not run from the source tree")
def test_the_wheel_works_alone(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    target, empty = tmp_path / "target", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    # the target comes before what is installed; without it, the source tree is found
    code = f"import sys; sys.path.insert(0, {str(target)!r})\n{USE}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(target)], cwd=empty, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["32"]
    bare = subprocess.run(
        [sys.executable, "-c", USE, str(target)], cwd=empty, capture_output=True, text=True, check=False
    )
    assert "AssertionError" in bare.stderr, "a fault in the test: it would pass without the wheel"
