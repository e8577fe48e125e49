"""The service's list of jobs, read window by window: whole, or known not to be."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from scraper_pipeline.ledger import Kind
from scraper_pipeline.scraper_api import (
    BatchListing,
    BatchSummary,
    CrawlListing,
    CrawlSummary,
    DeadlineExceeded,
    JobListing,
    JobSummary,
    NetworkError,
    ScraperClient,
)

PAGE_SIZE = 100
SHORTEST_WINDOW = timedelta(seconds=1)
S = TypeVar("S", JobSummary, BatchSummary, CrawlSummary)
AnyListing = JobListing | BatchListing | CrawlListing
_TOO_LONG = "list_jobs: the time allowed was over before the listing was complete"


class Line(Protocol):
    """What any listing, and any look at one job, tells of it."""

    @property
    def job_id(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def is_terminal(self) -> bool: ...


def lister(client: ScraperClient, kind: Kind) -> Callable[..., Awaitable[AnyListing]]:
    """The call that lists jobs of a kind; each takes ``start``, ``end``, ``page``, ``page_size`` and ``budget``."""
    if kind is Kind.BATCH:
        return client.list_batches
    return client.list_crawls if kind is Kind.CRAWL else client.list_jobs


@dataclass
class WindowReader(Generic[S]):
    """Reads whole windows within a limit of time that all calls share; ``end`` is on the ``monotonic`` clock.

    ``list_page`` is the client's call for one kind of job.

    ``seen`` has every line that was read, also of windows that were cut short; a later line replaces an earlier one.
    """

    list_page: Callable[..., Awaitable[Any]]
    end: float
    monotonic: Callable[[], float]
    requests: int = 0
    seen: dict[str, S] = field(default_factory=dict)

    async def page(self, start: datetime | None, end: datetime | None, number: int, size: int) -> Any:
        """One page of the jobs made within [start, end], service's time. Raises ScraperError."""
        seconds_left = self.end - self.monotonic()
        if seconds_left <= 0:
            raise DeadlineExceeded(_TOO_LONG)
        self.requests += 1
        try:
            return await self.list_page(
                start=start, end=end, page=number, page_size=size, budget=seconds_left
            )
        except NetworkError:
            if self.monotonic() < self.end:
                raise
            raise DeadlineExceeded(_TOO_LONG) from None

    async def read(self, start: datetime, end: datetime) -> tuple[list[S], bool]:
        """The jobs made within [start, end], and whether they are all of them.

        Goes by the count of pages, not by an empty one, and reads a window in halves where the service cuts it short.
        A page with too few lines, of which the last one has one at least, or a line that can't be read, leaves the
        listing in doubt.
        """
        found: dict[str, S] = {}
        page, page_count, is_whole = 1, 1, True
        while page <= page_count:
            listing = await self.page(start, end, page, PAGE_SIZE)
            if listing.is_capped and end - start > SHORTEST_WINDOW:
                return await self._read_halves(start, end)
            found.update((job.job_id, job) for job in listing.jobs)
            self.seen.update((job.job_id, job) for job in listing.jobs)
            page_size, last = listing.page_size or PAGE_SIZE, listing.page_count or 0
            is_short = len(listing.jobs) < (page_size if page < last else int(page == last))
            is_whole = is_whole and not (listing.is_capped or listing.unreadable or is_short)
            more = page + 1 if listing.page_count is None and len(listing.jobs) == PAGE_SIZE else page
            page_count = max(page_count, listing.page_count or more)
            page += 1
        return list(found.values()), is_whole

    async def _read_halves(self, start: datetime, end: datetime) -> tuple[list[S], bool]:
        middle = start + (end - start) / 2
        first: list[S]
        second: list[S]
        first, first_is_whole = await self.read(start, middle)
        second, second_is_whole = await self.read(middle, end)
        jobs: dict[str, S] = {}
        jobs.update((job.job_id, job) for part in (first, second) for job in part)
        return list(jobs.values()), first_is_whole and second_is_whole
