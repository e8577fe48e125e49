"""The sweep: whatever the other channels have missed is found in the service's own list of jobs."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from time import monotonic as system_monotonic
from typing import Any
from zoneinfo import ZoneInfo

from scraper_pipeline.ledger import (
    JOB_KINDS,
    Channel,
    DueJob,
    ForeignJob,
    Kind,
    Ledger,
    Target,
    UnsettledJob,
    is_marked_url,
)
from scraper_pipeline.lifecycle.listing import Line, WindowReader, lister
from scraper_pipeline.lifecycle.looking import Looking
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.resolution import ResolutionReport, resolve_lost_answers
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.lifecycle.spelling import spelling
from scraper_pipeline.lifecycle.spending import stops_account
from scraper_pipeline.scraper_api import NotOffered, ScraperClient, ScraperError
from scraper_pipeline.traces import traced

SLICE = timedelta(hours=1)

Lines = Sequence[tuple[Kind, Any]]
MakeTarget = Callable[[str], Target | None]


@dataclass
class SweepReport:
    """What one sweep found, by kind. ``listed`` counts jobs, ``requests`` listing calls.

    ``ended`` had ended unseen, ``overdue`` and ``missing`` are looked at by the next settlement, ``stale`` is news that
    was received long ago and not processed, ``unbound_news`` news of jobs that are not ours. ``unresolved_because``
    says why lost answers could not be looked up, if so. ``is_whole`` is false if the service would not list every job,
    or not in time; the next sweep begins there again.
    """

    resolution: ResolutionReport = field(default_factory=ResolutionReport)
    requests: int = 0
    listed: int = 0
    ended: int = 0
    overdue: int = 0
    missing: int = 0
    stale: int = 0
    unbound_news: int = 0
    foreign: int = 0
    adopted: int = 0
    is_whole: bool = True
    unresolved_because: str | None = None

    @property
    def figures(self) -> dict[str, int]:
        """Everything as numbers, by name; what became of lost answers begins with ``answers_``."""
        told = asdict(self)
        resolution = told.pop("resolution")
        told["answers_could_be_asked_about"] = told.pop("unresolved_because") is None
        told["requests"] += resolution.pop("requests")
        return {
            **{name: int(value) for name, value in told.items()},
            **{f"answers_{name}": value for name, value in resolution.items()},
        }


@traced("reconcile_jobs")
async def reconcile_jobs(
    ledger: Ledger,
    client: ScraperClient,
    policy: LifecyclePolicy,
    *,
    make_target: MakeTarget | None = None,
    seconds: float = 300.0,
    monotonic: Callable[[], float] = system_monotonic,
    chance: random.Random | None = None,
) -> SweepReport:
    """Compare the ledger with the service's list of jobs, and make news of what ended and was not heard of.

    Resolves lost answers, then reads every job made since shortly before the last sweep's end, then looks for the
    jobs that are older and still waited for. Jobs that no submission is bound to are noted; they are adopted, each
    under the day of its creation, only if ``make_target`` says for which target. Fetches no content. Raises
    ScraperError; what was found until then is kept, and the next sweep begins where this one stopped seeing.
    """
    report = SweepReport()
    sweep_id = ledger.sweeps.begin()
    end = monotonic() + seconds
    try:
        report.resolution = await resolve_lost_answers(
            ledger, client, policy, seconds=seconds / 2, monotonic=monotonic, chance=chance
        )
    except ScraperError as error:
        if stops_account(error):
            raise
        report.unresolved_because = str(error)
    listing = _Listing(ledger, client, policy, end, monotonic)
    try:
        report.is_whole = await listing.read(
            sweep_id, lambda lines: _note_foreign(ledger, policy, lines, listing.clock, make_target, report)
        )
        ours, seen = _look_for(ledger, policy), listing.seen
        looking = Looking(ledger, client, policy, end, monotonic, listing.clock)
        await looking.look([_due(job) for job in ours if job.job_id not in seen])
        report.requests += looking.requests
        _record(ledger, policy, ours, {**looking.seen, **seen}, report)
        ledger.foreign_jobs.forget_ours()
        report.foreign, _ = ledger.foreign_jobs.newest(0)
        report.stale, report.unbound_news = ledger.sweeps.pending_events(
            ledger.clock() - timedelta(seconds=policy.sweep_after)
        )
    finally:
        report.requests += listing.requests
        report.listed = len(listing.seen)
    ledger.sweeps.end(sweep_id, report.figures)
    return report


@dataclass
class _Listing:
    """The windows of a sweep, over jobs of every kind that the service offers."""

    ledger: Ledger
    client: ScraperClient
    policy: LifecyclePolicy
    end: float
    monotonic: Callable[[], float]
    clock: ServiceClock = field(default_factory=ServiceClock)
    readers: dict[Kind, WindowReader[Any]] = field(default_factory=dict)

    @property
    def seen(self) -> dict[str, Any]:
        return {job_id: line for reader in self.readers.values() for job_id, line in reader.seen.items()}

    @property
    def requests(self) -> int:
        return sum(reader.requests for reader in self.readers.values())

    async def read(self, sweep_id: int, note: Callable[[Lines], None]) -> bool:
        """Read from shortly before the watermark to a bound fixed at the start; whether all of it was seen whole.

        Oldest first, slice by slice, each noted before the watermark follows: a sweep that is cut short has brought the
        next one forward. None goes back further than jobs are watched.
        """
        for kind in JOB_KINDS:
            self.readers[kind] = WindowReader(lister(self.client, kind), self.end, self.monotonic)
        self.clock.learn(await self.readers[Kind.EXTRACT].page(None, None, 1, 1))
        bound = self.clock.earliest(self.ledger.clock())
        seen_until = self.ledger.sweeps.seen_until()
        start = min(seen_until or bound, bound) - timedelta(seconds=self.policy.sweep_overlap)
        start = max(start, bound - timedelta(seconds=self.policy.watch_for))
        all_whole = True
        while start < bound:
            until = min(start + SLICE, bound)
            lines: list[tuple[Kind, Any]] = []
            for kind in tuple(self.readers):
                found, is_whole = await self._read_slice(kind, start, until)
                lines += [(kind, line) for line in found]
                all_whole &= is_whole
            note(lines)
            if all_whole:
                self.ledger.sweeps.note_seen(sweep_id, until)
            start = until
        return all_whole

    async def _read_slice(self, kind: Kind, start: datetime, until: datetime) -> tuple[list[Any], bool]:
        try:
            return await self.readers[kind].read(start, until)
        except NotOffered:
            del self.readers[kind]  # the service has no such jobs
            return [], True


def _look_for(ledger: Ledger, policy: LifecyclePolicy) -> list[UnsettledJob]:
    """The jobs that another channel should have brought news of by now."""
    now = ledger.clock()
    return ledger.sweeps.unsettled_jobs(
        now - timedelta(seconds=policy.sweep_after), now - timedelta(seconds=policy.watch_for)
    )


def _due(job: UnsettledJob) -> DueJob:
    return DueJob(job.job_id, job.kind, job.sent_at, job.accepted_at, looks=0, given_up=job.given_up)


def _record(
    ledger: Ledger,
    policy: LifecyclePolicy,
    ours: Iterable[UnsettledJob],
    seen: Mapping[str, Line | None],
    report: SweepReport,
) -> None:
    ended: list[str] = []
    to_settle: list[str] = []
    for job in ours:
        if job.job_id not in seen:
            continue  # the time was over before it was reached
        line = seen[job.job_id]
        if line is not None and line.is_terminal:
            ended.append(job.job_id)
        elif job.given_up:
            continue  # it is known to run on, or to be lost
        elif line is None:
            report.missing += 1
            to_settle.append(job.job_id)
        elif is_past(ledger, job.accepted_at, policy.job_timeout):
            report.overdue += 1
            to_settle.append(job.job_id)
    report.ended = len(ended)
    ledger.news.record(ended, Channel.SWEEP)
    ledger.news.request_settlement(to_settle)


def _note_foreign(
    ledger: Ledger,
    policy: LifecyclePolicy,
    lines: Lines,
    clock: ServiceClock,
    make_target: MakeTarget | None,
    report: SweepReport,
) -> None:
    """Jobs that no submission is bound to, and that no submission under way can have made."""
    # First what is being sent, then what is bound: a submission that is answered in between is seen by the second.
    urls, kinds = ledger.foreign_jobs.being_sent()
    seen = [
        ForeignJob(line.job_id, getattr(line, "url", None), line.status, line.created_at, kind)
        for kind, line in lines
        if kind is Kind.EXTRACT or kind not in kinds
    ]
    being_sent = {spelling(url) for url in urls}
    seen = [job for job in seen if job.url is None or spelling(job.url) not in being_sent]
    bound = ledger.submissions.bound_jobs(job.job_id for job in seen)
    foreign = [job for job in seen if job.job_id not in bound]
    ledger.foreign_jobs.note(foreign)
    if make_target is not None:
        report.adopted += sum(_adopt(ledger, policy, job, clock, make_target) for job in foreign)


def _adopt(
    ledger: Ledger, policy: LifecyclePolicy, job: ForeignJob, clock: ServiceClock, make_target: MakeTarget
) -> bool:
    # A marked one was ours once: its answer was lost, and its target has gone its own way since.
    target = make_target(job.url) if job.url and not is_marked_url(job.url) else None
    if target is None or job.created_at is None:
        return False  # nobody can say what it is for, or of which day
    created_at = job.created_at - clock.most_ahead
    day = created_at.astimezone(ZoneInfo(policy.timezone)).strftime("%Y-%m-%d")
    return ledger.foreign_jobs.adopt(job, day, target, created_at)
