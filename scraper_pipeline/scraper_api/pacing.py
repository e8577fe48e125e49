"""When a request may be made: one pace for all requests of a process, and a policy for making one again."""

import random as random_source
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from scraper_pipeline.scraper_api.errors import (
    NetworkError,
    ScraperError,
    ServerError,
    Throttled,
    UnreadableAnswer,
)

_OBSERVED_SECONDS = 10.0
_MOST_DOUBLINGS = 60


@dataclass(frozen=True)
class Budget:
    """How often one class of failure may repeat within a call, and how long the call may wait because of it."""

    retries: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Waits and limits of one call, in seconds; each class of failure has a budget of its own.

    The back-off is exponential with full jitter. `total_seconds` is the hard cap on everything that a call waits for,
    throttling included.
    """

    throttling: Budget = Budget(retries=12, seconds=240.0)
    network: Budget = Budget(retries=4, seconds=60.0)
    server: Budget = Budget(retries=4, seconds=120.0)
    total_seconds: float = 300.0
    first_wait: float = 1.0
    longest_wait: float = 30.0
    longest_retry_after: float = 120.0
    connect_seconds: float = 10.0
    request_seconds: float = 60.0
    sync_request_seconds: float = 180.0
    # A POST with less time than this left is not begun; a first look always gets at least this much.
    least_request_seconds: float = 5.0

    def budget_for(self, error: ScraperError) -> Budget | None:
        """None where no repetition helps."""
        match error:
            case Throttled(status=429):
                return self.throttling
            case ServerError():
                return self.server
            case NetworkError(is_final=False) | UnreadableAnswer():
                return self.network
            case _:
                return None


class Retries:
    """What one call has used of its policy's budgets."""

    def __init__(self, policy: RetryPolicy, random: random_source.Random) -> None:
        self._policy = policy
        self._random = random
        self._failures: dict[str, int] = {}
        self._waited: dict[str, float] = {}

    def wait_after(self, error: ScraperError, remaining: float) -> float | None:
        """Seconds until the next attempt, or None if the call has to end with this error."""
        budget = self._policy.budget_for(error)
        if budget is None:
            return None
        kind = _budget_name(error)
        failures, waited = self._failures.get(kind, 0), self._waited.get(kind, 0.0)
        doubled = self._policy.first_wait * 2.0 ** min(failures, _MOST_DOUBLINGS)
        backoff = min(self._policy.longest_wait, doubled)
        wait = max(self._random.uniform(0.0, backoff), getattr(error, "retry_after", None) or 0.0)
        if failures >= budget.retries or waited + wait > budget.seconds or wait >= remaining:
            return None
        self._failures[kind] = failures + 1
        self._waited[kind] = waited + wait
        return wait


def _budget_name(error: ScraperError) -> str:
    return type(error).__name__ if isinstance(error, Throttled | ServerError) else "network"


@dataclass(frozen=True)
class Turn:
    """The moment at which one request may go, on the pacer's clock."""

    at: float
    era: int


class Pacer:
    """One pace for all requests of a process, over threads and event loops.

    There is none until the service throttles for the first time. Then the rate is halved (additive increase,
    multiplicative decrease), everybody waits until the service's `Retry-After` has passed, and successes raise the
    rate again until, at twice the rate that was too much, it is lifted. `monotonic` must be the client's clock.
    """

    _shared: ClassVar[dict[str, "Pacer"]] = {}
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        recovery_seconds: float = 60.0,
        least_rate: float = 0.1,
    ) -> None:
        self._monotonic = monotonic
        self._recovery_seconds = recovery_seconds
        self._least_rate = least_rate
        self._lock = threading.Lock()
        self._rate: float | None = None
        self._too_fast = 0.0
        self._next_free = float("-inf")
        self._paused_until = float("-inf")
        self._slowed_at = float("-inf")
        self._era = 0
        self._starts: deque[float] = deque()

    @classmethod
    def shared(cls, account: str = "default") -> "Pacer":
        """The process's pacer for an account (a name, not its key)."""
        with cls._shared_lock:
            return cls._shared.setdefault(account, cls())

    @property
    def rate(self) -> float | None:
        """Requests a second; None while there is no limit."""
        return self._rate

    def reserve(self, latest: float) -> Turn | None:
        """The next free turn, or None if it would come after `latest`.

        Whoever has waited for it asks `is_current` before going.
        """
        with self._lock:
            now = self._monotonic()
            at = max(now, self._paused_until, self._next_free)
            if at > max(now, latest):
                return None
            if self._rate is not None:
                self._next_free = at + 1.0 / self._rate
            self._starts.append(at)
            self._forget_old_starts(now)
            return Turn(at, self._era)

    def is_current(self, turn: Turn) -> bool:
        """Whether the turn still stands: none does once everybody has been told to wait."""
        return turn.era == self._era

    def slow_down(self, turn: Turn, pause: float | None) -> None:
        """The request of this turn was throttled; the service asked for a `pause` in seconds, or for none."""
        with self._lock:
            now = self._monotonic()
            # Requests that left before the last slowing-down bear no news about the present rate.
            if turn.at >= self._slowed_at:
                observed = self._observed_rate(now)
                self._too_fast = observed if self._rate is None else min(self._rate, observed)
                self._rate = max(self._least_rate, self._too_fast / 2)
                self._slowed_at = now
                self._next_free = now + 1.0 / self._rate
            self._paused_until = max(self._paused_until, now + (pause or 0.0))
            self._era += 1

    def speed_up(self) -> None:
        """A request was answered without complaint."""
        with self._lock:
            if self._rate is None:
                return
            self._rate += self._too_fast / self._recovery_seconds / self._rate
            if self._rate >= 2 * self._too_fast:
                self._rate = None
                self._next_free = float("-inf")

    def _observed_rate(self, now: float) -> float:
        self._forget_old_starts(now)
        started = sum(1 for at in self._starts if at <= now)
        return max(1, started) / max(1.0, now - self._starts[0] if started else 0.0)

    def _forget_old_starts(self, now: float) -> None:
        while self._starts and self._starts[0] < now - _OBSERVED_SECONDS:
            self._starts.popleft()
