"""The life of a batch or crawl after it was accepted: its pages are had one by one, and it ends with the last."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

from scraper_pipeline.sandbox.agenda import Agenda
from scraper_pipeline.sandbox.bulk.book import BulkBook, BulkJob, Item
from scraper_pipeline.sandbox.bulk.links import is_within, links_of
from scraper_pipeline.sandbox.chance import draw
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.extraction import QUEUED_SHARE
from scraper_pipeline.sandbox.faults import FaultBook
from scraper_pipeline.sandbox.fetching import Fetcher, FetchFailed, check_status, timed_out
from scraper_pipeline.sandbox.jobs import Content
from scraper_pipeline.sandbox.requests import BatchRequest, CrawlRequest
from scraper_pipeline.sandbox.site import Site


@dataclass(frozen=True, slots=True)
class _Found:
    html: Callable[[], str]
    http_status: int
    is_cancelled: bool


class BulkWork:
    """Accepts batches or crawls into a book and brings each page of them to its end.

    The sandbox's own pages are looked up rather than fetched, and their content is made when somebody asks for it, so
    that a thousand of them cost next to nothing. What other sites give is fetched, and kept packed.
    """

    def __init__(
        self,
        config: SandboxConfig,
        *,
        book: BulkBook,
        faults: FaultBook,
        clock: Clock,
        fetcher: Fetcher,
        site: Site,
        can_pay: Callable[[], bool],
        on_end: Callable[[BulkJob], None],
    ) -> None:
        self._config = config
        self._book = book
        self._faults = faults
        self._clock = clock
        self._fetcher = fetcher
        self._site = site
        self._can_pay = can_pay
        self._on_end = on_end
        self._agenda: Agenda[tuple[BulkJob, Item | None]] = Agenda(
            clock, self._work, workers=config.fetch_concurrency
        )

    def accept(self, request: BatchRequest | CrawlRequest, base_url: str) -> BulkJob:
        """Make a batch or crawl. `base_url` is the sandbox's own, with a slash. Must be called on the event loop."""
        faults, now = self._faults.faults, self._clock.monotonic()
        job = BulkJob(
            request,
            ordinal=len(self._book),
            created_at=self._clock.now() + timedelta(seconds=faults.clock_shift),
            created_time=now,
            listed_time=now + faults.listing_lag,
            site=f"{base_url}site/",
        )
        if unknown := self._faults.strike("unknown_status", faults.unknown_status, job.aim):
            job.shown_status = unknown.status
        if end := self._faults.strike("bulk_ends_as", faults.bulk_ends_as, job.aim):
            job.ends_as = end.status
        self._book.add(job)
        if isinstance(request, BatchRequest):
            for index, url in request.valid_urls:
                self._add(job, url, input_index=index)
        else:
            self._add(job, request.url)
        if not job.pending:
            self._agenda.add((job, None))
        return job

    def cancel(self, job: BulkJob) -> int:
        """End what has not begun; the number of pages that have, and come to their own end."""
        now = self._clock.monotonic()
        job.is_cancelled = True
        for item in [item for item in job.pending.values() if item.begin_time > now]:
            item.error_code, item.error_message = "CANCELLED", "The job was cancelled"
            self._book.end_item(job, item, "cancelled")
        in_flight = len(job.pending)
        if not in_flight:
            self._end(job)
        return in_flight

    async def finish_now(self, job: BulkJob) -> None:
        """Bring every page that is known to its end without further delay, those that never would have included.

        A page whose site keeps its visitor waiting is given up when its time is over, as ever.
        """
        await asyncio.gather(*(self._work((job, item)) for item in job.pending.values()))

    async def close(self) -> None:
        await self._agenda.close()

    def _add(self, job: BulkJob, url: str, *, input_index: int = 0, parent: Item | None = None) -> None:
        faults, config, now = self._faults.faults, self._config, self._clock.monotonic()
        position = len(job.items)
        spread = config.max_delay - config.min_delay
        delay = config.min_delay + spread * draw(config.seed, "delay", job.kind, job.ordinal, position)
        if late := self._faults.strike("late_job", faults.late_job, url):
            delay += late.seconds
        missing = self._faults.strike("item_missing", faults.item_missing, url)
        item = Item(
            url,
            position,
            begin_time=now + delay * QUEUED_SHARE,
            input_index=input_index,
            parent_url=None if parent is None else parent.url,
            depth=1 if parent is None else parent.depth + 1,
            is_hidden=missing is not None,
        )
        has_work = missing is None or missing.extracted
        self._book.add_item(job, item, has_work=has_work)
        if has_work and not self._faults.strike("never_finish", faults.never_finish, url):
            self._agenda.add((job, item), at=now + delay)

    async def _work(self, entry: tuple[BulkJob, Item | None]) -> None:
        job, item = entry
        if item is not None and item.outcome is None:
            await self._extract(job, item)
        if job.outcome is None and not job.pending:
            self._end(job)

    async def _extract(self, job: BulkJob, item: Item) -> None:
        started = self._clock.monotonic()
        try:
            found = await self._load(job, item)
            if found is None:
                return
            item.http_status = found.http_status
            if found.is_cancelled or self._faults.strike(
                "job_cancelled", self._faults.faults.job_cancelled, item.url
            ):
                item.error_code, item.error_message = "CANCELLED", "The page was cancelled"
                self._book.end_item(job, item, "cancelled")
                return
            if not self._can_pay():
                raise FetchFailed("PAYMENT_REQUIRED", "The balance is used up", retryable=False)
            item.html = found.html
            self._follow_links(job, item)
        except FetchFailed as failure:
            item.error_code, item.error_message = failure.code, failure.message
            item.http_status = failure.http_status or item.http_status
            self._book.end_item(job, item, "failed")
        except Exception as error:  # whatever a page does to the parser ends its own item, never a worker
            item.error_code = "INTERNAL_ERROR"
            item.error_message = f"The page could not be converted ({type(error).__name__})"
            self._book.end_item(job, item, "failed")
        else:
            self._book.end_item(job, item, "completed", charged=1)
        finally:
            item.duration_ms = round((self._clock.monotonic() - started) * 1000)

    async def _load(self, job: BulkJob, item: Item) -> _Found | None:
        """What the page's site answers; None where it keeps its visitor waiting."""
        if told := self._faults.strike("job_failed", self._faults.faults.job_failed, item.url):
            raise FetchFailed(told.code, told.message, retryable=False)
        if item.is_stalled:
            raise timed_out(self._config.fetch_timeout)
        path = urlsplit(item.url).path if item.url.startswith(job.site) else ""
        answer = self._site.visit(path)
        if answer is None:
            page = await self._fetcher.fetch(item.url, headers=job.request.headers)
            kept = await asyncio.to_thread(Content.of, page.html)
            return _Found(partial(_unpack, kept), page.http_status, page.is_cancelled)
        if answer.is_slow:
            item.is_stalled = True
            self._agenda.add((job, item), at=self._clock.monotonic() + self._config.fetch_timeout)
            return None
        check_status(answer.status)
        return _Found(answer.html, answer.status, answer.is_cancelled)

    def _follow_links(self, job: BulkJob, item: Item) -> None:
        request = job.request
        if not isinstance(request, CrawlRequest) or item.html is None:
            return
        item.links = links_of(item.html(), item.url)
        if job.is_cancelled or item.depth >= request.depth:
            return
        for link in item.links:
            if len(job.items) >= request.limit:
                break
            if link not in job.known_urls and is_within(link, request):
                self._add(job, link, parent=item)

    def _end(self, job: BulkJob) -> None:
        at = self._clock.now() + timedelta(seconds=self._faults.faults.clock_shift)
        self._book.end(job, at=at, time=self._clock.monotonic())
        self._on_end(job)


def _unpack(kept: Content) -> str:
    return kept.text
