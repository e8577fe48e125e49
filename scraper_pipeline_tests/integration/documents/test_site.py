"""The documents as a site: every page is in it, no link is broken, and a browser asks no other host for anything."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scraper_pipeline_tests.documents import PAGES, ROOT

_LOADED_BY = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "embed": "src",
    "object": "data",
}
_NOT_LOADED = {"alternate", "canonical", "next", "prev"}  # relations of a <link> that only tell
# What the theme's own script loads from elsewhere, and the marks in a page that make it do so.
_DEMANDING = ('class="mermaid"', 'data-md-component="source"')
_IN_A_STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^)\"']+)")


class _Loads(HTMLParser):
    """Collects the address of all that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and given.get("rel") not in _NOT_LOADED:
            self.addresses.append(given.get("href", ""))
        elif tag in _LOADED_BY:
            self.addresses.append(given.get(_LOADED_BY[tag], ""))
        self.addresses += re.findall(r"url\(([^)]+)\)", given.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    assert {page.path.stem for page in PAGES} <= {path.stem for path in site.glob("*.html")}
    assert list(site.glob("*.py")) == []


def test_a_browser_asks_no_other_host_for_anything(site: Path) -> None:
    found = []
    for path in site.rglob("*.html"):
        text, loads = path.read_text("utf-8"), _Loads()
        loads.feed(text)
        assert loads.addresses
        found += [f"{path.name}: {one}" for one in loads.addresses if re.match(r"[\"']?(?:https?:)?//", one)]
        found += [f"{path.name}: {mark}" for mark in _DEMANDING if mark in text]
    for path in site.rglob("*.css"):
        found += [f"{path.name}: {one}" for one in _IN_A_STYLE.findall(path.read_text("utf-8"))]
    assert found == []


def test_what_is_marked_up_is_not_shown_as_text(site: Path) -> None:
    """A fence within a list, say, is one for GitHub and text for mkdocs unless it is indented far enough."""
    spoilt = []
    for page in PAGES:
        body = (
            (site / f"{page.path.stem}.html")
            .read_text("utf-8")
            .split("<article", 1)[1]
            .split("</article>")[0]
        )
        shown = re.sub(r"<(pre|code)\b.*?</\1>", "", body, flags=re.DOTALL)
        spoilt += [f"{page.name}: {mark}" for mark in ("```", "|---", "](", "**") if mark in shown]
    assert spoilt == []
