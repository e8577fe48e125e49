"""The job book: every job that was ever accepted, in memory, and the listing of them."""

import asyncio
import heapq
import zlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Generic, Literal, Protocol, TypeVar
from uuid import uuid4

from scraper_pipeline.sandbox.requests import EventType, ExtractRequest, ListingQuery

TerminalStatus = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class JobError:
    code: str
    message: str
    retryable: bool
    correlation_id: str


@dataclass(frozen=True, slots=True)
class Content:
    """A page's text, packed, since twenty thousand jobs keep theirs in memory."""

    packed: bytes

    @classmethod
    def of(cls, text: str) -> "Content":
        return cls(zlib.compress(text.encode("utf-8", "replace"), 1))

    @property
    def text(self) -> str:
        return zlib.decompress(self.packed).decode()


@dataclass(slots=True, eq=False)
class Job:
    """One accepted job. `*_at` are moments on the service's clock, `*_time` monotonic seconds."""

    ordinal: int
    request: ExtractRequest
    created_at: datetime
    created_time: float
    begin_time: float
    """When `queued` becomes `processing`."""
    listed_time: float
    job_id: str = field(default_factory=lambda: str(uuid4()))
    shown_status: str | None = None
    """What is shown instead of `queued` and `processing`."""
    missing_until: float = 0.0

    outcome: TerminalStatus | None = None
    completed_at: datetime | None = None
    completed_time: float | None = None
    error: JobError | None = None
    markdown: Content | None = None
    html: Content | None = None
    http_status: int | None = None
    duration_ms: int | None = None
    charged: int = 0
    ended: asyncio.Event | None = None
    """Set at the end, for whoever waits for a synchronous extraction."""

    @property
    def url(self) -> str:
        return self.request.url

    @property
    def aim(self) -> str:
        """What faults are aimed at it by."""
        return self.request.url

    @property
    def event_type(self) -> EventType:
        return "extract_completed"

    @property
    def is_announced(self) -> bool:
        return self.request.processing_mode == "async"

    @property
    def packed_bytes(self) -> int:
        return sum(len(content.packed) for content in (self.markdown, self.html) if content is not None)

    def status(self, time: float) -> str:
        """The status to show at a monotonic time."""
        if self.outcome is not None:
            return self.outcome
        if self.shown_status is not None:
            return self.shown_status
        return "processing" if time >= self.begin_time else "queued"


class _Dated(Protocol):
    created_at: datetime


J = TypeVar("J", bound=_Dated)


@dataclass(frozen=True, slots=True)
class Listing(Generic[J]):
    jobs: Sequence[J]
    page: int
    page_size: int
    page_count: int
    is_capped: bool

    @classmethod
    def of(cls, matches: Sequence[J], *, page: int, page_size: int, capped_above: int | None) -> "Listing[J]":
        """One page of what matches, given oldest first and listed newest first."""
        is_capped = capped_above is not None and len(matches) > capped_above
        count = capped_above if is_capped and capped_above is not None else len(matches)
        first = (page - 1) * page_size
        last = min(first + page_size, count)
        jobs = [matches[-1 - position] for position in range(first, last)]
        return cls(jobs, page, page_size, ceil(count / page_size), is_capped)


class JobBook:
    """All jobs by id, and in the order of their creation on the service's clock, which may have been set back."""

    def __init__(self) -> None:
        self._by_id: dict[str, Job] = {}
        self._by_url: dict[str, list[Job]] = {}
        self._in_order: list[Job] = []
        self._unlisted: list[tuple[float, int, Job]] = []
        self.unfinished = 0
        self.charged = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._by_id.values())

    def get(self, job_id: str) -> Job | None:
        return self._by_id.get(job_id)

    def add(self, job: Job) -> None:
        self._by_id[job.job_id] = job
        insort(self._by_url.setdefault(job.url, []), job, key=age)
        insort(self._in_order, job, key=age)
        if job.listed_time > job.created_time:
            heapq.heappush(self._unlisted, (job.listed_time, job.ordinal, job))
        self.unfinished += 1

    def end(self, job: Job, outcome: TerminalStatus, *, at: datetime, time: float, charged: int = 0) -> bool:
        """Make a job terminal; a job that is already stays as it is, and this is False."""
        if job.outcome is not None:
            return False
        job.outcome, job.completed_at, job.completed_time, job.charged = outcome, at, time, charged
        self.unfinished -= 1
        self.charged += charged
        if job.ended is not None:
            job.ended.set()
        return True

    def listing(self, query: ListingQuery, *, time: float, capped_above: int | None = None) -> Listing[Job]:
        """One page of the jobs that match, newest first; none that the listing does not show yet."""
        matches = self._matches(query, time)
        return Listing.of(matches, page=query.page, page_size=query.page_size, capped_above=capped_above)

    def _matches(self, query: ListingQuery, time: float) -> Sequence[Job]:
        if query.job_id is not None:
            job = self._by_id.get(query.job_id)
            candidates = [] if job is None else [job]
        elif query.url is not None:
            candidates = self._by_url.get(query.url, [])
        else:
            candidates = self._in_order
        found = window(candidates, query.start_date, query.end_date)
        if query.job_id is not None and query.url is not None:
            found = [job for job in found if job.url == query.url]
        if query.status is not None:
            found = [job for job in found if job.status(time) == query.status]
        if query.output is not None:
            found = [job for job in found if query.output in job.request.formats]
        if self._hides_some(time):
            found = [job for job in found if job.listed_time <= time]
        return found

    def _hides_some(self, time: float) -> bool:
        while self._unlisted and self._unlisted[0][0] <= time:
            heapq.heappop(self._unlisted)
        return bool(self._unlisted)


def age(job: _Dated) -> datetime:
    return job.created_at


def window(jobs: Sequence[J], start: datetime | None, end: datetime | None) -> Sequence[J]:
    """Those created from one time to another, both included; they come oldest first."""
    if start is None and end is None:
        return jobs
    first = 0 if start is None else bisect_left(jobs, start, key=age)
    last = len(jobs) if end is None else bisect_right(jobs, end, key=age)
    return jobs[first:last]
