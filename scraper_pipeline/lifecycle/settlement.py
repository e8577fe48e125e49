"""News becomes outcomes: a claimed job's present state is fetched, and what it proves is handed on to be committed."""

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic as system_monotonic
from time import sleep as system_sleep

from scraper_pipeline.ledger import ClaimedJob, GivenUp, JobOutcome, Kind, Ledger, LetterCode
from scraper_pipeline.lifecycle.bulk import BulkReading
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.polling import poll_jobs
from scraper_pipeline.lifecycle.resolution import resolve_lost_answers
from scraper_pipeline.lifecycle.verdicts import later, look_at
from scraper_pipeline.scraper_api import ScraperClient, ScraperError, Throttled
from scraper_pipeline.traces import traced

SETTLE_LEASE = "settle"
RESOLUTION_INTERVAL = 10.0
RESOLUTION_SECONDS = 15.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
BULK_ROUNDS = 8
OVERDUE_PATIENCE = 4  # times as long without news, while jobs wait for their turn to be looked at
_BULK = (Kind.BATCH, Kind.CRAWL)


@dataclass
class Settlement:
    """The settling of some partitions of an account: chunks to commit, each fetched when the last one was taken.

    Nothing is claimed, fetched or changed until a chunk is asked for. Whoever does so commits each chunk before asking
    for the next; one that is not committed is claimed again once its lease is over.
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
    pause: float = 0.0
    """For how many seconds nothing has to be done after a round that gave an empty chunk."""
    _next_resolution: float = float("-inf")
    _rounds_without_bulk: int = 0

    def outcomes(self) -> Iterator[Sequence[JobOutcome]]:
        """The chunks of all rounds, one after the other; raises what ``rounds`` raises."""
        with asyncio.Runner() as runner:
            rounds = self.rounds()
            try:
                while (chunk := runner.run(anext(rounds, None))) is not None:
                    if chunk:
                        yield chunk
                    else:
                        self.sleep(self.pause)
            finally:
                runner.run(rounds.aclose())

    async def rounds(self, seconds: float | None = None) -> AsyncGenerator[Sequence[JobOutcome], None]:
        """Settle until everything is, or news has been quiet for a while, or the budget of time is used up.

        An empty chunk says that there is nothing to do for ``pause`` seconds; ``seconds`` replace the policy's budget.
        Raises the ScraperError of the account at once, and that of the service if a whole chunk met nothing else and
        is not itself at fault; the jobs concerned are given back before.
        """
        holder, client = uuid.uuid4().hex, None
        budget = self.policy.drain if seconds is None else seconds
        began = last_news = self.monotonic()
        longest_pause = SHORTEST_PAUSE
        try:
            while True:
                self._beat(holder)
                claimed = self._claim((Kind.EXTRACT,), self.policy.settle_chunk)
                bulk = self._claim_bulk(is_busy=bool(claimed))
                if not (claimed or bulk) and (
                    self._is_settled() or self._is_quiet(self.monotonic() - last_news)
                ):
                    return  # nothing has to be asked, and no key to be there
                client = client or self.open_client()
                if claimed:
                    yield await self._fetch(client, claimed)
                if bulk:
                    async for chunk in self._read_bulk(client, holder, bulk[0]):
                        yield chunk
                if claimed or bulk:
                    last_news, longest_pause = self.monotonic(), SHORTEST_PAUSE
                elif not await self._gather_news(client):
                    self.pause = min(longest_pause, self._seconds_to_wait())
                    longest_pause *= 2  # where news comes in a stream, the next is near
                    yield ()
                if self.monotonic() - began >= budget:
                    return
        finally:
            if client is not None:
                self.requests_made += sum(client.requests_made.values())
                await client.aclose()
            for partition_key in self.partition_keys:
                self.ledger.leases.drop(SETTLE_LEASE, partition_key, holder)

    def _beat(self, holder: str) -> None:
        for partition_key in self.partition_keys:
            self.ledger.leases.take(SETTLE_LEASE, partition_key, holder, self.policy.run_lease, force=True)

    def _claim(self, kinds: Collection[Kind], limit: int) -> list[ClaimedJob]:
        for partition_key in self.partition_keys:
            claimed = self.ledger.outcomes.claim(partition_key, limit, self.policy.settle_lease, kinds)
            if claimed:
                return claimed
        return []

    def _claim_bulk(self, *, is_busy: bool) -> list[ClaimedJob]:
        """One at a time: reading its results takes many calls, and the claims of others would run out meanwhile.

        Where there was none, single jobs are settled for some rounds before this is asked again.
        """
        if is_busy and self._rounds_without_bulk % BULK_ROUNDS:
            self._rounds_without_bulk += 1
            return []
        claimed = self._claim(_BULK, 1)
        self._rounds_without_bulk = 0 if claimed else 1
        return claimed

    async def _read_bulk(
        self, client: ScraperClient, holder: str, job: ClaimedJob
    ) -> AsyncGenerator[Sequence[JobOutcome], None]:
        """The outcomes of a batch or crawl, a few pages of its results at a time."""
        reading = BulkReading(self.ledger, client, job, self.policy, self.chance)
        while not reading.is_over:
            try:
                outcome = await reading.next()
            except ScraperError as error:
                if error.scope == "account" and not isinstance(error, Throttled):
                    self.ledger.outcomes.release([job])
                    raise
                yield [self._undecided(job)]
                return
            yield [outcome]
            self._beat(holder)

    def _is_settled(self) -> bool:
        return all(self.ledger.progress.of(partition_key).is_settled for partition_key in self.partition_keys)

    def _is_quiet(self, seconds_without_news: float) -> bool:
        if seconds_without_news < self.policy.drain_quiet:
            return False
        is_overdue = self._seconds_until_next_look() == 0
        return not is_overdue or seconds_without_news >= OVERDUE_PATIENCE * self.policy.drain_quiet

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

    def _seconds_to_wait(self) -> float:
        """Until the next look is due, but no longer than a second: other channels bring news, too."""
        next_look = self._seconds_until_next_look()
        return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, next_look if next_look is not None else LONGEST_PAUSE))

    def _seconds_until_next_look(self) -> float | None:
        return self.ledger.news.seconds_until_next_look() if self.policy.polls else None

    @traced("fetch_outcomes")
    async def _fetch(self, client: ScraperClient, claimed: Sequence[ClaimedJob]) -> list[JobOutcome]:
        """Ask for each; what is claimed beyond as much content as one chunk may hold is given back for the next."""
        places = asyncio.Semaphore(self.policy.concurrency)
        held = 0

        async def fetch(job: ClaimedJob) -> JobOutcome | ScraperError | None:
            nonlocal held
            async with places:
                if held >= self.policy.settle_chunk_characters:
                    return None
                try:
                    outcome = await look_at(self.ledger, client, job, self.policy, self.chance)
                except ScraperError as error:
                    return error
                held += outcome.size
                return outcome

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
        self.ledger.outcomes.release(
            job for job, answer in zip(claimed, answers, strict=True) if answer is None
        )
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
        return JobOutcome(job, later(self.ledger, job, self.policy, self.chance))
