"""News becomes outcomes: a claimed job's present state is fetched, and what it proves is handed on to be committed."""

import asyncio
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic as system_monotonic
from time import sleep as system_sleep

from scraper_pipeline.ledger import (
    ClaimedJob,
    Ended,
    Failure,
    GivenUp,
    ItemOutcome,
    JobOutcome,
    Ledger,
    LetterCode,
    NotYet,
    StoredPage,
)
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.polling import poll_jobs
from scraper_pipeline.lifecycle.resolution import resolve_lost_answers
from scraper_pipeline.scraper_api import (
    AnswerTooLarge,
    Job,
    JobExpired,
    JobNotFound,
    ScraperClient,
    ScraperError,
    Throttled,
)

SETTLE_LEASE = "settle"
RESOLUTION_INTERVAL = 10.0
RESOLUTION_SECONDS = 15.0


@dataclass
class Settlement:
    """The settling of some partitions: a stream of chunks to commit, each fetched when the last one was taken.

    Nothing is claimed, fetched or changed until the stream is read. Whoever reads it commits each chunk before asking
    for the next; a chunk that is not committed is claimed again once its lease is over.
    """

    ledger: Ledger
    open_client: Callable[[], ScraperClient]
    partition_keys: Sequence[str]
    policy: LifecyclePolicy
    monotonic: Callable[[], float] = system_monotonic
    sleep: Callable[[float], object] = system_sleep
    chance: random.Random = random.Random()  # noqa: S311, RUF009 (jitter)
    requests_made: int = 0
    unresolved_because: str | None = None
    """Why lost answers could not be resolved, if so; the sensor tries again and fails loudly."""
    _next_resolution: float = float("-inf")

    def outcomes(self) -> Iterator[Sequence[JobOutcome]]:
        """Settle until everything is, or news has been quiet for a while, or the budget of time is used up.

        Raises the ScraperError of the account at once, and that of the service if a whole chunk met nothing else and
        is not itself at fault; the jobs concerned are given back before.
        """
        holder = uuid.uuid4().hex
        began = last_news = self.monotonic()
        with asyncio.Runner() as runner:
            client = self.open_client()
            try:
                while True:
                    self._beat(holder)
                    claimed = self._claim()
                    if claimed:
                        yield runner.run(self._fetch(client, claimed))
                        last_news = self.monotonic()
                    elif self._is_settled() or self.monotonic() - last_news >= self.policy.drain_quiet:
                        return
                    elif not runner.run(self._gather_news(client)):
                        self.sleep(self._pause())
                    if self.monotonic() - began >= self.policy.drain:
                        return
            finally:
                self.requests_made = sum(client.requests_made.values())
                runner.run(client.aclose())
                for partition_key in self.partition_keys:
                    self.ledger.leases.drop(SETTLE_LEASE, partition_key, holder)

    def _beat(self, holder: str) -> None:
        for partition_key in self.partition_keys:
            self.ledger.leases.take(SETTLE_LEASE, partition_key, holder, self.policy.run_lease, force=True)

    def _claim(self) -> list[ClaimedJob]:
        for partition_key in self.partition_keys:
            claimed = self.ledger.outcomes.claim(
                partition_key, self.policy.settle_chunk, self.policy.settle_lease
            )
            if claimed:
                return claimed
        return []

    def _is_settled(self) -> bool:
        return all(self.ledger.progress.of(partition_key).is_settled for partition_key in self.partition_keys)

    async def _gather_news(self, client: ScraperClient) -> bool:
        """Ask about what is due; whether there is now something to settle."""
        found = await poll_jobs(
            self.ledger, client, self.policy, monotonic=self.monotonic, chance=self.chance
        )
        if self.monotonic() >= self._next_resolution:
            self._next_resolution = self.monotonic() + RESOLUTION_INTERVAL
            await self._resolve(client)
        return found.ended + found.missing + found.overdue > 0

    async def _resolve(self, client: ScraperClient) -> None:
        """Resolve lost answers beside the settling, which goes on if that can't be done."""
        try:
            await resolve_lost_answers(
                self.ledger, client, self.policy, seconds=RESOLUTION_SECONDS, chance=self.chance
            )
        except ScraperError as error:
            if error.scope == "account" and not isinstance(error, Throttled):
                raise
            self.unresolved_because = str(error)

    def _pause(self) -> float:
        """Until the next look is due, but no longer than a second: other channels bring news, too."""
        next_look = self.ledger.news.seconds_until_next_look()
        return min(1.0, max(0.1, next_look if next_look is not None else 1.0))

    async def _fetch(self, client: ScraperClient, claimed: Sequence[ClaimedJob]) -> list[JobOutcome]:
        places = asyncio.Semaphore(self.policy.concurrency)

        async def fetch(job: ClaimedJob) -> JobOutcome | ScraperError:
            async with places:
                try:
                    return await look_at(self.ledger, client, job, self.policy, self.chance)
                except ScraperError as error:
                    return error

        answers = await asyncio.gather(*(fetch(job) for job in claimed))
        outcomes = [answer for answer in answers if isinstance(answer, JobOutcome)]
        errors = [answer for answer in answers if isinstance(answer, ScraperError)]
        fatal = next((e for e in errors if e.scope == "account" and not isinstance(e, Throttled)), None)
        if fatal or not (outcomes or await self._is_fault_of_jobs(client, claimed)):
            self.ledger.outcomes.release(claimed)
            raise fatal or errors[0]
        for job, answer in zip(claimed, answers, strict=True):
            if isinstance(answer, ScraperError):
                outcomes.append(self._undecided(job))
        return outcomes

    async def _is_fault_of_jobs(self, client: ScraperClient, claimed: Sequence[ClaimedJob]) -> bool:
        """Whether some of these jobs are past their limit and the service answers other questions."""
        if not any(is_past(self.ledger, job.accepted_at, self.policy.job_timeout) for job in claimed):
            return False
        try:
            await client.list_jobs(page_size=1)
        except ScraperError:
            return False
        return True

    def _undecided(self, job: ClaimedJob) -> JobOutcome:
        if is_past(self.ledger, job.accepted_at, self.policy.job_timeout):
            message = "The service could not be brought to a readable answer about this job in time."
            return JobOutcome(job, GivenUp(LetterCode.UNREADABLE, message))
        return JobOutcome(job, _later(self.ledger, job, self.policy, self.chance))


