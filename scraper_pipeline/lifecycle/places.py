"""How many more jobs the account may have at work, by the service's word, asked for as seldom as will do."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import monotonic as system_monotonic

from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.spending import stops_account
from scraper_pipeline.scraper_api import ConcurrencyUsage, ScraperClient, ScraperError

_SHARE_WORTH_A_LOOK = 0.6  # of all places: so that about as many jobs go out for each look
_UNKNOWN_SECONDS = 30.0
_MOST_DOUBLINGS = 16


class Places:
    """The free places of an account, as they were last read, less what was sent since.

    Where the service does not tell them, there is no bound for a while: it refuses what is too much by itself.
    Durations are in seconds; ``read`` raises ScraperError.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[ConcurrencyUsage]],
        policy: LifecyclePolicy,
        *,
        monotonic: Callable[[], float] = system_monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: random.Random | None = None,
    ) -> None:
        self._read = read
        self._policy = policy
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance or random.Random()  # noqa: S311 (jitter)
        self._limit = self._in_use = self._sent = 0
        self._read_at = self._next_read = self._unknown_until = float("-inf")
        self._is_full = False
        self._fruitless = 0
        self.unknown_because: str | None = None
        """Why there was no bound, if that was so at some time."""

    @classmethod
    def of(
        cls,
        client: ScraperClient,
        policy: LifecyclePolicy,
        *,
        monotonic: Callable[[], float] = system_monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: random.Random | None = None,
    ) -> "Places":
        """The places of the client's account."""

        async def read() -> ConcurrencyUsage:
            return await client.get_concurrency(budget=0)

        return cls(read, policy, monotonic=monotonic, sleep=sleep, chance=chance)

    @property
    def free(self) -> int | None:
        """How many jobs may be sent without another look; None while there is no bound."""
        if self._is_full:
            return 0
        if self._monotonic() < self._unknown_until:
            return None
        return max(0, self._limit - self._in_use - self._sent)

    def note_sent(self, jobs: int) -> None:
        """So many jobs have been made, or may have been."""
        if jobs:
            self._sent += jobs
            self._fruitless = 0

    def note_refusal(self) -> None:
        """The service has refused a job for all that is at work: no place counts as free before the next look."""
        self._is_full = True
        self._next_read = self._monotonic() + self._back_off()

    async def wait(self, seconds: float | None, on_wait: Callable[[], None] = lambda: None) -> bool:
        """Wait until a job may be sent; False if the ``seconds`` were over before. Raises what stops the account.

        ``on_wait`` is called every few seconds, to keep alive whatever has to be.
        """
        end = float("inf") if seconds is None else self._monotonic() + seconds
        while self.free == 0:
            await self._sleep_until(min(end, self._next_read), on_wait)
            if self._monotonic() >= end:
                return False
            await self._look()
        return True

    async def _sleep_until(self, moment: float, on_wait: Callable[[], None]) -> None:
        longest = self._policy.run_lease / 3
        while (rest := moment - self._monotonic()) > 0:
            await self._sleep(min(rest, longest))
            if rest > longest:
                on_wait()

    async def _look(self) -> None:
        self._is_full = False
        try:
            usage = await self._read()
        except ScraperError as error:
            if stops_account(error):
                raise
            self._forget(str(error))
            return
        if usage.limit < 1 or usage.in_use < 0:
            self._forget(f"the service tells of {usage.in_use} places in use of {usage.limit}")
            return
        self._note(usage)

    def _forget(self, reason: str) -> None:
        now = self._monotonic()
        self.unknown_because = reason
        self._limit = self._in_use = self._sent = 0
        self._unknown_until = now + _UNKNOWN_SECONDS
        self._read_at, self._next_read = now, now + self._policy.usage_interval

    def _note(self, usage: ConcurrencyUsage) -> None:
        now, was_full = self._monotonic(), self._in_use >= self._limit  # as before the first look
        elapsed, ended = now - self._read_at, self._in_use + self._sent - usage.in_use
        self._limit, self._in_use, self._sent = usage.limit, usage.in_use, 0
        if usage.in_use >= usage.limit:
            wait = self._back_off()
        elif ended > 0 and not was_full:
            # At the pace at which places became free lately, enough of them will be free by then.
            wait = min(_SHARE_WORTH_A_LOOK * usage.limit / ended * elapsed, 2 * elapsed)
        else:
            wait = 0.0
        self._read_at = now
        self._next_read = now + max(self._policy.usage_interval, min(wait, self._policy.longest_usage_wait))

    def _back_off(self) -> float:
        """Exponential, with full jitter."""
        longest = self._policy.usage_interval * 2.0 ** min(self._fruitless, _MOST_DOUBLINGS)
        self._fruitless += 1
        wait = self._chance.uniform(0, min(longest, self._policy.longest_usage_wait))
        return max(self._policy.usage_interval, wait)
