"""The poll: looks at jobs whose look is due, by listing, and reports the ended ones as news. Fetches no content."""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from time import monotonic as system_monotonic

from scraper_pipeline.ledger import Channel, DueJob, Ledger
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import TERMINAL_STATUSES, JobSummary, ScraperClient

PAGE_SIZE = 100
LOOK_LIMIT = 10_000
POLL_LEASE = "poll"
EVERYWHERE = "*"
KNOWN_STATUSES = TERMINAL_STATUSES | {"queued", "processing"}
_MISSING_AFTER_LOOKS = 3


@dataclass
class PollReport:
    """What one poll found. ``requests`` are listing calls; ``unknown_statuses`` are kept verbatim and not terminal."""

    looked: int = 0
    ended: int = 0
    overdue: int = 0
    missing: int = 0
    requests: int = 0
    unknown_statuses: set[str] = field(default_factory=set)


async def poll_jobs(
    ledger: Ledger,
    client: ScraperClient,
    policy: LifecyclePolicy,
    *,
    seconds: float = 20.0,
    monotonic: Callable[[], float] = system_monotonic,
    chance: random.Random | None = None,
    clock: ServiceClock | None = None,
) -> PollReport:
    """Look at every job that is due, by the cheaper of the two ways, within about ``seconds``.

    Pollers take turns, and each round holds the turn long enough to keep to ``status_requests_per_second`` over all
    processes; a poller whose turn it isn't does nothing. Raises ScraperError; what was not looked at stays due.
    """
    report, chance = PollReport(), chance or random.Random()  # noqa: S311 (jitter)
    holder = uuid.uuid4().hex
    if not ledger.leases.take(POLL_LEASE, EVERYWHERE, holder, seconds + 10):
        return report
    try:
        due = ledger.news.take_due_jobs(LOOK_LIMIT)
        if due:
            end = monotonic() + seconds
            this_round = _Round(ledger, client, policy, report, end, monotonic, clock or ServiceClock())
            await this_round.look(due)
            _conclude(ledger, policy, due, this_round.seen, report, chance)
    finally:
        rest = report.requests / policy.status_requests_per_second
        ledger.leases.take(POLL_LEASE, EVERYWHERE, holder, rest, force=True)
    return report


@dataclass
class _Round:
    """One poll under way: whom it asks, until when, and what it has seen so far."""

    ledger: Ledger
    client: ScraperClient
    policy: LifecyclePolicy
    report: PollReport
    end: float
    monotonic: Callable[[], float]
    clock: ServiceClock
    seen: dict[str, JobSummary | None] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.end - self.monotonic())

    @property
    def is_over(self) -> bool:
        return self.seconds_left == 0

    async def look(self, due: list[DueJob]) -> None:
        """See each due job's line, or None where a whole listing lacks it, by the cheaper of the two ways."""
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
            self.report.requests += 1
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
            self.report.requests += 1
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


def _conclude(
    ledger: Ledger,
    policy: LifecyclePolicy,
    due: list[DueJob],
    seen: dict[str, JobSummary | None],
    report: PollReport,
    chance: random.Random,
) -> None:
    now = ledger.clock()
    ended, to_settle = [], []
    looks: dict[str, datetime | None] = {}
    statuses: dict[str, str] = {}
    for job in due:
        if job.job_id not in seen:
            continue  # not reached: its look stays due
        line = seen[job.job_id]
        report.looked += 1
        looks[job.job_id] = now + policy.look_delay(job.looks + 1, chance)
        if line is not None:
            statuses[job.job_id] = line.status
            if line.status not in KNOWN_STATUSES:
                report.unknown_statuses.add(line.status)
        if line is not None and line.is_terminal:
            ended.append(job.job_id)
            looks[job.job_id] = None
        elif job.given_up:
            watched = not is_past(ledger, job.accepted_at, policy.watch_for)
            looks[job.job_id] = now + timedelta(minutes=10) if watched else None
        elif is_past(ledger, job.accepted_at, policy.job_timeout):
            report.overdue += 1
            to_settle.append(job.job_id)
            looks[job.job_id] = None
        elif line is None and job.looks >= _MISSING_AFTER_LOOKS:
            report.missing += 1
            to_settle.append(job.job_id)
            looks[job.job_id] = None
    report.ended = len(ended)
    ledger.news.record(ended, Channel.POLL)
    ledger.news.request_settlement(to_settle)
    ledger.news.schedule_looks(looks, statuses)
