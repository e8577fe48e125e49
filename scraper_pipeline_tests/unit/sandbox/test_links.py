"""The links that a crawl follows."""

from typing import Any

import pytest

from scraper_pipeline.sandbox.bulk.links import is_within, links_of
from scraper_pipeline.sandbox.requests import CrawlRequest

BASE = "http://harbour.example/site/pages/1"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<a href="/a">', ["http://harbour.example/a"]),
        ("<A class=x HREF='2?n=1&amp;m=2#top'>", ["http://harbour.example/site/pages/2?n=1&m=2"]),
        ("<a href=//elsewhere.example/>", ["http://elsewhere.example/"]),
        ('<a href="#top"><a href="">', [BASE]),
        ('<a href="mailto:a@b.example"><a href="javascript:void(0)"><a href="http://[">', []),
        ('<link href="/style.css"><abbr href="/no">', []),
        (
            '<a href="/a"><a href="/a#x"><a href="/b">',
            ["http://harbour.example/a", "http://harbour.example/b"],
        ),
    ],
)
def test_links_are_absolute_once_each_and_without_fragments(html: str, expected: list[str]):
    assert list(links_of(html, BASE)) == expected


@pytest.mark.parametrize(
    ("link", "options", "expected"),
    [
        ("http://harbour.example/b", {}, True),
        ("https://harbour.example:8443/b", {}, True),
        ("http://old.harbour.example/", {}, False),
        ("http://old.harbour.example/", {"include_subdomains": True}, True),
        ("http://notharbour.example/", {"include_subdomains": True}, False),
        ("http://elsewhere.example/", {"same_domain_only": False}, True),
    ],
)
def test_only_the_domain_is_crawled_unless_told_otherwise(link: str, options: dict[str, Any], expected: bool):
    request = CrawlRequest.model_validate({"url": BASE, **options})
    assert is_within(link, request) is expected
