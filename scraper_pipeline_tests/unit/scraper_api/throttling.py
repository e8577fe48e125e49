"""Callers, their pacers, and a service that admits so many requests a second, on a clock that nobody waits for."""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from scraper_pipeline.sandbox.limiter import RateForm, RateLimiter
from scraper_pipeline.scraper_api import Pacer

NEVER = float("inf")
Moment = float
Range = tuple[float, float]


@dataclass(frozen=True)
class Request:
    at: float
    pacer: Pacer
    is_admitted: bool


@dataclass
class Service:
    """A limit and how it is told; with a `rate` of 0 nothing is admitted at all."""

    rate: float
    form: RateForm = "bucket"
    retry_after: float | Literal["needed"] | None = 1.0
    answer_seconds: Range = (0.05, 0.3)
    refusal_seconds: Range = (0.01, 0.03)
    _limiter: RateLimiter = field(default_factory=RateLimiter)

    def ask(self, now: float) -> tuple[bool, float | None]:
        """Whether a request is admitted, and the Retry-After of its refusal."""
        wait = self._limiter.wait(self.rate, self.form, now) if self.rate else 1.0
        return wait == 0, math.ceil(wait) if self.retry_after == "needed" else self.retry_after


@dataclass
class Simulation:
    """What became of all requests, in the order in which they reached the service; it began at 0 seconds.

    With `stalls` nothing happens for so long (the second) every so many seconds (the first), as on a busy machine.
    """

    service: Service
    seed: int = 1
    stalls: Range | None = None
    now: float = 0.0
    requests: list[Request] = field(default_factory=list)
    _waiting: list[tuple[float, int, Iterator[Moment]]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def join(self, callers: int = 32, *, pause: float = 0.0) -> Pacer:
        """From now on a process more asks, with so many requests at once and a pause after each."""
        pacer = Pacer(monotonic=lambda: self.now)
        for _ in range(callers):
            heapq.heappush(self._waiting, (self.now, next(self._order), self._call(pacer, pause)))
        return pacer

    def leave(self) -> None:
        """Nobody asks any more."""
        self._waiting.clear()

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._waiting and self._waiting[0][0] <= end:
            self.now, _, caller = heapq.heappop(self._waiting)
            if (resumes_at := self._resumes_at()) > self.now:
                heapq.heappush(self._waiting, (resumes_at, next(self._order), caller))
                continue
            heapq.heappush(self._waiting, (max(self.now, next(caller)), next(self._order), caller))
        self.now = end

    def answered(self, begin: float, end: float, pacer: Pacer | None = None) -> float:
        """Answered requests a second between two moments, of one process or of all."""
        return sum(one.is_admitted for one in self._between(begin, end, pacer)) / (end - begin)

    def refused(self, begin: float, end: float) -> float:
        """The share of the requests that were refused."""
        asked = self._between(begin, end)
        return sum(not one.is_admitted for one in asked) / len(asked)

    def _resumes_at(self) -> float:
        if self.stalls is None:
            return self.now
        every, seconds = self.stalls
        began = self.now // every * every
        return began + seconds if self.now < began + seconds else self.now

    def _between(self, begin: float, end: float, pacer: Pacer | None = None) -> list[Request]:
        return [one for one in self.requests if begin <= one.at < end and pacer in (None, one.pacer)]

    def _call(self, pacer: Pacer, pause: float) -> Iterator[Moment]:
        """One request after the other, with the client's back-off; yields when it wants to go on."""
        chance, failures = self._chance, 0
        while True:
            turn = pacer.reserve(NEVER)
            assert turn is not None
            while (due_at := pacer.due_at(turn)) > self.now:
                yield min(due_at, self.now + 1.0) + chance.expovariate(1 / 0.003)
            began = pacer.begin(turn)
            yield self.now + chance.uniform(0.003, 0.01)
            is_admitted, retry_after = self.service.ask(self.now)
            self.requests.append(Request(self.now, pacer, is_admitted))
            if is_admitted:
                yield self.now + chance.uniform(*self.service.answer_seconds)
                pacer.speed_up(began)
                failures = 0
                yield self.now + pause
            else:
                yield self.now + chance.uniform(*self.service.refusal_seconds)
                pacer.slow_down(began, retry_after)
                yield self.now + max(retry_after or 0.0, chance.uniform(0.0, min(30.0, 2.0**failures)))
                failures += 1
