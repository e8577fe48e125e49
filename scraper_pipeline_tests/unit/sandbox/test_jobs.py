"""The job book and its listing."""

import time as clocks
from datetime import UTC, datetime, timedelta

import pytest

from scraper_pipeline.sandbox.jobs import Content, Job, JobBook, Listing
from scraper_pipeline.sandbox.requests import ExtractRequest, ListingQuery

NOON = datetime(2026, 5, 27, 12, tzinfo=UTC)


def make_job(ordinal: int, *, minutes: float | None = None, url: str | None = None, lag: float = 0.0) -> Job:
    created = NOON + timedelta(minutes=ordinal if minutes is None else minutes)
    formats = ("markdown",) if ordinal % 2 else ("html",)
    request = ExtractRequest.model_validate({"url": url or f"http://x/{ordinal}", "formats": formats})
    return Job(
        ordinal=ordinal,
        request=request,
        created_at=created,
        created_time=float(ordinal),
        begin_time=ordinal + 1.0,
        listed_time=ordinal + lag,
    )


def filled(count: int) -> tuple[JobBook, list[Job]]:
    book, jobs = JobBook(), [make_job(ordinal) for ordinal in range(count)]
    for job in jobs:
        book.add(job)
    return book, jobs


def listed(
    book: JobBook, *, time: float = 1e9, capped_above: int | None = None, **query: object
) -> Listing[Job]:
    return book.listing(ListingQuery.model_validate(query), time=time, capped_above=capped_above)


def ordinals(listing: Listing[Job]) -> list[int]:
    return [job.ordinal for job in listing.jobs]


def test_the_newest_job_comes_first_and_pages_follow_on():
    book, _ = filled(5)
    assert ordinals(listed(book, page_size=2)) == [4, 3]
    assert ordinals(listed(book, page_size=2, page=3)) == [0]
    beyond = listed(book, page_size=2, page=4)
    assert (ordinals(beyond), beyond.page_count, beyond.is_capped) == ([], 3, False)


def test_both_ends_of_a_window_belong_to_it():
    book, _ = filled(10)
    window = listed(book, start_date="2026-05-27T12:03:00Z", end_date="2026-05-27T14:05:00+02:00")
    assert ordinals(window) == [5, 4, 3]
    assert ordinals(listed(book, end_date="2026-05-27T12:01:00")) == [1, 0]


def test_every_filter_narrows_the_listing_and_they_combine():
    book, jobs = filled(10)
    book.end(jobs[4], "completed", at=NOON, time=0)
    book.end(jobs[6], "completed", at=NOON, time=0)
    book.end(jobs[5], "failed", at=NOON, time=0)
    assert ordinals(listed(book, status="completed")) == [6, 4]
    assert ordinals(listed(book, output="markdown")) == [9, 7, 5, 3, 1]
    assert ordinals(listed(book, url="http://x/3")) == [3]
    assert ordinals(listed(book, job_id=jobs[2].job_id)) == [2]
    assert ordinals(listed(book, job_id=jobs[2].job_id, url="http://x/3")) == []
    assert ordinals(listed(book, job_id="nobody")) == []
    assert ordinals(listed(book, status="completed", end_date="2026-05-27T12:05:00Z")) == [4]


def test_a_clock_that_was_set_back_leaves_the_listing_in_order():
    book = JobBook()
    for ordinal, minutes in enumerate((10, 11, 3, 12)):
        book.add(make_job(ordinal, minutes=minutes))
    assert ordinals(listed(book)) == [3, 1, 0, 2]
    assert ordinals(listed(book, end_date="2026-05-27T12:05:00Z")) == [2]


def test_a_lagging_job_is_listed_only_after_its_lag():
    book = JobBook()
    book.add(make_job(0))
    book.add(make_job(1, lag=30))
    assert ordinals(listed(book, time=30.9)) == [0]
    assert ordinals(listed(book, time=31.0)) == [1, 0]


def test_a_cap_hides_the_oldest_matches_and_says_so():
    book, _ = filled(10)
    capped = listed(book, page_size=2, page=2, capped_above=4)
    assert (ordinals(capped), capped.page_count, capped.is_capped) == ([7, 6], 2, True)
    assert ordinals(listed(book, page_size=2, page=3, capped_above=4)) == []
    assert not listed(book, capped_above=10).is_capped


def test_the_end_of_a_job_is_final_and_charged_once():
    book, jobs = filled(1)
    book.end(jobs[0], "completed", at=NOON, time=1, charged=1)
    book.end(jobs[0], "failed", at=NOON, time=2, charged=1)
    assert (jobs[0].outcome, jobs[0].completed_time, book.charged, book.unfinished) == ("completed", 1, 1, 0)


def test_a_job_is_queued_then_processing_then_what_it_ended_as():
    book, jobs = filled(1)
    assert [jobs[0].status(time) for time in (0.0, 0.9, 1.0, 99.0)] == [
        "queued",
        "queued",
        "processing",
        "processing",
    ]
    jobs[0].shown_status = "archived"
    assert jobs[0].status(5.0) == "archived"
    book.end(jobs[0], "cancelled", at=NOON, time=6)
    assert jobs[0].status(7.0) == "cancelled"


def test_twenty_thousand_jobs_are_listed_quickly():
    book, _ = filled(20_000)
    before = clocks.process_time()
    for page in range(1, 101):
        assert len(listed(book, page=page, start_date="2026-05-27T12:30:00Z").jobs) == 100
    assert clocks.process_time() - before < 2.0


@pytest.mark.parametrize("text", ["", "ascii", "Ελλάδα 👩‍🔧 नमस्ते", "a\0b"])
def test_content_comes_out_as_it_went_in(text: str):
    assert Content.of(text).text == text
