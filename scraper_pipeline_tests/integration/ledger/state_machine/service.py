"""The service in memory: it accepts, ends, lists, loses and finds jobs when a test says so, and keeps its books."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from scraper_pipeline.ledger import ServiceJob
from scraper_pipeline.scraper_api import Job, JobListing, JobNotFound, JobSummary


class Ending(Enum):
    """How a job may end: its status, and the error that it tells."""

    COMPLETED = ("completed", None)
    RETRYABLE = ("failed", {"code": "TIMEOUT", "message": "The page did not load.", "retryable": True})
    FINAL = ("failed", {"code": "PERMANENT_BLOCK", "message": "The site refuses.", "retryable": False})
    OUT_OF_BALANCE = ("failed", {"code": "PAYMENT_REQUIRED", "message": "No balance.", "retryable": True})
    CANCELLED = ("cancelled", None)

    @property
    def status(self) -> str:
        return str(self.value[0])

    @property
    def is_paid(self) -> bool:
        return self is Ending.COMPLETED


@dataclass
class MemoryJob:
    """A job as the service knows it; ``made_for`` is the request that it was paid for, None another program's."""

    job_id: str
    url: str
    created_at: datetime
    listed_from: datetime
    made_for: str | None
    ending: Ending | None = None
    is_gone: bool = False

    @property
    def status(self) -> str:
        return self.ending.status if self.ending else "processing"

    @property
    def is_paid(self) -> bool:
        return self.ending is not None and self.ending.is_paid

    def to_summary(self) -> JobSummary:
        return JobSummary(job_id=self.job_id, status=self.status, url=self.url, created_at=self.created_at)

    def to_answer(self) -> Job:
        answer: dict[str, Any] = {"job_id": self.job_id, "status": self.status}
        if self.ending:
            answer["error"] = self.ending.value[1]
        if self.is_paid:
            answer |= {"data": {"markdown": f"The page of {self.job_id}"}, "tokens_charged": 1}
        return Job.model_validate(answer)


@dataclass
class MemoryService:
    """All jobs, in the order in which they were made."""

    clock: Callable[[], datetime]
    jobs: dict[str, MemoryJob] = field(default_factory=dict)
    hides_lines: bool = False
    """Its listings have a line that nobody can read: they prove no absence."""

    def accept(self, url: str, request_id: str | None, lag_seconds: float) -> MemoryJob:
        now = self.clock()
        job_id = f"J{len(self.jobs) + 1:03d}"
        job = MemoryJob(job_id, url, now, now + timedelta(seconds=lag_seconds), request_id)
        self.jobs[job_id] = job
        return job

    def get(self, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None or job.is_gone:
            raise JobNotFound("It knows no such job.", status=404)
        return job.to_answer()

    def list_jobs(self, job_id: str | None, start: datetime | None, end: datetime | None) -> JobListing:
        now = self.clock()
        lines = [
            job.to_summary()
            for job in self.jobs.values()
            if not job.is_gone
            and job.listed_from <= now
            and job_id in (None, job.job_id)
            and (start is None or start <= job.created_at)
            and (end is None or job.created_at <= end)
        ]
        return JobListing(
            jobs=tuple(lines),
            page_count=min(1, len(lines)),
            unreadable=int(self.hides_lines),
            service_time=now,
            requested_at=now,
            received_at=now,
        )

    def books(self, excused: set[str]) -> list[ServiceJob]:
        """What an audit compares with; what is excused, and what others paid for, counts as free of charge."""
        return [
            ServiceJob(job.job_id, job.url, job.status, int(job.is_paid and job.job_id not in excused))
            for job in self.jobs.values()
        ]


@dataclass(frozen=True)
class SeenListing:
    """A listing that an actor was given: when it asked, and of which time."""

    asked_at: datetime
    start: datetime | None
    end: datetime | None
    jobs: tuple[JobSummary, ...]
    is_whole: bool

    def covers(self, first: datetime, last: datetime) -> bool:
        return bool(self.start and self.end and self.start <= first and last <= self.end)


class MemoryClient:
    """Speaks to a service in memory as the real client does to the real one; ``stop`` is awaited after each answer."""

    def __init__(
        self, service: MemoryService, stop: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        self._service, self._stop = service, stop
        self.listings: list[SeenListing] = []
        self.answers: dict[str, str] = {}

    async def get_job(self, job_id: str, *, budget: float | None = None) -> Job:
        try:
            job = self._service.get(job_id)
        except JobNotFound:
            self.answers[job_id] = "missing"
            await self._pause()
            raise
        self.answers[job_id] = job.status
        await self._pause()
        return job

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
        listing = self._service.list_jobs(job_id, start, end)
        is_whole = not listing.unreadable
        self.listings.append(SeenListing(self._service.clock(), start, end, listing.jobs, is_whole))
        await self._pause()
        return listing

    async def _pause(self) -> None:
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
