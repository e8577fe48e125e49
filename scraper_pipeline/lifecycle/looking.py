"""A look at the states of jobs by the service's listing, whichever way costs fewer requests. Fetches no content."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil, inf

from scraper_pipeline.ledger import JOB_KINDS, DueJob, Kind, Ledger
from scraper_pipeline.lifecycle.listing import PAGE_SIZE, AnyListing, Line, lister
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import JobExpired, JobNotFound, ScraperClient, ScraperError

_NEAR = timedelta(seconds=1)  # what is made within a second of a job may be listed before it
_MOST_CUTS = 8  # each asks the ledger twice
_ENDS = ("completed", "failed")  # no single page is ever cancelled


@dataclass(frozen=True)
class Gone:
    """A job that the service says has ended long ago: settlement finds out what is left of it."""

    job_id: str
    status: str = "expired"
    is_terminal: bool = True


@dataclass(frozen=True)
class _Group:
    """Jobs that were made one after another, and how many pages the listing of their time has."""

    due: Sequence[DueJob]
    pages: int
    margin: timedelta

    @property
    def cost(self) -> int:
        return min(len(self.due), self.pages)

    @property
    def is_dense(self) -> bool:
        """Whether no other way could cost less."""
        return self.cost <= ceil(len(self.due) / PAGE_SIZE)


@dataclass
class Looking:
    """A look at some jobs under way: whom it asks, until when, how often, and what it has seen so far.

    ``besides`` has the lines of ended jobs that were met and not asked for; they may be anybody's.
    """

    ledger: Ledger
    client: ScraperClient
    policy: LifecyclePolicy
    end: float
    monotonic: Callable[[], float]
    clock: ServiceClock
    most_requests: float = inf
    requests: int = 0
    seen: dict[str, Line | None] = field(default_factory=dict)
    besides: dict[str, Line] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.end - self.monotonic())

    @property
    def is_over(self) -> bool:
        return self.seconds_left == 0 or self.requests >= self.most_requests

    async def look(self, due: list[DueJob]) -> None:
        """See each due job's line, or None where a whole listing lacks it, by the cheapest way.

        What is not reached before the look is over is in neither.
        """
        failures: list[ScraperError] = []
        self.seen.update((job.job_id, self.besides[job.job_id]) for job in due if job.job_id in self.besides)
        unseen = [job for job in due if job.job_id not in self.seen]
        by_kind = {kind: [job for job in unseen if job.kind == kind] for kind in JOB_KINDS}
        for kind in sorted(JOB_KINDS, key=lambda kind: len(by_kind[kind])):  # the many keep no few waiting
            try:
                await self._look_at_kind(kind, by_kind[kind])
            except ScraperError as error:
                if error.scope == "account":
                    raise
                failures.append(error)
        if failures and not self.seen:
            raise failures[0]

    async def _look_at_kind(self, kind: Kind, due: Sequence[DueJob]) -> None:
        for group in self._groups(kind, due):
            if self.is_over:
                return
            if len(group.due) <= group.pages:
                await self._look_one_by_one(kind, group.due)
            elif not await self._look_by_listing(kind, group):
                middle = len(group.due) // 2  # the listing was cut short: the halves have shorter ones
                await self._look_at_kind(kind, group.due[:middle])
                await self._look_at_kind(kind, group.due[middle:])

    def _groups(self, kind: Kind, due: Sequence[DueJob]) -> list[_Group]:
        """The due jobs, oldest first, cut where there are wide gaps and the listing of what lies in them is saved."""
        waiting, groups, cuts = [self._group(kind, due)] if due else [], [], _MOST_CUTS
        while waiting:
            whole = waiting.pop()
            if cuts and not whole.is_dense:
                cuts -= 1
                at = _widest_gap(whole.due)
                parts = [self._group(kind, part) for part in (whole.due[at:], whole.due[:at])]
                if sum(part.cost for part in parts) <= whole.cost:
                    waiting += parts
                    continue
            groups.append(whole)
        return groups

    def _group(self, kind: Kind, due: Sequence[DueJob]) -> _Group:
        """With the margin of two clocks' skew, unless the listing of that is longer and of less use."""
        skew = timedelta(seconds=self.policy.clock_skew)
        pages = self._pages(kind, due, skew)
        if pages > 1 and (near := self._pages(kind, due, _NEAR)) < pages:
            return _Group(due, near, _NEAR)
        return _Group(due, pages, skew)

    def _pages(self, kind: Kind, due: Sequence[DueJob], margin: timedelta) -> int:
        first, last = _time_of(due)
        at_most = (len(due) + 1) * PAGE_SIZE  # from there on, it is cheaper to ask one by one
        jobs = self.ledger.news.count_jobs_accepted(first - margin, last + margin, kind, at_most)
        return max(1, ceil(jobs / PAGE_SIZE))

    async def _look_one_by_one(self, kind: Kind, due: Iterable[DueJob]) -> None:
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

    async def _look_by_listing(self, kind: Kind, group: _Group) -> bool:
        """Read the listing of the time in which these jobs were made; False if the service won't list it whole."""
        wanted = {job.job_id for job in group.due}
        first, last = _time_of(group.due)

        async def read(page: int) -> AnyListing:
            self.requests += 1
            listing = await lister(self.client, kind)(
                start=self.clock.earliest(first) - group.margin,
                end=self.clock.latest(last) + group.margin,
                page=page,
                page_size=PAGE_SIZE,
                budget=self.seconds_left,
            )
            self._note(listing, wanted)
            return listing

        listing = await read(1)
        while self.clock.learn(listing) > self._tolerance(group):
            if self.is_over:
                return True
            listing = await read(1)  # its clock is not ours: the window was another one than we meant
        is_capped, unread = listing.is_capped, set(range(2, _page_count(listing, 1) + 1))
        while wanted and unread and not self.is_over:
            at_once = int(min(self.policy.pages_at_once, self.most_requests - self.requests))
            middle = max(unread) / 2  # should time not suffice: what was asked for is not in the margins
            numbers = sorted(unread, key=lambda number: abs(number - middle))[:at_once]
            for number, listing in zip(numbers, await _gather(map(read, numbers)), strict=True):
                is_capped = is_capped or listing.is_capped
                unread |= set(range(max(unread) + 1, _page_count(listing, number) + 1))
            unread -= set(numbers)
        if not wanted or unread:
            return True  # what was not seen stays due
        if is_capped and len(group.due) > 1:
            return False
        if group.margin == _NEAR:
            await self._look_further(kind, [job for job in group.due if job.job_id in wanted])
        else:
            self.seen.update((job_id, None) for job_id in wanted)
        return True

    def _tolerance(self, group: _Group) -> float:
        """By how many seconds the clocks may differ before the window was the wrong one; a header tells whole ones."""
        return self.policy.clock_skew if group.margin > _NEAR else _NEAR.total_seconds() + 1

    def _note(self, listing: AnyListing, wanted: set[str]) -> None:
        for line in listing.jobs:
            if line.job_id in wanted:
                self.seen[line.job_id] = line
                wanted.remove(line.job_id)
            elif line.is_terminal and line.job_id not in self.seen:
                self.besides[line.job_id] = line

    async def _look_further(self, kind: Kind, unseen: Sequence[DueJob]) -> None:
        """Look for what was not where it should have been: clocks differ, or it is not listed at all."""
        skew = timedelta(seconds=self.policy.clock_skew)
        group = _Group(unseen, self._pages(kind, unseen, skew), skew)
        if len(unseen) <= group.pages:
            await self._look_one_by_one(kind, unseen)
        elif not self.is_over:
            await self._look_by_listing(kind, group)

    async def look_for_ends(self, since: datetime, until: datetime, most_requests: int) -> None:
        """Read what has ended of the single pages made within [since, until], while that is mostly news.

        For when more is due than can be looked at: where jobs end in about the order of their making, and the listing
        begins with the newest, a few requests find what ended last.
        """
        last_request = self.requests + most_requests
        for status in _ENDS:
            page, is_news = 1, True
            while is_news and self.requests < last_request and not self.is_over:
                self.requests += 1
                listing = await self.client.list_jobs(
                    status=status, start=since, end=until, page=page, budget=self.seconds_left
                )
                self._note(listing, set())
                news = self.ledger.news.watched(line.job_id for line in listing.jobs if line.is_terminal)
                is_news = 2 * len(news) > PAGE_SIZE
                page += 1


def _time_of(due: Sequence[DueJob]) -> tuple[datetime, datetime]:
    return min(job.sent_at for job in due), max(job.accepted_at for job in due)


def _widest_gap(due: Sequence[DueJob]) -> int:
    """Where to cut jobs in two that are in the order of their acceptance."""
    return max(range(1, len(due)), key=lambda at: due[at].accepted_at - due[at - 1].accepted_at)


def _page_count(listing: AnyListing, page: int) -> int:
    at_least = page + 1 if listing.page_count is None and len(listing.jobs) == PAGE_SIZE else page
    return listing.page_count or at_least


async def _gather(reads: Iterable[Awaitable[AnyListing]]) -> list[AnyListing]:
    """All answers; or the first error, once none of the others is under way."""
    answers = await asyncio.gather(*reads, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]
