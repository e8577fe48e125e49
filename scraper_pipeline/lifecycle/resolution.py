"""Rule 5: rows whose answer was lost are resolved by a complete listing of the jobs made in their time."""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from time import monotonic as system_monotonic
from typing import Any

from scraper_pipeline.ledger import Kind, Ledger, OverdueSubmission, is_marked_url, mark_url, unmark_url
from scraper_pipeline.lifecycle.listing import WindowReader, lister
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import (
    BatchSummary,
    CrawlSummary,
    DeadlineExceeded,
    JobSummary,
    ScraperClient,
)

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
    overdue = ledger.submissions.overdue(policy.send_grace)
    end = monotonic() + seconds
    undecided = list(overdue)
    try:
        for kind, find in _FINDERS.items():
            requests = [request for request in overdue if request.kind == kind]
            if not requests:
                continue
            reader: WindowReader[Any] = WindowReader(lister(client, kind), end, monotonic)
            try:
                clock = ServiceClock()
                clock.learn(await reader.page(None, None, 1, 1))
                for window in _windows(requests, clock, policy):
                    jobs, is_whole = await reader.read(window.start, window.end)
                    undecided = [request for request in undecided if request not in window.requests]
                    if not is_whole:
                        _wait(ledger, policy, window.requests, report)
                        continue
                    bound = ledger.submissions.bound_jobs(job.job_id for job in jobs)
                    free = [job for job in jobs if job.job_id not in bound]
                    for request in window.requests:
                        made_since = [job for job in free if _may_be_made_since(job, request, clock)]
                        found = await find(client, policy, request, made_since)
                        _resolve(ledger, policy, request, found, report, chance)
            finally:
                report.requests += reader.requests
    except DeadlineExceeded:
        # Listings that never end in time must not keep a row beyond its hard limit, either.
        _wait(ledger, policy, undecided, report)
        raise
    return report


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


@dataclass(frozen=True)
class _Candidate:
    job_id: str
    status: str
    is_terminal: bool


async def _find_single(
    client: ScraperClient, policy: LifecyclePolicy, request: OverdueSubmission, jobs: Sequence[JobSummary]
) -> list[_Candidate] | None:
    """Jobs for exactly the request's URL.

    The marker is looked for only where the service is seen to echo it: one that drops fragments lists bare URLs.
    """
    is_marked = policy.mark_urls and any(is_marked_url(job.url) for job in jobs)
    url = mark_url(request.url, request.request_id) if is_marked else request.url
    return [_Candidate(job.job_id, job.status, job.is_terminal) for job in jobs if job.url == url]


async def _find_batch(
    client: ScraperClient, policy: LifecyclePolicy, request: OverdueSubmission, jobs: Sequence[BatchSummary]
) -> list[_Candidate] | None:
    """Batches that hold nothing but URLs of the request; None while one that may be is not readable yet."""
    sent, found = set(request.urls), []
    for job in jobs:
        if job.accepted_urls is not None and job.accepted_urls > len(sent):
            continue
        if not job.is_terminal:
            return None
        if await _holds_only(client, job.job_id, sent):
            found.append(_Candidate(job.job_id, job.status, job.is_terminal))
    return found


async def _holds_only(client: ScraperClient, job_id: str, sent: set[str]) -> bool:
    async for part in client.read_batch(job_id):
        if any(unmark_url(item.url) not in sent for item in part.items):
            return False
    return True


async def _find_crawl(
    client: ScraperClient, policy: LifecyclePolicy, request: OverdueSubmission, jobs: Sequence[CrawlSummary]
) -> list[_Candidate] | None:
    """Crawls that began at the request's URL; None while that of one is not to be had."""
    found = []
    for job in jobs:
        began_at = job.url or (await client.look_at_crawl(job.job_id)).url
        if began_at is None:
            return None
        if unmark_url(began_at) == request.url:
            found.append(_Candidate(job.job_id, job.status, job.is_terminal))
    return found


_FINDERS: Mapping[Kind, Callable[..., Awaitable[list[_Candidate] | None]]] = {
    Kind.EXTRACT: _find_single,
    Kind.BATCH: _find_batch,
    Kind.CRAWL: _find_crawl,
}


def _may_be_made_since(job: _Made, request: OverdueSubmission, clock: ServiceClock) -> bool:
    """Whether the job was made after the request's claim; one of unknown age may have been."""
    return _latest_creation(job) >= clock.earliest(request.sent_at)


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
    candidates: list[_Candidate] | None,
    report: ResolutionReport,
    chance: random.Random,
) -> None:
    several_may_end = (
        candidates is not None and len(candidates) > 1 and not all(job.is_terminal for job in candidates)
    )
    if candidates is None or several_may_end:
        _wait(ledger, policy, [request], report)
        return
    candidates.sort(key=lambda job: job.status != "completed")
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
