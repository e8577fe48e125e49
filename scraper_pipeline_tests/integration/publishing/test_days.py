"""The published file of a day shows what the ledger holds, whole or not at all, and is written only when it must be."""

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scraper_pipeline.ledger import Ledger, StoredPage
from scraper_pipeline.publishing import Place, PublishingError, open_place, parquet, publish_pages
from scraper_pipeline.publishing.places import Draft
from scraper_pipeline_tests.integration.ledger.driving import DAY, HandClock, execute, page
from scraper_pipeline_tests.integration.publishing.driving import column, site, store, table

COMPLETED = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC)


def test_a_row_has_everything_that_the_ledger_knows_of_a_page(
    ledger: Ledger, place: Place, clock: HandClock
) -> None:
    crawled = page(
        "# Ägypten \U0001f378",
        html="<h1>\u05d0</h1>",
        metadata={"b": [1, None], "a": {"ä": 2**60}},
        http_status=203,
        tokens_charged=2**40,
        completed_at=COMPLETED,
        parent_url="https://site.test/",
        depth=2,
    )
    bare = page(None, metadata={}, http_status=None, tokens_charged=None, completed_at=None)
    store(ledger, {"https://site.test/a": crawled}, topic="prices")
    store(ledger, {"https://site.test/b": bare}, Kunde="acme")
    publication = publish_pages(ledger, place, DAY)
    read = table(place)
    assert (publication.rows, publication.changed) == (2, True)
    assert publication.location.endswith("/pages/day=2026-03-01/pages.parquet")
    assert [(field.name, str(field.type)) for field in read.schema] == [
        *((name, "string") for name in ("job_id", "item_key", "account", "feed", "partition_key", "target_id")),
        ("attempt", "int32"), ("url", "string"), ("labels", "string"), ("http_status", "int32"),
        *((name, "string") for name in ("markdown", "html", "metadata")),
        ("tokens_charged", "int64"), ("content_sha256", "string"), ("is_empty", "bool"),
        ("completed_at", "timestamp[us, tz=UTC]"), ("stored_at", "timestamp[us, tz=UTC]"),
        ("parent_url", "string"), ("depth", "int32"), ("label_Kunde", "string"), ("label_topic", "string"),
    ]  # fmt: skip
    a, b = sorted(read.to_pylist(), key=lambda row: str(row["url"]))
    assert {name: a[name] for name in ("url", "markdown", "html", "http_status", "tokens_charged", "depth")} == {
        "url": "https://site.test/a", "markdown": "# Ägypten \U0001f378", "html": "<h1>\u05d0</h1>",
        "http_status": 203, "tokens_charged": 2**40, "depth": 2,
    }  # fmt: skip
    assert a["metadata"] == '{"a": {"ä": 1152921504606846976}, "b": [1, null]}'
    assert (a["completed_at"], a["stored_at"]) == (COMPLETED, clock())
    assert json.loads(a["labels"]) == {"topic": "prices"}
    assert (a["label_topic"], a["label_Kunde"], b["label_topic"], b["label_Kunde"]) == (
        "prices",
        None,
        None,
        "acme",
    )
    absent = ("markdown", "html", "http_status", "tokens_charged", "completed_at", "parent_url", "depth")
    assert [b[name] for name in absent] == [None] * len(absent)
    assert (b["is_empty"], b["metadata"]) == (True, "{}")


def test_publishing_again_changes_a_file_only_if_pages_came(ledger: Ledger, place: Place) -> None:
    store(ledger, site(1, 2))
    first = publish_pages(ledger, place, DAY)
    again = publish_pages(ledger, place, DAY)
    assert (first.changed, again.changed) == (True, False)
    assert (again.rows, again.size, again.columns) == (first.rows, first.size, first.columns)
    store(ledger, site(3), topic="late")
    late = publish_pages(ledger, place, DAY)
    assert (late.rows, late.changed, late.size > first.size) == (3, True, True)
    assert sorted(column(table(place), "markdown")) == ["# Page 1", "# Page 2", "# Page 3"]
    assert publish_pages(ledger, place, DAY).changed is False


def test_a_file_that_shows_the_day_already_is_not_touched(ledger: Ledger, folder: Place) -> None:
    store(ledger, site(1))
    path = Path(publish_pages(ledger, folder, DAY).location)
    os.utime(path, (1, 1))
    publish_pages(ledger, folder, DAY)
    assert path.stat().st_mtime == 1
    path.write_bytes(b"somebody's own, and no Parquet")
    assert publish_pages(ledger, folder, DAY).changed is True
    assert column(table(folder), "markdown") == ["# Page 1"]


def test_a_day_without_pages_is_a_file_without_rows(ledger: Ledger, place: Place) -> None:
    publication = publish_pages(ledger, place, DAY)
    assert (publication.rows, publication.changed, table(place).num_rows) == (0, True, 0)
    assert len(table(place).schema) == len(publication.columns) == 20


@dataclass(frozen=True)
class _Meanwhile:
    """A place at which something happens while its first file is written."""

    place: Place
    pages: list[dict[str, StoredPage]]
    ledger: Ledger

    def __getattr__(self, name: str) -> object:
        return getattr(self.place, name)

    @contextmanager
    def drafting(self, name: str) -> Iterator[Draft]:
        with self.place.drafting(name) as draft:

            def publish() -> None:
                if self.pages:
                    store(self.ledger, self.pages.pop())
                draft.publish()

            yield Draft(draft.path, publish)


