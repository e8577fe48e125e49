"""Code of the product as actors: each has a client of its own, and stands still after each answer of the service."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scraper_pipeline.ledger import Kind
from scraper_pipeline.scraper_api import (
    Batch,
    BatchListing,
    BatchSummary,
    Job,
    JobListing,
    JobNotFound,
    JobSummary,
    ServerError,
)
from scraper_pipeline.scraper_api.results import read_page, read_pages
from scraper_pipeline_tests.integration.ledger.state_machine.service import MemoryService

MISSING, RUNNING, AT_REST = "missing", "running", "at rest"


@dataclass(frozen=True)
class SeenListing:
    """A listing that an actor was given: when it asked, of which kind of job, and of which time."""

    asked_at: datetime
    kind: Kind
    start: datetime | None
    end: datetime | None
    jobs: tuple[JobSummary | BatchSummary, ...]
    is_whole: bool

    def covers(self, first: datetime, last: datetime) -> bool:
        return bool(self.start and self.end and self.start <= first and last <= self.end)


class MemoryClient:
    """Speaks to a service in memory as the real client does to the real one; ``stop`` is awaited after each answer.

    It remembers what it was told: ``answers`` has the state of each job that was asked for, ``held`` the URLs that were
    seen in each batch since it was last looked at, ``troubled`` the batches of which a page failed or came empty.
    """

    def __init__(
        self, service: MemoryService, stop: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        self.service, self._stop = service, stop
        self.listings: list[SeenListing] = []
        self.answers: dict[str, str] = {}
        self.held: dict[str, set[str]] = {}
        self.troubled: set[str] = set()
        self.has_failed = False

    async def get_job(self, job_id: str, *, budget: float | None = None) -> Job:
        try:
            job = self.service.get(job_id).to_answer()
        except JobNotFound:
            await self._pause(job_id, MISSING)
            raise
        await self._pause(job_id, job.status)
        return job

    async def look_at_batch(self, job_id: str, *, budget: float | None = None) -> Batch:
        try:
            batch = self.service.batch(job_id).to_page(None)
        except JobNotFound:
            await self._pause(job_id, MISSING)
            raise
        self.held[job_id] = set()
        self.troubled.discard(job_id)
        await self._pause(job_id, AT_REST if batch.is_at_rest else RUNNING)
        return batch

    def read_batch(self, job_id: str, *, budget: float | None = None) -> AsyncIterator[Batch]:
        self.held[job_id] = set()
        self.answers.pop(job_id, None)
        return read_pages(*self._reading(job_id))

    async def read_batch_page(
        self, job_id: str, page: int, *, budget: float | None = None
    ) -> Sequence[Batch]:
        return await read_page(*self._reading(job_id), page)

    def _reading(self, job_id: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        async def get_page(page: int, page_size: int) -> Batch:
            try:
                batch = self.service.batch(job_id)
            except JobNotFound:
                await self._pause(job_id, MISSING)
                raise
            how = batch.spoiled.pop() if batch.spoiled else "whole"
            found = batch.to_page(None if how == "empty" else page)
            if how != "whole":
                self.troubled.add(job_id)
            if how == "fails":
                self.has_failed = True
                await self._pause()
                raise ServerError("It has a bad moment.", status=500)
            self.held[job_id].update(item.url for item in found.items)
            await self._pause()
            return found

        return get_page, lambda: self.look_at_batch(job_id)

    async def list_jobs(
        self,
        *,
        job_id: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 1,
        page_size: int = 100,
        budget: float | None = None,
    ) -> JobListing:
        listing = await self._list(Kind.EXTRACT, job_id, start, end)
        assert isinstance(listing, JobListing)
        return listing

    async def list_batches(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 1,
        page_size: int = 100,
        budget: float | None = None,
    ) -> BatchListing:
        listing = await self._list(Kind.BATCH, None, start, end)
        assert isinstance(listing, BatchListing)
        return listing

    async def _list(
        self, kind: Kind, job_id: str | None, start: datetime | None, end: datetime | None
    ) -> JobListing | BatchListing:
        listing = self.service.list_jobs(kind, job_id, start, end)
        is_whole = not listing.unreadable
        self.listings.append(SeenListing(self.service.clock(), kind, start, end, listing.jobs, is_whole))
        await self._pause()
        return listing

    async def _pause(self, job_id: str = "", answer: str = "") -> None:
        if job_id:
            self.answers[job_id] = answer
        if self._stop:
            await self._stop()


class Paused:
    """A call of the real code that stands still after each answer of the service, until it is let on or dropped."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        service: MemoryService,
        begin: Callable[[MemoryClient], Coroutine[Any, Any, Any]],
    ) -> None:
        self._loop, self._gate = loop, asyncio.Event()
        self._stopped = asyncio.Event()
        self.client = MemoryClient(service, self._stop)
        self._task = loop.create_task(begin(self.client))

    def go_on(self) -> bool:
        """Let it run to its next stop; whether it has come to its end. Raises what it raised."""
        self._loop.run_until_complete(self._run_to_next_stop())
        if self._task.done():
            self._task.result()
        return self._task.done()

    def drop(self) -> None:
        """Leave it where it stands, as a kill would."""
        self._task.cancel()
        self._loop.run_until_complete(asyncio.wait([self._task]))

    async def _stop(self) -> None:
        self._stopped.set()
        self._gate.clear()
        await self._gate.wait()

    async def _run_to_next_stop(self) -> None:
        self._stopped.clear()
        self._gate.set()
        stopped = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait({self._task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
