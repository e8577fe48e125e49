"""A look at the states of jobs by the service's listing, whichever way costs fewer requests. Fetches no content."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from scraper_pipeline.ledger import JOB_KINDS, DueJob, Kind, Ledger
from scraper_pipeline.lifecycle.listing import PAGE_SIZE, Line, lister
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import JobExpired, JobNotFound, ScraperClient, ScraperError


@dataclass(frozen=True)
class Gone:
    """A job that the service says has ended long ago: settlement finds out what is left of it."""

    job_id: str
    status: str = "expired"
    is_terminal: bool = True


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
    seen: dict[str, Line | None] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.end - self.monotonic())

    @property
    def is_over(self) -> bool:
        return self.seconds_left == 0

    async def look(self, due: list[DueJob]) -> None:
        """See each due job's line, or None where a whole listing lacks it, by the cheaper of the two ways."""
        failures: list[ScraperError] = []
        for kind in JOB_KINDS:
            try:
                await self._look_at_kind(kind, [job for job in due if job.kind == kind])
            except ScraperError as error:
                if error.scope == "account":
                    raise
                failures.append(error)
        if failures and not self.seen:
            raise failures[0]

    async def _look_at_kind(self, kind: Kind, due: list[DueJob]) -> None:
        if not due:
            return
        first, last = min(job.sent_at for job in due), max(job.accepted_at for job in due)
        pages = max(1, ceil(self.ledger.news.count_jobs_accepted(first, last, kind) / PAGE_SIZE))
        if len(due) <= pages:
            await self._look_one_by_one(kind, due)
        elif not await self._look_by_listing(kind, due, first, last):
            middle = len(due) // 2  # the listing was cut short: the halves have shorter ones
            await self._look_at_kind(kind, due[:middle])
            await self._look_at_kind(kind, due[middle:])

    async def _look_one_by_one(self, kind: Kind, due: list[DueJob]) -> None:
        """Ask for each; what is the matter with one job keeps no other from being seen."""
        failures: list[ScraperError] = []
        for job in due:
            if self.is_over:
                break
            self.requests += 1
            try:
                self.seen[job.job_id] = await self._look_at(kind, job.job_id)
            except ScraperError as error:
                if kind is Kind.EXTRACT or error.scope == "account":
                    raise
                failures.append(error)
                self.unreadable.add(job.job_id)
        if failures and not self.seen:
            # Is it these jobs, or the service? An outage is an error.
            self.requests += 1
            await lister(self.client, kind)(page_size=1, budget=self.seconds_left)

    async def _look_at(self, kind: Kind, job_id: str) -> Line | None:
        if kind is Kind.EXTRACT:
            listing = await self.client.list_jobs(job_id=job_id, page_size=1, budget=self.seconds_left)
            return next((line for line in listing.jobs if line.job_id == job_id), None)
        look = self.client.look_at_batch if kind is Kind.BATCH else self.client.look_at_crawl
        try:
            whole: Line = await look(job_id, budget=self.seconds_left)
        except JobNotFound:
            return None
        except JobExpired:
            return Gone(job_id)
        return whole

    async def _look_by_listing(self, kind: Kind, due: list[DueJob], first: datetime, last: datetime) -> bool:
        """Read the listing of the time in which these jobs were made; False if the service won't list it whole."""
        wanted = {job.job_id for job in due}
        skew = timedelta(seconds=self.policy.clock_skew)
        page, page_count, is_capped = 1, 1, False
        while page <= page_count and not self.is_over:
            listing = await lister(self.client, kind)(
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
