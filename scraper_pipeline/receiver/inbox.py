"""Group commit: one thread commits whatever has queued up while it made the commit before."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Protocol

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from scraper_pipeline.ledger import LedgerError
from scraper_pipeline.ledger.inbox import Delivery, QuarantinedBody
from scraper_pipeline.traces import span

logger = logging.getLogger(__name__)

LARGEST_BATCH = 1000
_SWEEP_SECONDS = 0.25
_REPORT_SECONDS = 10.0
_RETRY_SECONDS = 0.05
_REFUSALS = (
    SQLAlchemyError,
    LedgerError,
    UnicodeError,
)  # the last: a database whose encoding lacks a character


class Fate(StrEnum):
    """What became of something that was put into the inbox."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"
    UNAVAILABLE = "unavailable"
    """Not known to be durable: the sender must come again."""


class Store(Protocol):
    """Where batches are committed; every call returns only once its work is durable."""

    def commit(
        self, deliveries: Sequence[Delivery], quarantined: Sequence[QuarantinedBody]
    ) -> list[bool]: ...
    def check(self) -> None: ...


@dataclass(slots=True, eq=False)
class _Entry:
    content: Delivery | QuarantinedBody | None
    """None asks only whether the database can be reached."""
    deadline: float
    fate: "asyncio.Future[Fate]"


class Inbox:
    """Hands deliveries from the event loop to the thread that commits them, and their fate back.

    ``open_store`` is called in that thread, again and again until it succeeds, so that the database may be down when
    the receiver starts. What waits is bounded by number, and each one's wait by time.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        timeout_seconds: float,
        max_waiting: int,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._open_store = open_store
        self._timeout, self._max_waiting, self._on_batch = timeout_seconds, max_waiting, on_batch
        self._queue: SimpleQueue[list[_Entry] | None] = SimpleQueue()
        self._fresh: list[_Entry] = []  # put in this turn of the loop
        self._waiting: deque[_Entry] = deque()  # by deadline; the loop's own
        self._unresolved = 0
        self._store: Store | None = None
        self._next_report = float("-inf")
        self._is_open = False
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._write_all, name="inbox-writer", daemon=True)
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return self._unresolved

    def start(self) -> None:
        """Begin to commit; call it in the event loop whose tasks will use the inbox."""
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self._thread.start()
        self._sweep()

    async def stop(self, timeout_seconds: float) -> None:
        """Take nothing more, commit what was taken, and end the thread."""
        self._is_open = False
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, timeout_seconds)
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._give_up(list(self._waiting))

    async def put(self, content: Delivery | QuarantinedBody) -> Fate:
        """Return once this is durable, or known not to become so in time."""
        return await self._put(content)

    async def is_reachable(self) -> bool:
        """Whether the database answers, asked in the same way and with the same patience as for a commit."""
        return await self._put(None) is not Fate.UNAVAILABLE

    async def _put(self, content: Delivery | QuarantinedBody | None) -> Fate:
        if not self._is_open or self._unresolved >= self._max_waiting:
            return Fate.UNAVAILABLE
        entry = _Entry(content, time.monotonic() + self._timeout, self._loop.create_future())
        self._unresolved += 1
        self._waiting.append(entry)
        if not self._fresh:
            self._loop.call_soon(self._hand_over)
        self._fresh.append(entry)
        try:
            return await entry.fate
        finally:
            self._unresolved -= 1

    def _hand_over(self) -> None:
        """Once a turn of the loop: to wake the writer for each delivery would cost more than to commit it."""
        if self._fresh:
            fresh, self._fresh = self._fresh, []
            self._queue.put(fresh)

    def _sweep(self) -> None:
        """Give up those whose time is over, wherever they are, and forget those that have their answer."""
        now = time.monotonic()
        while self._waiting and (self._waiting[0].fate.done() or self._waiting[0].deadline <= now):
            self._give_up([self._waiting.popleft()])
        self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _give_up(self, entries: Sequence[_Entry]) -> None:
        self._resolve(entries, [Fate.UNAVAILABLE] * len(entries))

    def _resolve(self, entries: Sequence[_Entry], fates: Sequence[Fate]) -> None:
        for entry, fate in zip(entries, fates, strict=True):
            if not entry.fate.done():
                entry.fate.set_result(fate)

    # What follows runs in the writer's thread.

    def _write_all(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = self._take_batch()
            if not batch:
                continue
            try:
                fates = self._commit(batch)
            except (
                Exception
            ) as error:  # the thread must outlive any batch: without it nothing is answered any more
                self._report(error)
                fates = [Fate.UNAVAILABLE] * len(batch)
            self._on_batch(len(batch))
            self._loop.call_soon_threadsafe(self._resolve, batch, fates)

    def _take_batch(self) -> tuple[list[_Entry], bool]:
        """Everything that waits, as far as there is time left for it; True if nothing will come after it."""
        batch: list[_Entry] = []
        entries = self._queue.get()
        now = time.monotonic()
        while entries is not None:
            batch += [entry for entry in entries if entry.deadline > now]
            if len(batch) >= LARGEST_BATCH:
                return batch, False
            try:
                entries = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _commit(self, batch: Sequence[_Entry]) -> list[Fate]:
        """Try until it is done or the first of the batch has no time left."""
        while True:
            try:
                return self._commit_once(batch)
            except OperationalError as error:
                # A deadlock, a lock that wasn't free in time, a connection that died: another try may do.
                self._report(error)
                if time.monotonic() + _RETRY_SECONDS >= batch[0].deadline:
                    return [Fate.UNAVAILABLE] * len(batch)
                time.sleep(_RETRY_SECONDS)
            except _REFUSALS as error:
                self._report(error)
                if len(batch) == 1 or self._store is None:
                    return [Fate.UNAVAILABLE] * len(batch)
                middle = len(batch) // 2  # one that the database refuses must not stop the others
                return self._commit(batch[:middle]) + self._commit(batch[middle:])

    def _commit_once(self, batch: Sequence[_Entry]) -> list[Fate]:
        if self._store is None:
            self._store = self._open_store()
        deliveries = [entry.content for entry in batch if isinstance(entry.content, Delivery)]
        bodies = [entry.content for entry in batch if isinstance(entry.content, QuarantinedBody)]
        if deliveries or bodies:
            with span("commit_deliveries", deliveries=len(deliveries), quarantined=len(bodies)):
                is_news = iter(self._store.commit(deliveries, bodies))
        else:
            self._store.check()
            is_news = iter(())
        return [
            (Fate.ACCEPTED if next(is_news) else Fate.DUPLICATE)
            if isinstance(entry.content, Delivery)
            else Fate.QUARANTINED
            for entry in batch
        ]

    def _report(self, error: Exception) -> None:
        """Say it, but not for every batch of an outage; no statement and no value is in it."""
        now = time.monotonic()
        if now >= self._next_report:
            self._next_report = now + _REPORT_SECONDS
            cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            logger.warning("The inbox can't commit: %s: %s", type(error).__name__, cause)
