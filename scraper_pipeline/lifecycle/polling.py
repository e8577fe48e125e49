"""The poll: looks at jobs whose look is due, by listing, and reports the ended ones as news. Fetches no content."""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic as system_monotonic

from scraper_pipeline.ledger import Channel, DueJob, Ledger
from scraper_pipeline.lifecycle.listing import PAGE_SIZE
from scraper_pipeline.lifecycle.looking import Looking
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import TERMINAL_STATUSES, ScraperClient
from scraper_pipeline.traces import traced

POLL_SECONDS = 10.0  # in which the requests of one poll are made up for, at most
LEAST_REQUESTS = 4
LOOK_LIMIT = 10_000
POLL_LEASE = "poll"
EVERYWHERE = "*"
WATCH_INTERVAL = timedelta(minutes=10)  # between looks at what was given up, or is left to settlement
KNOWN_STATUSES = TERMINAL_STATUSES | {"expired", "queued", "processing"}
_MISSING_AFTER_LOOKS = 3


@dataclass
class PollReport:
    """What one poll found. ``requests`` are listing calls; ``unknown_statuses`` are kept verbatim and not terminal.

    ``looked`` counts due jobs, ``ended`` also those that were met without being due.
    """

    looked: int = 0
    ended: int = 0
    overdue: int = 0
    missing: int = 0
    requests: int = 0
    unknown_statuses: set[str] = field(default_factory=set)


@traced("poll_jobs")
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
    """Look at the jobs that are due, longest first, by the cheapest way, within about ``seconds``.

    Pollers take turns, and each round holds the turn long enough to keep to ``status_requests_per_second`` over all
    processes; a poller whose turn it isn't does nothing. A round makes no more requests than ``POLL_SECONDS`` make up
    for. Raises ScraperError; what was not looked at stays due. Where the policy does not poll, nothing is done at all.
    """
    report, chance = PollReport(), chance or random.Random()  # noqa: S311 (jitter)
    if not policy.polls:
        return report
    holder = uuid.uuid4().hex
    if not ledger.leases.take(POLL_LEASE, EVERYWHERE, holder, seconds + 10):
        return report
    try:
        most_requests = max(LEAST_REQUESTS, int(POLL_SECONDS * policy.status_requests_per_second))
        most_jobs = min(LOOK_LIMIT, most_requests * PAGE_SIZE)
        due = ledger.news.take_due_jobs(most_jobs)
        if due:
            end = monotonic() + seconds
            this_round = Looking(
                ledger, client, policy, end, monotonic, clock or ServiceClock(), most_requests
            )
            try:
                if len(due) == most_jobs:  # and more may be due than a round can look at
                    since = min(job.sent_at for job in due) - timedelta(seconds=policy.clock_skew)
                    await this_round.look_for_ends(since, ledger.clock(), most_requests // 2)
                await this_round.look(due)
            finally:
                report.requests = this_round.requests
            _conclude(ledger, policy, due, this_round, report, chance)
    finally:
        rest = report.requests / policy.status_requests_per_second
        ledger.leases.take(POLL_LEASE, EVERYWHERE, holder, rest, force=True)
    return report


def _conclude(
    ledger: Ledger,
    policy: LifecyclePolicy,
    due: list[DueJob],
    this_round: Looking,
    report: PollReport,
    chance: random.Random,
) -> None:
    now = ledger.clock()
    ended, to_settle = [], []
    looks: dict[str, datetime | None] = {}
    delays: dict[
        int, timedelta
    ] = {}  # what was looked at together is due together, and is listed together again
    statuses: dict[str, str] = {}
    seen = this_round.seen
    for job in due:
        if job.job_id in this_round.unreadable and is_past(ledger, job.accepted_at, policy.job_timeout):
            to_settle.append(job.job_id)  # which gives it up if it can't be read, either
        if job.job_id not in seen:
            continue  # not reached: its look stays due
        line = seen[job.job_id]
        report.looked += 1
        if job.looks not in delays:
            delays[job.looks] = policy.look_delay(job.looks + 1, chance)
        looks[job.job_id] = now + delays[job.looks]
        if line is not None:
            statuses[job.job_id] = line.status
            if line.status not in KNOWN_STATUSES:
                report.unknown_statuses.add(line.status)
        if job.given_up and is_past(ledger, job.accepted_at, policy.watch_for):
            looks[job.job_id] = None
        elif line is not None and line.is_terminal:
            ended.append(job.job_id)
            looks[job.job_id] = None
        elif job.given_up:
            looks[job.job_id] = now + WATCH_INTERVAL
        elif is_past(ledger, job.accepted_at, policy.job_timeout):
            report.overdue += 1
            to_settle.append(job.job_id)
            looks[job.job_id] = now + WATCH_INTERVAL  # it may have been given up while it was looked at
        elif line is None and job.looks >= _MISSING_AFTER_LOOKS:
            report.missing += 1
            to_settle.append(job.job_id)
            looks[job.job_id] = now + WATCH_INTERVAL
    for job_id in ledger.news.watched(this_round.besides.keys() - seen.keys()):
        ended.append(job_id)
        looks[job_id], statuses[job_id] = None, this_round.besides[job_id].status
    report.ended = len(ended)
    ledger.news.record(ended, Channel.POLL)
    ledger.news.request_settlement(to_settle)
    ledger.news.schedule_looks(looks, statuses)
