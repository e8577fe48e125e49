"""Work that falls due at its time: one task watches the clock for all of it, and a fixed number of workers do it."""

import asyncio
import heapq
from asyncio import Queue, Task
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Generic, TypeVar

from scraper_pipeline.sandbox.clock import Clock

T = TypeVar("T")


class Agenda(Generic[T]):
    """Waits for what was added, in order of time, then has it done; must be used on the event loop.

    What waits costs no task of its own. `work` must not raise.
    """

    def __init__(self, clock: Clock, work: Callable[[T], Awaitable[None]], *, workers: int) -> None:
        self._clock = clock
        self._work = work
        self._workers = workers
        self._waiting: list[tuple[float, int, T]] = []
        self._ordinals = count()
        self._ready: Queue[T] = Queue()
        self._wake = asyncio.Event()
        self._tasks: list[Task[None]] = []

    def add(self, item: T, *, at: float | None = None) -> None:
        """Have an item done at a monotonic time, or as soon as a worker is free."""
        if at is None:
            self._ready.put_nowait(item)
        else:
            heapq.heappush(self._waiting, (at, next(self._ordinals), item))
            self._wake.set()
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._watch_clock())]
            self._tasks += [asyncio.create_task(self._work_on()) for _ in range(self._workers)]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _watch_clock(self) -> None:
        while True:
            self._wake.clear()
            now = self._clock.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                self._ready.put_nowait(heapq.heappop(self._waiting)[2])
            wait = self._waiting[0][0] - now if self._waiting else None
            try:
                await asyncio.wait_for(self._wake.wait(), wait)
            except TimeoutError:
                continue

    async def _work_on(self) -> None:
        while True:
            await self._work(await self._ready.get())