async def look_at(
    ledger: Ledger, client: ScraperClient, job: ClaimedJob, policy: LifecyclePolicy, chance: random.Random
) -> JobOutcome:
    """Fetch a claimed job's present state and say what it proves. Raises ScraperError where it proves nothing."""
    try:
        found = await client.get_job(job.job_id, budget=policy.settle_lease / 2)
    except JobNotFound:
        if job.missing_since is not None and is_past(ledger, job.missing_since, policy.lost_grace):
            message = f"The service has not known this job for {policy.lost_grace:g} seconds."
            return JobOutcome(job, GivenUp(LetterCode.LOST, message))
        return JobOutcome(job, _later(ledger, job, policy, chance, is_missing=True))
    except JobExpired:
        failure = Failure(LetterCode.EXPIRED, "The service no longer has this job's result.", retryable=False)
        return JobOutcome(job, Ended((ItemOutcome(job.item_key, failure),), "expired"))
    except AnswerTooLarge as error:
        failure = Failure(LetterCode.TOO_LARGE, str(error), retryable=False)
        return JobOutcome(job, Ended((ItemOutcome(job.item_key, failure),), "completed"))
    if found.is_terminal:
        item = ItemOutcome(job.item_key, _item_result(found))
        return JobOutcome(job, Ended((item,), found.status, found.completed_at))
    if is_past(ledger, job.accepted_at, policy.job_timeout):
        message = f"The job was still {found.status} after {policy.job_timeout:g} seconds."
        return JobOutcome(job, GivenUp(LetterCode.TIMED_OUT, message))
    return JobOutcome(job, _later(ledger, job, policy, chance, status=found.status))


def _item_result(job: Job) -> StoredPage | Failure:
    if job.status == "completed":
        page = job.page
        return StoredPage(
            markdown=page.markdown if page else None,
            html=page.html if page else None,
            metadata=job.metadata,
            http_status=job.http_status,
            tokens_charged=job.tokens_charged,
            completed_at=job.completed_at,
        )
    if job.error is None:
        permanent = job.status == "cancelled"
        return Failure(job.status.upper(), "The service gave no reason.", retryable=not permanent)
    return Failure(
        job.error.code,
        job.error.message,
        retryable=job.error.is_retryable,
        spends_attempt=not job.error.stops_account,
    )


def _later(
    ledger: Ledger,
    job: ClaimedJob,
    policy: LifecyclePolicy,
    chance: random.Random,
    *,
    is_missing: bool = False,
    status: str | None = None,
) -> NotYet:
    return NotYet(ledger.clock() + policy.retry_delay(job.tries, chance), is_missing, status)
