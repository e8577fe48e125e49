"""The book of batches, or of crawls: each with its pages, in memory, and the listing of them."""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import uuid4

from scraper_pipeline.sandbox.jobs import Listing, TerminalStatus, age, window
from scraper_pipeline.sandbox.requests import BatchRequest, BulkListingQuery, CrawlRequest, EventType

Kind = Literal["batch", "crawl"]


@dataclass(slots=True, eq=False)
class Item:
    """One page of a batch or crawl. Its content is not kept: `html` makes it whenever it is asked for."""

    url: str
    position: int
    """Among the job's pages, from 0."""
    begin_time: float
    """When `queued` becomes `processing`."""
    input_index: int = 0
    """In a batch, among all URLs that were sent."""
    parent_url: str | None = None
    depth: int = 1
    is_hidden: bool = False
    """No page of results shows it."""
    is_stalled: bool = False
    """Its site keeps it waiting."""

    outcome: TerminalStatus | None = None
    error_code: str | None = None
    error_message: str | None = None
    http_status: int | None = None
    duration_ms: int | None = None
    charged: int = 0
    html: Callable[[], str] | None = None
    links: tuple[str, ...] = ()

    def status(self, time: float) -> str:
        if self.outcome is not None:
            return self.outcome
        return "processing" if time >= self.begin_time else "queued"


@dataclass(eq=False)
class BulkJob:
    """One accepted batch or crawl. `*_at` are moments on the service's clock, `*_time` monotonic seconds."""

    request: BatchRequest | CrawlRequest
    ordinal: int
    created_at: datetime
    created_time: float
    listed_time: float
    site: str
    """Where the sandbox's own site is, for the pages that need no fetching."""
    job_id: str = field(default_factory=lambda: str(uuid4()))
    shown_status: str | None = None
    ends_as: TerminalStatus | None = None
    missing_until: float = 0.0
    items: list[Item] = field(default_factory=list)
    pending: dict[int, Item] = field(default_factory=dict)
    """What has not ended, by its position among the items."""
    known_urls: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    """How many items have ended in each way."""
    charged: int = 0
    is_cancelled: bool = False

    outcome: TerminalStatus | None = None
    completed_at: datetime | None = None
    completed_time: float | None = None

    @property
    def kind(self) -> Kind:
        return "batch" if isinstance(self.request, BatchRequest) else "crawl"

    @property
    def aim(self) -> str:
        """What faults are aimed at it by."""
        return self.request.aim

    @property
    def event_type(self) -> EventType:
        return "batch_completed" if self.kind == "batch" else "crawl_completed"

    @property
    def is_announced(self) -> bool:
        return True

    @property
    def packed_bytes(self) -> int:
        return 0

    def status(self, time: float) -> str:
        """The status to show. A job that was cancelled is shown so while the last of its pages are still at work."""
        if self.outcome is not None:
            return self.outcome
        if self.is_cancelled:
            return "cancelled"
        if self.shown_status is not None:
            return self.shown_status
        begun = any(item.outcome is not None or time >= item.begin_time for item in self.items)
        return "processing" if begun else "queued"

    def at_work(self, time: float) -> int:
        return sum(time >= item.begin_time for item in self.pending.values())


class BulkBook:
    """All batches, or all crawls, by id, and in the order of their creation on the service's clock."""

    def __init__(self) -> None:
        self._by_id: dict[str, BulkJob] = {}
        self._in_order: list[BulkJob] = []
        self._unfinished: dict[str, BulkJob] = {}
        self.unfinished = 0
        """Pages, of all jobs."""
        self.charged = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[BulkJob]:
        return iter(self._by_id.values())

    def get(self, job_id: str) -> BulkJob | None:
        return self._by_id.get(job_id)

    def add(self, job: BulkJob) -> None:
        self._by_id[job.job_id] = job
        self._unfinished[job.job_id] = job
        insort(self._in_order, job, key=age)

    def add_item(self, job: BulkJob, item: Item, *, has_work: bool = True) -> None:
        """Give a job one more page; without work to do it stays as it is for good."""
        if has_work:
            job.pending[item.position] = item
            self.unfinished += 1
        job.items.append(item)
        job.known_urls.add(item.url)

    def end_item(self, job: BulkJob, item: Item, outcome: TerminalStatus, *, charged: int = 0) -> None:
        """Make a page terminal; one that is already stays as it is."""
        if item.outcome is not None:
            return
        item.outcome, item.charged = outcome, charged
        job.counts[outcome] += not item.is_hidden
        job.charged += charged
        self.charged += charged
        self.unfinished -= 1
        del job.pending[item.position]

    def end(self, job: BulkJob, *, at: datetime, time: float) -> None:
        """Make a job terminal whose pages all are."""
        job.outcome = job.ends_as or ("cancelled" if job.is_cancelled else "completed")
        job.completed_at, job.completed_time = at, time
        del self._unfinished[job.job_id]

    def at_work(self, time: float) -> int:
        """Pages that have begun and not ended."""
        return sum(job.at_work(time) for job in self._unfinished.values())

    def listing(
        self, query: BulkListingQuery, *, time: float, capped_above: int | None = None
    ) -> Listing[BulkJob]:
        """One page of the jobs that match, newest first; none that the listing does not show yet."""
        found = [
            job
            for job in window(self._in_order, query.start_date, query.end_date)
            if job.listed_time <= time and query.status in (None, job.status(time))
        ]
        return Listing.of(found, page=query.page, page_size=query.page_size, capped_above=capped_above)