def test_pages_that_came_while_the_file_was_written_are_in_it(ledger: Ledger, folder: Place) -> None:
    store(ledger, site(1))
    publication = publish_pages(ledger, _Meanwhile(folder, [site(2)], ledger), DAY)  # type: ignore[arg-type]
    assert (publication.rows, publication.changed) == (2, True)
    assert publication.revision == ledger.progress.revision(DAY)
    assert sorted(column(table(folder), "markdown")) == ["# Page 1", "# Page 2"]


def test_a_publication_that_is_broken_off_leaves_the_old_file_and_nothing_else(
    ledger: Ledger, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(ledger, site(1))
    publication = publish_pages(ledger, place, DAY)
    store(ledger, site(2))
    monkeypatch.setattr(parquet, "ROWS_IN_A_GROUP", 1)
    whole = pq.ParquetWriter.write_batch
    written: list[object] = []

    def break_off(writer: pq.ParquetWriter, batch: pa.RecordBatch) -> None:
        whole(writer, batch)
        written.append(batch)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_batch", break_off)
        with pytest.raises((PublishingError, OSError), match="No space left on device"):
            publish_pages(ledger, place, DAY)
    assert len(written) == 1
    assert column(table(place), "markdown") == ["# Page 1"]
    path = Path(publication.location)
    if path.exists():
        assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert publish_pages(ledger, place, DAY).rows == 2


def test_drafts_of_killed_publications_are_removed_after_a_day(ledger: Ledger, folder: Place) -> None:
    path = Path(publish_pages(ledger, folder, DAY).location)
    old, new = (path.with_name(f".pages.parquet.{age}.draft") for age in ("old", "new"))
    for draft in (old, new):
        draft.write_bytes(b"half a file")
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    store(ledger, site(1))
    publish_pages(ledger, folder, DAY)
    assert sorted(one.name for one in path.parent.iterdir()) == [new.name, path.name]


def test_the_file_may_be_read_by_whom_the_umask_lets(ledger: Ledger, folder: Place) -> None:
    previous = os.umask(0o022)
    try:
        path = Path(publish_pages(ledger, folder, DAY).location)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_link_stays_and_what_it_leads_to_is_replaced(ledger: Ledger, folder: Place, tmp_path: Path) -> None:
    link = Path(publish_pages(ledger, folder, DAY).location)
    real = link.rename(tmp_path / "elsewhere.parquet")
    link.symlink_to(real)
    store(ledger, site(1))
    publish_pages(ledger, folder, DAY)
    assert link.is_symlink()
    assert pq.read_metadata(real).num_rows == 1


@pytest.mark.parametrize("limit", ["ROWS_IN_A_GROUP", "CHARACTERS_IN_A_GROUP"])
def test_a_row_group_is_written_before_the_next_one_is_read(
    limit: str, ledger: Ledger, folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {url: page("x" * 1000) for url in site(*range(10))}
    store(ledger, pages)
    monkeypatch.setattr(parquet, limit, {"ROWS_IN_A_GROUP": 3, "CHARACTERS_IN_A_GROUP": 3000}[limit])
    file = pq.ParquetFile(publish_pages(ledger, folder, DAY).location)
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    assert [group.num_rows for group in groups] == [3, 3, 3, 1]
    assert groups[0].column(10).compression == "ZSTD"


def test_a_large_file_has_larger_groups_so_that_its_footer_stays_small(
    ledger: Ledger, folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(ledger, {url: page("x" * 1000) for url in site(*range(10))})
    monkeypatch.setattr(parquet, "CHARACTERS_IN_A_GROUP", 2000)
    monkeypatch.setattr(parquet, "SMALL_GROUPS", 2)
    footer = pq.read_metadata(publish_pages(ledger, folder, DAY).location)
    assert [footer.row_group(number).num_rows for number in range(footer.num_row_groups)] == [2, 2, 4, 2]


@pytest.mark.parametrize("statement", ["DELETE FROM results WHERE url LIKE '%/1'", "DELETE FROM results"])
def test_a_ledger_that_lost_pages_does_not_take_them_from_the_file(
    statement: str, ledger: Ledger, place: Place
) -> None:
    store(ledger, site(1, 2))
    publish_pages(ledger, place, DAY)
    execute(ledger, statement)
    with pytest.raises(PublishingError, match="no longer has all pages of 2026-03-01"):
        publish_pages(ledger, place, DAY)
    execute(ledger, "DELETE FROM submissions")
    if statement == "DELETE FROM results":
        with pytest.raises(PublishingError, match="no longer has all pages"):
            publish_pages(ledger, place, DAY)
    assert table(place).num_rows == 2


def test_a_place_that_cannot_be_written_to_is_named(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("a file where a folder should be")
    with pytest.raises(PublishingError, match=r"pages/day=2026-03-01/pages.parquet can't be .*directory"):
        publish_pages(ledger, open_place(str(tmp_path / "pages")), DAY)


def test_a_folder_may_be_given_as_a_url(tmp_path: Path) -> None:
    assert open_place(f"file://{tmp_path}/pages") == open_place(f"{tmp_path}/pages")


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("nonsense://bucket/pages", "nonsense://bucket/pages can't be used: .*Protocol not known"),
        ("gs://bucket/pages", "gs://bucket/pages needs another package: .*gcsfs"),
    ],
)
def test_a_store_that_nothing_here_can_speak_to_is_named(base: str, message: str) -> None:
    with pytest.raises(PublishingError, match=message):
        open_place(base)
