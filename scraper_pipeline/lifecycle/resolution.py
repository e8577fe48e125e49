"""Rule 5: rows whose answer was lost are resolved by a complete listing of the jobs made in their time."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from time import monotonic as system_monotonic
from typing import Any

from scraper_pipeline.ledger import Kind, Ledger, OverdueSubmission
from scraper_pipeline.lifecycle.candidates import FINDERS, Candidate, Search
from scraper_pipeline.lifecycle.listing import WindowReader, lister
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import (
    BatchSummary,
    CrawlSummary,
    JobSummary,
    ScraperClient,
    ScraperError,
)
from scraper_pipeline.traces import traced

_Made = JobSummary | BatchSummary | CrawlSummary


@dataclass
class ResolutionReport:
    """What became of the rows that were overdue: bound to a job found, planned again, waiting, or parked."""

    bound: int = 0
    planned_again: int = 0
    waiting: int = 0
    unresolved: int = 0
    requests: int = 0


@dataclass
class _Window:
    start: datetime
    end: datetime
    requests: list[OverdueSubmission] = field(default_factory=list)


@traced("resolve_lost_answers")
async def resolve_lost_answers(
    ledger: Ledger,
    client: ScraperClient,
    policy: LifecyclePolicy,
    *,
    seconds: float = 60.0,
    monotonic: Callable[[], float] = system_monotonic,
    chance: random.Random | None = None,
) -> ResolutionReport:
    """Find out what became of every row still sending past its lease and grace.

    A job is taken for a row's if it was made for its URL after the claim and no row of any attempt is bound to it; a
    batch, if it holds nothing but URLs that were sent together. The row waits while several candidates are still
    running or the listing is not complete, and is parked as ``unresolved`` past the hard limit. Raises ScraperError,
    also when ``seconds`` did not suffice, with nothing decided for the rows not yet reached.
    """
    report = ResolutionReport()
    chance = chance or random.Random()  # noqa: S311 (jitter)
    end = monotonic() + seconds
    failures: list[ScraperError] = []
    overdue = ledger.submissions.overdue(policy.send_grace)
    for kind in FINDERS:
        requests = [request for request in overdue if request.kind == kind]
        if not requests:
            continue
        resolving = _Resolving(ledger, client, policy, report, end, monotonic, chance, requests)
        try:
            await resolving.resolve(kind)
        except ScraperError as error:
            # What can't be asked about must not keep a row beyond its hard limit, and no other kind from its turn.
            _wait(ledger, policy, resolving.undecided, report)
            failures.append(error)
    if failures:
        raise failures[0]
    return report


@dataclass
class _Resolving:
    """The resolution of one kind of requests; ``undecided`` are those that it has not come to yet."""

    ledger: Ledger
    client: ScraperClient
    policy: LifecyclePolicy
    report: ResolutionReport
    end: float
    monotonic: Callable[[], float]
    chance: random.Random
    undecided: list[OverdueSubmission]

    async def resolve(self, kind: Kind) -> None:
        reader: WindowReader[Any] = WindowReader(lister(self.client, kind), self.end, self.monotonic)
        search = Search(self.client, self.policy.mark_urls, lambda: max(0.0, self.end - self.monotonic()))
        try:
            clock = ServiceClock()
            clock.learn(await reader.page(None, None, 1, 1))
            for window in _windows(self.undecided, clock, self.policy):
                jobs, is_whole = await reader.read(window.start, window.end)
                bound = self.ledger.submissions.bound_jobs(job.job_id for job in jobs)
                free = [job for job in jobs if job.job_id not in bound]
                among = replace(search, bound=[job for job in jobs if job.job_id in bound])
                for request in window.requests:
                    found = await self._find(kind, among, request, free, clock) if is_whole else None
                    self.undecided.remove(request)
                    _resolve(self.ledger, self.policy, request, found, self.report, self.chance)
        finally:
            self.report.requests += reader.requests

    async def _find(
        self, kind: Kind, search: Search, request: OverdueSubmission, free: list[Any], clock: ServiceClock
    ) -> list[Candidate] | None:
        skew = timedelta(seconds=self.policy.clock_skew)
        made_since = [job for job in free if _may_be_made_since(job, request, clock, skew)]
        return await FINDERS[kind](search, request, made_since)


def _windows(
    overdue: Iterable[OverdueSubmission], clock: ServiceClock, policy: LifecyclePolicy
) -> list[_Window]:
    """The spans of the service's time in which the rows' jobs must have been made, merged where they overlap."""
    skew, grace = timedelta(seconds=policy.clock_skew), timedelta(seconds=policy.send_grace)
    windows: list[_Window] = []
    for row in sorted(overdue, key=lambda row: row.sent_at):
        start, end = clock.earliest(row.sent_at) - skew, clock.latest(row.lease_until + grace) + skew
        if windows and start <= windows[-1].end:
            windows[-1].end = max(windows[-1].end, end)
        else:
            windows.append(_Window(start, end))
        windows[-1].requests.append(row)
    return windows


def _may_be_made_since(job: _Made, request: OverdueSubmission, clock: ServiceClock, skew: timedelta) -> bool:
    """Whether the job was made after the request's claim; one of unknown age may have been.

    The claim may have been timed by another host's clock, or by this one's before it was set.
    """
    return _latest_creation(job) >= clock.earliest(request.sent_at) - skew


def _latest_creation(job: _Made) -> datetime:
    """The latest moment that the service can mean: a time without a fraction may be cut to its second, or its day."""
    told = job.created_at
    if told is None:
        return datetime.max.replace(tzinfo=UTC)
    if told.microsecond:
        return told
    return told + (timedelta(days=1) if told.time() == time.min else timedelta(seconds=1))


def _resolve(
    ledger: Ledger,
    policy: LifecyclePolicy,
    request: OverdueSubmission,
    candidates: list[Candidate] | None,
    report: ResolutionReport,
    chance: random.Random,
) -> None:
    several_may_end = (
        candidates is not None and len(candidates) > 1 and not all(job.is_terminal for job in candidates)
    )
    if candidates is None or several_may_end:
        _wait(ledger, policy, [request], report)
        return
    candidates.sort(key=lambda job: (-job.urls, job.status != "completed"))
    first_look_at = ledger.clock() + policy.look_delay(0, chance)
    job_id = candidates[0].job_id if candidates else "none"
    if ledger.submissions.resolve(request.request_id, job_id, first_look_at, policy.send_grace, request.kind):
        if candidates:
            report.bound += len(request.urls)
        else:
            report.planned_again += len(request.urls)


def _wait(
    ledger: Ledger, policy: LifecyclePolicy, requests: list[OverdueSubmission], report: ResolutionReport
) -> None:
    waiting = {request.request_id: len(request.urls) for request in requests}
    hopeless = [one.request_id for one in requests if is_past(ledger, one.sent_at, policy.unresolved_after)]
    report.waiting += sum(waiting.values()) - sum(waiting[request_id] for request_id in hopeless)
    report.unresolved += ledger.submissions.give_up_unresolved(
        hopeless,
        "The answer to the submission was lost, and the service's listing could not tell what became of it.",
    )
