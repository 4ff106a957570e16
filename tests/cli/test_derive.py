"""``quotientgeo derive``: from a user's file to code with its certificate, or to the point at which it fails."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner, Result

import quotientgeo as qg
from quotientgeo.cli.main import app

HEAD = """
from sympy import Trace
import quotientgeo as qg

symmetry = qg.Symmetry(
    "gl_pair",
    group=qg.GL("h"),
    factors={"G": ("n", "h"), "H": ("m", "h")},
    action=lambda A, G, H: (G * A.inv(), H * A.T),
    preserves=lambda G, H: G * H.T,
)
"""
INVARIANT = """
def inner(p, a, b):
    P, Q = p.G.T * p.G, p.H.T * p.H
    return Trace(P.I * a.G.T * b.G) + Trace(Q.I * a.H.T * b.H)

metric = qg.Metric("own", symmetry, inner)
"""
ONE_FACTOR = """
from sympy import Trace
import quotientgeo as qg

symmetry = qg.Symmetry("spans", group=qg.GL("k"), factors={"U": ("d", "k")}, action=lambda A, U: (U * A.T,))
metric = qg.Metric("own", symmetry, lambda p, a, b: Trace((p.U.T * p.U).I * a.U.T * b.U))
"""
FLAT = 'metric = qg.Metric("flat", symmetry, lambda p, a, b: Trace(a.G.T * b.G) + Trace(a.H.T * b.H))\n'
pytestmark = pytest.mark.xdist_group("quotientgeo derive")  # of one process: what is derived serves several tests
EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = ["certificate.json", "derivation.md", "generated.py"]


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The declaration of the invariant metric under another name, derived once."""
    folder = tmp_path_factory.mktemp("derived")
    (folder / "own.py").write_text(HEAD + INVARIANT)
    return folder, run(folder / "own.py", "--out", folder / "out")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A declaration that is derived in no time, and what was made of it."""
    folder = tmp_path_factory.mktemp("quick")
    (folder / "own.py").write_text(ONE_FACTOR)
    assert run(folder / "own.py", "--out", folder / "out").exit_code == 0
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["derive", *map(str, arguments)])


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("generated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pair(seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn((5 - i % 2, 3), generator=generator, dtype=torch.float64) for i in range(6))


def test_code_certificate_and_derivation_are_written(derived: tuple[Path, Result]) -> None:
    folder, done = derived
    assert done.exit_code == 0, done.output
    out = folder / "out" / "gl_pair_own"
    assert sorted(p.name for p in out.iterdir()) == FILES
    certificate = json.loads((out / "certificate.json").read_text())
    assert certificate["holds"]
    assert all(claim["status"] == "proven for all sizes" for claim in certificate["claims"])
    page = (out / "derivation.md").read_text()
    assert page.startswith("# `gl_pair_own`")
    assert "quotientgeo/catalogue" not in page  # links of the catalogue would lead nowhere
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("│ gl_pair_own")]
    claims = str(len(certificate["claims"]))
    assert [cell.strip() for cell in row.split("│")[1:7]] == ["gl_pair_own", claims, claims, "0", "0", "none found"]
    assert done.stderr.splitlines() == ["deriving gl_pair_own", f"making {out}"]


def test_the_code_is_that_of_the_metric(derived: tuple[Path, Result]) -> None:
    module = load(derived[0] / "out" / "gl_pair_own" / "generated.py")
    G, H, xi_G, xi_H, eta_G, eta_H = pair(0)
    P, Q = G.T @ G, H.T @ H
    expected = torch.trace(P.inverse() @ xi_G.T @ eta_G) + torch.trace(Q.inverse() @ xi_H.T @ eta_H)
    torch.testing.assert_close(module.inner(G, H, xi_G, xi_H, eta_G, eta_H), expected)
    from quotientgeo.catalogue.gl_pair_invariant import generated

    for one, other in zip(module.acceleration(G, H, xi_G, xi_H), generated.acceleration(G, H, xi_G, xi_H), strict=True):
        torch.testing.assert_close(one, other)


def test_check_compares_byte_for_byte(quick: Path) -> None:
    folder, out = quick, quick / "out" / "spans_own"
    assert run(folder / "own.py", "--out", folder / "out", "--check").exit_code == 0
    before = {name: (out / name).read_bytes() for name in FILES}
    try:
        (out / "generated.py").write_bytes(before["generated.py"].replace(b"\n", b"\r\n", 1))
        (out / "derivation.md").unlink()
        done = run(folder / "own.py", "--out", folder / "out", "--check")
        assert done.exit_code == 1
        assert done.stderr.splitlines()[-2:] == [
            f"{out / 'generated.py'} differs from what its declaration gives: run the command without --check",
            f"{out / 'derivation.md'} is missing: run the command without --check",
        ]
        assert not (out / "derivation.md").exists()  # --check writes nothing
        assert run(folder / "own.py", "--out", folder / "out").exit_code == 0
        assert {name: (out / name).read_bytes() for name in FILES} == before
    finally:
        for name, text in before.items():
            (out / name).write_bytes(text)


def test_python_and_the_command_write_the_same_bytes(quick: Path, tmp_path: Path) -> None:
    module = load(quick / "own.py")
    made = qg.generate(qg.derive(module.symmetry, module.metric), tmp_path / "spans_own")
    for name in FILES:
        assert (made / name).read_bytes() == (quick / "out" / "spans_own" / name).read_bytes()


def test_weights_of_third_degree_are_derived_and_their_code_is_right(tmp_path: Path) -> None:
    """tr(Q P Q a_G' b_G) + tr(P Q P a_H' b_H): inner product by hand, acceleration by automatic differentiation."""
    done = run(EXAMPLES / "cubic_metric.py", "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["name"] == "gl_pair_cubic"
    assert set(record["claims"].values()) == {"proven for all sizes"}
    assert sorted(record["files"]) == [str(tmp_path / "gl_pair_cubic" / name) for name in FILES]
    module = load(tmp_path / "gl_pair_cubic" / "generated.py")
    G, H, xi_G, xi_H, eta_G, eta_H = pair(1)

    def inner(G: Tensor, H: Tensor, a_G: Tensor, a_H: Tensor, b_G: Tensor, b_H: Tensor) -> Tensor:
        P, Q = G.T @ G, H.T @ H
        return torch.trace(Q @ P @ Q @ a_G.T @ b_G) + torch.trace(P @ Q @ P @ a_H.T @ b_H)

    value = inner(G, H, xi_G, xi_H, eta_G, eta_H)
    torch.testing.assert_close(module.inner(G, H, xi_G, xi_H, eta_G, eta_H), value)
    # geodesic equation against any eta: <acc, eta> + D<xi, eta>[xi] - D<xi, xi>[eta] / 2 = 0
    acc_G, acc_H = module.acceleration(G, H, xi_G, xi_H)

    def slope(of: tuple[Tensor, ...], along: tuple[Tensor, Tensor]) -> Tensor:
        return torch.func.jvp(lambda G, H: inner(G, H, *of), (G, H), along)[1]

    residual = (
        inner(G, H, acc_G, acc_H, eta_G, eta_H)
        + slope((xi_G, xi_H, eta_G, eta_H), (xi_G, xi_H))
        - slope((xi_G, xi_H, xi_G, xi_H), (eta_G, eta_H)) / 2
    )
    assert abs(float(residual)) < 1e-10 * abs(float(value))


def test_a_false_claim_is_one_line_with_a_witness_and_nothing_is_written(tmp_path: Path) -> None:
    """The first of the two metrics is right; its files are not written either."""
    text = HEAD + INVARIANT + "first = metric\n" + FLAT + "metrics = [first, metric]\n"
    (tmp_path / "two.py").write_text(text)
    done = run(tmp_path / "two.py", "--out", tmp_path / "out")
    assert done.exit_code == 2
    line = done.stderr.splitlines()[-1]
    assert re.match(r"CertificateError: gl_pair_flat: 2 of \d+ claims do not hold: invariance \(", line)
    assert "is false; at n = 1, m = 2, h = 1: G = [[" in line
    assert "left side" in line
    assert line.endswith("; and also momentum_conserved")
    assert not (tmp_path / "out").exists()
    assert not done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must define symmetry (a quotientgeo.Symmetry) and metric"),
        (HEAD, "defines no `metric` and no `metrics` (found: symmetry): it must define symmetry"),
        (HEAD + "metrics = []\n", "must define symmetry"),
        (HEAD + "metrics = [3]\n", "found a metric of type int"),
        (HEAD + INVARIANT + "metrics = [metric, metric]\n", "more than one metric of the name 'own'"),
        (HEAD + INVARIANT.replace("p.G.T", "p.K.T"), "no factor 'K'"),
        (HEAD + INVARIANT.replace("P.I", "P.J"), "own.py"),
        (HEAD + "1 / 0\n", "ZeroDivisionError: division by zero (line 12 of own.py)"),
        ("def broken(:\n", "SyntaxError"),
        (HEAD + INVARIANT.replace('"own"', "7"), "own.py"),
    ],
)
def test_a_file_that_declares_nothing_is_one_line_and_exit_code_2(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.py").write_text(text)
    done = run(tmp_path / "own.py", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()


def test_an_error_of_our_own_is_not_blamed_on_the_file(
    derived: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise TypeError("a mistake of the package")

    monkeypatch.setitem(qg.__dict__, "derive", broken)
    done = run(derived[0] / "own.py", "--out", derived[0] / "other")
    assert done.exit_code == 1
    assert isinstance(done.exception, TypeError)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("")
    for path, message in ((tmp_path / "no.py", "does not exist"), (tmp_path / "x.txt", "not a Python file")):
        done = run(path)
        assert done.exit_code == 2
        assert message in done.stderr.splitlines()[-1]


def test_a_folder_that_cannot_be_written(quick: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(quick / "own.py", "--out", tmp_path / "file")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("ArgumentError: ")
    assert "cannot be written" in done.stderr.splitlines()[-1]
