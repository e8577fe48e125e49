"""A sitemap is read as text from a stranger: every page of it once, and nothing that it may try."""

import gzip
from datetime import date
from io import BytesIO
from pathlib import Path

import pytest

from scraper_pipeline.ledger import Target
from scraper_pipeline.target_lists import Duplicate, Rejected, TargetListError, load_target_lists
from scraper_pipeline.target_lists.downloads import Patience
from scraper_pipeline.target_lists.sitemaps import Bounds, sitemap_rows
from scraper_pipeline_tests.unit.target_lists.conftest import Site

DAY = date(2026, 1, 31)
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
QUICK = Bounds(patience=Patience(waits=(0.0, 0.0), sleep=lambda seconds: None))


def urlset(*locations: str, head: str = HEAD) -> str:
    entries = "".join(f"<url><loc>{location}</loc></url>" for location in locations)
    return f"{head}<urlset {NAMESPACE}>{entries}</urlset>"


def index(*locations: str) -> str:
    entries = "".join(f"<sitemap><loc>{location}</loc></sitemap>" for location in locations)
    return f"{HEAD}<sitemapindex {NAMESPACE}>{entries}</sitemapindex>"


def urls(location: str | Path, bounds: Bounds = QUICK) -> list[str]:
    rows = [row for _, row in sitemap_rows(location, bounds)]
    return [row["url"] for row in rows if not isinstance(row, str)]


def fault_of(location: str | Path, bounds: Bounds = QUICK) -> str:
    with pytest.raises(TargetListError) as caught:
        list(sitemap_rows(location, bounds))
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sitemap.xml"


class TestDocuments:
    def test_pages_are_targets_with_their_last_change_and_the_entrys_number(self, path: Path) -> None:
        path.write_text(
            f'{HEAD}<urlset {NAMESPACE} xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">'
            "<url><loc>\n https://a.example/?a=1&amp;b=2 </loc><lastmod>2026-01-05</lastmod>"
            "<image:loc>https://a.example/picture.png</image:loc><image:lastmod>1999</image:lastmod></url>"
            "<url><changefreq>daily</changefreq></url>"
            "<url><loc><![CDATA[https://A.example/?a=1&b=2]]></loc></url>"
            "<url><loc>/relative</loc></url>"
            "</urlset>"
        )
        (one,) = load_target_lists(str(path))
        target, *rest = one.read(DAY)
        assert isinstance(target, Target)
        assert (target.url, target.labels) == ("https://a.example/?a=1&b=2", {"lastmod": "2026-01-05"})
        assert rest == [
            Rejected(2, "the row has no URL"),
            Duplicate(3, 1),
            Rejected(4, "this is no http or https URL with a host"),
        ]

    @pytest.mark.parametrize("layers", [0, 1, 2])
    def test_compression_is_told_by_the_bytes_whatever_the_file_is_called(
        self, path: Path, layers: int
    ) -> None:
        raw = urlset("https://a.example/1").encode()
        for _ in range(layers):
            raw = gzip.compress(raw[:50]) + gzip.compress(raw[50:])  # several members are one file
        path.write_bytes(raw)
        assert urls(path) == ["https://a.example/1"]

    @pytest.mark.parametrize(
        "head",
        [
            '<!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>',
            '<!DOCTYPE urlset [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
            '<!DOCTYPE urlset SYSTEM "http://127.0.0.1:9/evil.dtd">',
        ],
        ids=["expansion", "external", "dtd"],
    )
    def test_a_document_that_declares_entities_is_refused_unread(self, path: Path, head: str) -> None:
        path.write_text(urlset("https://a.example/&b;&a;", head=head))
        assert "declares a document type" in fault_of(path)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("<!DOCTYPE html><html><body>Not found</body></html>", "is a web page, no sitemap"),
            ("<rss><channel/></rss>", "is no sitemap: its root is no urlset or sitemapindex"),
            (urlset("https://a.example/&nbsp;"), "line 2: this is no XML (undefined entity)"),
            (urlset("https://a.example/")[:-3], "line 2: this is no XML"),
            ("", "line 1: this is no XML (no element found)"),
            ("<urlset>" + "<a>" * 200, "is nested too deeply"),
        ],
        ids=["web page", "feed", "entity", "cut short", "empty", "nested"],
    )
    def test_what_is_no_sitemap_is_told(self, path: Path, content: str, said: str) -> None:
        path.write_text(content)
        assert said in fault_of(path)
        assert str(path) in fault_of(path)

    def test_a_compressed_file_that_is_cut_short_is_told(self, path: Path) -> None:
        path.write_bytes(gzip.compress(urlset("https://a.example/").encode())[:-12])
        assert "is no gzip that can be read to its end" in fault_of(path)

    def test_what_a_few_bytes_unpack_to_is_counted_while_it_is_read(self, path: Path) -> None:
        bomb = gzip.compress(gzip.compress(b"<urlset>" + b" " * 40_000_000))
        assert len(bomb) < 1000
        path.write_bytes(bomb)
        assert "is larger than 1000000 bytes" in fault_of(path, Bounds(bytes_each=1_000_000))

    def test_a_url_without_end_costs_its_entry_only(self, path: Path) -> None:
        path.write_text(urlset("https://a.example/" + "x" * 100_000, "https://a.example/2"))
        (one,) = load_target_lists(str(path))
        rejected, target = one.read(DAY)
        assert rejected == Rejected(1, "the URL is longer than 8192 bytes")
        assert isinstance(target, Target)

    def test_an_absent_file_is_named(self, path: Path) -> None:
        assert f"{path} cannot be opened" in fault_of(path)


