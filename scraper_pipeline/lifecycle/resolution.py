"""Rule 5: rows whose answer was lost are resolved by a complete listing of the jobs made in their time."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from time import monotonic as system_monotonic

from scraper_pipeline.ledger import Ledger, OverdueSubmission, is_marked_url, mark_url
from scraper_pipeline.lifecycle.listing import WindowReader
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import DeadlineExceeded, JobSummary, ScraperClient


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
    rows: list[OverdueSubmission] = field(default_factory=list)


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

    A job is taken for a row's if it was made for its URL after the claim and no row of any attempt is bound to it. The
    row waits while several candidates are still running or the listing is not complete, and is parked as
    ``unresolved`` past the hard limit. Raises ScraperError, also when ``seconds`` did not suffice, with nothing decided
    for the rows not yet reached.
    """
    report = ResolutionReport()
    chance = chance or random.Random()  # noqa: S311 (jitter)
    overdue = ledger.submissions.overdue(policy.send_grace)
    if not overdue:
        return report
    clock, reader = ServiceClock(), WindowReader(client, monotonic() + seconds, monotonic)
    undecided = list(overdue)
    try:
        clock.learn(await reader.page(None, None, 1, 1))
        for window in _windows(overdue, clock, policy):
            jobs, is_whole = await reader.read(window.start, window.end)
            undecided = [row for row in undecided if row not in window.rows]
            if not is_whole:
                _wait(ledger, policy, window.rows, report)
                continue
            bound = ledger.submissions.bound_jobs(job.job_id for job in jobs)
            free = [job for job in jobs if job.job_id not in bound]
            is_marked = policy.mark_urls and any(is_marked_url(job.url) for job in jobs)
            for row in window.rows:
                _resolve(ledger, policy, row, _candidates(row, free, clock, is_marked), report, chance)
    except DeadlineExceeded:
        # Listings that never end in time must not keep a row beyond its hard limit, either.
        _wait(ledger, policy, undecided, report)
        raise
    finally:
        report.requests = reader.requests
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
        windows[-1].rows.append(row)
    return windows


def _candidates(
    row: OverdueSubmission, free: list[JobSummary], clock: ServiceClock, is_marked: bool
) -> list[JobSummary]:
    """The unbound jobs for the row's URL that were made after its claim; one of unknown age may be.

    The marker is looked for only where the service is seen to echo it: one that drops fragments lists bare URLs.
    """
    claimed = clock.earliest(row.sent_at)
    url = mark_url(row.url, row.request_id) if is_marked else row.url
    return [job for job in free if job.url == url and _latest_creation(job) >= claimed]


def _latest_creation(job: JobSummary) -> datetime:
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
    row: OverdueSubmission,
    candidates: list[JobSummary],
    report: ResolutionReport,
    chance: random.Random,
) -> None:
    if len(candidates) > 1 and not all(job.is_terminal for job in candidates):
        _wait(ledger, policy, [row], report)
        return
    candidates.sort(key=lambda job: job.status != "completed")
    first_look_at = ledger.clock() + policy.look_delay(0, chance)
    job_id = candidates[0].job_id if candidates else "none"
    if ledger.submissions.resolve(row.request_id, job_id, first_look_at, policy.send_grace):
        if candidates:
            report.bound += 1
        else:
            report.planned_again += 1


def _wait(
    ledger: Ledger, policy: LifecyclePolicy, rows: list[OverdueSubmission], report: ResolutionReport
) -> None:
    hopeless = [row.request_id for row in rows if is_past(ledger, row.sent_at, policy.unresolved_after)]
    report.waiting += len(rows) - len(hopeless)
    report.unresolved += ledger.submissions.give_up_unresolved(
        hopeless,
        "The answer to the submission was lost, and the service's listing could not tell what became of it.",
    )
