"""A look at the states of jobs by the service's listing, whichever way costs fewer requests. Fetches no content."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from scraper_pipeline.ledger import DueJob, Ledger
from scraper_pipeline.lifecycle.listing import PAGE_SIZE
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import JobSummary, ScraperClient


@dataclass
class Looking:
    """A look at some jobs under way: whom it asks, until when, and what it has seen so far."""

    ledger: Ledger
    client: ScraperClient
    policy: LifecyclePolicy
    end: float
    monotonic: Callable[[], float]
    clock: ServiceClock
    requests: int = 0
    seen: dict[str, JobSummary | None] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.end - self.monotonic())

    @property
    def is_over(self) -> bool:
        return self.seconds_left == 0

    async def look(self, due: list[DueJob]) -> None:
        """See each due job's line, or None where a whole listing lacks it, by the cheaper of the two ways."""
        if not due:
            return
        first, last = min(job.sent_at for job in due), max(job.accepted_at for job in due)
        pages = max(1, ceil(self.ledger.news.count_jobs_accepted(first, last) / PAGE_SIZE))
        if len(due) <= pages:
            await self._look_one_by_one(due)
        elif not await self._look_by_listing(due, first, last):
            middle = len(due) // 2  # the listing was cut short: the halves have shorter ones
            await self.look(due[:middle])
            await self.look(due[middle:])

    async def _look_one_by_one(self, due: list[DueJob]) -> None:
        for job in due:
            if self.is_over:
                return
            listing = await self.client.list_jobs(job_id=job.job_id, page_size=1, budget=self.seconds_left)
            self.requests += 1
            self.seen[job.job_id] = next((line for line in listing.jobs if line.job_id == job.job_id), None)

    async def _look_by_listing(self, due: list[DueJob], first: datetime, last: datetime) -> bool:
        """Read the listing of the time in which these jobs were made; False if the service won't list it whole."""
        wanted = {job.job_id for job in due}
        skew = timedelta(seconds=self.policy.clock_skew)
        page, page_count, is_capped = 1, 1, False
        while page <= page_count and not self.is_over:
            listing = await self.client.list_jobs(
                start=self.clock.earliest(first) - skew,
                end=self.clock.latest(last) + skew,
                page=page,
                page_size=PAGE_SIZE,
                budget=self.seconds_left,
            )
            self.requests += 1
            if self.clock.learn(listing) > self.policy.clock_skew and page == 1:
                continue  # its clock is not ours: the window was another one than we meant
            found = {line.job_id: line for line in listing.jobs if line.job_id in wanted}
            self.seen.update(found)
            wanted -= found.keys()
            if not wanted:
                return True
            is_capped = is_capped or listing.is_capped
            at_least = page + 1 if listing.page_count is None and len(listing.jobs) == PAGE_SIZE else page
            page_count = max(page_count, listing.page_count or at_least)
            page += 1
        if self.is_over:
            return True  # what was not seen stays due
        if is_capped and len(due) > 1:
            return False
        self.seen.update((job_id, None) for job_id in wanted)
        return True
