"""Batches, crawls and their items are read leniently, and show neither content nor credentials."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from scraper_pipeline.scraper_api import (
    AcceptedBatch,
    Batch,
    BatchItem,
    BatchListing,
    Crawl,
    CrawlItem,
    CrawlListing,
    JobError,
    Page,
)

NOW = datetime(2026, 5, 27, tzinfo=UTC)
CLOCKS = {"requested_at": NOW, "received_at": NOW}


def item(**fields: Any) -> BatchItem:
    return BatchItem.model_validate({"url": "https://a/", "status": "completed", **fields})


def batch(**fields: Any) -> Batch:
    return Batch.model_validate({"job_id": "b-1", "status": "completed", "results": [], **fields})


def test_an_item_needs_nothing_but_its_url_and_status() -> None:
    read = item(input_index="first", data=7, metadata=[], error_code=3, error_message=None)

    assert (read.input_index, read.page, read.metadata, read.error) == (None, None, {}, None)
    assert (read.tokens_charged, read.http_status, read.is_terminal) == (None, None, True)


def test_an_items_error_has_no_flag_so_that_the_table_decides() -> None:
    failed = item(status="failed", error_code="TIMEOUT", error_message="a\nb", data=None)
    refused = item(status="failed", error_code="PERMANENT_BLOCK")

    assert failed.error == JobError(code="TIMEOUT", message="a b")
    assert failed.error is not None
    assert failed.error.is_retryable
    assert refused.error is not None
    assert not refused.error.is_retryable
    assert item(error_message="only words").error == JobError(code="UNKNOWN", message="only words")


def test_what_was_charged_is_told_in_an_items_metadata() -> None:
    read = item(data={"markdown": "# A", "html": None}, metadata={"http_status": 404, "tokens_charged": 1})

    assert read.page == Page(markdown="# A")
    assert (read.http_status, read.tokens_charged) == (404, 1)
    assert item(metadata={"tokens_charged": 1}, tokens_charged=0).tokens_charged == 0


def test_items_that_cannot_be_told_apart_are_counted_and_hide_no_others() -> None:
    read = batch(results=[{"url": "https://a/", "status": "completed"}, {"url": "https://b/"}, None, 7])

    assert [one.url for one in read.items] == ["https://a/"]
    assert read.unreadable == 3


@pytest.mark.parametrize("results", [None, {}, "none", 7])
def test_an_ended_batch_without_a_list_of_items_is_not_taken_for_empty(results: object) -> None:
    with pytest.raises(ValidationError):
        batch(results=results)


@pytest.mark.parametrize("status", ["queued", "processing", "archived"])
def test_a_running_batch_may_have_no_list_of_items_yet(status: str) -> None:
    assert batch(status=status, results=None).items == ()


def test_counts_that_were_not_told_are_not_taken_for_none() -> None:
    read = batch(total_urls="many", completed_urls=2.0, token_summary={"tokens_charged_total": 2})

    assert (read.total, read.completed_urls, read.failed_urls) == (None, 2, None)
    assert (read.tokens_charged, read.tokens_reserved) == (2, None)
    assert batch(token_summary=None).tokens_charged is None


@pytest.mark.parametrize(
    ("fields", "is_at_rest"),
    [
        ({"status": "completed", "pending_urls": 0}, True),
        ({"status": "completed"}, True),
        ({"status": "cancelled", "pending_urls": 2}, False),
        ({"status": "processing", "pending_urls": 0}, False),
        ({"status": "archived"}, False),
    ],
)
def test_a_cancelled_batch_rests_only_when_its_last_page_has_ended(
    fields: dict[str, Any], is_at_rest: bool
) -> None:
    assert batch(**fields).is_at_rest is is_at_rest


def test_a_cancelled_crawl_rests_only_when_its_last_page_has_ended() -> None:
    counts = {"total_pages": 3, "completed_pages": 1, "failed_pages": 1, "cancelled_pages": 0}
    body = {"job_id": "c-1", "status": "cancelled", "results": [], **counts}

    assert not Crawl.model_validate(body).is_at_rest
    assert Crawl.model_validate(body | {"cancelled_pages": 1}).is_at_rest


def test_a_crawls_page_knows_where_it_was_found() -> None:
    read = CrawlItem.model_validate(
        {
            "url": "https://a/b",
            "status": "completed",
            "parent_url": "https://a/",
            "depth": 2,
            "links": ["https://a/c", 7, None],
        }
    )

    assert (read.parent_url, read.depth, read.links) == ("https://a/", 2, ("https://a/c",))


def test_an_accepted_batch_needs_nothing_but_its_id() -> None:
    accepted = AcceptedBatch.model_validate({"job_id": "b-1", "accepted_urls": "2", "invalid_urls": "none"})

    assert (accepted.job_id, accepted.accepted_urls, accepted.invalid_urls) == ("b-1", None, ())


def test_neither_content_nor_credentials_are_in_a_repr_or_a_validation_error() -> None:
    page = {
        "url": "https://a/",
        "status": "completed",
        "data": {"markdown": "secret"},
        "metadata": {"t": "secret"},
    }
    shown = repr(batch(results=[page], batch_config={"headers": {"Cookie": "secret"}}))
    with pytest.raises(ValidationError) as raised:
        batch(job_id=["secret"], results=[page])

    assert "secret" not in shown + str(raised.value)


def test_lines_of_the_listings_that_have_no_id_are_counted() -> None:
    line = {"job_id": "b-1", "status": "queued", "accepted_urls": 2, "config": {"headers": {"A": "b"}}}
    listing = BatchListing.model_validate({"jobs": [line, {"status": "queued"}], "page_count": 1, **CLOCKS})

    assert [(one.job_id, one.accepted_urls, one.is_terminal) for one in listing.jobs] == [("b-1", 2, False)]
    assert (listing.unreadable, listing.is_capped, listing.page_count) == (1, False, 1)
    crawls = CrawlListing.model_validate({"items": [{**line, "url": "https://a/"}], "is_capped": 1, **CLOCKS})
    assert [one.url for one in crawls.jobs] == ["https://a/"]
    assert crawls.is_capped
