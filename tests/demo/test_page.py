"""The page: complete in itself, and its numbers are the results."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from quotientgeo.demo import DemoResult, Loaded, write_demo
from quotientgeo.demo.files import command, render_page, series
from quotientgeo.report import orbit_figure, svg
from quotientgeo.report.page import change, number, percent
from tests.demo.test_demo import with_outcome

VOID = {"meta", "img", "br"}
LOADING = {"src", "srcset", "data", "poster", "action", "background", "xlink:href"}


class Reader(HTMLParser):
    """Rows of tables, sources that a browser would fetch, links, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "object", "embed", "base")
        for name, value in attrs:
            if name in LOADING or (name == "href" and tag != "a"):
                self.fetched.append(value or "")
            elif name == "href":
                self.links.append(value or "")
        if tag == "img":
            assert dict(attrs).get("alt")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def page(result: DemoResult) -> str:
    return render_page(result, svg(orbit_figure(series(result))))


def test_nothing_is_fetched(page: str) -> None:
    found = read(page)
    assert len(found.fetched) == 2
    assert all(source.startswith("data:image/svg+xml;base64,") for source in found.fetched)
    assert "@import" not in page
    assert "url(" not in page
    assert found.links
    assert all(link.startswith("https://") for link in found.links)


def test_the_pictures_refer_to_nothing_outside_them(page: str) -> None:
    for source in read(page).fetched:
        text = base64.b64decode(source.split(",", 1)[1]).decode()
        picture = ElementTree.fromstring(text)
        assert picture.tag == "{http://www.w3.org/2000/svg}svg"
        references = [value for part in picture.iter() for name, value in part.attrib.items() if name.endswith("href")]
        assert references
        assert all(reference.startswith(("#", "data:image/png;base64,")) for reference in references)
        outside = set(re.findall(r"https?://[^\"'\s<]+", text))
        assert outside == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_the_checker_finds_what_would_be_fetched(page: str) -> None:
    assert "https://example.org/x.png" in read('<p><img src="https://example.org/x.png" alt="x"></p>').fetched
    with pytest.raises(AssertionError):
        read('<script src="x.js"></script>')
    with pytest.raises(AssertionError):
        read(page.replace("</table>", "", 1))


def test_the_table_holds_the_results(page: str, result: DemoResult) -> None:
    rows = {row[0]: row[1:] for row in read(page).rows if len(row) == 4}
    for c in result.comparisons:
        assert rows[c.name] == [number(c.before.value), number(c.after.value), change(c.change)]
    same = result.same
    assert rows["loss on the digits measured"][:2] == [number(value) for value in same.loss]
    assert rows["accuracy on 100 other digits"][:2] == [percent(value) for value in same.accuracy]


def test_it_says_every_definition(page: str, result: DemoResult) -> None:
    facts = {row[0]: row[1] for row in read(page).rows if len(row) == 2}
    d = result.comparisons[1].before.definitions
    assert facts["radius"].startswith("ρ = 0.1")
    assert "1 steps from 1 start(s), seed 0" in facts["search"]
    assert "4 of 50 examples" in facts["batches"]
    assert d["model_digest"][:16] in facts["network"]
    assert d["data_digest"][:16] in facts["data"]
    assert d["norm"] == facts["norm, geodesic, invariant metric"]
    assert facts["arithmetic"].startswith("float64 (stored as float32)")
    assert f"quotientgeo {d['versions']['quotientgeo']}, torch {d['versions']['torch']}" in facts["versions"]
    assert "seeds 0 to 0" in facts["moves in the figure"]


def test_plain_words_come_first(page: str) -> None:
    headings = read(page).headings
    assert headings[0] == "Same function, different weights"
    assert headings[-1] == "The definitions"
    before = page[: page.index("The definitions")].lower()
    for word in ("horizontal", "quotient of", "riemannian", "gl(", "manifold"):
        assert word not in before


def test_a_run_without_a_value_does_not_claim_success(page: str, result: DemoResult) -> None:
    assert "stays as it is, to about 13 digits" in page
    lost = with_outcome(result)
    other = render_page(lost, svg(orbit_figure(series(lost))))
    assert "stays as it is, to about 13 digits" not in other
    rows = {row[0]: row[1:] for row in read(other).rows if len(row) == 4}
    assert rows["geodesic, mixed metric"][1:] == ["no value", "no value"]


def test_the_command_shown_gives_the_number_shown(loaded: Loaded, result: DemoResult, tmp_path, monkeypatch) -> None:
    from typer.testing import CliRunner

    from quotientgeo.cli.main import app

    write_demo(result, loaded, tmp_path)
    monkeypatch.chdir(tmp_path)
    words = command(result.settings).replace("\\\n", " ").split()
    assert words[0] == "quotientgeo"
    done = CliRunner().invoke(app, [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    import json

    here, there = (json.loads(line)["value"] for line in done.stdout.splitlines())
    assert here == result.comparisons[1].before.value
    assert there == result.comparisons[1].after.value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.99316, "0.9932"), (4.2849e-4, "4.285 × 10⁻⁴"), (-8e-15, "−8.000 × 10⁻¹⁵"), (123456.0, "1.235 × 10⁵"), (0.0, "0"),
        (10.0, "10"), (float("nan"), "no value"),
    ],
)  # fmt: skip
def test_numbers(value: float, expected: str) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.268, "+0.27"), (-0.05, "−0.05"), (1.3e-14, "+1.3 × 10⁻¹⁴"), (0.0, "0"), (2e-4, "+2.0 × 10⁻⁴"), (28.45, "+28"),
        (float("nan"), "no value"),
    ],
)  # fmt: skip
def test_changes(value: float, expected: str) -> None:
    assert change(value) == expected
