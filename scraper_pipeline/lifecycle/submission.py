"""Planned targets become jobs of the service: claim, POST inside the lease, record what the answer proves."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic as system_monotonic

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    ClaimedSubmission,
    Kind,
    Ledger,
    RefusedSubmission,
    hash_url,
    mark_url,
    unmark_url,
)
from scraper_pipeline.lifecycle.claiming import Claiming
from scraper_pipeline.lifecycle.places import Places
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.spending import PAGE_LIMITS, Bound, stops_account
from scraper_pipeline.scraper_api import (
    WORK_CONCURRENCY_LIMITED,
    BatchesNotOffered,
    CrawlScope,
    ExtractOptions,
    InvalidOptions,
    ScraperClient,
    ScraperError,
    Throttled,
)
from scraper_pipeline.traces import traced

SUBMIT_LEASE = "submit"
HELD_LEASE = "held"  # by `max_pages` of a run, until somebody launches the next one for that day
Request = Sequence[ClaimedSubmission]
Answer = AcceptedSubmission | RefusedSubmission | ScraperError


@dataclass
class SubmissionReport:
    """What one call of ``submit_jobs`` came to, in targets; ``pages`` is the most that may be charged for it.

    ``unresolved`` rows were sent and not answered: nobody knows yet whether their jobs exist. ``held_by`` says what
    keeps due rows planned; ``unbounded_because`` why the account's places were no bound, if that was so at some time.
    """

    accepted: int = 0
    refused: int = 0
    released: int = 0
    unresolved: int = 0
    pages: int = 0
    held_by: set[Bound] = field(default_factory=set)
    unbounded_because: str | None = None
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def limited(self) -> bool:
        """Whether a page limit left rows planned."""
        return bool(self.held_by & PAGE_LIMITS)

    def __iadd__(self, other: "SubmissionReport") -> "SubmissionReport":
        self.accepted += other.accepted
        self.refused += other.refused
        self.released += other.released
        self.unresolved += other.unresolved
        self.pages += other.pages
        self.held_by |= other.held_by
        self.unbounded_because = self.unbounded_because or other.unbounded_because
        self.errors.update(other.errors)
        return self


async def submit_jobs(
    ledger: Ledger,
    client: ScraperClient,
    partition_key: str,
    policy: LifecyclePolicy,
    *,
    max_pages: int | None = None,
    seconds: float | None = None,
    places: Places | None = None,
    on_chunk: Callable[[SubmissionReport], None] = lambda report: None,
    monotonic: Callable[[], float] = system_monotonic,
    chance: random.Random | None = None,
) -> SubmissionReport:
    """Submit what is planned and due in a partition, until nothing is left or a limit is met.

    While the account has no free place, single jobs wait for one; ``on_chunk`` is called then, too, every few seconds.
    Several calls of one run share their ``places``.

    Raises the ScraperError of the account (key, balance) at once, and that of the service if nothing of a chunk got
    through; whatever certainly made no job is planned again before. Rows whose POST may have made a job stay sending.
    """
    report = SubmissionReport()
    began = monotonic()
    chance = chance or random.Random()  # noqa: S311 (jitter)
    places = places or Places.of(client, policy, monotonic=monotonic, chance=chance)
    claiming = Claiming(ledger, partition_key, policy, places, max_pages)
    while seconds is None or monotonic() - began < seconds:
        claimed_at = monotonic()
        chunk = await asyncio.to_thread(claiming.claim, report.pages)
        if chunk:
            sending = _Sending(ledger, client, policy, report, chance, claiming, places)
            await sending.send(chunk, claimed_at + policy.send_lease)
            on_chunk(report)
            continue
        report.held_by = await asyncio.to_thread(claiming.held_by, report.pages)
        if report.held_by != {Bound.PLACES}:
            break
        left = None if seconds is None else began + seconds - monotonic()
        is_free = await places.wait(left, lambda: on_chunk(report))
        report.unbounded_because = places.unknown_because
        if not is_free:
            break
        report.held_by = set()
    return report


@dataclass
class _Sending:
    """Requests under way at once, and the record of what became of them."""

    ledger: Ledger
    client: ScraperClient
    policy: LifecyclePolicy
    report: SubmissionReport
    chance: random.Random
    claiming: Claiming
    places: Places
    got_through: int = 0
    jobs_made: int = 0
    lacked_places: bool = False
    account_error: ScraperError | None = None
    failures: list[ScraperError] = field(default_factory=list)

    @traced("send_chunk")
    async def send(self, chunk: Sequence[ClaimedSubmission], deadline: float) -> None:
        """Send every request of the chunk that can end by the deadline, and record each answer as it comes."""
        requests: dict[str, list[ClaimedSubmission]] = {}
        for submission in chunk:
            requests.setdefault(submission.request_id, []).append(submission)
        answers: asyncio.Queue[tuple[Request, Answer] | None] = asyncio.Queue()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_all(list(requests.values()), deadline, answers))
                group.create_task(self._record_all(answers))
        except ExceptionGroup as several:  # the ledger failed: one reason says it all
            raise several.exceptions[0] from None
        if self.account_error:
            raise self.account_error
        if self.failures and not self.got_through:
            raise self.failures[-1]
        self.places.note_sent(self.jobs_made)
        if self.lacked_places:
            self.places.note_refusal()

    async def _send_all(
        self,
        requests: Sequence[Request],
        deadline: float,
        answers: "asyncio.Queue[tuple[Request, Answer] | None]",
    ) -> None:
        places = asyncio.Semaphore(self.policy.concurrency)

        async def send(request: Request) -> None:
            async with places:
                # After a refusal of the account the rest is not hammered: it goes back as it was.
                answer = self.account_error or await _send(self.client, request, deadline, self.policy)
                if isinstance(answer, ScraperError) and stops_account(answer):
                    self.account_error = answer
                await answers.put((request, answer))

        async with asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(send(request))
        await answers.put(None)

    async def _record_all(self, answers: "asyncio.Queue[tuple[Request, Answer] | None]") -> None:
        """Record answers as they come, in one transaction whatever came while the last one was being committed."""
        more = True
        while more:
            answered = [await answers.get()]
            while not answers.empty():
                answered.append(answers.get_nowait())
            more = None not in answered
            await self._record([entry for entry in answered if entry is not None])

    async def _record(self, answered: Sequence[tuple[Request, Answer]]) -> None:
        accepted = [answer for _, answer in answered if isinstance(answer, AcceptedSubmission)]
        refused: list[RefusedSubmission] = []
        apart: list[str] = []
        released: list[str] = []
        for request, answer in answered:
            if isinstance(answer, RefusedSubmission) and len(request) > 1:
                apart.append(answer.request_id)  # by itself, each says what is wrong with it
            elif isinstance(answer, RefusedSubmission):
                refused.append(answer)
            elif isinstance(answer, ScraperError):
                self._note(request, answer, released)
            else:
                self._count(request, without=len(answer.invalid))
        self.got_through += len(accepted) + len(apart) + len(refused)
        submissions = self.ledger.submissions
        if accepted:
            wait = self.policy.look_delay(0, self.chance) + timedelta(seconds=self.policy.first_look)
            self.report.accepted += await asyncio.to_thread(
                submissions.record_accepted, accepted, self.ledger.clock() + wait
            )
        if refused:
            self.report.refused += await asyncio.to_thread(submissions.record_refused, refused)
        if apart:
            await asyncio.to_thread(submissions.set_apart, apart)
        if released:
            self.report.released += await asyncio.to_thread(submissions.release, released)

    def _count(self, request: Request, without: int = 0) -> None:
        """The request has made a job, or may have."""
        self.report.pages += sum(one.most_pages for one in request) - without
        self.jobs_made += len(request) - without

    def _note(self, request: Request, error: ScraperError, released: list[str]) -> None:
        is_batch = request[0].kind is Kind.BATCH
        if error.proves_no_job:
            released.append(request[0].request_id)
        if isinstance(error, BatchesNotOffered) and self.policy.submission_mode == "auto":
            self.claiming.batches_are_offered = False
            return
        self.report.errors[type(error).__name__] += 1
        if error.code == WORK_CONCURRENCY_LIMITED and isinstance(error, Throttled):
            self.lacked_places = True
            self.claiming.batches_need_places |= is_batch
            return
        if not error.proves_no_job:
            self.report.unresolved += len(request)
            self._count(request)
        self.failures.append(error)


async def _send(client: ScraperClient, request: Request, deadline: float, policy: LifecyclePolicy) -> Answer:
    request_id = request[0].request_id
    urls = [mark_url(one.url, request_id) if policy.mark_urls else one.url for one in request]
    try:
        return await _post(client, request[0], urls, deadline)
    except InvalidOptions as error:
        return RefusedSubmission(request_id, "INVALID_OPTIONS", str(error))
    except ScraperError as error:
        if error.scope == "target" and error.proves_no_job:
            return RefusedSubmission(request_id, error.code or "INVALID_REQUEST", str(error))
        return error


async def _post(
    client: ScraperClient, submission: ClaimedSubmission, urls: Sequence[str], deadline: float
) -> AcceptedSubmission:
    request_id, options = submission.request_id, dict(submission.options)
    if submission.kind is Kind.BATCH:
        batch = await client.submit_batch(urls, ExtractOptions.from_mapping(options), deadline=deadline)
        invalid = frozenset(hash_url(unmark_url(url)) for url in batch.invalid_urls)
        return AcceptedSubmission(request_id, batch.job_id, Kind.BATCH, invalid)
    if submission.kind is Kind.CRAWL:
        scope = CrawlScope.from_mapping({n: options.pop(n) for n in CrawlScope.model_fields if n in options})
        crawl = await client.submit_crawl(
            urls[0], ExtractOptions.from_mapping(options), scope, deadline=deadline
        )
        return AcceptedSubmission(request_id, crawl.job_id, Kind.CRAWL)
    job = await client.submit_extract(urls[0], ExtractOptions.from_mapping(options), deadline=deadline)
    return AcceptedSubmission(request_id, job.job_id)
