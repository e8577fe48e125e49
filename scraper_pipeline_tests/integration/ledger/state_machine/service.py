"""The service in memory: it accepts, ends, lists, loses and finds jobs when a test says so, and keeps its books."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from scraper_pipeline.ledger import Kind, ServiceJob, hash_url
from scraper_pipeline.scraper_api import BatchListing, JobListing, JobNotFound
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import MemoryBatch, MemoryItem, MemoryJob

J = TypeVar("J", bound=MemoryJob)
Page = tuple[str, str]
"""A job and the key of one of its items."""


@dataclass
class MemoryService:
    """All jobs, in the order in which they were made."""

    clock: Callable[[], datetime]
    jobs: dict[str, MemoryJob] = field(default_factory=dict)
    hides_lines: bool = False
    """Its listings have a line that nobody can read: they prove no absence."""

    def accept(self, url: str, request_id: str | None, lag_seconds: float) -> MemoryJob:
        return self._made(MemoryJob, [url], request_id, lag_seconds)

    def accept_batch(
        self, urls: Iterable[str], request_id: str | None, lag_seconds: float, invalid: Collection[str] = ()
    ) -> MemoryBatch:
        """A batch of what is valid, shown in an order of its own."""
        valid = [url for url in sorted(urls, reverse=True) if url not in invalid]
        return self._made(MemoryBatch, valid, request_id, lag_seconds, invalid=tuple(invalid))

    def _made(
        self, kind: type[J], urls: Sequence[str], request_id: str | None, lag_seconds: float, **more: Any
    ) -> J:
        now = self.clock()
        job = kind(
            job_id=f"J{len(self.jobs) + 1:03d}",
            items=[MemoryItem(url) for url in urls],
            created_at=now,
            listed_from=now + timedelta(seconds=lag_seconds),
            made_for=request_id,
            **more,
        )
        self.jobs[job.job_id] = job
        return job

    def get(self, job_id: str) -> MemoryJob:
        job = self.jobs.get(job_id)
        if job is None or job.is_gone:
            raise JobNotFound("It knows no such job.", status=404)
        return job

    def batch(self, job_id: str) -> MemoryBatch:
        job = self.get(job_id)
        assert isinstance(job, MemoryBatch), f"{job_id} is no batch"
        return job

    def list_jobs(
        self, kind: Kind, job_id: str | None, start: datetime | None, end: datetime | None
    ) -> JobListing | BatchListing:
        now = self.clock()
        lines = [
            job.to_summary()
            for job in self.jobs.values()
            if job.kind is kind
            and not job.is_gone
            and job.listed_from <= now
            and job_id in (None, job.job_id)
            and (start is None or start <= job.created_at)
            and (end is None or job.created_at <= end)
        ]
        listing: type[BatchListing] | type[JobListing] = BatchListing if kind is Kind.BATCH else JobListing
        return listing(
            jobs=tuple(lines),  # type: ignore[arg-type]
            page_count=min(1, len(lines)),
            unreadable=int(self.hides_lines),
            service_time=now,
            requested_at=now,
            received_at=now,
        )

    def books(self, excused: set[Page]) -> list[ServiceJob]:
        """What an audit compares with; what is excused, and what others paid for, counts as free of charge."""
        return [
            ServiceJob(
                job.job_id,
                item.url,
                item.status,
                int(item.is_paid and (job.job_id, hash_url(item.url)) not in excused),
                job.kind,
            )
            for job in self.jobs.values()
            for item in job.items
        ]
