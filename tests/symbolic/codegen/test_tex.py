"""The derivation as a LaTeX document."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from quotientgeo.symbolic.codegen.exposition import tex_document

PAGES = Path(__file__).parents[3] / "derivations"
NAMES = ("gl_pair_mixed", "diagonal_network_mixed", "rope_pair_mixed", "linear_chain_invariant")


def balanced(document: str) -> bool:
    """Whether every environment is closed in the order in which it was opened."""
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{([a-z*]+)\}", document):
        if kind == "begin":
            stack.append(name)
        elif not stack or stack.pop() != name:
            return False
    return not stack


@pytest.mark.parametrize("name", NAMES)
def test_everything_of_the_page_is_in_the_document(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    document = tex_document(page)
    assert balanced(document)
    assert document.count(r"\subsection*{") == page.count("\n## ")
    assert document.count(r"\begin{align*}") + document.count("\\[\n") == page.count("```math")
    assert not re.search("[\ue000\ue001]|```|<details>|\\*\\*", document)
    for formula in re.findall(r"\$([^$]+)\$", page):
        assert f"${formula}$" in document


def test_text_is_escaped_and_formulas_are_not() -> None:
    document = tex_document("# a_b\n\n50 % of `x_1 & y` is $x_1 & y$ <here>\n\n| a | b |\n|---|---|\n| $u_1$ | ~ |\n")
    assert r"\section*{a\_b}" in document
    assert r"50 \% of \texttt{x\_1 \& y} is $x_1 & y$" in document
    assert r"$u_1$ & \textasciitilde{} \\" in document
    assert not balanced(document.replace(r"\end{longtable}", ""))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
@pytest.mark.parametrize("name", NAMES)
def test_it_compiles(name: str, tmp_path: Path) -> None:
    (tmp_path / "page.tex").write_text(tex_document((PAGES / f"{name}.md").read_text(encoding="utf-8")))
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