class TestSites:
    def test_an_index_is_followed_one_step_and_within_its_site(self, site: Site) -> None:
        first = site.put("/a.xml.gz", gzip.compress(urlset("https://a.example/1").encode()))
        second = site.put("/b.xml", urlset("https://a.example/2", "https://a.example/3"))
        nested = site.put("/c.xml", index(first))
        there = site.put("/index.xml", index(first, "http://other.test/x.xml", nested, "/b.xml", second))
        assert urls(there) == ["https://a.example/1", "https://a.example/2", "https://a.example/3"]
        reasons = {number: row for number, row in sitemap_rows(there, QUICK) if isinstance(row, str)}
        assert reasons == {
            2: "the sitemap is on another site than its index: list it by itself",
            3: "the index names another index, and those are followed one step only",
            4: "this is no http or https URL with a host",
        }
        assert [number for number, row in sitemap_rows(there, QUICK) if not isinstance(row, str)] == [6, 7, 8]

    def test_the_number_and_the_size_of_an_indexes_sitemaps_are_bounded(self, site: Site) -> None:
        children = [site.put(f"/{number}.xml", urlset("https://a.example/")) for number in range(4)]
        there = site.put("/index.xml", index(*children))
        assert "names more than 3 sitemaps" in fault_of(there, Bounds(sitemaps=3))
        size = len(index(*children)) + 2 * len(urlset("https://a.example/"))
        said = fault_of(there, Bounds(bytes_in_all=size))
        assert f"/2.xml the sitemaps are larger than {size} bytes" in said

    def test_a_sitemap_of_an_index_that_is_gone_fails_the_list(self, site: Site) -> None:
        there = site.put(
            "/index.xml", index(site.put("/a.xml", urlset("https://a.example/")), f"{site.url}/gone.xml")
        )
        assert f"{site.url}/gone.xml answers 404" in fault_of(there)

    def test_what_passes_is_tried_again_and_what_does_not_is_not(self, site: Site) -> None:
        there = site.put("/a.xml", "", status=503)
        site.put("/a.xml", "", status=429)
        site.put("/a.xml", urlset("https://a.example/"))
        assert urls(there) == ["https://a.example/"]
        assert len(site.asked) == 3
        site.put("/b.xml", "", status=500)
        assert "/b.xml cannot be fetched: it answers 500" in fault_of(f"{site.url}/b.xml")
        assert site.asked.count("/b.xml") == 3
        assert "answers 403" in fault_of(site.put("/c.xml", "", status=403))
        assert site.asked.count("/c.xml") == 1

    def test_redirects_are_followed_but_not_for_ever(self, site: Site) -> None:
        site.put("/old.xml", "", status=301, Location="/new.xml")
        site.put("/new.xml", urlset("https://a.example/"))
        assert urls(f"{site.url}/old.xml") == ["https://a.example/"]
        assert "from one redirect to the next" in fault_of(
            site.put("/x.xml", "", status=302, Location="/x.xml")
        )
        assert "no http or https URL" in fault_of(
            site.put("/y.xml", "", status=302, Location="file:///etc/passwd")
        )

    def test_a_body_that_is_too_large_is_not_read_to_its_end(self, site: Site) -> None:
        packed = BytesIO()
        with gzip.GzipFile("a long name" * 20_000, "wb", fileobj=packed) as file:
            file.write(urlset("https://a.example/").encode())
        there = site.put("/large.xml.gz", packed.getvalue())
        assert "is larger than 100000 bytes" in fault_of(there, Bounds(bytes_each=100_000))

    def test_nobody_there_is_told_without_what_the_url_holds_in_secret(self) -> None:
        said = fault_of("http://me:hunter2@127.0.0.1:9/sitemap.xml?key=hunter2")
        assert "http://127.0.0.1:9/sitemap.xml?… cannot be fetched: ConnectError" in said
        assert "hunter2" not in said

    def test_the_day_may_stand_in_the_url(self, site: Site) -> None:
        site.put("/sitemaps/2026/01/31.xml", urlset("https://a.example/"))
        (one,) = load_target_lists(f"{site.url}/sitemaps/{{date:%Y/%m/%d}}.xml?key=hunter2")
        assert [type(entry) for entry in one.read(DAY)] == [Target]
        assert site.asked == ["/sitemaps/2026/01/31.xml?key=hunter2"]
        assert "hunter2" not in one.title(DAY)
