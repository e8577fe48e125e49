"""Planned targets become jobs of the service: claim, POST inside the lease, record what the answer proves."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic as system_monotonic
from typing import Any
from zoneinfo import ZoneInfo

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    BatchTerms,
    ClaimedSubmission,
    Kind,
    Ledger,
    RefusedSubmission,
    hash_url,
    mark_url,
    unmark_url,
)
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.scraper_api import (
    BatchesNotOffered,
    CrawlScope,
    ExtractOptions,
    InvalidOptions,
    ScraperClient,
    ScraperError,
    Throttled,
)

SUBMIT_LEASE = "submit"
Request = Sequence[ClaimedSubmission]
Answer = AcceptedSubmission | RefusedSubmission | ScraperError


@dataclass
class SubmissionReport:
    """What one call of ``submit_jobs`` came to, in targets.

    ``unresolved`` rows were sent and not answered: nobody knows yet whether their jobs exist. ``limited`` is true when
    a page limit left rows planned.
    """

    accepted: int = 0
    refused: int = 0
    released: int = 0
    unresolved: int = 0
    limited: bool = False
    errors: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: "SubmissionReport") -> "SubmissionReport":
        self.accepted += other.accepted
        self.refused += other.refused
        self.released += other.released
        self.unresolved += other.unresolved
        self.limited |= other.limited
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
    on_chunk: Callable[[SubmissionReport], None] = lambda report: None,
    monotonic: Callable[[], float] = system_monotonic,
    chance: random.Random | None = None,
) -> SubmissionReport:
    """Submit what is planned and due in a partition, until nothing is left or a limit is met.

    Raises the ScraperError of the account (key, balance) at once, and that of the service if nothing of a chunk got
    through; whatever certainly made no job is planned again before. Rows whose POST may have made a job stay sending.
    """
    report = SubmissionReport()
    began = monotonic()
    chance = chance or random.Random()  # noqa: S311 (jitter)
    batches = _Batches(policy)
    while seconds is None or monotonic() - began < seconds:
        room = _room(ledger, policy, max_pages, report)
        if room is not None and room <= 0:
            report.limited = True
            break
        claimed_at = monotonic()
        chunk = await asyncio.to_thread(_claim, ledger, partition_key, policy, room, batches)
        if not chunk:
            report.limited = room is not None and ledger.submissions.has_due_crawl(partition_key)
            break
        sending = _Sending(ledger, client, policy, report, chance, batches)
        await sending.send(chunk, claimed_at + policy.send_lease)
        for request_id in sending.refused_batches:
            split_at = monotonic()
            alone = await asyncio.to_thread(ledger.submissions.split, request_id, policy.send_lease)
            await sending.send(alone, split_at + policy.send_lease)
        on_chunk(report)
    return report


@dataclass
class _Batches:
    """Whether targets go out as batches, until the service says that it has none."""

    policy: LifecyclePolicy
    are_offered: bool = True

    def terms(self, room: int | None) -> BatchTerms | None:
        if self.policy.submission_mode == "extract" or not self.are_offered:
            return None
        largest = self.policy.largest_batch if room is None else min(self.policy.largest_batch, room)
        smallest = 1 if self.policy.submission_mode == "batch" else self.policy.smallest_batch
        return BatchTerms(smallest, largest, _fit_a_batch)


def _fit_a_batch(options: Mapping[str, Any]) -> bool:
    try:
        return ExtractOptions.from_mapping(options).fit_a_batch
    except InvalidOptions:
        return False


def _claim(
    ledger: Ledger, partition_key: str, policy: LifecyclePolicy, room: int | None, batches: _Batches
) -> list[ClaimedSubmission]:
    """Pages first; a crawl only when all of them are out."""
    limit = policy.submit_chunk if room is None else min(policy.submit_chunk, room)
    claimed = ledger.submissions.claim(partition_key, limit, policy.send_lease, batches.terms(room))
    return claimed or ledger.submissions.claim_crawl(partition_key, room, policy.send_lease)


def _room(
    ledger: Ledger, policy: LifecyclePolicy, max_pages: int | None, report: SubmissionReport
) -> int | None:
    """How many more pages may be sent now; None without a limit."""
    left = pages_left_today(ledger, policy)
    if max_pages is None:
        return left
    asked = max_pages - report.accepted - report.unresolved
    return asked if left is None else min(asked, left)


def pages_left_today(ledger: Ledger, policy: LifecyclePolicy) -> int | None:
    """How many more pages the account's daily limit allows, by the configured time zone; None without a limit."""
    if policy.daily_page_limit is None:
        return None
    today = ledger.clock().astimezone(ZoneInfo(policy.timezone))
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
    return max(0, policy.daily_page_limit - ledger.submissions.pages_committed_since(midnight))


@dataclass
class _Sending:
    """Requests under way at once, and the record of what became of them."""

    ledger: Ledger
    client: ScraperClient
    policy: LifecyclePolicy
    report: SubmissionReport
    chance: random.Random
    batches: _Batches
    refused_batches: list[str] = field(default_factory=list)
    account_error: ScraperError | None = None
    failures: list[ScraperError] = field(default_factory=list)

    async def send(self, chunk: Sequence[ClaimedSubmission], deadline: float) -> None:
        """Send every request of the chunk that can end by the deadline, and record each answer as it comes."""
        requests: dict[str, list[ClaimedSubmission]] = {}
        for submission in chunk:
            requests.setdefault(submission.request_id, []).append(submission)
        answers: asyncio.Queue[tuple[Request, Answer] | None] = asyncio.Queue()
        moved_before = self._moved
        self.failures.clear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_all(list(requests.values()), deadline, answers))
                group.create_task(self._record_all(answers))
        except ExceptionGroup as several:  # the ledger failed: one reason says it all
            raise several.exceptions[0] from None
        if self.account_error:
            raise self.account_error
        if self.failures and self._moved == moved_before:
            raise self.failures[-1]

    @property
    def _moved(self) -> int:
        return self.report.accepted + self.report.refused + len(self.refused_batches)

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
        released: list[str] = []
        for request, answer in answered:
            if isinstance(answer, RefusedSubmission) and len(request) > 1:
                self.refused_batches.append(answer.request_id)  # by itself, each says what is wrong with it
            elif isinstance(answer, RefusedSubmission):
                refused.append(answer)
            elif isinstance(answer, ScraperError):
                self._note(request, answer, released)
        if accepted:
            wait = self.policy.look_delay(0, self.chance) + timedelta(seconds=self.policy.first_look)
            first_look_at = self.ledger.clock() + wait
            self.report.accepted += await asyncio.to_thread(
                self.ledger.submissions.record_accepted, accepted, first_look_at
            )
        if refused:
            self.report.refused += await asyncio.to_thread(self.ledger.submissions.record_refused, refused)
        if released:
            self.report.released += await asyncio.to_thread(self.ledger.submissions.release, released)

    def _note(self, request: Request, error: ScraperError, released: list[str]) -> None:
        if isinstance(error, BatchesNotOffered) and self.policy.submission_mode == "auto":
            self.batches.are_offered = False
            released.append(request[0].request_id)
            return
        if error.proves_no_job:
            released.append(request[0].request_id)
        else:
            self.report.unresolved += len(request)
        self.report.errors[type(error).__name__] += 1
        self.failures.append(error)


def stops_account(error: ScraperError) -> bool:
    """Whether the error concerns the whole account, and time alone does not mend it."""
    return error.scope == "account" and not isinstance(error, Throttled)


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
