"""The life of accepted jobs."""

import asyncio
from datetime import UTC, datetime

import pytest

from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.extraction import Extraction
from scraper_pipeline.sandbox.faults import FaultBook, Faults
from scraper_pipeline.sandbox.fetching import FetchedPage, Fetcher, FetchFailed
from scraper_pipeline.sandbox.jobs import Job, JobBook
from scraper_pipeline.sandbox.requests import ExtractRequest


class Shelf(Fetcher):
    """Pages without a network: the URL says what happens."""

    def __init__(self) -> None:
        super().__init__(allow_any_host=False, timeout=1, connections=1, max_bytes=1)
        self.fetched: list[str] = []

    async def fetch(
        self, url: str, *, headers: dict[str, str] | None = None, seconds: float | None = None
    ) -> FetchedPage:
        self.fetched.append(url)
        await asyncio.sleep(0)
        if url == "refused":
            raise FetchFailed("PERMANENT_BLOCK", "no", retryable=False, http_status=403)
        if url == "explodes":
            raise RuntimeError("a bug in the parser")
        return FetchedPage(f"<p>{url}</p>", 200, is_cancelled=url == "cancelled")


class Works:
    """An extraction over a shelf, by a clock that stands still."""

    def __init__(self, faults: Faults | None = None, **options: float) -> None:
        self.now = 1000.0
        self.config = SandboxConfig.model_validate({"seed": 3, "min_delay": 0, "max_delay": 0} | options)
        self.book, self.shelf = JobBook(), Shelf()
        self.faults = FaultBook(3, faults or Faults())
        clock = Clock(now=lambda: datetime.fromtimestamp(self.now, UTC), monotonic=lambda: self.now)
        self.ended: list[Job] = []
        self.extraction = Extraction(
            self.config,
            book=self.book,
            faults=self.faults,
            clock=clock,
            fetcher=self.shelf,
            on_end=self.ended.append,
        )

    def accept(self, url: str) -> Job:
        request = {"url": url, "formats": ["markdown"], "processing_mode": "async"}
        return self.extraction.accept(ExtractRequest.model_validate(request))


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("url", "outcome", "code", "charged"),
    [
        ("page", "completed", None, 1),
        ("refused", "failed", "PERMANENT_BLOCK", 0),
        ("cancelled", "cancelled", "CANCELLED", 0),
        ("explodes", "failed", "INTERNAL_ERROR", 0),
    ],
)
async def test_only_a_completed_page_is_charged(url: str, outcome: str, code: str | None, charged: int):
    works = Works()
    job = works.accept(url)
    await settle()
    assert (job.outcome, job.error and job.error.code, job.charged) == (outcome, code, charged)
    assert works.book.charged == charged
    await works.extraction.close()


async def test_a_page_that_breaks_the_parser_does_not_stop_the_worker():
    works = Works(fetch_concurrency=1)
    works.accept("explodes")
    after = works.accept("page")
    await settle()
    assert after.outcome == "completed"
    await works.extraction.close()


async def test_waiting_jobs_cost_no_task_each():
    works = Works(min_delay=60, max_delay=60, fetch_concurrency=4)
    before = len(asyncio.all_tasks())
    for number in range(1000):
        works.accept(f"page {number}")
    await settle()
    assert len(asyncio.all_tasks()) - before <= 6
    await works.extraction.close()


async def test_delays_are_spread_and_repeat_with_the_seed():
    first, second = Works(min_delay=1, max_delay=3), Works(min_delay=1, max_delay=3)
    begins = [[works.accept("page").begin_time for _ in range(50)] for works in (first, second)]
    assert begins[0] == begins[1]
    assert 1000.3 <= min(begins[0]) < 1000.4
    assert 1000.8 < max(begins[0]) <= 1000.9
    await first.extraction.close()
    await second.extraction.close()


async def test_a_job_that_never_finishes_can_be_brought_to_its_end():
    works = Works(Faults.model_validate({"never_finish": True}))
    job = works.accept("page")
    await settle()
    assert job.outcome is None
    await works.extraction.finish_now(job)
    assert job.outcome == "completed"
    await works.extraction.close()


async def test_a_job_that_is_ended_twice_at_once_is_announced_and_charged_once():
    works = Works(Faults.model_validate({"never_finish": True}))
    job = works.accept("page")
    await asyncio.gather(works.extraction.finish_now(job), works.extraction.finish_now(job))
    assert works.shelf.fetched == ["page", "page"], "the second began before the first had ended"
    assert (works.ended, works.book.charged) == ([job], 1)
    await works.extraction.close()


@pytest.mark.parametrize(
    ("order", "retryable"),
    [
        ({"code": "CAPTCHA_CHALLENGE"}, True),
        ({"code": "AUTH_REQUIRED"}, False),
        ({"code": "AUTH_REQUIRED", "retryable": True}, True),
        ({"code": "SOMETHING_NEW"}, False),
    ],
)
async def test_a_job_can_be_told_to_fail_with_any_code(order: dict[str, object], retryable: bool):
    works = Works(Faults.model_validate({"job_failed": order}))
    job = works.accept("page")
    await settle()
    assert job.error is not None
    assert (job.error.code, job.error.retryable, works.shelf.fetched) == (order["code"], retryable, [])
    await works.extraction.close()


async def test_the_shifted_clock_stamps_jobs():
    works = Works(Faults.model_validate({"clock_shift": 300}))
    job = works.accept("page")
    await settle()
    assert job.created_at == job.completed_at == datetime.fromtimestamp(1300, UTC)
    await works.extraction.close()
