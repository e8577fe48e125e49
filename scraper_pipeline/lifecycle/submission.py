"""Planned targets become jobs of the service: claim, POST inside the lease, record what the answer proves."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic as system_monotonic
from zoneinfo import ZoneInfo

from scraper_pipeline.ledger import AcceptedSubmission, ClaimedSubmission, Ledger, RefusedSubmission, mark_url
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.scraper_api import (
    ExtractOptions,
    InvalidOptions,
    ScraperClient,
    ScraperError,
    Throttled,
)

SUBMIT_LEASE = "submit"
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
    while seconds is None or monotonic() - began < seconds:
        room = _room(ledger, policy, max_pages, report)
        if room <= 0:
            report.limited = True
            break
        claimed_at = monotonic()
        limit = min(policy.submit_chunk, room)
        chunk = await asyncio.to_thread(ledger.submissions.claim, partition_key, limit, policy.send_lease)
        if not chunk:
            break
        await _send_chunk(ledger, client, chunk, claimed_at + policy.send_lease, policy, report, chance)
        on_chunk(report)
    return report


def _room(ledger: Ledger, policy: LifecyclePolicy, max_pages: int | None, report: SubmissionReport) -> int:
    """How many more pages may be sent now."""
    room = policy.submit_chunk
    if max_pages is not None:
        room = min(room, max_pages - report.accepted - report.unresolved)
    left = pages_left_today(ledger, policy)
    return room if left is None else min(room, left)


def pages_left_today(ledger: Ledger, policy: LifecyclePolicy) -> int | None:
    """How many more pages the account's daily limit allows, by the configured time zone; None without a limit."""
    if policy.daily_page_limit is None:
        return None
    today = ledger.clock().astimezone(ZoneInfo(policy.timezone))
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
    return max(0, policy.daily_page_limit - ledger.submissions.pages_committed_since(midnight))


async def _send_chunk(
    ledger: Ledger,
    client: ScraperClient,
    chunk: list[ClaimedSubmission],
    deadline: float,
    policy: LifecyclePolicy,
    report: SubmissionReport,
    chance: random.Random,
) -> None:
    answers: asyncio.Queue[tuple[ClaimedSubmission, Answer] | None] = asyncio.Queue()
    places = asyncio.Semaphore(policy.concurrency)
    account_error: list[ScraperError] = []

    async def send(submission: ClaimedSubmission) -> None:
        async with places:
            if account_error:  # the rest is not hammered: it goes back as it was
                await answers.put((submission, account_error[0]))
                return
            answer = await _send(client, submission, deadline, policy)
            if (
                isinstance(answer, ScraperError)
                and answer.scope == "account"
                and not isinstance(answer, Throttled)
            ):
                account_error.append(answer)
            await answers.put((submission, answer))

    async def send_all() -> None:
        async with asyncio.TaskGroup() as group:
            for submission in chunk:
                group.create_task(send(submission))
        await answers.put(None)

    failures: list[ScraperError] = []
    accepted_before = report.accepted + report.refused
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(send_all())
            group.create_task(_record_all(ledger, answers, report, failures, policy, chance))
    except ExceptionGroup as several:  # the ledger failed: one reason says it all
        raise several.exceptions[0] from None
    if account_error:
        raise account_error[0]
    if failures and report.accepted + report.refused == accepted_before:
        raise failures[-1]


async def _send(
    client: ScraperClient, submission: ClaimedSubmission, deadline: float, policy: LifecyclePolicy
) -> Answer:
    url = mark_url(submission.url, submission.request_id) if policy.mark_urls else submission.url
    try:
        options = ExtractOptions.from_mapping(submission.options)
        accepted = await client.submit_extract(url, options, deadline=deadline)
    except InvalidOptions as error:
        return RefusedSubmission(submission.request_id, "INVALID_OPTIONS", str(error))
    except ScraperError as error:
        if error.scope == "target" and error.proves_no_job:
            return RefusedSubmission(submission.request_id, error.code or "INVALID_REQUEST", str(error))
        return error
    return AcceptedSubmission(submission.request_id, accepted.job_id)


async def _record_all(
    ledger: Ledger,
    answers: "asyncio.Queue[tuple[ClaimedSubmission, Answer] | None]",
    report: SubmissionReport,
    failures: list[ScraperError],
    policy: LifecyclePolicy,
    chance: random.Random,
) -> None:
    """Record answers as they come, in one transaction whatever came while the last one was being committed."""
    more = True
    while more:
        batch = [await answers.get()]
        while not answers.empty():
            batch.append(answers.get_nowait())
        more = None not in batch
        answered = [entry for entry in batch if entry is not None]
        accepted = [answer for _, answer in answered if isinstance(answer, AcceptedSubmission)]
        refused = [answer for _, answer in answered if isinstance(answer, RefusedSubmission)]
        failed = [(sent, answer) for sent, answer in answered if isinstance(answer, ScraperError)]
        released = [sent.request_id for sent, error in failed if error.proves_no_job]
        if accepted:
            first_look_at = (
                ledger.clock() + policy.look_delay(0, chance) + timedelta(seconds=policy.first_look)
            )
            report.accepted += await asyncio.to_thread(
                ledger.submissions.record_accepted, accepted, first_look_at
            )
        if refused:
            report.refused += await asyncio.to_thread(ledger.submissions.record_refused, refused)
        if released:
            report.released += await asyncio.to_thread(ledger.submissions.release, released)
        report.unresolved += len(failed) - len(released)
        report.errors.update(type(error).__name__ for _, error in failed)
        failures.extend(error for _, error in failed)
