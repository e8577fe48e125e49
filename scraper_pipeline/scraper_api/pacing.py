"""When a request may be made: one pace for all requests of a process, and a policy for making one again."""

import heapq
import random as random_source
import threading
import time
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
from scraper_pipeline.scraper_api.rates import LearnedRate

_MOST_DOUBLINGS = 60
_TOLERATED_LATENESS = 0.5


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
    """A place in the line of those who wait; nobody waits while there is no limit."""

    place: float


class Pacer:
    """One pace for all requests of a process, over threads and event loops.

    There is none until the service throttles for the first time. From then on requests go evenly and in the order in
    which they came, at a rate just under the limit that `LearnedRate` finds; a refused one makes everybody wait until
    the service's `Retry-After` has passed. `monotonic` must be the client's clock.
    """

    _shared: ClassVar[dict[str, "Pacer"]] = {}
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic, least_rate: float = 0.1) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._learned = LearnedRate(least_rate)
        self._paused_until = float("-inf")
        self._last_place = 0.0
        self._given_back: list[float] = []
        # The line moves on by as many places a second as the rate says: up to `_reached` at the time `_moved_at`.
        self._reached = 0.0
        self._moved_at = monotonic()

    @classmethod
    def shared(cls, account: str = "default") -> "Pacer":
        """The process's pacer for an account (a name, not its key)."""
        with cls._shared_lock:
            return cls._shared.setdefault(account, cls())

    @property
    def rate(self) -> float | None:
        """Requests a second; None while there is no limit."""
        with self._lock:
            return self._learned.value

    def reserve(self, latest: float) -> Turn | None:
        """The next turn, or None if it would come after `latest` as things stand.

        Whoever has one waits until it is due, asking again from time to time, and then begins, or else gives it back.
        """
        with self._lock:
            now = self._move_on()
            place = self._given_back[0] if self._given_back else max(self._last_place + 1.0, self._reached)
            if self._due_at(place, now) > max(now, latest):
                return None
            if self._given_back:
                heapq.heappop(self._given_back)
            else:
                self._last_place = place
            return Turn(place)

    def due_at(self, turn: Turn) -> float:
        """When it is its time, as things stand: later once the service throttles, sooner once the rate rises."""
        with self._lock:
            return self._due_at(turn.place, self._move_on())

    def begin(self, turn: Turn) -> float:
        """The request of a turn that is due goes now; returns the moment, by which the pacer knows it."""
        with self._lock:
            now = self._move_on()
            # Whoever comes late takes a place of now as well: those who were held up together don't go all at once.
            late = self._reached - turn.place
            self._reached -= min(1.0, max(0.0, late - _TOLERATED_LATENESS))
            self._learned.sent(now)
            return now

    def give_back(self, turn: Turn) -> None:
        """Nothing goes at this turn: somebody else may take it."""
        with self._lock:
            heapq.heappush(self._given_back, turn.place)

    def slow_down(self, began: float, pause: float | None) -> None:
        """The request that began then was throttled; the service asked for a `pause` in seconds, or for none."""
        with self._lock:
            now = self._move_on()
            resumes_at = max(now, self._paused_until, now + (pause or 0.0))
            self._paused_until = max(resumes_at, self._learned.refused(began, now, resumes_at))

    def speed_up(self, began: float) -> None:
        """The request that began then was answered without complaint."""
        with self._lock:
            self._move_on()
            self._learned.answered(began)

    def _move_on(self) -> float:
        """Let the line move up to the present, before anything changes its pace; returns the present."""
        now = self._monotonic()
        rate = self._learned.value
        if rate is None:
            self._reached = self._last_place
        else:
            self._reached += rate * max(0.0, now - max(self._moved_at, self._paused_until))
        self._moved_at = now
        while self._given_back and self._given_back[0] <= self._reached:
            heapq.heappop(self._given_back)  # its time has passed
        return now

    def _due_at(self, place: float, now: float) -> float:
        rate = self._learned.value
        ahead = 0.0 if rate is None else max(0.0, place - self._reached) / rate
        return max(now, self._paused_until) + ahead
